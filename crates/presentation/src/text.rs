//! Styled text: spans that say what they are, not how they look.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

macro_rules! roles {
    ($($(#[$doc:meta])* $name:ident => $key:literal,)*) => {
        /// What a piece of text or a surface is. A theme gives each role its look.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Role {
            $($(#[$doc])* $name,)*
        }

        impl Role {
            /// Every role, in declaration order; a role's position is its `as usize` value.
            pub const ALL: &'static [Role] = &[$(Role::$name,)*];

            /// The name that theme files and style sheets use.
            pub fn key(self) -> &'static str {
                match self { $(Role::$name => $key,)* }
            }
        }
    };
}

roles! {
    /// Ordinary text.
    #[default]
    Text => "text",
    /// Secondary text: still meant to be read.
    Muted => "muted",
    /// Barely there: hints, rulers, line numbers of unchanged lines.
    Faint => "faint",
    /// The product's own colour: selection marks, active things.
    Accent => "accent",
    /// A second accent, for what must differ from the first.
    AccentAlternate => "accent_alternate",
    /// Headings of every level.
    Heading => "heading",
    /// Emphasised text.
    Emphasis => "emphasis",
    /// Strongly emphasised text.
    Strong => "strong",
    /// Struck out text.
    Struck => "struck",
    /// A link's text.
    Link => "link",
    /// Code inside a sentence.
    InlineCode => "inline_code",
    /// Code of a block, where no syntax role applies.
    CodeBlock => "code_block",
    /// The language name and the frame of a code block.
    CodeFrame => "code_frame",
    /// Quoted text and its bar.
    Quote => "quote",
    /// Bullets and numbers of lists.
    ListMarker => "list_marker",
    /// A ticked task.
    TaskDone => "task_done",
    /// An open task.
    TaskOpen => "task_open",
    /// Lines between and around things.
    Border => "border",
    /// The border of what has the focus.
    BorderFocused => "border_focused",
    /// Something went well.
    Success => "success",
    /// Something needs attention.
    Warning => "warning",
    /// Something failed.
    Error => "error",
    /// Something worth knowing.
    Notice => "notice",
    /// What the person wrote.
    UserMessage => "user_message",
    /// The model's reasoning.
    Thinking => "thinking",
    /// The title of a dialog or card.
    Title => "title",
    /// A tool's name on its card.
    ToolName => "tool_name",
    /// A key or chord in help and hints.
    Key => "key",
    /// The selected row of a list.
    Selection => "selection",
    /// Letters that a search matched.
    Match => "match",
    /// Text that the person marked with the mouse.
    Marked => "marked",
    /// The surface of dialogs and cards above the screen.
    Surface => "surface",
    /// The status line.
    Status => "status",
    /// Placeholder text of an empty input.
    Placeholder => "placeholder",
    /// Line numbers.
    LineNumber => "line_number",
    /// An added line of a diff.
    DiffAdded => "diff_added",
    /// The changed part of an added line.
    DiffAddedEmphasis => "diff_added_emphasis",
    /// A removed line of a diff.
    DiffRemoved => "diff_removed",
    /// The changed part of a removed line.
    DiffRemovedEmphasis => "diff_removed_emphasis",
    /// The separator between hunks.
    DiffHunk => "diff_hunk",
    /// Syntax: comments.
    Comment => "comment",
    /// Syntax: keywords and storage words.
    Keyword => "keyword",
    /// Syntax: operators.
    Operator => "operator",
    /// Syntax: punctuation.
    Punctuation => "punctuation",
    /// Syntax: strings.
    String => "string",
    /// Syntax: escapes and interpolations in strings.
    Escape => "escape",
    /// Syntax: numbers.
    Number => "number",
    /// Syntax: constants and language values.
    Constant => "constant",
    /// Syntax: functions, where named or called.
    Function => "function",
    /// Syntax: types.
    Type => "type",
    /// Syntax: variables and parameters.
    Variable => "variable",
    /// Syntax: fields, keys, properties.
    Property => "property",
    /// Syntax: tags of markup.
    Tag => "tag",
    /// Syntax: attributes and annotations.
    Attribute => "attribute",
    /// Syntax: modules and namespaces.
    Namespace => "namespace",
    /// Syntax: what does not parse.
    Invalid => "invalid",
}

/// How a span is to be shown: a role for its letters, perhaps one for its background, and weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TextStyle {
    /// What the text is.
    pub role: Role,
    /// The role whose background lies behind it, where that is not `role`'s own.
    pub background: Option<Role>,
    /// Heavier.
    pub bold: bool,
    /// Slanted.
    pub italic: bool,
    /// Underlined.
    pub underline: bool,
    /// Struck out.
    pub strike: bool,
}

impl TextStyle {
    /// The plain style of a role.
    pub const fn role(role: Role) -> Self {
        TextStyle {
            role,
            background: None,
            bold: false,
            italic: false,
            underline: false,
            strike: false,
        }
    }

    /// The same, heavier.
    pub const fn bold(mut self) -> Self {
        self.bold = true;
        self
    }

    /// The same, slanted.
    pub const fn italic(mut self) -> Self {
        self.italic = true;
        self
    }

    /// The same, underlined.
    pub const fn underline(mut self) -> Self {
        self.underline = true;
        self
    }

    /// The same, struck out.
    pub const fn strike(mut self) -> Self {
        self.strike = true;
        self
    }

    /// The same above another role's background.
    pub const fn on(mut self, background: Role) -> Self {
        self.background = Some(background);
        self
    }
}

impl From<Role> for TextStyle {
    fn from(role: Role) -> Self {
        TextStyle::role(role)
    }
}

/// A piece of text in one style. Holds no newline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct StyledSpan {
    /// The text, without control characters that would move a cursor.
    pub text: Cow<'static, str>,
    /// Its look.
    pub style: TextStyle,
    /// Where it leads, for links.
    pub link: Option<Arc<str>>,
}

