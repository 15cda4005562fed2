//! `bash` in the foreground.

use std::time::{Duration, Instant};

use bezel_context::Context;
use bezel_session_types::{Access, ToolError, ToolInvocation};
use bezel_tools_contract::{BashDetails, CommandStatus, ToolDetails};
use serde_json::json;

use crate::fixture::{Session, details, text};

async fn run(session: &Session, command: &str) -> String {
    session.text("bash", json!({"command": command})).await
}

fn bash(details: ToolDetails) -> BashDetails {
    let ToolDetails::Bash(details) = details else {
        panic!("{details:?}")
    };
    details
}

#[tokio::test]
async fn output_of_both_streams_comes_in_order_with_the_exit_code() {
    let session = Session::new();
    assert_eq!(
        run(&session, "echo one; echo two >&2; echo three").await,
        "one\ntwo\nthree\n"
    );
    assert_eq!(
        run(&session, "echo bad; (exit 3)").await,
        "bad\n\n[exit code 3]"
    );
    assert_eq!(run(&session, "true").await, "(no output)\n");
    assert_eq!(
        run(&session, "kill -9 $$").await,
        "(no output)\n\n[ended by signal 9]"
    );
    let missing = run(&session, "no-such-program-here").await;
    assert!(
        missing.contains("line 1: no-such-program-here: command not found"),
        "{missing}"
    );
    assert!(missing.contains("[exit code 127"), "{missing}");
}

#[tokio::test]
async fn details_hold_command_directory_status_duration_and_size() {
    let session = Session::new();
    let output = session
        .call(
            "bash",
            json!({"command": "echo hello; exit 2", "description": "Say hello"}),
        )
        .await
        .unwrap();
    let bash = bash(details(&output));
    assert_eq!(bash.command, "echo hello; exit 2");
    assert_eq!(bash.directory, session.root().to_str().unwrap());
    assert_eq!(bash.status, CommandStatus::Exited { code: 2 });
    assert_eq!(
        (bash.output_bytes, bash.saved_file, bash.background_id),
        (6, None, None)
    );
}

