//! Lines that were made to run, read or write what nobody allowed.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;
use PermissionMode::{Ask, Auto, Full, Plan};

/// A project with a link, a secret beside it and one within.
pub(super) struct Ground {
    _root: tempfile::TempDir,
    pub(super) project: PathBuf,
}

impl Ground {
    pub(super) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let project = root.path().canonicalize().unwrap().join("project");
        std::fs::create_dir_all(project.join("deep/er")).unwrap();
        std::fs::create_dir_all(project.join("src")).unwrap();
        for (name, text) in [
            ("a.txt", "hi\nSECRET no\n"),
            ("b.txt", "b\n"),
            ("deep/x.txt", "x\n"),
            ("src/main.rs", "fn main() {}\n"),
            ("../secret.txt", "SECRET\n"),
            (".env", "K=SECRET\n"),
            ("id_rsa", "SECRET\n"),
        ] {
            std::fs::write(project.join(name), text).unwrap();
        }
        symlink("deep/er", project.join("in")).unwrap();
        Ground {
            _root: root,
            project,
        }
    }

    pub(super) fn judge(
        &self,
        mode: PermissionMode,
        rules: &[(&str, &str, Effect)],
        line: &str,
    ) -> Verdict {
        let rules = rules.iter().map(|(action, resource, effect)| Rule {
            action: (*action).into(),
            resource: (*resource).into(),
            effect: *effect,
        });
        let place = Place::new(&self.project, Some(self.project.join("../home")), &[]);
        let judge = Judge::new(place, rules.collect());
        let approved = judge.rules(Vec::new());
        let standing = Standing {
            mode,
            approved: &approved,
        };
        judge.judge(
            standing,
            "bash",
            Some(&[Access::shell(line, &self.project)]),
        )
    }
}

#[test]
fn what_would_run_something_unasked_does_not() {
    let ground = Ground::new();
    for line in [
        "trap -- 'touch x' EXIT",
        "trap 'touch x' EXIT",
        "jobs -x touch x",
        "S='a[$(touch x)]'; let S",
        "S='a[$(touch x)]'; test -v \"$S\"",
        "test -v 'a[$(touch x)]'",
        "[ -v 'a[$(touch x)]' ]",
        "test \"$s\" \"$t\"",
        "[ $x ]",
        "[ \"$@\" ]",
        "printf -v 'a[$(touch x)]' x",
        "printf -va x",
        "read 'a[$(touch x)]' <<< x",
        "declare -i 'y=a[$(touch x)]'",
        "declare -n r=PATH; r=.; ls",
        "local -n r=PATH",
        "[[ 'a[$(touch x)]' -eq 0 ]]",
        "[[ $x -eq 0 ]]",
        "[[ -v x ]]",
        "x='a[$(touch x)]'; ((x))",
        "echo $((x))",
        "x=S; echo ${!x}",
        "echo ${x@P}",
        "echo ${x:y}",
        "echo ${a[x]}",
        "a[x]=1",
        "a=([x]=1)",
        "unset 'a[x]'",
        "set -- x",
        "shopt -s expand_aliases",
        "alias ls='touch x'",
        "mapfile -C 'touch x' -c 1 < a.txt",
        "enable -f ./x y",
        "hash -p ./x ls; ls",
        "command hash -p ./x ls",
        "builtin eval \"$x\"",
        "source a.txt",
        ". a.txt",
        "env -iS'touch x' ls",
        "env -vS'touch x'",
        "env -vS 'touch x'",
        "env --split='touch x' ls",
        "env -C / ls",
        "git grep --open='touch x;' hi",
        "git grep -O'touch x;' hi",
        "git grep --ope hi",
        "git log --outp=x",
        "git log --format --output=x",
        "git log -n --output=x",
        "git diff --no-index a.txt b.txt",
        "git grep --no-index SECRET",
        "sort --outp=x a.txt",
        "sort -ox a.txt",
        "sort -uo x a.txt",
        "sort --compress-prog=./x a.txt",
        "date --se=2020-01-01",
        "date 010100002020",
        "/usr/bin/time -o/tmp/x ls",
        "time -o x ls",
        "command time --output=/tmp/x ls",
        "find . -maxdepth 0 -exec git grep -e + -O'touch x;' \\;",
        "find . -fprintf x hi",
        "find . -exec touch x \\;",
        "find . -exec true \\; -exec touch x \\;",
        "find . -execdir touch x \\;",
        "export \"PATH=.\"; ls",
        "command export PATH=.; ls",
        "LANG=C read -r PATH <<< .; ls",
        "printf -vPATH . ; ls",
        "x='5 touch pwned'; timeout $x ls",
        "timeout \"$x\" ls",
        "git grep *",
        "git branch --list *",
        "find . -print ?delete",
        "find . ?delete -print *",
        "PATH=. ls",
        "PATH=.; ls",
        "for PATH in .; do ls; done",
        "BASH_ENV=./x bash -c ls",
        "env PATH=. ls",
        "export $x; ls",
        "ls() { touch x; }; ls",
        "function cat { touch x; }; cat a.txt",
        "uniq a.txt x",
        "xxd a.txt x",
        "xxd - -p",
        "xxd -r a.txt x",
        "tree -o x",
        "rg --pre touch x",
        "rg --pre=./x x",
        "sed -i s/a/b/ a.txt",
        "sed -n 'w x' a.txt",
        "sed -n '1e touch x' a.txt",
        "awk 'BEGIN { system(\"touch x\") }'",
        "cargo --version",
        "yarn --version",
        "bash <<EOF\ntouch x\nEOF",
        "bash <<< 'touch x'",
        "echo touch x | sh",
        "bash -c 'touch x'",
        "zsh -c 'ls *(e:\"touch x\":)'",
        "su -c 'touch x'",
        "xargs touch < a.txt",
        "ls $(touch x)",
        "$'\\x74ouch' x",
        "file -C -m x",
        "lsof -D b",
        "command -p touch x",
        "exec touch x",
        "coproc touch x",
        "ls &> x",
        "[ a > x ]",
        "sh -c '[[ a > x ]]'",
        "sh -c 'y=\"1 PATH=.\"; export x=$y; ls'",
        "y='1 PATH=.'; command export x=$y; ls",
        "cat <> x",
    ] {
        for mode in [Plan, Ask] {
            let verdict = ground.judge(mode, &[], line);
            assert_ne!(verdict, Verdict::Allow, "{mode}: {line}");
        }
    }
}

