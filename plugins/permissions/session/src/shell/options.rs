//! Options as a command takes them: what is not on its list, letter for letter, is not known.

use super::words::Word;

/// How a command was called, as far as its list of options describes it.
#[derive(Debug, Default)]
pub(super) struct Call<'a> {
    /// What is no option and no value of one.
    pub(super) operands: Vec<&'a Word>,
    /// Values of options that name files to read.
    pub(super) reads: Vec<&'a str>,
    /// Values of options that name files to write.
    pub(super) writes: Vec<&'a str>,
    /// The options that stand there, each as its list spells it.
    pub(super) given: Vec<&'static str>,
    /// Whether it goes through whole directories.
    pub(super) deep: bool,
    /// Whether an option says what is searched for, so that the first operand does not.
    pub(super) pattern: bool,
}

/// One option of a list.
struct Listed {
    name: &'static str,
    /// What kind its value is of, where it must have one.
    value: Option<char>,
    /// Whether it may have a value in the same word.
    optional: bool,
    deep: bool,
    pattern: bool,
}

/// Reads a word of a list: `-a`; `-n:t` with a value that is text, `:r` that is read, `:w` that is written, `:p`
/// that is what is searched for, `:q` that is a file of such; `--color?` with a value behind `=` or none; `!` where
/// it makes the command go through directories, `^` where nothing is searched for.
fn listed(word: &'static str) -> Listed {
    let end = word.find([':', '?', '!', '^']).unwrap_or(word.len());
    let (name, marks) = word.split_at(end);
    let value = marks.strip_prefix(':').and_then(|kind| kind.chars().next());
    Listed {
        name,
        value,
        optional: marks.contains('?'),
        deep: marks.contains('!'),
        pattern: marks.contains('^') || matches!(value, Some('p' | 'q')),
    }
}

/// The call that `arguments` are by a list of options, with the rules of GNU programs. `None` where one is not on it
/// as it is written there. Letters may stand together where each is listed; `-#` stands for a number.
pub(super) fn call<'a>(list: &'static str, arguments: &'a [Word]) -> Option<Call<'a>> {
    let find = |name: &str| {
        list.split_whitespace()
            .map(listed)
            .find(|one| one.name == name)
    };
    let mut call = Call::default();
    let mut words = arguments.iter();
    let mut ended = false;
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        if ended || text == "-" || !text.starts_with('-') {
            call.operands.push(word);
            continue;
        }
        if word.glob || !word.known {
            return None;
        }
        if text == "--" {
            ended = true;
            continue;
        }
        // What looks like an option is taken for a value by none but those that are sure of it.
        let mut next = || {
            let value = words.next()?;
            let plain = value.known && !value.glob && !value.text.starts_with('-');
            plain.then_some(value.text.as_str())
        };
        // Some programs begin long ones with one dash.
        let spelled = text.split_once('=').map_or(text, |(name, _)| name);
        let is_long =
            spelled.len() > 2 && find(spelled).is_some_and(|option| option.value.is_some());
        if text.starts_with("--") || is_long {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text, None),
            };
            let option = find(name)?;
            let value = match (option.value, value) {
                (Some(_), Some(value)) => value,
                (Some(_), None) => next()?,
                (None, None) => "",
                (None, Some(value)) if option.optional => value,
                (None, Some(_)) => return None,
            };
            call.note(&option, value);
            continue;
        }
        if let Some(option) = find(text).filter(|option| option.value.is_none()) {
            call.note(&option, "");
            continue;
        }
        let letters = &text[1..];
        if letters.bytes().all(|byte| byte.is_ascii_digit()) && find("-#").is_some() {
            continue;
        }
        for (at, letter) in letters.char_indices() {
            let option = find(&format!("-{letter}"))?;
            if option.value.is_none() {
                call.note(&option, "");
                continue;
            }
            let rest = &letters[at + letter.len_utf8()..];
            let value = match rest.is_empty() {
                true => next()?,
                false => rest,
            };
            call.note(&option, value);
            break;
        }
    }
    Some(call)
}

impl<'a> Call<'a> {
    fn note(&mut self, option: &Listed, value: &'a str) {
        match option.value {
            Some('r' | 'q') => self.reads.push(value),
            Some('w') => self.writes.push(value),
            _ => {}
        }
        self.deep |= option.deep;
        self.pattern |= option.pattern;
        self.given.push(option.name);
    }

    pub(super) fn has(&self, option: &str) -> bool {
        self.given.contains(&option)
    }
}

/// How many of `words` are options of a list that stand first, with their values. `None` where one is not on it.
pub(super) fn leading(list: &'static str, words: &[Word]) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if !word.known || word.glob {
            break;
        }
        if word.text == "--" {
            return Some(at + 1);
        }
        if !word.text.starts_with('-') || word.text == "-" {
            break;
        }
        // Alone, or with the next word as its value.
        let alone = call(list, &words[at..=at]).is_some();
        let more = || words.get(at..at + 2).and_then(|two| call(list, two));
        at += match alone {
            true => 1,
            false if more().is_some_and(|call| call.operands.is_empty()) => 2,
            false => return None,
        };
    }
    Some(at)
}
