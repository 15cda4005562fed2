//! From text to blocks.

use std::ops::Range;
use std::sync::Arc;

use pulldown_cmark::{
    Alignment as CmarkAlignment, CodeBlockKind, Event, Options, Parser, Tag, TagEnd,
    TextMergeWithOffset,
};

use super::address::addresses;
use super::block::{Alignment, Block, Inline, ListItem};
use crate::text::{Role, StyledLine, StyledSpan, TextStyle, sanitize};

/// The blocks of a Markdown text: CommonMark with tables, task lists and struck out text. A line break
/// within a paragraph is kept, as people who chat mean it. HTML is text.
pub fn parse(text: &str) -> Vec<Block> {
    let text: String = text.split(['\r', '\0']).collect();
    parse_blocks(&text)
        .blocks
        .into_iter()
        .map(|(block, _)| block)
        .collect()
}

/// Blocks with their places, and whether the text defines links (which reach to any place of it).
pub(super) struct Parsed {
    pub(super) blocks: Vec<(Block, Range<usize>)>,
    pub(super) defines_links: bool,
}

pub(super) fn parse_blocks(text: &str) -> Parsed {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let parser = Parser::new_ext(text, options);
    let defines_links = parser.reference_definitions().iter().next().is_some();
    let mut builder = Builder::default();
    let mut depth = 0_usize;
    let mut places = Vec::new();
    for (event, range) in TextMergeWithOffset::new(parser.into_offset_iter()) {
        let opens = matches!(event, Event::Start(_));
        if depth == 0 {
            places.push(range);
        }
        depth = if opens {
            depth + 1
        } else {
            depth - usize::from(matches!(event, Event::End(_)))
        };
        builder.take(event);
        if depth == 0 && builder.root.len() < places.len() {
            // An event that made no block of its own.
            places.pop();
        }
    }
    let blocks = builder.root.into_iter().zip(places).collect();
    Parsed {
        blocks,
        defines_links,
    }
}

/// A block under construction.
enum Open {
    Blocks(Kind, Vec<Block>),
    List {
        start: Option<u64>,
        loose: bool,
        items: Vec<ListItem>,
    },
    Table {
        alignments: Vec<Alignment>,
        header: Vec<Inline>,
        rows: Vec<Vec<Inline>>,
        in_header: bool,
    },
}

enum Kind {
    Quote,
    Item(Option<bool>),
    Paragraph,
    Heading(u8),
    Code(Arc<str>, String),
    Html(String),
}

