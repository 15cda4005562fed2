//! Text that others wrote, shown in a terminal: what would steer it is left out.

/// Whether a character acts on a terminal or turns the order of what stands around it, instead of being seen.
/// Newlines and tabs are not meant.
pub(crate) fn is_steering(character: char) -> bool {
    let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (character.is_control() && !matches!(character, '\n' | '\t'))
}

/// One line of it: whatever steers, and newlines, are blanks.
pub fn plain_line(text: &str) -> String {
    let blank = |character| is_steering(character) || matches!(character, '\n' | '\t');
    text.chars()
        .map(|character| if blank(character) { ' ' } else { character })
        .collect()
}

/// Text with its lines and tabs; what steers is left out.
pub fn plain_text(text: &str) -> String {
    text.chars()
        .filter(|character| !is_steering(*character))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_not_passed_on() {
        let written = "a\u{1b}]0;T\u{7}\u{9b}2J\r\u{202e}cod\u{2066}e\n\tb ö 漢";
        assert_eq!(plain_text(written), "a]0;T2Jcode\n\tb ö 漢");
        assert_eq!(plain_line(written), "a ]0;T  2J  cod e  b ö 漢");
    }
}
