//! One lexer for all languages that are made of words, strings and comments; a table says how.

use super::Pieces;
use super::table::{Keys, Language, Quote, Traits};
use crate::text::{Role, StyledLine};

/// What is open at the end of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum CodeState {
    #[default]
    Plain,
    /// A comment, this deep.
    Comment(usize),
    /// A string of this kind.
    String(Quote),
    /// A raw string that so many `#` close.
    Raw(usize),
}

pub(super) fn read_line(
    language: &'static Language,
    state: &mut CodeState,
    line: &str,
) -> StyledLine {
    let mut reader = Reader {
        language,
        pieces: Pieces::new(line),
        line,
        at: 0,
        first_word: true,
        announced: None,
    };
    while reader.at < line.len() {
        match state {
            CodeState::Plain => *state = reader.plain(),
            CodeState::Comment(depth) => {
                if reader.comment(depth) {
                    *state = CodeState::Plain;
                }
            }
            CodeState::String(quote) => {
                if reader.string(*quote) || !quote.multiline {
                    *state = CodeState::Plain;
                }
            }
            CodeState::Raw(hashes) => {
                if reader.raw(*hashes) {
                    *state = CodeState::Plain;
                }
            }
        }
    }
    if matches!(state, CodeState::String(quote) if !quote.multiline) {
        *state = CodeState::Plain;
    }
    reader.pieces.out
}

