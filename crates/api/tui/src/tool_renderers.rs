//! Tool renderers: how a call of a tool looks in the transcript.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bezel_plugin::{
    Contributions, Draft, DraftError, FacetScope, Names, PluginId, Problem, Registry,
};
use bezel_presentation::highlight::Highlighter;
use bezel_presentation::text::{Role, sanitize};
use bezel_presentation::{StyledLine, StyledSpan};
use serde_json::Value;

/// How far a call is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolStatus {
    /// The model is still writing the arguments.
    Preparing,
    /// It waits: for an answer of the person, or for its turn.
    #[default]
    Waiting,
    /// It runs.
    Running,
    /// It went well.
    Succeeded,
    /// It failed.
    Failed,
    /// It was interrupted.
    Interrupted,
}

/// What a call came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToolOutcome<'a> {
    /// What the model reads.
    pub text: &'a str,
    /// What the tool left for its renderer; `null` when nothing.
    pub details: &'a Value,
    /// Whether the call failed.
    pub is_error: bool,
}

/// A call, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub struct ToolCard<'a> {
    /// The tool's name.
    pub name: &'a str,
    /// The arguments so far. A string where they are not valid JSON (yet).
    pub arguments: &'a Value,
    /// How far it is.
    pub status: ToolStatus,
    /// Output so far, while it runs.
    pub output: &'a str,
    /// What it reports of itself while it runs, for renderers; `null` when nothing.
    pub progress: &'a Value,
    /// What it came to, once it has ended.
    pub outcome: Option<ToolOutcome<'a>>,
    /// How long it has run, or ran.
    pub elapsed: Option<Duration>,
}

/// For whom a card is drawn.
#[derive(Clone, Copy)]
pub struct ToolRenderContext<'a> {
    /// Columns for the lines.
    pub width: u16,
    /// Whether the person opened the card; closed ones show the gist in a few lines.
    pub expanded: bool,
    /// Where syntax highlighting comes from.
    pub highlighter: &'a Highlighter,
}

