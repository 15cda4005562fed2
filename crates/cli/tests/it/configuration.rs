//! `bezel config`, arguments, and what is said before anything is started.

use crate::home::{Home, finish};

#[test]
fn a_typo_ends_with_status_2_its_place_and_a_suggestion_and_starts_nothing() {
    let home = Home::new();
    home.configure("\nmodle = \"a::b\"\n");
    for command in [
        &["run", "hi"][..],
        &["models"],
        &["config", "check"],
        &["config", "show"],
        &["--standalone"],
    ] {
        let done = home.run(command);
        done.failed(2, "did you mean `model`?");
        assert!(done.stderr.contains("b/config.toml:2:1"), "{done:#?}");
    }
    assert!(!home.bezel().join("run").exists());
}

#[test]
fn all_mistakes_are_told_at_once() {
    let home = Home::new();
    home.configure("modle = \"a::b\"\nthinking = 3\n[tui]\nmouse = 1\n");
    let done = home.run(&["config", "check"]);
    assert_eq!(
        done.failed(2, "error: ").stderr.matches("error: ").count(),
        3,
        "{done:#?}"
    );
}

#[test]
fn what_a_plugin_cannot_read_and_an_agent_that_is_not_there_are_mistakes() {
    let home = Home::new();
    home.configure("agent = \"nope\"\n[plugins.subagent.config]\nmax_dept = 1\n[plugins.chat.config]\nfoo = 1\n");
    let done = home.run(&["config", "check"]);
    for said in [
        "there is no agent `nope`",
        "config.toml:1",
        "unknown field `max_dept`, expected `max_depth`",
        "config.toml:3",
        "plugin `chat` cannot be configured so: it takes no configuration",
    ] {
        done.failed(2, said);
    }
    assert!(!done.stdout.contains("is valid"), "{done:#?}");
    home.configure("agent = \"plan\"\n[plugins.subagent.config]\nmax_depth = 1\n");
    home.run(&["config", "check"]).succeeded();
    // A key that a table swallowed is told where it belongs.
    home.configure("[[providers.local.models]]\nid = \"a\"\nagent = \"plan\"\n");
    home.run(&["config", "check"]).failed(
        2,
        "`agent` belongs to no table: write it above the first line in [ ]",
    );
}

#[test]
fn a_project_configures_only_once_it_is_trusted() {
    let home = Home::new();
    std::fs::create_dir(home.project().join(".bezel")).unwrap();
    std::fs::write(
        home.project().join(".bezel/config.toml"),
        "theme = \"dark\"\n",
    )
    .unwrap();
    let show = || home.run(&["config", "show"]).succeeded().stdout.clone();
    assert!(
        show().contains("theme = \"auto\"") && show().contains("bezel config trust"),
        "{}",
        show()
    );
    home.run(&["config", "trust"]).succeeded();
    assert!(show().contains("theme = \"dark\""), "{}", show());
    home.run(&["config", "untrust"]).succeeded();
    assert!(show().contains("theme = \"auto\""), "{}", show());
    home.run(&["config", "trust", "nowhere"])
        .failed(1, "nowhere");
}

#[test]
fn what_is_shown_is_valid_configuration_and_hides_header_values() {
    let home = Home::new();
    home.configure("model = \"a::b\"\n[providers.a]\nkind = \"openai\"\nheaders = { Authorization = \"Bearer s3cret\" }\n[[providers.a.models]]\nid = \"b\"\n");
    let shown = home.run(&["config", "show"]);
    assert!(!shown.succeeded().stdout.contains("s3cret"));
    home.configure(&shown.stdout);
    home.run(&["config", "check"]).succeeded();
}

#[test]
fn bad_usage_ends_with_status_2() {
    let home = Home::new();
    for (arguments, saying) in [
        (&["frobnicate"][..], "unrecognized subcommand"),
        (
            &["run", "--permission-mode", "some", "hi"],
            "possible values: plan, ask, accept-edits, auto, full",
        ),
        (
            &["run", "--session", "x", "--continue", "hi"],
            "cannot be used with",
        ),
        (&["run", "--model", "gpt-5", "hi"], "PROVIDER::MODEL"),
        (
            &["run", "--cwd", "nowhere", "hi"],
            "there is no such directory",
        ),
        (&["run", ""], "the prompt is empty"),
        (&["run", "  \n"], "the prompt is empty"),
        (&["run"], "the prompt is empty"),
        (&["run", "-"], "the prompt is empty"),
        (
            &["run", "--continue", "--permission-mode", "plan", "hi"],
            "belongs to a new session",
        ),
    ] {
        home.run(arguments).failed(2, saying);
    }
    home.pipe(&["run"], b"\xff\xfe").failed(2, "not UTF-8");
    let mut command = home.command(&["run", "hi"]);
    command.env("BEZEL_LOG", "lots");
    finish(command.spawn().unwrap()).failed(2, "BEZEL_LOG");
    assert_eq!(home.server(), None);
}

#[test]
fn the_schema_and_completions_are_printed() {
    let home = Home::new();
    let schema = home.run(&["config", "schema"]);
    let published = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/config.schema.json"
    ))
    .unwrap();
    assert_eq!(schema.succeeded().stdout, published);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(
            home.run(&["completions", shell])
                .succeeded()
                .stdout
                .contains("permission-mode"),
            "{shell}"
        );
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let home = Home::new();
    let mut child = home.command(&["config", "schema"]).spawn().unwrap();
    drop(child.stdout.take());
    let done = finish(child);
    assert_eq!((done.status, done.stderr.as_str()), (Some(0), ""));
}

#[test]
fn without_a_terminal_what_is_meant_for_one_is_refused_and_bezel_run_is_named() {
    let home = Home::new();
    for arguments in [
        &["--session", "zzzz"][..],
        &["--continue"],
        &["--model", "scripted::tour"],
        &["--standalone"],
    ] {
        home.run(arguments).failed(2, "`bezel run");
    }
    home.pipe(&[], b"x").failed(2, "`bezel run");
    let mut command = home.command(&[]);
    command.env("ANTHROPIC_API_KEY", "k");
    finish(command.spawn().unwrap()).failed(2, "`bezel run");
    home.configure("model = \"scripted::tour\"\n");
    home.run(&[]).failed(2, "`bezel tour`");
}

#[test]
fn a_model_of_a_provider_that_is_not_there_is_reported_at_its_line() {
    let home = Home::new();
    home.configure(
        "model = \"locl::qwen3-coder\"\n[providers.local]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:1\"\n",
    );
    let done = home.run(&["config", "check"]);
    done.failed(2, "did you mean \"local::qwen3-coder\"?");
    assert!(done.stderr.contains("config.toml:1:1"), "{done:#?}");
    let doctor = home.run(&["doctor"]);
    assert_eq!(doctor.status, Some(1), "{doctor:#?}");
}
