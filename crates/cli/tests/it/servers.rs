//! The server: started on demand, one at a time, looked at and ended.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::sys::signal::Signal;

use crate::home::{Home, eventually, finish, read, signal};

#[test]
fn a_server_is_started_when_it_is_needed_and_ends_when_it_is_told() {
    let home = Home::new();
    let status = home.run(&["server", "status"]);
    assert_eq!(
        (status.status, status.stdout.as_str()),
        (
            Some(1),
            "The server does not run; the next command that needs it starts it\n"
        )
    );
    home.run(&["session", "list"]).succeeded();
    let server = home.server().unwrap();
    home.run(&["session", "list"]).succeeded();
    assert_eq!(home.server(), Some(server));
    let stopped = home.run(&["server", "stop"]);
    assert_eq!(
        stopped.succeeded().stdout,
        format!("The server, process {server}, has ended\n")
    );
    assert_eq!(home.server(), None);
    assert!(!home.bezel().join("run/server.sock").exists());
    assert!(
        home.run(&["server", "logs"])
            .succeeded()
            .stdout
            .contains("the server listens")
    );
    assert_eq!(
        home.run(&["server", "stop"]).succeeded().stdout,
        "The server does not run\n"
    );
}

#[test]
fn clients_that_start_at_once_share_one_server() {
    let home = Home::new();
    let clients: Vec<_> = (0..8)
        .map(|_| home.command(&["session", "list"]).spawn().unwrap())
        .collect();
    for client in clients {
        finish(client).succeeded();
    }
    assert_eq!(
        home.server_log().matches("the server listens").count(),
        1,
        "{}",
        home.server_log()
    );
}

#[test]
fn a_second_server_is_refused_and_told_who_is_there() {
    let home = Home::new();
    home.run(&["session", "list"]).succeeded();
    let server = home.server().unwrap();
    home.run(&["server", "run"])
        .failed(1, &format!("a server already runs (process {server}"));
    assert_eq!(home.server(), Some(server));
}

#[test]
fn what_a_dead_server_left_is_no_obstacle() {
    let home = Home::new();
    let run = home.bezel().join("run");
    std::fs::create_dir_all(&run).unwrap();
    drop(UnixListener::bind(run.join("server.sock")).unwrap());
    std::fs::write(
        run.join("server.lock"),
        r#"{"pid":1,"version":"0.0.0","started_at":""}"#,
    )
    .unwrap();
    std::fs::write(run.join("token.new"), "half").unwrap();
    assert_eq!(home.run(&["server", "status"]).status, Some(1));
    home.run(&["session", "list"]).succeeded();
}

#[test]
fn a_server_whose_socket_was_removed_is_reached_again() {
    let home = Home::new();
    home.run(&["session", "list"]).succeeded();
    let server = home.server().unwrap();
    std::fs::remove_file(home.bezel().join("run/server.sock")).unwrap();
    home.run(&["session", "list"]).succeeded();
    assert_eq!(home.server(), Some(server));
}

#[test]
fn a_killed_server_is_replaced_by_the_next_command() {
    let home = Home::new();
    home.run(&["session", "list"]).succeeded();
    let killed = home.server().unwrap();
    signal(killed, Signal::SIGKILL);
    home.run(&["session", "list"]).succeeded();
    assert_ne!(home.server().unwrap(), killed);
}

#[test]
fn the_server_gets_no_key_of_the_shell_and_is_open_to_nobody_else() {
    let home = Home::new()
        .variable("ANTHROPIC_API_KEY", "sk-very-secret")
        .variable("BEZEL_LOG", "trace");
    home.run(&["session", "list"]).succeeded();
    let server = home.server().unwrap();
    assert!(!read(server, "environ").contains("sk-very-secret"));
    assert!(!home.server_log().contains("sk-very-secret"));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let run = home.bezel().join("run");
    assert_eq!(
        (
            mode(&run),
            mode(&run.join("server.sock")),
            mode(&run.join("token"))
        ),
        (0o700, 0o600, 0o600)
    );
    assert_eq!(mode(&home.bezel().join("logs/server.log")), 0o600);
    let token = std::fs::read_to_string(run.join("token")).unwrap();
    assert!(!home.server_log().contains(&token));
}

