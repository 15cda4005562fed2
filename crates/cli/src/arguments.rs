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
    long_about = "A coding agent assembled from plugins.\n\nWithout a command it opens the terminal interface in this directory; where no model is configured it plays the tour.",
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "Exit status: 0 done, 1 it failed, 2 bad usage or configuration, 3 no model or key, 130 interrupted. `bezel server status` ends with 1 while no server runs, `bezel doctor` where something is bad."
)]
pub struct Arguments {
    /// What to do; the terminal interface when left out.
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub open: OpenArguments,
}

/// How the terminal interface opens.
#[derive(Debug, Default, PartialEq, Eq, Args)]
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
    /// The agent of a new session; the configured one, else `build`, when left out
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// What the agent may do unasked in a new session; `ask` when left out
    #[arg(long, value_name = "MODE", value_enum)]
    pub permission_mode: Option<Permission>,
}

/// Which session; a new one when left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[group(multiple = false)]
pub struct WhichSession {
    /// Go on with this session: its id, or the beginning or end of one
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
    /// List, show, rename and delete sessions, take them along and in, check them
    Session {
        #[command(flatten)]
        server: ServerChoice,
        #[command(subcommand)]
        command: SessionCommand,
    },
    /// List the agents that there are here, and what is wrong with their files
    Agents(AgentsArguments),
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
    /// Serve this machine's sessions to other machines, in the foreground
    #[command(
        after_help = "It prints the server's URL and a pairing code. Without --tls-cert and --tls-key it listens on \
        loopback addresses alone, unless --allow-insecure says that the network itself is private."
    )]
    Serve(ServeArguments),
    /// Open the terminal interface of a server on another machine
    #[command(
        after_help = "The first time it asks for a pairing code, which `bezel access pair` prints where the server runs; \
        then this machine keeps a token of its own. Paths are those of the server's machine."
    )]
    Attach(AttachArguments),
    /// Let other machines in: pairing codes, paired clients
    Access {
        #[command(flatten)]
        server: ServerChoice,
        #[command(subcommand)]
        command: AccessCommand,
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
    Worker {
        /// Do one thing to a session's files and end
        #[arg(long)]
        errand: bool,
    },
}

/// One prompt.
#[derive(Debug, Default, Args)]
pub struct RunArguments {
    /// Write one JSON event a line (docs/run-events.schema.json)
    #[arg(long)]
    pub json: bool,
    /// Run everything in one process, without a server
    #[arg(long, conflicts_with = "server")]
    pub standalone: bool,
    #[command(flatten)]
    pub server: ServerChoice,
    /// The model, as PROVIDER::MODEL
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    #[command(flatten)]
    pub which: WhichSession,
    /// The directory to work in
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
    /// The agent of a new session; the configured one, else `build`, when left out
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// What the agent may do unasked; `auto` when left out
    #[arg(long, value_name = "MODE", value_enum)]
    pub permission_mode: Option<Permission>,
    /// A picture that goes with the prompt (PNG, JPEG, GIF or WebP, 5 MiB at most); may be given several times
    #[arg(long = "image", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub images: Vec<PathBuf>,
    /// What to do; read from standard input when left out or `-`, and joined with it when both are there
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,
}

/// Which server; the user's own when left out.
#[derive(Debug, Clone, Default, Args)]
pub struct ServerChoice {
    /// Use the server at this URL, which this machine is paired with; paths are then its own
    #[arg(long, value_name = "URL", global = true)]
    pub server: Option<String>,
}

/// How to serve.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:4617")]
    pub listen: String,
    /// The certificate chain, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key", value_hint = clap::ValueHint::FilePath)]
    pub tls_cert: Option<PathBuf>,
    /// Its private key, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = clap::ValueHint::FilePath)]
    pub tls_key: Option<PathBuf>,
    /// Take unencrypted connections from other machines
    #[arg(long)]
    pub allow_insecure: bool,
    /// A name that clients may use for this machine, beside what it listens on; may be given several times
    #[arg(long = "allow-host", value_name = "NAME")]
    pub allowed_hosts: Vec<String>,
}

