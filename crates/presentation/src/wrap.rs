//! Width-aware wrapping and cutting of styled lines.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;

use crate::text::{self, StyledLine, StyledSpan, grapheme_width};

/// Breaks a line between words so that no row is wider than `width` (a single character that is wider
/// than that apart). Whitespace at a break goes; words longer than a row are cut.
pub fn wrap(line: &StyledLine, width: usize) -> Vec<StyledLine> {
    let mut wrapper = Wrapper::new(width, StyledLine::default(), StyledLine::default());
    wrapper.set_background(line.background);
    for span in &line.spans {
        wrapper.push(span);
    }
    wrapper.finish()
}

/// Breaks a line at `width` wherever that is, keeping every character: for code and output.
pub fn wrap_hard(line: &StyledLine, width: usize) -> Vec<StyledLine> {
    let width = width.max(1);
    let mut rows = vec![StyledLine {
        spans: Vec::new(),
        background: line.background,
    }];
    let mut column = 0;
    for span in &line.spans {
        let mut start = 0;
        let cut = |at: usize, start: &mut usize, rows: &mut Vec<StyledLine>| {
            if let Some(row) = rows.last_mut() {
                row.push(span.with_text(span.text[*start..at].to_owned()));
            }
            rows.push(StyledLine {
                spans: Vec::new(),
                background: line.background,
            });
            *start = at;
        };
        if span.text.is_ascii() {
            while span.text.len() - start > width - column {
                cut(start + width - column, &mut start, &mut rows);
                column = 0;
            }
            column += span.text.len() - start;
        } else {
            for (at, grapheme) in span.text.grapheme_indices(true) {
                let columns = grapheme_width(grapheme);
                if column + columns > width && column > 0 {
                    cut(at, &mut start, &mut rows);
                    column = 0;
                }
                column += columns;
            }
        }
        if let Some(row) = rows.last_mut() {
            row.push(span.with_text(span.text[start..].to_owned()));
        }
    }
    rows
}

/// Cuts a line to `width`, with an ellipsis in its last column where something is missing.
pub fn truncate(line: &StyledLine, width: usize) -> StyledLine {
    if line.width() <= width {
        return line.clone();
    }
    let mut cut = StyledLine {
        spans: Vec::new(),
        background: line.background,
    };
    let mut left = width.saturating_sub(1);
    let mut last = line.spans.first();
    for span in &line.spans {
        last = Some(span);
        let columns = span.width();
        if columns <= left {
            left -= columns;
            cut.push(span.clone());
            continue;
        }
        cut.push(span.with_text(head(&span.text, left).to_owned()));
        break;
    }
    if let Some(span) = last.filter(|_| width > 0) {
        cut.push(span.with_text("…"));
    }
    cut
}

/// Cuts a text to `width` columns, with an ellipsis at its end where something is missing.
pub fn truncate_text(text: &str, width: usize) -> Cow<'_, str> {
    if text::width(text) <= width {
        return Cow::Borrowed(text);
    }
    match width {
        0 => Cow::Borrowed(""),
        _ => Cow::Owned(format!("{}…", head(text, width - 1))),
    }
}

/// Cuts a text to `width` columns in front, as one does with paths.
pub fn truncate_start(text: &str, width: usize) -> Cow<'_, str> {
    if text::width(text) <= width {
        return Cow::Borrowed(text);
    }
    let mut left = width.saturating_sub(1);
    let mut start = text.len();
    for (at, grapheme) in text.grapheme_indices(true).rev() {
        let columns = grapheme_width(grapheme);
        if columns > left {
            break;
        }
        left -= columns;
        start = at;
    }
    match width {
        0 => Cow::Borrowed(""),
        _ => Cow::Owned(format!("…{}", &text[start..])),
    }
}

/// The longest beginning of `text` that fits `width` columns.
pub fn head(text: &str, width: usize) -> &str {
    let mut column = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        column += grapheme_width(grapheme);
        if column > width {
            return &text[..at];
        }
    }
    text
}

