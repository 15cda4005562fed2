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
        self.desk.check_idle()?;
        let (_, ids) = self.since(&message).await?;
        let desk = &self.desk;
        desk.with(move |rewinder| {
            let numbers = numbers(rewinder, &ids);
            let plan = rewinder.preview(&numbers, false, &Arc::default())?;
            view::preview(rewinder, &plan)
        })
        .await
    }

    async fn stage(
        &self,
        _cx: &Context,
        message: EntryId,
        force: bool,
    ) -> Result<Staged, RewindError> {
        self.desk.check_idle()?;
        let (said, ids) = self.since(&message).await?;
        let lane = self.desk.lane.clone();
        let staged = self.desk.with(move |rewinder| {
            if !lane.activity().borrow().is_idle() {
                return Ok(Err(RewindError::Busy));
            }
            let numbers = numbers(rewinder, &ids);
            rewinder.stage((&said.id, &said.text), &numbers, force, &Arc::default())?;
            let staged = view::staged(rewinder, true)?;
            Ok(staged.ok_or(RewindError::NothingStaged))
        });
        let staged = staged.await;
        self.desk.publish().await;
        staged?
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
        self.desk.check_idle()?;
        if !self.desk.has_records() {
            return Err(RewindError::NothingStaged);
        }
        let lane = self.desk.lane.clone();
        let settled = self
            .desk
            .with(move |rewinder| match lane.activity().borrow().is_idle() {
                true => work(rewinder).map(Ok),
                false => Ok(Err(RewindError::Busy)),
            });
        let settled = settled.await;
        self.desk.publish().await;
        settled?
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
