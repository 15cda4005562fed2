//! What a started program inherits, and what a failed one says.

use super::*;

#[test]
fn a_started_program_does_not_see_what_cargo_run_added() {
    // `cargo test` sets the same variables as `cargo run`.
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
    let seen = output(program("env").arg("-0")).expect("env runs");
    let leaked: Vec<&str> = seen
        .split('\0')
        .filter(|line| set_by_cargo_run(line.split('=').next().unwrap_or_default()))
        .collect();
    assert!(leaked.is_empty(), "{leaked:?}");
}

#[test]
fn a_library_path_of_the_caller_is_kept() {
    let value = OsString::from(
        "/build/debug/deps:/tool/lib/rustlib/x/lib:/r/toolchains/stable/lib:/opt/lib",
    );
    let build = Path::new("/build/debug");
    assert_eq!(
        library_path_of_caller(&value, build),
        Some(OsString::from("/opt/lib"))
    );
    let added = OsString::from("/build/debug/deps");
    assert_eq!(library_path_of_caller(&added, build), None);
}

#[test]
fn a_failed_program_is_named_with_its_status() {
    let error = run(program("sh").args(["-c", "exit 3"])).expect_err("it failed");
    let text = error.to_string();
    assert!(
        text.contains("sh -c exit 3") && text.contains('3'),
        "{text}"
    );
    let error = output(&mut program("no-such-program-here")).expect_err("it is absent");
    assert!(error.to_string().contains("no-such-program-here"));
}

#[test]
fn a_command_is_asked_for_help_before_the_dashes_only() {
    let words =
        |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    assert!(asks_for_help(&words("--help")) && asks_for_help(&words("--group -h")));
    assert!(!asks_for_help(&words("-- --help")) && !asks_for_help(&words("--list")));
}
