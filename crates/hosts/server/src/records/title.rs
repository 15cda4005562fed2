//! Titles, and names of agents: one line of text, short enough for a list.

use bezel_api_server::FleetError;

const LONGEST: usize = 200;
const MADE: usize = 80;
const LONGEST_AGENT: usize = 64;

/// A title that a person gave.
pub(crate) fn checked_title(title: &str) -> Result<String, FleetError> {
    let title = title.trim();
    let wrong = |reason: &str| Err(FleetError::Invalid(reason.into()));
    if title.is_empty() {
        return wrong("the title is empty; give at least one visible character");
    }
    if title.chars().any(char::is_control) {
        return wrong("the title holds line breaks or control characters; give one line of text");
    }
    if title.chars().count() > LONGEST {
        return wrong("the title is longer than 200 characters; shorten it");
    }
    Ok(title.to_owned())
}

/// The name of an agent. Which there are, a session's worker knows.
pub(crate) fn checked_agent(agent: &str) -> Result<String, FleetError> {
    let fits = agent.chars().count() <= LONGEST_AGENT;
    let odd = |character: char| character.is_control() || character.is_whitespace();
    if agent.is_empty() || !fits || agent.contains(odd) {
        return Err(FleetError::Invalid(format!(
            "`{}` names no agent: a name is one word of at most {LONGEST_AGENT} characters; leave it out for the configured agent",
            shortened(agent)
        )));
    }
    Ok(agent.to_owned())
}

/// A prompt's first line as a title of at most 80 characters.
pub(crate) fn shortened(text: &str) -> String {
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    let plain: String = line
        .chars()
        .filter(|character| !character.is_control())
        .collect();
    match plain.chars().nth(MADE) {
        None => plain,
        Some(_) => plain.chars().take(MADE - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_visible_line() {
        assert_eq!(
            checked_title("  Fix the parser ").unwrap(),
            "Fix the parser"
        );
        assert!(
            checked_title(" \t")
                .unwrap_err()
                .to_string()
                .contains("empty")
        );
        assert!(
            checked_title("a\nb")
                .unwrap_err()
                .to_string()
                .contains("one line")
        );
        assert!(checked_title(&"ä".repeat(200)).is_ok());
        assert!(checked_title(&"ä".repeat(201)).is_err());
    }

    #[test]
    fn an_agent_is_named_by_one_word() {
        assert_eq!(checked_agent("explore").unwrap(), "explore");
        for wrong in ["", "two words", "a\nb", &"a".repeat(65)] {
            let error = checked_agent(wrong).unwrap_err().to_string();
            assert!(error.contains("one word"), "{error}");
        }
    }

    #[test]
    fn a_prompt_gives_its_first_line_as_a_title() {
        assert_eq!(shortened("\n  Fix\tthe parser\nand more"), "Fixthe parser");
        assert_eq!(shortened(&"ä".repeat(80)), "ä".repeat(80));
        assert_eq!(shortened(&"ä".repeat(81)), format!("{}…", "ä".repeat(79)));
        assert_eq!(shortened(" \n"), "");
    }
}
