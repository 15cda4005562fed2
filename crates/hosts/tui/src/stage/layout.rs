//! Who gets which rows and columns.

use bezel_api_tui::ratatui::layout::Rect;

/// What the places of the screen want.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    /// Rows of each header view.
    pub(super) header: Vec<u16>,
    /// Rows of each view above the composer.
    pub(super) above: Vec<u16>,
    /// Rows of the composer; none without one.
    pub(super) composer: Option<u16>,
    /// Whether there is a status line.
    pub(super) status: bool,
}

/// What the places of the screen get. Stacks have one area for each wish, perhaps empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Areas {
    pub(super) header: Vec<Rect>,
    pub(super) main: Rect,
    pub(super) above: Vec<Rect>,
    pub(super) composer: Rect,
    pub(super) status: Rect,
}

/// Main keeps at least so many rows while others could do with fewer.
const LEAST_MAIN: u16 = 3;

/// Shares the screen: status line and a row of the composer first, then main's least, then the composer's
/// wish up to half of the screen, then what stands above it, then headers. Main gets what is left.
pub(super) fn share(screen: Rect, wishes: &Wishes) -> Areas {
    let mut left = screen.height;
    let mut take = |wish: u16| {
        let got = wish.min(left);
        left -= got;
        got
    };
    let composer_least = take(u16::from(wishes.composer.is_some_and(|wish| wish > 0)));
    let status = take(u16::from(wishes.status && screen.height > 1));
    let main_least = take(LEAST_MAIN);
    let composer_most = (screen.height / 2).max(1);
    let composer = composer_least
        + take(
            wishes
                .composer
                .unwrap_or(0)
                .min(composer_most)
                .saturating_sub(composer_least),
        );
    // From the composer upwards: what is nearest to where a person writes matters most.
    let mut above: Vec<u16> = wishes
        .above
        .iter()
        .rev()
        .map(|wish| take((*wish).min(screen.height / 3)))
        .collect();
    above.reverse();
    let header: Vec<u16> = wishes
        .header
        .iter()
        .map(|wish| take((*wish).min(screen.height / 4)))
        .collect();
    let main = main_least + left;
    let mut y = screen.y;
    let mut next = |height: u16| {
        let area = Rect {
            x: screen.x,
            y,
            width: screen.width,
            height,
        };
        y += height;
        area
    };
    Areas {
        header: header.into_iter().map(&mut next).collect(),
        main: next(main),
        above: above.into_iter().map(&mut next).collect(),
        composer: next(composer),
        status: next(status),
    }
}

/// A segment of the status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    /// Columns that it wants.
    pub(super) width: u16,
    /// The lowest goes first when space is short; of equals the last.
    pub(super) importance: i32,
}

/// Columns between two segments.
pub(super) const GAP: u16 = 3;

/// Columns behind a segment that is a sign alone: it belongs to what follows.
const SIGN_GAP: u16 = 1;

/// Columns left free at both ends.
const MARGIN: u16 = 1;

