//! The open session's children and the session that began it.

use bezel_api_tui::{
    CommandArguments, CommandResult, Commands, Select, SelectItem, TuiContext, Ui,
};
use bezel_context::Context;
use bezel_presentation::text::{Role, sanitize};
use bezel_presentation::wrap::truncate;
use bezel_presentation::{StyledLine, StyledSpan};
use bezel_rpc::{AttachmentState, State};
use bezel_session_types::SessionId;
use bezel_sessions_contract::{
    DirectoryState, SessionDirectoryClient, SessionStatus, SessionSummary,
};
use serde_json::json;

/// Of the parent's title in the status line, in cells.
const TITLE_CELLS: usize = 32;

#[derive(Clone)]
pub(crate) struct Family {
    ui: Ui,
    commands: Commands,
    attachment: State<AttachmentState>,
    sessions: State<DirectoryState>,
}

impl Family {
    pub(crate) fn new(cx: &TuiContext) -> Self {
        let directory: SessionDirectoryClient = cx.server.use_service();
        Family {
            ui: cx.ui.clone(),
            commands: cx.commands.clone(),
            attachment: cx.session.attachment(),
            sessions: directory.state(),
        }
    }

    fn open(&self) -> Option<SessionId> {
        self.attachment.get().target().map(SessionId::new)
    }

    /// The newest first.
    fn children(&self) -> Vec<SessionSummary> {
        let Some(open) = self.open() else {
            return Vec::new();
        };
        let sessions = self.sessions.get();
        let own = |session: &&SessionSummary| session.parent_id.as_ref() == Some(&open);
        let mut children: Vec<_> = sessions.sessions.iter().filter(own).cloned().collect();
        children.sort_by(|a, b| b.created_at.cmp(&a.created_at));
        children
    }

    pub(crate) fn has_children(&self) -> bool {
        !self.children().is_empty()
    }

    pub(crate) fn parent(&self) -> Option<SessionId> {
        let open = self.open()?;
        let sessions = self.sessions.get();
        let own = sessions
            .sessions
            .iter()
            .find(|session| session.session_id == open);
        own.and_then(|own| own.parent_id.clone())
    }

    /// What the status line says while the open session is somebody's child: of which session, and the way back.
    pub(crate) fn badge(&self) -> Option<StyledLine> {
        let parent = self.parent()?;
        let sessions = self.sessions.get();
        let mut line = StyledLine::new("↑ ", Role::Accent);
        let of = match sessions.title_of(&parent) {
            None => "subagent".to_owned(),
            Some(title) => format!("subagent of {}", sanitize(title, 1)),
        };
        let of = StyledLine::new(of, Role::Muted);
        line.spans.extend(truncate(&of, TITLE_CELLS).spans);
        line.push(StyledSpan::new(" ctrl+x p", Role::Faint));
        Some(line)
    }

    /// Opens the child that the person chooses.
    pub(crate) async fn choose(&self, cx: &Context) -> CommandResult {
        let items: Vec<_> = self.children().into_iter().map(item).collect();
        let select = Select::new("Subagents")
            .placeholder("search by what they do")
            .items(items);
        if let Some(chosen) = self.ui.select(cx, select).await {
            self.go(&chosen.value);
        }
        Ok(())
    }

    /// Opens the session that began the open one.
    pub(crate) fn back(&self) -> CommandResult {
        if let Some(parent) = self.parent() {
            self.go(&parent);
        }
        Ok(())
    }

    fn go(&self, session: &SessionId) {
        let arguments = CommandArguments::value(json!({ "session_id": session }));
        self.commands.run("sessions.open", arguments);
    }
}

fn item(session: SessionSummary) -> SelectItem<SessionId> {
    let (mark, status) = match session.status {
        SessionStatus::Starting => ("◌", "starting"),
        SessionStatus::Active => ("●", "working"),
        SessionStatus::Waiting => ("?", "waits for you"),
        SessionStatus::Idle | SessionStatus::Closed => ("○", "idle"),
        SessionStatus::Unreachable => ("✗", "unreachable"),
    };
    let title = match session.title.as_str() {
        "" => "(no title yet)",
        title => title,
    };
    let agent = session.agent.as_deref().unwrap_or_default();
    let detail = match agent {
        "" => status.to_owned(),
        agent => format!("{agent} · {status}"),
    };
    SelectItem::new(format!("{mark} {title}"), session.session_id).detail(detail)
}
