//! Whether the grammar finds in a line what the strict reading finds in it.

use tree_sitter::Node;

use super::super::words::{Values, Word};
use super::{Odd, Parts, Token, read};

/// Checks the tree of a line against the strict reading of it: the same words in the same commands, the same
/// redirections, here-documents, shells and operators, each in the same place, and no word of another meaning.
pub(in super::super) fn agrees(source: &str, root: Node<'_>) -> Result<(), Odd> {
    let mut strict = read(source)?;
    let mut found = Found {
        source,
        parts: Parts::default(),
    };
    found.collect(root);
    let mut grammar = found.parts;
    sort(&mut strict);
    sort(&mut grammar);
    let places = |parts: &Parts| {
        let places = |words: &[Token]| -> Vec<(usize, usize, bool)> {
            let place = |word: &Token| (word.start, word.end, word.sets);
            words.iter().map(place).collect()
        };
        let commands: Vec<_> = parts.commands.iter().map(|words| places(words)).collect();
        (commands, places(&parts.targets))
    };
    let same_places = places(&strict) == places(&grammar)
        && strict.operators == grammar.operators
        && strict.shells == grammar.shells
        && strict.documents == grammar.documents;
    let words = |parts: Parts| parts.commands.into_iter().flatten().chain(parts.targets);
    let same_words = words(strict).zip(words(grammar)).all(|(strict, grammar)| {
        // The grammar does not know a word that expands, and the strict reading need not.
        grammar.text.is_none() || (strict.text == grammar.text && strict.glob == grammar.glob)
    });
    match same_places && same_words {
        true => Ok(()),
        false => Err(Odd("something that can be read in two ways")),
    }
}

fn sort(parts: &mut Parts) {
    for words in &mut parts.commands {
        words.sort_by_key(|word| word.start);
    }
    parts
        .commands
        .sort_by_key(|words| words.first().map(|word| word.start));
    parts.targets.sort_by_key(|word| word.start);
    parts.operators.sort_unstable();
    parts.shells.sort_unstable();
    parts.documents.sort_unstable();
}

struct Found<'s> {
    source: &'s str,
    parts: Parts,
}

