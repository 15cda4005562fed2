//! What changes in sessions that are there.

use bezel_api_server::{Commit, FleetError, ManagedSession};
use bezel_context::Context;
use bezel_session_types::{PermissionMode, SessionId};

use super::HostFleet;
use crate::records::{Record, shortened};

impl HostFleet {
    /// A mode never lets a session do more than the one that began it, and narrows those that it began.
    pub(super) async fn mode_switched(
        self,
        cx: Context,
        session_id: SessionId,
        mode: PermissionMode,
    ) -> Result<ManagedSession, FleetError> {
        let records = &self.records;
        let known = |id: &SessionId| records.get(id);
        let parent = known(&session_id).and_then(|session| known(&session.parent_id?));
        if let Some(parent) = parent.filter(|parent| parent.permission_mode < mode) {
            return Err(FleetError::Invalid(format!(
                "a session may do no more unasked than the one that began it, which is in mode {}; widen that one's first",
                parent.permission_mode.as_str()
            )));
        }
        // What it began first: a crash leaves nothing wider than what it is a part of.
        for child in records.descendants(&session_id) {
            let narrow = |record: &mut Record| {
                record.permission_mode = record.permission_mode.min(mode);
            };
            records.update(&cx, &child, narrow).await?;
        }
        let change = |record: &mut Record| record.permission_mode = mode;
        records.update(&cx, &session_id, change).await
    }

    pub(super) async fn committed(
        &self,
        cx: &Context,
        session_id: SessionId,
        commit: Commit,
    ) -> Result<(), FleetError> {
        let title = commit
            .title
            .as_deref()
            .map(shortened)
            .filter(|title| !title.is_empty());
        let session = self.known(&session_id)?;
        let touched = self.records.commit(cx, &session_id, &commit);
        if commit.running && self.records.is_archived(&session_id) {
            // Nothing runs out of sight.
            let (records, cx, id) = (self.records.clone(), cx.clone(), session_id.clone());
            let taken_back = async move { records.unarchive(&cx, &id).await.map(|_| ()) };
            self.whole("take session back", taken_back).await?;
        }
        let (records, cx, id) = (self.records.clone(), cx.clone(), session_id);
        match title.filter(|_| session.title.is_empty()) {
            Some(title) => {
                let titled = async move {
                    let change = |record: &mut Record| {
                        if record.title.is_empty() {
                            record.title.clone_from(&title);
                        }
                    };
                    records.update(&cx, &id, change).await.map(|_| ())
                };
                self.whole("title session", titled).await
            }
            // The time of the last change is worth no wait: the next change writes it again.
            None if touched => {
                drop(self.spawner.spawn("touch session", async move {
                    if let Err(error) = records.persist(&id).await {
                        tracing::warn!(session = %id, %error, "the time of a session's last change is not on record");
                    }
                }));
                Ok(())
            }
            None => Ok(()),
        }
    }
}
