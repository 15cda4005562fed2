//! Permissions: judges every tool call, and asks a person where nobody has decided it yet.
//!
//! A call is judged in clearance: after every hook that could change it, so that what was approved is what runs,
//! and before anything is recorded of it. What a call touches its tool says ([`bezel_session_types::Access`]); the
//! plugin knows no tool. A shell command is taken apart by the grammar of bash, and a path is followed through its
//! links.
//!
//! | Mode | Reading the project, looking commands | Changing its files | Known commands within it | The rest |
//! |---|---|---|---|---|
//! | `plan` | runs | refused | refused | refused where it changes something, else asked |
//! | `ask` | runs | asked | asked | asked |
//! | `accept-edits` | runs | runs | asked | asked |
//! | `auto` | runs | runs | runs | asked |
//! | `full` | runs | runs | runs | runs |
//!
//! In every mode but `full`, what lies outside of the session's directory, what may hold secrets and what steers
//! git or Bezel is asked for. Configured rules and approvals decide before the mode does; a configured rule that
//! denies is final in all of them.
//!
//! Other plugins have a say (`Hooks::evaluate_permission`): what one denies does not run, what one asks for is asked, and
//! what one allows is not asked, unless a rule denies it or may, or it changes something in `plan` mode.

mod approvals;
mod approver;
mod below;
mod covers;
mod facet;
mod heed;
mod judge;
mod pattern;
mod place;
mod rules;
mod sensitive;
mod service;
mod shell;

pub use facet::{PermissionsConfig, facet};