#[test]
fn what_would_read_outside_or_secrets_unasked_does_not() {
    let ground = Ground::new();
    for line in [
        "false && cd deep; cat ../secret.txt",
        "true || cd deep; cat ../secret.txt",
        "cd in; cd ..; cat ../secret.txt",
        "cd in && cd .. && cat ../secret.txt",
        "cd() { :; }; cd deep/er; cat ../secret.txt",
        "env cd deep; cat ../secret.txt",
        "! cd deep && cat ../secret.txt",
        "if false; then cd deep; fi; cat ../secret.txt",
        "if false; then cd deep; else cat ../secret.txt; fi",
        "for i in 1 2; do cat ../x.txt; cd deep; done",
        "cd deep | true; cat ../secret.txt",
        "(cd deep); cat ../secret.txt",
        "eval 'cd ..'; cat secret.txt",
        "env --chdi=/ cat etc/passwd",
        "env -iC/ cat etc/passwd",
        "cat ../missing",
        "cat ../*",
        "echo ../*",
        "ls ../m*",
        "ls .*/..",
        "[ -f ../secret.txt ]",
        "test -f ../secret.txt",
        "git diff /etc/passwd a.txt",
        "git show HEAD:.env",
        "git grep SECRET -- ../x",
        "grep -r K .",
        "grep -rn SECRET",
        "grep --recursive SECRET src .",
        "rg -u K",
        "rg --hidden K .",
        "rg SECRET",
        "diff -r . src",
        "cat .en*",
        "cat .e?v",
        "cat < .env",
        "cat -- .env",
        "grep -f.env a.txt",
        "grep --file=id_rsa a.txt",
        "file -fid_rsa",
        "date -r ../secret.txt",
        "date -fid_rsa",
        "wc --files0-from=id_rsa",
        "md5sum -c id_rsa",
        "jq -n 'import \"../secret\" as $x; $x'",
        "jq -L .. . a.txt",
        "jq . ../secret.txt",
        "head -n1 id_rsa",
        "tail -fid_rsa",
        "find .. -name x",
        "find -L in",
        "sed -n 1p ../secret.txt",
        "bash -c 'cat ../secret.txt'",
        "cd deep < missing; cat ../secret.txt",
        "< missing cd deep; cat ../secret.txt",
        "{ cd deep; } < missing; cat ../secret.txt",
        "readonly x; x=1 cd deep; cat ../secret.txt",
        "echo $(<.env)",
        "echo \"$(< ../secret.txt)\"",
        "PWD=..; cat \"$PWD/secret.txt\"",
        "HOME=.. eval 'cat ~/secret.txt'",
        "env HOME=.. bash -c 'cat ~/secret.txt'",
        "cat < /dev/tcp/localhost/80",
        "ps e",
        "ps -eo environ",
        "ps -o pid,environ",
        "git diff deep .",
        "cat ~/.netrc",
        "ls ~nobody",
    ] {
        for mode in [Plan, Ask, Auto] {
            let verdict = ground.judge(mode, &[], line);
            assert_ne!(verdict, Verdict::Allow, "{mode}: {line}");
        }
    }
}

