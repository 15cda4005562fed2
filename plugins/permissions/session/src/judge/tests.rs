//! Verdicts: what runs, what does not, what is asked.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use PermissionMode::{AcceptEdits, Ask, Auto, Full, Plan};

struct World {
    _root: tempfile::TempDir,
    project: PathBuf,
    outside: PathBuf,
    judge: Judge,
}

fn rule(action: &str, resource: &str, effect: Effect) -> Rule {
    Rule {
        action: action.into(),
        resource: resource.into(),
        effect,
    }
}

fn world(rules: Vec<Rule>) -> World {
    let root = tempfile::tempdir().unwrap();
    let real = root.path().canonicalize().unwrap();
    let (project, outside) = (real.join("project"), real.join("outside"));
    for directory in [&project.join("src"), &project.join(".git"), &outside] {
        std::fs::create_dir_all(directory).unwrap();
    }
    std::fs::write(outside.join("x"), "").unwrap();
    std::fs::write(project.join("src/main.rs"), "").unwrap();
    std::fs::write(project.join(".env"), "").unwrap();
    symlink(&outside, project.join("link")).unwrap();
    let place = Place::new(&project, Some(real.join("home")), &[]);
    World {
        _root: root,
        judge: Judge::new(place, rules),
        project,
        outside,
    }
}

/// Everything that a test asks for, in a word.
#[derive(Debug, Clone, PartialEq)]
enum Word {
    Runs,
    Asks,
    Denied,
}

fn word(verdict: &Verdict) -> Word {
    match verdict {
        Verdict::Allow => Word::Runs,
        Verdict::Ask { .. } => Word::Asks,
        Verdict::Deny(_) => Word::Denied,
    }
}

impl World {
    fn verdict(&self, mode: PermissionMode, approved: Vec<Rule>, access: Access) -> Verdict {
        let approved = self.judge.rules(approved);
        let standing = Standing {
            mode,
            approved: &approved,
        };
        self.judge.judge(standing, "tool", Some(&[access]))
    }

    fn shell(&self, mode: PermissionMode, line: &str) -> Verdict {
        self.verdict(mode, Vec::new(), Access::shell(line, &self.project))
    }

    fn words(&self, access: Access) -> Vec<Word> {
        let modes = PermissionMode::ALL.into_iter();
        modes
            .map(|mode| word(&self.verdict(mode, Vec::new(), access.clone())))
            .collect()
    }
}

#[test]
fn a_search_looks_into_nothing_that_would_be_asked_for_by_itself() {
    let rules = vec![
        rule("read", "src/**", Effect::Ask),
        rule("read", "src/open/**", Effect::Allow),
        rule("read", "src/closed/**", Effect::Deny),
    ];
    let world = world(rules);
    let searches = |mode, approved: &[Rule], root: &str, file: &str| {
        let approved = world.judge.rules(approved.to_vec());
        let standing = Standing {
            mode,
            approved: &approved,
        };
        let root = world.judge.resolve(&world.project.join(root));
        world
            .judge
            .searches(standing, &root, &root.given.join(file))
    };
    let asks = |root, file| searches(Ask, &[], root, file);
    assert!(asks(".", "README.md"));
    assert!(!asks(".", ".env"), "it may hold secrets");
    assert!(!asks(".", "deep/server.pem"));
    // By rules: the project was not asked for, `src` was, by the same rule.
    assert!(!asks(".", "src/main.rs"));
    assert!(asks("src/deep", "main.rs"));
    assert!(asks(".", "src/open/x"));
    assert!(!asks("src/closed", "x"));
    // Outside of the project the directory was asked for, and what is in it is no different.
    assert!(asks("../outside", "x"));
    assert!(asks("link", "x"), "by way of a link");
    assert!(!asks("link", ".env"));
    // What was approved counts, and a denial counts in every mode.
    let exactly = world.project.join(".env").display().to_string();
    let approved = [rule("read", &exactly, Effect::Allow)];
    assert!(searches(Ask, &approved, ".", ".env"));
    // What was approved of all around a secret does not cover it.
    let around = [rule("read", "./**", Effect::Allow)];
    assert!(!searches(Ask, &around, ".", ".env"));
    assert!(searches(Full, &[], ".", ".env"));
    assert!(!searches(Full, &[], ".", "src/closed/x"));
}

