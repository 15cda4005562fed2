//! Says where a text that was not found nearly is, so that the next attempt succeeds.

use crate::bound::cut_line;

/// Lines compared at most.
const MOST_LINES: usize = 50_000;
/// Lines compared closely, after a rough choice.
const CLOSE: usize = 40;
/// Bytes of a line that count.
const LINE_BYTES: usize = 300;
/// Below this likeness nothing is worth showing.
const ALIKE: f64 = 0.6;
/// Lines of the file shown.
const MOST_SHOWN: usize = 12;

/// The nearest text to `old` in `text` and how it differs, as sentences for a model; empty when nothing is
/// near. `asked_by` names where `old` comes from.
pub(crate) fn explain(text: &str, old: &str, asked_by: &str) -> String {
    let file: Vec<&str> = text.lines().take(MOST_LINES).collect();
    let wanted: Vec<&str> = old.lines().collect();
    if let Some(bare) = without_line_numbers(&wanted) {
        let found = if text.contains(&bare) {
            ", and without them it does match"
        } else {
            ""
        };
        return format!(
            " It starts its lines with the line numbers that read shows{found}: leave them out."
        );
    }
    let blank = |line: &&str| line.trim().is_empty();
    let skipped = wanted.iter().take_while(|line| blank(line)).count();
    let wanted: Vec<&str> = {
        let end = wanted.len() - wanted.iter().rev().take_while(|line| blank(line)).count();
        wanted.get(skipped..end).unwrap_or_default().to_vec()
    };
    if wanted.is_empty() || file.is_empty() {
        return String::new();
    }
    if let Some(at) = same_but_for(&file, &wanted, |line| line.split_whitespace().collect()) {
        return nearest(
            &file,
            &wanted,
            at,
            asked_by,
            "The same text with other whitespace is",
        );
    }
    if let Some(at) = same_but_for(&file, &wanted, plain_punctuation) {
        return nearest(
            &file,
            &wanted,
            at,
            asked_by,
            "The same text with other quotation marks, dashes or spaces is",
        );
    }
    match most_alike(&file, &wanted) {
        Some(at) => nearest(&file, &wanted, at, asked_by, "The most similar text is"),
        None => String::new(),
    }
}

/// The text without `cat -n` numbers, when every line has one.
fn without_line_numbers(lines: &[&str]) -> Option<String> {
    let bare = lines.iter().map(|line| {
        let (number, rest) = line.split_once('\t')?;
        let number = number.trim_start();
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(rest)
    });
    let bare: Option<Vec<&str>> = bare.collect();
    bare.filter(|lines| !lines.is_empty())
        .map(|lines| lines.join("\n"))
}

fn same_but_for(file: &[&str], wanted: &[&str], plain: impl Fn(&str) -> String) -> Option<usize> {
    let wanted: Vec<String> = wanted.iter().map(|line| plain(line)).collect();
    let file: Vec<String> = file.iter().map(|line| plain(line)).collect();
    file.windows(wanted.len())
        .position(|window| window == wanted)
}

/// Typographic characters as their plain forms, whitespace folded.
pub(crate) fn plain_punctuation(line: &str) -> String {
    let plain = line.chars().map(|character| match character {
        '‘' | '’' | '‚' | '‛' => '\'',
        '“' | '”' | '„' | '‟' => '"',
        '‐' | '‑' | '‒' | '–' | '—' | '―' | '−' => '-',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    });
    let plain: String = plain.collect();
    plain.trim().to_owned()
}

/// Index of the first line of the window that is most like `wanted`.
fn most_alike(file: &[&str], wanted: &[&str]) -> Option<usize> {
    let (anchor_index, anchor) = wanted
        .iter()
        .enumerate()
        .max_by_key(|(_, line)| line.trim().len())?;
    let anchor_letters = letters(anchor);
    let mut rough: Vec<(usize, usize)> = file
        .iter()
        .enumerate()
        .map(|(index, line)| (difference(&anchor_letters, &letters(line)), index))
        .collect();
    rough.sort_unstable();
    let score = |line: usize| {
        let start = line.saturating_sub(anchor_index);
        let pairs = wanted.iter().zip(&file[start..]);
        let total: f64 = pairs
            .map(|(left, right)| strsim::normalized_levenshtein(short(left), short(right)))
            .sum();
        (total / wanted.len() as f64, start)
    };
    let close = rough.into_iter().take(CLOSE).map(|(_, line)| score(line));
    let best = close.max_by(|left, right| left.0.total_cmp(&right.0).then(right.1.cmp(&left.1)))?;
    (best.0 >= ALIKE).then_some(best.1)
}

