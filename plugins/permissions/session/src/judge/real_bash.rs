//! What real bash does with lines that plan mode lets run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::PermissionMode::Plan;
use super::Verdict;
use super::attacks::Ground;

/// Every file below with what it holds, git's own apart.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(&next).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() && entry.file_name() != ".git" {
                found.insert(path.clone(), Vec::new());
                left.push(path);
            } else if kind.is_file() {
                found.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Words of which lines are made: harmless ones, harmful ones, and what makes the one the other.
fn word() -> impl Strategy<Value = String> {
    let fixed = proptest::sample::select(vec![
        "a.txt",
        "b.txt",
        "src",
        ".",
        "deep/er",
        "in",
        "x",
        "-n",
        "-o",
        "-r",
        "-e",
        "-c",
        "-x",
        "-s",
        "-u",
        "-v",
        "-i",
        "-p",
        "--",
        "-",
        "+",
        "{}",
        "\\;",
        "';'",
        "!",
        "EXIT",
        "PATH",
        "PATH=.",
        "S",
        "\"$S\"",
        "$S",
        "'a[$(touch hit)]'",
        "'touch hit'",
        "\"touch hit\"",
        "touch",
        "hit",
        "-ohit",
        "--output=hit",
        "--outp=hit",
        "-C",
        "-S",
        "-exec",
        "-delete",
        "-fprint",
        "-name",
        "'*.txt'",
        "*.txt",
        "*",
        "1",
        "1,2p",
        "w",
        "log",
        "status",
        "grep",
        "-O'touch hit'",
        "--open=touch",
        "$(touch hit)",
        "`touch hit`",
        "$((S))",
        "$'touch\\x20hit'",
        "~",
        "-a",
        "-f",
        "-d",
        "-t",
        "-z",
        "-w",
        "=",
        "-eq",
        "]",
        "2>&1",
        "</dev/null",
        "> hit",
        ">/dev/null",
        "{a,b}.txt",
        "${S}",
        "${S:-x}",
        "${S:=x}",
        "${!S}",
        "r=PATH",
    ]);
    fixed.prop_map(str::to_owned)
}

fn command() -> impl Strategy<Value = String> {
    let name = proptest::sample::select(vec![
        "ls",
        "cat",
        "grep",
        "head",
        "sort",
        "uniq",
        "wc",
        "find",
        "git",
        "echo",
        "printf",
        "read",
        "test",
        "[",
        "[[",
        "trap",
        "eval",
        "let",
        "declare",
        "export",
        "local",
        "set",
        "unset",
        "cd",
        "env",
        "command",
        "builtin",
        "time",
        "jobs",
        "exec",
        "bash -c",
        "sh -c",
        "sed -n",
        "xargs",
        "nice",
        "timeout 1",
        "nohup",
        "date",
        "tr",
        "cut",
        "tee",
        "touch",
        "mapfile",
        "alias",
        "hash",
        "type",
        "xxd",
        "tac",
        "rm",
        "true",
        ":",
        "/usr/bin/sort",
        "./ls",
        "S=x",
        "S='a[$(touch hit)]'",
        "PATH=.",
        "LANG=C",
        "f() {",
        "while",
        "if",
        "for PATH in",
        "(",
        "((",
        "!",
    ]);
    (name, proptest::collection::vec(word(), 0..4)).prop_map(|(name, words)| {
        let line = format!("{name} {}", words.join(" "));
        match name {
            "[" => format!("{line} ]"),
            "[[" => format!("{line} ]]"),
            "f() {" => format!("{line}; }}; f"),
            "while" => format!("{line}; do break; done"),
            "if" => format!("{line}; then true; fi"),
            "for PATH in" => format!("{line}; do ls; done"),
            "(" => format!("{line})"),
            "((" => format!("{line}))"),
            _ => line,
        }
    })
}

/// One of these.
fn select(words: &'static [&'static str]) -> proptest::sample::Select<&'static str> {
    proptest::sample::select(words)
}

/// Harm behind something that one reader takes otherwise than another.
fn odd() -> impl Strategy<Value = String> {
    let here_document = (
        select(&[
            "E", "1", "EOF", "'E'", "\"E\"", "E\"\"", "''E", "$'E'", "\\E", "E\\F", "'E\\F'",
            "E'F'", "E\"F\"", "-E",
        ]),
        select(&[
            "", "", ";echo", "; echo", " ;echo", ">&2", "|cat", "&&ls", "<a.txt", " #", "&",
        ]),
        select(&["", "x\n", "$x\n", "x\\\n"]),
        select(&[
            "", "$E\n", "${E}\n", "$x\n", "E\n", "EOF\n", "'E'\n", "$EOF\n",
        ]),
    );
    let here_document = here_document.prop_map(|(delimiter, after, body, tail)| {
        let unquoted = delimiter.trim_start_matches('-').trim_start_matches('$');
        let end = match delimiter {
            "'E\\F'" => "E\\F".to_owned(),
            _ => unquoted.replace(['\'', '"', '\\'], ""),
        };
        format!("cat <<{delimiter}{after}\n{body}{end}\ntouch hit\n{tail}")
    });
    let control = select(&[
        "\u{b}", "\u{c}", "\r", "\u{1}", "\u{1f}", "\u{85}", "\u{a0}", "\u{2003}", "\u{3000}",
    ]);
    let hidden = (
        control,
        select(&["#", "# ", "", "#'"]),
        select(&["; ", " && ", "\n", " | "]),
    );
    let hidden = hidden.prop_map(|(control, comment, operator)| {
        format!("cat a.txt {control}{comment}{operator}touch hit")
    });
    let value = select(&[
        "$y",
        "\"$y\"",
        "${y}",
        "$(printf 'x sh hit.sh')",
        "x$y",
        "'$y'",
        "*.sh",
        "$'x sh hit.sh'",
        "`echo $y`",
    ]);
    let runner = select(&[
        "env TERM=",
        "env LANG=C TERM=",
        "TERM=",
        "timeout ",
        "nice -n ",
        "env -u ",
        "export x=",
    ]);
    let expanded = (runner, value)
        .prop_map(|(runner, value)| format!("y='x sh hit.sh'; {runner}{value} cat a.txt"));
    let format = select(&[
        "%n", "'%5n'", "'x%n'", "%%n", "'%hhn'", "\"%.3n\"", "'%s%n'", "'%%%n'",
    ]);
    let stored = (format, select(&["PATH", "x PATH", "PATH PATH"]));
    let stored = stored.prop_map(|(format, names)| format!("printf {format} {names}; cat a.txt"));
    let file = select(&["@f", "-- @f", "-n @f", "-a *", "f"]);
    let listed = (
        select(&[
            "strings",
            "nm",
            "size",
            "diff -N .",
            "diff a.txt",
            "rg K",
            "zcat",
        ]),
        file,
    );
    let listed = listed.prop_map(|(program, file)| format!("{program} {file}"));
    let directory = select(&[
        "deep",
        "dd",
        ".",
        "empty",
        "deep dd",
        "a.txt dd",
        "-r deep dd",
    ]);
    let compared = directory.prop_map(|directory| format!("diff -N {directory} empty"));
    prop_oneof![4 => here_document, 2 => hidden, 2 => expanded, 1 => stored, 1 => listed, 1 => compared]
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![2 => common(), 1 => odd()]
}

