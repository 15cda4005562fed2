//! Starts the process of a command.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use bezel_session_types::{InvocationId, SESSION_VARIABLE, SessionId};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::plain::{Route, route};
use super::tree::INVOCATION_VARIABLE;
use crate::Environment;

/// A shell takes its command as one argument, which the kernel limits to 128 KiB; longer ones go through a file.
const ARGUMENT_BYTES: usize = 100 * 1024;

/// What to start.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) command: &'a str,
    pub(crate) directory: &'a Path,
    pub(crate) session: &'a SessionId,
    pub(crate) invocation: &'a InvocationId,
    /// Where the shell writes its directory when it ends in another one. Beside it lies a command that is too long
    /// for an argument.
    pub(crate) directory_file: &'a Path,
}

/// A command that runs.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) child: Child,
    /// Its stdout and stderr, in the order in which it wrote.
    pub(crate) output: pipe::Receiver,
    /// The file that holds the command, when it was too long for an argument.
    pub(crate) script: Option<PathBuf>,
}

/// The shells of this machine.
#[derive(Debug)]
pub(crate) struct Shells {
    /// Bash, or what there is instead.
    full: PathBuf,
    /// The system's POSIX shell, usually a small and fast one.
    posix: PathBuf,
}

impl Shells {
    /// The person's own bash, the first one in `PATH`, or the system's shell.
    pub(crate) fn find(environment: &Environment) -> Self {
        let root = Path::new("/");
        let own = environment
            .get("SHELL")
            .map(Path::new)
            .filter(|shell| shell.ends_with("bash"));
        let own = own.and_then(|shell| environment.find_program(shell.to_str()?, root));
        let posix = PathBuf::from("/bin/sh");
        let full = own
            .or_else(|| environment.find_program("bash", root))
            .unwrap_or_else(|| posix.clone());
        Shells { full, posix }
    }

    /// Starts a command without waiting for anything. The child leads its own process group.
    pub(crate) fn start(
        &self,
        environment: &Environment,
        launch: &Launch<'_>,
    ) -> io::Result<Started> {
        let route = if environment.defines_shell_code() {
            Route::Shell
        } else {
            route(launch.command)
        };
        match &route {
            Route::Direct(words) => {
                // Whatever goes wrong, the shell says it in its own words and with its own exit code.
                if let Some(started) = start_direct(environment, launch, words) {
                    return Ok(started);
                }
            }
            Route::Posix => {
                let mut command = Command::new(&self.posix);
                command.arg0("sh").arg("-c").arg(launch.command);
                return start(environment, launch, command, None);
            }
            Route::Shell => {}
        }
        let script = script(launch);
        let mut command = Command::new(&self.full);
        if script.len() <= ARGUMENT_BYTES {
            command.arg("-c").arg(script);
            return start(environment, launch, command, None);
        }
        let file = launch.directory_file.with_extension("sh");
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(&file)?.write_all(script.as_bytes())?;
        command.arg(&file);
        start(environment, launch, command, Some(file))
    }
}

fn start_direct(
    environment: &Environment,
    launch: &Launch<'_>,
    words: &[String],
) -> Option<Started> {
    let (name, arguments) = words.split_first()?;
    let program = environment.find_program(name, launch.directory)?;
    let mut command = Command::new(program);
    command.arg0(name).args(arguments);
    start(environment, launch, command, None).ok()
}

/// The command with a trap before it that notes the directory in which the shell ends. It stands on the
/// command's own first line, so that line numbers in messages are right.
fn script(launch: &Launch<'_>) -> String {
    let start = quoted(&launch.directory.to_string_lossy());
    let file = quoted(&launch.directory_file.to_string_lossy());
    let note = format!("{{ [ \"$PWD\" = {start} ] || pwd -P > {file}; }} 2>/dev/null");
    format!("trap {} EXIT; {}", quoted(&note), launch.command)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn start(
    environment: &Environment,
    launch: &Launch<'_>,
    mut command: Command,
    script: Option<PathBuf>,
) -> io::Result<Started> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    command
        .current_dir(launch.directory)
        .env_clear()
        .envs(environment.iter())
        .env("PWD", launch.directory)
        .env(SESSION_VARIABLE, launch.session.as_str())
        .env(INVOCATION_VARIABLE, launch.invocation.as_str())
        .stdin(Stdio::null())
        .stdout(Stdio::from(writer.try_clone()?))
        .stderr(Stdio::from(writer));
    lead_own_group(&mut command);
    let child = command.spawn()?;
    // The command holds the writing end; the output ends only when nobody holds it any more.
    drop(command);
    Ok(Started {
        child,
        output: pipe::Receiver::from_owned_fd_unchecked(nonblocking(reader)?)?,
        script,
    })
}

fn nonblocking(reader: OwnedFd) -> io::Result<OwnedFd> {
    let flags = rustix::fs::fcntl_getfl(&reader)?;
    rustix::fs::fcntl_setfl(&reader, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok(reader)
}

/// Without a terminal a process group of its own is enough, and the child is made by `vfork`. With one the
/// command also needs a session of its own: it could otherwise read the person's keys or stop at the attempt.
fn lead_own_group(command: &mut Command) {
    static TERMINAL: OnceLock<bool> = OnceLock::new();
    if !TERMINAL.get_or_init(|| File::open("/dev/tty").is_ok()) {
        command.process_group(0);
        return;
    }
    // SAFETY: the closure runs in the child between fork and exec and makes one system call, `setsid`, which
    // is async-signal-safe; it touches no memory of the parent.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(drop).map_err(io::Error::from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trap_survives_any_directory_name() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let odd = directory.path().join("it's \"odd\" $HOME `x`");
        std::fs::create_dir(&odd).expect("directory");
        let file = directory.path().join("where it's");
        let (session, invocation) = (SessionId::new("s"), InvocationId::new("i"));
        let launch = |command| Launch {
            command,
            directory: &odd,
            session: &session,
            invocation: &invocation,
            directory_file: &file,
        };
        let run = |launch: &Launch<'_>| {
            let mut shell = std::process::Command::new("sh");
            let output = shell
                .arg("-c")
                .arg(script(launch))
                .current_dir(&odd)
                .env("PWD", &odd)
                .output()
                .expect("sh");
            (
                String::from_utf8(output.stdout).expect("text"),
                String::from_utf8(output.stderr).expect("text"),
            )
        };
        assert_eq!(
            run(&launch("echo stays")),
            ("stays\n".into(), String::new())
        );
        assert!(!file.exists());
        assert_eq!(
            run(&launch("cd /; echo moves")),
            ("moves\n".into(), String::new())
        );
        assert_eq!(std::fs::read_to_string(&file).expect("file"), "/\n");
    }
}