/// Wraps text that arrives span by span. Cloning it keeps the state, so that a growing text can be laid
/// out again from where it was certain.
#[derive(Debug, Clone)]
pub struct Wrapper {
    width: usize,
    rest: StyledLine,
    rows: Vec<StyledLine>,
    row: StyledLine,
    /// Columns used in the current row, its indent included.
    column: usize,
    /// Columns of the current row's indent.
    indent: usize,
    /// Whitespace that waits for a word.
    space: Vec<StyledSpan>,
    space_width: usize,
    word: Vec<StyledSpan>,
    word_width: usize,
    /// Whether the last character of the word allows a break behind it.
    breakable: bool,
}

impl Wrapper {
    /// Wraps to `width` columns. `first` stands before the first row, `rest` before every other.
    pub fn new(width: usize, first: StyledLine, rest: StyledLine) -> Self {
        let indent = first.width();
        Wrapper {
            width: width.max(1),
            rest,
            rows: Vec::new(),
            row: first,
            column: indent,
            indent,
            space: Vec::new(),
            space_width: 0,
            word: Vec::new(),
            word_width: 0,
            breakable: false,
        }
    }

    fn set_background(&mut self, background: Option<text::Role>) {
        self.row.background = background;
        self.rest.background = background;
    }

    /// Adds a span. Newlines in it are whitespace.
    pub fn push(&mut self, span: &StyledSpan) {
        let text = span.text.as_ref();
        let mut start = 0;
        while start < text.len() {
            let rest = &text[start..];
            let length = rest.find(is_space).unwrap_or(rest.len());
            if length > 0 {
                self.push_word(span, &rest[..length]);
                start += length;
                continue;
            }
            let length = rest.find(|letter| !is_space(letter)).unwrap_or(rest.len());
            self.end_word();
            self.space_width += text::width(&rest[..length]);
            push_piece(
                &mut self.space,
                span,
                &rest[..length].replace(['\n', '\t'], " "),
            );
            start += length;
        }
    }

    /// Ends the row.
    pub fn newline(&mut self) {
        self.end_word();
        self.space.clear();
        self.space_width = 0;
        self.next_row();
    }

    /// Rows that are complete so far.
    pub fn take_rows(&mut self) -> Vec<StyledLine> {
        std::mem::take(&mut self.rows)
    }

    /// All rows; the last one even if it is empty.
    pub fn finish(mut self) -> Vec<StyledLine> {
        self.end_word();
        self.rows.push(self.row);
        self.rows
    }

    fn push_word(&mut self, span: &StyledSpan, piece: &str) {
        if piece.is_ascii() {
            if self.breakable {
                self.end_word();
            }
            self.word_width += piece.len();
            push_piece(&mut self.word, span, piece);
            return;
        }
        for grapheme in piece.graphemes(true) {
            let columns = grapheme_width(grapheme);
            let wide = columns > 1;
            if (wide || self.breakable) && !sticks_to_previous(grapheme) && self.word_width > 0 {
                self.end_word();
            }
            push_piece(&mut self.word, span, grapheme);
            self.word_width += columns;
            self.breakable = wide && !sticks_to_next(grapheme);
        }
    }

    fn end_word(&mut self) {
        self.breakable = false;
        if self.word.is_empty() {
            return;
        }
        let at_start = self.column == self.indent;
        if self.column + self.space_width + self.word_width > self.width && !at_start {
            self.next_row();
            self.space.clear();
            self.space_width = 0;
        }
        let word_width = std::mem::take(&mut self.word_width);
        let space_width = std::mem::take(&mut self.space_width);
        if self.column + space_width + word_width > self.width {
            // Only a row's first word gets here: nothing else would help.
            if space_width < self.width.saturating_sub(self.column) {
                for span in std::mem::take(&mut self.space) {
                    self.row.push(span);
                }
                self.column += space_width;
            }
            self.space.clear();
            for span in std::mem::take(&mut self.word) {
                self.cut_word(&span);
            }
            return;
        }
        self.column += space_width + word_width;
        for span in self.space.drain(..).chain(self.word.drain(..)) {
            self.row.push(span);
        }
    }

