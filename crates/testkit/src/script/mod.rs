//! What a fake model answers: turns of steps, in code or as JSON.

mod turn;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

pub(crate) use turn::words;
pub use turn::{Answer, Flood, Refusal, ScriptedCall, Step, StreamFault, Turn};

use crate::ModelCall;

/// A script that is not one.
#[derive(Debug, thiserror::Error)]
#[error("the script is not valid: {0}")]
pub struct ScriptError(#[from] serde_json::Error);

type Respond = dyn Fn(&ModelCall) -> Turn + Send + Sync;

/// What a fake model answers: a queue of turns, and what comes when it is empty. Clones share the queue.
#[derive(Clone)]
pub struct Script(Arc<Inner>);

struct Inner {
    // Held only to push or pop.
    queue: Mutex<VecDeque<Turn>>,
    otherwise: Otherwise,
    key: Option<String>,
    models: Vec<String>,
}

enum Otherwise {
    Exhausted,
    Repeat(Box<Turn>),
    Respond(Box<Respond>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFile {
    #[serde(default)]
    turns: Vec<Turn>,
    #[serde(default)]
    repeat: Option<Turn>,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    models: Vec<String>,
}

impl Script {
    /// These turns, one a request; a request too many is refused and says so.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Script {
        Script::build(turns.into_iter().collect(), Otherwise::Exhausted)
    }

    /// The same turn for every request.
    pub fn repeating(turn: Turn) -> Script {
        Script::build(VecDeque::new(), Otherwise::Repeat(Box::new(turn)))
    }

    /// A turn made from each request.
    pub fn respond(respond: impl Fn(&ModelCall) -> Turn + Send + Sync + 'static) -> Script {
        Script::build(VecDeque::new(), Otherwise::Respond(Box::new(respond)))
    }

    /// Reads `{ "turns": [TURN…], "repeat": TURN?, "key": TEXT?, "models": [ID…] }`.
    pub fn from_json(text: &str) -> Result<Script, ScriptError> {
        let file: ScriptFile = serde_json::from_str(text)?;
        let otherwise = file.repeat.map_or(Otherwise::Exhausted, |turn| {
            Otherwise::Repeat(Box::new(turn))
        });
        Ok(Script(Arc::new(Inner {
            queue: Mutex::new(file.turns.into()),
            otherwise,
            key: file.key,
            models: file.models,
        })))
    }

    /// The same, refusing every request whose key is another. Call it before the script is shared.
    pub fn with_key(self, key: &str) -> Script {
        self.rebuild(|inner| inner.key = Some(key.into()))
    }

    /// The same, listing these models and refusing every other. Call it before the script is shared.
    pub fn with_models<'a>(self, models: impl IntoIterator<Item = &'a str>) -> Script {
        self.rebuild(|inner| inner.models = models.into_iter().map(Into::into).collect())
    }

    /// Adds a turn to the end of the queue.
    pub fn push(&self, turn: Turn) {
        self.queue().push_back(turn);
    }

    /// How many turns the queue still holds.
    pub fn remaining(&self) -> usize {
        self.queue().len()
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    pub(crate) fn models(&self) -> &[String] {
        &self.0.models
    }

    pub(crate) fn first_flood(&self) -> Option<Flood> {
        let queue = self.queue();
        let repeated = match &self.0.otherwise {
            Otherwise::Repeat(turn) => Some(&**turn),
            _ => None,
        };
        queue.iter().chain(repeated).find_map(|turn| match turn {
            Turn::Flood(flood) => Some(flood.clone()),
            _ => None,
        })
    }

    /// The turn for `call`. The queue comes first.
    pub(crate) fn next(&self, call: &ModelCall) -> Turn {
        if let Some(turn) = self.queue().pop_front() {
            return turn;
        }
        match &self.0.otherwise {
            Otherwise::Repeat(turn) => Turn::clone(turn),
            Otherwise::Respond(respond) => respond(call),
            Otherwise::Exhausted => {
                Turn::status(400).saying("the script has no more turns for this request")
            }
        }
    }

    fn build(queue: VecDeque<Turn>, otherwise: Otherwise) -> Script {
        Script(Arc::new(Inner {
            queue: Mutex::new(queue),
            otherwise,
            key: None,
            models: Vec::new(),
        }))
    }

    fn rebuild(self, change: impl FnOnce(&mut Inner)) -> Script {
        let mut inner = self.0;
        change(Arc::get_mut(&mut inner).expect("a script is configured before it is shared"));
        Script(inner)
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Turn>> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Turn> for Script {
    fn from(turn: Turn) -> Self {
        Script::new([turn])
    }
}

#[cfg(test)]
mod tests {
    use bezel_session_types::StopReason;

    use super::*;

    #[test]
    fn a_script_file_reads_every_kind_of_turn() {
        let script = Script::from_json(
            r#"{ "turns": [
                { "answer": { "steps": [
                    { "thinking": { "text": "hm", "signature": "s" } }, { "text": "hi" }, { "delay_ms": 5 },
                    { "tool_call": { "name": "bash", "arguments": { "command": "ls" } } },
                    "malformed", "cut", "stall", { "fault": "overloaded" } ],
                  "stop_reason": "length", "usage": { "input": 1, "output": 2, "cache_read": 3, "cache_write": 4, "reasoning": 0 } } },
                { "refuse": { "status": 429, "retry_after": "2" } },
                { "flood": { "deltas": 3, "text": "x" } } ],
              "repeat": { "refuse": { "status": 500 } }, "key": "k", "models": ["m"] }"#,
        )
        .unwrap();
        assert_eq!(script.remaining(), 3);
        assert_eq!(
            (script.key(), script.models()),
            (Some("k"), &["m".to_string()][..])
        );
        assert_eq!(
            script.first_flood(),
            Some(Flood {
                deltas: 3,
                text: "x".into(),
                a_write: 1
            })
        );
        let call = ModelCall::default();
        let Turn::Answer(answer) = script.next(&call) else {
            panic!("the first turn is an answer")
        };
        assert_eq!(
            (
                answer.steps.len(),
                answer.ends_with(),
                answer.costs().cache_write
            ),
            (8, StopReason::Length, 4)
        );
        script.next(&call);
        script.next(&call);
        assert_eq!(script.next(&call), Turn::status(500));
    }

    #[test]
    fn a_misspelt_script_says_where() {
        let error = Script::from_json(r#"{ "turns": [ { "answr": {} } ] }"#)
            .err()
            .unwrap();
        assert!(error.to_string().contains("answr"), "{error}");
    }

    #[test]
    fn words_join_to_the_text() {
        let text = "one  two\nthree ";
        assert_eq!(words(text).collect::<String>(), text);
    }
}
