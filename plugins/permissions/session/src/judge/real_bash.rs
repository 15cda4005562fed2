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

fn line() -> impl Strategy<Value = String> {
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

/// Runs a line in bash as the tool does, for a short time.
fn run(line: &str, directory: &Path) {
    let mut child = Command::new("timeout")
        .args(["-s", "KILL", "2", "bash", "-c", line])
        .current_dir(directory)
        .env("HOME", directory.join("../home"))
        .env("S", "a[$(touch hit)]")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.wait().unwrap();
}

/// Whatever plan mode lets run changes no file, whatever it is made of. What would be asked for is not run.
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
    for name in ["ls", "cat", "sort", "git"] {
        use std::os::unix::fs::PermissionsExt;
        let path = ground.project.join(name);
        std::fs::write(&path, "#!/bin/bash\n: > \"$(dirname \"$0\")/hit\"\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
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
        run(&line, &ground.project);
        assert!(files(&root) == before, "{line:?} changed something");
    }
    assert!(ran > 0, "{made} lines, none of which runs");
    println!("{made} lines were made, {ran} ran");
}
