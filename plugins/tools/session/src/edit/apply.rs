//! Exact replacement in a text, line endings apart.

use std::borrow::Cow;

use memchr::memmem;

use crate::text::{Ending, line_at, to_lf};

/// One replacement, as the model asks for it.
#[derive(Debug, Clone)]
pub(crate) struct Edit {
    pub(crate) old: String,
    pub(crate) new: String,
    pub(crate) replace_all: bool,
}

/// Why an edit does not apply. Lines are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// There is nothing to look for.
    Empty,
    /// Old and new text are the same.
    Same,
    /// The old text is nowhere.
    NotFound,
    /// The old text is in several places.
    Ambiguous { lines: Vec<u64> },
}

/// Where replacements went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) text: Vec<u8>,
    pub(crate) replacements: usize,
}

/// Applies one edit. LF in the edit stands for whatever line ending the file has at that place; everything
/// outside the replaced text stays byte for byte.
pub(crate) fn apply(text: &[u8], edit: &Edit) -> Result<Applied, Problem> {
    let old = to_lf(edit.old.as_bytes());
    let new = to_lf(edit.new.as_bytes());
    if old.is_empty() {
        return Err(Problem::Empty);
    }
    if old == new {
        return Err(Problem::Same);
    }
    let view = LfView::of(text);
    let mut places: Vec<usize> = memmem::find_iter(&view.text, &*old).collect();
    let mut found = (&*old, &*new);
    if places.is_empty()
        && let Some((shorter_old, shorter_new, at)) = at_unterminated_end(&view.text, &old, &new)
    {
        places.push(at);
        found = (shorter_old, shorter_new);
    }
    let (old, new) = found;
    match places.as_slice() {
        [] => return Err(Problem::NotFound),
        [_, _, ..] if !edit.replace_all => {
            let lines = places.iter().map(|at| line_at(&view.text, *at)).collect();
            return Err(Problem::Ambiguous { lines });
        }
        _ => {}
    }
    let dominant = Ending::of(text);
    let mut result = Vec::with_capacity(text.len() + places.len() * new.len());
    let mut done = 0;
    for at in &places {
        let start = view.original(*at);
        let end = view.original(at + old.len());
        result.extend_from_slice(&text[done..start]);
        with_endings(&mut result, new, &text[start..end], dominant);
        done = end;
    }
    result.extend_from_slice(&text[done..]);
    Ok(Applied {
        text: result,
        replacements: places.len(),
    })
}

/// A model ends its old text with a newline although the file's last line has none: the match is meant, and
/// the file stays without a final newline.
fn at_unterminated_end<'a>(
    text: &[u8],
    old: &'a [u8],
    new: &'a [u8],
) -> Option<(&'a [u8], &'a [u8], usize)> {
    let old = old
        .strip_suffix(b"\n")
        .filter(|old| !old.is_empty() && text.ends_with(old))?;
    let at = text.len() - old.len();
    let whole_lines = at == 0 || text[at - 1] == b'\n';
    whole_lines.then(|| (old, new.strip_suffix(b"\n").unwrap_or(new), at))
}

/// Appends `new` with the line endings of the text that it replaces: line by line where both have as many,
/// else the first one's, else the file's.
fn with_endings(result: &mut Vec<u8>, new: &[u8], replaced: &[u8], dominant: Option<Ending>) {
    let before: Vec<Ending> = memchr::memchr_iter(b'\n', replaced)
        .map(|at| {
            if at > 0 && replaced[at - 1] == b'\r' {
                Ending::CrLf
            } else {
                Ending::Lf
            }
        })
        .collect();
    let newlines = memchr::memchr_iter(b'\n', new).count();
    let usual = before.first().copied().or(dominant).unwrap_or(Ending::Lf);
    for (index, line) in new.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let ending = if before.len() == newlines {
            before.get(index).copied().unwrap_or(usual)
        } else {
            usual
        };
        match line.strip_suffix(b"\n") {
            Some(line) => {
                result.extend_from_slice(line);
                result.extend_from_slice(ending.bytes());
            }
            None => result.extend_from_slice(line),
        }
    }
}

/// A text with LF only, and the way back to the original.
struct LfView<'a> {
    text: Cow<'a, [u8]>,
    /// Offsets in `text` of the newlines that are CRLF in the original, ascending.
    carriage_returns: Vec<usize>,
}

