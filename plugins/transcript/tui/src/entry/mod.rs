//! One item of the conversation: what is known of it, and its rows at one width.

mod answer;
mod card;
mod rows;

use std::ops::Range;
use std::time::Duration;

use bezel_api_tui::ToolRenderers;
use bezel_presentation::clock::{Clock, between};
use bezel_presentation::highlight::Highlighter;
use bezel_presentation::markdown::MarkdownText;
use bezel_presentation::text::{Role, sanitize};
use bezel_presentation::{StyledLine, StyledSpan, wrap};
use bezel_session_types::{ResultContent, ToolResultMessage};
use bezel_transcript_contract::{Item, ItemBody, Part, ToolItem, ToolStatus};

pub(crate) use rows::{Mark, Row, Rows};

use self::answer::Answer;

/// Columns left of the text: the selection's bar, and a free one.
pub(crate) const GUTTER: u16 = 2;

/// Text is easier to read when its lines are not longer than this.
const WIDEST: usize = 120;

/// Of what a plugin said on the person's behalf: the model reads it all, a person reads on where it comes from.
const NOTE_ROWS: usize = 4;

/// An item and how it is shown.
pub(crate) struct Entry {
    item: Item,
    /// Opened or closed by hand; otherwise as the others.
    open: Option<bool>,
    whole: Whole,
    answer: Answer,
    summary: MarkdownText,
    laid: Option<Laid>,
}

/// The whole result of a call whose item is clipped.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Whole {
    /// Nobody asked.
    #[default]
    Unknown,
    /// It is being fetched.
    Loading,
    /// Here it is.
    Known(Box<ToolResultMessage>),
    /// It could not be fetched.
    Failed(String),
}

struct Laid {
    width: u16,
    open: bool,
    /// How far highlighting was.
    progress: u64,
    rows: Rows,
}

/// What laying out needs.
pub(crate) struct Layout<'a> {
    /// Columns of the whole view.
    pub(crate) width: u16,
    /// Whether everything is open that was not closed by hand.
    pub(crate) all_open: bool,
    pub(crate) renderers: &'a ToolRenderers,
    pub(crate) highlighter: &'a Highlighter,
}

