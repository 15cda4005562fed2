//! Tells the server of a session's commits, gives it a title, and copies it.
//!
//! The server's record says what a session is called and whether it runs. Reports are conflated: the newest
//! one counts, and one that could not be sent is sent again when the server is back. A report that says no
//! more than that the session went on waits a little, so that a turn with many tool calls does not pay for
//! one at each commit.

mod fork;

use bezel_api_session::{EventBody, Facet, FacetError, Namespace, SessionContext, SessionFacet};
use bezel_context::Context;
use bezel_sessions_contract::{
    CommitReport, SessionCopiesClient, SessionForkClient, SessionRecordClient,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

use crate::fork::Forking;

/// How long a report waits that only has a newer sequence number.
const GOES_ON: Duration = Duration::from_millis(200);

/// Characters of a first prompt that become a title.
const TITLE: usize = 60;

/// The session facet of sessions.
pub fn facet() -> SessionFacet {
    Facet::new("sessions", setup)
        .requires::<SessionRecordClient>(Namespace::Server)
        .optional::<SessionCopiesClient>(Namespace::Server)
        .provides::<SessionForkClient>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let record = cx.server.use_service::<SessionRecordClient>();
    cx.provide(SessionForkClient::new(Forking {
        tree: cx.agent.tree(),
        copies: cx.server.use_service(),
    }));
    let newest = Arc::new(watch::Sender::new(CommitReport {
        seq: 0,
        running: false,
        waiting: false,
        title: None,
    }));
    let mut reports = newest.subscribe();
    let (mut open, asked) = (cx.agent.open_requests(), Arc::clone(&newest));
    cx.spawner().spawn("open requests", async move {
        loop {
            let waiting = *open.borrow_and_update() > 0;
            asked.send_if_modified(|report| {
                std::mem::replace(&mut report.waiting, waiting) != waiting
            });
            if open.changed().await.is_err() {
                return;
            }
        }
    });
    cx.agent.events().subscribe(move |events| {
        newest.send_if_modified(|report| {
            let before = report.clone();
            for event in events {
                note(report, &event.body);
            }
            *report != before
        });
    });

    let connection = cx.connection.clone();
    cx.spawner().spawn("commit reports", async move {
        let mut told = (false, false, None);
        while reports.changed().await.is_ok() {
            let says_more = |report: &CommitReport| {
                (report.running, report.waiting, &report.title) != (told.0, told.1, &told.2)
            };
            // Ended by the limit, by a report that says more, or by the facet's end, which `changed` tells.
            tokio::time::timeout(GOES_ON, reports.wait_for(says_more))
                .await
                .ok();
            let report = reports.borrow_and_update().clone();
            told = (report.running, report.waiting, report.title.clone());
            let background = Context::background();
            while record.committed(&background, report.clone()).await.is_err() {
                // Sent again once the connection is another; a newer report takes its place meanwhile.
                let mut state = connection.watch();
                let known = state.changed().await;
                let reconnected = async { while state.changed().await == known {} };
                tokio::select! {
                    () = reconnected => {}
                    changed = reports.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        reports.mark_changed();
                        break;
                    }
                }
            }
        }
    });
    Ok(())
}

fn note(report: &mut CommitReport, event: &EventBody) {
    match event {
        EventBody::Committed { seq } | EventBody::Journalled { seq } => {
            report.seq = (*seq).max(report.seq);
        }
        EventBody::RunStarted(_) => report.running = true,
        EventBody::RunEnded(_) => report.running = false,
        EventBody::UserMessage { message, .. } if report.title.is_none() && !message.synthetic => {
            report.title = title(&message.to_text());
        }
        _ => {}
    }
}

/// The first line that says something, cut at a word.
fn title(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    if line.chars().count() <= TITLE {
        return Some(line.to_owned());
    }
    let head: String = line.chars().take(TITLE).collect();
    let cut = head
        .rfind(char::is_whitespace)
        .filter(|at| *at > TITLE / 2)
        .unwrap_or(head.len());
    Some(format!("{}…", head[..cut].trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_line_that_says_something_cut_at_a_word() {
        assert_eq!(title("\n  \n"), None);
        assert_eq!(
            title("\n Fix the parser \nplease").as_deref(),
            Some("Fix the parser")
        );
        let long = title(&"word ".repeat(40)).unwrap();
        assert!(
            long.ends_with("word…") && long.chars().count() <= TITLE + 1,
            "{long}"
        );
        assert!(title(&"é".repeat(200)).unwrap().ends_with('…'));
    }
}
