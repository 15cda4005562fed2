//! The tools as a wire format writes them, kept from one request to the next.

use std::sync::{Arc, Mutex, PoisonError};

use bezel_session_types::ToolDefinition;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// The tools of the last request in the JSON of one wire format. They are most of a short request and change
/// seldom, so they are written again only where they are others.
#[derive(Default)]
pub(crate) struct WrittenTools(Mutex<Option<Written>>);

struct Written {
    // Held, so that no other list can come to stand at its address.
    tools: Arc<[ToolDefinition]>,
    json: Arc<RawValue>,
}

impl WrittenTools {
    /// What `write` makes of `tools`, as JSON; nothing where there are none.
    pub(crate) fn json<'t, T: Serialize>(
        &self,
        tools: &'t Arc<[ToolDefinition]>,
        write: impl FnOnce(&'t [ToolDefinition]) -> T,
    ) -> Result<Option<Arc<RawValue>>, serde_json::Error> {
        if tools.is_empty() {
            return Ok(None);
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(written) = &*kept
            && Arc::ptr_eq(&written.tools, tools)
        {
            return Ok(Some(Arc::clone(&written.json)));
        }
        let json: Arc<RawValue> = to_raw_value(&write(tools))?.into();
        *kept = Some(Written {
            tools: Arc::clone(tools),
            json: Arc::clone(&json),
        });
        Ok(Some(json))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(name: &str) -> Arc<[ToolDefinition]> {
        Arc::new([ToolDefinition {
            name: name.into(),
            description: "d".into(),
            parameters: Arc::default(),
        }])
    }

    #[test]
    fn the_same_tools_are_written_once_and_others_anew() {
        let written = WrittenTools::default();
        let names = |tools: &[ToolDefinition]| tools[0].name.to_string();
        let (first, second) = (tools("a"), tools("b"));
        for _ in 0..2 {
            let json = written.json(&first, names).unwrap().unwrap();
            assert_eq!(json.get(), "\"a\"");
        }
        let again = written.json(&first, |_| unreachable!("they are written") as u8);
        assert_eq!(again.unwrap().unwrap().get(), "\"a\"");
        assert_eq!(
            written.json(&second, names).unwrap().unwrap().get(),
            "\"b\""
        );
        assert!(written.json(&Arc::from([]), names).unwrap().is_none());
    }
}
