//! The overlays above the screen, the last one on top.

use bezel_api_tui::backend::{Frame, OverlayParts, OwnerId, ViewId};
use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::{Position, Rect};
use bezel_api_tui::ratatui::widgets::{Clear, Widget};
use bezel_api_tui::{OverlayPlacement, RenderContext};
use bezel_presentation::text::{Role, TextStyle};
use bezel_presentation::{StyledLine, wrap};
use tokio::sync::watch;

use super::guard::GuardedView;
use super::hints;

/// An open overlay.
pub(super) struct OpenOverlay {
    pub(super) id: ViewId,
    pub(super) view: GuardedView,
    pub(super) modal: bool,
    placement: OverlayPlacement,
    title: Option<String>,
    hints: String,
    /// The hints as they are drawn: the last row in the lower edge, the others above it.
    hint_rows: Vec<String>,
    framed: bool,
    /// Tells whoever holds the handle.
    closed: Option<watch::Sender<bool>>,
    /// Where its view was drawn last.
    pub(super) area: Rect,
    /// The same with its frame.
    pub(super) outer: Rect,
}

/// All of them.
#[derive(Default)]
pub(super) struct Overlays(Vec<OpenOverlay>);

impl Overlays {
    pub(super) fn open(
        &mut self,
        owner: OwnerId,
        id: ViewId,
        overlay: OverlayParts,
        closed: Option<watch::Sender<bool>>,
    ) {
        let OverlayParts {
            view,
            placement,
            title,
            hints,
            framed,
            modal,
        } = overlay;
        let view = GuardedView::new(owner, view);
        let (area, outer) = (Rect::ZERO, Rect::ZERO);
        self.0.push(OpenOverlay {
            id,
            view,
            modal,
            placement,
            title,
            hints,
            hint_rows: Vec::new(),
            framed,
            closed,
            area,
            outer,
        });
    }

    pub(super) fn close(&mut self, id: ViewId) {
        self.remove(|overlay| overlay.id == id);
    }

    pub(super) fn remove_owner(&mut self, owner: &OwnerId) {
        self.remove(|overlay| overlay.view.owner == *owner);
    }

    fn remove(&mut self, gone: impl Fn(&OpenOverlay) -> bool) {
        for overlay in self.0.extract_if(.., |overlay| gone(overlay)) {
            if let Some(closed) = overlay.closed {
                closed.send_replace(true);
            }
        }
    }

    pub(super) fn get(&mut self, id: ViewId) -> Option<&mut OpenOverlay> {
        self.0.iter_mut().find(|overlay| overlay.id == id)
    }

    /// The one that takes the keys.
    pub(super) fn top_modal(&self) -> Option<ViewId> {
        self.0
            .iter()
            .rev()
            .find(|overlay| overlay.modal)
            .map(|overlay| overlay.id)
    }

    /// The topmost one at a position.
    pub(super) fn at(&mut self, position: Position) -> Option<&mut OpenOverlay> {
        self.0
            .iter_mut()
            .rev()
            .find(|overlay| overlay.outer.contains(position))
    }

    pub(super) fn draw(
        &mut self,
        screen: Rect,
        composer: Rect,
        buffer: &mut Buffer,
        frame: &Frame,
        focused: Option<ViewId>,
    ) {
        for overlay in &mut self.0 {
            let cx = frame.context(focused == Some(overlay.id));
            overlay.place(screen, composer, &cx);
            if overlay.outer.is_empty() {
                continue;
            }
            Clear.render(overlay.outer, buffer);
            buffer.set_style(overlay.outer, cx.paint().ground(Role::Surface));
            if overlay.framed {
                let border = if overlay.modal {
                    Role::BorderFocused
                } else {
                    Role::Border
                };
                draw_frame(buffer, overlay.outer, overlay.title.as_deref(), border, &cx);
                hints::draw(buffer, overlay.outer, &overlay.hint_rows, &cx);
            }
            overlay.view.render(overlay.area, buffer, &cx);
        }
    }
}

