//! Signs of commands within words, and variables that decide what names mean: what the tree must account for.

use std::collections::BTreeSet;

use tree_sitter::Node;

/// Nodes on one path of the tree at most.
const MOST_DEPTH: usize = 120;

/// Whether a here-document is taken as it is: any part of its delimiter is quoted.
pub(super) fn is_quoted_document(source: &str, body: Node<'_>) -> bool {
    let mut cursor = body.walk();
    let Some(parent) = body.parent() else {
        return false;
    };
    let start = parent
        .named_children(&mut cursor)
        .find(|child| child.kind() == "heredoc_start");
    start.is_some_and(|start| source[start.byte_range()].contains(['\'', '"', '\\']))
}

/// Where commands begin within words, by the tree, and where nothing can.
#[derive(Default)]
pub(super) struct Marks {
    /// Beginnings, and ends of the backquoted ones.
    substitutions: BTreeSet<usize>,
    /// Text that is taken as it is.
    inert: Vec<std::ops::Range<usize>>,
    /// Whether a variable is set that may decide what names mean.
    pub(super) renames: bool,
    /// Whether it makes functions, so that names may mean these.
    pub(super) functions: bool,
    /// Whether something is evaluated that is no command: arithmetic, subscripts, names of names.
    pub(super) evaluates: bool,
    /// Whether a comment stands where there can be none.
    odd: bool,
}

impl Marks {
    /// False where the tree is too deep.
    pub(super) fn collect(&mut self, source: &str, node: Node<'_>, depth: usize) -> bool {
        if depth > MOST_DEPTH {
            return false;
        }
        let range = node.byte_range();
        let text = &source[range.clone()];
        match node.kind() {
            "raw_string" | "ansi_c_string" => self.inert.push(range),
            "comment" => {
                let before = source[..range.start].chars().next_back();
                self.odd |= before
                    .is_some_and(|before| !before.is_whitespace() && !";&|()`".contains(before));
                self.inert.push(range);
            }
            "heredoc_body" if is_quoted_document(source, node) => {
                self.inert.push(range);
                return true;
            }
            "command_substitution" if text.starts_with('`') => {
                // Within backquotes a backslash means something else than the grammar takes it for.
                self.odd |=
                    text.contains('\\') || text.len() < 2 || text[1..text.len() - 1].contains('`');
                self.substitutions.extend([range.start, range.end - 1]);
            }
            "command_substitution" | "process_substitution" => {
                self.substitutions.insert(range.start);
            }
            "arithmetic_expansion" => {
                self.substitutions.insert(range.start);
                // A name in it is evaluated as what it holds, which may be a command.
                let inner = text.get(2..).unwrap_or_default();
                self.evaluates |= inner.contains(|character: char| {
                    !character.is_ascii_digit() && !" ()+-*/%<>=!&|^~?:,]".contains(character)
                });
            }
            // Set for one command alone, it is judged with that command.
            "variable_assignment" if node.parent().is_some_and(|of| of.kind() == "command") => {
                self.evaluates |= is_evaluated(node);
            }
            "variable_assignment" | "for_statement" => {
                self.evaluates |= is_evaluated(node);
                let mut cursor = node.walk();
                self.renames |= node.named_children(&mut cursor).any(|child| {
                    child.kind() == "variable_name"
                        && !is_plain_variable(&source[child.byte_range()])
                });
            }
            "function_definition" => self.functions = true,
            "expansion" => self.evaluates |= !is_plain_expansion(text),
            "subscript" | "array" | "c_style_for_statement" => self.evaluates = true,
            "compound_statement" => self.evaluates |= text.starts_with("(("),
            _ => {}
        }
        let mut cursor = node.walk();
        node.children(&mut cursor)
            .all(|child| self.collect(source, child, depth + 1))
    }

    /// Whether every sign of a command within a word is one that the tree knows of.
    pub(super) fn account_for_all(&self, source: &str) -> bool {
        if self.odd {
            return false;
        }
        let bytes = source.as_bytes();
        let mut inert = self.inert.iter().peekable();
        let mut at = 0;
        while at < bytes.len() {
            while inert.next_if(|range| range.end <= at).is_some() {}
            if let Some(range) = inert.next_if(|range| range.contains(&at)) {
                at = range.end;
                continue;
            }
            let opens = |byte: u8| bytes[at] == byte && bytes.get(at + 1) == Some(&b'(');
            let sign = bytes[at] == b'`' || opens(b'$') || opens(b'<') || opens(b'>');
            match bytes[at] {
                b'\\' => at += 1,
                _ if sign && !self.substitutions.contains(&at) => return false,
                _ => {}
            }
            at += 1;
        }
        true
    }
}

/// Whether a node sets something with a subscript or to an array.
fn is_evaluated(node: Node<'_>) -> bool {
    let mut cursor = node.walk();
    node.named_children(&mut cursor)
        .any(|child| matches!(child.kind(), "subscript" | "array"))
}

/// Whether `${…}` gives a value, or a part of it, and does nothing else: no names of names, no subscripts, no
/// assignments, no offsets, which are arithmetic.
fn is_plain_expansion(text: &str) -> bool {
    let Some(inner) = text
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
    else {
        return false;
    };
    let named = inner.strip_prefix('#').filter(|rest| !rest.is_empty());
    let whole = named.unwrap_or(inner);
    let end = whole
        .find(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        .unwrap_or(whole.len());
    let (name, rest) = whole.split_at(end);
    if name.is_empty() {
        return matches!(whole, "@" | "*" | "#" | "?" | "$" | "!");
    }
    match named {
        Some(_) => rest.is_empty(),
        None => {
            rest.is_empty()
                || [":-", "-", ":+", "+", "#", "%", "/"]
                    .iter()
                    .any(|operator| rest.starts_with(operator))
        }
    }
}

/// Whether a variable decides nothing but what is written where it is used: a plain lower-case name, or one of a few
/// that programs take without harm.
pub(super) fn is_plain_variable(name: &str) -> bool {
    const TAKEN: [&str; 9] = [
        "auto_resume",
        "histchars",
        "prefix",
        "path",
        "fpath",
        "cdpath",
        "manpath",
        "mailpath",
        "module_path",
    ];
    let lower = name.chars().all(|character| {
        character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_'
    }) && name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
    let taken = TAKEN.contains(&name) || name.ends_with("_proxy") || name.starts_with("npm_");
    (lower && !taken) || is_harmless_variable(name)
}

/// Whether setting this variable for one command leaves what is known of the command as it is.
pub(super) fn is_harmless_variable(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "CI",
        "COLUMNS",
        "DEBUG",
        "FORCE_COLOR",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LINES",
        "NO_COLOR",
        "NODE_ENV",
        "RUST_BACKTRACE",
        "RUST_LOG",
        "TERM",
        "TZ",
        "CARGO_TERM_COLOR",
        "PYTHONUNBUFFERED",
    ];
    NAMES.contains(&name)
}
