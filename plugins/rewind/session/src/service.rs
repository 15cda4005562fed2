//! The rewind service.

use std::sync::Arc;

use bezel_context::Context;
use bezel_rewind_contract::{
    Preview, Reach, Restored, Rewind, RewindError, RewindState, StageRequest, Staged,
};
use bezel_rpc::State;
use bezel_session_types::EntryId;

use crate::desk::Desk;
use crate::history::Since;
use crate::record::Conversation;
use crate::rewinder::Rewinder;
use crate::view;

pub(crate) struct RewindService {
    pub(crate) desk: Arc<Desk>,
}

impl Rewind for RewindService {
    fn state(&self) -> State<RewindState> {
        self.desk.state.state()
    }

    async fn refresh(&self, _cx: &Context) -> Result<RewindState, RewindError> {
        self.desk.publish().await;
        Ok(RewindState::clone(&self.desk.state.get()))
    }

    async fn preview(&self, _cx: &Context, message: EntryId) -> Result<Preview, RewindError> {
        let Since { ids, at, .. } = self.since(&message).await?;
        let preview = self.desk.when_idle(move |rewinder| {
            let numbers = numbers(rewinder, &ids);
            let plan = rewinder.preview(&numbers, false, &Arc::default())?;
            view::preview(rewinder, &plan)
        });
        let mut preview = preview.await?;
        preview.gaps.extend(self.gap(at));
        Ok(preview)
    }

    async fn stage(&self, cx: &Context, request: StageRequest) -> Result<Staged, RewindError> {
        let StageRequest {
            message,
            reach,
            force,
        } = request;
        let since = self.since(&message).await?;
        let conversation = match reach {
            Reach::FilesAndConversation => Conversation::Wanted {
                from: since.before.clone(),
            },
            Reach::Files => Conversation::Stays,
        };
        let settling = self.desk.settling.lock().await;
        let (said, whole) = (since.beginning, since.whole);
        let (message, ids) = (since.message, since.ids);
        let staged = self.desk.when_idle(move |rewinder| {
            let numbers = numbers(rewinder, &ids);
            let stop = Arc::default();
            rewinder.stage((&message, &said), &numbers, force, conversation, &stop)
        });
        let staged = match staged.await {
            Ok(set_aside) => self.desk.settle(cx).await.map(|()| set_aside),
            Err(error) => Err(error),
        };
        drop(settling);
        self.desk.publish().await;
        let set_aside = view::set_aside(staged?);
        let staged = self.desk.with(|rewinder| view::staged(rewinder, true));
        let mut staged = staged.await?.ok_or(RewindError::NothingStaged)?;
        staged.gaps.extend(self.gap(since.at));
        Ok(Staged {
            said: whole,
            set_aside,
            ..staged
        })
    }

    async fn clear(&self, cx: &Context, force: bool) -> Result<Restored, RewindError> {
        if !self.desk.has_records() {
            return Err(RewindError::NothingStaged);
        }
        let undone = self.desk.undo(cx, force).await;
        self.desk.publish().await;
        undone
    }

    async fn commit(&self, cx: &Context) -> Result<Restored, RewindError> {
        if !self.desk.has_records() {
            return Err(RewindError::NothingStaged);
        }
        let kept = self.desk.keep(cx).await;
        self.desk.publish().await;
        kept
    }
}

impl RewindService {
    /// What is not known of the turns since then, where the session was made later.
    fn gap(&self, at: i64) -> Option<String> {
        let taken_over = self.desk.is_taken_over(at);
        taken_over.then(|| view::TAKEN_OVER.to_owned())
    }

    async fn since(&self, message: &EntryId) -> Result<Since, RewindError> {
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
