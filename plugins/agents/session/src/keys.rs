//! The keys of a definition: Bezel's own words, and those of other programs for the same things where they have
//! another name for them.

use std::num::NonZeroU32;

use bezel_agents_contract::AgentMode;
use bezel_permissions_contract::{Rule, Wildcard};
use bezel_session_types::{ModelRef, PermissionMode, ThinkingLevel};

use crate::nearest::nearest;
use crate::permissions;
use crate::tools::ToolFilter;
use crate::yaml::{Member, Node, Placed, Wrong};

/// The keys that there are.
const KEYS: &[&str] = &[
    "name",
    "description",
    "mode",
    "model",
    "thinking",
    "steps",
    "tools",
    "disallowed_tools",
    "permission_mode",
    "permissions",
    "disable",
];

/// Keys of other programs that mean nothing here: named, and passed over.
const FOREIGN: &[&str] = &[
    "background",
    "color",
    "effort",
    "hidden",
    "hooks",
    "isolation",
    "mcpServers",
    "memory",
    "reasoningEffort",
    "skills",
    "temperature",
    "textVerbosity",
    "top_p",
    "variant",
];

/// A definition while it is read.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) name: Option<(String, u32)>,
    pub(crate) description: String,
    pub(crate) mode: AgentMode,
    pub(crate) model: Option<ModelRef>,
    pub(crate) thinking: Option<ThinkingLevel>,
    pub(crate) steps: Option<NonZeroU32>,
    pub(crate) tools: Option<ToolFilter>,
    /// Tools that are taken away again.
    pub(crate) without: Vec<(Wildcard, bool)>,
    pub(crate) permission_mode: Option<PermissionMode>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) disabled: bool,
    pub(crate) notes: Vec<Wrong>,
}

impl Reading {
    /// Takes a key. What is wrong ends the reading of the file.
    pub(crate) fn take(&mut self, member: Member) -> Result<(), Wrong> {
        let Member { key, line, value } = member;
        match key.as_str() {
            "name" => self.name = Some((text(&key, &value)?.to_owned(), value.line)),
            "description" => self.description = one_line(text(&key, &value)?),
            "mode" => self.mode = word(&key, &value, MODES)?,
            "model" => self.model = self.model(&key, &value)?,
            "thinking" => self.thinking = Some(word(&key, &value, THINKING)?),
            "steps" | "maxSteps" | "max_steps" | "maxTurns" => {
                self.steps = Some(count(&key, &value)?);
            }
            "tools" => self.tools = Some(tools(&key, &value)?),
            "disallowed_tools" | "disallowedTools" => {
                let names = names(&key, &value)?;
                self.without = names.into_iter().map(|name| (name, false)).collect();
            }
            "permission_mode" | "permissionMode" => {
                self.permission_mode = Some(word(&key, &value, PERMISSION_MODES)?);
            }
            "permissions" | "permission" => self.rules = permissions::read(&key, &value)?,
            "disable" => match value.node {
                Node::Flag(disabled) => self.disabled = disabled,
                _ => return Err(unfit(&key, &value, "`true` or `false`")),
            },
            foreign if FOREIGN.contains(&foreign) => self.notes.push(Wrong {
                line,
                message: format!("`{foreign}` has no effect here"),
            }),
            unknown => {
                return Err(Wrong {
                    line,
                    message: format!("`{unknown}` is not a key of an agent{}", meant(unknown)),
                });
            }
        }
        Ok(())
    }

    /// A model with its provider. A word alone, as other programs have them, names none.
    fn model(&mut self, key: &str, value: &Placed) -> Result<Option<ModelRef>, Wrong> {
        let named = text(key, value)?;
        if named == "inherit" {
            return Ok(None);
        }
        let spelled = match named.split_once('/') {
            Some((provider, model)) if !named.contains("::") => format!("{provider}::{model}"),
            _ => named.to_owned(),
        };
        if let Ok(model) = spelled.parse() {
            return Ok(Some(model));
        }
        self.notes.push(Wrong {
            line: value.line,
            message: format!(
                "`{named}` names no provider, so the session's own model serves; write PROVIDER::MODEL, `bezel models` \
                 lists what there is"
            ),
        });
        Ok(None)
    }
}

const MODES: &[(&str, AgentMode)] = &[
    ("primary", AgentMode::Primary),
    ("subagent", AgentMode::Subagent),
    ("all", AgentMode::All),
];

