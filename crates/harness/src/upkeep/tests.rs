//! Sessions of other programs, taken in: what comes of them, and that no file does harm.

mod fixtures;
mod harm;

use std::path::{Path, PathBuf};

use bezel_session_types::{
    AssistantContent, Entry, EntryBody, ExportFormat, ImportSummary, LaneName, Message,
    ResultContent, SourceFormat, StopReason, Usage, UserContent,
};
use bezel_store::{PackageFacts, Store, Transaction};
use serde_json::{Value, json};
use tempfile::TempDir;

use self::fixtures::{claude, codex, pi};
use super::{ImportError, ImportPlace, check, export, import};

struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        Place {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn target(&self) -> ImportPlace {
        ImportPlace {
            database: self.path("session.db"),
            outputs: self.path("output"),
            outputs_later: self.path("output"),
        }
    }

    /// Takes bytes in, as a file of any name.
    fn import(&self, bytes: &[u8]) -> Result<ImportSummary, ImportError> {
        let file = self.path("brought");
        std::fs::write(&file, bytes).unwrap();
        let imported = import(&file, &self.target());
        assert_eq!(std::fs::read(&file).unwrap(), bytes, "the file was changed");
        imported
    }

    /// The path of the main lane, as one line an entry.
    fn path_of_main(&self) -> Vec<String> {
        let store = Store::open(self.path("session.db")).unwrap();
        let tip = store
            .read(|queries| queries.tip(&LaneName::main()))
            .unwrap()
            .unwrap();
        let page = store.read(|queries| queries.path(&tip, 1000)).unwrap();
        page.entries.iter().map(line).collect()
    }

    fn all(&self) -> Vec<Entry> {
        let store = Store::open(self.path("session.db")).unwrap();
        store
            .read(|queries| queries.entries_after(0, 1000))
            .unwrap()
    }

    fn is_whole(&self) {
        let found = check(&self.path("session.db"), &self.path("output"));
        assert_eq!(found.problems, []);
    }
}

fn line(entry: &Entry) -> String {
    let message = match &entry.body {
        EntryBody::Message { message } => message,
        EntryBody::Compaction(compaction) => return format!("compaction: {}", compaction.summary),
        EntryBody::BranchSummary(branch) => return format!("branch: {}", branch.summary),
        EntryBody::Custom(custom) => return format!("{}: {}", custom.name, custom.value),
    };
    match &**message {
        Message::User(user) => {
            let mark = if user.synthetic { "~" } else { ">" };
            let images = user
                .content
                .iter()
                .filter(|part| matches!(part, UserContent::Image(_)));
            format!(
                "{mark} {}{}",
                user.to_text(),
                " [picture]".repeat(images.count())
            )
        }
        Message::Assistant(answer) => {
            let parts = answer.content.iter().map(|part| match part {
                AssistantContent::Text { text } => text.clone(),
                AssistantContent::Thinking { text, signature } => {
                    assert_eq!(*signature, None, "a foreign signature was kept");
                    format!("({text})")
                }
                AssistantContent::ToolCall(call) => format!("{}{}", call.name, call.arguments),
            });
            parts.collect::<Vec<_>>().join(" | ")
        }
        Message::ToolResult(result) => {
            let texts = result.content.iter().map(|part| match part {
                ResultContent::Text { text } => text.as_str(),
                ResultContent::Image(_) => "[picture]",
            });
            let failed = if result.is_error { "!" } else { "" };
            format!(
                "{}{failed} = {}",
                result.tool,
                texts.collect::<Vec<_>>().join(" ")
            )
        }
    }
}

#[test]
fn a_session_of_pi_keeps_its_branches_its_labels_and_the_results_of_its_calls() {
    let place = Place::new();
    let summary = place.import(&pi()).unwrap();
    assert_eq!(
        (
            summary.format,
            summary.origin.as_deref(),
            summary.title.as_str()
        ),
        (SourceFormat::Pi, Some("p-1"), "Two ways")
    );
    assert_eq!(summary.directory.as_deref(), Some(Path::new("/srv/pi")));
    assert_eq!(
        summary.left_out,
        [("entry `from_the_future`".to_owned(), 1)].into()
    );
    assert_eq!(
        place.path_of_main(),
        [
            "> look [picture]",
            r#"(hm) | reading | read{"path":"c1"} | read{"path":"c2"}"#,
            "read! = no such file",
            "read = one",
            "branch: went left",
            "> go right",
            "compaction: so far",
            r#"pi.note: {"n":1}"#,
            "~ Ran `ls`:\n```\nx\n```",
        ]
    );
    let all = place.all();
    assert_eq!(all.len() as u64, summary.entries);
    assert!(all.iter().any(|entry| line(entry) == "left branch"));
    let entry = |text: &str| all.iter().find(|entry| line(entry).contains(text)).unwrap();
    let EntryBody::Compaction(compaction) = &entry("compaction").body else {
        panic!("no compaction")
    };
    assert_eq!(
        compaction.first_kept.as_ref(),
        Some(&entry("> go right").id)
    );
    assert_eq!(compaction.tokens_before, 900);
    let EntryBody::BranchSummary(branch) = &entry("branch: went").body else {
        panic!("no summary")
    };
    assert_eq!(branch.from, entry("left branch").id);
    let Some(Message::Assistant(answer)) = entry("reading").message() else {
        panic!("no answer")
    };
    assert_eq!((answer.usage.input, answer.usage.cache_write), (3, 6));
    assert_eq!(entry("> look").created_at, 1_770_091_506_789);
    let store = Store::open(place.path("session.db")).unwrap();
    let key = format!("label/{}", entry("read = one").id);
    let label = store.read(|queries| queries.value::<String>(&key)).unwrap();
    assert_eq!(label.as_deref(), Some("here"));
    drop(store);
    place.is_whole();
}

