//! The items that are known, in order, as states and pages bring them.

use std::collections::HashMap;
use std::sync::Arc;

use bezel_transcript_contract::{Item, ItemBody, TranscriptPage, TranscriptState};

use crate::entry::Entry;

/// All known items of the attached session.
#[derive(Default)]
pub(crate) struct Conversation {
    entries: Vec<Entry>,
    has_older: bool,
    pub(crate) older: Older,
    /// The state that was taken in last.
    seen: Option<Arc<TranscriptState>>,
    /// The last state of another session: not to be shown here.
    foreign: Option<Arc<TranscriptState>>,
}

/// Whether older items are being fetched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Older {
    /// Nobody asked.
    #[default]
    Idle,
    /// They are on their way.
    Loading,
    /// They did not come, and why.
    Failed(String),
}

impl Conversation {
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn entry(&mut self, index: usize) -> Option<&mut Entry> {
        self.entries.get_mut(index)
    }

    pub(crate) fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn has_older(&self) -> bool {
        self.has_older
    }

    pub(crate) fn position(&self, id: &str) -> Option<usize> {
        // What is asked for is mostly new.
        self.entries.iter().rposition(|entry| entry.id() == id)
    }

    /// Whether a state of this session was taken in.
    pub(crate) fn is_known(&self) -> bool {
        self.seen.is_some()
    }

    /// Begins with another session. What was taken in last is not taken for its state.
    pub(crate) fn switch(&mut self) {
        *self = Conversation {
            foreign: self.seen.take(),
            ..Conversation::default()
        };
    }

    /// Takes a state in. True if something changed.
    pub(crate) fn take(&mut self, state: Arc<TranscriptState>) -> bool {
        let same = |known: &Option<Arc<TranscriptState>>| {
            known
                .as_ref()
                .is_some_and(|known| Arc::ptr_eq(known, &state))
        };
        if same(&self.seen) || same(&self.foreign) {
            return false;
        }
        self.foreign = None;
        let first = state.items.first().and_then(|item| self.position(&item.id));
        match first {
            Some(first) if first > 0 => self.replace_from(first, &state.items),
            Some(_) => {
                self.replace_from(0, &state.items);
                // Pages may have told already that there is nothing older.
                self.has_older = state.has_older;
            }
            None => {
                // Nothing in common: what is known is too old to go on from, or there was nothing.
                self.entries.clear();
                self.replace_from(0, &state.items);
                self.has_older = state.has_older;
                self.older = Older::Idle;
            }
        }
        self.seen = Some(state);
        true
    }

    /// Puts older items in front. They are dropped where they do not end where the known ones begin.
    pub(crate) fn prepend(&mut self, before: &str, page: TranscriptPage) {
        self.older = Older::Idle;
        if self
            .entries
            .first()
            .is_none_or(|first| first.id() != before)
        {
            return;
        }
        self.has_older = page.has_older && !page.items.is_empty();
        let known: Vec<Item> = page
            .items
            .into_iter()
            .filter(|item| self.position(&item.id).is_none())
            .collect();
        self.entries.splice(0..0, known.into_iter().map(Entry::new));
    }