#[tokio::test]
async fn plain_commands_behave_as_in_a_shell() {
    let session = Session::new();
    session.file("a file", "content\n");
    session.file("script", "echo no shebang: $1\n");
    std::fs::set_permissions(
        session.path("script"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    assert_eq!(run(&session, "cat 'a file'").await, "content\n");
    assert_eq!(run(&session, "echo  two   words").await, "two words\n");
    assert_eq!(run(&session, "./script x").await, "no shebang: x\n");
    assert_eq!(run(&session, "false").await, "(no output)\n\n[exit code 1]");
    let denied = run(&session, "./a").await;
    assert!(
        denied.contains("No such file or directory") && denied.contains("[exit code 127"),
        "{denied}"
    );
    let directory = run(&session, "/tmp").await;
    assert!(
        directory.contains("Is a directory") && directory.contains("[exit code 126]"),
        "{directory}"
    );
    assert_eq!(
        run(&session, "printenv PWD").await,
        format!("{}\n", session.root().display())
    );
}

#[tokio::test]
async fn bash_syntax_works() {
    let session = Session::new();
    assert_eq!(
        run(&session, "a=(x y); [[ ${a[1]} == y ]] && echo {1..3}").await,
        "1 2 3\n"
    );
    assert_eq!(
        run(&session, "cat <<EOF\nhere $((1+1))\nEOF").await,
        "here 2\n"
    );
    let error = run(&session, "echo 'open").await;
    assert!(
        error.contains("unexpected EOF") && error.contains("[exit code 2]"),
        "{error}"
    );
}

#[tokio::test]
async fn a_directory_that_could_not_be_noted_is_said() {
    let session = Session::new();
    // No file can be written any more, as on a full disk.
    let told = run(&session, "trap '' XFSZ; ulimit -f 0; cd /").await;
    assert!(told.contains("could not be noted"), "{told}");
    let next = run(&session, "pwd").await;
    assert_eq!(next.trim_end(), session.root().to_str().unwrap());
}

#[tokio::test]
async fn a_call_runs_in_the_directory_in_which_it_was_judged() {
    let session = Session::new();
    std::fs::create_dir(session.path("other")).unwrap();
    let bash = session.tool("bash");
    let arguments = json!({ "command": "pwd" });
    let judged = bash.accesses(&arguments, session.root()).unwrap();
    run(&session, "cd other").await;
    let invocation = ToolInvocation {
        accesses: Some(judged.into()),
        ..session.invocation("bash", arguments.clone())
    };
    let output = bash.execute(Context::background(), invocation).await;
    let pwd = format!("{}\n", session.root().display());
    assert_eq!(text(&output.unwrap()), pwd);
    // Judged now, it is judged where the last one ended, and that is said to be gone where it is.
    let other = bash.accesses(&arguments, session.root()).unwrap();
    assert_eq!(other, [Access::shell("pwd", session.path("other"))]);
    std::fs::remove_dir(session.path("other")).unwrap();
    let here = bash.accesses(&arguments, session.root()).unwrap();
    assert_eq!(here, [Access::shell("pwd", session.root())]);
    assert!(run(&session, "pwd").await.contains("no longer exists"));
}

#[tokio::test]
async fn the_working_directory_lasts_and_variables_do_not() {
    let session = Session::new();
    std::fs::create_dir_all(session.path("it's odd/deep")).unwrap();
    let moved = run(&session, "cd \"it's odd\" && x=1 && echo there").await;
    let odd = session.path("it's odd");
    assert_eq!(
        moved,
        format!("there\n\n[working directory is now {}]", odd.display())
    );
    assert_eq!(
        run(&session, "pwd; echo \"[$x]\"").await,
        format!("{}\n[]\n", odd.display())
    );
    assert_eq!(run(&session, "ls").await, "deep\n");
    assert!(
        run(&session, "cd deep; exit 4")
            .await
            .contains("[exit code 4]\n[working directory is now")
    );
    assert_eq!(
        run(&session, "pwd").await,
        format!("{}\n", odd.join("deep").display())
    );
    run(&session, "(cd /)").await;
    assert_eq!(
        run(&session, "pwd").await,
        format!("{}\n", odd.join("deep").display()),
        "a subshell moves nobody"
    );
    std::fs::remove_dir(odd.join("deep")).unwrap();
    let back = run(&session, "pwd").await;
    assert_eq!(
        back,
        format!(
            "[{} no longer exists; the command ran in {root}]\n{root}\n",
            odd.join("deep").display(),
            root = session.root().display()
        )
    );
}

#[tokio::test]
async fn commands_get_the_environment_without_provider_keys() {
    let session = Session::with_variables(&[
        ("OPENAI_API_KEY", "sk-very-secret"),
        ("LOCAL_KEY", "configured-secret"),
        ("COPY", "configured-secret"),
        ("GITHUB_TOKEN", "ghp_kept"),
        ("PROJECT", "bezel"),
    ]);
    for command in ["env", "bash -c 'env; true'"] {
        let variables = run(&session, command).await;
        assert!(!variables.contains("secret"), "{variables}");
        for kept in [
            "PROJECT=bezel",
            "GITHUB_TOKEN=ghp_kept",
            "HOME=",
            "TERM=dumb",
        ] {
            assert!(variables.contains(kept), "{kept}: {variables}");
        }
        let directory = format!("PWD={}\n", session.root().display());
        assert!(variables.contains(&directory), "{variables}");
    }
}

#[tokio::test]
async fn functions_of_the_launching_shell_are_honoured() {
    let session = Session::with_variables(&[("BASH_FUNC_ls%%", "() { echo my own ls; }")]);
    assert_eq!(run(&session, "ls").await, "my own ls\n");
}

#[tokio::test]
async fn there_is_no_input_and_no_terminal() {
    let session = Session::new();
    assert_eq!(
        run(&session, "cat; read x; echo \"[$x] $?\"").await,
        "[] 1\n"
    );
    let terminal = run(&session, "test -t 0 || test -t 1 || test -t 2 || echo none; (: < /dev/tty) 2>/dev/null || echo no tty").await;
    assert_eq!(terminal, "none\nno tty\n");
}

#[tokio::test]
async fn colours_progress_bars_and_invalid_bytes_become_plain_text() {
    let session = Session::new();
    let text = run(
        &session,
        "printf '\\033[31mred\\033[0m\\n10%%\\r100%%\\n\\377\\n'",
    )
    .await;
    assert_eq!(text, "red\n100%\n\u{fffd}\n");
}

#[tokio::test]
async fn a_command_longer_than_an_argument_may_be_still_runs() {
    let session = Session::new();
    let long = "x".repeat(300_000);
    let text = run(&session, &format!("cd /; wc -c <<'E'\n{long}\nE")).await;
    assert_eq!(text, "300001\n\n[working directory is now /]");
}

#[tokio::test]
async fn empty_and_impossible_commands_are_refused() {
    let session = Session::new();
    assert!(
        session
            .error("bash", json!({"command": "  \n"}))
            .await
            .contains("empty")
    );
    assert!(
        session
            .error("bash", json!({"command": "a\0b"}))
            .await
            .contains("NUL")
    );
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_with_what_it_wrote() {
    let session = Session::new();
    let begun = Instant::now();
    let result = session
        .call(
            "bash",
            json!({"command": "echo begun; sleep 60; echo never", "timeout": 1}),
        )
        .await;
    let Err(ToolError::Failed { message, details }) = result else {
        panic!("{result:?}")
    };
    assert!(
        message.starts_with("begun\n\n[timed out: ended with all its processes after 1.0 s."),
        "{message}"
    );
    let details = bash(ToolDetails::from_value(&details).expect("details"));
    assert_eq!(details.status, CommandStatus::TimedOut { after_ms: 1_000 });
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn output_is_shown_while_the_command_runs() {
    let session = Session::new();
    let gate = session.path("gate");
    let command = format!(
        "echo first; until [ -e {} ]; do sleep 0.02; done; echo second",
        gate.display()
    );
    let call = session.call("bash", json!({"command": command}));
    let watch = async {
        session.host.until(|shown| shown == "first\n").await;
        std::fs::write(&gate, "").unwrap();
    };
    let (output, ()) = tokio::join!(call, watch);
    assert_eq!(crate::fixture::text(&output.unwrap()), "first\nsecond\n");
    let progress = session.host.progress.lock().unwrap();
    let bezel_session_types::Progress::Details(details) = &progress[0] else {
        panic!("{:?}", progress[0])
    };
    assert_eq!(
        bash(ToolDetails::from_value(details).expect("details")).status,
        CommandStatus::Running
    );
}

#[tokio::test]
async fn calls_side_by_side_do_not_mix() {
    let session = Session::new();
    let calls = (0..20).map(|number| {
        let session = &session;
        async move { run(session, &format!("for i in 1 2 3; do echo {number}; done")).await }
    });
    let texts = futures::future::join_all(calls).await;
    for (number, text) in texts.iter().enumerate() {
        assert_eq!(*text, format!("{number}\n").repeat(3));
    }
}

#[tokio::test]
async fn a_cancelled_call_starts_nothing() {
    let session = Session::new();
    let (cx, cancel) = Context::background().with_cancel();
    cancel.cancel();
    let result = session
        .call_in(cx, "bash", json!({"command": "touch made"}))
        .await;
    assert_eq!(result, Err(ToolError::Interrupted));
    assert!(session.names().is_empty());
}