#[test]
fn what_would_write_outside_unasked_does_not() {
    let ground = Ground::new();
    for line in [
        "false && cd deep; echo x > ../f",
        "cd in; cd ..; cp a.txt ../f",
        "mv deep d2; cd deep; cp a.txt ../f",
        "ln -s deep/.. l; cp a.txt l/f",
        "mv in deep/in; cp a.txt deep/in/f",
        "cp -r src/. .",
        "cp --parents a.txt ../f",
        "mkdir -m 777 ../x",
        "cargo build --target-dir ../x",
        "cargo build --target-dir=../x",
        "make -C .. test",
        "make -f ../x test",
        "make --eval='x:;touch x' test",
        "cargo test --config build.rustc=./x",
    ] {
        let verdict = ground.judge(Auto, &[], line);
        assert_ne!(verdict, Verdict::Allow, "{line}");
    }
}

#[test]
fn what_only_looks_is_not_asked_for() {
    let ground = Ground::new();
    std::fs::remove_file(ground.project.join("id_rsa")).unwrap();
    std::fs::remove_file(ground.project.join(".env")).unwrap();
    for line in [
        "ls -la",
        "ls -la src | head -20",
        "cat a.txt b.txt",
        "cat *.txt",
        "cat deep/*.txt",
        "head -n5 a.txt && tail -n 5 a.txt",
        "grep -rn main src",
        "grep -rni --include='*.rs' 'fn ' .",
        "rg -n main",
        "rg --files -g '*.rs'",
        "find . -name '*.rs' -type f",
        "find src -maxdepth 2 -not -path '*/target/*' -print",
        "wc -l src/*.rs",
        "sort a.txt | uniq -c | sort -rn | head",
        "git status",
        "git status -s",
        "git --no-pager log --oneline -n 5",
        "git log -p -5 -- src",
        "git diff --stat HEAD~1",
        "git show HEAD",
        "git branch -vv",
        "git rev-parse --abbrev-ref HEAD",
        "cd src && ls",
        "cd src; cat main.rs",
        "cd deep/er && cat ../x.txt",
        "bash -c 'ls src'",
        "sed -n '1,5p' a.txt",
        "if [ -f a.txt ]; then cat a.txt; else echo none; fi",
        "for f in a b; do echo \"$f\"; done",
        "[[ -n $x && $x == y ]] && echo z",
        "test -d src || echo none",
        "set -euo pipefail; ls",
        "x=1; export y=2; echo \"$x\"",
        "while read -r line; do echo \"$line\"; done < a.txt",
        "jq '.a | length' a.txt",
        "echo $((1 + 2))",
        "date +%s",
        "printf '%s\\n' \"$HOME\"",
        "command -v cargo",
        "timeout 5 ls",
        "env LANG=C ls",
        "time ls",
        "diff -u a.txt b.txt",
        "du -sh .",
        "ps aux | grep x",
        "stat -c %s a.txt",
        "cat a.txt 2>/dev/null || true",
        "cat <<'EOF'\nx\nEOF",
        "python3 --version",
    ] {
        let verdict = ground.judge(Plan, &[], line);
        assert_eq!(verdict, Verdict::Allow, "{line}");
    }
}

