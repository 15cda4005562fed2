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
    /// Whether a variable is set that decides what names mean.
    pub(super) renames: bool,
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
            "command_substitution" | "process_substitution" | "arithmetic_expansion" => {
                self.substitutions.insert(range.start);
            }
            "variable_assignment"
            | "for_statement"
            | "declaration_command"
            | "unset_command"
            | "subscript" => {
                let mut cursor = node.walk();
                self.renames |= node.named_children(&mut cursor).any(|child| {
                    child.kind() == "variable_name" && decides_names(&source[child.byte_range()])
                });
            }
            "command" => {
                let mut words = text.split_whitespace();
                let sets = matches!(
                    words.next(),
                    Some(
                        "read"
                            | "mapfile"
                            | "readarray"
                            | "getopts"
                            | "printf"
                            | "declare"
                            | "local"
                            | "typeset"
                            | "export"
                            | "let"
                            | "alias"
                            | "shopt"
                            | "enable"
                            | "hash"
                            | "set"
                    )
                );
                self.renames |= sets
                    && (words.clone().any(decides_names)
                        || matches!(
                            text.split_whitespace().next(),
                            Some("alias" | "shopt" | "enable" | "hash")
                        ));
            }
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

/// Variables that decide which program a name means or what it does first.
fn decides_names(name: &str) -> bool {
    let name = name.split('=').next().unwrap_or(name);
    const NAMES: [&str; 22] = [
        "PATH",
        "HOME",
        "PWD",
        "OLDPWD",
        "IFS",
        "ENV",
        "BASH_ENV",
        "CDPATH",
        "SHELLOPTS",
        "BASHOPTS",
        "PROMPT_COMMAND",
        "PS4",
        "PAGER",
        "EDITOR",
        "VISUAL",
        "LESSOPEN",
        "MANPAGER",
        "RUSTC_WRAPPER",
        "NODE_OPTIONS",
        "PYTHONSTARTUP",
        "PERL5OPT",
        "RUBYOPT",
    ];
    NAMES.contains(&name)
        || ["LD_", "DYLD_", "GIT_", "BASH_FUNC", "npm_config_"]
            .iter()
            .any(|start| name.starts_with(start))
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
