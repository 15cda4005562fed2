//! A second, strict reading of a command line: the small part of bash's language about which nothing can be misread.
//!
//! The grammar takes more than this, and some of it otherwise than bash does: where a here-document ends, what is a
//! blank, where a word does. Nothing is taken for granted of a line that this reading does not take, or of which it
//! finds other words, commands or here-documents than the grammar.

mod agree;
mod words;

pub(super) use agree::agrees;

/// Constructs within each other at most.
const MOST_DEPTH: usize = 40;

/// Why a line is not read: what stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Odd(pub(super) &'static str);

/// A word, from its first byte to behind its last.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    start: usize,
    end: usize,
    /// What the program gets; `None` where something in it is expanded.
    text: Option<String>,
    /// Whether it is a file name pattern.
    glob: bool,
    /// Whether it sets a variable, before a command or without one.
    sets: bool,
}

/// What a line consists of. Everything by its place, so that it can be compared with what another reader finds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parts {
    /// The words of each simple command, of each test and each `for`, what is set before a command among them.
    commands: Vec<Vec<Token>>,
    /// What redirections name.
    targets: Vec<Token>,
    /// What stands between commands.
    operators: Vec<(usize, &'static str)>,
    /// Shells of their own: `( … )` and `$( … )`.
    shells: Vec<(usize, usize)>,
    /// The last line of each here-document, from its first byte to behind its last.
    documents: Vec<(usize, usize)>,
}

struct Reader<'s> {
    source: &'s str,
    at: usize,
    depth: usize,
    /// How many `$( … )` are open.
    substitutions: usize,
    /// The end of the line on which a here-document begins, and where it goes on behind that.
    document: Option<(usize, usize)>,
    parts: Parts,
}

/// Words that are no commands where a command would stand.
const RESERVED: [&str; 20] = [
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "select", "function", "coproc", "{", "}", "!", "[[", "]]",
];

/// Reads a whole line.
fn read(source: &str) -> Result<Parts, Odd> {
    if source.chars().any(|character| !is_taken(character)) {
        return Err(Odd("characters that are no letters, signs or blanks"));
    }
    let mut reader = Reader {
        source,
        at: 0,
        depth: 0,
        substitutions: 0,
        document: None,
        parts: Parts::default(),
    };
    reader.list(&[])?;
    Ok(reader.parts)
}

/// Whether a character may stand in a line at all: no control characters, no blanks but those that bash knows, and
/// nothing that is not seen.
fn is_taken(character: char) -> bool {
    const UNSEEN: [std::ops::RangeInclusive<u32>; 9] = [
        0xad..=0xad,
        0x61c..=0x61c,
        0x115f..=0x1160,
        0x200b..=0x200f,
        0x202a..=0x202e,
        0x2060..=0x206f,
        0xe000..=0xfeff,
        0xfff0..=0xffff,
        0xe0000..=0x10_ffff,
    ];
    match character {
        ' '..='~' | '\n' | '\t' => true,
        other if other.is_ascii() || other.is_control() || other.is_whitespace() => false,
        other => !UNSEEN.iter().any(|range| range.contains(&u32::from(other))),
    }
}

