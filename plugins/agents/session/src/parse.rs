//! From the text of a file to an agent, or to what is wrong in it.

use std::path::Path;

use bezel_agents_contract::{AgentDefinition, AgentSource};

use crate::definition::Definition;
use crate::keys::Reading;
use crate::yaml::{self, Wrong};

/// The longest name.
const LONGEST_NAME: usize = 64;

/// What a file says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parsed {
    /// The agent; none where the file says that there is none of this name.
    pub(crate) agent: Agent,
    /// What of it has no effect.
    pub(crate) notes: Vec<Wrong>,
}

/// An agent that is there, or that is not to be there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Agent {
    /// It is there.
    Defined(Box<Definition>),
    /// `disable: true`: there is none of this name.
    Disabled(String),
}

/// Reads the text of a definition. `stem` is the file's name without its ending.
pub(crate) fn parse(text: &str, stem: &str, source: AgentSource) -> Result<Parsed, Wrong> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (head, body) = split(text)?;
    // The first line is the `---` above it.
    let members = yaml::read(head).map_err(|wrong| below(wrong, 1))?;
    let mut reading = Reading::default();
    for member in members {
        reading.take(member).map_err(|wrong| below(wrong, 1))?;
    }
    let (name, line) = match reading.name.take() {
        Some((name, line)) => (name, line + 1),
        None => (stem.to_owned(), 1),
    };
    if !is_name(&name) {
        return Err(Wrong {
            line,
            message: format!(
                "`{name}` is not the name of an agent: 1 to {LONGEST_NAME} of a-z, 0-9 and `-`; without `name:` it is \
                 that of the file"
            ),
        });
    }
    let notes = std::mem::take(&mut reading.notes);
    let notes = notes.into_iter().map(|note| below(note, 1)).collect();
    if reading.disabled {
        return Ok(Parsed {
            agent: Agent::Disabled(name),
            notes,
        });
    }
    let public = AgentDefinition {
        name,
        description: reading.description,
        mode: reading.mode,
        model: reading.model,
        thinking: reading.thinking,
        permission_mode: reading.permission_mode,
        prompt: body.trim().to_owned(),
        source,
    };
    let mut tools = reading.tools.unwrap_or_default();
    tools.entries.extend(reading.without);
    Ok(Parsed {
        agent: Agent::Defined(Box::new(Definition {
            public,
            steps: reading.steps,
            tools,
            rules: reading.rules,
        })),
        notes,
    })
}

/// What a file's name without its ending stands for.
pub(crate) fn stem(file: &Path) -> &str {
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or_default()
}

/// The part between the two lines of dashes, and what follows.
fn split(text: &str) -> Result<(&str, &str), Wrong> {
    let is_dashes = |line: &str| line.trim_end() == "---";
    let first = text.split_inclusive('\n').next().unwrap_or_default();
    if !is_dashes(first) {
        return Err(Wrong {
            line: 1,
            message: "a definition begins with a line `---`, then keys such as `description: What it is for`, then \
                      another line `---` and the prompt"
                .to_owned(),
        });
    }
    let head = &text[first.len()..];
    let mut end = 0;
    for line in head.split_inclusive('\n') {
        if is_dashes(line) {
            return Ok((&head[..end], &head[end + line.len()..]));
        }
        end += line.len();
    }
    Err(Wrong {
        line: 1,
        message: "the keys do not end: put a line `---` between them and the prompt".to_owned(),
    })
}

fn below(wrong: Wrong, lines: u32) -> Wrong {
    Wrong {
        line: wrong.line.saturating_add(lines),
        ..wrong
    }
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests;
