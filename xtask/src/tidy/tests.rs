//! Each rule fails on a small input, and lets the right form pass.

use super::*;

fn tree(files: &[(&str, &str)]) -> Tree {
    let mut tree = Tree::default();
    for (path, text) in files {
        tree.add(path, (*text).to_owned());
    }
    tree
}

/// What one rule finds in the given files, one line each.
fn findings(rule: &str, files: &[(&str, &str)]) -> Vec<String> {
    let rule = RULES
        .iter()
        .find(|known| known.name == rule)
        .expect("the rule exists");
    (rule.check)(&tree(files))
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[track_caller]
fn check(rule: &str, files: &[(&str, &str)], expected: &[&str]) {
    assert_eq!(findings(rule, files), expected);
}

#[test]
fn a_file_without_a_module_sentence_is_found() {
    check(
        "module-docs",
        &[
            ("crates/a/src/lib.rs", "//! Says what it is.\nfn a() {}\n"),
            ("crates/a/src/b.rs", "fn b() {}\n"),
            ("crates/a/src/c.rs", "//!\nfn c() {}\n"),
            ("crates/a/tests/it/main.rs", "mod cases;\n"),
            ("crates/a/tests/ui/bad.rs", "fn main() {}\n"),
        ],
        &[
            "crates/a/src/b.rs:1: no `//!` sentence on the first line",
            "crates/a/src/c.rs:1: no `//!` sentence on the first line",
            "crates/a/tests/it/main.rs:1: no `//!` sentence on the first line",
        ],
    );
}

#[test]
fn a_file_over_500_lines_is_a_warning_and_one_over_800_fails() {
    let long = |lines: usize| "\n".repeat(lines);
    check(
        "sizes",
        &[
            ("a.rs", &long(500)),
            ("b.rs", &long(501)),
            ("c.rs", &long(800)),
            ("d.rs", &long(801)),
        ],
        &[
            "warning: b.rs: 501 lines",
            "warning: c.rs: 800 lines",
            "d.rs: 801 lines",
        ],
    );
}

#[test]
fn patterns_that_hide_a_fault_are_found_in_shipped_code_only() {
    let code = "fn a() {\n    todo!();\n    unimplemented!();\n    b.unwrap();\n    let _ = c();\n    \
                tokio::spawn(d);\n    std::thread::sleep(e);\n}\n#[allow(dead_code)]\n\
                #[allow(clippy::all)]\nfn f() -> Result<Vec<u8>, String> {}\n";
    assert_eq!(
        findings("patterns", &[("crates/a/src/lib.rs", code)]),
        [
            "crates/a/src/lib.rs:2: `todo!(`",
            "crates/a/src/lib.rs:3: `unimplemented!(`",
            "crates/a/src/lib.rs:4: `.unwrap()`",
            "crates/a/src/lib.rs:5: `let _ =`",
            "crates/a/src/lib.rs:6: `tokio::spawn(`",
            "crates/a/src/lib.rs:7: `thread::sleep`",
            "crates/a/src/lib.rs:9: `allow(dead_code`",
            "crates/a/src/lib.rs:10: `allow(clippy`",
            "crates/a/src/lib.rs:11: `Result<_, String>`",
        ]
    );
    let in_tests = format!("#[cfg(test)]\nmod tests {{\n{code}}}\n");
    check(
        "patterns",
        &[
            ("crates/a/src/lib.rs", &in_tests),
            ("crates/a/src/b/tests.rs", code),
            ("crates/a/tests/it/main.rs", code),
            ("crates/a/src/c.rs", "#[cfg(test)]\nmod cases;\n"),
            ("crates/a/src/c/cases.rs", code),
            ("crates/a/src/d.rs", "// .unwrap()\nlet d = \"todo!(\";\n"),
            ("crates/rpc-macros/src/e.rs", "#[allow(dead_code)]\n"),
        ],
        &[],
    );
}

#[test]
fn an_ignored_test_is_found_even_in_a_test_file() {
    check(
        "patterns",
        &[(
            "crates/a/tests/it/main.rs",
            "#[test]\n#[ignore]\nfn a() {}\n",
        )],
        &["crates/a/tests/it/main.rs:2: `#[ignore`"],
    );
}

#[test]
fn a_result_with_a_string_error_is_found_behind_nested_types_only() {
    for bad in [
        "-> Result<(), String>",
        "-> Result<HashMap<u8, String>, String> {",
        "Result<fn(u8) -> u8, String>",
        "Result<(u8, u8), String,>",
    ] {
        let code = format!("fn a() {bad}\n");
        assert_eq!(findings("patterns", &[("a.rs", &code)]).len(), 1, "{bad}");
    }
    for good in [
        "-> Result<String, Error>",
        "-> Result<HashMap<u8, String>, Error>",
        "-> Result<String>",
        "Result<u8, StringError>",
    ] {
        let code = format!("fn a() {good}\n");
        assert_eq!(findings("patterns", &[("a.rs", &code)]).len(), 0, "{good}");
    }
}

#[test]
fn a_type_or_module_with_an_empty_name_is_found() {
    check(
        "names",
        &[(
            "a.rs",
            "pub struct SessionManager;\npub(crate) enum KeyHelper {}\ntrait StringUtil {}\n\
             type PageInfo = u8;\nmod utils;\npub struct Database;\nuse std::sync::Manager;\n\
             // struct Helper\npub struct Managers;\n",
        )],
        &[
            "a.rs:1: `struct SessionManager`",
            "a.rs:2: `enum KeyHelper`",
            "a.rs:3: `trait StringUtil`",
            "a.rs:4: `type PageInfo`",
            "a.rs:5: `mod utils`",
        ],
    );
}

#[test]
fn a_word_of_a_higher_layer_is_found_in_every_spelling() {
    check(
        "layer-words",
        &[
            (
                "crates/kernel/src/lib.rs",
                "//! Knows no session.\n/// Starts sessions.\nfn run_tool() {}\nstruct ModelScope;\nconst AGENT: u8 = 0;\n\
                 fn stool() {}\nfn return_now() {}\n",
            ),
            (
                "crates/rpc/src/lib.rs",
                "enum A { UnknownSession, SessionUnavailable }\nfn session() {}\n",
            ),
            (
                "crates/harness/src/a.rs",
                "//! A.\nuse bezel_plugin::Facet;\n",
            ),
            (
                "crates/harness/tests/it/main.rs",
                "use bezel_plugin::Facet;\n",
            ),
            ("crates/store/src/lib.rs", "//! One session.\n"),
        ],
        &[
            "crates/harness/src/a.rs:2: `bezel_plugin`",
            "crates/harness/src/a.rs:2: `Facet`",
            "crates/kernel/src/lib.rs:2: `sessions`",
            "crates/kernel/src/lib.rs:3: `run_tool`",
            "crates/kernel/src/lib.rs:4: `ModelScope`",
            "crates/kernel/src/lib.rs:5: `AGENT`",
            "crates/rpc/src/lib.rs:2: `session`",
        ],
    );
}

#[test]
fn a_path_of_a_machine_is_found_outside_tests() {
    let mut tree = tree(&[
        ("README.md", "see /home/someone/notes\nsee src/home/page\n"),
        (
            "a.rs",
            "const A: &str = \"/build/x\";\n#[cfg(test)]\nconst B: &str = \"/build/x\";\n",
        ),
        (
            "b.rs",
            "const A: &str = \"/rebuild/x\";\nconst B: &str = \"out/build/x\";\n",
        ),
        ("tests/c.rs", "const A: &str = \"/build/x\";\n"),
    ]);
    tree.surroundings = vec!["/build/".to_owned()];
    let found = documents::machine_paths(&tree);
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, ["README.md:1: `/home/`", "a.rs:1: `/build/`"]);
}

