//! Putting sessions away, and finding them again.

use bezel_testkit::Turn;
use serde_json::Value;

use crate::home::{Home, eventually};
use crate::runs::chat;

fn listed(home: &Home, arguments: &[&str]) -> Vec<Value> {
    let all = [&["session", "list", "--json"], arguments].concat();
    serde_json::from_str(&home.run(&all).succeeded().stdout).unwrap()
}

fn titles(home: &Home, arguments: &[&str]) -> Vec<String> {
    let listed = listed(home, arguments);
    let title = |session: &Value| session["title"].as_str().unwrap().to_owned();
    listed.iter().map(title).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_session_is_out_of_the_lists_and_goes_on_when_it_is_opened() {
    let (_server, home) = chat([
        Turn::text("Done."),
        Turn::text("Done too."),
        Turn::text("Again."),
        Turn::text("Once more."),
    ])
    .await;
    home.run(&["run", "Fix the parser"]).succeeded();
    home.run(&["run", "Write the docs"]).succeeded();
    assert_eq!(titles(&home, &["--search", "PARSER"]), ["Fix the parser"]);
    let first = listed(&home, &["--search", "parser"])[0]["session_id"].clone();
    let id = first.as_str().unwrap();
    // Its worker may not have told of the run's end yet.
    eventually("it is archived", || {
        let done = home.run(&["session", "archive", id]);
        done.stdout.contains("unarchive").then_some(())
    });
    assert_eq!(titles(&home, &[]), ["Write the docs"]);
    assert_eq!(titles(&home, &["--archived"]), ["Fix the parser"]);
    assert_eq!(titles(&home, &["--all"]).len(), 2);
    let shown = home.run(&["session", "list", "--all"]);
    assert!(shown.succeeded().stdout.contains("(archived)"), "{shown:?}");
    // Looking at it leaves it where it is, and it is found by its id.
    home.run(&["session", "show", id]).succeeded();
    home.run(&["session", "check", id]).succeeded();
    assert_eq!(titles(&home, &["--archived"]).len(), 1);
    let back = home.run(&["session", "unarchive", id, "--json"]);
    let back: Value = serde_json::from_str(&back.succeeded().stdout).unwrap();
    assert_eq!(
        (&back["session_id"], &back["archived_at"]),
        (&first, &Value::Null)
    );

    home.run(&["session", "archive", id]).succeeded();
    let newest = home.run(&["run", "--continue", "and an index"]);
    newest.succeeded();
    assert_eq!(
        titles(&home, &["--archived"]).len(),
        1,
        "--continue leaves it out"
    );
    home.run(&["run", "--session", id, "once more"]).succeeded();
    assert_eq!(titles(&home, &["--archived"]).len(), 0);
    home.run(&["session", "list", "--all", "--archived"])
        .failed(2, "cannot be used with");
}
