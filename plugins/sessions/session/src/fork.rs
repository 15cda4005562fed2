//! Copying this session: the server gives the place, the worker writes, the server makes a session of it.

use bezel_api_session::{ForkError as EngineError, ForkPlan, SessionTree};
use bezel_context::Context;
use bezel_sessions_contract::{
    CopyPlace, ForkError, ForkRequest, SessionCopiesClient, SessionFork, SessionSummary,
};

pub(crate) struct Forking {
    pub(crate) tree: SessionTree,
    pub(crate) copies: SessionCopiesClient,
}

impl SessionFork for Forking {
    async fn fork(&self, cx: &Context, request: ForkRequest) -> Result<SessionSummary, ForkError> {
        let ForkRequest {
            at,
            whole_tree,
            title,
        } = request;
        let place = self.copies.begin(cx).await.map_err(storage)?;
        let CopyPlace {
            session_id,
            database,
        } = place;
        let plan = ForkPlan {
            at,
            whole_tree,
            into: database.into(),
        };
        if let Err(error) = self.tree.fork(plan).await {
            if let Err(error) = self.copies.abandon(cx, session_id).await {
                tracing::debug!(%error, "the place of a fork is cleared away later");
            }
            let message = error.to_string();
            return Err(match error {
                EngineError::Refused(_) => ForkError::Refused { message },
                EngineError::Unsupported(_) => ForkError::Unsupported { message },
                EngineError::Storage(_) => ForkError::Storage { message },
            });
        }
        let placed = self.copies.place(cx, session_id, title).await;
        placed.map_err(storage)
    }
}

fn storage(error: impl std::fmt::Display) -> ForkError {
    ForkError::Storage {
        message: error.to_string(),
    }
}
