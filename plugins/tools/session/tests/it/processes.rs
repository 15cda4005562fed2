//! No process outlives its command, however it hides.

use std::path::Path;
use std::time::Duration;

use bezel_context::Context;
use bezel_session_types::ToolError;
use serde_json::json;

use crate::fixture::Session;

/// Whether a process runs; a zombie does not.
fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z') && !rest.starts_with('X'))
}

/// Waits until `count` processes have written their numbers to `file`, one a line.
async fn pids(file: &Path, count: usize) -> Vec<i32> {
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let complete = text.ends_with('\n') && text.lines().count() == count;
        if complete {
            return text
                .lines()
                .map(|line| line.trim().parse().expect("a pid"))
                .collect();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn gone(pids: &[i32]) {
    for pid in pids {
        while runs(*pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The command that starts six processes, each of which notes its number in `file`: the shell itself, a
/// child, a grandchild, one that left the group by `setsid`, one that did so and whose parents are all gone,
/// and one that ignores the polite signal.
fn family(session: &Session, file: &Path) -> String {
    let note = format!("echo $$ >> '{}'\n", file.display());
    let stem = file.file_stem().expect("a name").display();
    let member = session.file(
        &format!("{stem}.member.sh"),
        format!("{note}sleep 300\ntrue\n"),
    );
    let stubborn = session.file(
        &format!("{stem}.stubborn.sh"),
        format!("trap '' TERM\n{note}for i in $(seq 300); do sleep 1; done\n"),
    );
    let (member, stubborn) = (member.display(), stubborn.display());
    format!(
        "sh {member} &\n\
         sh -c 'sh {member}; true' &\n\
         setsid sh {member} > /dev/null 2>&1 &\n\
         (setsid sh -c 'sh {member} & exit' > /dev/null 2>&1 &)\n\
         sh {stubborn} &\n\
         {note}wait"
    )
}

#[tokio::test]
async fn cancelling_ends_the_whole_tree() {
    let session = Session::new();
    let file = session.path("pids");
    let (cx, cancel) = Context::background().with_cancel();
    let call = session.call_in(cx, "bash", json!({"command": family(&session, &file)}));
    let watch = async {
        let pids = pids(&file, 6).await;
        assert!(
            pids.iter().all(|pid| runs(*pid)),
            "all of {pids:?} must run before"
        );
        cancel.cancel();
        pids
    };
    let (result, pids) = tokio::join!(call, watch);
    assert_eq!(result, Err(ToolError::Interrupted));
    let left: Vec<i32> = pids.into_iter().filter(|pid| runs(*pid)).collect();
    assert!(
        left.is_empty(),
        "{left:?} still run when the call has returned"
    );
}

#[tokio::test]
async fn a_timeout_ends_the_whole_tree() {
    let session = Session::new();
    let file = session.path("pids");
    session
        .error(
            "bash",
            json!({"command": family(&session, &file), "timeout": 1}),
        )
        .await;
    let left: Vec<i32> = pids(&file, 6)
        .await
        .into_iter()
        .filter(|pid| runs(*pid))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_dropped_call_ends_the_whole_tree() {
    let session = Session::new();
    let file = session.path("pids");
    let call = session.call("bash", json!({"command": family(&session, &file)}));
    let pids = tokio::select! {
        _ = call => panic!("it must not end"),
        pids = pids(&file, 6) => pids,
    };
    gone(&pids).await;
}

#[tokio::test]
async fn killing_a_background_command_ends_its_tree_and_nobody_elses() {
    let session = Session::new();
    let (file, other) = (session.path("pids"), session.path("other"));
    session
        .text(
            "bash",
            json!({"command": family(&session, &file), "background": true}),
        )
        .await;
    session
        .text(
            "bash",
            json!({"command": family(&session, &other), "background": true}),
        )
        .await;
    let (ours, others) = (pids(&file, 6).await, pids(&other, 6).await);
    session.text("bash_kill", json!({"id": "bash_1"})).await;
    assert!(ours.iter().all(|pid| !runs(*pid)), "{ours:?}");
    assert!(others.iter().all(|pid| runs(*pid)), "{others:?}");
    session.shared.commands.shutdown().await;
    assert!(others.iter().all(|pid| !runs(*pid)), "{others:?}");
}

#[tokio::test]
async fn what_a_command_leaves_running_ends_with_the_session() {
    let session = Session::new();
    let file = session.path("pids");
    let note = format!("echo $$ >> {}", file.display());
    let quiet = format!("sh -c '{note}; sleep 300; true' > /dev/null 2>&1 &");
    assert_eq!(
        session.text("bash", json!({"command": quiet})).await,
        "(no output)\n"
    );
    let loud = format!("sh -c '{note}; echo up; sleep 300; true' & sleep 0.05");
    let text = session.text("bash", json!({"command": loud})).await;
    assert!(
        text.contains("still run, in the background as bash_1"),
        "{text}"
    );
    let pids = pids(&file, 2).await;
    assert!(pids.iter().all(|pid| runs(*pid)), "{pids:?}");
    session.shared.commands.shutdown().await;
    gone(&pids).await;
    let error = session.error("bash", json!({"command": "true"})).await;
    assert!(error.contains("the session is ending"), "{error}");
}

#[tokio::test]
async fn the_end_of_the_session_asks_before_it_kills() {
    let session = Session::new();
    let file = session.path("said");
    let polite =
        "trap 'echo bye >> said; exit' TERM; echo up >> said; while true; do sleep 0.05; done";
    session.file("server.sh", polite);
    session
        .text(
            "bash",
            json!({"command": "sh server.sh > /dev/null 2>&1 &"}),
        )
        .await;
    let said = || std::fs::read_to_string(&file).unwrap_or_default();
    while said() != "up\n" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    session.shared.commands.shutdown().await;
    assert_eq!(said(), "up\nbye\n");
}

#[tokio::test]
async fn dropping_the_session_ends_its_commands() {
    let session = Session::new();
    let file = session.path("pids");
    session
        .text(
            "bash",
            json!({"command": family(&session, &file), "background": true}),
        )
        .await;
    let pids = pids(&file, 6).await;
    drop(session);
    gone(&pids).await;
}
