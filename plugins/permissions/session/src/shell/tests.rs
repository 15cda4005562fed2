//! What command lines come to: a table of lines and the commands in them.

use std::path::Path;

use proptest::prelude::*;

use super::found::{Ground, Script};
use super::known::Class;
use super::script::parse;

fn read(line: &str) -> Script {
    let ground = Ground {
        home: Some(Path::new("/home/me")),
        session: Path::new("/"),
    };
    parse(line, Path::new("/"), ground)
}

/// Reads a line in a session's directory, without a home.
fn read_in(line: &str, session: &Path) -> Script {
    let home = None;
    parse(line, session, Ground { home, session })
}

/// The commands that are judged for themselves.
fn commands(line: &str) -> Vec<String> {
    let script = read(line);
    assert!(script.unclear.is_empty(), "{line:?}: {:?}", script.unclear);
    let judged = script.commands.into_iter().filter(|command| !command.wraps);
    judged.map(|command| command.text).collect()
}

fn touched(line: &str) -> Vec<(String, bool)> {
    let touches = read(line).touches.into_iter();
    touches
        .map(|touch| (touch.path.display().to_string(), touch.changes))
        .collect()
}

#[test]
fn every_command_of_a_line_is_judged() {
    for (line, expected) in [
        ("ls", &["ls"][..]),
        ("a && b | c; e $(d)", &["a", "b", "c", "d", "e $(d)"][..]),
        ("a || b", &["a", "b"]),
        ("a & b", &["a", "b"]),
        ("a\nb", &["a", "b"]),
        ("(a; b)", &["a", "b"]),
        ("{ a; b; }", &["a", "b"]),
        ("! a", &["a"]),
        ("echo \"x $(rm y)\"", &["rm y", "echo \"x $(rm y)\""]),
        ("echo 'x $(rm y)'", &["echo 'x $(rm y)'"]),
        ("x=$(rm y)", &["rm y"]),
        ("X=1 a", &["a"][..0]),
        ("echo $((1 + 2))", &["echo $((1 + 2))"]),
        (
            "if a; then b; elif c; then d; else e; fi",
            &["a", "b", "c", "d", "e"],
        ),
        ("for i in $(a); do b $i; done", &["a", "b $i"]),
        ("while a; do b; done", &["a", "b"]),
        ("until a; do b; done", &["a", "b"]),
        ("[[ -f $(a) ]]", &["a"]),
        ("[ -f x ] && a", &["a"]),
        ("cat <<< \"$(a)\"", &["a", "cat"]),
        ("cat <<'EOF'\n$(a) `b`\nEOF", &["cat"]),
        ("rm > out -rf x", &["rm -rf x"]),
        ("> out rm x", &["rm x"]),
        ("export x=\"$(a)\"", &["a", "export x=\"$(a)\""]),
        ("env X=1 a b", &["X=… a b"]),
        ("env -i -u Y X=1 a", &["Y=… X=… a"]),
        ("sudo -u root a b", &["sudo -u root a b", "a b"]),
        ("nohup nice -n 5 a", &["a"]),
        ("timeout -k 1 10s a b", &["a b"]),
        ("time -p a", &["a"]),
        ("command a", &["a"]),
        ("command -v a", &["command -v a"]),
        ("exec a b", &["a b"]),
        ("bash -c 'a; b'", &["a", "b"]),
        ("bash -lc \"a && sh -c 'b'\"", &["a", "b"]),
        ("sudo bash -c 'a'", &["sudo bash -c a", "a"]),
        ("/bin/sh -ec a", &["a"]),
        ("eval a b", &["a b"]),
        ("eval 'a; b'", &["a", "b"]),
        ("trap 'a' EXIT", &["a"]),
        ("x | xargs -n 1 rm -f", &["x", "rm -f …"]),
        ("x | xargs -I{} cp {} y", &["x", "cp {} y …"]),
        (
            "find . -name x -exec rm {} ';'",
            &["find . -name x -exec rm {} ';'", "rm {}"],
        ),
        (
            "find . -exec sh -c 'a' +",
            &["find . -exec sh -c a +", "a"][..],
        ),
        ("git commit -m 'a b'", &["git commit -m 'a b'"]),
        ("a \"\" 'x y'", &["a '' 'x y'"]),
        ("r\\m x", &["rm x"]),
        ("'rm' x", &["rm x"]),
        ("r''m x", &["rm x"]),
        ("LD_PRELOAD=x a", &["LD_PRELOAD=… a"]),
        ("RUST_LOG=x a", &["a"]),
        ("# a\nb # c", &["b"]),
        ("cat ~/x \"$HOME/y\"", &["cat /home/me/x /home/me/y"]),
    ] {
        if line == "X=1 a" {
            assert_eq!(commands(line), ["X=… a"]);
            continue;
        }
        assert_eq!(commands(line), expected, "{line:?}");
    }
}

