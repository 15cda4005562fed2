//! A shell command that prints a key.

use std::collections::HashMap;
use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use crate::keys::Secret;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Far more than any key; a command that prints without end is not one that prints a key.
const MAX_OUTPUT: u64 = 64 * 1024;

/// What a command did instead of printing a key. Reads on from "which".
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyCommandError {
    #[error("could not be run with `sh`: {0}. Check that sh is on the session's PATH")]
    Start(std::io::Error),
    #[error("could not be read: {0}")]
    Read(std::io::Error),
    #[error("had not ended after {} s. Make it print the key and exit without asking anything", TIMEOUT.as_secs())]
    TimedOut,
    #[error("failed ({status}){stderr}. Run it in a shell to see why")]
    Failed { status: ExitStatus, stderr: String },
    #[error("printed nothing. It must print the key on its standard output")]
    Empty,
    #[error("printed what cannot be a key: {0}. It must print the key alone")]
    NotAKey(&'static str),
}

/// Ends the command's whole process group when it is dropped before it ended.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // The group may be gone already: then there is nothing to end.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

/// Runs `command` in the session's environment and returns what it printed, trimmed.
pub(crate) async fn run(
    command: &str,
    environment: &HashMap<OsString, OsString>,
) -> Result<Secret, KeyCommandError> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).env_clear().envs(environment);
    shell
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = shell.spawn().map_err(KeyCommandError::Start)?;
    let mut group = Group(
        child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)),
    );
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let ended = tokio::time::timeout(TIMEOUT, async {
        tokio::try_join!(text(stdout), text(stderr), child.wait()).map_err(KeyCommandError::Read)
    });
    let (stdout, stderr, status) = ended.await.map_err(|_| KeyCommandError::TimedOut)??;
    group.0 = None;
    if !status.success() {
        let line = stderr
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or_default();
        let line: String = line.trim().chars().take(200).collect();
        let stderr = if line.is_empty() {
            line
        } else {
            format!(": {line}")
        };
        return Err(KeyCommandError::Failed { status, stderr });
    }
    let key = stdout.trim();
    if key.is_empty() {
        return Err(KeyCommandError::Empty);
    }
    if key.contains(|character: char| character.is_control()) {
        return Err(KeyCommandError::NotAKey(
            "several lines, or a control character",
        ));
    }
    Ok(Secret::new(key))
}

async fn text(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        (&mut pipe).take(MAX_OUTPUT).read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn said(command: &str) -> Result<String, String> {
        let path = std::env::var_os("PATH").unwrap();
        let environment = HashMap::from([("PATH".into(), path), ("WHO".into(), "me".into())]);
        let key = run(command, &environment).await;
        key.map(|key| key.expose().into())
            .map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn the_output_is_trimmed_and_the_environment_is_the_sessions() {
        assert_eq!(
            said("printf ' key-of-%s \\n\\n' \"$WHO\"; echo noise >&2").await,
            Ok("key-of-me".into())
        );
        assert_eq!(said("echo \"${HOME:-unset}\"").await, Ok("unset".into()));
    }

    #[tokio::test]
    async fn what_prints_no_key_says_why() {
        for (command, expected) in [
            ("echo locked >&2; exit 3", "exit status: 3): locked"),
            ("true", "printed nothing"),
            ("printf 'a\\nb'", "several lines"),
        ] {
            let error = said(command).await.unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_that_hangs_is_given_up() {
        // The paused clock moves on at once, since nothing but the command is left to wait for.
        let error = said("sleep 1000").await.unwrap_err();
        assert!(error.contains("had not ended after 10 s"), "{error}");
    }

    #[tokio::test]
    async fn what_a_command_started_ends_with_it() {
        let file =
            std::env::temp_dir().join(format!("bezel-child-{}", uuid::Uuid::new_v4().simple()));
        let command = format!(
            "sleep 1000 & echo $! > '{0}.new'; mv '{0}.new' '{0}'; wait",
            file.display()
        );
        let started = async {
            while !file.exists() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::select! {
            ended = said(&command) => panic!("{ended:?}"),
            () = started => {}
        }
        let child = std::fs::read_to_string(&file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let child = Pid::from_raw(child).unwrap();
        let state = || {
            std::fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero()))
                .unwrap_or_default()
        };
        while rustix::process::test_kill_process(child).is_ok() && !state().contains(") Z ") {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        std::fs::remove_file(&file).unwrap();
    }
}
