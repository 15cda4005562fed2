//! Words of a command line: what the program will get, as far as that can be told without running anything.

use std::path::Path;

use tree_sitter::Node;

/// One word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// What the program gets; as it is written where that cannot be told.
    pub(crate) text: String,
    /// Whether that can be told, file name patterns apart.
    pub(crate) known: bool,
    /// Whether it is a file name pattern.
    pub(crate) glob: bool,
    /// Whether it is one word, whatever it comes to.
    pub(crate) single: bool,
}

impl Word {
    /// A word without anything to expand.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Word {
            text: text.into(),
            known: true,
            glob: false,
            single: true,
        }
    }

    /// A word that cannot be told.
    pub(crate) fn unknown(source: impl Into<String>) -> Self {
        Word {
            text: source.into(),
            known: false,
            glob: false,
            single: false,
        }
    }

    /// The word for a rule: quoted where it would read as several words or as another kind of word.
    pub(crate) fn shown(&self) -> String {
        // A pattern of file names reads as one, and its like between quotes as no pattern.
        let signs = match self.glob {
            true => "'\"\\;&|<>()`$#",
            false => "'\"\\;&|<>()`$#*?[{",
        };
        // These stand for themselves.
        let text = match self.text.as_str() {
            "[" => "_",
            text => &text.replace("{}", "_"),
        };
        let needs_quotes = self.known
            && (text.is_empty()
                || text.starts_with('~')
                || text.contains(|character: char| {
                    character.is_whitespace() || signs.contains(character)
                }));
        if !needs_quotes {
            return self.text.clone();
        }
        format!("'{}'", self.text.replace('\'', r"'\''"))
    }
}

/// Values that expansions are known to have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) source: &'a str,
    pub(crate) home: Option<&'a Path>,
    pub(crate) directory: Option<&'a Path>,
}

impl Values<'_> {
    fn text(&self, node: Node<'_>) -> &str {
        &self.source[node.byte_range()]
    }

    /// What a node of a word comes to. Substitutions in it are judged where they are found.
    pub(crate) fn word(&self, node: Node<'_>) -> Word {
        let text = self.text(node);
        match node.kind() {
            "word" | "command_name" if node.named_child_count() == 0 => self.bare(text, true),
            "command_name" => node
                .named_child(0)
                .filter(|_| node.named_child_count() == 1)
                .map_or_else(|| Word::unknown(text), |only| self.word(only)),
            "number" | "variable_name" | "file_descriptor" if node.named_child_count() == 0 => {
                Word::plain(text)
            }
            "raw_string" => Word::plain(text.trim_start_matches('\'').trim_end_matches('\'')),
            "ansi_c_string" => decoded(text).map_or_else(|| Word::unknown(text), Word::plain),
            "string" => self.joined(node, true),
            "concatenation" => self.joined(node, false),
            "simple_expansion" | "expansion" => self.variable(text),
            "arithmetic_expansion" => Word {
                single: true,
                ..Word::unknown(text)
            },
            _ => Word::unknown(text),
        }
    }

    /// The parts of a word one after the other; what stands between them is text of a string.
    fn joined(&self, node: Node<'_>, quoted: bool) -> Word {
        let text = self.text(node);
        let plain =
            |character: char| character.is_ascii_alphanumeric() || "-_./=".contains(character);
        // Empty braces stand for themselves, which the grammar does not know.
        if !quoted && text.contains("{}") && text.replace("{}", "").chars().all(plain) {
            return Word::plain(text);
        }
        let mut whole = Word::plain("");
        let mut at = node.start_byte();
        let end = node.end_byte();
        let (mut begin, mut finish) = (at, end);
        if quoted {
            (begin, finish) = (begin + 1, finish.saturating_sub(1).max(begin + 1));
            at = begin;
        }
        let mut cursor = node.walk();
        for (index, child) in node.named_children(&mut cursor).enumerate() {
            self.between(&mut whole, at, child.start_byte(), quoted);
            let part = match child.kind() {
                "string_content" => Word::plain(unescaped(self.text(child))),
                "word" if child.named_child_count() == 0 => self.bare(self.text(child), index == 0),
                _ => self.word(child),
            };
            push(&mut whole, &part);
            at = child.end_byte();
        }
        self.between(&mut whole, at, finish, quoted);
        if !whole.known {
            whole.text = self.text(node).to_owned();
            // `"$@"` and `"${a[@]}"` are as many words as there are.
            whole.single = quoted && !whole.text.contains(['@', '*']);
        }
        whole
    }

    fn between(&self, whole: &mut Word, from: usize, to: usize, quoted: bool) {
        let Some(gap) = self.source.get(from..to).filter(|gap| !gap.is_empty()) else {
            return;
        };
        let part = if quoted {
            Word::plain(unescaped(gap))
        } else {
            Word::unknown(gap)
        };
        push(whole, &part);
    }

    /// A word outside of quotes.
    fn bare(&self, text: &str, first: bool) -> Word {
        let mut word = Word::plain("");
        let mut characters = text.chars().peekable();
        if first && let Some(rest) = text.strip_prefix('~') {
            let ends = rest.is_empty() || rest.starts_with('/');
            match self.home.and_then(Path::to_str).filter(|_| ends) {
                Some(home) => {
                    word.text.push_str(home);
                    characters.next();
                }
                None => word.known = false,
            }
        }
        while let Some(character) = characters.next() {
            match character {
                '\\' => match characters.next() {
                    Some('\n') | None => {}
                    Some(escaped) => word.text.push(escaped),
                },
                '*' | '?' | '[' => {
                    word.glob = true;
                    word.text.push(character);
                }
                // Braces expand to several words, `{}` apart.
                '{' if characters.peek() == Some(&'}') => {
                    word.text.push_str("{}");
                    characters.next();
                }
                '{' => {
                    word.known = false;
                    word.text.push(character);
                }
                '$' | '`' => {
                    word.known = false;
                    word.text.push(character);
                }
                other => word.text.push(other),
            }
        }
        if !word.known {
            word.text = text.to_owned();
        }
        word
    }

    fn variable(&self, text: &str) -> Word {
        let name = text
            .strip_prefix("${")
            .and_then(|rest| rest.strip_suffix('}'))
            .or_else(|| text.strip_prefix('$'));
        let value = match name {
            Some("HOME") => self.home,
            Some("PWD") => self.directory,
            _ => None,
        };
        match value.and_then(Path::to_str) {
            Some(value) => Word::plain(value),
            // A number.
            None if matches!(name, Some("?" | "#" | "$")) => Word {
                single: true,
                ..Word::unknown(text)
            },
            None => Word::unknown(text),
        }
    }
}

