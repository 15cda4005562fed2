//! What is said where there is nothing to attach to.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn attach(home: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bezel-attach"))
        .args(arguments)
        .env("BEZEL_HOME", home)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[track_caller]
fn refused(output: &Output, status: i32, saying: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    assert!(stderr.contains(saying), "{saying:?} is not in {stderr}");
}

#[test]
fn without_a_server_it_says_how_to_get_one() {
    let home = tempfile::tempdir().unwrap();
    refused(&attach(home.path(), &[]), 1, "start one with `bezel`");
    refused(
        &attach(
            home.path(),
            &["--socket", "/nowhere", "--token", "/nowhere"],
        ),
        1,
        "no server listens on /nowhere",
    );
    refused(
        &attach(home.path(), &["--socket", "/nowhere"]),
        2,
        "--token",
    );
}

#[test]
fn without_the_servers_token_or_a_terminal_it_says_so() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("run")).unwrap();
    let _server = UnixListener::bind(home.path().join("run/server.sock")).unwrap();
    refused(&attach(home.path(), &[]), 1, "token");
    std::fs::write(home.path().join("run/token"), "secret").unwrap();
    let output = attach(home.path(), &[]);
    refused(&output, 1, "terminal");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("secret"));
}

#[test]
fn a_server_elsewhere_needs_a_pairing_and_encryption() {
    let home = tempfile::tempdir().unwrap();
    let here = "http://127.0.0.1:9";
    refused(&attach(home.path(), &[here]), 1, "is not paired with");
    refused(
        &attach(home.path(), &[here, "--code", "AAAAA-AAAAA"]),
        1,
        "cannot reach http://127.0.0.1:9",
    );
    refused(
        &attach(home.path(), &["http://192.0.2.1:9"]),
        1,
        "--allow-insecure",
    );
    refused(
        &attach(home.path(), &[here, "--socket", "/x", "--token", "/x"]),
        2,
        "cannot be used with",
    );
}
