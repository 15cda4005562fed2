//! Lists of sessions, a page at a time.

use bezel_context::WorkspaceId;
use bezel_session_types::SessionId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SessionSummary;

/// Which sessions to list. What is left out does not restrict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct ListSessions {
    /// Only those whose title holds this text, in any case. A session that nobody named is called after its first
    /// prompt.
    pub text: Option<String>,
    /// Only those of this workspace.
    pub workspace_id: Option<WorkspaceId>,
    /// Only those that work in exactly this directory; an absolute path.
    pub directory: Option<String>,
    /// Only those that this session began.
    pub parent_id: Option<SessionId>,
    /// What becomes of archived ones.
    pub archived: Archived,
    /// With those that other sessions began; `parent_id` asks for them anyway.
    pub children: bool,
    /// The page after this one: `next` of the page before.
    pub after: Option<String>,
    /// At most so many, 1 to 500; 100 when left out.
    pub limit: Option<u32>,
}

/// What becomes of archived sessions in a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Archived {
    /// They are left out.
    #[default]
    Exclude,
    /// They are among the others.
    Include,
    /// They alone are listed.
    Only,
}

/// A page of a list. Over all pages, a session that does not change meanwhile is listed exactly once; one that
/// changes goes to the front, which a later page does not come back to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionPage {
    /// The newest change first.
    pub sessions: Vec<SessionSummary>,
    /// Where the next page begins, opaque; none where this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