impl<'a> LfView<'a> {
    fn of(original: &'a [u8]) -> Self {
        let text = to_lf(original);
        let mut carriage_returns = Vec::new();
        if let Cow::Owned(_) = &text {
            for at in memchr::memchr_iter(b'\n', original) {
                if at > 0 && original[at - 1] == b'\r' {
                    carriage_returns.push(at - 1 - carriage_returns.len());
                }
            }
        }
        LfView {
            text,
            carriage_returns,
        }
    }

    /// The offset in the original. A newline's offset is that of its CR.
    fn original(&self, offset: usize) -> usize {
        offset
            + self
                .carriage_returns
                .partition_point(|newline| *newline < offset)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(old: &str, new: &str) -> Edit {
        Edit {
            old: old.into(),
            new: new.into(),
            replace_all: false,
        }
    }

    fn applied(text: &str, edit: &Edit) -> Result<String, Problem> {
        apply(text.as_bytes(), edit).map(|applied| String::from_utf8(applied.text).expect("text"))
    }

    proptest! {
        #[test]
        fn replacing_all_equals_a_reference_replace(text in "[ab\n]{0,30}", old in "[ab\n]{1,3}", new in "[abc\n]{0,4}") {
            prop_assume!(old != new && text.contains(&old));
            let edit = Edit { old: old.clone(), new: new.clone(), replace_all: true };
            prop_assert_eq!(applied(&text, &edit), Ok(text.replace(&old, &new)));
        }

        #[test]
        fn a_unique_text_is_replaced_and_another_is_refused(text in "[ab\n]{0,30}", old in "[ab\n]{1,3}", new in "[abc\n]{0,4}") {
            prop_assume!(old != new);
            let result = applied(&text, &edit(&old, &new));
            match text.matches(&old).count() {
                // Only the lenient match at an unterminated end may succeed here.
                0 => prop_assert!(result == Err(Problem::NotFound) || (text.clone() + "\n").ends_with(&old)),
                1 => prop_assert_eq!(result, Ok(text.replacen(&old, &new, 1))),
                many => {
                    let Err(Problem::Ambiguous { lines }) = result else { panic!("{result:?}") };
                    prop_assert_eq!(lines.len(), many);
                }
            }
        }

        #[test]
        fn a_crlf_file_behaves_like_its_lf_twin(text in "[ab\n]{0,30}", old in "[ab\n]{1,3}", new in "[abc\n]{0,4}") {
            prop_assume!(old != new && text.contains('\n') && text.contains(&old));
            let edit = Edit { old, new, replace_all: true };
            let plain = applied(&text, &edit).expect("it is there");
            let windows = applied(&text.replace('\n', "\r\n"), &edit).expect("it is there");
            prop_assert_eq!(windows, plain.replace('\n', "\r\n"));
        }

        #[test]
        fn bytes_outside_the_replaced_text_stay(before in "[ab\r\n]{0,20}", after in "[ab\r\n]{0,20}") {
            prop_assume!(!before.ends_with('\r'));
            let text = format!("{before}<x>{after}");
            prop_assert_eq!(applied(&text, &edit("<x>", "<y>")), Ok(format!("{before}<y>{after}")));
        }
    }

    #[test]
    fn mixed_endings_are_kept_line_by_line() {
        let result = applied("a\r\nb\nc\r\n", &edit("a\nb\nc\n", "x\ny\nz\n"));
        assert_eq!(result.as_deref(), Ok("x\r\ny\nz\r\n"));
        let longer = applied("a\r\nb\r\n", &edit("b", "b\nc"));
        assert_eq!(longer.as_deref(), Ok("a\r\nb\r\nc\r\n"));
    }

    #[test]
    fn a_missing_final_newline_stays_missing() {
        assert_eq!(
            applied("a\nb", &edit("b\n", "c\nd\n")).as_deref(),
            Ok("a\nc\nd")
        );
        assert_eq!(applied("ab", &edit("b\n", "c\n")), Err(Problem::NotFound));
    }

    #[test]
    fn invalid_utf8_is_kept() {
        let applied = apply(b"\xff\xfea one \xff", &edit("one", "two")).expect("applies");
        assert_eq!(applied.text, b"\xff\xfea two \xff");
    }

    #[test]
    fn nothing_to_do_is_refused() {
        assert_eq!(applied("a", &edit("", "b")), Err(Problem::Empty));
        assert_eq!(applied("a", &edit("a", "a")), Err(Problem::Same));
        assert_eq!(applied("a\r\n", &edit("a\r\n", "a\n")), Err(Problem::Same));
    }
}
