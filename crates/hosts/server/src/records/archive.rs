//! Putting sessions away, and taking them back.

use bezel_api_server::{FleetError, ManagedSession};
use bezel_context::Context;
use bezel_session_types::SessionId;

use super::{Records, Write};

impl Records {
    /// Whether a session is put away.
    pub(crate) fn is_archived(&self, session_id: &SessionId) -> bool {
        self.get(session_id)
            .is_some_and(|session| session.archived_at.is_some())
    }

    /// Puts the session and all that it began away, in one write. One in which something runs stays.
    pub(crate) async fn archive(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<ManagedSession, FleetError> {
        let _line = self.0.line.lock().await;
        let mut family = vec![session_id.clone()];
        family.extend(self.descendants(session_id));
        let refused = |running: SessionId| {
            FleetError::Invalid(format!(
                "something runs in session {running}: interrupt it, or wait for it to end, and archive the session then"
            ))
        };
        if let Some(running) = self.running(&family) {
            return Err(refused(running));
        }
        let archived = self.put(cx, session_id, &family, true).await?;
        match self.running(&family) {
            None => Ok(archived),
            // It began meanwhile, and whoever told of that saw a session that was not put away yet.
            Some(running) => {
                self.put(cx, session_id, &family, false).await?;
                Err(refused(running))
            }
        }
    }

    /// Takes the session back, with what it began and what it is a part of, in one write.
    pub(crate) async fn unarchive(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<ManagedSession, FleetError> {
        let _line = self.0.line.lock().await;
        let mut family = self.ancestors(session_id);
        family.push(session_id.clone());
        family.extend(self.descendants(session_id));
        self.put(cx, session_id, &family, false).await
    }

    /// Changes what is not so already; when somebody last worked there is no matter of this. The caller holds
    /// the line.
    async fn put(
        &self,
        cx: &Context,
        session_id: &SessionId,
        family: &[SessionId],
        archived: bool,
    ) -> Result<ManagedSession, FleetError> {
        let at = archived.then(|| self.0.clock.now());
        let records: Vec<_> = {
            let memory = self.0.lock();
            let known = family.iter().filter_map(|id| memory.sessions.get(id));
            known
                .filter(|entry| entry.record.archived_at.is_some() != archived)
                .map(|entry| {
                    let mut record = entry.record.clone();
                    record.archived_at = at;
                    record
                })
                .collect()
        };
        if !records.is_empty() {
            let writes = records.iter().cloned().map(Write::Session).collect();
            self.write(writes).await?;
        }
        for record in records {
            self.0.change(cx, &record.session_id, |entry| {
                entry.record.archived_at = at;
                true
            });
        }
        self.tell();
        self.get(session_id)
            .ok_or_else(|| FleetError::NotAuthorized {
                session_id: session_id.clone(),
            })
    }

    /// One of these in which something runs.
    fn running(&self, family: &[SessionId]) -> Option<SessionId> {
        let memory = self.0.lock();
        let runs = |id: &&SessionId| memory.sessions.get(*id).is_some_and(|entry| entry.running);
        family.iter().find(runs).cloned()
    }

    /// What the session is a part of, the nearest first.
    fn ancestors(&self, session_id: &SessionId) -> Vec<SessionId> {
        let memory = self.0.lock();
        let parent = |id: &SessionId| memory.sessions.get(id)?.record.parent_id.clone();
        let mut above = Vec::new();
        let mut next = parent(session_id);
        // Folders that somebody wrote by hand may name each other.
        while let Some(id) = next.filter(|id| id != session_id && !above.contains(id)) {
            next = parent(&id);
            above.push(id);
        }
        above
    }
}
