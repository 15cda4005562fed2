//! Lines that agents write all day: what only looks runs unasked in every mode.

use super::attacks::Ground;
use super::*;
use PermissionMode::Plan;

#[test]
fn what_agents_write_all_day_is_not_asked_for() {
    let ground = Ground::new();
    for secret in ["id_rsa", ".env"] {
        std::fs::remove_file(ground.project.join(secret)).unwrap();
    }
    std::fs::create_dir_all(ground.project.join(".git/objects")).unwrap();
    std::fs::write(ground.project.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    for line in [
        "ls",
        "ls -la src/",
        "ls -la && pwd",
        "pwd && ls -R src | head -50",
        "cat a.txt b.txt | head -20",
        "cat -n src/main.rs | sed -n '1,40p'",
        "cat \"a.txt\"",
        "cat src/*.rs",
        "cat a.txt; echo; cat b.txt",
        "head -n 20 a.txt; tail -n 5 b.txt",
        "tail -20 a.txt",
        "wc -l src/main.rs a.txt",
        "git status",
        "git status && git diff",
        "git status --short; git log --oneline -10",
        "git log --oneline -n 20 --stat",
        "git log --format='%h %an %s' -5",
        "git log --pretty=format:'%h %s' --since=2024-01-01",
        "git diff HEAD~1 -- src/main.rs",
        "git diff --stat main...HEAD",
        "git show HEAD:src/main.rs",
        "git show --stat HEAD",
        "git blame -L 1,5 src/main.rs",
        "git branch -a",
        "git ls-files | head",
        "git rev-parse HEAD",
        "git grep -n main -- src",
        "cd src && git log --oneline -3",
        "rg -n \"foo\" src | head",
        "rg -n 'fn (main|test)' --type rust",
        "rg -l 'TODO|FIXME' .",
        "rg -n \"a\\.b\\(\" src",
        "rg --files | rg '\\.rs$'",
        "rg -n \"^foo$\" src",
        "grep -rn \"fn main\" src/ --include='*.txt'",
        "grep -rn --include='*.rs' 'fn main' .",
        "grep -n 'it' a.txt || echo none",
        "grep -c '' a.txt",
        "grep -E \"^(a|b)\" a.txt",
        "find . -name '*.rs'",
        "find . -name \"*.rs\" -not -path \"./target/*\" | sort | head -30",
        "find . -type f \\( -name '*.rs' -o -name '*.txt' \\)",
        "find src -type f | wc -l",
        "find . -maxdepth 1 -type d ! -name target",
        "sort a.txt | uniq -c | sort -rn | head -5",
        "cut -d: -f1 a.txt | sort -u",
        "tr 'a-z' 'A-Z' < a.txt",
        "diff a.txt b.txt",
        "diff -u a.txt b.txt | head -40",
        "ls src 2>&1",
        "ls src > /dev/null",
        "ls missing 2>/dev/null || echo missing",
        "cat a.txt > /dev/null 2>&1 && echo readable",
        "cat a.txt &> /dev/null; echo $?",
        "echo \"exit: $?\"",
        "echo \"--- src ---\" && ls src",
        "echo 'it'\\''s'",
        "which cargo rustc",
        "date +%Y-%m-%d",
        "uname -a; whoami",
        "du -sh src | sort -h",
        "file src/main.rs",
        "stat -c '%s %n' a.txt",
        "jq -r '.name' a.txt",
        "for f in src/*.rs; do echo \"== $f\"; done",
        "for i in 1 2 3; do echo \"$i\"; done | tail -1",
        "if [ -d src ]; then ls src; fi",
        "test -f a.txt && cat a.txt",
        "[ -f a.txt ] && echo yes || echo no",
        "(cd src && ls)",
        "cd src && ls && cd .. && ls",
        "ls \\\n  -la \\\n  src",
        "# what is there\nls -la\n# and what it holds\ncat a.txt",
        "echo \"Grüße, ‘quoted’ – …\"",
        "cat <<'EOF'\nfirst $x `y`\nEOF",
        "cat << EOF\nfirst $x\nEOF\nls",
        "printf '%s\\n' a b",
        "timeout 10 rg -n main src",
        "FOO=bar; echo \"${FOO}\"",
        "git --no-pager diff --cached --stat",
    ] {
        let expected = match line.starts_with("FOO") || line.starts_with("cat << EOF") {
            // A name in capitals may decide what programs do; a blank before the delimiter is no plain spelling.
            true => continue,
            false => Verdict::Allow,
        };
        assert_eq!(ground.judge(Plan, &[], line), expected, "{line}");
    }
}
