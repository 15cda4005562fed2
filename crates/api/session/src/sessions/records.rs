//! What the server knows of sessions, whether anything runs in them or not.

use bezel_context::Context;
use bezel_rpc::CallError;
use bezel_session_types::{
    Entry, EntryId, HistoryPage, HistoryRange, JournalPage, Message, ModelRef, ModelView,
    SessionId, ThinkingLevel,
};
use bezel_sessions_contract::{
    CreateChild, ListSessions, SessionError, SessionPage, SessionSummary,
};

use super::{Sessions, SessionsError, ask};

impl Sessions {
    /// Begins a session that is a part of one of this tree. What the options leave open is as it is of the
    /// parent; it may never do more unasked than that one. It works where its parent does, unless another
    /// directory is named. Nothing runs in it yet. Asked for again under the same id, it is the one that is
    /// there.
    pub async fn create(
        &self,
        cx: &Context,
        mut options: CreateChild,
    ) -> Result<SessionSummary, SessionsError> {
        options.session_id.get_or_insert_with(SessionId::generate);
        self.asked(cx, || self.children.create(cx, options.clone()))
            .await
    }

    /// All sessions of this tree, parents before their children, whether they are hosted or not.
    pub async fn tree(&self, cx: &Context) -> Result<Vec<SessionSummary>, SessionsError> {
        self.asked(cx, || self.children.tree(cx)).await
    }

    /// What a session of this tree has begun itself, the oldest first.
    pub async fn children(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<Vec<SessionSummary>, SessionsError> {
        let mut tree = self.tree(cx).await?;
        if !tree.iter().any(|session| session.session_id == *session_id) {
            return Err(SessionsError::NotFound {
                session_id: session_id.clone(),
            });
        }
        tree.retain(|session| session.parent_id.as_ref() == Some(session_id));
        Ok(tree)
    }

    /// One session within reach: of this workspace.
    pub async fn get(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<SessionSummary, SessionsError> {
        self.asked(cx, || self.directory.get(cx, session_id.clone()))
            .await
    }

    /// Sessions within reach, a page at a time.
    pub async fn list(
        &self,
        cx: &Context,
        query: ListSessions,
    ) -> Result<SessionPage, SessionsError> {
        self.asked(cx, || self.directory.list(cx, query.clone()))
            .await
    }

    /// One entry of a session, wherever in its tree. Starts nothing.
    pub async fn message(
        &self,
        cx: &Context,
        session_id: &SessionId,
        entry: &EntryId,
    ) -> Result<Entry, SessionsError> {
        self.asked(cx, || {
            self.directory
                .message(cx, session_id.clone(), entry.clone())
        })
        .await
    }

    /// What a model would be given of a session's conversation now. Starts nothing.
    pub async fn context(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<ModelView, SessionsError> {
        self.asked(cx, || self.directory.context(cx, session_id.clone()))
            .await
    }

    /// A page of a session's active path. Starts nothing.
    pub async fn history(
        &self,
        cx: &Context,
        session_id: &SessionId,
        range: HistoryRange,
        limit: u32,
    ) -> Result<HistoryPage, SessionsError> {
        self.asked(cx, || {
            self.directory
                .history(cx, session_id.clone(), range.clone(), limit)
        })
        .await
    }

    /// What happened in a session after a place in its journal, with a gap where it does not say any more.
    /// Starts nothing.
    pub async fn journal(
        &self,
        cx: &Context,
        session_id: &SessionId,
        after: u64,
        limit: u32,
    ) -> Result<JournalPage, SessionsError> {
        self.asked(cx, || {
            self.directory.journal(cx, session_id.clone(), after, limit)
        })
        .await
    }

    /// Records the agent that a session runs from now on; none for the configured one.
    pub async fn switch_agent(
        &self,
        cx: &Context,
        session_id: &SessionId,
        agent: Option<String>,
    ) -> Result<SessionSummary, SessionsError> {
        self.asked(cx, || {
            self.management
                .switch_agent(cx, session_id.clone(), agent.clone())
        })
        .await
    }

    /// Records the model that a session uses from now on.
    pub async fn switch_model(
        &self,
        cx: &Context,
        session_id: &SessionId,
        model: ModelRef,
        thinking: ThinkingLevel,
    ) -> Result<SessionSummary, SessionsError> {
        self.asked(cx, || {
            self.management
                .switch_model(cx, session_id.clone(), model.clone(), thinking)
        })
        .await
    }

    /// Puts a session away, with all that it began, or takes it back.
    pub async fn archive(
        &self,
        cx: &Context,
        session_id: &SessionId,
        archived: bool,
    ) -> Result<SessionSummary, SessionsError> {
        self.asked(cx, || {
            self.management.archive(cx, session_id.clone(), archived)
        })
        .await
    }

    /// Gives a session another title.
    pub async fn rename(
        &self,
        cx: &Context,
        session_id: &SessionId,
        title: &str,
    ) -> Result<SessionSummary, SessionsError> {
        let rename = || {
            self.management
                .rename(cx, session_id.clone(), title.to_owned())
        };
        self.asked(cx, rename).await
    }

    /// Deletes a session with all that it began.
    pub async fn remove(&self, cx: &Context, session_id: &SessionId) -> Result<(), SessionsError> {
        self.asked(cx, || self.management.remove(cx, session_id.clone()))
            .await
    }

    /// The newest `limit` messages (at most 500) of a session, oldest first. Starts nothing.
    pub async fn messages(
        &self,
        cx: &Context,
        session_id: &SessionId,
        limit: u32,
    ) -> Result<Vec<Message>, SessionsError> {
        self.asked(cx, || {
            self.directory.messages(cx, session_id.clone(), limit)
        })
        .await
    }

    async fn asked<T, Asked>(
        &self,
        cx: &Context,
        call: impl Fn() -> Asked,
    ) -> Result<T, SessionsError>
    where
        Asked: Future<Output = Result<T, CallError<SessionError>>>,
    {
        ask(cx, &self.connection, call).await
    }
}