/// The documents of a sound repository, less some, with some replaced.
fn documents<'a>(changes: &[(&'a str, Option<&'a str>)]) -> Vec<(&'a str, &'a str)> {
    let sound = [
        ("README.md", "run `cargo xtask test`\n"),
        ("ARCHITECTURE.md", "x\n"),
        (
            ".ci/run",
            "#!/bin/sh\nset -e\ncd here\nexec cargo xtask test\n",
        ),
        ("CHANGELOG.md", "x\n"),
        ("CONTRIBUTING.md", "x\n"),
        ("LICENSE-MIT", "x\n"),
        ("LICENSE-APACHE", "x\n"),
        ("docs/edges.txt", "x\n"),
    ];
    sound
        .into_iter()
        .filter_map(
            |(name, text)| match changes.iter().find(|(changed, _)| *changed == name) {
                Some((_, change)) => change.map(|text| (name, text)),
                None => Some((name, text)),
            },
        )
        .collect()
}

#[test]
fn missing_documents_and_a_ci_that_does_more_than_the_readme_says_are_found() {
    check("documents", &documents(&[]), &[]);
    check(
        "documents",
        &documents(&[("CHANGELOG.md", None), ("README.md", Some("nothing\n"))]),
        &[
            "CHANGELOG.md: missing",
            "README.md: does not show `cargo xtask test`",
        ],
    );
    for script in [
        "exec cargo test\n",
        "cargo xtask test --group fmt\n",
        "cargo build\ncargo xtask test\n",
        "cargo xtask test || true\n",
    ] {
        check(
            "documents",
            &documents(&[(".ci/run", Some(script))]),
            &[".ci/run: must call `cargo xtask test` and that alone"],
        );
    }
}