#[test]
fn a_session_of_claude_code_becomes_whole_answers_with_their_results_in_a_row() {
    let place = Place::new();
    let summary = place.import(&claude()).unwrap();
    assert_eq!(
        (
            summary.format,
            summary.origin.as_deref(),
            summary.title.as_str()
        ),
        (SourceFormat::ClaudeCode, Some("c-1"), "Reading two files")
    );
    assert_eq!(
        place.path_of_main(),
        [
            "> read both",
            r#"(hm) | Read{"file":"t1"} | Read{"file":"t2"}"#,
            "Read = first",
            "Read = second [picture]",
            "both read",
            "compaction: what was",
            "> rather this",
        ]
    );
    let all = place.all();
    let lost = all
        .iter()
        .find(|entry| line(entry).contains("is not known"))
        .unwrap();
    assert!(
        line(lost).starts_with("Read! ="),
        "the call on the branch that was left has a result"
    );
    assert_eq!(summary.left_out.get("line of a subagent"), Some(&1));
    place.is_whole();
}

#[test]
fn a_rollout_of_codex_keeps_what_was_rolled_back_beside_the_path() {
    let place = Place::new();
    let summary = place.import(&codex()).unwrap();
    assert_eq!(
        (
            summary.format,
            summary.origin.as_deref(),
            summary.title.as_str()
        ),
        (SourceFormat::Codex, Some("x-1"), "run it")
    );
    assert_eq!(
        place.path_of_main(),
        [
            "~ <environment_context>here</environment_context>",
            "> run it",
            r#"(hm) | shell{"command":["ls"]} | apply_patch{"input":"*** Begin"}"#,
            "shell! = gone",
            "apply_patch = done [picture]",
            "it ran",
            "compaction: it was run",
            r#"local_shell{"command":["true"]}"#,
            "local_shell! = The result of this call is not known: the session that it comes from has none.",
        ]
    );
    let all = place.all();
    assert!(all.iter().any(|entry| line(entry) == "indeed"));
    let Some(Message::Assistant(answer)) = all
        .iter()
        .find(|entry| line(entry) == "it ran")
        .unwrap()
        .message()
    else {
        panic!("no answer")
    };
    assert_eq!(answer.model.to_string(), "openai::gpt-x");
    assert_eq!(answer.stop_reason, StopReason::Stop);
    assert_eq!(
        answer.usage,
        Usage {
            input: 40,
            output: 20,
            cache_read: 60,
            cache_write: 0,
            reasoning: 5
        }
    );
    assert_eq!(summary.left_out.get("item `web_search_call`"), Some(&1));
    place.is_whole();
}

