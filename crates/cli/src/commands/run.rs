//! `bezel run`: one prompt without the terminal interface.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bezel_blobs_contract::Picture;
use bezel_context::{Context, Spawner, TaskScope};
use bezel_host_headless::{
    Choice, HeadlessError, HeadlessOptions, HeadlessOutcome, Printer, Terminals, plain_text,
};
use bezel_rpc::Link;
use bezel_session_types::{ImageContent, ModelRef};
use bezel_sessions_contract::{LaunchEnvironment, PermissionMode};
use bezel_telemetry::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::additions::Additions;
use crate::arguments::{RunArguments, WhichSession};
use crate::config::{Loaded, Permission};
use crate::connect::{Joined, join_chosen, join_through};
use crate::failure::{Exit, Failure, Outcome};
use crate::setup::{Setup, environment, untrusted_notice};
use crate::{agents, logging, manifest, standalone, telemetry};

/// Bytes of a prompt at most.
const MOST: usize = 8 * 1024 * 1024;
/// How long a pipe that nobody wrote to yet is waited for when there is a prompt already.
const PIPE: Duration = Duration::from_secs(3);

/// What a run may do unasked where nobody says: most of them run with nobody there, so what stays within the
/// project runs, and the rest waits for an answer.
const UNATTENDED: Permission = Permission::Auto;

/// Runs the command.
pub fn run(arguments: RunArguments) -> Outcome {
    // On another machine the directory is one of its own.
    let here = arguments.server.server.is_none();
    let setup = Setup::new(arguments.cwd.as_deref().filter(|_| here))?;
    logging::start_with_spans(
        logging::Target::File(setup.paths.logs.join("client.log")),
        telemetry::of_process(Process::Presentation),
    )
    .map_err(Failure::usage)?;
    // What models there are elsewhere, this machine's configuration does not know.
    let flags = arguments
        .model
        .iter()
        .filter(|_| here)
        .map(|model| ("--model", "model", model.clone()))
        .collect();
    let loaded = setup.load(flags)?;
    if arguments.permission_mode.is_some() && arguments.which != WhichSession::default() {
        let what = "--permission-mode belongs to a new session; one that goes on keeps the mode that it began with";
        return Err(Failure::usage(anyhow!(what)));
    }
    let is_new = arguments.which == WhichSession::default();
    let agent = arguments.agent.as_deref();
    agents::check_is_new(agent, is_new)?;
    let prompt = prompt(&arguments.prompt)?;
    let options = options(&setup, &loaded, &arguments, prompt)?;
    if here {
        let sources = setup.sources(Vec::new());
        for notice in agents::check_start(&sources, &loaded.config, agent, is_new)? {
            tell(&notice);
        }
    }
    if let Some(file) = &loaded.untrusted {
        tell(&untrusted_notice(file));
    }
    if let Choice::New {
        permission_mode, ..
    } = &options.choice
        && *permission_mode == PermissionMode::Ask
    {
        tell(asking_notice(arguments.standalone));
    }
    let runtime = runtime()?;
    let json = arguments.json;
    if arguments.standalone {
        let server = standalone::start(&setup.paths, &loaded.config, Additions::default())?;
        let outcome = runtime.block_on(async {
            let cx = Context::background();
            let joined = join_through(&cx, server.connect.clone(), server.credential.clone()).await;
            play(&cx, joined.map_err(Failure::failed)?, options, json).await
        });
        server.stop();
        return outcome;
    }
    runtime.block_on(async {
        let cx = Context::background();
        let joined = join_chosen(&cx, &setup.paths, &arguments.server).await;
        let joined = joined.map_err(Failure::failed)?;
        play(&cx, joined, options, json).await
    })
}

/// What a run is told that will have to wait for a person at every step.
fn asking_notice(standalone: bool) -> &'static str {
    match standalone {
        true => {
            "notice: in mode `ask` edits and commands need an answer, and nobody can give it to a standalone run, which declines them: \
             take `--permission-mode auto` or `full`, or leave `--standalone` out"
        }
        false => {
            "notice: in mode `ask` edits and commands wait for an answer: `bezel session permit` \
             gives it from elsewhere, and `--permission-mode auto` or `full` needs fewer or none"
        }
    }
}