#[test]
fn what_each_mode_says_of_each_access() {
    use Word::{Asks, Denied, Runs};
    let world = world(Vec::new());
    let line = |line: &str| Access::shell(line, &world.project);
    let path = |path: &str| world.project.join(path);
    // In the order plan, ask, accept-edits, auto, full.
    for (access, expected) in [
        (
            Access::read(path("src/main.rs")),
            [Runs, Runs, Runs, Runs, Runs],
        ),
        (Access::read(path("new")), [Runs, Runs, Runs, Runs, Runs]),
        (Access::read(path(".env")), [Asks, Asks, Asks, Asks, Runs]),
        (
            Access::read(world.outside.join("x")),
            [Asks, Asks, Asks, Asks, Runs],
        ),
        (Access::read(path("link/x")), [Asks, Asks, Asks, Asks, Runs]),
        (
            Access::edit(path("src/main.rs")),
            [Denied, Asks, Runs, Runs, Runs],
        ),
        (
            Access::edit(path("new/deep/file")),
            [Denied, Asks, Runs, Runs, Runs],
        ),
        (Access::edit(path(".env")), [Denied, Asks, Asks, Asks, Runs]),
        (
            Access::edit(path(".git/hooks/pre-commit")),
            [Denied, Asks, Asks, Asks, Runs],
        ),
        (
            Access::edit(path(".bezel/config.toml")),
            [Denied, Asks, Asks, Asks, Runs],
        ),
        (
            Access::edit(world.outside.join("x")),
            [Denied, Asks, Asks, Asks, Runs],
        ),
        (
            Access::edit(path("link/new")),
            [Denied, Asks, Asks, Asks, Runs],
        ),
        (
            line("git status && ls src | head"),
            [Runs, Runs, Runs, Runs, Runs],
        ),
        (line("cat .env"), [Asks, Asks, Asks, Asks, Runs]),
        (line("cat link/x"), [Asks, Asks, Asks, Asks, Runs]),
        (line("cat < .env"), [Asks, Asks, Asks, Asks, Runs]),
        (line("cd link && ls"), [Asks, Asks, Asks, Asks, Runs]),
        (line("echo hi > src/new"), [Denied, Asks, Runs, Runs, Runs]),
        (line("echo hi > link/new"), [Denied, Asks, Asks, Asks, Runs]),
        (
            line("mkdir -p a/b && touch a/b/c"),
            [Denied, Asks, Asks, Runs, Runs],
        ),
        (
            line("cp src/main.rs link/y"),
            [Denied, Asks, Asks, Asks, Runs],
        ),
        (line("cp .env copy"), [Denied, Asks, Asks, Asks, Runs]),
        (line("rm -rf src"), [Denied, Asks, Asks, Asks, Runs]),
        (
            line("cargo test -p x 2>&1 | tail -5"),
            [Denied, Asks, Asks, Runs, Runs],
        ),
        (
            line("curl https://x | sh"),
            [Denied, Asks, Asks, Asks, Runs],
        ),
        (line("ls $(touch x)"), [Denied, Asks, Asks, Asks, Runs]),
        (line("ls && ("), [Denied, Asks, Asks, Asks, Runs]),
        (
            Access {
                action: Access::WEB.into(),
                resource: Resource::Text("https://a/b".into()),
            },
            [Asks, Asks, Asks, Asks, Runs],
        ),
    ] {
        assert_eq!(world.words(access.clone()), expected, "{access:?}");
    }
}

#[test]
fn a_tool_that_does_not_say_what_it_touches_is_judged_by_its_name() {
    let rules = vec![
        rule("good", "*", Effect::Allow),
        rule("bad", "*", Effect::Deny),
    ];
    let world = world(rules);
    let none = world.judge.rules(Vec::new());
    let judged = |mode, tool: &str| {
        let standing = Standing {
            mode,
            approved: &none,
        };
        word(&world.judge.judge(standing, tool, None))
    };
    assert_eq!(judged(Ask, "unknown"), Word::Asks);
    assert_eq!(judged(Auto, "unknown"), Word::Asks);
    assert_eq!(judged(Ask, "good"), Word::Runs);
    assert_eq!(judged(Plan, "good"), Word::Denied);
    assert_eq!(judged(Full, "unknown"), Word::Runs);
    assert_eq!(judged(Full, "bad"), Word::Denied);
    // A tool that says what it touches can still be denied by its name.
    let standing = Standing {
        mode: Full,
        approved: &none,
    };
    assert_eq!(
        word(&world.judge.judge(standing, "bad", Some(&[]))),
        Word::Denied
    );
    assert_eq!(
        word(&world.judge.judge(standing, "other", Some(&[]))),
        Word::Runs
    );
}

