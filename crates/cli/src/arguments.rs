//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::config::Permission;

/// A coding agent assembled from plugins.
#[derive(Debug, Parser)]
#[command(
    name = "bezel",
    version,
    about,
    long_about = "A coding agent assembled from plugins.\n\nWithout a command it opens the terminal interface in this directory, or plays the tour where there is no terminal.",
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "Exit status of `bezel run`: 0 done, 1 the turn failed, 2 bad usage or configuration, 3 no model or key, 130 interrupted."
)]
pub struct Arguments {
    /// What to do; the terminal interface when left out.
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub open: OpenArguments,
}

/// How the terminal interface opens.
#[derive(Debug, Default, Args)]
pub struct OpenArguments {
    /// Run everything in one process, without a server
    #[arg(long)]
    pub standalone: bool,
    #[command(flatten)]
    pub which: WhichSession,
    /// The model of a new session, as PROVIDER::MODEL
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The directory to work in
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
}

/// Which session; a new one when left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[group(multiple = false)]
pub struct WhichSession {
    /// Go on with this session: its id, or the beginning of one
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Go on with the newest session of this directory
    #[arg(long = "continue", short = 'c')]
    pub resume: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer one prompt without the terminal interface
    Run(RunArguments),
    /// List, show, rename and delete sessions
    Session {
        #[command(subcommand)]
        command: SessionCommand,
    },
    /// List the models that are configured
    Models(ModelsArguments),
    /// Show and check the configuration
    #[command(
        after_help = "Layers, a later one over an earlier: defaults, the user's config.toml, .bezel/config.toml of a \
        trusted project, environment variables, flags.\n\nVariables: BEZEL_MODEL, BEZEL_THINKING, BEZEL_THEME, \
        BEZEL_PERMISSION_MODE, BEZEL_SERVER_IDLE_EXIT_MINUTES, BEZEL_SESSION_IDLE_EXIT_MINUTES, BEZEL_TUI_MOUSE set the key \
        of that name; BEZEL_HOME moves everything under one directory; BEZEL_LOG is the level of the logs."
    )]
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Check that everything Bezel needs is there
    Doctor(DoctorArguments),
    /// Look at the server, stop it, read its log
    Server {
        #[command(subcommand)]
        command: ServerCommand,
    },
    /// Play the tour: a scripted model with real tools in a scratch directory
    Tour(TourArguments),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// The process of one session
    #[command(hide = true)]
    Worker,
}

/// One prompt.
#[derive(Debug, Default, Args)]
pub struct RunArguments {
    /// Write one JSON event a line (docs/run-events.schema.json)
    #[arg(long)]
    pub json: bool,
    /// Run everything in one process, without a server
    #[arg(long)]
    pub standalone: bool,
    /// The model, as PROVIDER::MODEL
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    #[command(flatten)]
    pub which: WhichSession,
    /// The directory to work in
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
    /// What the agent may do unasked
    #[arg(long, value_name = "MODE", value_enum)]
    pub permission_mode: Option<Permission>,
    /// What to do; read from standard input when left out or `-`, and joined with it when both are there
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,
}

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// List sessions, newest first
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a session's newest messages
    Show {
        /// The session's id, or the beginning of one
        id: String,
        /// How many messages
        #[arg(long, short = 'n', default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Give a session another title
    Rename {
        /// The session's id, or the beginning of one
        id: String,
        /// The new title
        title: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a session and all that belongs to it
    Delete {
        /// The session's id, or the beginning of one
        id: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// Which models to list.
#[derive(Debug, Args)]
pub struct ModelsArguments {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Ask every provider for its models first
    #[arg(long)]
    pub refresh: bool,
    /// The directory whose configuration holds
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Show what holds here, and where each value comes from
    Show {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Check the configuration and report every mistake
    Check {
        /// Check this file alone
        #[arg(value_hint = clap::ValueHint::FilePath)]
        file: Option<PathBuf>,
    },
    /// Show where everything is kept
    Path {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Let a project configure Bezel
    Trust {
        /// The project's directory; this one when left out
        #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        directory: Option<PathBuf>,
    },
    /// Take a project's trust back
    Untrust {
        /// The project's directory; this one when left out
        #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        directory: Option<PathBuf>,
    },
    /// Print the JSON Schema of a configuration file
    Schema,
}

/// How to check.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// What to do with the server.
#[derive(Debug, Subcommand)]
pub enum ServerCommand {
    /// Say whether it runs
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// End it; sessions are on disk and go on when the next one starts
    Stop,
    /// Print its log
    Logs {
        /// How many lines from the end
        #[arg(long, short = 'n', default_value_t = 200)]
        lines: usize,
        /// The log of this session's worker instead
        #[arg(long, value_name = "ID")]
        session: Option<String>,
    },
    /// Run it in the foreground
    #[command(hide = true)]
    Run {
        /// Say on standard output once it listens, or why it does not
        #[arg(long)]
        announce: bool,
    },
}

/// How to play the tour.
#[derive(Debug, Default, Args)]
pub struct TourArguments {
    /// Write one JSON event a line (docs/run-events.schema.json)
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(words: &[&str]) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(std::iter::once("bezel").chain(words.iter().copied()))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn without_a_command_the_interface_opens_as_flags_say() {
        let arguments = parse(&[
            "--continue",
            "--model",
            "a::b",
            "--cwd",
            "/x",
            "--standalone",
        ])
        .unwrap();
        assert!(arguments.command.is_none());
        assert!(arguments.open.which.resume && arguments.open.standalone);
        assert_eq!(arguments.open.model.as_deref(), Some("a::b"));
    }

    #[test]
    fn run_takes_its_prompt_as_one_or_several_words() {
        let Some(Command::Run(run)) = parse(&["run", "--json", "-c", "fix", "it"])
            .unwrap()
            .command
        else {
            panic!("not `run`")
        };
        assert_eq!(run.prompt, ["fix", "it"]);
        assert!(run.json && run.which.resume);
        assert_eq!(run.permission_mode, None);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for words in [
            &["run", "--session", "x", "--continue", "hi"][..],
            &["--session", "x", "--continue"],
            &["--standalone", "run", "hi"],
            &["run", "--permission-mode", "none", "hi"],
            &["session", "rename", "x"],
            &["session", "show", "x", "-n", "501"],
            &["frobnicate"],
        ] {
            assert_eq!(parse(words).unwrap_err().exit_code(), 2, "{words:?}");
        }
    }

    #[test]
    fn the_help_names_every_variable() {
        let mut command = Arguments::command();
        let config = command.find_subcommand_mut("config").unwrap();
        let help = config.render_long_help().to_string();
        for (name, _) in crate::config::VARIABLES {
            assert!(help.contains(name), "{name}: {help}");
        }
    }

    #[test]
    fn what_only_bezel_itself_calls_is_not_in_the_help() {
        let help = Arguments::command().render_long_help().to_string();
        assert!(help.contains("run") && !help.contains("worker"), "{help}");
    }
}
