//! What a model says when it calls the tool.

use bezel_session_types::{ModelRef, SessionId, ToolError};
use serde::Deserialize;
use serde_json::{Value, json};

/// A call's arguments.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Arguments {
    pub(crate) description: String,
    pub(crate) prompt: String,
    #[serde(default)]
    pub(crate) agent: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    pub(crate) session_id: Option<SessionId>,
    #[serde(default)]
    background: Option<bool>,
}

impl Arguments {
    pub(crate) fn of(arguments: &Value) -> Result<Self, ToolError> {
        let read = Arguments::deserialize(arguments).map_err(|error| {
            ToolError::failed(format!(
                "The subagent was not begun: {error}. Call it again with a description and a prompt."
            ))
        })?;
        match read.prompt.trim().is_empty() {
            true => Err(ToolError::failed(
                "The subagent was not begun: its prompt is empty. Say what it is to do and what it is to answer.",
            )),
            false => Ok(read),
        }
    }

    pub(crate) fn model(&self) -> Result<Option<ModelRef>, ToolError> {
        let Some(model) = self.model.as_deref().filter(|model| !model.is_empty()) else {
            return Ok(None);
        };
        let parsed = model.parse::<ModelRef>().map_err(|error| {
            ToolError::failed(format!(
                "The subagent was not begun: `{model}` names no model ({error}). Leave it out, and it uses yours."
            ))
        })?;
        Ok(Some(parsed))
    }

    pub(crate) fn background(&self) -> bool {
        self.background.unwrap_or_default()
    }
}

/// The JSON Schema of [`Arguments`].
pub(crate) fn parameters() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    json!({
        "type": "object",
        "properties": {
            "description": text("What it is to do, in three to six words, for the person who watches."),
            "prompt": text("The whole task: it sees nothing of this conversation. Say what it is to answer with."),
            "agent": text("Which agent works on it. Leave it out for the same as you."),
            "model": text("Which model it uses, as provider::model. Leave it out for yours."),
            "session_id": text("A subagent that you began before and that is to go on with this prompt."),
            "background": {
                "type": "boolean",
                "description": "Go on without waiting; a message says when it has ended and what it answers.",
            },
        },
        "required": ["description", "prompt"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_leaves_out_or_says_with_null_is_not_said() {
        let said = json!({ "description": "d", "prompt": "p", "agent": null, "model": null, "background": null });
        let read = Arguments::of(&said).unwrap();
        assert_eq!(
            (read.agent.clone(), read.model().unwrap(), read.background()),
            (None, None, false)
        );
        assert_eq!(
            Arguments::of(&json!({ "description": "d", "prompt": "p" })).unwrap(),
            read
        );
    }

    #[test]
    fn an_empty_prompt_and_a_name_of_no_model_are_refused_with_what_to_do() {
        let empty = Arguments::of(&json!({ "description": "d", "prompt": " \n" })).unwrap_err();
        assert!(
            empty.to_string().contains("Say what it is to do"),
            "{empty}"
        );
        let wrong =
            Arguments::of(&json!({ "description": "d", "prompt": "p", "model": "big" })).unwrap();
        let wrong = wrong.model().unwrap_err();
        assert!(
            wrong.to_string().contains("`big` names no model"),
            "{wrong}"
        );
    }
}