const THINKING: &[(&str, ThinkingLevel)] = &[
    ("off", ThinkingLevel::Off),
    ("low", ThinkingLevel::Low),
    ("medium", ThinkingLevel::Medium),
    ("high", ThinkingLevel::High),
];

const PERMISSION_MODES: &[(&str, PermissionMode)] = &[
    ("plan", PermissionMode::Plan),
    ("ask", PermissionMode::Ask),
    ("accept-edits", PermissionMode::AcceptEdits),
    ("auto", PermissionMode::Auto),
    ("full", PermissionMode::Full),
    ("default", PermissionMode::Ask),
    ("acceptEdits", PermissionMode::AcceptEdits),
    ("bypassPermissions", PermissionMode::Full),
];

/// How many of the permission modes are Bezel's own words.
const OWN: usize = 5;

/// One of a few words.
fn word<T: Copy>(key: &str, value: &Placed, words: &[(&str, T)]) -> Result<T, Wrong> {
    let given = match &value.node {
        Node::Text(text) => text.as_str(),
        // What YAML 1.1 takes for a flag.
        Node::Flag(false) => "off",
        _ => return Err(unfit(key, value, "a word")),
    };
    let found = words.iter().find(|(word, _)| *word == given);
    found.map(|(_, meant)| *meant).ok_or_else(|| {
        let own: Vec<&str> = words.iter().take(OWN).map(|(word, _)| *word).collect();
        Wrong {
            line: value.line,
            message: format!(
                "`{key}` cannot be `{given}`; it is one of: {}",
                own.join(", ")
            ),
        }
    })
}

/// A number of something, one at least.
fn count(key: &str, value: &Placed) -> Result<NonZeroU32, Wrong> {
    let Node::Number(number) = value.node else {
        return Err(unfit(key, value, "a number"));
    };
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.and_then(NonZeroU32::new).ok_or_else(|| Wrong {
        line: value.line,
        message: format!("`{key}` takes a whole number from 1 to {}", u32::MAX),
    })
}

/// A list of names that are allowed, or names and whether they are.
fn tools(key: &str, value: &Placed) -> Result<ToolFilter, Wrong> {
    let Node::Map(members) = &value.node else {
        let names = names(key, value)?;
        return Ok(ToolFilter {
            otherwise: false,
            entries: names.into_iter().map(|name| (name, true)).collect(),
        });
    };
    let entry = |member: &Member| match member.value.node {
        Node::Flag(allowed) => Ok((name(&member.key, member.line)?, allowed)),
        _ => Err(unfit(&member.key, &member.value, "`true` or `false`")),
    };
    Ok(ToolFilter {
        otherwise: true,
        entries: members.iter().map(entry).collect::<Result<_, _>>()?,
    })
}

/// Names as a list, or in one text with commas between them.
fn names(key: &str, value: &Placed) -> Result<Vec<Wildcard>, Wrong> {
    match &value.node {
        Node::List(items) => items
            .iter()
            .map(|item| name(text(key, item)?, item.line))
            .collect(),
        Node::Text(listed) => listed
            .split(',')
            .map(str::trim)
            .filter(|one| !one.is_empty())
            .map(|one| name(one, value.line))
            .collect(),
        _ => Err(unfit(key, value, "a list of names of tools")),
    }
}

/// The name of a tool, with wildcards.
fn name(given: &str, line: u32) -> Result<Wildcard, Wrong> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-*?".contains(letter);
    match !given.is_empty() && given.chars().all(fits) {
        true => Ok(Wildcard::new(&given.to_lowercase())),
        false => Err(Wrong {
            line,
            message: format!(
                "`{given}` is not the name of a tool; what it may be used on is said by `permissions`"
            ),
        }),
    }
}

/// A text that is there.
pub(crate) fn text<'a>(key: &str, value: &'a Placed) -> Result<&'a str, Wrong> {
    match &value.node {
        Node::Text(text) if !text.trim().is_empty() => Ok(text.trim()),
        _ => Err(unfit(key, value, "a text")),
    }
}

/// What a value should be.
pub(crate) fn unfit(key: &str, value: &Placed, wanted: &str) -> Wrong {
    Wrong {
        line: value.line,
        message: format!("`{key}` takes {wanted}, and here is {}", value.node.kind()),
    }
}

/// A description is shown in lists.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A key that an unknown one is a slip of, or all of them.
fn meant(unknown: &str) -> String {
    match nearest(KEYS.iter().copied(), &unknown.to_lowercase()) {
        Some(key) => format!("; did you mean `{key}`?"),
        None => format!("; there are {}", KEYS.join(", ")),
    }
}
