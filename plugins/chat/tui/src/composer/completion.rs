//! What can be completed at the cursor, and the list of candidates.

use std::ops::Range;

use bezel_api_tui::{CommandEntry, Completion as Value};
use bezel_files_contract::FileMatch;
use bezel_presentation::fuzzy::{Fuzzy, Kind, Ranked};

/// Candidates that are looked for.
pub(crate) const LIMIT: usize = 40;

/// What stands at the cursor and could be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trigger {
    /// What kind of thing it is.
    pub(crate) topic: Topic,
    /// What a candidate takes the place of.
    pub(crate) range: Range<usize>,
    /// What was typed of it.
    pub(crate) query: String,
}

/// Kinds of things to complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Topic {
    /// `@path`.
    File,
    /// `/name` at the very start.
    Command,
    /// What follows the name of this command.
    Argument(String),
}

/// Something to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// What it is called.
    pub(crate) label: String,
    /// Which characters of the label matched.
    pub(crate) positions: Vec<u32>,
    /// What it means.
    pub(crate) detail: String,
    /// What takes the trigger's place.
    pub(crate) insert: String,
    /// The command that choosing it with enter runs at once.
    pub(crate) runs: Option<String>,
    /// Choosing it is only a step: more is asked for then.
    pub(crate) goes_on: bool,
    /// Whether what was typed begins one of its names. One that is merely similar runs only once it was
    /// chosen by hand.
    pub(crate) meant: bool,
}

/// The open list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) trigger: Trigger,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) selected: usize,
    /// Whether the person went to the selected candidate.
    pub(crate) by_hand: bool,
}

impl List {
    pub(crate) fn new(trigger: Trigger, candidates: Vec<Candidate>) -> Self {
        List {
            trigger,
            candidates,
            selected: 0,
            by_hand: false,
        }
    }

    /// Selects the next or previous candidate, around the ends.
    pub(crate) fn step(&mut self, by: isize) {
        let count = self.candidates.len();
        if count > 0 {
            let count = isize::try_from(count).unwrap_or(isize::MAX);
            let selected = isize::try_from(self.selected).unwrap_or(0);
            self.selected = usize::try_from((selected + by).rem_euclid(count)).unwrap_or(0);
            self.by_hand = true;
        }
    }

    pub(crate) fn chosen(&self) -> Option<&Candidate> {
        self.candidates.get(self.selected)
    }
}

/// What stands at the cursor, if it can be completed.
pub(crate) fn trigger(
    text: &str,
    cursor: usize,
    find: impl Fn(&str) -> Option<CommandEntry>,
) -> Option<Trigger> {
    let before = text.get(..cursor)?;
    if let Some(name) = before.strip_prefix('/') {
        match name.split_once(' ') {
            None if !name.contains(['\n', '/']) => {
                let end = text[cursor..]
                    .find(char::is_whitespace)
                    .map_or(text.len(), |at| cursor + at);
                return Some(Trigger {
                    topic: Topic::Command,
                    range: 0..end,
                    query: name.to_owned(),
                });
            }
            Some((name, typed)) if !typed.contains('\n') => {
                let command = find(name).filter(|command| command.completes && command.enabled);
                if let Some(command) = command {
                    let range = before.len() - typed.len()..text.len();
                    let topic = Topic::Argument(command.id.to_string());
                    return Some(Trigger {
                        topic,
                        range,
                        query: typed.trim_start().to_owned(),
                    });
                }
            }
            _ => {}
        }
    }
    let at = before.rfind('@')?;
    let query = &before[at + 1..];
    let begins = before[..at]
        .chars()
        .next_back()
        .is_none_or(|letter| letter.is_whitespace() || "([{\"'`,;:".contains(letter));
    if !begins || query.contains(char::is_whitespace) {
        return None;
    }
    let end = text[cursor..]
        .find(char::is_whitespace)
        .map_or(text.len(), |at| cursor + at);
    Some(Trigger {
        topic: Topic::File,
        range: at..end,
        query: query.to_owned(),
    })
}

/// Commands that match, best first; those whose name begins so before all others.
pub(crate) fn commands(query: &str, entries: Vec<CommandEntry>) -> Vec<Candidate> {
    let offered = |entry: &CommandEntry| entry.slash.is_some() && !entry.hidden && entry.enabled;
    let entries: Vec<CommandEntry> = entries.into_iter().filter(offered).collect();
    let name = |entry: &CommandEntry| entry.slash.as_deref().unwrap_or_default().to_owned();
    let mut fuzzy = Fuzzy::new(Kind::Text);
    let names: Vec<String> = entries.iter().map(name).collect();
    let mut ranked = fuzzy.rank(query, names.iter().map(String::as_str));
    // Then those that only the title or another name speaks for.
    let others: Vec<String> = entries
        .iter()
        .map(|entry| {
            entry
                .aliases
                .iter()
                .fold(entry.title.to_string(), |all, alias| {
                    format!("{all} {alias}")
                })
        })
        .collect();
    let by_name: Vec<usize> = ranked.iter().map(|ranked| ranked.index).collect();
    let rest = fuzzy
        .rank(query, others.iter().map(String::as_str))
        .into_iter();
    ranked.extend(
        rest.filter(|found| !by_name.contains(&found.index))
            .map(|found| Ranked {
                positions: Vec::new(),
                ..found
            }),
    );
    ranked.sort_by_key(|ranked| {
        let name = &names[ranked.index];
        (name != query, !name.starts_with(query))
    });
    let candidate = |ranked: Ranked| {
        let entry = &entries[ranked.index];
        let name = name(entry);
        let hint = match &*entry.argument_hint {
            "" => String::new(),
            hint => format!(" {hint}"),
        };
        let needs = entry.argument_hint.starts_with('<');
        Candidate {
            positions: ranked.positions.into_iter().map(|at| at + 1).collect(),
            label: format!("/{name}{hint}"),
            detail: entry.title.to_string(),
            insert: format!("/{name} "),
            runs: (!needs).then(|| entry.id.to_string()),
            goes_on: needs || entry.completes,
            meant: name.starts_with(query)
                || entry.aliases.iter().any(|alias| alias.starts_with(query)),
        }
    };
    ranked.into_iter().map(candidate).collect()
}