    fn cut_word(&mut self, span: &StyledSpan) {
        let text = span.text.as_ref();
        let mut start = 0;
        for (at, grapheme) in text.grapheme_indices(true) {
            let columns = grapheme_width(grapheme);
            if self.column + columns > self.width && self.column > self.indent {
                self.row.push(span.with_text(text[start..at].to_owned()));
                start = at;
                self.next_row();
            }
            self.column += columns;
        }
        self.row.push(span.with_text(text[start..].to_owned()));
    }

    fn next_row(&mut self) {
        let row = std::mem::replace(&mut self.row, self.rest.clone());
        self.rows.push(row);
        // An indent that leaves no room for text is given up.
        if self.rest.width() >= self.width {
            self.row.spans.clear();
        }
        self.indent = self.row.width();
        self.column = self.indent;
    }
}

fn push_piece(pieces: &mut Vec<StyledSpan>, span: &StyledSpan, text: &str) {
    match pieces.last_mut() {
        Some(last) if last.style == span.style && last.link == span.link => {
            last.text.to_mut().push_str(text)
        }
        _ => pieces.push(span.with_text(text.to_owned())),
    }
}

fn is_space(letter: char) -> bool {
    // A no-break space is none.
    letter.is_whitespace() && !matches!(letter, '\u{a0}' | '\u{202f}' | '\u{2007}')
}

/// Closing punctuation and small kana do not start a row (the core of JIS X 4051).
fn sticks_to_previous(grapheme: &str) -> bool {
    grapheme.chars().next().is_some_and(|letter| "、。，．・：；？！…‥ー～）〕］｝〉》」』】〙〗ぁぃぅぇぉっゃゅょァィゥェォッャュョ々%％,.:;?!)]}".contains(letter))
}

