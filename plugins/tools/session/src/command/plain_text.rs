//! Terminal output as plain text: no colours, no cursor movements, no invalid bytes.

/// The text that a person would see: escape sequences and control characters go, a carriage return starts
/// its line anew, a backspace takes a character back, invalid UTF-8 becomes U+FFFD.
pub(crate) fn plain_text(output: &[u8]) -> String {
    let decoded = String::from_utf8_lossy(output);
    if is_plain(output) {
        return decoded.into_owned();
    }
    let mut text = String::with_capacity(decoded.len());
    let mut line_start = 0;
    let mut characters = decoded.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' => {
                text.push('\n');
                line_start = text.len();
            }
            '\r' => {
                while characters.next_if_eq(&'\r').is_some() {}
                if characters.peek().is_some_and(|next| *next != '\n') {
                    text.truncate(line_start);
                }
            }
            '\u{8}' => {
                if text.len() > line_start {
                    text.pop();
                }
            }
            '\u{1b}' => skip_escape(&mut characters),
            '\t' => text.push('\t'),
            control if control.is_control() => {}
            character => text.push(character),
        }
    }
    text
}

fn is_plain(output: &[u8]) -> bool {
    output
        .iter()
        .all(|byte| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\n' | b'\t'))
}

/// Skips one sequence of ECMA-48: CSI up to its final byte, strings up to their terminator, else one character.
fn skip_escape(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match characters.next() {
        Some('[') => {
            for character in characters.by_ref() {
                if ('@'..='~').contains(&character) {
                    return;
                }
            }
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(character) = characters.next() {
                match character {
                    '\u{7}' => return,
                    '\u{1b}' => {
                        characters.next_if_eq(&'\\');
                        return;
                    }
                    '\n' => return,
                    _ => {}
                }
            }
        }
        Some('(' | ')' | '*' | '+' | '#' | '%') => {
            characters.next();
        }
        _ => {}
    }
}

/// Length of the output without a character at its end that is not complete yet.
pub(crate) fn complete_length(output: &[u8]) -> usize {
    let last = output
        .iter()
        .rev()
        .take(4)
        .position(|byte| byte & 0b1100_0000 != 0b1000_0000);
    let Some(back) = last else {
        return output.len();
    };
    let start = output.len() - 1 - back;
    let length = match output[start] {
        0b1100_0000..=0b1101_1111 => 2,
        0b1110_0000..=0b1110_1111 => 3,
        0b1111_0000..=0b1111_0111 => 4,
        _ => 1,
    };
    if start + length > output.len() {
        start
    } else {
        output.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_titles_and_controls_are_taken_out() {
        assert_eq!(
            plain_text(
                b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b]8;;http://a\x1b\\link\x1b(B\0\x07!"
            ),
            "red xlink!"
        );
        assert_eq!(plain_text(b"cut off \x1b[3"), "cut off ");
        assert_eq!(
            plain_text("tab\tand ünïcode\n".as_bytes()),
            "tab\tand ünïcode\n"
        );
    }

    #[test]
    fn progress_bars_leave_their_last_state() {
        assert_eq!(plain_text(b"10%\r50%\r100%\ndone\r\n"), "100%\ndone\n");
        assert_eq!(plain_text(b"abc\x08\x08X"), "aX");
        assert_eq!(plain_text(b"end\r"), "end");
    }

    #[test]
    fn invalid_bytes_are_replaced() {
        assert_eq!(plain_text(b"a\xff\xfeb"), "a\u{fffd}\u{fffd}b");
    }

    #[test]
    fn an_incomplete_character_waits_for_its_rest() {
        let text = "aé漢🙂".as_bytes();
        for end in 0..=text.len() {
            let complete = complete_length(&text[..end]);
            assert!(
                std::str::from_utf8(&text[..complete]).is_ok() && end - complete < 4,
                "{end}"
            );
        }
        assert_eq!(complete_length(text), text.len());
        assert_eq!(complete_length(b"\x80\x80\x80\x80\x80"), 5);
    }
}
