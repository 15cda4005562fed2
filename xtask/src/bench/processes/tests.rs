//! What is read of living processes, on children of the test.

use std::process::{Command, Stdio};

use super::*;

#[test]
fn a_rollup_gives_proportional_and_private_memory() {
    let text = "00400000-7ffc r--p 00000000 00:00 0 [rollup]\nRss: 900 kB\nPss: 120 kB\n\
                Pss_Dirty: 77 kB\nPrivate_Clean: 30 kB\nPrivate_Dirty: 40 kB\n";
    let expected = Memory {
        pss: 120,
        private: 70,
    };
    assert_eq!(parse_rollup(text), expected);
}

#[test]
fn a_child_and_its_child_are_descendants_with_memory_time_and_a_command_line() {
    let mark = tempfile::tempdir().expect("a directory");
    let mut shell = Command::new("sh")
        .args(["-c", "cat; true"])
        .env("BENCH_MARK", mark.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    // One line through `cat` shows that both processes live.
    let mut input = shell.stdin.take().expect("piped");
    std::io::Write::write_all(&mut input, b"x\n").expect("write");
    let mut output = shell.stdout.take().expect("piped");
    std::io::Read::read_exact(&mut output, &mut [0; 2]).expect("echo");

    let own = Pid::from_raw(std::process::id().cast_signed());
    let found = descendants(own).expect("readable");
    let marked = with_environment("BENCH_MARK", mark.path()).expect("readable");
    assert_eq!(marked.len(), 2, "{marked:?}");
    assert!(marked.iter().all(|pid| found.contains(pid)), "{found:?}");
    let lines: Vec<String> = marked.iter().map(|pid| command_line(*pid)).collect();
    assert!(lines.contains(&"cat".to_owned()), "{lines:?}");
    let memory = memory(&marked).expect("readable");
    assert!(memory.private > 0 && memory.pss >= memory.private);
    assert!(processor_seconds_of(&marked) > 0.0);
    assert!(wakeups(&marked).expect("readable") > 0);
    drop(input);
    assert!(shell.wait().expect("it ends").success());
}