struct Reader<'a> {
    language: &'static Language,
    pieces: Pieces<'a>,
    line: &'a str,
    at: usize,
    /// Whether nothing but blanks and dashes stood before.
    first_word: bool,
    /// What the word before says of the next one.
    announced: Option<Role>,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.line[self.at..]
    }

    fn has(&self, traits: Traits) -> bool {
        self.language.traits.has(traits)
    }

    fn take(&mut self, length: usize, role: Role) {
        self.pieces.push(self.at, self.at + length, role);
        self.at += length;
    }

    /// Reads one token; what it leaves open is the next state.
    fn plain(&mut self) -> CodeState {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return CodeState::Plain;
        };
        if first.is_whitespace() {
            let length = rest
                .find(|letter: char| !letter.is_whitespace())
                .unwrap_or(rest.len());
            self.take(length, Role::CodeBlock);
            return CodeState::Plain;
        }
        if self.begins_line_comment() {
            self.take(rest.len(), Role::Comment);
            return CodeState::Plain;
        }
        if let Some((open, _)) = self.language.block_comment
            && rest.starts_with(open)
        {
            self.take(open.len(), Role::Comment);
            return CodeState::Comment(1);
        }
        if let Some(special) = self.special(first) {
            self.first_word = false;
            return special;
        }
        if let Some(quote) = self.quote(rest) {
            return self.open_string(quote, 0);
        }
        if first.is_ascii_digit()
            || (first == '.' && rest[1..].starts_with(|letter: char| letter.is_ascii_digit()))
        {
            self.number();
        } else if self.begins_word(first, rest) {
            return self.word();
        } else {
            self.announced = None;
            let punctuation = "()[]{},;.:".contains(first);
            self.take(
                first.len_utf8(),
                if punctuation {
                    Role::Punctuation
                } else {
                    Role::Operator
                },
            );
            if first != '-' {
                self.first_word = false;
            }
            return CodeState::Plain;
        }
        self.first_word = false;
        CodeState::Plain
    }

    fn begins_line_comment(&self) -> bool {
        let spaced = !self.has(Traits::SPACED_COMMENTS)
            || self.at == 0
            || self.line[..self.at].ends_with(char::is_whitespace);
        spaced
            && self
                .language
                .line_comments
                .iter()
                .any(|mark| self.rest().starts_with(mark))
    }

    fn quote(&self, text: &str) -> Option<Quote> {
        let fitting = self
            .language
            .strings
            .iter()
            .filter(|quote| text.starts_with(quote.open));
        fitting.max_by_key(|quote| quote.open.len()).copied()
    }

    /// Takes the opening of a string, which may stand behind a prefix.
    fn open_string(&mut self, quote: Quote, prefix: usize) -> CodeState {
        let is_key = self.language.keys == Keys::Strings && self.string_is_key(quote);
        let role = if is_key { Role::Property } else { Role::String };
        self.first_word = false;
        if is_key {
            let inner = &self.rest()[quote.open.len()..];
            let end = inner
                .find(quote.close)
                .map_or(inner.len(), |end| end + quote.close.len());
            self.take(quote.open.len() + end, role);
            return CodeState::Plain;
        }
        self.take(prefix + quote.open.len(), role);
        CodeState::String(quote)
    }

    fn string_is_key(&self, quote: Quote) -> bool {
        let inner = &self.rest()[quote.open.len()..];
        let Some(end) = inner.find(quote.close) else {
            return false;
        };
        !inner[..end].contains('\\')
            && inner[end + quote.close.len()..]
                .trim_start()
                .starts_with(':')
    }

    /// Reads to the end of a string, or of the line. True at its end.
    fn string(&mut self, quote: Quote) -> bool {
        let rest = self.rest();
        let variables = match quote.open {
            "'" => false,
            "`" => true,
            _ => self.has(Traits::DOLLAR),
        };
        let mut from = 0;
        let mut letters = rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            if letter == '\\' && quote.escapes {
                let length = 1 + letters.next().map_or(0, |(_, next)| next.len_utf8());
                self.take(at - from, Role::String);
                self.take(length, Role::Escape);
                from = at + length;
            } else if rest[at..].starts_with(quote.close) {
                self.take(at - from + quote.close.len(), Role::String);
                return true;
            } else if letter == '$'
                && variables
                && (self.has(Traits::DOLLAR) || rest[at..].starts_with("${"))
            {
                let length = variable(&rest[at..]);
                if length > 1 {
                    self.take(at - from, Role::String);
                    self.take(length, Role::Escape);
                    from = at + length;
                    letters = rest.char_indices();
                    letters
                        .by_ref()
                        .take_while(|(position, next)| position + next.len_utf8() < from)
                        .count();
                }
            }
        }
        self.take(rest.len() - from, Role::String);
        false
    }

    fn raw(&mut self, hashes: usize) -> bool {
        let close = format!("\"{}", "#".repeat(hashes));
        let rest = self.rest();
        match rest.find(&close) {
            Some(at) => {
                self.take(at + close.len(), Role::String);
                true
            }
            None => {
                self.take(rest.len(), Role::String);
                false
            }
        }
    }

    /// Reads to the end of a comment, or of the line. True at its end.
    fn comment(&mut self, depth: &mut usize) -> bool {
        let Some((open, close)) = self.language.block_comment else {
            return true;
        };
        let rest = self.rest();
        for at in 0..rest.len() {
            let Some(text) = rest.get(at..) else { continue };
            if text.starts_with(close) {
                *depth -= 1;
                if *depth == 0 {
                    self.take(at + close.len(), Role::Comment);
                    return true;
                }
            } else if self.has(Traits::NESTED) && text.starts_with(open) {
                *depth += 1;
            }
        }
        self.take(rest.len(), Role::Comment);
        false
    }

    /// What only some languages have.
    fn special(&mut self, first: char) -> Option<CodeState> {
        let rest = self.rest();
        let next = rest[first.len_utf8()..].chars().next();
        match first {
            '#' if self.has(Traits::RUST) && matches!(next, Some('[' | '!')) => {
                let end = rest.find(']').map_or(rest.len(), |end| end + 1);
                self.take(end, Role::Attribute);
            }
            '#' if self.has(Traits::DIRECTIVES) && self.first_word => {
                let end = rest[1..]
                    .find(|letter: char| !letter.is_alphanumeric())
                    .map_or(rest.len(), |end| end + 1);
                self.take(end, Role::Keyword);
            }
            '#' if self.language.keys == Keys::Properties => {
                let end = rest[1..]
                    .find(|letter: char| !letter.is_alphanumeric() && letter != '-')
                    .map_or(rest.len(), |end| end + 1);
                self.take(end, Role::Number);
            }
            '\'' if self.has(Traits::RUST) => {
                let mut letters = rest[1..].chars();
                let (inner, after) = (letters.next(), letters.next());
                if inner.is_some_and(|letter| self.is_word(letter)) && after != Some('\'') {
                    let end = rest[1..]
                        .find(|letter: char| !self.is_word(letter))
                        .map_or(rest.len(), |end| end + 1);
                    self.take(end, Role::Attribute);
                } else {
                    self.take(1, Role::String);
                    return Some(CodeState::String(CHARACTER));
                }
            }
            'r' if self.has(Traits::RUST) => {
                let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
                if !rest[1 + hashes..].starts_with('"') {
                    return None;
                }
                self.take(2 + hashes, Role::String);
                return Some(CodeState::Raw(hashes));
            }
            '@' if self.has(Traits::ANNOTATIONS) && next.is_some_and(char::is_alphabetic) => {
                let end = rest[1..]
                    .find(|letter: char| !self.is_word(letter) && letter != '.')
                    .map_or(rest.len(), |end| end + 1);
                self.take(end, Role::Attribute);
            }
            '$' if self.has(Traits::DOLLAR) => {
                let length = variable(rest);
                self.take(
                    length,
                    if length > 1 {
                        Role::Property
                    } else {
                        Role::Operator
                    },
                );
            }
            '[' if self.has(Traits::SECTIONS) && self.line[..self.at].trim().is_empty() => {
                let end = rest.find('#').unwrap_or(rest.len());
                self.take(end, Role::Type);
            }
            _ => return None,
        }
        Some(CodeState::Plain)
    }

    fn number(&mut self) {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let mut end = 0;
        while end < bytes.len() {
            let digit_follows = || bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
            let belongs = match bytes[end] {
                b'.' => digit_follows() && !rest[..end].contains('.'),
                b'+' | b'-' => {
                    matches!(bytes[end - 1], b'e' | b'E')
                        && !rest.starts_with("0x")
                        && digit_follows()
                }
                byte => {
                    byte.is_ascii_alphanumeric()
                        || byte == b'_'
                        || (byte == b'%' && self.has(Traits::DASHES))
                }
            };
            if !belongs {
                break;
            }
            end += 1;
        }
        self.take(end.max(1), Role::Number);
    }

    fn is_word(&self, letter: char) -> bool {
        letter.is_alphanumeric()
            || letter == '_'
            || (letter == '$' && !self.has(Traits::DOLLAR))
            || (letter == '-' && self.has(Traits::DASHES))
    }

    /// A dash begins a word only where one goes on: an option, not an item of a list.
    fn begins_word(&self, first: char, rest: &str) -> bool {
        let goes_on = |letter: char| letter.is_alphanumeric() || letter == '-';
        self.is_word(first) && (first != '-' || rest[1..].starts_with(goes_on))
    }

    fn word(&mut self) -> CodeState {
        let rest = self.rest();
        let length = rest
            .find(|letter: char| !self.is_word(letter))
            .unwrap_or(rest.len())
            .max(1);
        let (word, after) = rest.split_at(length);
        if self.has(Traits::PREFIXES)
            && length <= 2
            && let Some(quote) = self.quote(after)
        {
            self.pieces.push(self.at, self.at + length, Role::String);
            self.at += length;
            let quote = Quote {
                escapes: quote.escapes && !word.contains(['r', 'R']),
                ..quote
            };
            return self.open_string(quote, 0);
        }
        let role = match self.announced.take() {
            Some(role) if self.has(Traits::CALLS) => role,
            _ => self.role_of(word, after),
        };
        if role == Role::Keyword {
            self.announced = match word {
                "fn" | "func" | "def" | "function" | "fun" => Some(Role::Function),
                "struct" | "enum" | "class" | "trait" | "interface" | "protocol" | "record" => {
                    Some(Role::Type)
                }
                _ => None,
            };
        }
        // The sign that makes a word a macro belongs to it.
        let sign =
            usize::from(role == Role::Function && self.has(Traits::RUST) && after.starts_with('!'));
        self.take(length + sign, role);
        self.first_word = false;
        CodeState::Plain
    }

    fn role_of(&self, word: &str, after: &str) -> Role {
        let language = self.language;
        let listed = |list: &[&str]| {
            if self.has(Traits::ANY_CASE) {
                list.iter().any(|known| known.eq_ignore_ascii_case(word))
            } else {
                list.contains(&word)
            }
        };
        let before = self.line[..self.at].chars().next_back();
        let follows = after.trim_start();
        match language.keys {
            Keys::First(mark) if self.first_word => {
                let spaced = mark == '='
                    || follows.len() == 1
                    || follows[..].chars().nth(1).is_none_or(char::is_whitespace);
                if follows.starts_with(mark) && spaced {
                    return Role::Property;
                }
            }
            Keys::Properties
                if follows.starts_with(':')
                    && self.line[..self.at].trim_end().ends_with(['{', ';'])
                        | self.line[..self.at].trim().is_empty() =>
            {
                return Role::Property;
            }
            _ => {}
        }
        if before == Some('.') {
            return if after.starts_with('(') && self.has(Traits::CALLS) {
                Role::Function
            } else {
                Role::Property
            };
        }
        if listed(language.keywords) {
            return Role::Keyword;
        }
        if listed(language.constants) {
            return Role::Constant;
        }
        if listed(language.types) {
            return Role::Type;
        }
        if self.has(Traits::CALLS) && after.starts_with('(') {
            let capital = word.starts_with(char::is_uppercase) && self.has(Traits::RUST);
            return if capital { Role::Type } else { Role::Function };
        }
        if self.has(Traits::RUST) && after.starts_with('!') && !after.starts_with("!=") {
            return Role::Function;
        }
        if self.has(Traits::CAPITALS) && word.starts_with(char::is_uppercase) {
            let loud = word.len() > 1
                && word.chars().all(|letter| {
                    letter.is_uppercase() || letter.is_ascii_digit() || letter == '_'
                });
            return if loud { Role::Constant } else { Role::Type };
        }
        if after.starts_with("::") {
            return Role::Namespace;
        }
        if word.starts_with('-') {
            Role::Attribute
        } else {
            Role::CodeBlock
        }
    }
}

/// A character between single quotes.
const CHARACTER: Quote = Quote {
    open: "'",
    close: "'",
    escapes: true,
    multiline: false,
};

/// The length of a variable: `$name`, `${…}`, `$1`; one where the dollar stands alone.
fn variable(text: &str) -> usize {
    let inner = &text[1..];
    if inner.starts_with('{') {
        return inner.find('}').map_or(text.len(), |end| end + 2);
    }
    if inner.starts_with(|letter: char| "?!#@*$-".contains(letter) || letter.is_ascii_digit()) {
        return 2;
    }
    1 + inner
        .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .unwrap_or(inner.len())
}
