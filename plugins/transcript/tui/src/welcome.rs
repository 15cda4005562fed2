//! What is shown before anything was said.

use std::path::Path;

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::{Commands, Keybindings, RenderContext};
use bezel_models_contract::ModelsState;
use bezel_presentation::text::Role;
use bezel_presentation::wrap::{truncate, truncate_start};
use bezel_presentation::{StyledLine, StyledSpan};
use bezel_rpc::{AttachmentState, State};
use bezel_sessions_contract::DirectoryState;

use crate::entry::GUTTER;

/// A greeting, where one is, and what to try.
pub(crate) struct Welcome {
    pub(crate) models: State<ModelsState>,
    pub(crate) directory: State<DirectoryState>,
    pub(crate) attachment: State<AttachmentState>,
    pub(crate) keybindings: Keybindings,
    pub(crate) commands: Commands,
    /// Where the presentation was started, as it is shown.
    pub(crate) place: String,
}

/// A path as people write it: their home as `~`.
pub(crate) fn shown_path(path: &Path, home: Option<&str>) -> String {
    match home
        .map(Path::new)
        .filter(|home| *home != Path::new("/"))
        .and_then(|home| path.strip_prefix(home).ok())
    {
        Some(rest) if rest.as_os_str().is_empty() => "~".into(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

impl Welcome {
    pub(crate) fn draw(
        &self,
        area: Rect,
        buffer: &mut Buffer,
        cx: &RenderContext<'_>,
        known: bool,
    ) {
        let lines = self.lines(usize::from(area.width.saturating_sub(2 * GUTTER)), known);
        // A little above the middle, where the eye begins; at the top when there is little room.
        let count = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        let y = area.y + area.height.saturating_sub(count) / 3;
        let x = area.x + GUTTER.min(area.width);
        let field = Rect {
            x,
            y,
            width: area.width.saturating_sub(GUTTER),
            height: area.bottom().saturating_sub(y),
        };
        cx.paint().draw_lines(buffer, field, &lines);
    }

    fn lines(&self, width: usize, known: bool) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        let mut title = StyledLine::new("◆ ", Role::Accent);
        title.push(StyledSpan::new("bezel", Role::Title));
        lines.push(title);
        lines.push(self.place(width));
        lines.push(StyledLine::default());
        let invitation = if known || !self.attachment.get().is_attached() {
            "Ask for a change in plain words; the agent reads, edits, runs and checks."
        } else {
            "Opening the session…"
        };
        lines.push(truncate(&StyledLine::new(invitation, Role::Text), width));
        lines.push(StyledLine::default());
        for (key, text) in self.hints() {
            let mut line = StyledLine::new(format!("{key:<14}"), Role::Key);
            line.push(StyledSpan::new(text, Role::Muted));
            lines.push(truncate(&line, width));
        }
        lines
    }

    /// The directory or workspace, and the model.
    fn place(&self, width: usize) -> StyledLine {
        let attachment = self.attachment.get();
        let directory = self.directory.get();
        let session = attachment.target().and_then(|target| {
            directory
                .sessions
                .iter()
                .find(|session| session.session_id.as_str() == target)
        });
        let elsewhere = session
            .map(|session| session.workspace_name.as_str())
            .filter(|name| !name.is_empty() && !self.place.ends_with(name));
        let mut model = String::new();
        if attachment.is_attached() && !self.models.is_stale() {
            let models = self.models.get();
            if let Some(chosen) = &models.configuration.model {
                let known = models
                    .catalog
                    .available_models
                    .iter()
                    .find(|spec| spec.model == *chosen);
                model = format!(
                    " · {}",
                    known.map_or(chosen.model_id.as_str(), |spec| spec.name.as_str())
                );
            }
        }
        let room = width.saturating_sub(model.chars().count()).max(10);
        let place = truncate_start(elsewhere.unwrap_or(&self.place), room).into_owned();
        let mut line = StyledLine::new(place, Role::Muted);
        line.push(StyledSpan::new(model, Role::Muted));
        line
    }

    fn hints(&self) -> Vec<(String, String)> {
        let mut hints = vec![
            ("@".to_owned(), "name a file".to_owned()),
            ("/".to_owned(), "run a command".to_owned()),
        ];
        let commands = self.commands.list();
        for (id, text) in [
            ("screen.palette", "all commands"),
            ("models.select", "choose a model"),
            ("sessions.switch", "earlier sessions"),
            ("screen.help", "all keys"),
        ] {
            let Some(command) = commands.iter().find(|command| &*command.id == id) else {
                continue;
            };
            let key = self.keybindings.chord_of(id).map(|chord| chord.to_string());
            if let Some(key) =
                key.or_else(|| command.slash.as_ref().map(|slash| format!("/{slash}")))
            {
                hints.push((key, text.to_owned()));
            }
        }
        hints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_below_home_is_short() {
        let shown = |path: &str, home| shown_path(Path::new(path), home);
        assert_eq!(shown("/home/me/code/x", Some("/home/me")), "~/code/x");
        assert_eq!(shown("/home/me", Some("/home/me")), "~");
        assert_eq!(shown("/home/meadow", Some("/home/me")), "/home/meadow");
        assert_eq!(shown("/srv", Some("/")), "/srv");
        assert_eq!(shown("/srv", None), "/srv");
    }
}
