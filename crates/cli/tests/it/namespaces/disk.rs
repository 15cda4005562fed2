//! A disk that is full: a mount namespace in which Bezel's files lie on a small file system.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bezel_testkit::{FakeModelServer, Script, Turn, WireFormat};
use serde_json::json;

use crate::home::{Done, Home, eventually, finish};
use crate::runs::home_with;

/// Mounts a small file system over the first directory, with the configuration that was there.
const MOUNT: &str = r#"cp "$1/config.toml" "$2" && mount -t tmpfs -o size=3m none "$1" && cp "$2" "$1/config.toml" && echo mounted && exec cat"#;

/// A namespace in which `BEZEL_HOME` is small.
struct SmallDisk<'h> {
    home: &'h Home,
    holder: Child,
}

impl<'h> SmallDisk<'h> {
    fn under(home: &'h Home) -> Self {
        let mut holder = Command::new("unshare")
            .args([
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                MOUNT,
                "sh",
            ])
            .arg(home.bezel())
            .arg(home.project().join("config"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let out = holder.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut said).unwrap();
        assert_eq!(said, "mounted\n");
        SmallDisk { home, holder }
    }

    /// A program where the disk is small.
    fn inside(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = self.home.command(&[]);
        let environment: Vec<_> = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        command = Command::new("nsenter");
        command
            .arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()))
            .args(["sh", "-c", r#"cd "$0" && exec "$@""#])
            .arg(self.home.project())
            .arg(program)
            .args(arguments)
            .env_clear()
            .envs(environment)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn bezel(&self, arguments: &[&str]) -> Command {
        self.inside(Path::new(env!("CARGO_BIN_EXE_bezel")), arguments)
    }

    fn run(&self, arguments: &[&str]) -> Done {
        finish(self.bezel(arguments).spawn().unwrap())
    }

    fn shell(&self, text: &str) -> Done {
        let shell = &mut self.inside(Path::new("sh"), &["-c", text]);
        finish(shell.spawn().unwrap())
    }

    /// Takes all room that is left.
    fn fill(&self) {
        let done = self.shell("cat /dev/zero > $BEZEL_HOME/everything");
        assert!(done.stderr.contains("No space left"), "{done:#?}");
    }

    fn make_room(&self) {
        self.shell("rm $BEZEL_HOME/everything").succeeded();
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // Not seen from outside: what the home itself would stop is another one.
        let stopped = self.run(&["server", "stop"]);
        drop(self.holder.stdin.take());
        let ended = self.holder.wait();
        assert!(
            (stopped.status == Some(0) && ended.is_ok()) || std::thread::panicking(),
            "{stopped:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fills_in_the_middle_of_a_turn_ends_it_with_a_reason_and_loses_nothing() {
    let command = "echo once >> effect; until [ -e go ]; do sleep 0.02; done; echo ended";
    let turns = [
        Turn::tool_calls([("bash", json!({ "command": command }))]),
        Turn::text("Back again."),
        Turn::text("And on."),
    ];
    let server = FakeModelServer::start(Script::new(turns)).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    let disk = SmallDisk::under(&home);
    let run = disk.bezel(&["run", "the first prompt"]).spawn().unwrap();
    let effect = home.project().join("effect");
    eventually("the command does not run", || effect.exists().then_some(()));
    disk.fill();
    std::fs::write(home.project().join("go"), "").unwrap();
    let done = finish(run);
    done.failed(1, "the disk is full");
    assert!(done.stderr.contains("make room"), "{done:#?}");
    disk.make_room();
    let done = disk.run(&["run", "--continue", "go on"]);
    assert_eq!(done.succeeded().stdout, "Back again.\n", "{done:#?}");
    assert_eq!(std::fs::read_to_string(&effect).unwrap(), "once\n");
    let asked = server.last_body().to_string();
    assert!(
        asked.contains("the first prompt") && asked.contains("go on"),
        "{asked}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_a_full_disk_cannot_take_is_refused_with_a_reason() {
    let turns = [Turn::text("One."), Turn::text("Two.")];
    let server = FakeModelServer::start(Script::new(turns)).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    let disk = SmallDisk::under(&home);
    disk.run(&["run", "first"]).succeeded();
    disk.fill();
    std::fs::write(home.project().join("long"), "second ".repeat(60_000)).unwrap();
    let bezel = env!("CARGO_BIN_EXE_bezel");
    let done = disk.shell(&format!("{bezel} run --continue < long"));
    done.failed(1, "the disk is full");
    disk.make_room();
    let done = disk.run(&["run", "--continue", "third"]);
    assert_eq!(done.succeeded().stdout, "Two.\n");
}