#[derive(Default)]
struct Builder {
    root: Vec<Block>,
    open: Vec<Open>,
    inline: Option<Inline>,
    styles: Vec<TextStyle>,
    links: Vec<Arc<str>>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text, self.style()),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                let style = TextStyle {
                    role: Role::InlineCode,
                    ..self.style()
                };
                self.text(&text, style);
            }
            Event::InlineHtml(html) if is_break(&html) => self.line_break(),
            Event::InlineHtml(html) | Event::FootnoteReference(html) => {
                self.text(&html, Role::Muted.into())
            }
            Event::Html(html) => {
                if let Some(Open::Blocks(Kind::Html(text), _)) = self.open.last_mut() {
                    text.push_str(&sanitize(&html, 4));
                }
            }
            Event::SoftBreak | Event::HardBreak => self.line_break(),
            Event::Rule => self.finish(Block::Rule),
            Event::TaskListMarker(done) => {
                if let Some(Open::Blocks(Kind::Item(mark), _)) = self.open.last_mut() {
                    *mark = Some(done);
                } else if let Some(Open::Blocks(Kind::Item(mark), _)) =
                    self.open.iter_mut().rev().nth(1)
                {
                    *mark = Some(done);
                }
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        // Text of a tight list item is a paragraph without tags; it ends where a block begins.
        let inline = matches!(
            tag,
            Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::Link { .. } | Tag::Image { .. }
        );
        if !inline {
            self.end_bare_paragraph();
        }
        let style = self.style();
        match tag {
            Tag::Paragraph => self.open_text(Kind::Paragraph),
            Tag::Heading { level, .. } => {
                self.open_text(Kind::Heading(level as u8));
                self.styles.push(TextStyle::role(Role::Heading));
            }
            Tag::BlockQuote(_) => self.open.push(Open::Blocks(Kind::Quote, Vec::new())),
            Tag::CodeBlock(kind) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => sanitize(&info, 1).as_ref().into(),
                    CodeBlockKind::Indented => "".into(),
                };
                self.open.push(Open::Blocks(
                    Kind::Code(language, String::new()),
                    Vec::new(),
                ));
            }
            Tag::HtmlBlock => self
                .open
                .push(Open::Blocks(Kind::Html(String::new()), Vec::new())),
            Tag::List(start) => self.open.push(Open::List {
                start,
                loose: false,
                items: Vec::new(),
            }),
            Tag::Item => self.open.push(Open::Blocks(Kind::Item(None), Vec::new())),
            Tag::Table(alignments) => {
                let alignments = alignments.into_iter().map(alignment).collect();
                self.open.push(Open::Table {
                    alignments,
                    header: Vec::new(),
                    rows: Vec::new(),
                    in_header: false,
                });
            }
            Tag::TableHead => {
                if let Some(Open::Table { in_header, .. }) = self.open.last_mut() {
                    *in_header = true;
                }
            }
            Tag::TableRow => {
                if let Some(Open::Table {
                    rows, in_header, ..
                }) = self.open.last_mut()
                {
                    *in_header = false;
                    rows.push(Vec::new());
                }
            }
            Tag::TableCell => self.inline = Some(vec![StyledLine::default()]),
            Tag::Emphasis => self.styles.push(with_role(style, Role::Emphasis).italic()),
            Tag::Strong => self.styles.push(with_role(style, Role::Strong).bold()),
            Tag::Strikethrough => self.styles.push(with_role(style, Role::Struck).strike()),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.styles.push(TextStyle {
                    role: Role::Link,
                    ..style
                });
                self.links.push(sanitize(&dest_url, 1).as_ref().into());
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                self.links.pop();
            }
            TagEnd::TableCell => {
                let cell = self.inline.take().unwrap_or_default();
                if let Some(Open::Table {
                    header,
                    rows,
                    in_header,
                    ..
                }) = self.open.last_mut()
                {
                    let row = if *in_header {
                        Some(header)
                    } else {
                        rows.last_mut()
                    };
                    row.into_iter().for_each(|row| row.push(cell.clone()));
                }
            }
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.close();
            }
            TagEnd::TableHead | TagEnd::TableRow => {}
            TagEnd::Item => {
                self.end_bare_paragraph();
                self.close();
            }
            _ => self.close(),
        }
    }

    fn close(&mut self) {
        let Some(open) = self.open.pop() else { return };
        let block = match open {
            Open::Blocks(Kind::Quote, blocks) => Block::Quote(blocks),
            Open::Blocks(Kind::Paragraph, _) => {
                Block::Paragraph(self.inline.take().unwrap_or_default())
            }
            Open::Blocks(Kind::Heading(level), _) => Block::Heading {
                level,
                text: self.inline.take().unwrap_or_default(),
            },
            Open::Blocks(Kind::Code(language, mut text), _) => {
                // A last line of blanks alone is nothing, however many there are.
                let last = text.rfind('\n').map_or(0, |at| at + 1);
                if text[last..].trim().is_empty() {
                    text.truncate(last);
                }
                Block::Code { language, text }
            }
            Open::Blocks(Kind::Html(text), _) => Block::Html(text),
            Open::Blocks(Kind::Item(done), blocks) => {
                if let Some(Open::List { items, .. }) = self.open.last_mut() {
                    items.push(ListItem { done, blocks });
                }
                return;
            }
            Open::List {
                start,
                loose,
                items,
            } => Block::List {
                start,
                loose,
                items,
            },
            Open::Table {
                alignments,
                header,
                rows,
                ..
            } => Block::Table {
                alignments,
                header,
                rows,
            },
        };
        if matches!(block, Block::Paragraph(_))
            && matches!(self.open.last(), Some(Open::Blocks(Kind::Item(_), _)))
        {
            // Only a loose list wraps its text in paragraphs.
            let list = self.open.iter_mut().rev().nth(1);
            if let Some(Open::List { loose, .. }) = list {
                *loose = true;
            }
        }
        self.finish(block);
    }

    fn finish(&mut self, block: Block) {
        match self.open.last_mut() {
            Some(Open::Blocks(_, blocks)) => blocks.push(block),
            _ => self.root.push(block),
        }
    }

    fn end_bare_paragraph(&mut self) {
        let in_item = matches!(self.open.last(), Some(Open::Blocks(Kind::Item(_), _)));
        if in_item && let Some(text) = self.inline.take() {
            self.finish(Block::Paragraph(text));
        }
    }

    fn open_text(&mut self, kind: Kind) {
        self.open.push(Open::Blocks(kind, Vec::new()));
        self.inline = Some(vec![StyledLine::default()]);
    }

    fn style(&self) -> TextStyle {
        self.styles.last().copied().unwrap_or_default()
    }

    fn text(&mut self, text: &str, style: TextStyle) {
        if let Some(Open::Blocks(Kind::Code(_, code), _)) = self.open.last_mut() {
            code.push_str(&sanitize(text, 4));
            return;
        }
        let link = self.links.last().cloned();
        let lines = self
            .inline
            .get_or_insert_with(|| vec![StyledLine::default()]);
        for (position, piece) in sanitize(text, 4).split('\n').enumerate() {
            if position > 0 {
                lines.push(StyledLine::default());
            }
            let Some(line) = lines.last_mut() else {
                continue;
            };
            let mut push = |text: &str, link: Option<Arc<str>>, style: TextStyle| {
                line.push(StyledSpan {
                    link,
                    ..StyledSpan::new(text.to_owned(), style)
                });
            };
            let plain = matches!(
                style.role,
                Role::Text | Role::Emphasis | Role::Strong | Role::Struck
            );
            if link.is_some() || !plain {
                push(piece, link.clone(), style);
                continue;
            }
            let mut end = 0;
            for address in addresses(piece) {
                push(&piece[end..address.start], None, style);
                end = address.end;
                let text = &piece[address];
                let style = TextStyle {
                    role: Role::Link,
                    ..style
                };
                push(text, Some(text.into()), style);
            }
            push(&piece[end..], None, style);
        }
    }

    fn line_break(&mut self) {
        if let Some(lines) = &mut self.inline {
            lines.push(StyledLine::default());
        }
    }
}

/// A nested weight keeps the role of what it stands in unless that is plain text.
fn with_role(style: TextStyle, role: Role) -> TextStyle {
    match style.role {
        Role::Text | Role::Emphasis | Role::Strong | Role::Struck => TextStyle { role, ..style },
        _ => style,
    }
}

fn alignment(alignment: CmarkAlignment) -> Alignment {
    match alignment {
        CmarkAlignment::None | CmarkAlignment::Left => Alignment::Left,
        CmarkAlignment::Center => Alignment::Center,
        CmarkAlignment::Right => Alignment::Right,
    }
}

fn is_break(html: &str) -> bool {
    let name = html
        .trim_start_matches('<')
        .trim_end_matches('>')
        .trim_end_matches('/')
        .trim();
    name.eq_ignore_ascii_case("br")
}
