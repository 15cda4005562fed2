//! From a syntax tree to the commands in it.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use super::builtins;
use super::command;
use super::found::{Ground, Script, Touch};
use super::marks::Marks;
use super::strict::{self, Odd};
use super::words::{Values, Word};

/// Bytes of a command line at most.
const MOST_BYTES: usize = 64 * 1024;
/// Commands at most.
const MOST_COMMANDS: usize = 500;
/// Command lines within command lines (`bash -c`, `eval`) at most.
const MOST_NESTED: usize = 6;
/// Reports of progress that a parse gets; the parser makes one for every hundred of its steps.
const MOST_STEPS: usize = 20_000;

/// Why files are not looked up that a line names after it made links.
pub(super) const RELINKED: &str = "it uses files after it made or moved links";

/// Why patterns of names are not looked up that a line uses after it changed files.
pub(super) const RENAMED: &str = "it uses file name patterns after it changed files";

/// Takes a command line apart that runs in `directory`.
pub(crate) fn parse(text: &str, directory: &Path, ground: Ground<'_>) -> Script {
    let mut script = Script::default();
    let mut reading = Reading {
        script: &mut script,
        ground,
        directory: Some(directory.to_owned()),
        nested: 0,
        moves: 0,
        renamed: false,
        altered: false,
        relinked: false,
        changed: false,
        patterns: false,
        fed: Vec::new(),
    };
    reading.read(text);
    // Wherever it stands: parts of a line run at the same time, or again.
    let may_be_option = |touch: &Touch| {
        let name = touch.path.file_name();
        touch.changes && name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"-"))
    };
    if reading.patterns && reading.script.all_touches().any(may_be_option) {
        reading.unclear(RENAMED);
    }
    script
}

pub(super) struct Reading<'a> {
    pub(super) script: &'a mut Script,
    pub(super) ground: Ground<'a>,
    /// Where the next command runs.
    pub(super) directory: Option<PathBuf>,
    nested: usize,
    /// Changes of the directory so far.
    pub(super) moves: usize,
    /// Whether something decides what names mean: a variable, a function, a file that is read.
    pub(super) renamed: bool,
    /// Whether directories may be gone that were there.
    pub(super) altered: bool,
    /// Whether links may be there that were not.
    pub(super) relinked: bool,
    /// Whether files may be there that were not.
    pub(super) changed: bool,
    /// Whether it uses patterns of file names.
    pub(super) patterns: bool,
    /// Words that its commands are given as their input.
    pub(super) fed: Vec<Word>,
}