fn short(line: &str) -> &str {
    let line = line.trim();
    let end = line
        .char_indices()
        .map(|(at, _)| at)
        .find(|at| *at >= LINE_BYTES);
    &line[..end.unwrap_or(line.len())]
}

fn letters(line: &str) -> [u16; 128] {
    let mut counts = [0; 128];
    for byte in short(line).bytes() {
        counts[usize::from(byte & 127)] += 1;
    }
    counts
}

fn difference(left: &[u16; 128], right: &[u16; 128]) -> usize {
    left.iter()
        .zip(right)
        .map(|(left, right)| usize::from(left.abs_diff(*right)))
        .sum()
}

fn nearest(file: &[&str], wanted: &[&str], at: usize, asked_by: &str, lead: &str) -> String {
    let end = (at + wanted.len()).min(file.len());
    let place = if end - at == 1 {
        format!("line {}", at + 1)
    } else {
        format!("lines {}–{end}", at + 1)
    };
    let mut text = format!(" {lead} at {place}:\n");
    for (index, line) in file[at..end].iter().enumerate().take(MOST_SHOWN) {
        text += &format!("{:>6}\t{}\n", at + index + 1, cut_line(line, LINE_BYTES));
    }
    if end - at > MOST_SHOWN {
        text += &format!("        (and {} more lines)\n", end - at - MOST_SHOWN);
    }
    let pairs = wanted.iter().zip(&file[at..end]).enumerate();
    if let Some((index, (wanted, found))) = pairs
        .into_iter()
        .find(|(_, (wanted, found))| wanted != found)
    {
        let visible = |line: &str| format!("{:?}", cut_line(line, LINE_BYTES));
        text += &format!(
            "Line {} of the file is {}, but {asked_by} has {}.",
            at + index + 1,
            visible(found),
            visible(wanted)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "fn main() {\n\tlet total = sum(1, 2);\n\tprintln!(\"{total}\");\n}\n\nfn other() {}\n";

    #[test]
    fn whitespace_differences_are_shown_as_such() {
        let text = explain(
            FILE,
            "    let total = sum(1, 2);\n    println!(\"{total}\");\n",
            "old_text",
        );
        assert!(
            text.starts_with(
                " The same text with other whitespace is at lines 2–3:\n     2\t\tlet total"
            ),
            "{text}"
        );
        assert!(text.contains(r#"Line 2 of the file is "\tlet total = sum(1, 2);", but old_text has "    let total"#), "{text}");
    }

    #[test]
    fn line_numbers_in_the_old_text_are_recognised() {
        let text = explain(
            FILE,
            "     4\t}\n     5\t\n     6\tfn other() {}",
            "old_text",
        );
        assert!(
            text.contains("line numbers that read shows, and without them it does match"),
            "{text}"
        );
    }

    #[test]
    fn typographic_quotes_are_recognised() {
        let text = explain("say “hello” — now\n", "say \"hello\" - now", "old_text");
        assert!(
            text.contains("other quotation marks, dashes or spaces is at line 1"),
            "{text}"
        );
    }

    #[test]
    fn a_similar_text_is_shown_with_its_first_difference() {
        let text = explain(
            FILE,
            "\tlet total = sum(1, 3);\n\tprintln!(\"{total}\");",
            "old_text",
        );
        assert!(
            text.contains("The most similar text is at lines 2–3"),
            "{text}"
        );
        assert!(
            text.contains("but old_text has \"\\tlet total = sum(1, 3);\""),
            "{text}"
        );
    }

    #[test]
    fn nothing_is_shown_when_nothing_is_near() {
        assert_eq!(
            explain(FILE, "SELECT * FROM accounts WHERE id = 7", "old_text"),
            "",
            "old_text"
        );
        assert_eq!(explain("", "anything", "old_text"), "");
        assert_eq!(explain(FILE, "\n\n\n", "old_text"), "");
    }
}
