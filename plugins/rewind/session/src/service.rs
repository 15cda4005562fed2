//! The rewind service.

use std::sync::Arc;

use bezel_context::Context;
use bezel_rewind_contract::{Preview, Restored, Rewind, RewindError, RewindState, Staged};
use bezel_rpc::State;
use bezel_session_types::EntryId;

use crate::desk::Desk;
use crate::history::Said;
use crate::rewinder::Rewinder;
use crate::view;

pub(crate) struct RewindService {
    pub(crate) desk: Arc<Desk>,
}

impl Rewind for RewindService {
    fn state(&self) -> State<RewindState> {
        self.desk.state.state()
    }

    async fn preview(&self, _cx: &Context, message: EntryId) -> Result<Preview, RewindError> {
        let (_, ids) = self.since(&message).await?;
        let preview = self.desk.when_idle(move |rewinder| {
            let numbers = numbers(rewinder, &ids);
            let plan = rewinder.preview(&numbers, false, &Arc::default())?;
            view::preview(rewinder, &plan)
        });
        preview.await
    }

    async fn stage(
        &self,
        _cx: &Context,
        message: EntryId,
        force: bool,
    ) -> Result<Staged, RewindError> {
        let (said, ids) = self.since(&message).await?;
        let staged = self.desk.when_idle(move |rewinder| {
            let numbers = numbers(rewinder, &ids);
            rewinder.stage((&said.id, &said.text), &numbers, force, &Arc::default())?;
            view::staged(rewinder, true)
        });
        let staged = staged.await;
        self.desk.publish().await;
        staged?.ok_or(RewindError::NothingStaged)
    }

    async fn clear(&self, _cx: &Context, force: bool) -> Result<Restored, RewindError> {
        self.settle(move |rewinder| {
            let (files, left) = rewinder.clear(force, &Arc::default())?;
            Ok(Restored {
                files: view::number(files),
                left_alone: view::left_alone(&left),
            })
        })
        .await
    }

    async fn commit(&self, _cx: &Context) -> Result<Restored, RewindError> {
        self.settle(move |rewinder| {
            Ok(Restored {
                files: view::number(rewinder.commit()?),
                left_alone: Vec::new(),
            })
        })
        .await
    }
}

impl RewindService {
    /// Ends what is staged, one way or the other.
    async fn settle(
        &self,
        work: impl FnOnce(&mut Rewinder) -> Result<Restored, crate::rewinder::Failure> + Send + 'static,
    ) -> Result<Restored, RewindError> {
        if !self.desk.has_records() {
            return Err(RewindError::NothingStaged);
        }
        let settled = self.desk.when_idle(work).await;
        self.desk.publish().await;
        settled
    }

    async fn since(
        &self,
        message: &EntryId,
    ) -> Result<(Said, std::collections::BTreeSet<EntryId>), RewindError> {
        let found = self.desk.history.since(message).await;
        let found = found.map_err(|error| RewindError::Failed {
            message: error.to_string(),
        })?;
        found.ok_or_else(|| RewindError::UnknownMessage {
            message: message.clone(),
        })
    }
}

fn numbers(rewinder: &Rewinder, ids: &std::collections::BTreeSet<EntryId>) -> Vec<u64> {
    let turns = rewinder.turns().iter();
    turns
        .filter(|turn| ids.contains(&turn.message))
        .map(|turn| turn.number)
        .collect()
}