impl Entry {
    pub(crate) fn new(item: Item) -> Self {
        Entry {
            item,
            open: None,
            whole: Whole::Unknown,
            answer: Answer::default(),
            summary: MarkdownText::new(),
            laid: None,
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.item.id
    }

    pub(crate) fn item(&self) -> &Item {
        &self.item
    }

    /// Takes over what the person did with another item that this one takes the place of.
    pub(crate) fn succeed(&mut self, before: &Entry) {
        self.open = before.open;
    }

    /// Takes a newer version of the item.
    pub(crate) fn update(&mut self, item: &Item) {
        if self.item != *item {
            self.item = item.clone();
            self.laid = None;
        }
    }

    pub(crate) fn is_open(&self, all_open: bool) -> bool {
        self.open.unwrap_or(all_open)
    }

    /// Opens or closes it by hand.
    pub(crate) fn toggle(&mut self, all_open: bool) {
        self.open = Some(!self.is_open(all_open));
    }

    /// Forgets that it was opened or closed by hand.
    pub(crate) fn follow_all(&mut self) {
        self.open = None;
    }

    /// Whether opening or closing it changes anything.
    pub(crate) fn can_open(&self) -> bool {
        match &self.item.body {
            ItemBody::User { .. } | ItemBody::Note { .. } => false,
            ItemBody::Assistant { parts, .. } => parts
                .iter()
                .any(|part| matches!(part, Part::Thinking { .. })),
            ItemBody::Tool(_) | ItemBody::Compaction { .. } | ItemBody::Branch { .. } => true,
        }
    }

    pub(crate) fn set_whole(&mut self, whole: Whole) {
        self.whole = whole;
        self.laid = None;
    }

    /// Whether it is open and its item leaves out something that nobody asked for yet.
    pub(crate) fn wants_whole(&self, all_open: bool) -> bool {
        let clipped = matches!(&self.item.body, ItemBody::Tool(tool) if tool.clipped);
        clipped && self.whole == Whole::Unknown && self.is_open(all_open)
    }

    /// Whether it is a tool call that takes one row.
    pub(crate) fn is_line(&self) -> bool {
        matches!(self.item.body, ItemBody::Tool(_))
            && self.laid.as_ref().is_some_and(|laid| laid.rows.len() == 1)
    }

    /// Lays it out, as far as something changed. Its rows then number [`Entry::height`].
    pub(crate) fn lay_out(&mut self, cx: &Layout<'_>) {
        let open = self.is_open(cx.all_open);
        let progress = cx.highlighter.progress();
        let tool = matches!(self.item.body, ItemBody::Tool(_));
        let current = self.laid.as_ref().is_some_and(|laid| {
            laid.width == cx.width && laid.open == open && (!tool || laid.progress == progress)
        });
        if !current {
            let rows = self.build(cx, open);
            self.laid = Some(Laid {
                width: cx.width,
                open,
                progress,
                rows,
            });
        }
        // Highlighting comes late, and an answer may have grown: both cost only what is new.
        if matches!(self.item.body, ItemBody::Assistant { .. })
            && let Some(laid) = &mut self.laid
        {
            self.answer
                .refresh(text_width(cx.width), cx.highlighter, &mut laid.rows);
        }
        if let (ItemBody::Compaction { .. } | ItemBody::Branch { .. }, true) =
            (&self.item.body, open)
            && let Some(laid) = &mut self.laid
        {
            let lines = self
                .summary
                .lines(text_width(cx.width), cx.highlighter)
                .len();
            laid.rows.resize_text(0, lines);
        }
    }

    /// Rows of the last layout.
    pub(crate) fn height(&self) -> usize {
        self.laid.as_ref().map_or(0, |laid| laid.rows.len())
    }

    /// Gives rows of the last layout to `draw`, in order, with their numbers.
    pub(crate) fn each_row(
        &mut self,
        range: Range<usize>,
        cx: &Layout<'_>,
        mut draw: impl FnMut(usize, Row<'_>),
    ) {
        let Some(laid) = &self.laid else { return };
        let mut next = range.start;
        while next < range.end {
            let Some(run) = laid.rows.run(next) else {
                return;
            };
            let end = run.end.min(range.end);
            let lines = match run.text {
                None => laid.rows.lines(&run),
                Some(_)
                    if matches!(
                        self.item.body,
                        ItemBody::Compaction { .. } | ItemBody::Branch { .. }
                    ) =>
                {
                    self.summary.lines(text_width(cx.width), cx.highlighter)
                }
                Some(part) => self
                    .answer
                    .lines(part, text_width(cx.width), cx.highlighter),
            };
            for index in next..end {
                if let Some(line) = lines.get(index - run.start) {
                    draw(
                        index,
                        Row {
                            line,
                            mark: run.mark,
                            indent: run.indent,
                            head: run.head,
                        },
                    );
                }
            }
            next = end;
        }
    }

    /// How long a tool call runs or ran; worth showing from a tenth of a second.
    pub(crate) fn elapsed(&self, clock: &Clock) -> Option<Duration> {
        let ItemBody::Tool(tool) = &self.item.body else {
            return None;
        };
        let measured = self.laid.as_ref().and_then(|laid| laid.rows.took);
        let elapsed = match (&tool.ended_at, tool.status) {
            (Some(_), _) if measured.is_some() => measured,
            (Some(end), _) => between(&self.item.at, end),
            (None, ToolStatus::Running) => clock.since(&self.item.at),
            _ => None,
        };
        elapsed.filter(|elapsed| *elapsed >= Duration::from_millis(100))
    }

    /// Whether it runs, so that its time goes on.
    pub(crate) fn runs(&self) -> bool {
        matches!(
            &self.item.body,
            ItemBody::Tool(ToolItem {
                status: ToolStatus::Running | ToolStatus::Streaming,
                ..
            })
        )
    }

    /// What copying it gives.
    pub(crate) fn to_text(&self) -> String {
        match &self.item.body {
            ItemBody::User { text, .. } => text.clone(),
            ItemBody::Assistant { parts, .. } => {
                let texts = parts.iter().filter_map(|part| match part {
                    Part::Text { text } => Some(text.trim()),
                    Part::Thinking { .. } => None,
                });
                texts.collect::<Vec<_>>().join("\n\n")
            }
            ItemBody::Tool(tool) => match &self.whole {
                Whole::Known(result) => result_text(result),
                _ => tool.output.clone(),
            },
            ItemBody::Compaction { summary } | ItemBody::Branch { summary } => summary.clone(),
            ItemBody::Note { text, .. } => text.clone(),
        }
    }

    fn build(&mut self, cx: &Layout<'_>, open: bool) -> Rows {
        match &self.item.body {
            ItemBody::User {
                text,
                images,
                synthetic: false,
            } => user(text, *images, cx.width),
            ItemBody::User {
                text,
                synthetic: true,
                ..
            } => note(text, cx.width),
            ItemBody::Assistant {
                parts, done, error, ..
            } => self.answer.build(
                parts,
                *done,
                error.as_deref(),
                open,
                text_width(cx.width),
                cx.highlighter,
            ),
            ItemBody::Tool(tool) => card::build(tool, &self.whole, open, cx),
            ItemBody::Note { text, failed } => remark(text, *failed, cx.width),
            ItemBody::Compaction { summary } | ItemBody::Branch { summary } => {
                let title = match &self.item.body {
                    ItemBody::Branch { .. } => "Another branch was left",
                    _ => "Conversation compacted",
                };
                self.summary.set(summary);
                let lines = self
                    .summary
                    .lines(text_width(cx.width), cx.highlighter)
                    .len();
                folded(title, lines, open, cx.width)
            }
        }
    }
}

/// Columns for text of people and models.
pub(crate) fn text_width(width: u16) -> usize {
    usize::from(width.saturating_sub(GUTTER + 1)).clamp(1, WIDEST)
}

pub(crate) fn result_text(result: &ToolResultMessage) -> String {
    let texts = result.content.iter().filter_map(|part| match part {
        ResultContent::Text { text } => Some(text.as_str()),
        ResultContent::Image(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn user(text: &str, images: u32, width: u16) -> Rows {
    let mut rows = Rows::default();
    let inner = text_width(width);
    let text = sanitize(text.trim_end(), 4);
    let mut lines: Vec<StyledLine> = Vec::new();
    for line in text.lines() {
        lines.extend(wrap::wrap(
            &StyledLine::new(line.to_owned(), Role::UserMessage),
            inner,
        ));
    }
    if images > 0 {
        let count = bezel_presentation::format::count(
            usize::try_from(images).unwrap_or(usize::MAX),
            "picture",
            "pictures",
        );
        lines.push(StyledLine::new(
            format!("[{count}]"),
            bezel_presentation::TextStyle::role(Role::Muted).on(Role::UserMessage),
        ));
    }
    for line in lines {
        rows.push(
            StyledLine {
                background: Some(Role::UserMessage),
                ..line
            },
            Mark::Bar,
        );
    }
    rows
}

/// What a plugin said on the person's behalf, its first rows.
fn note(text: &str, width: u16) -> Rows {
    let mut rows = Rows::default();
    let text = sanitize(text.trim(), 4);
    let mut said = text.lines().filter(|line| !line.trim().is_empty());
    let mut line = StyledLine::new("↪ ", Role::Faint);
    line.push(StyledSpan::new(
        said.next().unwrap_or_default().to_owned(),
        Role::Muted,
    ));
    let mut lines = wrap::wrap(&line, text_width(width));
    for line in said {
        let line = StyledLine::new(format!("  {}", line.trim()), Role::Muted);
        lines.extend(wrap::wrap(&line, text_width(width)));
    }
    let more = lines.len() > NOTE_ROWS;
    for line in lines.into_iter().take(NOTE_ROWS) {
        rows.push(line, Mark::None);
    }
    if more {
        rows.push(StyledLine::new("  …", Role::Faint), Mark::None);
    }
    rows
}

/// What nobody said and a person should know.
fn remark(text: &str, failed: bool, width: u16) -> Rows {
    let mut rows = Rows::default();
    let role = if failed { Role::Error } else { Role::Muted };
    let text = sanitize(text.trim(), 4).replace('\n', " ");
    let mut line = StyledLine::new(if failed { "✗ " } else { "↻ " }, role);
    line.push(StyledSpan::new(text, role));
    for line in wrap::wrap(&line, text_width(width)) {
        rows.push(line, Mark::None);
    }
    rows
}

fn folded(title: &'static str, lines: usize, open: bool, width: u16) -> Rows {
    let mut rows = Rows::default();
    let mut line = StyledLine::new("── ", Role::Border);
    line.push(StyledSpan::new(title, Role::Muted));
    line.push(StyledSpan::new(
        if open { " ▾ " } else { " ▸ " },
        Role::Faint,
    ));
    let rest = text_width(width).saturating_sub(line.width());
    line.push(StyledSpan::new("─".repeat(rest), Role::Border));
    rows.push_head(line, Mark::None);
    if open {
        rows.push(StyledLine::default(), Mark::None);
        rows.push_text(0, lines, 0);
    }
    rows
}
