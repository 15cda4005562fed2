//! A session's place among those that live in a process.

use bezel_session_types::SessionId;

use super::WorkerTree;

/// How far a session has come whose host starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Its facets are not all active: nothing is done in it, and it has nobody taken up.
    SettingUp,
    /// They are, and it goes on with what was open: what runs in it may want others.
    GoingOn,
    /// Its services can be called.
    Active,
}

/// A session's place among the hosted ones; given back when it is dropped.
pub(crate) struct Place {
    pub(super) tree: WorkerTree,
    pub(super) session_id: SessionId,
}

impl Place {
    /// The facets are active.
    pub(crate) fn goes_on(&self) {
        self.reached(Stage::GoingOn);
    }

    /// The services can be called.
    pub(crate) fn activated(&self) {
        self.reached(Stage::Active);
    }

    fn reached(&self, stage: Stage) {
        if let Some(member) = self.tree.lock().by_id.get(&self.session_id) {
            member.stage.send_replace(stage);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let left = self.tree.lock().by_id.remove(&self.session_id);
        self.tree.publish();
        // Outside of the lock: what it held may come here again when it is dropped.
        drop(left);
    }
}