#[test]
fn a_token_that_others_could_read_is_refused() {
    let home = Home::new();
    home.run(&["session", "list"]).succeeded();
    let token = home.bezel().join("run/token");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    home.run(&["session", "list"])
        .failed(1, "is open to other users");
}

#[test]
fn a_client_with_another_token_is_turned_away() {
    let home = Home::new();
    home.run(&["session", "list"]).succeeded();
    std::fs::write(home.bezel().join("run/token"), "0".repeat(64)).unwrap();
    home.run(&["session", "list"])
        .failed(1, "does not know the credential");
}

#[test]
fn places_that_cannot_be_used_are_named_with_a_remedy() {
    let home = Home::new();
    std::fs::write(home.bezel(), "a file").unwrap();
    home.run(&["session", "list"]).failed(1, "BEZEL_HOME");
    std::fs::remove_file(home.bezel()).unwrap();
    let long = home.bezel().join("x".repeat(120));
    let mut command = home.command(&["session", "list"]);
    command.env("BEZEL_HOME", &long);
    finish(command.spawn().unwrap()).failed(1, "set BEZEL_HOME to a shorter directory");
}

#[test]
fn a_server_whose_configuration_is_wrong_says_so_to_the_client_that_wanted_it() {
    let home = Home::new();
    home.configure("[server]\nidle_exit_minuts = 3\n");
    let done = home.run(&["session", "list"]);
    done.failed(1, "did you mean `idle_exit_minutes`?");
    assert!(done.stderr.contains("config.toml:2:1"), "{done:#?}");
    assert_eq!(home.server(), None);
}

#[test]
fn a_server_in_the_foreground_ends_with_ctrl_c() {
    let home = Home::new();
    let server = home.command(&["server", "run"]).spawn().unwrap();
    eventually("the server did not start", || home.server());
    signal(server.id(), Signal::SIGINT);
    finish(server).succeeded();
    assert!(!home.bezel().join("run/server.sock").exists());
}

#[test]
fn the_logs_of_a_session_that_is_not_there_are_an_error() {
    let home = Home::new();
    home.run(&["server", "logs", "--session", "nope"])
        .failed(2, "there is no log of a session nope");
    let empty = home.run(&["server", "logs"]);
    assert!(
        empty.succeeded().stderr.contains("nothing was logged yet"),
        "{empty:#?}"
    );
}

#[test]
fn a_standalone_bezel_and_a_server_say_who_has_the_sessions() {
    let home = Home::new();
    home.run(&["session", "list"]).succeeded();
    home.run(&["run", "--standalone", "--model", "scripted::tour", "hi"])
        .failed(1, "`bezel server stop`");
    home.run(&["server", "stop"]).succeeded();
    home.run(&["run", "--standalone", "--model", "scripted::tour", "hi"])
        .succeeded();
    home.run(&["session", "list"]).succeeded();
}

#[test]
fn the_doctor_starts_nothing_and_names_what_is_wrong() {
    let home = Home::new()
        .variable("GROQ_API_KEY", "gsk-secret")
        .variable("BEZEL_MODLE", "x");
    let good = home.run(&["doctor"]);
    assert!(
        good.succeeded().stdout.contains("groq (GROQ_API_KEY)"),
        "{good:#?}"
    );
    assert!(
        good.stdout.contains("did you mean BEZEL_MODEL?") && !good.stdout.contains("gsk-secret"),
        "{good:#?}"
    );
    assert_eq!(home.server(), None);
    home.configure("nonsense = 1\nmore = 2\n");
    let bad = home.run(&["doctor"]);
    assert_eq!(bad.status, Some(1));
    assert!(bad.stdout.contains("2 mistakes"), "{bad:#?}");
    home.configure("nonsense = 1\n");
    let bad = home.run(&["doctor"]);
    assert!(bad.stdout.contains("1 mistake\n"), "{bad:#?}");
    // The keys of a configuration that cannot be read are not said to be missing.
    assert!(!bad.stdout.contains("keys"), "{bad:#?}");
}
