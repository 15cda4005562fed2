//! The arguments of `cargo xtask run`.

use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn what_follows_the_dashes_goes_to_bezel() {
    let arguments = words("--release -- run --json hello");
    let (profile, passed) = parse(&arguments).expect("valid arguments");
    assert!(profile == Profile::Release);
    assert_eq!(passed, words("run --json hello"));
}

#[test]
fn an_argument_before_the_dashes_is_refused_with_what_to_do() {
    let arguments = words("run --json");
    let error = parse(&arguments).err().expect("refused");
    assert!(error.to_string().contains("stand after `--`"), "{error}");
}

#[test]
fn without_a_terminal_and_without_arguments_it_is_the_tour() {
    let none: [String; 0] = [];
    assert_eq!(arguments_for_bezel(&none, false), ["tour"]);
    assert!(arguments_for_bezel(&none, true).is_empty());
    let some = words("session list");
    assert_eq!(arguments_for_bezel(&some, false), some);
}