#[test]
fn in_full_mode_a_denial_is_seen_through_wrappers_or_asked_for() {
    use Effect::Deny;
    let ground = Ground::new();
    let touch: &[(&str, &str, Effect)] = &[("shell", "touch *", Deny)];
    for line in [
        "bash -eo pipefail -c 'touch x'",
        "bash -euo pipefail -c 'touch x'",
        "env - touch x",
        "env -u A touch x",
        "env -i touch x",
        "find . -exec true \\; -exec touch x \\;",
        "$'\\x74ouch' x",
        "bash <<'E'\ntouch x\nE",
        "flock F touch x",
        "chrt -r 5 touch x",
        "strace -f -o y touch x",
        "script -c 'touch x' y",
        "su -c 'touch x'",
        "sudo -u me A=1 touch x",
        "nice -n 5 ionice -c 3 touch x",
        "timeout 5 setsid nohup touch x",
        "taskset 1 touch x",
        "x | xargs touch",
        "bash -c \"bash -c 'touch x'\"",
        "eval touch x",
        "trap 'touch x' EXIT",
    ] {
        let verdict = ground.judge(Full, touch, line);
        assert!(matches!(verdict, Verdict::Deny(_)), "{line}: {verdict:?}");
    }
    for line in [
        "env -S 'touch x'",
        "t=touch; $t x",
        "bash <<< 'touch x'",
        "echo 'touch x' | bash",
        "git -c alias.x='!touch x' x",
        "$(echo touch) x",
        "alias y=touch; y x",
        "xargs --max-a 1 touch < a.txt",
        "zsh -fc 'touch x'",
        "watch 'touch x'",
        "parallel touch ::: x",
    ] {
        let verdict = ground.judge(Full, touch, line);
        assert_ne!(verdict, Verdict::Allow, "{line}");
    }
    let deep: &[(&str, &str, Effect)] = &[("read", "deep/**", Deny)];
    for line in [
        "cat d*/x.txt",
        "cat */x.txt",
        "grep -r . .",
        "tar cf - .",
        "git grep x",
        "cd deep; cat x.txt",
        "cat deep/x.txt",
        "cp -r . ../copy",
    ] {
        let verdict = ground.judge(Full, deep, line);
        assert!(matches!(verdict, Verdict::Deny(_)), "{line}: {verdict:?}");
    }
    for line in [
        "cat {deep,}/x.txt",
        "cat d[e]ep/x.txt",
        "d=deep; cat $d/x.txt",
        "find . -exec cat {} +",
    ] {
        let verdict = ground.judge(Full, deep, line);
        assert_ne!(verdict, Verdict::Allow, "{line}");
    }
    let kept: &[(&str, &str, Effect)] = &[("edit", "deep/**", Deny)];
    for line in ["mv deep d2", "mv . ../d2", "rm deep/x.txt"] {
        let verdict = ground.judge(Full, kept, line);
        assert!(matches!(verdict, Verdict::Deny(_)), "{line}: {verdict:?}");
    }
    for line in [
        "sed -i s/x/y/ deep/x.txt",
        "rm -r deep",
        "rm -rf deep",
        "find deep -delete",
        "truncate -s0 deep/x.txt",
        "dd if=a.txt of=deep/x.txt",
        "shred deep/x.txt",
        "perl -pi -e s/x/y/ deep/x.txt",
    ] {
        let verdict = ground.judge(Full, kept, line);
        assert_ne!(verdict, Verdict::Allow, "{line}");
    }
    for line in [
        "rm -r src",
        "cp a.txt deep/..",
        "mv b.txt src",
        "sed -i s/x/y/ a.txt",
        "cat deep/x.txt",
        "cargo test",
    ] {
        assert_eq!(ground.judge(Full, kept, line), Verdict::Allow, "{line}");
    }
    // What cannot be denied is not asked for, however unclear it is.
    for line in ["$(echo touch) x", "python x.py $y", "a && ("] {
        assert_eq!(ground.judge(Full, &[], line), Verdict::Allow, "{line}");
    }
    for line in ["python x.py $y", "cargo test", "ls; echo $((x))a | cat"] {
        let git: &[(&str, &str, Effect)] = &[("shell", "git push *", Deny)];
        let verdict = ground.judge(Full, git, line);
        let unclear = line.contains("((");
        assert_eq!(verdict == Verdict::Allow, !unclear, "{line}: {verdict:?}");
    }
}

#[test]
fn an_offer_covers_a_line_alone_where_its_like_could_be_anything() {
    let ground = Ground::new();
    let covers = |line: &str| match ground.judge(Ask, &[], line) {
        Verdict::Ask { covers, .. } => covers
            .into_iter()
            .map(|rule| rule.resource)
            .collect::<Vec<_>>(),
        other => panic!("{line}: {other:?}"),
    };
    for line in [
        "python3.11 x.py",
        "perl5.36 x",
        "mawk x",
        "busybox ls",
        "flock F ls",
        "npx x",
        "tclsh x",
        "ed x",
        "touch x",
        "git push origin main",
        "make x",
        "docker run x",
        "cargo run -p x",
        "npm exec x",
        "tee x",
    ] {
        let covered = covers(line);
        assert!(
            covered.iter().all(|rule| !rule.ends_with(" *")),
            "{line}: {covered:?}"
        );
    }
    for (line, expected) in [
        ("cargo test -p x", "cargo test *"),
        ("npm run build", "npm run build *"),
        ("git commit -m x", "git commit *"),
        ("cargo test --config x=y", "cargo test --config x=y"),
        (
            "npm run build --script-shell=./x",
            "npm run build --script-shell=./x",
        ),
    ] {
        assert_eq!(covers(line), [expected], "{line}");
    }
}

#[test]
fn in_auto_mode_what_only_begins_like_a_check_is_asked_for() {
    let ground = Ground::new();
    for line in [
        "npm run checkout-prod",
        "npm run build-and-publish",
        "npm run test-and-deploy",
        "cargo nextest self update",
    ] {
        assert_ne!(ground.judge(Auto, &[], line), Verdict::Allow, "{line}");
    }
    for line in [
        "npm run test:unit",
        "npm run build",
        "cargo nextest run -p x",
    ] {
        assert_eq!(ground.judge(Auto, &[], line), Verdict::Allow, "{line}");
    }
}
