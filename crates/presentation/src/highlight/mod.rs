//! Syntax highlighting that nobody waits for.
//!
//! Common languages are read at once by small lexers. For the others a background thread loads grammars
//! when such code is first shown, and drops them when it has had nothing to do for a while; until a line is
//! highlighted it is shown plain.

mod lexer;
mod scopes;
mod worker;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::StyledLine;
use lexer::Lexer;
use worker::{Job, Worker};

/// Longer code is shown plain.
const LIMIT: usize = 512 * 1024;

/// Highlights code in the background. Cheap to clone; all clones share one thread.
#[derive(Clone)]
pub struct Highlighter(Option<Arc<Worker>>);

impl Highlighter {
    /// A highlighter that calls `progress`, from its own thread, whenever more lines are ready.
    pub fn new(progress: impl Fn() + Send + Sync + 'static) -> Self {
        Highlighter(Some(Arc::new(Worker::new(Box::new(progress)))))
    }

    /// One that leaves everything plain and loads nothing.
    pub fn plain() -> Self {
        Highlighter(None)
    }

    /// Grows whenever more lines are ready, of whatever code; for those who keep what they laid out.
    pub fn progress(&self) -> u64 {
        self.0.as_ref().map_or(0, |worker| worker.finished())
    }

    /// Begins a piece of code. `language` is a name, an extension or a file name; unknown ones stay plain.
    pub fn open(&self, language: &str) -> CodeHighlight {
        let source = match &self.0 {
            Some(_) if is_plain(language) => Source::Plain,
            Some(worker) => match Lexer::of(language) {
                Some(lexer) => Source::Lexer(Box::new(lexer), Vec::new()),
                None => Source::Worker(Arc::clone(worker), Arc::default()),
            },
            None => Source::Plain,
        };
        CodeHighlight {
            highlighter: self.clone(),
            language: language.into(),
            source,
            sent: 0,
            sent_lines: 0,
        }
    }
}

impl Default for Highlighter {
    fn default() -> Self {
        Highlighter::plain()
    }
}

impl fmt::Debug for Highlighter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Highlighter")
            .field("plain", &self.0.is_none())
            .finish()
    }
}

fn is_plain(language: &str) -> bool {
    matches!(
        language.trim(),
        "" | "text" | "txt" | "plain" | "plaintext" | "output" | "console"
    )
}

/// Highlights code at once, waiting for it; for tests and for presentations without a screen to keep alive.
pub fn highlight_now(language: &str, code: &str) -> Vec<StyledLine> {
    if is_plain(language) {
        return worker::plain(code);
    }
    if let Some(mut lexer) = Lexer::of(language) {
        return lexer.read(code);
    }
    let mut highlight = worker::Parser::default();
    let syntaxes = worker::Syntaxes::load();
    highlight.parse(&syntaxes, language, code)
}

/// The name in `rust,ignore`, `{.python}` or `ts title="x"`, or the last part of a path.
fn language_name(language: &str) -> Option<&str> {
    let separator = |letter: char| letter.is_whitespace() || matches!(letter, ',' | '{' | '}');
    let token = language.split(separator).find(|word| !word.is_empty())?;
    token.trim_start_matches('.').rsplit('/').next()
}

/// A piece of code that may still grow at its end.
#[derive(Clone)]
pub struct CodeHighlight {
    highlighter: Highlighter,
    language: Arc<str>,
    source: Source,
    sent: usize,
    sent_lines: usize,
}

/// Where the lines come from.
#[derive(Clone)]
enum Source {
    Plain,
    Lexer(Box<Lexer>, Vec<StyledLine>),
    Worker(Arc<Worker>, Arc<Mutex<Lines>>),
}

/// The lines that are ready.
#[derive(Default)]
struct Lines {
    ready: Vec<StyledLine>,
    /// What the parser knows between two pieces; taken while it works.
    parser: worker::Parser,
}

impl CodeHighlight {
    /// Hands over the code as far as it is known; only complete lines are looked at unless it is `complete`.
    /// Only what was appended since the last call costs anything; code that was rewritten starts anew.
    pub fn update(&mut self, code: &str, complete: bool) {
        if code.len() < self.sent {
            *self = self.highlighter.open(&self.language);
        }
        let end = if complete {
            code.len()
        } else {
            code.rfind('\n').map_or(0, |at| at + 1)
        };
        if end <= self.sent || end > LIMIT {
            return;
        }
        let Some(piece) = code.get(self.sent..end) else {
            return;
        };
        match &mut self.source {
            Source::Plain => return,
            Source::Lexer(lexer, lines) => lines.extend(lexer.read(piece)),
            Source::Worker(worker, state) => worker.submit(Job {
                language: Arc::clone(&self.language),
                piece: piece.to_owned(),
                state: Arc::downgrade(state),
            }),
        }
        self.sent = end;
        self.sent_lines += piece.split_inclusive('\n').count();
    }

