//! What was sent before in a session, for going back to it.

use crate::draft::Draft;

/// How many messages are kept.
const LIMIT: usize = 200;

/// The messages of one session, and where the person is among them.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Sent from here, or cleared, oldest first.
    sent: Vec<Draft>,
    /// While browsing: what there was when it began, oldest first, and the draft that it began from.
    browsing: Option<Browsing>,
}

#[derive(Debug)]
struct Browsing {
    entries: Vec<Draft>,
    at: usize,
    draft: Draft,
}

impl History {
    /// Keeps a draft.
    pub(crate) fn add(&mut self, draft: &Draft) {
        self.browsing = None;
        if draft.is_blank() || self.sent.last() == Some(draft) {
            return;
        }
        if self.sent.len() == LIMIT {
            self.sent.remove(0);
        }
        self.sent.push(draft.clone());
    }

    /// What was sent from here with this text, with its chips.
    pub(crate) fn find(&self, text: &str) -> Option<Draft> {
        self.sent
            .iter()
            .rev()
            .find(|draft| same(draft, text))
            .cloned()
    }

    /// Whether the person looks at older messages now.
    pub(crate) fn is_browsing(&self) -> bool {
        self.browsing.is_some()
    }

    /// The person goes on with what is shown.
    pub(crate) fn stop(&mut self) {
        self.browsing = None;
    }

    /// The message before the one that is shown. `said` is what the conversation holds of the person, oldest
    /// first; `current` is kept for the way back.
    pub(crate) fn older(
        &mut self,
        current: &Draft,
        said: impl FnOnce() -> Vec<String>,
    ) -> Option<Draft> {
        let browsing = self.browsing.get_or_insert_with(|| {
            let entries = merge(said(), &self.sent);
            Browsing {
                at: entries.len(),
                entries,
                draft: current.clone(),
            }
        });
        match browsing.at.checked_sub(1) {
            Some(at) => {
                browsing.at = at;
                Some(browsing.entries[at].clone())
            }
            None => {
                if browsing.entries.is_empty() {
                    self.browsing = None;
                }
                None
            }
        }
    }

    /// The message after the one that is shown; at last the draft that browsing began from.
    pub(crate) fn newer(&mut self) -> Option<Draft> {
        let browsing = self.browsing.as_mut()?;
        browsing.at += 1;
        match browsing.entries.get(browsing.at) {
            Some(entry) => Some(entry.clone()),
            None => self.browsing.take().map(|browsing| browsing.draft),
        }
    }
}

/// What the conversation holds, then what was sent from here and is not in it.
fn merge(said: Vec<String>, sent: &[Draft]) -> Vec<Draft> {
    let mut entries: Vec<Draft> = Vec::new();
    for text in said {
        // What was sent from here is kept as it was written, with its chips.
        let own = sent.iter().find(|draft| same(draft, &text));
        let draft = own.cloned().unwrap_or_else(|| Draft::plain(&text));
        if !draft.is_blank() && entries.last() != Some(&draft) {
            entries.push(draft);
        }
    }
    let known = entries.len();
    for draft in sent {
        if !entries[..known].contains(draft) && entries.last() != Some(draft) {
            entries.push(draft.clone());
        }
    }
    entries
}

fn same(draft: &Draft, text: &str) -> bool {
    draft.expanded().trim() == text.trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_messages_come_back_and_the_draft_too() {
        let mut history = History::default();
        history.add(&Draft::plain("second"));
        history.add(&Draft::plain("third"));
        let said = || vec!["first".to_owned(), "second".to_owned()];
        let draft = Draft::plain("unfinished");
        let older: Vec<String> = std::iter::from_fn(|| history.older(&draft, said))
            .map(|draft| draft.text)
            .collect();
        assert_eq!(older, ["third", "second", "first"]);
        let newer: Vec<String> = std::iter::from_fn(|| history.newer())
            .map(|draft| draft.text)
            .collect();
        assert_eq!(newer, ["second", "third", "unfinished"]);
        assert!(!history.is_browsing());
    }

    #[test]
    fn an_empty_history_leaves_the_draft_alone() {
        let mut history = History::default();
        assert_eq!(history.older(&Draft::default(), Vec::new), None);
        assert!(!history.is_browsing() && history.newer().is_none());
    }

    #[test]
    fn a_message_with_a_long_paste_is_found_once_and_stays_short() {
        let mut history = History::default();
        let mut draft = Draft::default();
        let letter = draft.pasted(&"x\n".repeat(50));
        draft.text = letter.to_string();
        history.add(&draft);
        let said = vec!["x\n".repeat(50).trim().to_owned()];
        let found = history.older(&Draft::default(), || said).expect("one");
        assert_eq!(found.in_short(), "[pasted 50 lines]");
        assert_eq!(history.older(&Draft::default(), Vec::new), None);
    }
}