/// Which server, and how its interface opens.
#[derive(Debug, Args)]
pub struct AttachArguments {
    /// The server: http(s)://HOST:PORT, or ws(s)://
    #[arg(value_name = "URL")]
    pub url: String,
    /// A pairing code; `-` reads it from standard input
    #[arg(long, value_name = "CODE")]
    pub code: Option<String>,
    /// Certificates to trust beside the system's, a PEM file
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// Connect to another machine without encryption
    #[arg(long)]
    pub allow_insecure: bool,
    #[command(flatten)]
    pub which: WhichSession,
    /// The model of a new session, as PROVIDER::MODEL
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The agent of a new session, one of the server's machine; the configured one there, else `build`, when left out
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The directory of the server's machine to work in; relative to the workspace where this client is bound to one
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<String>,
}

/// What to do with the access of other machines.
#[derive(Debug, Subcommand)]
pub enum AccessCommand {
    /// Print a pairing code: it works once, for five minutes
    Pair {
        /// What the client may do: read, operate, admin
        #[arg(
            long,
            value_name = "SCOPES",
            value_delimiter = ',',
            default_value = "read,operate"
        )]
        scopes: Vec<ScopeName>,
        /// Bind the client to the workspace of this directory
        #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        cwd: Option<PathBuf>,
        /// What to call the client
        #[arg(long, value_name = "NAME")]
        label: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// List the paired clients, newest first
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a client's access back: it ends at once, and so does that of all whom it let in
    Revoke {
        /// The client's id
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// What a paired client may do; a wider one includes the narrower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ScopeName {
    /// See sessions
    Read,
    /// Work in them
    Operate,
    /// Manage clients and the server
    Admin,
}

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// List sessions, newest first
    List {
        /// Archived sessions, and those that sessions began, too
        #[arg(long, conflicts_with = "archived")]
        all: bool,
        /// Only those whose title holds this text, in any case
        #[arg(long, value_name = "TEXT")]
        search: Option<String>,
        /// Only archived sessions
        #[arg(long)]
        archived: bool,
        /// Those that sessions began too
        #[arg(long)]
        children: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a session's newest messages
    Show {
        /// The session's id, or the beginning or end of one
        id: String,
        /// How many messages
        #[arg(long, short = 'n', default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what the model is given of a session's conversation
    ///
    /// From the newest compaction on. Starts nothing.
    Context {
        /// The session's id, or the beginning or end of one
        id: String,
        /// Show all that it would be sent now: system prompt, tools, conversation, options, as JSON. The session's
        /// process makes it, and is started for it
        #[arg(long)]
        request: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Give a session another title
    Rename {
        /// The session's id, or the beginning or end of one
        id: String,
        /// The new title
        title: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Put a session away, with all that it began: lists leave it out
    ///
    /// Nothing of it is deleted. Opening it takes it back.
    Archive {
        /// The session's id, or the beginning or end of one
        id: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a session back that was archived
    Unarchive {
        /// The session's id, or the beginning or end of one
        id: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy a session: one path of its conversation, or the whole tree
    ///
    /// The copy is a session of its own, idle, in the same directory; the first one stays as it is and may go on
    /// meanwhile.
    Fork {
        /// The session's id, or the beginning or end of one
        id: String,
        /// The entry that the copy begins at, by its id; otherwise where the session stands
        #[arg(long, value_name = "ENTRY")]
        at: Option<String>,
        /// Every branch, not only the path to that entry
        #[arg(long)]
        tree: bool,
        /// The copy's title
        #[arg(long)]
        title: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a session waits for: questions, and calls that need permission
    #[command(
        after_help = "`bezel session answer` answers a question, `bezel session permit` a call that needs permission."
    )]
    Pending {
        /// The session's id, or the beginning or end of one
        id: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Answer what a session asks
    #[command(
        after_help = "The first answer is the answer. It is kept where the session's process does not run; it is started for it."
    )]
    Answer(AnswerArguments),
    /// Show what a session needs permission for, and give it or decline it
    Permit(PermitArguments),
    /// Delete a session and all that belongs to it
    Delete {
        /// The session's id, or the beginning or end of one
        id: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a session into one file: whole, or to be read
    #[command(
        after_help = "jsonl: the first line tells of the session, each further line is one entry of its tree, in the \
        order of writing: id, parent, seq, created_at (milliseconds since 1970) and kind, which is message, \
        compaction, branch_summary or custom. docs/export.md describes them.\n\nLook through a transcript before you \
        share it: it has what the tools read and printed."
    )]
    Export {
        /// The session's id, or the beginning or end of one
        id: String,
        /// The file to make; ID.bezel, ID.jsonl or ID.md in this directory when left out
        #[arg(value_hint = clap::ValueHint::FilePath)]
        file: Option<PathBuf>,
        /// What to write
        #[arg(long, value_enum, default_value_t)]
        format: ExportChoice,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a session in: an export of Bezel, or a session file of pi, Claude Code or Codex
    Import {
        /// The file; it is left as it is
        #[arg(value_hint = clap::ValueHint::FilePath)]
        file: PathBuf,
        /// The directory that it works in; where it worked, if that is there, or this one, when left out
        #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        cwd: Option<PathBuf>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Look whether sessions are whole; ends with 1 where one is not
    Check {
        /// The session's id, or the beginning or end of one
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// All sessions, and folders of sessions that are not listed
        #[arg(long)]
        all: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what sessions take of the disk, the largest first
    Size {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Go back to before a message: files and conversation; undo that, or list what can be gone back to
    Rewind(RewindArguments),
}

/// What to do with a session's files.
#[derive(Debug, Args)]
pub struct RewindArguments {
    /// The session's id, or the beginning or end of one
    pub id: String,
    /// Put them back to before this message: its id is in the list, the beginning or end of it is enough
    #[arg(long, value_name = "MESSAGE", conflicts_with_all = ["clear", "commit"])]
    pub to: Option<String>,
    /// Put the files back and leave the conversation where it is
    #[arg(long, requires = "to")]
    pub files_only: bool,
    /// Undo it
    #[arg(long, conflicts_with = "commit")]
    pub clear: bool,
    /// Keep it
    #[arg(long)]
    pub commit: bool,
    /// Also files that somebody has edited since
    #[arg(long)]
    pub force: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// What to write of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportChoice {
    /// All of it, with its saved output, for `bezel session import`
    #[default]
    Bezel,
    /// Its tree, one entry per line, for programs
    Jsonl,
    /// A transcript of the path that it is on, for people
    Markdown,
}

/// A reply to a call that waits for permission.
#[derive(Debug, Args)]
pub struct PermitArguments {
    /// The session's id, or the beginning or end of one
    pub id: String,
    /// The call's id, or the beginning or end of one; not needed where one waits
    pub call: Option<String>,
    /// The reply; without one, what waits is shown
    #[arg(long, value_enum)]
    pub reply: Option<PermitReply>,
    /// With `--reply reject`: what the agent is to do instead. Without it the turn ends
    #[arg(long, value_name = "TEXT", requires = "reply")]
    pub message: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// A reply to a call that waits for permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PermitReply {
    /// This call may run
    Once,
    /// This call and its like, in this session
    Session,
    /// This call and its like, in every session of the project
    Always,
    /// It may not run
    Reject,
}

/// An answer to what a session asks.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("answer").required(true).args(["option", "text", "cancel"])))]
pub struct AnswerArguments {
    /// The session's id, or the beginning or end of one
    pub id: String,
    /// The question's id, or the beginning or end of one; not needed where one waits
    pub question: Option<String>,
    /// The number of the option, from 1
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub option: Option<u32>,
    /// Something else, in words
    #[arg(long, short)]
    pub text: Option<String>,
    /// No answer: the agent goes on without
    #[arg(long)]
    pub cancel: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Which agents to list.
#[derive(Debug, Args)]
pub struct AgentsArguments {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// The directory whose agents are listed
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
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
