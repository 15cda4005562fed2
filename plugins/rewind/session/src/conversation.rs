//! The conversation goes along: what is staged, and where the session goes on, brought together.
//!
//! Two places are written, one after the other, and a crash may come between them. Whatever it leaves is one of
//! these, and [`Desk::settle`] makes of it what was meant:
//!
//! | Staged | The session departs | So |
//! |---|---|---|
//! | nothing, or the files alone | yes | staging was cleared or never came about: it stays |
//! | with the conversation, untold | no | it is told |
//! | with the conversation | yes | it waits for the next message, or for `commit` |
//! | with the conversation | no | it has departed: the files are kept; where it still has the message, it was led elsewhere and the files stay staged alone |

use bezel_api_session::{Departure, LaneError, Navigation, NavigationError};
use bezel_context::Context;
use bezel_rewind_contract::{Restored, RewindError};
use bezel_session_types::{EntryId, RunOutcome};

use crate::desk::Desk;
use crate::record::{Conversation, Phase};
use crate::view;

/// What is staged, as far as the conversation is concerned.
struct Standing {
    message: EntryId,
    conversation: Conversation,
    files: u32,
}

impl Desk {
    /// Before anything runs in this process: has the session depart from where it should. Reads one file, and
    /// writes seldom.
    pub(crate) async fn take_up(&self, cx: &Context) {
        let staged = match self.records().staged() {
            Ok(staged) => staged,
            Err(error) => return self.problem(&error.to_string()),
        };
        let wanted = staged.and_then(|staged| match (staged.phase, staged.conversation) {
            (Phase::Staging { .. } | Phase::Staged, Conversation::Wanted { from }) => {
                Some(Departure { from })
            }
            (Phase::Staging { .. } | Phase::Staged, Conversation::Departs { .. }) => {
                self.lane.departure()
            }
            _ => None,
        });
        if wanted != self.lane.departure()
            && let Err(error) = self.lane.set_departure(cx, wanted).await
        {
            tracing::warn!(%error, "where the conversation goes on was not set");
        }
    }

    /// Brings both together, where there is anything to bring.
    pub(crate) async fn settle_if_needed(&self, cx: &Context) {
        if self.lane.departure().is_none() && !self.records().has_staged() {
            return;
        }
        let settling = self.settling.lock().await;
        if let Err(error) = self.settle(cx).await {
            self.problem(&error.to_string());
        }
        drop(settling);
        self.publish().await;
    }

    /// Brings both together. The caller holds `settling`.
    pub(crate) async fn settle(&self, cx: &Context) -> Result<(), RewindError> {
        let Some(mut standing) = self.standing().await? else {
            return self.stay(cx).await;
        };
        if let Conversation::Wanted { from } = standing.conversation {
            let departure = Departure { from: from.clone() };
            standing.conversation = match self.lane.set_departure(cx, Some(departure)).await {
                Ok(()) => Conversation::Departs { from },
                Err(error) => {
                    self.problem(&format!("the conversation stays as it is: {error}"));
                    Conversation::Stays
                }
            };
            self.note(standing.conversation.clone()).await?;
        }
        match standing.conversation {
            Conversation::Departs { .. } if self.lane.departure().is_some() => Ok(()),
            Conversation::Departs { .. } => {
                let found = self.history.since(&standing.message).await;
                match found.map_err(unread)? {
                    Some(_) => self.note(Conversation::Stays).await,
                    None => self.with(|rewinder| rewinder.commit().map(drop)).await,
                }
            }
            Conversation::Stays | Conversation::Wanted { .. } => self.stay(cx).await,
        }
    }