impl Reading<'_> {
    pub(super) fn unclear(&mut self, why: impl Into<String>) {
        let why = why.into();
        if !self.script.unclear.contains(&why) {
            self.script.unclear.push(why);
        }
    }

    fn read(&mut self, text: &str) {
        if text.len() > MOST_BYTES {
            return self.unclear("it is too long to be judged");
        }
        let odd = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
        if text.contains(odd) {
            return self.unclear("it holds characters that shells read in different ways");
        }
        let Some(tree) = tree(text) else {
            return self.unclear("it is too tangled to be judged");
        };
        if tree.root_node().has_error() {
            return self.unclear("it cannot be parsed");
        }
        if let Err(Odd(what)) = strict::agrees(text, tree.root_node()) {
            self.unclear(format!("it holds {what}, which is not judged"));
        }
        let mut marks = Marks::default();
        if !marks.collect(text, tree.root_node(), 0) {
            return self.unclear("it is too deep to be judged");
        }
        if !marks.account_for_all(text) {
            return self.unclear("it runs something in a place that cannot be judged");
        }
        if marks.renames {
            self.unclear("it sets a variable that may decide what programs do");
        }
        if marks.evaluates {
            self.unclear("it evaluates a text that may run something");
        }
        if marks.functions {
            self.unclear("it makes a function, so that names may mean something else");
            self.directory = None;
        }
        self.renamed |= marks.renames || marks.functions;
        self.walk(text, tree.root_node());
    }

    /// A command line within this one.
    pub(super) fn within(&mut self, text: &str) {
        if self.nested == MOST_NESTED {
            return self.unclear("it holds too many command lines within each other");
        }
        self.nested += 1;
        self.apart(|this| this.read(text));
        self.nested -= 1;
    }

    /// A command line within this one, for a shell that knows less than bash and takes what it does not know for words.
    pub(super) fn within_plain(&mut self, text: &str) {
        const BASH: [&str; 13] = [
            "[[", "((", "$'", "$\"", "$[", "<<<", "<(", ">(", "&>", "|&", "=(", "function",
            "select",
        ];
        if BASH.iter().any(|sign| text.contains(sign)) {
            self.unclear("it is written for another shell than the one that it runs");
        }
        self.within(text);
    }

    /// A command line that this very shell reads, in a directory that is known or not.
    pub(super) fn here(&mut self, text: &str, directory: Option<PathBuf>) {
        if self.nested == MOST_NESTED {
            return self.unclear("it holds too many command lines within each other");
        }
        self.nested += 1;
        let before = (
            std::mem::replace(&mut self.directory, directory),
            self.moves,
        );
        self.read(text);
        self.nested -= 1;
        self.directory = before.0.filter(|_| self.moves == before.1);
    }

    /// What runs cannot be told.
    pub(super) fn hidden(&mut self, why: &str) {
        self.unclear(why);
    }

    pub(super) fn values<'v>(&'v self, source: &'v str) -> Values<'v> {
        Values {
            source,
            home: self.ground.home.filter(|_| !self.renamed),
            directory: self.directory.as_deref().filter(|_| !self.renamed),
        }
    }

    pub(super) fn children(&mut self, source: &str, node: Node<'_>) {
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor).collect::<Vec<_>>() {
            // What runs in the background is a shell of its own.
            if child.next_sibling().is_some_and(|next| next.kind() == "&") {
                self.apart(|this| this.walk(source, child));
            } else {
                self.walk(source, child);
            }
        }
    }

    /// Every part of a pipeline is a shell of its own.
    fn pipeline(&mut self, source: &str, node: Node<'_>) {
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor).collect::<Vec<_>>() {
            self.apart(|this| this.walk(source, child));
        }
    }

    /// Parts that run or not by how the ones before them ended.
    fn list(&mut self, source: &str, node: Node<'_>) {
        self.directory = self.chain(source, node);
    }

    /// Walks a list. Afterwards the directory is the one where all went well; the result is the one where that is not
    /// said.
    fn chain(&mut self, source: &str, node: Node<'_>) -> Option<PathBuf> {
        if node.kind() != "list" {
            let before = self.directory.clone();
            self.walk(source, node);
            // `cd` itself may fail where directories were changed before.
            let may_fail = self.directory != before && self.altered;
            return self.directory.clone().filter(|_| !may_fail);
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        let or = children.iter().any(|child| child.kind() == "||");
        let before = self.directory.clone();
        let mut otherwise = before.clone();
        let parts = children.into_iter().filter(Node::is_named);
        for (at, part) in parts.filter(|part| part.kind() != "comment").enumerate() {
            if at > 0 && or && (self.directory != before || otherwise != before) {
                self.directory = None;
            }
            let after = self.chain(source, part);
            otherwise = match at {
                0 => after,
                _ => after.filter(|after| Some(after) == otherwise.as_ref()),
            };
        }
        if or && otherwise != self.directory {
            self.directory = None;
        }
        otherwise.filter(|otherwise| Some(otherwise) == self.directory.as_ref())
    }

    /// Runs `part` as a shell of its own: a change of directory in it ends with it.
    pub(super) fn apart(&mut self, part: impl FnOnce(&mut Self)) {
        let before = (self.directory.clone(), self.moves);
        part(self);
        (self.directory, self.moves) = before;
    }

    /// Runs `part`, which may run or not, in parts, or several times: where it changes the directory, nobody knows
    /// where which of its parts is.
    fn maybe(&mut self, part: impl FnOnce(&mut Self)) {
        let before = self.moves;
        part(self);
        if self.moves != before {
            self.directory = None;
            self.unclear("it changes the directory on one of several ways");
        }
    }

    pub(super) fn walk(&mut self, source: &str, node: Node<'_>) {
        match node.kind() {
            "command" => self.command(source, node, &[]),
            "redirected_statement" => self.redirected(source, node),
            "subshell" | "command_substitution" | "process_substitution" => {
                self.apart(|this| this.children(source, node));
            }
            "pipeline" => self.pipeline(source, node),
            "list" => self.list(source, node),
            "for_statement" | "c_style_for_statement" | "while_statement" => {
                let before = (self.changed, self.relinked, self.altered);
                self.maybe(|this| this.children(source, node));
                // What stands before a change runs after it too, the next time.
                if (self.changed, self.relinked, self.altered) != before {
                    self.unclear("it changes files again and again");
                }
            }
            "if_statement" | "case_statement" | "function_definition" => {
                self.maybe(|this| this.children(source, node));
            }
            "declaration_command" | "unset_command" => {
                self.children(source, node);
                let mut cursor = node.walk();
                let name = source[node.byte_range()].split_whitespace().next();
                let mut words: Vec<Word> = name.map(Word::plain).into_iter().collect();
                for child in node.named_children(&mut cursor).collect::<Vec<_>>() {
                    words.push(match child.kind() {
                        // What it is set to was judged; the name is what counts.
                        "variable_assignment" => {
                            let value = child.child_by_field_name("value");
                            let value = value.map(|value| self.values(source).word(value));
                            Word {
                                // Other shells than bash take several words for several names.
                                single: value.is_none_or(|value| value.single && !value.glob),
                                ..Word::unknown(&source[child.byte_range()])
                            }
                        }
                        _ => self.values(source).word(child),
                    });
                }
                command::judge(self, command::Simple::new(words, Vec::new()));
            }
            "negated_command" => {
                let before = self.moves;
                self.children(source, node);
                if self.moves != before {
                    self.directory = None;
                }
            }
            "test_command" => {
                self.children(source, node);
                self.test(source, node);
            }
            "file_redirect" => {
                let extra = self.redirect(source, node);
                if !extra.is_empty() {
                    self.unclear("words stand behind a redirection that belong to no command");
                }
            }
            "heredoc_redirect" => {
                let extra = self.here_document(source, node);
                if !extra.is_empty() {
                    self.unclear("words stand behind a here-document that belong to no command");
                }
            }
            "program"
            | "compound_statement"
            | "do_group"
            | "else_clause"
            | "elif_clause"
            | "case_item"
            | "variable_assignment"
            | "variable_assignments"
            | "herestring_redirect"
            | "heredoc_body"
            | "string"
            | "translated_string"
            | "concatenation"
            | "expansion"
            | "arithmetic_expansion"
            | "binary_expression"
            | "unary_expression"
            | "ternary_expression"
            | "postfix_expression"
            | "parenthesized_expression"
            | "subscript"
            | "array"
            | "command_name"
            | "brace_expression" => self.children(source, node),
            "comment"
            | "word"
            | "raw_string"
            | "ansi_c_string"
            | "number"
            | "variable_name"
            | "special_variable_name"
            | "simple_expansion"
            | "string_content"
            | "test_operator"
            | "file_descriptor"
            | "heredoc_start"
            | "heredoc_end"
            | "heredoc_content"
            | "extglob_pattern"
            | "regex" => self.leaf(source, node),
            kind => {
                self.unclear(format!("it holds a construct that is not judged ({kind})"));
                self.children(source, node);
            }
        }
    }

    /// `[ … ]` and `[[ … ]]`.
    fn test(&mut self, source: &str, node: Node<'_>) {
        let text = &source[node.byte_range()];
        let mut words = Vec::new();
        self.operands(source, node, &mut words);
        let known = match text.starts_with("[[") {
            // Within `[` it is a redirection, as everywhere else.
            false if words.iter().any(|word| word.text.contains(['<', '>'])) => false,
            true => builtins::compares(&words),
            false => builtins::tests(&words),
        };
        if !known {
            self.unclear("it tests something in a way that may run something");
        }
        for path in builtins::tested(&words) {
            self.touch(path, false);
        }
    }

    /// The words of a test in order, its operators among them.
    fn operands(&self, source: &str, node: Node<'_>, words: &mut Vec<Word>) {
        let mut cursor = node.walk();
        for child in node.children(&mut cursor).collect::<Vec<_>>() {
            match child.kind() {
                "[" | "]" | "[[" | "]]" => {}
                "unary_expression"
                | "binary_expression"
                | "parenthesized_expression"
                | "postfix_expression"
                | "ternary_expression"
                | "redirected_statement" => {
                    self.operands(source, child, words);
                }
                _ if child.is_named() && child.kind() != "test_operator" => {
                    words.push(self.values(source).word(child));
                }
                _ => words.push(Word::plain(&source[child.byte_range()])),
            }
        }
    }

    fn leaf(&mut self, source: &str, node: Node<'_>) {
        if node.named_child_count() > 0 {
            self.children(source, node);
        }
    }

    pub(super) fn command(&mut self, source: &str, node: Node<'_>, more: &[Word]) {
        if self.script.commands.len() >= MOST_COMMANDS {
            return self.unclear("it holds too many commands to be judged");
        }
        let (mut words, mut assignments, mut after) = (Vec::new(), Vec::new(), Vec::new());
        let mut redirects = false;
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor).collect::<Vec<_>>() {
            match child.kind() {
                "variable_assignment" => {
                    self.children(source, child);
                    let name = child.named_child(0).map(|name| &source[name.byte_range()]);
                    assignments.push(name.unwrap_or_default().to_owned());
                }
                "file_redirect" => {
                    redirects = true;
                    after.extend(self.redirect(source, child));
                }
                "heredoc_redirect" => after.extend(self.here_document(source, child)),
                "herestring_redirect" => self.here_string(source, child),
                "comment" => {}
                _ => {
                    self.walk(source, child);
                    words.push(self.values(source).word(child));
                }
            }
        }
        words.extend(after);
        words.extend(more.iter().cloned());
        // What cannot be redirected or set does not run.
        let may_fail = redirects || !assignments.is_empty();
        let moves = self.moves;
        command::judge(self, command::Simple::new(words, assignments));
        if may_fail && self.moves != moves {
            self.directory = None;
        }
    }
}

/// Parses, within bounds.
fn tree(text: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser
        .set_language(&tree_sitter_bash::LANGUAGE.into())
        .ok()?;
    let mut steps = 0;
    let mut bounded = |_: &ParseState| {
        steps += 1;
        match steps > MOST_STEPS {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let options = ParseOptions::new().progress_callback(&mut bounded);
    let bytes = text.as_bytes();
    let mut rest = |offset: usize, _| bytes.get(offset..).unwrap_or_default();
    parser.parse_with_options(&mut rest, None, Some(options))
}
