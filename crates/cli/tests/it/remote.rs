//! A server that other machines reach, and the other machine: another home.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::home::{Done, Home, eventually, finish, signal};

/// A server in the foreground, and what it printed.
pub struct Serving {
    child: Option<Child>,
    /// Open as long as it serves, as a terminal is.
    _output: std::io::Lines<BufReader<std::process::ChildStdout>>,
    pub url: String,
    pub code: String,
}

impl Serving {
    pub fn start(home: &Home, arguments: &[&str]) -> Self {
        Serving::spawn(home.command(&[&["serve"], arguments].concat()))
    }

    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut found = |mark: &str| {
            for line in lines.by_ref() {
                if let Some((_, rest)) = line.unwrap().split_once(mark) {
                    return rest.to_owned();
                }
            }
            let mut said = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut said)
                .unwrap();
            panic!("{mark:?} was not printed; {said}");
        };
        let (url, code) = (found("serves at "), found("--code "));
        Serving {
            child: Some(child),
            _output: lines,
            url,
            code,
        }
    }

    /// Ends it as Ctrl-C does.
    pub fn interrupt(mut self) -> Done {
        let child = self.child.take().unwrap();
        signal(child.id(), Signal::SIGINT);
        finish(child)
    }

    pub fn port(&self) -> u16 {
        self.url.rsplit_once(':').unwrap().1.parse().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

pub const ANYWHERE: &[&str] = &["--listen", "127.0.0.1:0"];

/// Every byte in the files under `directory`.
fn everything(directory: &std::path::Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&everything(&path));
        } else if path.is_file() {
            text.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
        }
    }
    text
}

/// The token that `away` keeps of a server.
fn token(away: &Home) -> String {
    let remotes = everything(&away.bezel().join("state/remotes"));
    let known: Value = serde_json::from_str(&remotes).unwrap();
    known["token"].as_str().unwrap().to_owned()
}

#[test]
fn a_client_pairs_works_is_listed_and_loses_its_access() {
    let (home, away) = (Home::new(), Home::new());
    let server = Serving::start(&home, ANYWHERE);
    let url = server.url.as_str();
    away.run(&["session", "list", "--server", url])
        .failed(1, "is not paired with");
    let paired = away.run(&["attach", url, "--code", &server.code]);
    assert!(
        paired
            .succeeded()
            .stderr
            .contains("Paired with http://127.0.0.1:"),
        "{paired:#?}"
    );
    away.run(&["attach", url, "--code", &server.code])
        .failed(1, "the pairing code was used already");
    away.run(&["attach", url, "--code", "AAAAA-AAAAA"])
        .failed(1, "the pairing code is wrong");
    // From now on without a code, for every command.
    let listed = away.run(&["session", "list", "--server", url, "--json"]);
    assert_eq!(listed.succeeded().stdout, "[]\n");
    let project = home.project();
    let ran = away.run(&[
        "run",
        "--server",
        url,
        "--cwd",
        project.to_str().unwrap(),
        "--model",
        "scripted::tour",
        "hello",
    ]);
    assert!(
        ran.succeeded().stdout.contains("I am the **tour**"),
        "{ran:#?}"
    );
    // Which models there are is for the server to say.
    let directory = project.to_str().unwrap();
    let elsewhere = [
        "run",
        "--server",
        url,
        "--cwd",
        directory,
        "--model",
        "elsewhere::m",
        "hi",
    ];
    away.run(&elsewhere).failed(3, "elsewhere");
    away.run(&["run", "--server", url, "hi"])
        .failed(1, "name one of the server's machine");
    assert_eq!(
        home.run(&["session", "list", "--json"])
            .succeeded()
            .stdout
            .matches("session_id")
            .count(),
        1
    );
    let clients = home.run(&["access", "list", "--json"]);
    let clients: Value = serde_json::from_str(&clients.succeeded().stdout).unwrap();
    assert_eq!(clients[0]["scopes"], serde_json::json!(["read", "operate"]));
    assert!(clients[0]["last_used_at"].is_string() && clients[0]["workspaces"].is_null());
    let id = clients[0]["id"].as_str().unwrap();
    away.run(&["access", "list", "--server", url])
        .failed(1, "lacks the scope admin");
    home.run(&["access", "revoke", "nobody"])
        .failed(1, "there is no paired client nobody");
    let revoked = home.run(&["access", "revoke", id]);
    assert!(revoked.succeeded().stdout.contains(id));
    away.run(&["session", "list", "--server", url])
        .failed(1, "access was taken back; pair again");
    // The token is where it belongs, and nowhere else.
    let token = token(&away);
    assert!(token.starts_with("bezel_") && token.len() == 70);
    assert!(!everything(&home.bezel()).contains(&token));
    for logs in [home.bezel().join("logs"), away.bezel().join("logs")] {
        let logs = everything(&logs);
        assert!(!logs.contains(&token) && !logs.contains(&server.code));
    }
}