/// Draws the calls of one tool. Called again whenever the call or the width changed; must not wait.
pub trait ToolRenderer: Send + Sync + 'static {
    /// The card's title line: what is done to what. The status mark and the time are added by the transcript.
    fn title(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> StyledLine;

    /// The lines below the title; none at all is fine.
    fn body(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> Vec<StyledLine>;

    /// How long it took, where its tool measured that; otherwise it is the time between the call and its
    /// result in the conversation, and of calls side by side that is the time of the slowest.
    fn took(&self, _card: &ToolCard<'_>) -> Option<Duration> {
        None
    }

    /// Whether a call that went well as a call came to a failure that the mark shows: a command that ended
    /// with an error did what it was asked to do, and still failed.
    fn came_to_failure(&self, _card: &ToolCard<'_>) -> bool {
        false
    }
}

/// The renderers under construction.
pub struct ToolRendererDraft(Names<Arc<dyn ToolRenderer>>);

impl ToolRendererDraft {
    /// Sets the renderer of a tool; refused where another plugin has one.
    pub fn set(&mut self, tool: &str, renderer: Arc<dyn ToolRenderer>) {
        self.0.set(tool, renderer);
    }

    /// Sets the renderer of a tool on purpose, whoever has set it before.
    pub fn replace(&mut self, tool: &str, renderer: Arc<dyn ToolRenderer>) {
        self.0.replace(tool, renderer);
    }

    /// The renderer of a tool so far; to wrap it.
    pub fn get(&self, tool: &str) -> Option<Arc<dyn ToolRenderer>> {
        self.0.get(tool).map(|named| Arc::clone(&named.value))
    }
}

/// Renderers by tool name.
pub type ToolRendererSet = HashMap<String, Arc<dyn ToolRenderer>>;

impl Draft for ToolRendererDraft {
    type Output = ToolRendererSet;

    fn new() -> Self {
        ToolRendererDraft(Names::new("tool renderer"))
    }

    fn begin(&mut self, plugin: &PluginId, registration: u64) {
        self.0.begin(plugin, registration);
    }

    fn finish(self, problems: &mut Vec<Problem>) -> Result<Self::Output, DraftError> {
        Ok(self
            .0
            .finish(problems)
            .map(|(name, named)| (name, named.value))
            .collect())
    }
}

/// A facet's tool renderers, and everybody's to use.
#[derive(Clone)]
pub struct ToolRenderers {
    contributions: Contributions<ToolRendererDraft>,
    registry: Registry<ToolRendererDraft>,
}

impl ToolRenderers {
    pub(crate) fn new(registry: &Registry<ToolRendererDraft>, scope: &FacetScope) -> Self {
        ToolRenderers {
            contributions: registry.contributions(scope),
            registry: registry.clone(),
        }
    }

    /// Adds the renderer of a tool.
    pub fn add(&self, tool: &'static str, renderer: impl ToolRenderer) {
        let renderer: Arc<dyn ToolRenderer> = Arc::new(renderer);
        self.contributions
            .add(move |draft| draft.set(tool, Arc::clone(&renderer)));
    }

    /// Contributes to the draft of all renderers: to replace or wrap those of earlier plugins.
    pub fn contribute(&self, contribute: impl Fn(&mut ToolRendererDraft) + Send + Sync + 'static) {
        self.contributions.add(contribute);
    }

    /// The renderer of a tool; [`GenericToolRenderer`] where no plugin has one.
    pub fn get(&self, tool: &str) -> Arc<dyn ToolRenderer> {
        let known = self.registry.current().get(tool).cloned();
        known.unwrap_or_else(|| Arc::new(GenericToolRenderer))
    }
}

/// Lines of output that a closed card shows.
const CLOSED_LINES: usize = 4;

/// Lines of output that an open card shows; the whole is in the session.
const OPEN_LINES: usize = 200;

/// Shows any tool: its name and arguments, and the end of its output.
#[derive(Debug, Clone, Copy, Default)]
pub struct GenericToolRenderer;

impl ToolRenderer for GenericToolRenderer {
    fn title(&self, card: &ToolCard<'_>, _cx: &ToolRenderContext<'_>) -> StyledLine {
        let mut line = StyledLine::new(card.name.to_owned(), Role::ToolName);
        line.push(StyledSpan::new(
            format!(" {}", arguments_in_short(card.arguments)),
            Role::Muted,
        ));
        line
    }

    fn body(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> Vec<StyledLine> {
        let (text, role) = match card.outcome {
            Some(outcome) if outcome.is_error => (outcome.text, Role::Error),
            Some(outcome) => (outcome.text, Role::Muted),
            None => (card.output, Role::Muted),
        };
        let text = sanitize(text.trim_end(), 4);
        let lines: Vec<&str> = text.lines().collect();
        let limit = if cx.expanded {
            OPEN_LINES
        } else {
            CLOSED_LINES
        };
        let hidden = lines.len().saturating_sub(limit);
        let mut shown = Vec::new();
        if hidden > 0 {
            shown.push(StyledLine::new(
                format!("… {hidden} more lines"),
                Role::Faint,
            ));
        }
        let width = usize::from(cx.width);
        for line in &lines[hidden..] {
            shown.extend(bezel_presentation::wrap::wrap_hard(
                &StyledLine::new((*line).to_owned(), role),
                width,
            ));
        }
        shown
    }
}

fn arguments_in_short(arguments: &Value) -> String {
    let short = |value: &Value| match value {
        Value::String(text) => one_line(text, 60),
        other => one_line(&other.to_string(), 60),
    };
    match arguments {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| format!("{name}={}", short(value)))
            .collect::<Vec<_>>()
            .join(" "),
        Value::Null => String::new(),
        other => short(other),
    }
}

fn one_line(text: &str, limit: usize) -> String {
    let clean = sanitize(text, 1).replace('\n', " ");
    match clean.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &clean[..end]),
        None => clean,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn card<'a>(
        arguments: &'a Value,
        output: &'a str,
        outcome: Option<ToolOutcome<'a>>,
    ) -> ToolCard<'a> {
        let status = if outcome.is_some() {
            ToolStatus::Succeeded
        } else {
            ToolStatus::Running
        };
        ToolCard {
            name: "deploy",
            arguments,
            status,
            output,
            progress: &Value::Null,
            outcome,
            elapsed: None,
        }
    }

    fn rows(card: &ToolCard<'_>, expanded: bool) -> Vec<String> {
        let highlighter = Highlighter::plain();
        let cx = ToolRenderContext {
            width: 20,
            expanded,
            highlighter: &highlighter,
        };
        let title = GenericToolRenderer.title(card, &cx);
        [title]
            .iter()
            .chain(&GenericToolRenderer.body(card, &cx))
            .map(StyledLine::to_text)
            .collect()
    }

    #[test]
    fn any_tool_shows_its_arguments_and_the_end_of_its_output() {
        let arguments = json!({ "dry": true, "target": "a\nb" });
        let output = "1\n2\n3\n\u{1b}[31m4\u{1b}[0m is a long line of output\n5\n6\n";
        let closed = rows(&card(&arguments, output, None), false);
        let expected = [
            "deploy dry=true target=a b",
            "… 2 more lines",
            "3",
            "4 is a long line of ",
            "output",
            "5",
            "6",
        ];
        assert_eq!(closed, expected);
        assert_eq!(rows(&card(&arguments, output, None), true)[1], "1");
    }

    #[test]
    fn a_failure_shows_what_the_model_reads() {
        let outcome = ToolOutcome {
            text: "no such target",
            details: &Value::Null,
            is_error: true,
        };
        let shown = rows(&card(&Value::Null, "partial", Some(outcome)), false);
        assert_eq!(shown, ["deploy ", "no such target"]);
    }
}
