//! The views in slots.

use bezel_api_tui::backend::{Frame, OwnerId, ViewId};
use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::{Position, Rect};
use bezel_api_tui::{Placement, Slot, View};
use bezel_presentation::StyledLine;
use bezel_presentation::text::Role;

use super::guard::GuardedView;
use super::layout::{self, Areas, GAP, Segment, Wishes};

/// A view in a slot.
pub(super) struct SlotView {
    pub(super) id: ViewId,
    slot: Slot,
    placement: Placement,
    pub(super) view: GuardedView,
    /// Where it was drawn last; empty if it was not.
    pub(super) area: Rect,
}

/// All of them, in order of slot, placement and adding.
#[derive(Default)]
pub(super) struct SlotViews(Vec<SlotView>);

impl SlotViews {
    pub(super) fn add(
        &mut self,
        owner: OwnerId,
        id: ViewId,
        slot: Slot,
        placement: Placement,
        view: Box<dyn View>,
    ) {
        let key = (slot, placement.order);
        let single = matches!(slot, Slot::Main | Slot::Composer);
        let rival = |other: &&SlotView| {
            (other.slot, other.placement.order) == key && other.view.owner.plugin != owner.plugin
        };
        if single && let Some(rival) = self.0.iter().find(rival) {
            let (kept, hidden) = (&rival.view.owner.plugin, &owner.plugin);
            tracing::warn!(%kept, %hidden, ?slot, "two plugins want one place of the screen at the same order");
        }
        let position = self
            .0
            .partition_point(|other| (other.slot, other.placement.order) <= key);
        let view = GuardedView::new(owner, view);
        self.0.insert(
            position,
            SlotView {
                id,
                slot,
                placement,
                view,
                area: Rect::ZERO,
            },
        );
    }

    pub(super) fn remove(&mut self, id: ViewId) {
        self.0.retain(|view| view.id != id);
    }

    pub(super) fn remove_owner(&mut self, owner: &OwnerId) {
        self.0.retain(|view| view.view.owner != *owner);
    }

    pub(super) fn get(&mut self, id: ViewId) -> Option<&mut SlotView> {
        self.0.iter_mut().find(|view| view.id == id)
    }

    /// The view that stands at a position.
    pub(super) fn at(&mut self, position: Position) -> Option<&mut SlotView> {
        self.0.iter_mut().find(|view| view.area.contains(position))
    }

    /// The one view that a slot for a single one shows: of the highest order the first that was added.
    pub(super) fn single(&self, slot: Slot) -> Option<ViewId> {
        let views = self.0.iter().filter(|view| view.slot == slot);
        let best = views.rev().max_by_key(|view| view.placement.order);
        best.map(|view| view.id)
    }

    /// Draws everything. Returns the area of the composer, where overlays can be anchored.
    pub(super) fn draw(
        &mut self,
        screen: Rect,
        buffer: &mut Buffer,
        frame: &Frame,
        focused: Option<ViewId>,
    ) -> Rect {
        let (main, composer) = (self.single(Slot::Main), self.single(Slot::Composer));
        let mut wishes = Wishes::default();
        for view in &mut self.0 {
            view.area = Rect::ZERO;
            let cx = frame.context(focused == Some(view.id));
            match view.slot {
                Slot::Header => wishes.header.push(view.view.height(screen.width, &cx)),
                Slot::AboveComposer => wishes.above.push(view.view.height(screen.width, &cx)),
                Slot::Composer if composer == Some(view.id) => {
                    wishes.composer = Some(view.view.height(screen.width, &cx));
                }
                // A line of its own only for what is to be seen.
                Slot::StatusLeft | Slot::StatusRight => {
                    wishes.status = wishes.status || view.view.width(screen.width, &cx) > 0;
                }
                Slot::Main | Slot::Composer => {}
            }
        }
        let areas = layout::share(screen, &wishes);
        let Areas { header, above, .. } = &areas;
        let (mut header, mut above) = (header.iter(), above.iter());
        for view in &mut self.0 {
            view.area = match view.slot {
                Slot::Header => header.next().copied().unwrap_or_default(),
                Slot::AboveComposer => above.next().copied().unwrap_or_default(),
                Slot::Main if main == Some(view.id) => areas.main,
                Slot::Composer if composer == Some(view.id) => areas.composer,
                _ => continue,
            };
            if !view.area.is_empty() {
                view.view
                    .render(view.area, buffer, &frame.context(focused == Some(view.id)));
            }
        }
        self.draw_status(areas.status, buffer, frame);
        areas.composer
    }

    fn draw_status(&mut self, line: Rect, buffer: &mut Buffer, frame: &Frame) {
        if line.is_empty() {
            return;
        }
        let cx = frame.context(false);
        buffer.set_style(line, cx.style(Role::Status));
        let mut segments = |slot: Slot| -> Vec<Segment> {
            let views = self.0.iter_mut().filter(|view| view.slot == slot);
            let segment = |view: &mut SlotView| Segment {
                width: view.view.width(line.width, &cx),
                importance: view.placement.importance,
            };
            views.map(segment).collect()
        };
        let (left, right) = (segments(Slot::StatusLeft), segments(Slot::StatusRight));
        let (left, right) = layout::share_line(line, &left, &right);
        let separator = StyledLine::new("·", Role::Faint);
        for (slot, areas) in [(Slot::StatusLeft, left), (Slot::StatusRight, right)] {
            let mut end = None;
            let views = self.0.iter_mut().filter(|view| view.slot == slot);
            for (view, area) in views.zip(areas).filter(|(_, area)| !area.is_empty()) {
                let apart = end.replace(area.right()).map(|end: u16| area.x - end);
                if apart.is_some_and(|columns| columns >= GAP) {
                    let at = Rect {
                        x: area.x - GAP / 2 - 1,
                        width: 1,
                        ..area
                    };
                    cx.paint().draw_line(buffer, at, &separator);
                }
                view.area = area;
                view.view.render(area, buffer, &cx);
            }
        }
    }
}
