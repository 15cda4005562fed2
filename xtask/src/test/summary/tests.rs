//! Nothing is left out of the table, and CI does not forgive what cannot run.

use super::*;

fn summary(strict: bool, outcomes: &[Outcome]) -> Summary {
    let entries = outcomes
        .iter()
        .map(|outcome| Entry {
            name: "group",
            outcome: outcome.clone(),
            took: Duration::from_millis(125_000),
        })
        .collect();
    Summary { entries, strict }
}

#[test]
fn a_group_that_cannot_run_is_named_and_fails_in_ci_alone() {
    let outcomes = [
        Outcome::Passed,
        Outcome::Unavailable("`tmux` is not installed".into()),
    ];
    let here = summary(false, &outcomes);
    assert!(here.succeeded());
    let text = here.to_string();
    assert!(
        text.contains("CANNOT RUN") && text.contains("`tmux` is not"),
        "{text}"
    );
    assert!(
        text.ends_with("groups: 1 passed, 0 failed, 1 skipped\n"),
        "{text}"
    );
    let in_ci = summary(true, &outcomes);
    assert!(!in_ci.succeeded());
    assert!(in_ci.to_string().ends_with("groups: 1 passed, 1 failed\n"));
}

#[test]
fn a_failure_and_what_was_not_run_for_it_fail_the_whole() {
    let failed = summary(false, &[Outcome::Failed("1 of 3 tests".into())]);
    assert!(!failed.succeeded());
    assert!(failed.to_string().contains("1 of 3 tests"));
    let blocked = summary(false, &[Outcome::NotRun("build")]);
    assert!(!blocked.succeeded());
    assert!(blocked.to_string().contains("`build` did not pass"));
}

#[test]
fn durations_read_as_minutes_and_seconds() {
    assert_eq!(shown(Duration::from_millis(7_340)), "7.3 s");
    assert_eq!(shown(Duration::from_secs(125)), "2 m 05 s");
}
