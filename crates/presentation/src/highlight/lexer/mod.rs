//! Highlighting without a grammar engine: small lexers for the languages that people see every day.
//!
//! A TextMate grammar of one language costs tens of megabytes and up to a third of a second to begin with
//! (TypeScript: 42 MiB, 290 ms). These tables cost nothing, so that code in common languages has its
//! colours in the frame in which it appears. Languages without a table go to the background thread.

mod code;
mod languages;
mod lines;
mod markup;
mod table;

use crate::text::{StyledLine, sanitize};

use code::CodeState;
use table::Language;

/// A lexer and where it stands between two lines.
#[derive(Debug, Clone)]
pub(super) struct Lexer(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Code(&'static Language, CodeState),
    Markup(markup::MarkupState),
    Markdown(lines::MarkdownState),
    Diff,
}

impl Lexer {
    /// The lexer of a language: a name, an extension or a file name. `None` for those without a table.
    pub(super) fn of(language: &str) -> Option<Self> {
        let name = super::language_name(language)?.to_ascii_lowercase();
        let extension = name.rsplit('.').next().unwrap_or(&name);
        let kind = [name.as_str(), extension].into_iter().find_map(|name| {
            Some(match name {
                "html" | "htm" | "xml" | "svg" | "xhtml" | "xsl" | "plist" | "vue" | "svelte"
                | "astro" => Kind::Markup(markup::MarkupState::default()),
                "md" | "markdown" | "mdx" => Kind::Markdown(lines::MarkdownState::default()),
                "diff" | "patch" | "udiff" => Kind::Diff,
                name => Kind::Code(languages::find(name)?, CodeState::default()),
            })
        });
        kind.map(Lexer)
    }

    /// The next lines, styled.
    pub(super) fn read(&mut self, code: &str) -> Vec<StyledLine> {
        code.split_inclusive('\n')
            .map(|line| {
                let line = sanitize(line.trim_end_matches('\n'), 4);
                match &mut self.0 {
                    Kind::Code(language, state) => code::read_line(language, state, &line),
                    Kind::Markup(state) => markup::read_line(state, &line),
                    Kind::Markdown(state) => lines::read_markdown(state, &line),
                    Kind::Diff => lines::read_diff(&line),
                }
            })
            .collect()
    }
}

/// Collects the pieces of one line.
struct Pieces<'a> {
    line: &'a str,
    out: StyledLine,
}

impl<'a> Pieces<'a> {
    fn new(line: &'a str) -> Self {
        Pieces {
            line,
            out: StyledLine::default(),
        }
    }

    fn push(&mut self, from: usize, to: usize, role: crate::Role) {
        if let Some(text) = self.line.get(from..to) {
            self.out.push(crate::StyledSpan::new(text.to_owned(), role));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every piece with its role's first letters, as `text/role`.
    fn roles(language: &str, code: &str) -> String {
        let lines = Lexer::of(language).unwrap().read(code);
        let line = |line: &StyledLine| {
            let spans = line
                .spans
                .iter()
                .filter(|span| !span.text.trim().is_empty());
            spans
                .map(|span| format!("{}/{}", span.text.trim(), span.style.role.key()))
                .collect::<Vec<_>>()
                .join(" ")
        };
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn rust() {
        let code = "#[derive(Debug)]\npub fn get<'a>(x: &'a str) -> Option<u32> { // note\n    let c = 'x'; /* a /* b */\n c */ Self::MAX_LEN + std::mem::take(0x1f_u8) .. r#\"raw \" text\"# println!(\"hi\\n\")";
        insta::assert_snapshot!(roles("rust", code));
    }

    #[test]
    fn python() {
        let code = "@decorated(1)\nasync def f(self, x: int = None) -> str:\n    \"\"\"Doc\n    still doc\"\"\" # note\n    return f'a {x}' + r\"raw\" if x.size >= 1.5e3 else True";
        insta::assert_snapshot!(roles("python", code));
    }

    #[test]
    fn typescript() {
        let code = "export const f = async (a: string): Promise<Foo> => {\n  return `text ${a}\nmore` + this.name.trim('x') // note\n}\n@Input() x = null;";
        insta::assert_snapshot!(roles("ts", code));
    }

    #[test]
    fn shell() {
        let code = "#!/bin/bash\nif [ -f \"$HOME/x\" ]; then # note\n  export A=${B:-c} && ls -la --color='never' | grep a#b\nfi";
        insta::assert_snapshot!(roles("sh", code));
    }

    #[test]
    fn data() {
        insta::assert_snapshot!(
            [
                roles("json", "{\"key\": \"value\", \"n\": -1.5, \"t\": true}"),
                roles(
                    "Cargo.toml",
                    "[package]\nname = \"x\" # note\nlist = [1, 2]"
                ),
                roles("yaml", "# note\nkey: value\n- other-key: \"text\"\n  n: 3"),
                roles(
                    "css",
                    ".card:hover { color: #fff; margin: 0 auto; } /* note */"
                ),
                roles(
                    "sql",
                    "SELECT count(*) FROM users WHERE name = 'a''b' -- note"
                ),
                roles("Dockerfile", "FROM rust:1.95 AS build\nRUN cargo build # x"),
                roles("Makefile", "all: build\n\t@echo done # note"),
                roles("go", "func (s *Server) Run() error { return nil } // note"),
            ]
            .join("\n---\n")
        );
    }

    #[test]
    fn markup_and_lines() {
        insta::assert_snapshot!(
            [
                roles(
                    "html",
                    "<!-- note\nmore --><a href=\"x\" class=y>Text &amp; more</a>"
                ),
                roles(
                    "md",
                    "# Title\nText with `code` and **bold**\n- item\n```rust\nfn x\n```\n> quote"
                ),
                roles(
                    "diff",
                    "diff --git a b\n--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same"
                ),
            ]
            .join("\n---\n")
        );
    }

    #[test]
    fn names_of_all_kinds_find_their_language() {
        for name in [
            "rust",
            "rs",
            "src/main.rs",
            "rust,ignore",
            "{.python}",
            "TypeScript",
            "tsx title=\"x\"",
            "c++",
            "Dockerfile",
            "bash",
            ".bashrc",
            "a/b/Makefile",
        ] {
            assert!(Lexer::of(name).is_some(), "{name}");
        }
        assert!(Lexer::of("klingon").is_none() && Lexer::of("").is_none());
    }

    proptest! {
        #[test]
        fn every_character_is_kept(code in "[a-z'\"/*#<>!`\\\\${}(\\[)=:é漢\n -]{0,120}") {
            for language in ["rust", "python", "ts", "sh", "json", "toml", "yaml", "css", "sql", "html", "md", "diff", "lua", "php"] {
                let text: Vec<String> = Lexer::of(language).unwrap().read(&code).iter().map(StyledLine::to_text).collect();
                let whole: Vec<&str> = code.split_inclusive('\n').map(|line| line.trim_end_matches('\n')).collect();
                prop_assert_eq!(&text, &whole, "{}", language);
            }
        }
    }
}