impl StyledSpan {
    /// A span in a role's plain style or in a style of its own.
    pub fn new(text: impl Into<Cow<'static, str>>, style: impl Into<TextStyle>) -> Self {
        StyledSpan {
            text: text.into(),
            style: style.into(),
            link: None,
        }
    }

    /// Columns that it takes.
    pub fn width(&self) -> usize {
        width(&self.text)
    }

    /// The same look with other text.
    pub fn with_text(&self, text: impl Into<Cow<'static, str>>) -> Self {
        StyledSpan {
            text: text.into(),
            style: self.style,
            link: self.link.clone(),
        }
    }
}

/// One line of styled text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct StyledLine {
    /// Its spans, left to right.
    pub spans: Vec<StyledSpan>,
    /// The role whose background fills the whole row, the part after the text too.
    pub background: Option<Role>,
}

impl StyledLine {
    /// A line of one span.
    pub fn new(text: impl Into<Cow<'static, str>>, style: impl Into<TextStyle>) -> Self {
        StyledLine {
            spans: vec![StyledSpan::new(text, style)],
            background: None,
        }
    }

    /// Adds a span; joins it to the last one where both look the same.
    pub fn push(&mut self, span: StyledSpan) {
        if span.text.is_empty() {
            return;
        }
        match self.spans.last_mut() {
            Some(last) if last.style == span.style && last.link == span.link => {
                last.text.to_mut().push_str(&span.text)
            }
            _ => self.spans.push(span),
        }
    }

    /// Columns that it takes.
    pub fn width(&self) -> usize {
        self.spans.iter().map(StyledSpan::width).sum()
    }

    /// Its text without styles.
    pub fn to_text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_ref()).collect()
    }
}

impl From<Vec<StyledSpan>> for StyledLine {
    fn from(spans: Vec<StyledSpan>) -> Self {
        StyledLine {
            spans,
            background: None,
        }
    }
}

impl From<&'static str> for StyledLine {
    fn from(text: &'static str) -> Self {
        StyledLine::new(text, Role::Text)
    }
}

impl From<String> for StyledLine {
    fn from(text: String) -> Self {
        StyledLine::new(text, Role::Text)
    }
}

/// Columns that a text takes on a screen of fixed cells: the sum over its grapheme clusters.
pub fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.graphemes(true).map(grapheme_width).sum()
}

