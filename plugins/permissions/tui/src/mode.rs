//! The mode in words and in the status line.

use bezel_permissions_contract::{PermissionMode, PermissionsState};
use bezel_presentation::text::Role;
use bezel_presentation::{StyledLine, StyledSpan};

/// The mode, and that something is wrong with the approvals.
pub(crate) fn line(state: &PermissionsState) -> StyledLine {
    let mode = state.effective();
    let role = match mode {
        PermissionMode::Plan => Role::AccentAlternate,
        PermissionMode::Ask | PermissionMode::AcceptEdits => Role::Muted,
        PermissionMode::Auto => Role::Accent,
        PermissionMode::Full => Role::Warning,
    };
    let mut line = StyledLine::new(mode.as_str(), role);
    if state.problem.is_some() {
        line.push(StyledSpan::new(" approvals!", Role::Error));
    }
    line
}

/// What a mode means, in half a sentence.
pub(crate) fn meaning(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Plan => "look, but change nothing",
        PermissionMode::Ask => "look at the project, ask for everything else",
        PermissionMode::AcceptEdits => "also change files of the project unasked",
        PermissionMode::Auto => "also run commands unasked that are known to stay in the project",
        PermissionMode::Full => "everything that no rule denies",
    }
}

/// The mode after this one. `full` is not among those that a key goes through.
pub(crate) fn next(mode: PermissionMode) -> PermissionMode {
    match mode {
        PermissionMode::Plan => PermissionMode::Ask,
        PermissionMode::Ask => PermissionMode::AcceptEdits,
        PermissionMode::AcceptEdits => PermissionMode::Auto,
        PermissionMode::Auto | PermissionMode::Full => PermissionMode::Plan,
    }
}