#[test]
fn what_is_no_session_is_refused_with_its_name() {
    for (bytes, expected) in [
        (&b""[..], "no session that Bezel knows"),
        (b"{\"hello\": 1}\n", "no session that Bezel knows"),
        (b"\x00\xff\xfe binary \n\n", "no session that Bezel knows"),
        (
            b"{\"type\":\"session\",\"version\":4,\"id\":\"x\"}\n",
            "format 4",
        ),
        (
            b"{\"type\":\"session\",\"version\":3,\"id\":\"x\",\"cwd\":\"/\"}\n",
            "without a single message",
        ),
        (b"SQLite format 3\0", "left as it is"),
    ] {
        let place = Place::new();
        let error = place.import(bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(
            error.contains(place.path("brought").to_str().unwrap()),
            "{error}"
        );
        assert!(!place.path("session.db").exists(), "{error}");
    }
    let place = Place::new();
    let error = import(&place.path("none"), &place.target()).unwrap_err();
    assert!(matches!(error, ImportError::Read { .. }), "{error}");
    let error = import(place.directory.path(), &place.target()).unwrap_err();
    assert!(matches!(error, ImportError::Read { .. }), "{error}");
}

#[test]
fn an_export_is_taken_in_as_an_idle_session_of_its_own() {
    let source = Place::new();
    source.import(&claude()).unwrap();
    let store = Store::open(source.path("session.db")).unwrap();
    let tip = store
        .read(|queries| queries.tip(&LaneName::main()))
        .unwrap();
    // As it stands in the middle of a run: a call is out, one more message waits.
    let mut transaction = Transaction::new();
    let answer = bezel_session_types::AssistantMessage {
        content: vec![AssistantContent::ToolCall(bezel_session_types::ToolCall {
            id: "open".into(),
            name: "bash".into(),
            arguments: Value::Null,
            signature: None,
        })],
        model: "a::b".parse().unwrap(),
        usage: Usage::default(),
        stop_reason: StopReason::ToolUse,
        error: None,
    };
    let id = bezel_session_types::EntryId::new("calls");
    transaction.append(id.clone(), tip, Message::Assistant(answer));
    transaction.set_tip(&LaneName::main(), Some(&id));
    transaction.set_value("operation/main", &json!({ "phase": "tools" }));
    transaction.set_value("staged/one", "x");
    transaction.admit(bezel_store::NewInboxRow {
        id: bezel_session_types::EntryId::new("waiting"),
        lane: LaneName::main(),
        command_id: bezel_session_types::CommandId::new("c"),
        operation_id: bezel_session_types::OperationId::new("o"),
        delivery: bezel_session_types::Delivery::Steer,
        resume: true,
        message: bezel_session_types::UserMessage::text("later"),
    });
    store.commit(transaction).unwrap();

    let facts = PackageFacts {
        session_id: bezel_session_types::SessionId::new("the-old-one"),
        title: "Named".into(),
        directory: "/srv/old".into(),
        output_directory: source.path("output"),
        version: "0".into(),
    };
    let file = source.path("exported");
    export(
        &source.path("session.db"),
        &facts,
        ExportFormat::Bezel,
        &file,
    )
    .unwrap();
    let place = Place::new();
    let summary = place.import(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(
        (
            summary.format,
            summary.origin.as_deref(),
            summary.title.as_str()
        ),
        (SourceFormat::Bezel, Some("the-old-one"), "Named")
    );
    let path = place.path_of_main();
    assert!(
        path.last().unwrap().starts_with("bash! = Interrupted"),
        "{path:?}"
    );
    let store = Store::open(place.path("session.db")).unwrap();
    store
        .read(|queries| {
            assert!(queries.inbox_lanes()?.is_empty());
            assert!(queries.keys("operation/")?.is_empty() && queries.keys("staged/")?.is_empty());
            let origin: Value = queries.value("origin")?.unwrap();
            assert_eq!(
                origin,
                json!({ "format": "bezel", "session": "the-old-one" })
            );
            Ok(())
        })
        .unwrap();
    drop(store);
    place.is_whole();
    let found = check(&source.path("session.db"), &source.path("output"));
    let found: Vec<&str> = found
        .problems
        .iter()
        .map(|problem| problem.what.as_str())
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("what lane main does cannot be read"),
        "{found:?}"
    );
}

#[test]
fn a_check_tells_what_an_operation_left_and_which_saved_output_is_gone() {
    let place = Place::new();
    place.import(&pi()).unwrap();
    let store = Store::open(place.path("session.db")).unwrap();
    let tip = store
        .read(|queries| queries.tip(&LaneName::main()))
        .unwrap();
    let mut transaction = Transaction::new();
    transaction.set_value("staged/i9", "x");
    let gone = place.path("output").join("i9-2.txt");
    let body = bezel_session_types::ToolResultMessage {
        call_id: "nobody".into(),
        invocation_id: bezel_session_types::InvocationId::new("i9"),
        tool: "bash".into(),
        content: vec![ResultContent::text(format!("saved in {}.", gone.display()))],
        structured: None,
        details: Value::Null,
        is_error: false,
    };
    transaction.append(
        bezel_session_types::EntryId::new("i9"),
        tip,
        Message::ToolResult(body),
    );
    store.commit(transaction).unwrap();
    let found = check(&place.path("session.db"), &place.path("output"));
    let found: Vec<&str> = found
        .problems
        .iter()
        .map(|problem| problem.what.as_str())
        .collect();
    assert_eq!(
        found,
        [
            "the result i9 answers no call before it",
            "entry i9 names the saved output i9-2.txt, which is gone",
            "the value staged/i9 belongs to no open operation",
        ]
    );
    std::fs::create_dir(place.path("output")).unwrap();
    std::fs::write(gone, "").unwrap();
    assert_eq!(
        check(&place.path("session.db"), &place.path("output"))
            .problems
            .len(),
        2
    );
    std::fs::write(place.path("other.db"), "no database at all").unwrap();
    let found = check(&place.path("other.db"), &place.path("output"));
    assert_eq!(found.problems.len(), 1);
    assert!(
        check(&place.path("none.db"), &place.path("output"))
            .problems
            .is_empty()
    );
}