#[test]
fn what_is_found_in_a_line_that_can_be_misread_is_judged_and_the_line_is_unclear() {
    for (line, expected) in [
        ("echo `rm y`", &["rm y", "echo `rm y`"][..]),
        ("echo ${x:-$(rm y)}", &["rm y", "echo ${x:-$(rm y)}"]),
        ("diff <(a) <(b)", &["a", "b", "diff <(a) <(b)"]),
        ("a > >(b)", &["b", "a"]),
        ("case $x in y) a;; *) b;; esac", &["a", "b"]),
        ("case $(a) in y) b;; esac", &["a", "b"]),
        ("cat <<EOF\n$(a)\nEOF", &["a", "cat"]),
        ("cat <<EOF && b\nx\nEOF", &["b", "cat"]),
        ("cat <<EOF | b\nx\nEOF\nc", &["b", "cat", "c"]),
        ("f() { rm \"$1\"; }; f x", &["rm \"$1\"", "f x"]),
        ("function f { a; }", &["a"]),
    ] {
        let script = read(line);
        let commands: Vec<_> = script
            .commands
            .iter()
            .map(|command| &command.text)
            .collect();
        assert_eq!(commands, expected, "{line:?}");
        assert!(!script.unclear.is_empty(), "{line:?}");
    }
}

#[test]
fn what_cannot_be_told_is_not_taken_apart() {
    for line in [
        "a && (",
        "a <> x",
        "if a",
        "$CMD x",
        "a \"",
        "eval \"$X\"",
        "bash -c \"$X\"",
        "sh -c \"rm $(x)\"",
        "env -S 'a b'",
        "x | xargs sh -c",
        "x | xargs -I{} sh -c 'rm {}'",
        "find . -exec $X {} ';'",
        "find . -exec ';'",
        "cat <<EOF\n`rm x`\nEOF",
        "cat <<A <<B\na\nA\nb\nB",
        "a > $X",
        "a > *.txt",
        "$(a) b",
        "a\rb",
        "echo `a \\`b\\``",
        "* x",
    ] {
        assert!(!read(line).unclear.is_empty(), "{line:?}: {:?}", read(line));
    }
    let long = format!("echo {}", "x".repeat(70_000));
    let deep = format!("{}a{}", "(".repeat(400), ")".repeat(400));
    let nested = (0..10).fold("a".to_owned(), |line, _| {
        format!("bash -c '{}'", line.replace('\'', r"'\''"))
    });
    let many = "a;".repeat(600);
    for line in [long, deep, nested, many] {
        assert!(!read(&line).unclear.is_empty(), "{:.40}", line);
    }
}

#[test]
fn redirections_touch_files() {
    for (line, expected) in [
        ("a > x", &[("x", true)][..]),
        ("a >> x 2>&1", &[("x", true)]),
        ("a &> x", &[("x", true)]),
        ("a >| x", &[("x", true)]),
        ("a < x", &[("x", false)]),
        ("a 2>/dev/null >&2 2>&-", &[]),
        ("a >& x", &[("x", true)]),
        ("(a; b) > x", &[("x", true)]),
        ("for i in 1; do a; done > x", &[("x", true)]),
        ("cat <<EOF > x\ny\nEOF", &[("x", true)]),
        ("f() { a > x; }", &[("x", true)]),
        ("a > ~/x", &[("/home/me/x", true)]),
        ("a > \"x y\"", &[("x y", true)]),
        ("> x", &[("x", true)]),
    ] {
        let touches = touched(line);
        let touches: Vec<_> = touches
            .iter()
            .map(|(path, changes)| (path.as_str(), *changes))
            .collect();
        assert_eq!(touches, expected, "{line:?}");
    }
}

#[test]
fn what_is_known_of_commands() {
    use Class::{Files, Looks, Project, Unknown};
    for (line, expected) in [
        ("ls -la", Looks),
        ("/usr/bin/ls", Looks),
        ("./ls", Unknown),
        ("git status", Looks),
        ("git --no-pager log -p", Looks),
        ("git -c core.pager=x log", Unknown),
        ("git -C /x status", Unknown),
        ("git diff --output=x", Unknown),
        ("git branch", Looks),
        ("git branch -D x", Unknown),
        ("git push", Unknown),
        ("git commit -m x", Project),
        ("find . -name x", Looks),
        ("find . -delete", Unknown),
        ("sort x", Looks),
        ("sort -o x y", Unknown),
        ("sed -n '1,5p' x", Looks),
        ("sed -i s/a/b/ x", Unknown),
        ("rg --pre x y", Unknown),
        ("cat $X", Unknown),
        ("mkdir -p a/b", Files),
        ("rm x", Files),
        ("rm -rf x", Unknown),
        ("rm -fR x", Unknown),
        ("cp a b", Files),
        ("ln a b", Unknown),
        ("cargo test -p x", Project),
        ("cargo --config x build", Unknown),
        ("cargo +nightly fmt", Project),
        ("cargo install x", Unknown),
        ("npm run test:unit", Project),
        ("npm run deploy", Unknown),
        ("curl x", Unknown),
        ("python x.py", Unknown),
        ("PATH=/x ls", Unknown),
        ("echo hi", Looks),
    ] {
        let script = read(line);
        assert_eq!(script.commands[0].class, expected, "{line:?}");
    }
    // A name means nothing where a variable of the line decides what it means.
    assert_eq!(read("PATH=/x; ls").commands[0].class, Unknown);
    assert_eq!(read("export PATH=/x && ls").commands[1].class, Unknown);
    assert_eq!(read("read PATH; ls").commands[1].class, Unknown);
    assert_eq!(read("alias ls=rm; ls").commands[1].class, Unknown);
}