/// Opening brackets do not end one.
fn sticks_to_next(grapheme: &str) -> bool {
    grapheme
        .chars()
        .next()
        .is_some_and(|letter| "（〔［｛〈《「『【〘〖".contains(letter))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::{Role, TextStyle};

    fn rows(text: &str, width: usize) -> Vec<String> {
        wrap(&StyledLine::new(text.to_owned(), Role::Text), width)
            .iter()
            .map(StyledLine::to_text)
            .collect()
    }

    #[test]
    fn words_go_whole_to_the_next_row() {
        assert_eq!(rows("the quick brown fox", 10), ["the quick", "brown fox"]);
        assert_eq!(rows("a  b   c", 4), ["a  b", "c"]);
        assert_eq!(rows("  indented text", 10), ["  indented", "text"]);
        assert_eq!(rows("", 10), [""]);
        assert_eq!(rows("no\u{a0}break here", 9), ["no\u{a0}break", "here"]);
    }

    #[test]
    fn long_words_are_cut_and_wide_characters_stay_whole() {
        assert_eq!(rows("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(rows("x abcdefghij", 4), ["x", "abcd", "efgh", "ij"]);
        assert_eq!(
            rows("漢字かな混じり文", 5),
            ["漢字", "かな", "混じ", "り文"]
        );
        assert_eq!(rows("漢字、文。", 4), ["漢", "字、", "文。"]);
        assert_eq!(rows("ab👩‍👩‍👧cd", 4), ["ab👩‍👩‍👧", "cd"]);
        assert_eq!(rows("「漢字」", 4), ["「漢", "字」"]);
    }

    #[test]
    fn styles_and_links_survive_a_break_within_a_word() {
        let mut line = StyledLine::new("ab", Role::Text);
        line.push(StyledSpan::new(
            "cd ef",
            TextStyle::role(Role::Link).underline(),
        ));
        let wrapped = wrap(&line, 4);
        assert_eq!(wrapped[0].spans.len(), 2);
        assert_eq!(
            wrapped[1].spans[0],
            StyledSpan::new("ef", TextStyle::role(Role::Link).underline())
        );
    }

    #[test]
    fn an_indent_stands_before_every_row() {
        let mut wrapper = Wrapper::new(8, "- ".into(), "  ".into());
        wrapper.push(&StyledSpan::new("one two three", Role::Text));
        let texts: Vec<String> = wrapper.finish().iter().map(StyledLine::to_text).collect();
        assert_eq!(texts, ["- one", "  two", "  three"]);
    }

    #[test]
    fn what_does_not_fit_is_marked() {
        let line = StyledLine::new("abcdef", Role::Text);
        assert_eq!(truncate(&line, 4).to_text(), "abc…");
        assert_eq!(truncate(&line, 6).to_text(), "abcdef");
        assert_eq!(truncate(&line, 0).to_text(), "");
        assert_eq!(truncate_text("漢字かな", 4), "漢…");
        assert_eq!(truncate_start("src/lib/main.rs", 8), "…main.rs");
    }

    fn styled() -> impl Strategy<Value = StyledLine> {
        let text =
            "[a-z]{1,9}|[ ]{1,3}|[漢字かな、。「」]{1,5}|👩‍👩‍👧|é|e\u{301}|🇩🇪|[a-zäöü 漢。-]{0,20}";
        let span = (text, any::<bool>()).prop_map(|(text, strong)| {
            StyledSpan::new(text, if strong { Role::Strong } else { Role::Text })
        });
        proptest::collection::vec(span, 0..12).prop_map(|spans| {
            let mut line = StyledLine::default();
            spans.into_iter().for_each(|span| line.push(span));
            line
        })
    }

    fn letters(line: &StyledLine) -> Vec<(String, TextStyle)> {
        let of_span = |span: &StyledSpan| {
            let style = span.style;
            let letters = span.text.chars().filter(|letter| !letter.is_whitespace());
            letters
                .map(|letter| (letter.to_string(), style))
                .collect::<Vec<_>>()
        };
        line.spans.iter().flat_map(of_span).collect()
    }

    proptest! {
        #[test]
        fn no_row_is_too_wide_and_no_letter_is_lost(line in styled(), width in 2_usize..40) {
            let wrapped = wrap(&line, width);
            for row in &wrapped {
                prop_assert!(row.width() <= width, "{:?} is wider than {}", row.to_text(), width);
            }
            let kept: Vec<_> = wrapped.iter().flat_map(letters).collect();
            prop_assert_eq!(kept, letters(&line));
        }

        #[test]
        fn hard_wrapping_keeps_every_character(line in styled(), width in 2_usize..40) {
            let wrapped = wrap_hard(&line, width);
            for row in &wrapped {
                prop_assert!(row.width() <= width, "{:?} is wider than {}", row.to_text(), width);
            }
            let kept: String = wrapped.iter().map(StyledLine::to_text).collect();
            prop_assert_eq!(kept, line.to_text());
        }

        #[test]
        fn cutting_stays_within_the_width(line in styled(), width in 0_usize..40) {
            prop_assert!(truncate(&line, width).width() <= width);
            let text = line.to_text();
            prop_assert!(text::width(&truncate_text(&text, width)) <= width);
            prop_assert!(text::width(&truncate_start(&text, width)) <= width);
        }

        #[test]
        fn a_text_wraps_the_same_in_whatever_pieces_it_comes(line in styled(), width in 2_usize..40) {
            let mut wrapper = Wrapper::new(width, StyledLine::default(), StyledLine::default());
            for span in &line.spans {
                for grapheme in span.text.graphemes(true) {
                    wrapper.push(&span.with_text(grapheme.to_owned()));
                }
            }
            prop_assert_eq!(wrapper.finish(), wrap(&line, width));
        }
    }
}