fn common() -> impl Strategy<Value = String> {
    let operator = proptest::sample::select(vec!["; ", " && ", " || ", " | ", " & ", "\n"]);
    let wrap = |line: &str, wrap: usize| {
        let quoted = format!("'{}'", line.replace('\'', r"'\''"));
        match wrap {
            0 => format!("bash -c {quoted}"),
            1 => format!("eval {quoted}"),
            2 => format!("echo \"$({line})\""),
            3 => format!("({line})"),
            4 => format!("cat <<EOF\n$({line})\nEOF"),
            5 => format!("timeout 1 sh -c {quoted}"),
            6 => format!("find . -maxdepth 0 -exec {line} \\;"),
            7 => format!("trap {quoted} EXIT"),
            _ => line.to_owned(),
        }
    };
    let parts = proptest::collection::vec((command(), operator), 1..4);
    (parts, 0usize..16).prop_map(move |(parts, wrapped)| {
        let mut line = String::new();
        for (at, (command, operator)) in parts.iter().enumerate() {
            line.push_str(command);
            if at + 1 < parts.len() {
                line.push_str(operator);
            }
        }
        wrap(&line, wrapped)
    })
}

/// What secrets hold, and files outside.
const SECRET: &str = "only-for-the-person";

/// Runs a line in bash as the tool does, for a short time. Gives what it wrote.
fn run(line: &str, directory: &Path) -> String {
    let output = Command::new("timeout")
        .args(["-s", "KILL", "2", "bash", "-c", line])
        .current_dir(directory)
        .env("HOME", directory.join("../home"))
        .env("S", "a[$(touch hit)]")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat()
}

/// Whatever plan mode lets run changes no file and shows no secret, whatever it is made of. What would be asked for is
/// not run.
#[test]
fn what_plan_mode_allows_changes_nothing_in_real_bash() {
    if Command::new("bash").arg("--version").output().is_err() {
        return;
    }
    let seconds = std::env::var("BEZEL_ATTACK_SECONDS").ok();
    let seconds = seconds
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or(5);
    let until = Instant::now() + Duration::from_secs(seconds);
    let ground = Ground::new();
    // The project's own programs, for lines that make names mean these.
    let hit = "#!/bin/bash\n: > \"${BASH_SOURCE[0]%/*}/hit\"\n";
    for folder in [".", "0", "1"] {
        std::fs::create_dir_all(ground.project.join(folder)).unwrap();
        for name in ["ls", "cat", "sort", "git"] {
            use std::os::unix::fs::PermissionsExt;
            let path = ground.project.join(folder).join(name);
            std::fs::write(&path, hit).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    std::fs::write(ground.project.join("hit.sh"), ": > hit\n").unwrap();
    std::fs::write(ground.project.join("f"), "../secret.txt .env\n").unwrap();
    for secret in ["../secret.txt", ".env", "id_rsa"] {
        std::fs::write(ground.project.join(secret), SECRET).unwrap();
    }
    for folder in ["dd", "empty"] {
        std::fs::create_dir(ground.project.join(folder)).unwrap();
    }
    std::os::unix::fs::symlink("../../secret.txt", ground.project.join("dd/a.txt")).unwrap();
    let root = ground.project.parent().unwrap().to_owned();
    let before = files(&root);
    let mut runner = proptest::test_runner::TestRunner::default();
    let lines = line();
    let (mut made, mut ran) = (0, 0);
    while Instant::now() < until {
        let tree = lines.new_tree(&mut runner).unwrap();
        let line = proptest::strategy::ValueTree::current(&tree);
        made += 1;
        if ground.judge(Plan, &[], &line) != Verdict::Allow {
            continue;
        }
        ran += 1;
        let written = run(&line, &ground.project);
        assert!(files(&root) == before, "{line:?} changed something");
        assert!(!written.contains(SECRET), "{line:?} shows a secret");
    }
    assert!(ran > 0, "{made} lines, none of which runs");
    println!("{made} lines were made, {ran} ran");
}
