//! What a table says of a language.

/// How a language looks.
#[derive(Debug)]
pub(super) struct Language {
    /// Names and extensions, lower case.
    pub(super) names: &'static [&'static str],
    pub(super) line_comments: &'static [&'static str],
    pub(super) block_comment: Option<(&'static str, &'static str)>,
    pub(super) strings: &'static [Quote],
    pub(super) keywords: &'static [&'static str],
    pub(super) constants: &'static [&'static str],
    pub(super) types: &'static [&'static str],
    /// Where keys stand.
    pub(super) keys: Keys,
    pub(super) traits: Traits,
}

/// How a string begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quote {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    /// Whether a backslash takes the next character with it.
    pub(super) escapes: bool,
    /// Whether it goes on in the next line.
    pub(super) multiline: bool,
}

/// Where the keys of a language stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    None,
    /// A string before a colon.
    Strings,
    /// The first word of a line, before this character.
    First(char),
    /// Any word before a colon, within braces.
    Properties,
}

/// What else is special, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traits(pub(super) u16);

impl Traits {
    pub(super) const NONE: Traits = Traits(0);
    /// `'a` is a lifetime, `r#"…"#` a string, `name!` a macro, `#[…]` an attribute.
    pub(super) const RUST: Traits = Traits(1);
    /// `@name` is an annotation.
    pub(super) const ANNOTATIONS: Traits = Traits(2);
    /// `$name` and `${…}` are variables, within double quotes too.
    pub(super) const DOLLAR: Traits = Traits(4);
    /// Words with a capital are types, all capitals constants.
    pub(super) const CAPITALS: Traits = Traits(8);
    /// Keywords in whatever case.
    pub(super) const ANY_CASE: Traits = Traits(16);
    /// A comment needs a space before it.
    pub(super) const SPACED_COMMENTS: Traits = Traits(32);
    /// Block comments nest.
    pub(super) const NESTED: Traits = Traits(64);
    /// A dash is part of a word.
    pub(super) const DASHES: Traits = Traits(128);
    /// `[section]` begins a part.
    pub(super) const SECTIONS: Traits = Traits(256);
    /// `#include` and its like.
    pub(super) const DIRECTIVES: Traits = Traits(512);
    /// A word before a parenthesis is a function.
    pub(super) const CALLS: Traits = Traits(1024);
    /// Words may stand before a quote: `f"…"`.
    pub(super) const PREFIXES: Traits = Traits(2048);

    pub(super) const fn and(self, other: Traits) -> Traits {
        Traits(self.0 | other.0)
    }

    pub(super) const fn has(self, other: Traits) -> bool {
        self.0 & other.0 != 0
    }
}
