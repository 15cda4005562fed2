//! Web addresses that stand in a text as they are.

use std::ops::Range;

/// Where the addresses with a scheme stand in `text`, in order. What ends the sentence around an address does
/// not belong to it; a closing bracket does when the address opened it.
pub(super) fn addresses(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + text.get(from..)?.find("http")?;
            let rest = &text[start..];
            from = start + "http".len();
            let Some(scheme) = ["https://", "http://"]
                .into_iter()
                .find(|scheme| rest.starts_with(scheme))
            else {
                continue;
            };
            if text[..start].ends_with(|before: char| before.is_alphanumeric()) {
                continue;
            }
            let end = rest.find(ends).unwrap_or(rest.len());
            let length = trimmed(&rest[..end]);
            if length > scheme.len() {
                from = start + length;
                return Some(start..from);
            }
        }
    })
}

fn ends(letter: char) -> bool {
    letter.is_whitespace()
        || letter.is_control()
        || matches!(letter, '<' | '>' | '"' | '`' | '|')
        // The marks that end a sentence or a quotation in Chinese and Japanese.
        || matches!(letter, '\u{3000}'..='\u{303f}' | '\u{ff00}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}')
}

fn trimmed(address: &str) -> usize {
    let mut length = address.len();
    while let Some(last) = address[..length].chars().next_back() {
        let count = |letter: char| address[..length].matches(letter).count();
        let outside = match last {
            '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '_' | '~' => true,
            ')' => count(')') > count('('),
            ']' => count(']') > count('['),
            '}' => count('}') > count('{'),
            _ => false,
        };
        if !outside {
            break;
        }
        length -= last.len_utf8();
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        addresses(text).map(|place| &text[place]).collect()
    }

    #[test]
    fn an_address_ends_where_its_sentence_goes_on() {
        assert_eq!(
            found("See https://a.org/b_c?d=1#e, or (http://f.io/g_(h))."),
            ["https://a.org/b_c?d=1#e", "http://f.io/g_(h)"]
        );
        assert_eq!(
            found("見る：https://例え.jp/道。次"),
            ["https://例え.jp/道"]
        );
        assert_eq!(found("https://a.org"), ["https://a.org"]);
    }

    #[test]
    fn an_address_in_markdown_is_a_link_that_names_itself() {
        use crate::markdown::{lay_out, parse};
        use crate::text::Role;

        let lines = lay_out(
            &parse("At https://a.org/b_c_d, **not** `https://code`."),
            80,
        );
        assert_eq!(
            lines[0].to_text(),
            "At https://a.org/b_c_d, not https://code."
        );
        let links = lines[0]
            .spans
            .iter()
            .filter(|span| span.style.role == Role::Link);
        let links: Vec<_> = links
            .map(|span| (span.text.as_ref(), span.link.as_deref()))
            .collect();
        assert_eq!(
            links,
            [("https://a.org/b_c_d", Some("https://a.org/b_c_d"))]
        );
    }

    #[test]
    fn what_only_looks_like_an_address_is_text() {
        for text in [
            "https://",
            "http",
            "xhttps://a.org",
            "https:// a",
            "http:/a",
            "https://.",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
    }
}
