//! Redirections and here-documents: the files that they touch, and the words and commands within.

use std::path::PathBuf;

use tree_sitter::Node;

use super::found::{Depth, Touch};
use super::marks::is_quoted_document;
use super::script::{RELINKED, Reading};
use super::words::Word;

impl Reading<'_> {
    pub(super) fn redirected(&mut self, source: &str, node: Node<'_>) {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let is_redirect = |node: &Node<'_>| {
            matches!(
                node.kind(),
                "file_redirect" | "heredoc_redirect" | "herestring_redirect"
            )
        };
        // The grammar hangs a redirection of the last command of a list on the list.
        let is_list = |child: &Node<'_>| child.kind() == "list";
        for list in children.iter().filter(|child| is_list(child)) {
            self.walk(source, *list);
        }
        let mut extra = Vec::new();
        let changed = self.changed;
        for redirect in children.iter().filter(|child| is_redirect(child)) {
            match redirect.kind() {
                "file_redirect" => extra.extend(self.redirect(source, *redirect)),
                "heredoc_redirect" => extra.extend(self.here_document(source, *redirect)),
                _ => self.here_string(source, *redirect),
            }
        }
        for line in given_to_a_shell(source, &children) {
            self.within(line);
        }
        let moves = self.moves;
        for body in children
            .iter()
            .filter(|child| !is_redirect(child) && !is_list(child))
        {
            // The words of a command are expanded before it is redirected, and the grammar hangs on a pipeline what
            // belongs to its last one.
            let of_words = matches!(body.kind(), "command" | "pipeline");
            let redirected = self.changed;
            if of_words {
                self.changed = changed;
            }
            match body.kind() {
                "command" => self.command(source, *body, &std::mem::take(&mut extra)),
                _ => self.walk(source, *body),
            }
            self.changed |= redirected;
        }
        if self.moves != moves {
            self.directory = None;
        }
        if !extra.is_empty() {
            self.unclear("words stand behind a redirection that belong to no command");
        }
    }

    /// Notes what a redirection touches. Words behind its target belong to the command.
    pub(super) fn redirect(&mut self, source: &str, node: Node<'_>) -> Vec<Word> {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        let operator = children
            .iter()
            .map(|child| &source[child.byte_range()])
            .find(|text| text.contains(['<', '>']))
            .unwrap_or_default()
            .to_owned();
        let mut words = Vec::new();
        for child in children {
            if !child.is_named() || child.kind() == "file_descriptor" {
                continue;
            }
            self.walk(source, child);
            words.push((child.kind(), self.values(source).word(child)));
        }
        if words.is_empty() {
            return Vec::new();
        }
        let (kind, target) = words.remove(0);
        let duplicates = operator.ends_with('&')
            && target.known
            && (target.text == "-" || target.text.trim_end_matches('-').parse::<u32>().is_ok());
        if !duplicates && kind != "process_substitution" {
            let changes = operator.contains('>');
            self.touch_redirected(target, changes);
        }
        words.into_iter().map(|(_, word)| word).collect()
    }

    fn touch_redirected(&mut self, target: Word, changes: bool) {
        const STREAMS: [&str; 5] = [
            "/dev/null",
            "/dev/stdout",
            "/dev/stderr",
            "/dev/stdin",
            "/dev/tty",
        ];
        if !target.known || target.glob {
            return self.unclear(format!(
                "it cannot be told which file `{}` redirects to",
                target.text
            ));
        }
        if STREAMS.contains(&target.text.as_str()) {
            return;
        }
        self.touch(&target.text, changes);
    }

    pub(super) fn touch(&mut self, path: &str, changes: bool) {
        if self.relinked {
            self.unclear(RELINKED);
        }
        self.changed |= changes;
        self.script.touches.push(Touch {
            path: PathBuf::from(path),
            from: self.directory.clone(),
            changes,
            depth: Depth::Names,
        });
    }

    /// `<<< WORD`.
    pub(super) fn here_string(&mut self, source: &str, node: Node<'_>) {
        self.children(source, node);
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            let word = self.values(source).word(child);
            self.fed
                .extend(word.text.split_whitespace().map(Word::plain));
        }
    }

    /// The commands behind a here-document's beginning and within its text. Words there belong to its command.
    pub(super) fn here_document(&mut self, source: &str, node: Node<'_>) -> Vec<Word> {
        let mut words = Vec::new();
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor).collect::<Vec<_>>() {
            match child.kind() {
                "heredoc_start" | "heredoc_end" | "file_descriptor" => {}
                "heredoc_body" => {
                    let words = source[child.byte_range()].split_whitespace();
                    self.fed.extend(words.map(Word::plain));
                    if !is_quoted_document(source, child) {
                        self.children(source, child);
                    }
                }
                "file_redirect" => words.extend(self.redirect(source, child)),
                "word"
                | "string"
                | "raw_string"
                | "ansi_c_string"
                | "concatenation"
                | "number"
                | "simple_expansion"
                | "expansion"
                | "command_substitution" => {
                    self.walk(source, child);
                    words.push(self.values(source).word(child));
                }
                _ => self.walk(source, child),
            }
        }
        words
    }
}

/// The here-documents that a shell reads as its commands.
fn given_to_a_shell<'s>(source: &'s str, parts: &[Node<'_>]) -> Vec<&'s str> {
    let text = |node: &Node<'_>| &source[node.byte_range()];
    let is_shell = parts
        .iter()
        .filter(|part| part.kind() == "command")
        .any(|part| {
            let name = text(part).split_whitespace().next().unwrap_or_default();
            let name = name.rsplit('/').next().unwrap_or(name);
            matches!(name, "bash" | "sh" | "dash" | "ash" | "zsh" | "ksh")
        });
    if !is_shell {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for redirect in parts
        .iter()
        .filter(|part| part.kind() == "heredoc_redirect")
    {
        let mut cursor = redirect.walk();
        let body = redirect
            .named_children(&mut cursor)
            .find(|child| child.kind() == "heredoc_body");
        lines.extend(body.map(|body| &source[body.byte_range()]));
    }
    lines
}
