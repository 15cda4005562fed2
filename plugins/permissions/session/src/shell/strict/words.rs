//! Words of the strict reading: plain characters, quotes, simple backslashes, and expansions that do nothing else.

use super::{Odd, Reader, Token, is_name};

/// A word so far.
#[derive(Default)]
struct Whole {
    text: String,
    expands: bool,
    glob: bool,
}

impl Reader<'_> {
    /// The word that begins here.
    pub(super) fn word(&mut self) -> Result<Token, Odd> {
        let start = self.at;
        let mut whole = Whole::default();
        while let Some(next) = self.peek() {
            match next {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | ')' | '<' | '>' => break,
                '(' => return Err(Odd("`(` behind a word")),
                '`' => return Err(Odd("backquotes")),
                '\'' => {
                    self.at += 1;
                    let length = self
                        .rest()
                        .find('\'')
                        .ok_or(Odd("a quote that does not end"))?;
                    whole.text.push_str(&self.rest()[..length]);
                    self.at += length + 1;
                }
                '"' => self.quoted(&mut whole)?,
                '\\' => {
                    let escaped = self.rest()[1..].chars().next();
                    let plain = escaped.filter(|one| (' '..='~').contains(one));
                    whole
                        .text
                        .push(plain.ok_or(Odd("a backslash before what is no sign"))?);
                    self.at += 2;
                }
                '$' => {
                    self.expansion()?;
                    whole.expands = true;
                }
                '{' if self.starts("{}") => {
                    whole.text.push_str("{}");
                    self.at += 2;
                }
                '{' | '}' => return Err(Odd("braces in a word")),
                '~' if self.at == start => {
                    whole.expands = true;
                    self.at += 1;
                    if self.peek().is_some_and(|next| "'\"\\$".contains(next)) {
                        return Err(Odd("a quote behind `~`"));
                    }
                }
                '~' if self.source[..self.at].ends_with(['=', ':']) => {
                    return Err(Odd("`~` within a word"));
                }
                _ => {
                    if !is_plain(next) {
                        return Err(Odd("characters that are no letters outside of quotes"));
                    }
                    whole.glob |= matches!(next, '*' | '?' | '[');
                    whole.text.push(next);
                    self.at += next.len_utf8();
                }
            }
        }
        if self.at == start {
            return Err(Odd("signs that stand where they mean nothing"));
        }
        let source = &self.source[start..self.at];
        let subscript = source.split_once('[').is_some_and(|(name, rest)| {
            is_name(name) && (rest.contains("]=") || rest.contains("]+="))
        });
        if subscript {
            return Err(Odd("a subscript"));
        }
        Ok(Token {
            start,
            end: self.at,
            text: (!whole.expands).then_some(whole.text),
            glob: whole.glob && source != "[",
            sets: false,
        })
    }

    /// `"…"`.
    fn quoted(&mut self, whole: &mut Whole) -> Result<(), Odd> {
        self.at += 1;
        while let Some(next) = self.peek() {
            let after = self.rest()[next.len_utf8()..].chars().next();
            match (next, after) {
                ('"', _) => {
                    self.at += 1;
                    return Ok(());
                }
                ('`', _) => return Err(Odd("backquotes")),
                ('\\', Some('\n') | None) => return Err(Odd("a backslash before what is no sign")),
                ('\\', Some(escaped @ ('$' | '`' | '"' | '\\'))) => {
                    whole.text.push(escaped);
                    self.at += 2;
                }
                // It begins nothing.
                ('$', Some('"' | ' ' | '|' | ')' | '/')) => {
                    whole.text.push('$');
                    self.at += 1;
                }
                ('$', _) => {
                    self.expansion()?;
                    whole.expands = true;
                }
                _ => {
                    whole.text.push(next);
                    self.at += next.len_utf8();
                }
            }
        }
        Err(Odd("a quote that does not end"))
    }

    /// What begins with `$`.
    fn expansion(&mut self) -> Result<(), Odd> {
        const ODD: Odd = Odd("an expansion that is not plain");
        self.at += 1;
        let rest = self.rest();
        match rest.chars().next().ok_or(ODD)? {
            '(' if rest.starts_with("((") => return self.arithmetic(),
            '(' => {
                let start = self.at - 1;
                self.at += 1;
                self.substitutions += 1;
                self.deeper(|this| this.list(&[")"]))?;
                self.substitutions -= 1;
                self.parts.shells.push((start, self.at));
            }
            '{' => {
                let inner = rest[1..].split_once('}').ok_or(ODD)?.0;
                if !is_plain_value(inner) {
                    return Err(ODD);
                }
                self.at += inner.len() + 2;
            }
            '0'..='9' | '?' | '#' | '$' | '!' | '@' | '*' | '-' => self.at += 1,
            'a'..='z' | 'A'..='Z' | '_' => {
                let ends = |one: char| !one.is_ascii_alphanumeric() && one != '_';
                self.at += rest.find(ends).unwrap_or(rest.len());
            }
            _ => return Err(ODD),
        }
        Ok(())
    }

    /// `$((…))` of numbers alone.
    fn arithmetic(&mut self) -> Result<(), Odd> {
        const ODD: Odd = Odd("arithmetic with more than numbers");
        let inner = self.rest()[2..].split_once("))").ok_or(ODD)?.0;
        let plain = |one: char| one.is_ascii_digit() || " +-*/%<>=,".contains(one);
        if inner.is_empty() || !inner.chars().all(plain) {
            return Err(ODD);
        }
        self.at += inner.len() + 4;
        Ok(())
    }
}

/// Whether a character means itself outside of quotes, or is a sign of a file name pattern. What some shells on some
/// systems take for a blank by one of its bytes is not among them.
fn is_plain(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric() || "!#%*+,-./:=?@[]^_~".contains(character);
    }
    let mut bytes = [0; 4];
    let bytes = character.encode_utf8(&mut bytes).as_bytes();
    character.is_alphanumeric() && !bytes.iter().any(|byte| matches!(byte, 0x85 | 0xa0))
}

/// Whether what stands between `${` and `}` gives a value or a plain part of it.
fn is_plain_value(inner: &str) -> bool {
    if let Some(name) = inner.strip_prefix('#') {
        return is_name(name);
    }
    let end = inner.find(|one: char| !one.is_ascii_alphanumeric() && one != '_');
    let (name, rest) = inner.split_at(end.unwrap_or(inner.len()));
    let number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let operators = [":-", ":+", "-", "+", "##", "#", "%%", "%"];
    let operand = operators
        .iter()
        .find_map(|operator| rest.strip_prefix(operator));
    let plain = |one: char| one.is_ascii_alphanumeric() || "_./*,+-".contains(one);
    (is_name(name) || number)
        && (rest.is_empty() || operand.is_some_and(|rest| rest.chars().all(plain)))
}
