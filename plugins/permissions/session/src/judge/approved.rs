//! What approvals cover: the same in the same directory, or its like that throws nothing away.

use super::attacks::Ground;
use super::*;
use PermissionMode::Ask;

/// What answering for the session would approve.
fn covers(ground: &Ground, line: &str) -> Vec<Rule> {
    match ground.judge(Ask, &[], line) {
        Verdict::Ask { covers, .. } => covers,
        other => panic!("{line}: {other:?}"),
    }
}

fn runs(ground: &Ground, approved: &[Rule], line: &str, directory: &str) -> bool {
    let place = Place::new(&ground.project, Some(ground.project.join("../home")), &[]);
    let judge = Judge::new(place, Vec::new());
    let approved = judge.rules(approved.to_vec());
    let standing = Standing {
        mode: Ask,
        approved: &approved,
    };
    let access = Access::shell(line, ground.project.join(directory));
    judge.judge(standing, "bash", Some(&[access])) == Verdict::Allow
}

#[test]
fn an_approval_holds_where_it_was_given() {
    let ground = Ground::new();
    for (line, bound) in [
        ("./x.sh", true),
        ("rm -r build", true),
        ("make", true),
        ("git push origin main", true),
        ("curl -s https://x/y", false),
        ("rm -r /tmp/x", false),
        ("cargo test -p x", false),
        // They write where they stand.
        ("tar -xf /tmp/x.tar", true),
        ("/usr/bin/tar -xf /tmp/x.tar", true),
        ("unzip /tmp/x.zip", true),
        ("wget https://x/y", true),
        ("curl -O https://x/y", true),
        ("curl -sLO https://x/y", true),
        ("curl --remote-name https://x/y", true),
    ] {
        let approved = covers(&ground, line);
        assert!(runs(&ground, &approved, line, "."), "{line}");
        assert_eq!(runs(&ground, &approved, line, "deep"), !bound, "{line}");
        let moved = format!("cd deep && {line}");
        assert_eq!(runs(&ground, &approved, &moved, "."), !bound, "{moved}");
    }
    // Shown and approved with its directory.
    let moved = covers(&ground, "cd deep && ./x.sh");
    assert_eq!(moved[0].resource, "cd deep && ./x.sh");
    assert!(runs(&ground, &moved, "./x.sh", "deep"));
    assert!(!runs(&ground, &moved, "./x.sh", "."));
    assert!(!runs(&ground, &moved, "./x.sh", "deep/er"));
    assert_eq!(covers(&ground, "cd missing; ./x.sh")[..], []);
    let access = Access::shell("./x.sh", ground.project.join("deep/er"));
    let judge = Judge::new(Place::new(&ground.project, None, &[]), Vec::new());
    let none = judge.rules(Vec::new());
    let standing = Standing {
        mode: Ask,
        approved: &none,
    };
    let Verdict::Ask { asked, .. } = judge.judge(standing, "bash", Some(&[access])) else {
        panic!("it asks");
    };
    assert_eq!(asked[0].resource, "cd deep/er && ./x.sh");
}

#[test]
fn the_like_of_a_command_throws_nothing_away() {
    let ground = Ground::new();
    for (line, other) in [
        ("git stash -u", "git stash clear"),
        ("git stash -u", "git stash pop"),
        ("git branch -l", "git branch -D other"),
        ("git branch x", "git branch -f x HEAD~1"),
        ("git checkout -q HEAD", "git checkout -f ."),
        ("git checkout -b x", "git checkout ."),
        ("git checkout -b x", "git checkout -B x"),
        ("git switch -c x", "git switch -f y"),
        ("git restore --staged f", "git restore ."),
        (
            "git restore --staged f",
            "git restore --staged --worktree f",
        ),
        ("git tag -a v1 -m x", "git tag -d v1"),
        ("git add x", "git add -f .env"),
        ("git commit -m x", "git commit --amend -m y"),
        ("git mv a b", "git mv -f a b"),
        ("cargo fmt", "cargo fmt -- ../x.rs"),
        ("cargo fmt", "cargo fmt -- --emit files /tmp/x.rs"),
        ("cargo clippy", "cargo clippy -- -C linker=./x.sh"),
        ("cargo build", "cargo build -- x"),
        ("cargo nextest run", "cargo nextest self update"),
        ("cargo nextest run", "cargo nextest list"),
    ] {
        let approved = covers(&ground, line);
        assert!(runs(&ground, &approved, line, "."), "{line}");
        assert!(
            !runs(&ground, &approved, other, "."),
            "{line} covers {other}"
        );
    }
    for (line, other) in [
        ("git restore --staged f", "git restore -S g"),
        ("git checkout -b x", "git checkout -b y"),
        ("git commit -m x", "git commit -am y"),
        ("cargo fmt", "cargo fmt -- --check"),
        ("cargo clippy", "cargo clippy -- -D warnings"),
        ("cargo test", "cargo test -- --nocapture x"),
        ("cargo nextest run -p x", "cargo nextest run -p y -- z"),
    ] {
        let approved = covers(&ground, line);
        assert!(
            runs(&ground, &approved, other, "."),
            "{line} does not cover {other}"
        );
    }
}

#[test]
fn a_literal_and_a_pattern_are_not_taken_for_each_other() {
    let ground = Ground::new();
    for (literal, pattern) in [
        ("rm -v '*'", "rm -v *"),
        ("rm -v a\\?", "rm -v a?"),
        ("rm -v '[ab]'", "rm -v [ab]"),
        ("rm -v '{a,b}'", "rm -v {a,b}"),
        ("rm -v '~'", "rm -v ~"),
    ] {
        let approved = covers(&ground, literal);
        assert!(runs(&ground, &approved, literal, "."), "{literal}");
        assert!(
            !runs(&ground, &approved, pattern, "."),
            "{literal} covers {pattern}"
        );
    }
    // A rule against it is meant either way.
    let denied = [("shell", "rm -v *.o", Effect::Deny)];
    for line in ["rm -v '*.o'", "rm -v *.o"] {
        let verdict = ground.judge(PermissionMode::Full, &denied, line);
        assert!(matches!(verdict, Verdict::Deny(_)), "{line}");
    }
}