/// Runs one prompt over a connection and leaves.
pub async fn play(cx: &Context, joined: Joined, options: HeadlessOptions, json: bool) -> Outcome {
    let signals = TaskScope::new();
    let mut interrupts = interrupts(&signals.spawner())?;
    let played = print(cx, &joined.link, options, json, &mut interrupts).await;
    joined.leave().await;
    Ok(match played?.status.exit_status() {
        0 => Exit::Done,
        2 => Exit::Usage,
        3 => Exit::NoModel,
        130 => Exit::Interrupted,
        _ => Exit::Failed,
    })
}

async fn print(
    cx: &Context,
    link: &Link,
    options: HeadlessOptions,
    json: bool,
    interrupts: &mut UnboundedReceiver<()>,
) -> Outcome<HeadlessOutcome> {
    let mut out = io::stdout();
    let mut activity = io::stderr();
    let terminals = Terminals {
        answer: out.is_terminal(),
        activity: activity.is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    };
    let mut printer = if json {
        Printer::json(&mut out)
    } else {
        Printer::text(&mut out, &mut activity, terminals)
    };
    match bezel_host_headless::run(cx, link, options, interrupts, &mut printer).await {
        Ok(outcome) => Ok(outcome),
        Err(HeadlessError::Output(error)) => Err(error.into()),
    }
}

/// Each press of Ctrl-C, and each request to end.
fn interrupts(spawner: &Spawner) -> Outcome<UnboundedReceiver<()>> {
    let (sender, receiver) = unbounded_channel();
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind)
            .context("cannot listen for Ctrl-C")
            .map_err(Failure::failed)?;
        let sender = sender.clone();
        drop(spawner.spawn("interrupts", async move {
            while signals.recv().await.is_some() && sender.send(()).is_ok() {}
        }));
    }
    Ok(receiver)
}

fn options(
    setup: &Setup,
    loaded: &Loaded,
    arguments: &RunArguments,
    prompt: String,
) -> Outcome<HeadlessOptions> {
    let model = arguments
        .model
        .as_deref()
        .map(str::parse::<ModelRef>)
        .transpose()
        .map_err(Failure::usage)?;
    let permission = arguments
        .permission_mode
        .or(loaded.config.permission_mode)
        .unwrap_or(UNATTENDED);
    let choice = choice(
        &arguments.which,
        model.clone(),
        arguments.agent.clone(),
        permission,
    );
    let here = arguments.server.server.is_none();
    let directory = match here {
        true => setup.directory.clone(),
        false => arguments.cwd.clone().unwrap_or_default(),
    };
    let directory = directory.to_str().map(str::to_owned);
    let directory = directory
        .with_context(|| {
            format!(
                "cannot work in {}: its name is not UTF-8",
                setup.directory.display()
            )
        })
        .map_err(Failure::usage)?;
    Ok(HeadlessOptions {
        prompt,
        pictures: arguments
            .images
            .iter()
            .map(|file| picture(file))
            .collect::<Outcome<_>>()?,
        choice,
        directory,
        environment: LaunchEnvironment(if here { environment() } else { BTreeMap::new() }),
        // Who asks for it by name gets it.
        stand_in: (here && loaded.config.model.is_none()).then(|| manifest::STAND_IN.to_owned()),
        switch_model: model,
        unreachable: arguments.standalone,
    })
}

/// The picture in a file.
fn picture(file: &Path) -> Outcome<Picture> {
    let most = ImageContent::MAX_BYTES;
    let unfit = |what: String| Failure::usage(anyhow!("cannot send {}: {what}", file.display()));
    let mut bytes = Vec::new();
    let read = std::fs::File::open(file)
        .and_then(|opened| opened.take(most as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|error| unfit(error.to_string()))?;
    if bytes.len() > most {
        let most = most / 1024 / 1024;
        return Err(unfit(format!(
            "a picture may have {most} MiB; make it smaller"
        )));
    }
    Picture::new(bytes).ok_or_else(|| {
        unfit("it is not a PNG, JPEG, GIF or WebP picture, whatever its name says".into())
    })
}

/// The session that the flags ask for.
pub fn choice(
    which: &WhichSession,
    model: Option<ModelRef>,
    agent: Option<String>,
    permission: Permission,
) -> Choice {
    match (&which.session, which.resume) {
        (Some(id), _) => Choice::Id(id.clone()),
        (None, true) => Choice::Newest,
        (None, false) => Choice::New {
            model,
            agent,
            permission_mode: permission.into(),
        },
    }
}

/// A runtime for a client: one thread, this one.
pub fn runtime() -> Outcome<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build();
    runtime
        .context("cannot start the runtime")
        .map_err(Failure::failed)
}

