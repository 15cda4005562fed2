//! What programs and people get to read of a session.

use std::path::Path;

use bezel_session_types::{
    AssistantContent, AssistantMessage, BranchSummary, Compaction, CompactionReason, CustomEntry,
    Entry, EntryBody, EntryId, ExportFormat, InvocationId, LaneName, Message, ResultContent,
    SessionId, StopReason, ToolCall, ToolResultMessage, Usage, UserMessage,
};
use bezel_store::{PackageFacts, Store, Transaction};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::upkeep::export;

struct Session {
    directory: TempDir,
    store: Store,
}

impl Session {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("session.db")).unwrap();
        Session { directory, store }
    }

    fn append(&self, id: &str, parent: Option<&str>, body: impl Into<EntryBody>) {
        let mut transaction = Transaction::new();
        let id = EntryId::new(id);
        transaction.append(id.clone(), parent.map(EntryId::new), body);
        transaction.set_tip(&LaneName::main(), Some(&id));
        self.store.commit(transaction).unwrap();
    }

    fn written(&self, title: &str, format: ExportFormat) -> String {
        let facts = PackageFacts {
            session_id: SessionId::new("s1"),
            title: title.into(),
            directory: "/srv/project".into(),
            output_directory: self.directory.path().join("output"),
            version: "1.2.3".into(),
        };
        let target = self.directory.path().join(format!("{format:?}"));
        export(
            &self.directory.path().join("session.db"),
            &facts,
            format,
            &target,
        )
        .unwrap();
        let text = std::fs::read_to_string(&target).unwrap();
        std::fs::remove_file(&target).unwrap();
        text
    }
}

fn answer(content: Vec<AssistantContent>, error: Option<&str>) -> Message {
    Message::Assistant(AssistantMessage {
        content,
        model: "local::m".parse().unwrap(),
        usage: Usage::default(),
        stop_reason: StopReason::Stop,
        error: error.map(Into::into),
    })
}

fn says(text: &str) -> AssistantContent {
    AssistantContent::Text { text: text.into() }
}

fn call(tool: &str, arguments: Value) -> AssistantContent {
    AssistantContent::ToolCall(ToolCall {
        id: "c".into(),
        name: tool.into(),
        arguments,
        signature: None,
    })
}

fn result(tool: &str, text: &str, is_error: bool) -> Message {
    Message::ToolResult(ToolResultMessage {
        call_id: "c".into(),
        invocation_id: InvocationId::new("i"),
        tool: tool.into(),
        content: vec![ResultContent::text(text)],
        structured: None,
        details: Value::Null,
        is_error,
    })
}

/// A conversation with a branch that was left, and one of everything.
fn conversation() -> Session {
    let session = Session::new();
    session.append("u1", None, Message::User(UserMessage::text("Fix it.\n")));
    session.append(
        "left",
        Some("u1"),
        answer(vec![says("On the branch that was left.")], None),
    );
    let branch = BranchSummary {
        summary: "Tried it otherwise.".into(),
        from: EntryId::new("left"),
    };
    session.append("b", Some("u1"), EntryBody::BranchSummary(branch));
    let thought = AssistantContent::Thinking {
        text: "a secret thought".into(),
        signature: None,
    };
    let command = call("bash", json!({ "command": "cat notes.md" }));
    session.append(
        "a1",
        Some("b"),
        answer(vec![thought, says("I look."), command], None),
    );
    session.append("r1", Some("a1"), result("bash", "```\ncode\n```\n", false));
    let edit = call("edit", json!({ "path": "a.rs" }));
    session.append("a2", Some("r1"), answer(vec![edit], None));
    session.append("r2", Some("a2"), result("edit", "no such file", true));
    let compaction = Compaction {
        summary: "It was about a fix.".into(),
        first_kept: None,
        tokens_before: 9,
        reason: CompactionReason::Manual,
    };
    session.append("k", Some("r2"), EntryBody::Compaction(compaction));
    let note = |name: &str, value: Value| {
        EntryBody::Custom(CustomEntry {
            name: name.into(),
            value,
        })
    };
    session.append(
        "n",
        Some("k"),
        note("harness.resumed", json!({ "message": "It went on." })),
    );
    session.append("x", Some("n"), note("plugin.fact", json!({ "hidden": 1 })));
    session.append(
        "a3",
        Some("x"),
        answer(vec![says("Done.")], Some("connection lost")),
    );
    session
}