#[test]
fn a_token_outlives_the_server_and_a_code_does_not() {
    let (home, away) = (Home::new(), Home::new());
    let server = Serving::start(&home, ANYWHERE);
    let listen = format!("127.0.0.1:{}", server.port());
    away.run(&["attach", &server.url, "--code", &server.code])
        .succeeded();
    let unused = home.run(&["access", "pair"]);
    let unused = unused.succeeded().stdout.trim().to_owned();
    let ended = server.interrupt();
    ended.succeeded();
    away.run(&["session", "list", "--server", &format!("http://{listen}")])
        .failed(1, "cannot");
    let again = Serving::start(&home, &["--listen", &listen]);
    away.run(&["session", "list", "--server", &again.url])
        .succeeded();
    away.run(&["attach", &again.url, "--code", &unused])
        .failed(1, "the pairing code is wrong");
    home.run(&["server", "stop"]).succeeded();
    assert!(TcpStream::connect(&listen).is_err());
}

#[test]
fn a_code_comes_from_standard_input_and_binds_to_what_it_was_made_for() {
    let (home, away) = (Home::new(), Home::new());
    let server = Serving::start(&home, ANYWHERE);
    let made = home.run(&[
        "access",
        "pair",
        "--cwd",
        ".",
        "--scopes",
        "read,operate",
        "--label",
        "laptop",
    ]);
    let code = made.succeeded().stdout.clone();
    assert!(
        made.stderr
            .contains(&format!("bezel attach {} --code", server.url)),
        "{made:#?}"
    );
    away.pipe(&["attach", &server.url, "--code", "-"], code.as_bytes())
        .succeeded();
    let listed = home.run(&["access", "list"]);
    assert!(
        listed
            .succeeded()
            .stdout
            .contains("laptop  read,operate  project"),
        "{listed:#?}"
    );
    // No directory is needed, and none outside is reached.
    away.run(&[
        "run",
        "--server",
        &server.url,
        "--model",
        "scripted::tour",
        "hello",
    ])
    .succeeded();
    away.run(&[
        "run",
        "--server",
        &server.url,
        "--cwd",
        "/",
        "--model",
        "scripted::tour",
        "hello",
    ])
    .failed(1, "outside the workspaces");
    away.pipe(&["attach", &server.url, "--code", "-"], b"\n")
        .failed(2, "no pairing code came");
    home.run(&["access", "pair", "--scopes", "everything"])
        .failed(2, "read, operate, admin");
}