    /// Keeps what is staged: first the conversation goes, in one commit, then the checkpoints follow.
    pub(crate) async fn keep(&self, cx: &Context) -> Result<Restored, RewindError> {
        self.idle()?;
        let _settling = self.settling.lock().await;
        self.settle(cx).await?;
        let Some(standing) = self.standing().await? else {
            return Err(RewindError::NothingStaged);
        };
        let conversation = match standing.conversation {
            Conversation::Departs { from } => {
                self.depart(cx, from).await?;
                true
            }
            Conversation::Stays | Conversation::Wanted { .. } => false,
        };
        // Whoever has begun to run since goes on from here: that keeps it too.
        let keep = |rewinder: &mut crate::rewinder::Rewinder| match rewinder.staged() {
            Some(_) => rewinder.commit().map(drop),
            None => Ok(()),
        };
        match conversation {
            true => self.with(keep).await?,
            false => self.when_idle(keep).await?,
        }
        Ok(Restored {
            files: standing.files,
            conversation,
            left_alone: Vec::new(),
            set_aside: Vec::new(),
        })
    }

    /// Undoes what is staged. The conversation is told first, and again where the files stay as they are.
    pub(crate) async fn undo(&self, cx: &Context, force: bool) -> Result<Restored, RewindError> {
        self.idle()?;
        let _settling = self.settling.lock().await;
        self.settle(cx).await?;
        let departure = self.lane.departure();
        self.stay(cx).await?;
        let cleared = self.when_idle(move |rewinder| rewinder.clear(force, &Default::default()));
        match cleared.await {
            Ok((files, left, set_aside)) => Ok(Restored {
                files: view::number(files),
                conversation: false,
                left_alone: view::left_alone(&left),
                set_aside: view::set_aside(set_aside),
            }),
            Err(error) => {
                if let Some(departure) = departure
                    && let Err(error) = self.lane.set_departure(cx, Some(departure)).await
                {
                    tracing::debug!(%error, "the conversation stays as it is");
                }
                self.settle(cx).await?;
                Err(error)
            }
        }
    }

    fn idle(&self) -> Result<(), RewindError> {
        match self.lane.activity().borrow().is_idle() {
            true => Ok(()),
            false => Err(RewindError::Busy),
        }
    }

    async fn standing(&self) -> Result<Option<Standing>, RewindError> {
        if !self.records().has_staged() {
            return Ok(None);
        }
        self.with(|rewinder| {
            let staged = rewinder.staged();
            Ok(staged.map(|staged| Standing {
                message: staged.message.clone(),
                conversation: staged.conversation.clone(),
                files: view::number(crate::staging::count(&staged.items)),
            }))
        })
        .await
    }

    async fn note(&self, conversation: Conversation) -> Result<(), RewindError> {
        self.with(move |rewinder| rewinder.note_conversation(conversation))
            .await
    }

    async fn stay(&self, cx: &Context) -> Result<(), RewindError> {
        match self.lane.departure() {
            Some(_) => self.lane.set_departure(cx, None).await.map_err(unmoved),
            None => Ok(()),
        }
    }

    async fn depart(&self, cx: &Context, from: Option<EntryId>) -> Result<(), RewindError> {
        let navigation = Navigation {
            target: from,
            ..Navigation::default()
        };
        let operation = match self.lane.navigate(cx, navigation).await {
            Ok(operation) => operation,
            // It stands there already.
            Err(NavigationError::Refused(_)) => return Ok(()),
            Err(error) => return Err(unmoved(error)),
        };
        let ended = self.lane.wait(cx, &operation).await.map_err(unread)?;
        match ended.outcome {
            RunOutcome::Completed => Ok(()),
            RunOutcome::Aborted => Err(RewindError::Failed {
                message:
                    "interrupted: the conversation stays where it was, and the files are as staged"
                        .into(),
            }),
            RunOutcome::Failed { message, .. } => Err(RewindError::Failed {
                message: format!(
                    "the conversation stays where it was, and the files are as staged: {message}"
                ),
            }),
        }
    }
}

fn unmoved(error: NavigationError) -> RewindError {
    match error {
        NavigationError::Busy(_) => RewindError::Busy,
        error => RewindError::Failed {
            message: error.to_string(),
        },
    }
}

fn unread(error: LaneError) -> RewindError {
    RewindError::Failed {
        message: error.to_string(),
    }
}