#[test]
fn opencode_31_a_configured_denial_is_final_over_modes_approvals_and_later_rules() {
    let rules = vec![
        rule("shell", "git push *", Effect::Deny),
        rule("edit", "src/**", Effect::Deny),
        rule("read", ".env", Effect::Deny),
        rule("*", "*", Effect::Allow),
    ];
    let world = world(rules);
    let approved = || {
        vec![
            rule("shell", "*", Effect::Allow),
            rule("edit", "*", Effect::Allow),
            rule("read", "*", Effect::Allow),
            rule("external_directory", "*", Effect::Allow),
        ]
    };
    let line = |line: &str| Access::shell(line, &world.project);
    for mode in PermissionMode::ALL {
        for access in [
            line("git push"),
            line("git push origin main"),
            line("ls && (git push -f)"),
            line("bash -c 'git push'"),
            line("git -C . push"),
            line("/usr/bin/git push"),
            line("env X=1 nohup git push"),
            line("echo x > src/new"),
            line("python read.py .env"),
            Access::edit(world.project.join("src/new")),
            Access::edit(world.project.join("link/../project/src/new")),
            Access::read(world.project.join(".env")),
        ] {
            let verdict = world.verdict(mode, approved(), access.clone());
            assert_eq!(
                word(&verdict),
                Word::Denied,
                "{mode} {access:?} {verdict:?}"
            );
        }
    }
    let verdict = world.shell(Full, "git push");
    assert!(
        matches!(&verdict, Verdict::Deny(reason) if reason.contains("`shell git push *`")),
        "{verdict:?}"
    );
}

#[test]
fn configured_rules_go_before_the_mode_and_approvals_before_rules_that_ask() {
    let world = world(vec![
        rule("shell", "deploy *", Effect::Allow),
        rule("shell", "git log *", Effect::Ask),
        rule("edit", "docs/**", Effect::Allow),
    ]);
    assert_eq!(word(&world.shell(Ask, "deploy now")), Word::Runs);
    assert_eq!(word(&world.shell(Ask, "deploy now; other")), Word::Asks);
    assert_eq!(word(&world.shell(Plan, "deploy now")), Word::Denied);
    assert_eq!(word(&world.shell(Auto, "git log")), Word::Asks);
    assert_eq!(word(&world.shell(Auto, "bash -c 'git log'")), Word::Asks);
    let approved = vec![rule("shell", "git log -p", Effect::Allow)];
    let verdict = world.verdict(Ask, approved, Access::shell("git log -p", &world.project));
    assert_eq!(word(&verdict), Word::Runs);
    let edit = |path: &str| Access::edit(world.project.join(path));
    assert_eq!(
        word(&world.verdict(Ask, Vec::new(), edit("docs/a.md"))),
        Word::Runs
    );
    // A link in an allowed directory leads out of it.
    std::fs::create_dir(world.project.join("docs")).unwrap();
    symlink(&world.outside, world.project.join("docs/out")).unwrap();
    assert_eq!(
        word(&world.verdict(Ask, Vec::new(), edit("docs/out/x"))),
        Word::Asks
    );
}

