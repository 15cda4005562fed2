//! Words that a layer must not know.

use super::{Finding, Tree};

/// What the sources below a folder do not say, comments and strings included.
struct Layer {
    folder: &'static str,
    words: &'static [&'static str],
    /// Identifiers that contain such a word all the same, each for a reason of its own.
    except: &'static [&'static str],
}

const LAYERS: [Layer; 4] = [
    Layer {
        folder: "crates/kernel/",
        words: &[
            "session",
            "tool",
            "model",
            "prompt",
            "agent",
            "chat",
            "transcript",
            "lane",
            "harness",
            "composer",
            "rpc",
        ],
        except: &[],
    },
    Layer {
        folder: "crates/rpc/",
        words: &[
            "session",
            "prompt",
            "tool",
            "model",
            "agent",
            "chat",
            "transcript",
            "harness",
        ],
        // Two codes of the wire's fixed list.
        except: &[
            "unknown_session",
            "session_unavailable",
            "UnknownSession",
            "SessionUnavailable",
        ],
    },
    Layer {
        folder: "crates/sockets/",
        words: &[
            "session",
            "prompt",
            "tool",
            "model",
            "agent",
            "chat",
            "transcript",
        ],
        except: &[],
    },
    Layer {
        folder: "crates/harness/",
        words: &["plugin", "facet", "rpc", "tui"],
        except: &[],
    },
];

pub(super) fn words(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in tree.shipped() {
        let Some(layer) = LAYERS.iter().find(|layer| path.starts_with(layer.folder)) else {
            continue;
        };
        // A module's own sentence may say what the module does not know.
        let lines = source.text_lines();
        for (line, text) in lines.filter(|(_, text)| !text.starts_with("//!")) {
            for identifier in identifiers(text) {
                if layer.except.contains(&identifier) {
                    continue;
                }
                let known = |word: &String| {
                    let singular = word.strip_suffix('s').unwrap_or(word);
                    layer.words.contains(&word.as_str()) || layer.words.contains(&singular)
                };
                if split(identifier).iter().any(known) {
                    found.push(Finding::new(path, line, format!("`{identifier}`")));
                }
            }
        }
    }
    found
}

fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    line.split(|sign: char| !(sign.is_ascii_alphanumeric() || sign == '_'))
        .filter(|word| !word.is_empty())
}

/// The lower-case words of a snake_case, CamelCase or UPPER_CASE identifier.
fn split(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous_lower = false;
    for sign in identifier.chars() {
        if sign == '_' || (sign.is_ascii_uppercase() && previous_lower) {
            words.push(String::new());
        }
        previous_lower = sign.is_ascii_lowercase() || sign.is_ascii_digit();
        if let (Some(word), true) = (words.last_mut(), sign != '_') {
            word.push(sign.to_ascii_lowercase());
        }
    }
    words
}