    fn replace_from(&mut self, start: usize, items: &[Item]) {
        let in_place = self.entries.len() - start <= items.len()
            && self.entries[start..]
                .iter()
                .zip(items)
                .all(|(entry, item)| entry.id() == item.id);
        if in_place {
            let known = self.entries.len() - start;
            for (entry, item) in self.entries[start..].iter_mut().zip(items) {
                entry.update(item);
            }
            self.entries
                .extend(items[known..].iter().cloned().map(Entry::new));
            return;
        }
        let old: Vec<Entry> = self.entries.drain(start..).collect();
        let order: Vec<String> = old.iter().map(|entry| entry.id().to_owned()).collect();
        let mut known: HashMap<String, Entry> = old
            .into_iter()
            .map(|entry| (entry.id().to_owned(), entry))
            .collect();
        let renamed = |place: usize, item: &Item, known: &HashMap<String, Entry>| {
            // A call gets another id when it is complete; at its place the old one is gone then.
            let before = order
                .get(place)
                .filter(|before| !items.iter().any(|item| item.id == **before))?;
            let tools = matches!(item.body, ItemBody::Tool(_))
                && matches!(known.get(before)?.item().body, ItemBody::Tool(_));
            tools.then(|| before.clone())
        };
        for (place, item) in items.iter().enumerate() {
            let entry = match known.remove(&item.id) {
                Some(mut entry) => {
                    entry.update(item);
                    entry
                }
                None => {
                    let mut entry = Entry::new(item.clone());
                    if let Some(before) =
                        renamed(place, item, &known).and_then(|before| known.remove(&before))
                    {
                        entry.succeed(&before);
                    }
                    entry
                }
            };
            self.entries.push(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::items::{call, said};

    fn state(items: Vec<Item>, has_older: bool) -> Arc<TranscriptState> {
        Arc::new(TranscriptState {
            items,
            has_older,
            settled: None,
        })
    }

    fn ids(conversation: &Conversation) -> Vec<&str> {
        conversation.entries().iter().map(Entry::id).collect()
    }

    #[test]
    fn what_the_state_drops_in_front_stays_known() {
        let mut conversation = Conversation::default();
        assert!(conversation.take(state(vec![said("a"), said("b")], true)));
        conversation.prepend(
            "a",
            TranscriptPage {
                items: vec![said("x"), said("y")],
                has_older: false,
            },
        );
        assert!(!conversation.has_older());
        conversation.take(state(vec![said("b"), said("c")], true));
        assert_eq!(ids(&conversation), ["x", "y", "a", "b", "c"]);
        assert!(!conversation.has_older());
    }

    #[test]
    fn a_page_that_does_not_fit_any_more_is_dropped() {
        let mut conversation = Conversation::default();
        conversation.take(state(vec![said("a")], true));
        conversation.older = Older::Loading;
        conversation.prepend(
            "other",
            TranscriptPage {
                items: vec![said("x")],
                has_older: false,
            },
        );
        assert_eq!(ids(&conversation), ["a"]);
        assert_eq!(conversation.older, Older::Idle);
        assert!(conversation.has_older());
    }

    #[test]
    fn a_state_with_nothing_in_common_begins_anew() {
        let mut conversation = Conversation::default();
        conversation.take(state(vec![said("a"), said("b")], false));
        conversation.take(state(vec![said("m"), said("n")], true));
        assert_eq!(ids(&conversation), ["m", "n"]);
        assert!(conversation.has_older());
    }

    #[test]
    fn another_session_starts_empty_and_the_old_state_does_not_come_back() {
        let mut conversation = Conversation::default();
        let old = state(vec![said("a")], false);
        conversation.take(Arc::clone(&old));
        conversation.switch();
        assert!(conversation.is_empty() && !conversation.is_known());
        assert!(!conversation.take(old));
        assert!(conversation.take(state(Vec::new(), false)));
        assert!(conversation.is_known());
    }

    #[test]
    fn a_call_stays_open_when_it_gets_its_final_id() {
        let mut conversation = Conversation::default();
        conversation.take(state(vec![said("a"), call("draft:0", "bash")], false));
        conversation.entry(1).expect("the call").toggle(false);
        conversation.take(state(vec![said("a"), call("final", "bash")], false));
        assert_eq!(ids(&conversation), ["a", "final"]);
        assert!(conversation.entries()[1].is_open(false));
    }

    #[test]
    fn items_may_go_and_change() {
        let mut conversation = Conversation::default();
        conversation.take(state(vec![said("a"), said("b"), said("c")], false));
        let mut changed = said("b");
        if let ItemBody::User { text, .. } = &mut changed.body {
            *text = "changed".into();
        }
        conversation.take(state(vec![said("a"), changed.clone()], false));
        assert_eq!(ids(&conversation), ["a", "b"]);
        assert_eq!(*conversation.entries()[1].item(), changed);
    }
}