impl Found<'_> {
    fn all(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        for child in node.children(&mut cursor).collect::<Vec<_>>() {
            self.collect(child);
        }
    }

    fn collect(&mut self, node: Node<'_>) {
        let range = node.byte_range();
        match node.kind() {
            "command" => self.command(node, Vec::new()),
            "redirected_statement" => self.redirected(node),
            kind @ ("declaration_command" | "unset_command" | "variable_assignments") => {
                let mut words = Vec::new();
                let mut cursor = node.walk();
                for child in node.children(&mut cursor).collect::<Vec<_>>() {
                    let place = self.place(child);
                    words.push(Token {
                        sets: place.sets && kind == "variable_assignments",
                        ..place
                    });
                    self.within(child);
                }
                self.parts.commands.push(words);
            }
            "variable_assignment" => {
                let word = self.place(node);
                self.parts.commands.push(vec![word]);
                self.all(node);
            }
            "test_command" => {
                let mut words = Vec::new();
                self.test(node, &mut words);
                self.parts.commands.push(words);
            }
            "for_statement" => {
                let mut words = Vec::new();
                let mut cursor = node.walk();
                for child in node.children(&mut cursor).collect::<Vec<_>>() {
                    let is_word =
                        child.is_named() && !matches!(child.kind(), "do_group" | "comment");
                    if is_word {
                        words.push(self.word(child));
                    }
                    self.collect(child);
                }
                self.parts.commands.push(words);
            }
            "subshell" | "command_substitution" => {
                self.parts.shells.push((range.start, range.end));
                self.all(node);
            }
            "file_redirect" | "heredoc_redirect" | "herestring_redirect" => {
                let extra = self.redirection(node);
                if !extra.is_empty() {
                    self.parts.commands.push(extra);
                }
            }
            "&&" => self.parts.operators.push((range.start, "&&")),
            "||" => self.parts.operators.push((range.start, "||")),
            "|" => self.parts.operators.push((range.start, "|")),
            ";" => self.parts.operators.push((range.start, ";")),
            "&" => self.parts.operators.push((range.start, "&")),
            _ => self.all(node),
        }
    }

    /// What is within a word, or in what is set.
    fn within(&mut self, node: Node<'_>) {
        match node.kind() {
            "variable_assignment" => self.all(node),
            _ => self.collect(node),
        }
    }

    /// A command, with words that stand behind its redirections.
    fn command(&mut self, node: Node<'_>, mut words: Vec<Token>) {
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor).collect::<Vec<_>>() {
            match child.kind() {
                "comment" => {}
                "file_redirect" | "heredoc_redirect" | "herestring_redirect" => {
                    words.extend(self.redirection(child));
                }
                "variable_assignment" => {
                    words.push(self.place(child));
                    self.all(child);
                }
                _ => {
                    words.push(self.word(child));
                    self.collect(child);
                }
            }
        }
        self.parts.commands.push(words);
    }

    fn redirected(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        let is_redirection = |child: &Node<'_>| child.kind().ends_with("_redirect");
        let mut extra = Vec::new();
        for child in children.iter().filter(|child| is_redirection(child)) {
            extra.extend(self.redirection(*child));
        }
        for child in children.into_iter().filter(|child| !is_redirection(child)) {
            match child.kind() {
                "command" => self.command(child, std::mem::take(&mut extra)),
                _ => self.collect(child),
            }
        }
        if !extra.is_empty() {
            self.parts.commands.push(extra);
        }
    }

    /// Notes what a redirection names. What stands behind that is given back.
    fn redirection(&mut self, node: Node<'_>) -> Vec<Token> {
        let mut extra = Vec::new();
        let mut named = false;
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor).collect::<Vec<_>>() {
            match child.kind() {
                "file_descriptor" | "comment" | "heredoc_start" => continue,
                "heredoc_body" => self.body(child),
                "heredoc_end" => self.end(child),
                "file_redirect" | "heredoc_redirect" | "herestring_redirect" => {
                    extra.extend(self.redirection(child));
                }
                _ if node.kind() == "heredoc_redirect" || named => {
                    extra.push(self.word(child));
                    self.collect(child);
                }
                _ => {
                    named = true;
                    let target = self.word(child);
                    self.parts.targets.push(target);
                    self.collect(child);
                }
            }
        }
        extra
    }

    fn body(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor).collect::<Vec<_>>() {
            match child.kind() {
                "heredoc_end" => self.end(child),
                _ => self.all(child),
            }
        }
    }

    fn end(&mut self, node: Node<'_>) {
        let range = node.byte_range();
        self.parts.documents.push((range.start, range.end));
    }

    /// The words and signs of a test.
    fn test(&mut self, node: Node<'_>, words: &mut Vec<Token>) {
        let mut cursor = node.walk();
        for child in node.children(&mut cursor).collect::<Vec<_>>() {
            match child.kind() {
                "unary_expression" | "binary_expression" | "parenthesized_expression" => {
                    self.test(child, words);
                }
                _ if child.is_named() && child.kind() != "test_operator" => {
                    words.push(self.word(child));
                    self.collect(child);
                }
                _ => words.push(self.place(child)),
            }
        }
    }

    fn word(&self, node: Node<'_>) -> Token {
        let values = Values {
            source: self.source,
            home: None,
            directory: None,
        };
        let Word {
            text, known, glob, ..
        } = values.word(node);
        Token {
            text: known.then_some(text),
            glob,
            ..self.place(node)
        }
    }

    fn place(&self, node: Node<'_>) -> Token {
        let range = node.byte_range();
        Token {
            start: range.start,
            end: range.end,
            text: None,
            glob: false,
            sets: node.kind() == "variable_assignment",
        }
    }
}