/// Says something on standard error, where somebody may read it.
pub fn tell(text: &str) {
    use std::io::Write as _;
    writeln!(io::stderr(), "{}", plain_text(text)).ok();
}

/// The prompt: the words, what standard input holds, or both.
fn prompt(words: &[String]) -> Outcome<String> {
    let given = words.join(" ");
    let only_input = words.is_empty() || given == "-";
    if only_input && io::stdin().is_terminal() && words.is_empty() {
        return Err(Failure::usage(anyhow!(
            "no prompt: write it behind `bezel run`, or pipe it in"
        )));
    }
    let piped = if only_input || !io::stdin().is_terminal() {
        input(only_input)?
    } else {
        String::new()
    };
    joined(if only_input { "" } else { &given }, &piped)
}

fn joined(given: &str, piped: &str) -> Outcome<String> {
    let prompt = match (given.trim().is_empty(), piped.trim().is_empty()) {
        (true, true) => {
            return Err(Failure::usage(anyhow!(
                "the prompt is empty: say what to do"
            )));
        }
        (false, true) => given.to_owned(),
        (true, false) => piped.to_owned(),
        (false, false) => format!("{given}\n\n{piped}"),
    };
    if prompt.len() > MOST {
        let what = format!(
            "the prompt has {} bytes and {MOST} is the most: put it into a file and name the file",
            prompt.len()
        );
        return Err(Failure::usage(anyhow!(what)));
    }
    Ok(prompt)
}

/// All of standard input. Where there is a prompt already, a pipe that stays silent is passed over: it may
/// be one that its owner never closes.
fn input(needed: bool) -> Outcome<String> {
    let stdin = io::stdin();
    if !needed && !speaks(&stdin) {
        return Ok(String::new());
    }
    let mut bytes = Vec::new();
    stdin
        .lock()
        .take(MOST as u64 + 1)
        .read_to_end(&mut bytes)
        .context("cannot read standard input")
        .map_err(Failure::usage)?;
    String::from_utf8(bytes)
        .map_err(|_| Failure::usage(anyhow!("standard input is not UTF-8 text")))
}

/// Whether standard input holds something that is no terminal's. A pipe that nobody wrote to yet gets a
/// moment.
pub fn is_piped_into() -> bool {
    let stdin = io::stdin();
    let Ok(stat) = rustix::fs::fstat(&stdin) else {
        return false;
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => stat.st_size > 0,
        FileType::Fifo | FileType::Socket => {
            let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
            let moment = Timespec {
                tv_sec: 0,
                tv_nsec: 200_000_000,
            };
            poll(&mut polled, Some(&moment)).is_ok() && polled[0].revents().contains(PollFlags::IN)
        }
        _ => false,
    }
}

fn speaks(stdin: &io::Stdin) -> bool {
    let kind = rustix::fs::fstat(stdin).map(|stat| FileType::from_raw_mode(stat.st_mode));
    if !matches!(kind, Ok(FileType::Fifo | FileType::Socket)) {
        return true;
    }
    let mut polled = [PollFd::new(stdin, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: PIPE.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    match poll(&mut polled, Some(&timeout)) {
        Ok(0) => {
            tell(&format!(
                "notice: standard input stayed silent for {} seconds and is not used",
                PIPE.as_secs()
            ));
            false
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(result: Outcome<String>) -> Result<String, String> {
        result.map_err(|failure| match failure {
            Failure::Message(_, error) => error.to_string(),
            Failure::BrokenPipe => "broken pipe".into(),
        })
    }

    #[test]
    fn words_and_input_are_joined_and_one_of_them_is_needed() {
        assert_eq!(words(joined("fix", "log")), Ok("fix\n\nlog".into()));
        assert_eq!(words(joined("fix", " \n")), Ok("fix".into()));
        assert_eq!(words(joined("", "log\n")), Ok("log\n".into()));
        assert!(words(joined(" ", "\n")).unwrap_err().contains("empty"));
        assert!(
            words(joined("fix", &"x".repeat(MOST)))
                .unwrap_err()
                .contains("put it into a file")
        );
    }
}
