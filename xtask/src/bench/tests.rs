//! Options, statistics, judgement, and the measuring tools on programs whose cost is known.

use std::process::Command;
use std::time::Duration;

use super::pty::Pty;
use super::report::{Figure, Reference, Report, Target};
use super::stats::{Subject, interleave, median, quantile};
use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn workloads_are_chosen_by_name_and_an_unknown_one_lists_the_known() {
    let options = parse(&words("--only answer --rounds 3 --peers here")).expect("valid");
    assert_eq!(options.only, ["answer"]);
    assert_eq!(
        (options.rounds, options.peers),
        (3, Some(PathBuf::from("here")))
    );
    let group = parse(&words("--only wire")).expect("valid").only;
    assert!(
        group.len() > 1 && group.iter().all(|name| name.starts_with("wire-")),
        "{group:?}"
    );
    assert!(parse(&words("--only wir")).is_err());
    let error = parse(&words("--only nothing"))
        .expect_err("unknown")
        .to_string();
    assert!(
        error.contains("`nothing`") && error.contains("deltas"),
        "{error}"
    );
    for bad in ["--rounds 0", "--rounds x", "--rounds", "fast"] {
        assert!(
            parse(&words(bad)).expect_err("refused").is::<Usage>(),
            "{bad}"
        );
    }
}

#[test]
fn quantiles_are_of_the_sorted_samples() {
    let samples = [5.0, 1.0, 4.0, 2.0, 3.0];
    assert_eq!(median(&samples), 3.0);
    assert_eq!(quantile(&samples, 0.99), 5.0);
    assert_eq!(quantile(&[], 0.5), 0.0);
}

#[test]
fn rounds_interleave_and_each_starts_with_another_subject() {
    let order = std::cell::RefCell::new(String::new());
    let subject = |name: char| -> Subject<'_, usize> {
        let order = &order;
        Box::new(move || {
            order.borrow_mut().push(name);
            Ok(order.borrow().len())
        })
    };
    let samples = interleave(2, vec![subject('a'), subject('b')]).expect("measured");
    assert_eq!(order.borrow().as_str(), "abba");
    assert_eq!(samples, [[1, 4], [2, 3]]);
}

#[test]
fn a_figure_is_judged_by_its_target_and_not_without_a_reference() {
    let met = |ours, reference: Option<f64>, target| {
        let reference = reference.map(|value| Reference::new("limit", value));
        Figure::new("figure", "ms", ours, reference, target).met
    };
    assert_eq!(met(1.0, Some(10.0), Target::AtMostTimes(0.15)), Some(true));
    assert_eq!(met(2.0, Some(10.0), Target::AtMostTimes(0.15)), Some(false));
    assert_eq!(met(6.0, Some(10.0), Target::AtLeastTimes(0.5)), Some(true));
    assert_eq!(met(4.0, Some(10.0), Target::AtLeastTimes(0.5)), Some(false));
    assert_eq!(met(4.0, None, Target::AtMost(3.0)), Some(false));
    assert_eq!(met(2.0, None, Target::AtMostTimes(0.15)), None);
    assert_eq!(met(2.0, None, Target::Shown), None);
}

#[test]
fn a_missed_target_and_a_workload_that_failed_are_in_the_report() {
    let peers = Peers::find(Some(PathBuf::from("nowhere")));
    let mut report = Report::new(&peers, 5).expect("a report");
    report.add(
        "a",
        vec![Figure::new("x", "ms", 1.0, None, Target::AtMost(2.0))],
    );
    assert!(report.all_met());
    report.add(
        "b",
        vec![Figure::new("y", "ms", 3.0, None, Target::AtMost(2.0))],
    );
    assert!(!report.all_met());
    report.add_failure("c", &anyhow::anyhow!("no such program"));
    let table = report.to_markdown();
    for expected in [
        "| b | y | 3.00 ms | – | – | ≤ 2 | **no** |",
        "Could not run `c`: no such program",
    ] {
        assert!(table.contains(expected), "{table}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&report.to_json().expect("json")).expect("valid");
    let figure = &json["figures"][1];
    assert_eq!(
        (&figure["name"], &figure["met"]),
        (&"y".into(), &false.into())
    );
}

#[test]
fn a_terminal_shows_what_is_typed_into_it() {
    let mut pty = Pty::start(Command::new("cat"), true).expect("cat starts");
    pty.send(b"one key").expect("typed");
    pty.wait_for(b"one key").expect("shown");
    let taken = pty
        .echoes(&["Ж", "Ю"], Duration::from_millis(1))
        .expect("shown");
    assert_eq!(taken.len(), 2);
    assert!(taken.iter().all(|milliseconds| *milliseconds > 0.0));
}

#[test]
fn the_program_in_a_terminal_has_it_as_its_controlling_one_with_a_size() {
    let mut command = Command::new("sh");
    command.args(["-c", "stty size < /dev/tty; cat"]);
    let mut pty = Pty::start(command, true).expect("sh starts");
    pty.wait_for(b"40 120").expect("the size");
}