#[test]
fn a_rule_against_a_command_finds_it_in_every_form() {
    let forms = |line: &str| {
        let script = read(line);
        let of = |command: super::Judged| [vec![command.text], command.forms].concat();
        script.commands.into_iter().flat_map(of).collect::<Vec<_>>()
    };
    for (line, form) in [
        ("/bin/rm x", "rm x"),
        ("./tools/rm x", "rm x"),
        ("git -C /x -c a=b push", "git push"),
        ("X=1 rm x", "rm x"),
        ("sudo rm x", "rm x"),
        ("sudo rm x", "sudo rm x"),
        ("bash -c 'rm x'", "rm x"),
        ("bash -c 'rm x'", "bash -c 'rm x'"),
        ("nohup rm x", "nohup rm x"),
    ] {
        assert!(
            forms(line).iter().any(|other| other == form),
            "{line:?}: {:?}",
            forms(line)
        );
    }
}

#[test]
fn a_directory_is_followed_as_the_shell_goes_through_it() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("sub")).unwrap();
    let from = |line: &str| {
        let script = read_in(line, root.path());
        script.touches.last().unwrap().from.clone()
    };
    let (top, sub) = (Some(root.path().to_owned()), Some(root.path().join("sub")));
    for (line, expected) in [
        ("a > x", &top),
        ("cd sub && a > x", &sub),
        ("cd sub; a > x", &sub),
        ("(cd sub); a > x", &top),
        ("(cd sub; a > x)", &sub),
        ("cd sub | a > x", &top),
        ("cd sub & a > x", &top),
        ("cd sub || a > x", &None),
        ("cd missing; a > x", &None),
        ("cd $X; a > x", &None),
        ("cd -; a > x", &None),
        ("pushd sub; a > x", &None),
        ("if y; then cd sub; fi; a > x", &None),
        ("bash -c 'cd sub'; a > x", &top),
        ("bash -c 'cd sub; a > x'", &sub),
    ] {
        assert_eq!(&from(line), expected, "{line:?}");
    }
}

#[test]
fn a_pattern_of_names_stands_for_what_it_finds() {
    let root = tempfile::tempdir().unwrap();
    for name in ["a.txt", "b.txt", ".env"] {
        std::fs::write(root.path().join(name), "").unwrap();
    }
    let touches = |line: &str| {
        let script = read_in(line, root.path());
        let mut paths: Vec<_> = script.commands[0]
            .touches
            .iter()
            .map(|touch| touch.path.display().to_string())
            .collect();
        paths.sort();
        (script.commands[0].class, paths)
    };
    assert_eq!(touches("cat *.txt").1, ["a.txt", "b.txt"]);
    assert_eq!(touches("cat .e*").1, [".env"]);
    assert_eq!(touches("cat */x").1, ["*/x"]);
    assert_eq!(touches("cat [a]*").0, Class::Unknown);
    assert_eq!(touches("head -n1 a.txt").1, ["a.txt"]);
    // What it finds would be an option.
    std::fs::write(root.path().join("-o"), "").unwrap();
    assert_eq!(touches("sort *").0, Class::Unknown);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(line in "[a-z $(){}'\"`;&|<>\\\\\n=#*~-]{0,60}") {
        read(&line);
    }

    /// However a command is wrapped, it is found, or the line is asked for as a whole.
    #[test]
    fn a_command_does_not_hide(wraps in proptest::collection::vec(0usize..14, 0..5)) {
        let quoted = |line: &str| format!("'{}'", line.replace('\'', r"'\''"));
        let line = wraps.iter().fold("rm victim".to_owned(), |line, wrap| match wrap {
            0 => format!("echo $({line})"),
            1 => format!("bash -c {}", quoted(&line)),
            2 => format!("({line})"),
            3 => format!("true && {line}"),
            4 => format!("{line} | cat"),
            5 => format!("if true; then {line}; fi"),
            6 => format!("cat <<EOF\n$({line})\nEOF\n"),
            7 => format!("f() {{ {line}; }}; f"),
            8 => format!("cat <({line})"),
            9 => format!("eval {}", quoted(&line)),
            10 => format!("echo \"$({line})\""),
            11 => format!("env X=1 bash -c {}", quoted(&line)),
            12 => format!("X=$({line})"),
            _ => format!("{line} & {line}"),
        });
        let script = read(&line);
        let found = script.commands.iter().any(|command| command.text == "rm victim");
        prop_assert!(found || !script.unclear.is_empty(), "{line}\n{script:?}");
    }
}