fn push(whole: &mut Word, part: &Word) {
    whole.text.push_str(&part.text);
    whole.known &= part.known;
    whole.glob |= part.glob;
    whole.single &= part.single && !part.glob;
}

/// The text of `$'…'`. `None` where it is no text.
fn decoded(text: &str) -> Option<String> {
    let inner = text.strip_prefix("$'")?.strip_suffix('\'')?;
    let mut bytes: Vec<u8> = Vec::with_capacity(inner.len());
    let mut characters = inner.chars().peekable();
    while let Some(character) = characters.next() {
        let mut push = |character: char| {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        };
        if character != '\\' {
            push(character);
            continue;
        }
        let mut digits = |radix: u32, most: usize| {
            let (mut value, mut count) = (0, 0);
            while let Some(digit) = characters.peek().and_then(|next| next.to_digit(radix)) {
                if count == most {
                    break;
                }
                (value, count) = (value * radix + digit, count + 1);
                characters.next();
            }
            (count > 0).then_some(value)
        };
        // Three octal digits may begin with the character that is next.
        if let Some(value) = digits(8, 3) {
            bytes.push(u8::try_from(value).ok()?);
            continue;
        }
        match characters.next()? {
            'a' => bytes.push(7),
            'b' => bytes.push(8),
            'e' | 'E' => bytes.push(27),
            'f' => bytes.push(12),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'v' => bytes.push(11),
            same @ ('\\' | '\'' | '"' | '?') => push(same),
            kind @ ('x' | 'u' | 'U') => {
                let most = match kind {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let (mut value, mut count) = (0u32, 0);
                while let Some(digit) = characters.peek().and_then(|next| next.to_digit(16)) {
                    if count == most {
                        break;
                    }
                    (value, count) = (value.checked_mul(16)?.checked_add(digit)?, count + 1);
                    characters.next();
                }
                match kind {
                    _ if count == 0 => return None,
                    'x' => bytes.push(u8::try_from(value).ok()?),
                    _ => push(char::from_u32(value)?),
                }
            }
            _ => return None,
        }
    }
    String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
}

/// Text between double quotes: a backslash counts before `$`, a backtick, `"`, itself and a line's end.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, characters.peek()) {
            ('\\', Some('\n')) => drop(characters.next()),
            ('\\', Some('$' | '`' | '"' | '\\')) => out.extend(characters.next()),
            _ => out.push(character),
        }
    }
    out
}
