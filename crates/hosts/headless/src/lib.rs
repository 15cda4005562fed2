//! The headless presentation: one prompt in, text or events out.
//!
//! [`run`] drives one session over a managed connection, as any presentation does: it selects or makes
//! the session, prompts through `Chat`, follows `Transcript`, and tells what is new. It reads no
//! argument, no environment variable and no signal: the caller hands in what it needs.

mod events;
mod follow;
mod print;
mod run;
mod select;
mod steering;

pub use events::{
    EndStatus, PermissionAsked, QuestionChoice, RunEvent, RunLine, ToolEndStatus, VERSION, schema,
};
pub use print::{Printer, Terminals, TextPrinter};
pub use run::{HeadlessError, HeadlessOptions, HeadlessOutcome, run};
pub use select::{Choice, SelectError, find_session, list_sessions, newest_session};
pub use steering::{plain_line, plain_text};