    /// The language, as it was given.
    pub fn language(&self) -> &str {
        &self.language
    }

    /// Whether everything that was handed over is ready, or will never be anything but plain.
    pub fn is_done(&self) -> bool {
        matches!(self.source, Source::Plain) || self.ready() >= self.sent_lines
    }

    /// How many lines are ready, from the start.
    pub fn ready(&self) -> usize {
        match &self.source {
            Source::Plain => 0,
            Source::Lexer(_, lines) => lines.len(),
            Source::Worker(_, state) => lock(state).ready.len(),
        }
    }

    /// Copies the ready lines from `start` on.
    pub fn lines_from(&self, start: usize) -> Vec<StyledLine> {
        let copy = |lines: &[StyledLine]| lines.get(start..).map(<[_]>::to_vec).unwrap_or_default();
        match &self.source {
            Source::Plain => Vec::new(),
            Source::Lexer(_, lines) => copy(lines),
            Source::Worker(_, state) => copy(&lock(state).ready),
        }
    }
}

impl fmt::Debug for CodeHighlight {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CodeHighlight")
            .field("language", &self.language)
            .field("ready", &self.ready())
            .finish()
    }
}

fn lock(state: &Mutex<Lines>) -> MutexGuard<'_, Lines> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::text::Role;

    fn roles(language: &str, code: &str) -> Vec<(String, Role)> {
        let lines = highlight_now(language, code);
        let spans = lines.iter().flat_map(|line| &line.spans);
        spans
            .filter(|span| !span.text.trim().is_empty())
            .map(|span| (span.text.trim().to_owned(), span.style.role))
            .collect()
    }

    fn role_of(language: &str, code: &str, text: &str) -> Role {
        let all = roles(language, code);
        all.iter()
            .find(|(span, _)| span.contains(text))
            .unwrap_or_else(|| panic!("{text} not in {all:?}"))
            .1
    }

    #[test]
    fn code_gets_the_roles_of_its_parts() {
        let rust = "// note\nfn main() { let x: u32 = 42; println!(\"hi\\n\"); }\n";
        assert_eq!(role_of("rust", rust, "note"), Role::Comment);
        assert_eq!(role_of("rust", rust, "fn"), Role::Keyword);
        assert_eq!(role_of("rust", rust, "main"), Role::Function);
        assert_eq!(role_of("rust", rust, "42"), Role::Number);
        assert_eq!(role_of("rust", rust, "hi"), Role::String);
        assert_eq!(role_of("rust", rust, "\\n"), Role::Escape);
        assert_eq!(
            role_of("json", "{\"key\": \"value\", \"n\": 1}", "key"),
            Role::Property
        );
        assert_eq!(
            role_of("json", "{\"key\": \"value\", \"n\": 1}", "value"),
            Role::String
        );
        assert_eq!(
            role_of("tsx", "const a: string = `x`", "const"),
            Role::Keyword
        );
        assert_eq!(role_of("Cargo.toml", "name = \"x\"", "x"), Role::String);
        assert_eq!(role_of("src/lib.py", "def f(): pass", "def"), Role::Keyword);
    }

    #[test]
    fn every_character_is_kept_and_an_unknown_language_stays_plain() {
        let code = "fn a() {\n\n    \"unclosed\n}\nlast";
        let text = |lines: Vec<StyledLine>| {
            lines
                .iter()
                .map(StyledLine::to_text)
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert_eq!(text(highlight_now("rust", code)), code);
        assert_eq!(text(highlight_now("klingon", code)), code);
        assert!(
            roles("klingon", code)
                .iter()
                .all(|(_, role)| *role == Role::CodeBlock)
        );
    }

    #[test]
    fn growing_code_is_highlighted_in_the_background_as_if_it_had_come_at_once() {
        let (sender, receiver) = mpsc::channel();
        let highlighter = Highlighter::new(move || {
            sender.send(()).ok();
        });
        let code = "(* a\nstill a comment *)\nprogram x;\nend";
        let mut highlight = highlighter.open("pascal");
        for end in [3, 9, 27, 30, code.len()] {
            highlight.update(&code[..end], end == code.len());
        }
        while highlight.ready() < 4 {
            receiver
                .recv_timeout(Duration::from_secs(60))
                .expect("the worker reports progress");
        }
        assert_eq!(highlight.lines_from(0), highlight_now("pascal", code));
        assert_eq!(
            highlight.lines_from(1)[0].spans[0].style.role,
            Role::Comment
        );
        assert_eq!(highlight.lines_from(3).len(), 1);
    }

    #[test]
    fn a_plain_highlighter_has_nothing_ready() {
        let mut highlight = Highlighter::plain().open("rust");
        highlight.update("fn x() {}\n", true);
        assert_eq!(
            (highlight.ready(), highlight.lines_from(0)),
            (0, Vec::new())
        );
    }
}
