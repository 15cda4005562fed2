//! `grep`, `glob` and `ls`: what was looked for, and how much was found.

use bezel_api_tui::{ToolCard, ToolRenderContext, ToolRenderer};
use bezel_presentation::text::{Role, sanitize};
use bezel_presentation::{StyledLine, StyledSpan, format};
use bezel_tools_contract::{GrepMode, ToolDetails};

use crate::arguments;
use crate::paths::Paths;
use crate::read::{details, text_body};

/// Draws calls that search.
pub(crate) struct SearchRenderer {
    verb: &'static str,
    paths: Paths,
}

impl SearchRenderer {
    pub(crate) fn new(verb: &'static str, paths: Paths) -> Self {
        SearchRenderer { verb, paths }
    }
}

impl ToolRenderer for SearchRenderer {
    fn title(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> StyledLine {
        let (pattern, path, found) = match details(card) {
            Some(ToolDetails::Grep(details)) => {
                let files = count(details.files, "file", "files");
                let found = match (details.matches, details.mode) {
                    (0, _) => "no matches".to_owned(),
                    (_, GrepMode::Files) => bound(&files, details.truncated),
                    (matches, _) => format!(
                        "{} in {files}",
                        bound(&count(matches, "match", "matches"), details.truncated)
                    ),
                };
                (Some(details.pattern), Some(details.path), Some(found))
            }
            Some(ToolDetails::Glob(details)) => {
                let found = match details.files {
                    0 => "no files".to_owned(),
                    files => bound(&count(files, "file", "files"), details.truncated),
                };
                (Some(details.pattern), Some(details.path), Some(found))
            }
            Some(ToolDetails::Ls(details)) => {
                let files = count(details.files, "file", "files");
                let found = match details.directories {
                    0 => bound(&files, details.truncated),
                    directories => format!(
                        "{}, {}",
                        count(directories, "folder", "folders"),
                        bound(&files, details.truncated)
                    ),
                };
                (None, Some(details.path), Some(found))
            }
            _ => {
                let owned = |name| arguments::text(card, name).map(|text| text.into_owned());
                (owned("pattern"), owned("path"), None)
            }
        };
        let mut line = StyledLine::new(format!("{} ", self.verb), Role::ToolName);
        let path = path.map(|path| self.paths.fitted(&path, usize::from(cx.width) / 2));
        match (pattern, path) {
            (Some(pattern), path) => {
                line.push(StyledSpan::new(
                    sanitize(&pattern, 4).replace('\n', "⏎"),
                    Role::String,
                ));
                if let Some(path) = path.filter(|path| path != ".") {
                    line.push(StyledSpan::new(format!(" in {path}"), Role::Muted));
                }
            }
            (None, path) => line.push(StyledSpan::new(
                path.unwrap_or_else(|| ".".into()),
                Role::Text,
            )),
        }
        if let Some(found) = found {
            line.push(StyledSpan::new(format!("  {found}"), Role::Faint));
        }
        line
    }

    fn body(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> Vec<StyledLine> {
        text_body(card, cx)
    }
}

fn count(number: u64, singular: &str, plural: &str) -> String {
    format::count(
        usize::try_from(number).unwrap_or(usize::MAX),
        singular,
        plural,
    )
}

/// A count that may be a lower bound.
fn bound(count: &str, truncated: bool) -> String {
    if truncated {
        format!("at least {count}")
    } else {
        count.to_owned()
    }
}
