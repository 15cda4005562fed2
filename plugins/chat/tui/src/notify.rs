//! Calls the person back when a long turn has ended.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use bezel_api_tui::Ui;
use bezel_chat_contract::{Activity, ChatState, OutcomeStatus};
use bezel_rpc::{State, Subscription};
use tokio::time::Instant;

/// Shorter turns are watched anyway.
const LONG: Duration = Duration::from_secs(10);

/// Notifies for as long as the subscription lives.
pub(crate) fn when_done(chat: &State<ChatState>, ui: &Ui) -> Subscription {
    let ui = ui.clone();
    // Only the listener locks it; it is called for one change at a time.
    let began: Mutex<Option<Instant>> = Mutex::new(None);
    chat.subscribe(move |state, _| {
        let mut began = began.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.activity {
            Activity::Running { .. } => {
                began.get_or_insert_with(Instant::now);
            }
            Activity::Idle => {
                let ended = began.take().filter(|began| began.elapsed() >= LONG);
                if ended.is_some()
                    && let Some(last) = &state.last
                {
                    match last.status {
                        OutcomeStatus::Done => ui.notify("Bezel has finished"),
                        OutcomeStatus::Failed => ui.notify("Bezel could not finish"),
                        OutcomeStatus::Interrupted => {}
                    }
                }
            }
        }
    })
}
