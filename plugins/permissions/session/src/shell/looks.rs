//! What commands read that only look.

use std::path::Path;

use super::found::{Depth, Touch};
use super::known::{read_operand, read_operands, touch};
use super::table::{self, Operands};
use super::words::Word;
use super::wrappers::find_looks;
use super::{git, options};

/// What a command reads that only looks. `None` where it is not known to do just that.
pub(super) fn looked_at(
    name: &str,
    arguments: &[Word],
    directory: Option<&Path>,
) -> Option<Vec<Touch>> {
    let here = |depth| Touch {
        depth,
        ..touch(".", directory, false)
    };
    match name {
        "cd" => {
            return match arguments {
                [] => Some(Vec::new()),
                [target] if !target.glob && !target.text.starts_with('-') => {
                    Some(vec![touch(&target.text, directory, false)])
                }
                _ => None,
            };
        }
        "command"
            if arguments
                .first()
                .is_some_and(|word| matches!(word.text.as_str(), "-v" | "-V")) =>
        {
            return arguments.iter().all(|word| !word.glob).then(Vec::new);
        }
        "find" => return looked_at_by_find(arguments, directory),
        "sed" if prints_lines(arguments) => {
            let files = arguments.iter().filter(|word| word.text != "-n").skip(1);
            return read_operands(files, directory, Depth::Names);
        }
        "git" => {
            let looked = git::looks(arguments)?;
            if looked.compares && !git::compares_its_own(&looked.paths, directory) {
                return None;
            }
            let depth = match looked.searches {
                // Of what is tracked, and that may be hidden too.
                true => Depth::Whole,
                false => Depth::Names,
            };
            let mut touches = vec![here(depth)];
            for word in looked.paths {
                touches.extend(read_operand(word, directory, depth)?);
            }
            // What a commit or the index holds is named behind a colon, and so is the file whose lines are shown.
            for word in arguments {
                let parts = word
                    .text
                    .match_indices(':')
                    .map(|(at, _)| &word.text[at + 1..]);
                let named = parts.filter(|path| !path.is_empty());
                touches.extend(named.map(|path| touch(path, directory, false)));
            }
            return Some(touches);
        }
        "node" | "npm" | "python" | "python3" | "ruby" | "gcc" | "clang" | "make" | "cmake"
        | "bash"
            if arguments.len() == 1 && arguments[0].text == "--version" =>
        {
            return Some(Vec::new());
        }
        _ => {}
    }
    let (_, operands, list) = table::row(name)?;
    let call = options::call(list, arguments)?;
    let depth = match (name, call.deep) {
        ("rg", _) => {
            // A glob goes before the rule that hidden files are left out.
            let all = [
                "-u",
                "-.",
                "--hidden",
                "--no-ignore",
                "--unrestricted",
                "-g",
                "--glob",
                "--iglob",
            ];
            match all.iter().any(|option| call.has(option)) {
                true => Depth::Whole,
                false => Depth::Visible,
            }
        }
        // Of two directories, and of a file and one of its name in a directory, it reads what is there.
        ("diff", deep) => {
            let is_directory = |word: &&Word| {
                directory.is_none_or(|from| word.glob || from.join(&word.text).is_dir())
            };
            match deep || call.operands.iter().any(is_directory) {
                true => Depth::Followed,
                false => Depth::Names,
            }
        }
        (_, true) => Depth::Whole,
        (_, false) => Depth::Names,
    };
    // These take options from a file that is named so.
    let takes_options = matches!(name, "strings" | "nm" | "size");
    if takes_options
        && arguments
            .iter()
            .any(|word| word.glob || word.text.starts_with('@'))
    {
        return None;
    }
    let mut touches: Vec<Touch> = call
        .reads
        .iter()
        .map(|path| touch(path, directory, false))
        .collect();
    let words = call.operands.iter().copied();
    let of = |words: Vec<&Word>, or_here: bool| -> Option<Vec<Touch>> {
        match words.is_empty() && or_here {
            true => Some(vec![here(depth)]),
            false => read_operands(words.into_iter(), directory, depth),
        }
    };
    touches.extend(match operands {
        Operands::Nothing => call.operands.is_empty().then(Vec::new)?,
        // `ps e` shows the variables of programs, and so does the column `environ`.
        Operands::Text
            if name == "ps"
                && (arguments.iter().any(|word| word.text.contains("environ"))
                    || !(words.clone()).all(|word| {
                        matches!(word.text.as_str(), "aux" | "ax" | "auxww" | "auxf")
                    })) =>
        {
            return None;
        }
        Operands::Text => {
            let globs: Vec<&Word> = words.filter(|word| word.glob).collect();
            of(globs, false)?
        }
        Operands::Files => of(words.collect(), false)?,
        Operands::Places => of(words.collect(), true)?,
        Operands::Pattern => {
            let pattern = usize::from(!call.pattern);
            if call.operands.len() < pattern
                || call.operands.iter().take(pattern).any(|word| word.glob)
            {
                return None;
            }
            of(words.skip(pattern).collect(), name == "rg" || call.deep)?
        }
        Operands::One => match call.operands.len() {
            0 => Vec::new(),
            // Not every program takes options behind it.
            1 if arguments.last() == call.operands.first().copied() && !call.operands[0].glob => {
                of(words.collect(), false)?
            }
            _ => return None,
        },
        Operands::Format => call
            .operands
            .iter()
            .all(|word| word.text.starts_with('+') && !word.glob)
            .then(Vec::new)?,
        Operands::Filter => {
            let filter = call.operands.first()?;
            let loads = ["import", "include", "modulemeta", "search_list"];
            if filter.glob || loads.iter().any(|load| filter.text.contains(load)) {
                return None;
            }
            of(words.skip(1).collect(), false)?
        }
    });
    Some(touches)
}

fn looked_at_by_find(arguments: &[Word], directory: Option<&Path>) -> Option<Vec<Touch>> {
    if !find_looks(arguments) {
        return None;
    }
    let starts = arguments
        .iter()
        .take_while(|word| !word.text.starts_with(['-', '(', '!']));
    let mut touches = read_operands(starts, directory, Depth::Names)?;
    if touches.is_empty() {
        touches.push(touch(".", directory, false));
    }
    Some(touches)
}

/// Whether `sed` prints lines and does nothing else: `sed -n '10,20p' FILE`.
fn prints_lines(arguments: &[Word]) -> bool {
    let mut others = arguments.iter().filter(|word| word.text != "-n");
    let script = others.next();
    let plain = script.is_some_and(|script| {
        let body = script.text.strip_suffix('p').unwrap_or("x");
        body.chars()
            .all(|character| character.is_ascii_digit() || matches!(character, ',' | '$'))
    });
    plain
        && arguments.iter().any(|word| word.text == "-n")
        && others.all(|word| !word.text.starts_with('-'))
}