#[test]
fn a_transcript_reads_as_the_conversation_was() {
    let text = conversation().written("The fix", ExportFormat::Markdown);
    let (head, rest) = text.split_once("\n\nFix it.\n").unwrap();
    assert!(head.starts_with("# The fix\n\n## Person · 20"), "{head}");
    assert_eq!(
        rest,
        "
<details><summary>Another branch of the conversation was left</summary>

Tried it otherwise.

</details>

## local::m

I look.

**bash**

```bash
cat notes.md
```

<details><summary>Result of bash: 3 lines</summary>

````text
```
code
```
````

</details>

**edit**

```json
{
  \"path\": \"a.rs\"
}
```

<details><summary>Result of edit, failed: 1 line</summary>

```text
no such file
```

</details>

<details><summary>Everything before was summarised for the model</summary>

It was about a fix.

</details>

*It went on.*

Done.

*It ended early: connection lost*
"
    );
}

#[test]
fn a_long_result_is_cut_and_the_rest_counted() {
    let session = Session::new();
    session.append("u", None, Message::User(UserMessage::text("go")));
    let long = format!("{}\n{}", "é".repeat(2_000), "line\n".repeat(99));
    session.append("r", Some("u"), result("bash", &long, false));
    let text = session.written("", ExportFormat::Markdown);
    assert!(text.starts_with("# Session\n"), "{text}");
    assert!(text.contains("100 lines"), "{text}");
    assert!(
        text.contains(&format!("{}…\n", "é".repeat(1_000))),
        "{text}"
    );
    assert!(
        text.ends_with("line\n```\n\n*…and 40 more lines*\n\n</details>\n"),
        "{text}"
    );
}

#[test]
fn lines_hold_the_session_and_then_every_entry_as_it_is_kept() {
    let session = conversation();
    for index in 0..600 {
        let parent = if index == 0 {
            "a3".to_owned()
        } else {
            format!("m{}", index - 1)
        };
        let said = Message::User(UserMessage::text(format!("more {index}")));
        session.append(&format!("m{index}"), Some(&parent), said);
    }
    let text = session.written("The fix", ExportFormat::Jsonl);
    let mut lines = text.lines();
    let about: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(
        about,
        json!({
            "kind": "session",
            "version": 1,
            "session_id": "s1",
            "title": "The fix",
            "directory": "/srv/project",
            "tip": "m599",
            "written_by": "bezel 1.2.3",
        })
    );
    let entries: Vec<Entry> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kept = session
        .store
        .read(|queries| queries.entries_after(0, 10_000));
    assert_eq!(entries, kept.unwrap());
    // The branch that was left is there too.
    assert!(entries.iter().any(|entry| entry.id == EntryId::new("left")));
}

#[test]
fn an_empty_session_is_written_and_a_file_that_is_there_is_not_written_over() {
    let session = Session::new();
    assert_eq!(session.written("", ExportFormat::Markdown), "# Session\n");
    assert_eq!(session.written("", ExportFormat::Jsonl).lines().count(), 1);
    let facts = PackageFacts {
        session_id: SessionId::new("s1"),
        title: String::new(),
        directory: "/srv".into(),
        output_directory: "/srv".into(),
        version: "0".into(),
    };
    let target = session.directory.path().join("mine");
    std::fs::write(&target, "mine").unwrap();
    let database = session.directory.path().join("session.db");
    for format in [ExportFormat::Jsonl, ExportFormat::Markdown] {
        let refused = export(&database, &facts, format, &target).unwrap_err();
        assert!(
            refused.to_string().contains("is there already"),
            "{refused}"
        );
        let nowhere = export(&database, &facts, format, Path::new("/nowhere/at/all")).unwrap_err();
        assert!(nowhere.to_string().contains("/nowhere/at/all"), "{nowhere}");
    }
    assert_eq!(std::fs::read(&target).unwrap(), b"mine");
}