/// Places the segments of the status line: the left ones from the left, the right ones, in the same order,
/// towards the right edge. What does not fit gets no width.
pub(super) fn share_line(
    line: Rect,
    left: &[Segment],
    right: &[Segment],
) -> (Vec<Rect>, Vec<Rect>) {
    let room = line.width.saturating_sub(2 * MARGIN);
    let mut widths: Vec<u16> = left
        .iter()
        .chain(right)
        .map(|segment| segment.width.min(room))
        .collect();
    let importances: Vec<i32> = left
        .iter()
        .chain(right)
        .map(|segment| segment.importance)
        .collect();
    let needed = |widths: &[u16]| {
        let shown = widths.iter().filter(|width| **width > 0);
        let (count, sum) = shown.fold((0_u32, 0_u32), |(count, sum), width| {
            (count + 1, sum + u32::from(*width))
        });
        sum + count.saturating_sub(1) * u32::from(GAP)
    };
    while needed(&widths) > u32::from(room) {
        let shown = (0..widths.len()).filter(|position| widths[*position] > 0);
        match shown.rev().min_by_key(|position| importances[*position]) {
            Some(position) => widths[position] = 0,
            None => break,
        }
    }
    let area = |x: u16, width: u16| Rect {
        x,
        y: line.y,
        width,
        height: line.height.min(1),
    };
    let mut x = line.x + MARGIN;
    let place = |width: &u16, x: &mut u16, sign_gap: u16| {
        let placed = area(*x, *width);
        *x += match *width {
            0 => 0,
            1 => 1 + sign_gap,
            width => width + GAP,
        };
        placed
    };
    let (left_widths, right_widths) = widths.split_at(left.len());
    let lefts = left_widths
        .iter()
        .map(|width| place(width, &mut x, SIGN_GAP))
        .collect();
    let right_total = u16::try_from(needed(right_widths)).unwrap_or(room);
    let mut x = (line.x + line.width)
        .saturating_sub(MARGIN + right_total)
        .max(line.x);
    let rights = right_widths
        .iter()
        .map(|width| place(width, &mut x, GAP))
        .collect();
    (lefts, rights)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn heights(areas: &Areas) -> (Vec<u16>, u16, Vec<u16>, u16, u16) {
        let of = |areas: &[Rect]| areas.iter().map(|area| area.height).collect();
        (
            of(&areas.header),
            areas.main.height,
            of(&areas.above),
            areas.composer.height,
            areas.status.height,
        )
    }

    #[test]
    fn main_gets_what_the_others_leave_and_gives_when_there_is_little() {
        let wishes = Wishes {
            header: vec![1],
            above: vec![2, 1],
            composer: Some(3),
            status: true,
        };
        let share = |height| heights(&share(Rect::new(0, 0, 80, height), &wishes));
        assert_eq!(share(24), (vec![1], 16, vec![2, 1], 3, 1));
        assert_eq!(share(9), (vec![0], 3, vec![1, 1], 3, 1));
        assert_eq!(share(5), (vec![0], 3, vec![0, 0], 1, 1));
        assert_eq!(share(2), (vec![0], 0, vec![0, 0], 1, 1));
        assert_eq!(share(1), (vec![0], 0, vec![0, 0], 1, 0));
    }

    #[test]
    fn a_long_text_in_the_composer_takes_at_most_half() {
        let wishes = Wishes {
            composer: Some(100),
            ..Wishes::default()
        };
        assert_eq!(share(Rect::new(0, 0, 80, 24), &wishes).composer.height, 12);
    }

    #[test]
    fn the_status_line_drops_what_matters_least() {
        let segment = |width, importance| Segment { width, importance };
        let left = [segment(10, 5), segment(10, 1)];
        let right = [segment(8, 3)];
        let widths = |width: u16| {
            let (left, right) = share_line(Rect::new(0, 0, width, 1), &left, &right);
            left.iter()
                .chain(&right)
                .map(|area| (area.x, area.width))
                .collect::<Vec<_>>()
        };
        assert_eq!(widths(40), [(1, 10), (14, 10), (31, 8)]);
        assert_eq!(widths(30), [(1, 10), (14, 0), (21, 8)]);
        assert_eq!(widths(14), [(1, 10), (14, 0), (13, 0)]);
    }

    #[test]
    fn a_sign_stands_beside_what_follows_it() {
        let segment = |width| Segment {
            width,
            importance: 0,
        };
        let (left, _) = share_line(
            Rect::new(0, 0, 40, 1),
            &[segment(1), segment(4), segment(5)],
            &[],
        );
        let places: Vec<u16> = left.iter().map(|area| area.x).collect();
        assert_eq!(places, [1, 3, 10]);
    }

    proptest! {
        #[test]
        fn areas_cover_the_screen_without_overlap(
            (width, height) in (0_u16..300, 0_u16..100),
            header in proptest::collection::vec(0_u16..20, 0..4),
            above in proptest::collection::vec(0_u16..20, 0..4),
            composer in proptest::option::of(0_u16..40),
            status in any::<bool>(),
        ) {
            let areas = share(Rect::new(0, 0, width, height), &Wishes { header, above, composer, status });
            let all: Vec<Rect> = areas.header.iter().chain([&areas.main]).chain(&areas.above).chain([&areas.composer, &areas.status]).copied().collect();
            let mut y = 0;
            for area in all {
                prop_assert_eq!(area.y, y);
                y += area.height;
            }
            prop_assert_eq!(y, height);
        }

        #[test]
        fn segments_stay_on_the_line(width in 0_u16..120, left in proptest::collection::vec((0_u16..40, 0..3), 0..5), right in proptest::collection::vec((0_u16..40, 0..3), 0..5)) {
            let segments = |list: Vec<(u16, i32)>| list.into_iter().map(|(width, importance)| Segment { width, importance }).collect::<Vec<_>>();
            let (left, right) = share_line(Rect::new(0, 0, width, 1), &segments(left), &segments(right));
            let mut end = 0;
            for area in left.iter().chain(&right).filter(|area| area.width > 0) {
                prop_assert!(area.x >= end && area.right() <= width);
                end = area.right();
            }
        }
    }
}