#[test]
fn a_dependency_without_a_reason_or_a_user_is_found() {
    check(
        "dependencies",
        &[
            (
                "Cargo.toml",
                "[workspace.package]\nedition = \"2024\"\n[workspace.dependencies]\nserde = \"1\"\n\
                 serde_json = { version = \"1\" }\n# Members\nbezel-rpc = { path = \"x\" }\n\
                 toml = \"1\"\n",
            ),
            (
                "CHANGELOG.md",
                "| Crate | Reason |\n|---|---|\n| serde, toml | data |\n",
            ),
            (
                "crates/a/Cargo.toml",
                "[dependencies]\nserde.workspace = true\nserde_json = { workspace = true }\n",
            ),
        ],
        &[
            "Cargo.toml:5: `serde_json` has no reason in CHANGELOG.md",
            "Cargo.toml:8: no crate uses `toml`",
        ],
    );
}

#[test]
fn a_link_to_nowhere_is_found() {
    check(
        "links",
        &[
            (
                "README.md",
                "# A title, here\n[a](docs/a.md) [b](docs/b.md) [c](https://x.y/z)\n\
              [d](docs/) [e](#a-title-here) [f](#other) [g](docs/a.md#nope) [`h`](gone.md)\n\
              `[i](code.md)`\n```\n[j](fenced.md)\n```\n",
            ),
            (
                "docs/a.md",
                "[up](../README.md#a-title-here) [out](../../x.md)\n",
            ),
        ],
        &[
            "README.md:2: `docs/b.md`: no such file",
            "README.md:3: `#other`: no such heading",
            "README.md:3: `docs/a.md#nope`: no such heading",
            "README.md:3: `gone.md`: no such file",
            "docs/a.md:1: `../../x.md` leaves the repository",
        ],
    );
}

#[test]
fn a_design_note_without_a_row_is_found() {
    let table = "| Note | Decision |\n|---|---|\n| [0001](0001-a.md) | a |\n";
    check(
        "design-notes",
        &[
            ("docs/design/README.md", table),
            ("docs/design/0001-a.md", "# 0001: A\n"),
            ("docs/design/0002-b.md", "# 0002: B\n"),
        ],
        &["docs/design/README.md: no row for `0002-b.md`"],
    );
}

#[test]
fn an_invariant_that_nothing_holds_is_found() {
    let walls: Vec<String> = wall_names().map(|name| format!("`{name}`")).collect();
    let sound = format!(
        "## Invariants of absence\n\n- All walls.\n  Held by {}.\n- A rule. Held by `sizes`.\n\
         - A test. Held by `a_thing_holds`.\n\n## Other\n\n- not an invariant\n",
        walls.join(", ")
    );
    let test = ("a/tests/it.rs", "#[test]\nfn a_thing_holds() {}\n");
    check("invariants", &[("ARCHITECTURE.md", &sound), test], &[]);
    let broken = sound
        .replace("`a_thing_holds`", "`a_thing_that_is_gone`")
        .replace("A rule. Held by `sizes`", "A wish")
        .replace("`kernel-alone`, ", "");
    check(
        "invariants",
        &[("ARCHITECTURE.md", &broken), test],
        &[
            "ARCHITECTURE.md:5: no `Held by`",
            "ARCHITECTURE.md:6: `a_thing_that_is_gone` is no wall, rule or test",
            "ARCHITECTURE.md: no invariant names the wall `kernel-alone`",
        ],
    );
}

fn wall_names() -> impl Iterator<Item = &'static str> {
    crate::edges::WALLS.iter().map(|wall| wall.name)
}