impl OpenOverlay {
    fn place(&mut self, screen: Rect, composer: Rect, cx: &RenderContext<'_>) {
        let width = match self.placement {
            OverlayPlacement::Center { width, .. } => width.min(screen.width),
            OverlayPlacement::Fill { margin } => screen.width - 2 * margin.min(screen.width / 4),
            OverlayPlacement::AboveComposer { .. } if composer.is_empty() => screen.width,
            OverlayPlacement::AboveComposer { .. } => composer.width,
        };
        self.hint_rows = match self.framed {
            true => hints::rows(&self.hints, width, screen.height),
            false => Vec::new(),
        };
        let above_edge = u16::try_from(self.hint_rows.len().saturating_sub(1)).unwrap_or(0);
        // Borders, and a free column on either side.
        let (columns, rows) = if self.framed {
            (4, 2 + above_edge)
        } else {
            (0, 0)
        };
        let wish = |view: &mut GuardedView, width: u16, most: u16| {
            view.height(width.saturating_sub(columns), cx)
                .saturating_add(rows)
                .min(most)
        };
        self.outer = match self.placement {
            OverlayPlacement::Center { width, height } => {
                let width = width.min(screen.width);
                let height = wish(&mut self.view, width, height.min(screen.height));
                let (x, y) = ((screen.width - width) / 2, (screen.height - height) / 2);
                Rect {
                    x: screen.x + x,
                    y: screen.y + y,
                    width,
                    height,
                }
            }
            OverlayPlacement::Fill { margin } => {
                let (x, y) = (
                    margin.min(screen.width / 4),
                    (margin / 2).min(screen.height / 4),
                );
                Rect {
                    x: screen.x + x,
                    y: screen.y + y,
                    width: screen.width - 2 * x,
                    height: screen.height - 2 * y,
                }
            }
            OverlayPlacement::AboveComposer { height } => {
                let anchor = if composer.is_empty() {
                    Rect {
                        y: screen.bottom(),
                        height: 0,
                        ..screen
                    }
                } else {
                    composer
                };
                let room = anchor.y - screen.y;
                let height = wish(&mut self.view, anchor.width, height.min(room));
                Rect {
                    x: anchor.x,
                    y: anchor.y - height,
                    width: anchor.width,
                    height,
                }
            }
        };
        let (inset_x, inset_y) = (columns / 2, (rows - above_edge) / 2);
        self.area = if self.outer.width <= columns || self.outer.height <= rows {
            Rect::ZERO
        } else {
            Rect {
                x: self.outer.x + inset_x,
                y: self.outer.y + inset_y,
                width: self.outer.width - columns,
                height: self.outer.height - rows,
            }
        };
    }
}

/// A rounded frame with a title in its upper edge.
pub(crate) fn draw_frame(
    buffer: &mut Buffer,
    area: Rect,
    title: Option<&str>,
    border: Role,
    cx: &RenderContext<'_>,
) {
    if area.width < 2 || area.height < 2 {
        return;
    }
    let style = cx.style(TextStyle::role(border).on(Role::Surface));
    let (right, bottom) = (area.right() - 1, area.bottom() - 1);
    for x in area.x + 1..right {
        buffer[(x, area.y)].set_symbol("─").set_style(style);
        buffer[(x, bottom)].set_symbol("─").set_style(style);
    }
    for y in area.y + 1..bottom {
        buffer[(area.x, y)].set_symbol("│").set_style(style);
        buffer[(right, y)].set_symbol("│").set_style(style);
    }
    for (x, y, corner) in [
        (area.x, area.y, "╭"),
        (right, area.y, "╮"),
        (area.x, bottom, "╰"),
        (right, bottom, "╯"),
    ] {
        buffer[(x, y)].set_symbol(corner).set_style(style);
    }
    let room = usize::from(area.width).saturating_sub(6);
    if let Some(title) = title.filter(|title| !title.is_empty()) {
        let text = format!(" {} ", wrap::truncate_text(title, room));
        let at = Rect {
            x: area.x + 2,
            y: area.y,
            width: area.width - 3,
            height: 1,
        };
        cx.paint().draw_line(
            buffer,
            at,
            &StyledLine::new(text, TextStyle::role(Role::Title).on(Role::Surface)),
        );
    }
}