/// Values of an argument.
pub(crate) fn values(values: Vec<Value>) -> Vec<Candidate> {
    let candidate = |value: Value| Candidate {
        label: value.text.clone(),
        positions: Vec::new(),
        detail: value.detail,
        insert: value.text,
        runs: None,
        goes_on: false,
        meant: true,
    };
    values.into_iter().take(LIMIT).map(candidate).collect()
}

/// Files as the session found them.
pub(crate) fn files(matches: Vec<FileMatch>) -> Vec<Candidate> {
    let candidate = |found: FileMatch| {
        let slash = if found.is_directory && !found.path.ends_with('/') {
            "/"
        } else {
            ""
        };
        let path = format!("{}{slash}", found.path);
        let insert = match (path.contains(char::is_whitespace), found.is_directory) {
            (true, _) => format!("@\"{path}\" "),
            (false, true) => format!("@{path}"),
            (false, false) => format!("@{path} "),
        };
        let goes_on = found.is_directory && !path.contains(char::is_whitespace);
        Candidate {
            label: path,
            positions: found.indices,
            detail: String::new(),
            insert,
            runs: None,
            goes_on,
            meant: true,
        }
    };
    matches.into_iter().map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bezel_api_tui::CommandEntry;
    use bezel_plugin::PluginId;

    use super::*;

    fn entry(slash: &str, title: &str, hint: &str) -> CommandEntry {
        CommandEntry {
            id: format!("test.{slash}").into(),
            title: title.into(),
            description: "".into(),
            slash: Some(slash.into()),
            aliases: Vec::new(),
            argument_hint: hint.into(),
            plugin: PluginId::new("test"),
            hidden: false,
            enabled: true,
            completes: slash == "model",
        }
    }

    fn at(text: &str) -> Option<(Topic, String, String)> {
        let cursor = text.find('|').expect("a cursor");
        let text = text.replace('|', "");
        let find =
            |name: &str| (name == "model").then(|| entry("model", "Choose a model", "[model]"));
        trigger(&text, cursor, find)
            .map(|trigger| (trigger.topic, trigger.query, text[trigger.range].to_owned()))
    }

    #[test]
    fn only_what_can_be_completed_triggers() {
        let file =
            |query: &str, range: &str| Some((Topic::File, query.to_owned(), range.to_owned()));
        assert_eq!(at("see @src/ma|in now"), file("src/ma", "@src/main"));
        assert_eq!(at("@|"), file("", "@"));
        assert_eq!(at("(@a|)"), file("a", "@a)"));
        assert_eq!(at("me@example|"), None);
        assert_eq!(at("@done |"), None);
        assert_eq!(
            at("/co|"),
            Some((Topic::Command, "co".into(), "/co".into()))
        );
        assert_eq!(at("say /co|"), None);
        assert_eq!(at("/usr/li|"), None);
        assert_eq!(
            at("/model so|"),
            Some((
                Topic::Argument("test.model".into()),
                "so".into(),
                "so".into()
            ))
        );
        assert_eq!(at("/other so|"), None);
    }

    #[test]
    fn the_command_that_begins_so_comes_first() {
        let entries = vec![
            entry("export", "Write commands to a file", "<file>"),
            entry("compact", "Compact", ""),
            entry("c", "See", ""),
        ];
        let found = commands("co", entries.clone());
        assert_eq!(found[0].label, "/compact");
        assert_eq!(found[0].positions, [1, 2]);
        assert_eq!(found[0].runs.as_deref(), Some("test.compact"));
        let export = commands("exp", entries.clone());
        assert_eq!(
            (export[0].label.as_str(), export[0].runs.as_deref()),
            ("/export <file>", None)
        );
        assert_eq!(commands("c", entries)[0].label, "/c");
        let hidden = CommandEntry {
            hidden: true,
            ..entry("x", "X", "")
        };
        let off = CommandEntry {
            enabled: false,
            slash: Some(Arc::from("y")),
            ..entry("y", "Y", "")
        };
        assert!(commands("", vec![hidden, off]).is_empty());
    }

    #[test]
    fn files_are_inserted_so_that_they_can_be_read_back() {
        let found = |path: &str, is_directory| FileMatch {
            path: path.into(),
            is_directory,
            indices: vec![0],
        };
        let list = files(vec![
            found("a.rs", false),
            found("src", true),
            found("my file", false),
        ]);
        let inserts: Vec<&str> = list
            .iter()
            .map(|candidate| candidate.insert.as_str())
            .collect();
        assert_eq!(inserts, ["@a.rs ", "@src/", "@\"my file\" "]);
        assert!(list[1].goes_on && !list[0].goes_on);
    }

    #[test]
    fn the_selection_goes_around() {
        let trigger = Trigger {
            topic: Topic::Command,
            range: 0..1,
            query: String::new(),
        };
        let mut list = List::new(
            trigger,
            commands("", vec![entry("a", "A", ""), entry("b", "B", "")]),
        );
        list.step(-1);
        assert_eq!(list.selected, 1);
        list.step(1);
        assert_eq!(list.selected, 0);
    }
}
