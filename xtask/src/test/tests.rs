//! Choosing groups, and running them in the face of failure.

use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn groups_are_chosen_by_name_and_an_unknown_one_lists_the_known() {
    assert_eq!(parse(&[]).expect("all"), Choice::Groups(vec![]));
    assert_eq!(
        parse(&words("--group fmt --group edges")).expect("two"),
        Choice::Groups(vec!["fmt", "edges"])
    );
    let error = parse(&words("--group lint")).expect_err("unknown");
    let text = error.to_string();
    assert!(text.contains("`lint`") && text.contains("clippy"), "{text}");
    assert!(error.is::<Usage>());
}

#[test]
fn every_need_names_a_group_that_runs_before() {
    for (index, group) in GROUPS.iter().enumerate() {
        for need in group.needs {
            assert!(GROUPS[..index].iter().any(|earlier| earlier.name == *need));
        }
        assert!(GROUPS[..index].iter().all(|other| other.name != group.name));
    }
}

#[test]
fn a_failed_group_stops_those_that_need_it_and_no_others() {
    let group = |name, needs, run| Group {
        name,
        what: "",
        needs,
        run,
    };
    let build = group("build", &[], |_| anyhow::bail!("does not compile"));
    let nextest = group("nextest", &["build"], |_| Ok(()));
    let deny = group("deny", &[], |_| Ok(()));
    let summary = run_all(&Workspace::here(), &[&build, &nextest, &deny], false);
    let outcomes: Vec<&Outcome> = summary.entries.iter().map(|entry| &entry.outcome).collect();
    assert_eq!(
        outcomes,
        [
            &Outcome::Failed("does not compile".into()),
            &Outcome::NotRun("build"),
            &Outcome::Passed
        ]
    );
    // A need that is not part of the run does not stop a group.
    let alone = run_all(&Workspace::here(), &[&nextest], false);
    assert!(alone.succeeded());
}

#[test]
fn a_tool_that_is_on_the_path_is_used_as_it_is() {
    // Cargo itself stands for it: the run needs it anyway.
    let found = crate::command::find("cargo", &[]).expect("cargo is on the path");
    assert!(found.is_absolute());
}

#[test]
fn a_build_that_finds_everything_built_is_told_from_one_that_builds_again() {
    let artifact = |name: &str, kind: &str, fresh: bool| {
        serde_json::json!({
            "reason": "compiler-artifact",
            "package_id": format!("path+file:///w/{name}#0.1.0"),
            "target": {
                "kind": [kind], "crate_types": [kind], "name": name, "src_path": "/w/src/lib.rs",
                "edition": "2024", "doc": true, "doctest": true, "test": true
            },
            "profile": {
                "opt_level": "0", "debuginfo": 1, "debug_assertions": true, "overflow_checks": true, "test": false
            },
            "features": [], "filenames": [], "executable": null, "fresh": fresh
        })
    };
    let end = serde_json::json!({"reason": "build-finished", "success": true});
    let first = artifact("words", "lib", true);
    let all_fresh = format!("{first}\n{end}\n");
    assert!(fresh::built(&all_fresh).expect("valid messages").is_empty());
    let (second, third) = (
        artifact("attribute", "proc-macro", false),
        artifact("client", "lib", false),
    );
    let again = format!("{first}\n{second}\n{third}\n{end}\n");
    assert_eq!(
        fresh::built(&again).expect("valid messages"),
        ["attribute (proc-macro)", "client (lib)"]
    );
}