#[test]
fn an_admin_elsewhere_gives_access_away_and_takes_it_back_and_nothing_more() {
    let (home, away, third) = (Home::new(), Home::new(), Home::new());
    let server = Serving::start(&home, ANYWHERE);
    let code = home
        .run(&["access", "pair", "--scopes", "admin"])
        .succeeded()
        .stdout
        .clone();
    away.run(&["attach", &server.url, "--code", code.trim()])
        .succeeded();
    let code = away.run(&[
        "access",
        "pair",
        "--server",
        &server.url,
        "--scopes",
        "read",
        "--json",
    ]);
    let code: Value = serde_json::from_str(&code.succeeded().stdout).unwrap();
    third
        .run(&[
            "attach",
            &server.url,
            "--code",
            code["code"].as_str().unwrap(),
        ])
        .succeeded();
    third
        .run(&["session", "list", "--server", &server.url])
        .succeeded();
    third
        .run(&["run", "--server", &server.url, "--cwd", "/", "hello"])
        .failed(1, "does not allow session-management.create");
    let clients = away.run(&["access", "list", "--server", &server.url, "--json"]);
    let clients: Value = serde_json::from_str(&clients.succeeded().stdout).unwrap();
    let admin = clients[1]["id"].as_str().unwrap();
    let gone = home.run(&["access", "revoke", admin]);
    assert_eq!(gone.succeeded().stdout.lines().count(), 2, "{gone:#?}");
    third
        .run(&["session", "list", "--server", &server.url])
        .failed(1, "taken back");
}

#[test]
fn a_server_that_would_be_open_to_all_or_is_there_already_does_not_start() {
    let home = Home::new();
    let open = home.run(&["serve", "--listen", "0.0.0.0:0"]);
    open.failed(1, "--allow-insecure");
    assert!(open.stderr.contains("--tls-cert"), "{open:#?}");
    home.run(&["serve", "--listen", "nonsense"])
        .failed(1, "HOST:PORT");
    home.run(&["serve", "--tls-cert", "x.pem"])
        .failed(2, "--tls-key");
    home.run(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--tls-cert",
        "x.pem",
        "--tls-key",
        "x.pem",
    ])
    .failed(2, "x.pem");
    home.run(&["access", "pair"])
        .failed(1, "start one with `bezel serve`");
    home.run(&["session", "list"]).succeeded();
    home.run(&["serve", "--listen", "127.0.0.1:0"])
        .failed(1, "`bezel server stop` ends it");
    home.run(&["access", "pair"])
        .failed(1, "takes no connections from other machines");
}

#[test]
fn a_client_does_not_send_its_token_in_the_open_to_another_machine() {
    let away = Home::new();
    let refused = away.run(&["attach", "http://192.0.2.1:4617", "--code", "AAAAA-AAAAA"]);
    refused.failed(2, "--allow-insecure");
    assert!(refused.stderr.contains("use https"), "{refused:#?}");
    away.run(&["attach", "192.0.2.1:4617"])
        .failed(2, "https://HOST:PORT");
}

#[test]
fn tls_is_verified_and_what_is_trusted_is_remembered() {
    let (home, away) = (Home::new(), Home::new());
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = |name: &str| home.project().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (file("cert.pem"), file("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let server = Serving::start(
        &home,
        &[
            "--listen",
            "localhost:0",
            "--tls-cert",
            &certificate,
            "--tls-key",
            &key,
        ],
    );
    assert!(
        server.url.starts_with("https://localhost:"),
        "{}",
        server.url
    );
    away.run(&["attach", &server.url, "--code", &server.code])
        .failed(1, "certificate");
    away.run(&[
        "attach",
        &server.url,
        "--code",
        &server.code,
        "--ca",
        &certificate,
    ])
    .succeeded();
    away.run(&["session", "list", "--server", &server.url])
        .succeeded();
}

#[test]
fn whatever_knocks_at_the_port_the_server_goes_on() {
    let (home, away) = (Home::new(), Home::new());
    let server = Serving::start(&home, ANYWHERE);
    let address = format!("127.0.0.1:{}", server.port());
    let mut held = Vec::new();
    for bytes in [
        &b""[..],
        b"GET /connect HTTP/1.1\r\n",
        &[0xff; 5000],
        b"{\"k\":\"hello\"}\n{}",
        &[b'A'; 100_000],
    ] {
        for _ in 0..4 {
            let mut stream = TcpStream::connect(&address).unwrap();
            // The server may have closed already.
            stream.write_all(bytes).ok();
            held.push(stream);
        }
    }
    away.run(&["attach", &server.url, "--code", &server.code])
        .succeeded();
    assert!(home.server().is_some());
    let ended = server.interrupt();
    ended.succeeded();
    eventually("the port is not free", || {
        TcpStream::connect(&address).err()
    });
}