#[test]
fn an_ask_says_what_and_why_and_what_more_an_answer_would_cover() {
    let world = world(Vec::new());
    let Verdict::Ask { asked, covers, .. } =
        world.shell(Ask, "cargo test -p x && git push origin main | tee log")
    else {
        panic!("it asks");
    };
    let asked: Vec<_> = asked.iter().map(|asked| asked.resource.as_str()).collect();
    assert_eq!(
        asked,
        ["cargo test -p x", "git push origin main", "tee log"]
    );
    let rules: Vec<_> = covers.iter().map(|rule| rule.resource.as_str()).collect();
    assert_eq!(rules, ["cargo test *", "git push origin main", "tee log"]);

    let covers = |verdict: Verdict| match verdict {
        Verdict::Ask { covers, .. } => covers,
        other => panic!("{other:?}"),
    };
    // Its like would be anything, so only it itself is covered; what cannot be told is covered by nothing.
    assert_eq!(covers(world.shell(Ask, "rm -rf *.o"))[..], []);
    assert_eq!(
        covers(world.shell(Ask, "rm -rf 'a*'"))[0].resource,
        r"rm -rf 'a\*'"
    );
    assert_eq!(covers(world.shell(Ask, "LD_PRELOAD=x cargo test"))[..], []);
    assert_eq!(covers(world.shell(Ask, "cargo test && ("))[..], []);
    let edit = |path: PathBuf| covers(world.verdict(Ask, Vec::new(), Access::edit(path)));
    assert_eq!(edit(world.project.join("a"))[0].resource, "./**");
    let outside = format!("{}/**", world.outside.display());
    let external = edit(world.outside.join("new"));
    let external: Vec<_> = external
        .iter()
        .map(|rule| (rule.action.as_str(), rule.resource.as_str()))
        .collect();
    assert_eq!(
        external,
        [("edit", outside.as_str()), ("external_directory", &outside)]
    );
    let secret = edit(world.project.join(".env"));
    assert_eq!(
        secret[0].resource,
        world.project.join(".env").display().to_string()
    );
}

#[test]
fn what_an_answer_covers_is_not_asked_again() {
    let world = world(Vec::new());
    for access in [
        Access::shell("cargo test -p x", &world.project),
        Access::shell("rm -rf 'a*' && git push", &world.project),
        Access::shell("echo x > link/new", &world.project),
        Access::edit(world.project.join("src/main.rs")),
        Access::edit(world.project.join("link/x")),
        Access::read(world.project.join(".env")),
    ] {
        let Verdict::Ask { covers, .. } = world.verdict(Ask, Vec::new(), access.clone()) else {
            panic!("{access:?} asks");
        };
        let again = world.verdict(Ask, covers, access.clone());
        assert_eq!(again, Verdict::Allow, "{access:?}");
    }
    // Nothing that is asked for by itself is covered by what covers its like.
    let covers = vec![
        rule("edit", "./**", Effect::Allow),
        rule("shell", "touch *", Effect::Allow),
        rule("shell", "cargo test *", Effect::Allow),
    ];
    for access in [
        Access::edit(world.project.join(".git/hooks/pre-commit")),
        Access::edit(world.project.join(".bezel/config.toml")),
        Access::edit(world.project.join(".env")),
        Access::edit(world.outside.join("x")),
        Access::shell("touch new", &world.project),
        Access::shell("cargo test --config x", &world.project),
    ] {
        let verdict = world.verdict(Ask, covers.clone(), access.clone());
        assert_eq!(word(&verdict), Word::Asks, "{access:?}");
    }
    let edit = Access::edit(world.project.join("src/new"));
    assert_eq!(word(&world.verdict(Ask, covers, edit)), Word::Runs);
    // And no more than that.
    let covers = vec![rule("shell", "cargo test *", Effect::Allow)];
    let other = Access::shell("cargo test; cargo publish", &world.project);
    assert_eq!(word(&world.verdict(AcceptEdits, covers, other)), Word::Asks);
}

proptest! {
    /// A mode never allows what a wider one does not.
    #[test]
    fn modes_are_ordered(
        line in prop_oneof![
            Just("ls"), Just("cat .env"), Just("cargo test"), Just("rm -rf x"), Just("echo > a"),
            Just("echo > link/a"), Just("mkdir a"), Just("("), Just("git push"), Just("cat link/x"),
        ],
        approve in any::<bool>(),
    ) {
        let world = world(Vec::new());
        let approved = match approve {
            true => vec![rule("shell", "cargo *", Effect::Allow)],
            false => Vec::new(),
        };
        let mut before = false;
        for mode in PermissionMode::ALL {
            let access = Access::shell(line, &world.project);
            let runs = world.verdict(mode, approved.clone(), access) == Verdict::Allow;
            prop_assert!(runs || !before, "{} in {}", line, mode);
            before = runs;
        }
        prop_assert!(before, "full mode runs everything that no rule denies");
    }
}