impl<'s> Reader<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn starts(&self, text: &str) -> bool {
        self.rest().starts_with(text)
    }

    /// Blanks, line ends that a backslash takes away, and a comment, where a word could begin.
    fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.at += 1,
                Some('\\') if self.starts("\\\n") => self.at += 2,
                Some('#') => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                _ => return,
            }
        }
    }

    /// Goes over a line's end, and over the here-document that begins behind it.
    fn line_end(&mut self) {
        self.at = match self.document.take() {
            Some((end, behind)) if end == self.at => behind,
            _ => self.at + 1,
        };
    }

    fn blank_lines(&mut self) {
        loop {
            self.blanks();
            if self.peek() != Some('\n') {
                return;
            }
            self.line_end();
        }
    }

    /// The word of the shell's own that stands here.
    fn reserved(&self) -> Option<&'static str> {
        let rest = self.rest();
        let ends = |character: char| " \t\n;&|()<>".contains(character);
        let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        RESERVED.into_iter().find(|reserved| *reserved == word)
    }

    /// Goes over one of these words, if one stands here.
    fn takes(&mut self, words: &[&'static str]) -> Option<&'static str> {
        let word = self.reserved().filter(|word| words.contains(word))?;
        self.at += word.len();
        Some(word)
    }

    fn deeper<T>(&mut self, part: impl FnOnce(&mut Self) -> Result<T, Odd>) -> Result<T, Odd> {
        if self.depth == MOST_DEPTH {
            return Err(Odd("more within each other than can be followed"));
        }
        self.depth += 1;
        let read = part(self);
        self.depth -= 1;
        read
    }

    /// Commands up to one of these words, `)`, or the end of all where none is named. Says which it was.
    fn list(&mut self, ends: &[&'static str]) -> Result<&'static str, Odd> {
        let mut any = false;
        loop {
            self.blank_lines();
            let Some(next) = self.peek() else {
                return match ends {
                    [] => Ok(""),
                    _ => Err(Odd("something that does not end")),
                };
            };
            if next == ')' && ends == [")"] && any {
                self.at += 1;
                return Ok(")");
            }
            if let Some(end) = self.takes(ends) {
                let empty = Odd("a list of commands without any");
                return any.then_some(end).ok_or(empty);
            }
            self.chain()?;
            any = true;
            self.blanks();
            match self.peek() {
                None | Some('\n' | ')') => {}
                Some(';') if !self.starts(";;") && !self.starts(";&") => self.operator(";"),
                Some('&') if !self.starts("&&") => self.operator("&"),
                _ if self.reserved().is_some_and(|word| ends.contains(&word)) => {}
                _ => return Err(Odd("signs that stand where they mean nothing")),
            }
        }
    }

    fn operator(&mut self, operator: &'static str) {
        self.parts.operators.push((self.at, operator));
        self.at += operator.len();
    }

    /// Pipelines with `&&` and `||` between them.
    fn chain(&mut self) -> Result<(), Odd> {
        loop {
            self.pipeline()?;
            self.blanks();
            match () {
                () if self.starts("&&") => self.operator("&&"),
                () if self.starts("||") => self.operator("||"),
                () => return Ok(()),
            }
            self.blank_lines();
        }
    }

    fn pipeline(&mut self) -> Result<(), Odd> {
        self.blanks();
        if self.takes(&["!"]).is_some() {
            self.blanks();
        }
        loop {
            self.deeper(Self::command)?;
            self.blanks();
            if self.starts("|&") {
                return Err(Odd("`|&`"));
            }
            if !self.starts("|") || self.starts("||") {
                return Ok(());
            }
            self.operator("|");
            self.blank_lines();
        }
    }

    fn command(&mut self) -> Result<(), Odd> {
        let start = self.at;
        if self.starts("((") {
            return Err(Odd("`((`"));
        }
        if self.starts("(") {
            self.at += 1;
            self.list(&[")"])?;
            self.parts.shells.push((start, self.at));
            return self.redirections();
        }
        match self.reserved() {
            None => return self.simple(),
            Some("[[") => return self.test(),
            Some(word @ ("{" | "if" | "while" | "until" | "for")) => self.at += word.len(),
            Some(_) => return Err(Odd("a word of the shell that is not judged")),
        }
        match &self.source[start..self.at] {
            "{" => drop(self.list(&["}"])?),
            "if" => {
                self.list(&["then"])?;
                loop {
                    match self.list(&["elif", "else", "fi"])? {
                        "elif" => drop(self.list(&["then"])?),
                        "else" => {
                            self.list(&["fi"])?;
                            break;
                        }
                        _ => break,
                    }
                }
            }
            "for" => self.each()?,
            _ => {
                self.list(&["do"])?;
                self.list(&["done"])?;
            }
        }
        self.redirections()
    }

    /// `for NAME in WORDS; do … done`.
    fn each(&mut self) -> Result<(), Odd> {
        self.blanks();
        let mut words = vec![self.word()?];
        if !words[0].text.as_deref().is_some_and(is_name) {
            return Err(Odd("a loop over something that is no name"));
        }
        self.blanks();
        let within = self.word()?;
        if within.text.as_deref() != Some("in") || within.end - within.start != 2 {
            return Err(Odd("a loop over what is not written out"));
        }
        loop {
            self.blanks();
            match self.peek() {
                Some(';') => break self.operator(";"),
                Some('\n') => break,
                Some('&' | '|' | '<' | '>' | '(' | ')') | None => {
                    return Err(Odd("signs that stand where they mean nothing"));
                }
                Some(_) => words.push(self.word()?),
            }
        }
        self.parts.commands.push(words);
        self.blank_lines();
        if self.takes(&["do"]).is_none() {
            return Err(Odd("a loop without `do`"));
        }
        self.list(&["done"]).map(drop)
    }

    /// `[[ … ]]`: words and the signs between them, apart from each other.
    fn test(&mut self) -> Result<(), Odd> {
        let mut words = vec![self.sign(2)];
        loop {
            self.blanks();
            match self.peek() {
                _ if self.reserved() == Some("]]") => break words.push(self.sign(2)),
                Some('&' | '|') if self.starts("&&") || self.starts("||") => {
                    words.push(self.sign(2));
                }
                None | Some('\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>') => {
                    return Err(Odd("a test that is not plain"));
                }
                Some(_) => words.push(self.word()?),
            }
        }
        self.parts.commands.push(words);
        self.redirections()
    }

    fn sign(&mut self, length: usize) -> Token {
        let start = self.at;
        self.at += length;
        Token {
            start,
            end: self.at,
            text: Some(self.source[start..self.at].to_owned()),
            glob: false,
            sets: false,
        }
    }

    fn simple(&mut self) -> Result<(), Odd> {
        let (start, mut words) = (self.at, Vec::new());
        loop {
            self.blanks();
            match self.peek() {
                None | Some('\n' | ';' | '|' | ')') => break,
                Some('(') => return Err(Odd("`(` behind a word")),
                Some('&') if !self.starts("&>") => break,
                Some(_) => {
                    if !self.redirection()? {
                        let word = self.word()?;
                        let source = &self.source[word.start..word.end];
                        let leads = words.iter().all(|word: &Token| word.sets);
                        words.push(Token {
                            sets: leads && sets(source),
                            ..word
                        });
                    }
                }
            }
        }
        if self.at == start {
            return Err(Odd("signs that stand where they mean nothing"));
        }
        if !words.is_empty() {
            self.parts.commands.push(words);
        }
        Ok(())
    }

    fn redirections(&mut self) -> Result<(), Odd> {
        loop {
            self.blanks();
            if !self.redirection()? {
                return Ok(());
            }
        }
    }

    /// A redirection in one of the plain spellings, if one stands here.
    fn redirection(&mut self) -> Result<bool, Odd> {
        let rest = self.rest();
        let digits = rest.len()
            - rest
                .trim_start_matches(|one: char| one.is_ascii_digit())
                .len();
        let sign = &rest[digits..];
        let both = digits == 0 && sign.starts_with("&>");
        if !both && !sign.starts_with(['<', '>']) {
            return Ok(false);
        }
        self.at += digits;
        if sign.starts_with("<<") && !sign.starts_with("<<<") {
            return self.here_document().map(|()| true);
        }
        const SPELLINGS: [&str; 8] = ["&>>", "&>", "<<<", ">>", ">&", ">|", ">", "<"];
        let spelling = SPELLINGS.into_iter().find(|one| sign.starts_with(one));
        let spelling = spelling.ok_or(Odd("a redirection that is not plain"))?;
        self.at += spelling.len();
        if self.peek().is_some_and(|next| "<>&(|".contains(next)) {
            return Err(Odd("a redirection that is not plain"));
        }
        self.blanks();
        let target = self.word()?;
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit());
        if spelling == ">&" && !target.text.as_deref().is_some_and(is_number) {
            return Err(Odd("a redirection that is not plain"));
        }
        self.parts.targets.push(target);
        Ok(true)
    }

    /// `<<WORD`, the last of its line, with a delimiter that is plain or all between single quotes.
    fn here_document(&mut self) -> Result<(), Odd> {
        const ODD: Odd = Odd("a here-document that is not plain");
        if self.substitutions > 0 || self.document.is_some() {
            return Err(ODD);
        }
        self.at += 2;
        let line = self.rest().lines().next().unwrap_or_default();
        let quoted = line
            .strip_prefix('\'')
            .and_then(|rest| rest.strip_suffix('\''));
        let delimiter = quoted.unwrap_or(line);
        let first = self.at + line.len();
        if !is_name(delimiter) || !self.source[first..].starts_with('\n') {
            return Err(ODD);
        }
        let mut at = first + 1;
        for line in self.source[at..].split('\n') {
            if line == delimiter {
                self.parts.documents.push((at, at + line.len()));
                self.document = Some((first, at + line.len()));
                self.at = first;
                return Ok(());
            }
            if quoted.is_none() && !is_plain_text(line) {
                return Err(Odd("a here-document that is expanded"));
            }
            at += line.len() + 1;
        }
        Err(ODD)
    }
}

/// Whether a line of a here-document holds nothing to expand but plain variables.
fn is_plain_text(line: &str) -> bool {
    let begins_name =
        |rest: &str| rest.starts_with(|one: char| one.is_ascii_alphabetic() || one == '_');
    !line.contains(['\\', '`']) && line.split('$').skip(1).all(begins_name)
}

/// Whether a word is `NAME=…` or `NAME+=…`.
fn sets(source: &str) -> bool {
    let name = source.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| is_name(name.strip_suffix('+').unwrap_or(name)))
}

/// Whether this can name a variable.
pub(super) fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    let letter = |one: char| one.is_ascii_alphabetic() || one == '_';
    characters.next().is_some_and(letter)
        && characters.all(|one| letter(one) || one.is_ascii_digit())
}