/// Columns that one grapheme cluster takes.
pub fn grapheme_width(grapheme: &str) -> usize {
    if grapheme.len() == 1 {
        return 1;
    }
    // Terminals give the half-width sound marks a cell of their own though Unicode says zero.
    let marks = grapheme
        .chars()
        .filter(|letter| matches!(letter, '\u{ff9e}' | '\u{ff9f}'))
        .count();
    grapheme.width() + marks
}

/// Makes text safe to put on a screen: tabs become spaces up to the next stop of `tab` columns (counted
/// from the start of each line), escape sequences and other control characters are dropped, newlines stay.
pub fn sanitize(text: &str, tab: usize) -> Cow<'_, str> {
    let clean = text
        .bytes()
        .all(|byte| byte == b'\n' || !(byte < 0x20 || byte == 0x7f))
        && !has_c1(text);
    if clean {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut column = 0;
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\n' => {
                out.push('\n');
                column = 0;
            }
            '\t' => {
                let stop = tab.max(1) - column % tab.max(1);
                out.extend(std::iter::repeat_n(' ', stop));
                column += stop;
            }
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_csi(&mut rest),
            character if character.is_control() => {}
            character => {
                out.push(character);
                column += unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
            }
        }
    }
    Cow::Owned(out)
}

fn has_c1(text: &str) -> bool {
    // C1 controls are encoded as 0xC2 0x80..=0x9F.
    text.as_bytes()
        .windows(2)
        .any(|pair| pair[0] == 0xc2 && (0x80..=0x9f).contains(&pair[1]))
}

fn skip_escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            skip_csi(rest);
        }
        Some(']' | 'P' | '_' | '^' | 'X') => {
            rest.next();
            skip_string(rest);
        }
        Some(' '..='/') => {
            rest.next();
            rest.next();
        }
        Some('\n') | None => {}
        Some(_) => {
            rest.next();
        }
    }
}

fn skip_csi(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(character) =
        rest.next_if(|character| *character != '\n' && *character != '\u{1b}')
    {
        if ('\u{40}'..='\u{7e}').contains(&character) {
            return;
        }
    }
}

fn skip_string(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(character) = rest.next_if(|character| *character != '\n') {
        match character {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                rest.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_never_reach_the_screen() {
        assert_eq!(
            sanitize(
                "a\u{1b}[31mred\u{1b}[0m\tb\r\n\u{1b}]0;title\u{7}x\u{9b}2Jy",
                4
            ),
            "ared    b\nxy"
        );
        assert_eq!(sanitize("ab\tc\n\td", 4), "ab  c\n    d");
        assert!(matches!(sanitize("plain ünï\n漢字", 4), Cow::Borrowed(_)));
        assert_eq!(sanitize("half \u{1b}", 4), "half ");
        assert_eq!(
            sanitize("lost \u{1b}]0;never closed\nnext", 4),
            "lost \nnext"
        );
    }

    #[test]
    fn every_role_has_a_distinct_key_and_its_position() {
        let mut keys = std::collections::HashSet::new();
        for (position, role) in Role::ALL.iter().enumerate() {
            assert_eq!(*role as usize, position);
            assert!(keys.insert(role.key()), "{} twice", role.key());
            assert_eq!(
                serde::de::value::StrDeserializer::<serde::de::value::Error>::new(role.key())
                    .into_role(),
                *role
            );
        }
    }

    trait IntoRole {
        fn into_role(self) -> Role;
    }

    impl<'de> IntoRole for serde::de::value::StrDeserializer<'de, serde::de::value::Error> {
        fn into_role(self) -> Role {
            Role::deserialize(self).unwrap()
        }
    }

    #[test]
    fn equal_neighbours_join() {
        let mut line = StyledLine::new("a", Role::Text);
        line.push(StyledSpan::new("b", Role::Text));
        line.push(StyledSpan::new("", Role::Error));
        line.push(StyledSpan::new("c", Role::Error));
        assert_eq!(line.spans.len(), 2);
        assert_eq!((line.to_text().as_str(), line.width()), ("abc", 3));
    }
}
