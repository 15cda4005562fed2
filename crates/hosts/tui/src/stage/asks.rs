//! What waits for the person's answer: one question at a time, in order of asking.

use std::sync::{Arc, Mutex};

use bezel_api_tui::backend::{OwnerId, ViewId};

use crate::dialogs::AskState;

/// A question that was not answered yet.
struct Waiting {
    owner: OwnerId,
    id: ViewId,
    /// What is written and selected stays while the question is put aside.
    state: Arc<Mutex<AskState>>,
    aside: bool,
}

/// All of them.
#[derive(Default)]
pub(super) struct Asks(Vec<Waiting>);

impl Asks {
    pub(super) fn add(&mut self, owner: OwnerId, id: ViewId, state: AskState) {
        self.0.push(Waiting {
            owner,
            id,
            state: Arc::new(Mutex::new(state)),
            aside: false,
        });
    }

    /// It was answered, here or elsewhere, or taken back.
    pub(super) fn remove(&mut self, id: ViewId) {
        self.0.retain(|waiting| waiting.id != id);
    }

    pub(super) fn remove_owner(&mut self, owner: &OwnerId) {
        self.0.retain(|waiting| waiting.owner != *owner);
    }

    /// Puts all aside that wait now: whoever wants to see the screen does not want the next question.
    pub(super) fn put_aside(&mut self) {
        self.0.iter_mut().for_each(|waiting| waiting.aside = true);
    }

    /// Lets all come again. False where none waits.
    pub(super) fn bring_back(&mut self) -> bool {
        for waiting in &mut self.0 {
            waiting.aside = false;
            AskState::lock(&waiting.state).asked_for();
        }
        !self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The one to show next.
    pub(super) fn next(&self) -> Option<(OwnerId, ViewId, Arc<Mutex<AskState>>)> {
        let next = self.0.iter().find(|waiting| !waiting.aside)?;
        Some((next.owner.clone(), next.id, Arc::clone(&next.state)))
    }
}
