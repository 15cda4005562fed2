//! Sessions of other programs, taken in: what comes of them, and that no file does harm.

use std::path::{Path, PathBuf};

use bezel_session_types::{
    AssistantContent, Entry, EntryBody, ImportSummary, LaneName, Message, ResultContent,
    SourceFormat, StopReason, Usage, UserContent,
};
use bezel_store::{PackageFacts, Store, Transaction};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

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

fn jsonl(lines: &[Value]) -> Vec<u8> {
    let lines = lines.iter().map(|line| format!("{line}\n"));
    lines.collect::<String>().into_bytes()
}

const PICTURE: &str = "iVBORw0KGgo=";

fn pi() -> Vec<u8> {
    let entry = |id: &str, parent: Option<&str>, kind: &str, rest: Value| {
        let mut entry = json!({
            "type": kind, "id": id, "parentId": parent, "timestamp": "2026-02-03T04:05:06.789Z",
        });
        entry
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        entry
    };
    let said = |message: Value| json!({ "message": message });
    let call = |id: &str| json!({ "type": "toolCall", "id": id, "name": "read", "arguments": { "path": id } });
    jsonl(&[
        json!({ "type": "session", "version": 3, "id": "p-1", "timestamp": "2026-02-03T04:05:06Z", "cwd": "/work/pi" }),
        entry(
            "m0",
            None,
            "model_change",
            json!({ "provider": "anthropic", "modelId": "claude" }),
        ),
        entry(
            "a",
            Some("m0"),
            "message",
            said(json!({ "role": "user", "content": [
            { "type": "text", "text": "look" }, { "type": "image", "data": PICTURE, "mimeType": "image/png" } ] })),
        ),
        entry(
            "b",
            Some("a"),
            "message",
            said(
                json!({ "role": "assistant", "provider": "anthropic", "model": "claude",
            "stopReason": "toolUse", "usage": { "input": 3, "output": 4, "cacheRead": 5, "cacheWrite": 6 },
            "content": [ { "type": "thinking", "thinking": "hm", "thinkingSignature": "secret" },
                         { "type": "text", "text": "reading" }, call("c1"), call("c2") ] }),
            ),
        ),
        entry(
            "c",
            Some("b"),
            "message",
            said(
                json!({ "role": "toolResult", "toolCallId": "c2", "toolName": "read",
            "isError": true, "content": [ { "type": "text", "text": "no such file" } ] }),
            ),
        ),
        entry(
            "d",
            Some("c"),
            "message",
            said(
                json!({ "role": "toolResult", "toolCallId": "c1", "toolName": "read",
            "isError": false, "content": [ { "type": "text", "text": "one" } ] }),
            ),
        ),
        entry(
            "e",
            Some("d"),
            "message",
            said(
                json!({ "role": "assistant", "provider": "anthropic", "model": "claude",
            "stopReason": "stop", "content": [ { "type": "text", "text": "left branch" } ] }),
            ),
        ),
        entry(
            "l",
            Some("e"),
            "label",
            json!({ "targetId": "d", "label": "here" }),
        ),
        // Back to the results, another way.
        entry(
            "s",
            Some("d"),
            "branch_summary",
            json!({ "fromId": "e", "summary": "went left" }),
        ),
        entry(
            "f",
            Some("s"),
            "message",
            said(json!({ "role": "user", "content": "go right" })),
        ),
        entry(
            "g",
            Some("f"),
            "compaction",
            json!({ "summary": "so far", "firstKeptEntryId": "f", "tokensBefore": 900 }),
        ),
        entry(
            "h",
            Some("g"),
            "custom",
            json!({ "customType": "note", "data": { "n": 1 } }),
        ),
        entry("i", Some("h"), "from_the_future", json!({})),
        entry(
            "j",
            Some("i"),
            "message",
            said(json!({ "role": "bashExecution", "command": "ls", "output": "x" })),
        ),
        entry(
            "k",
            Some("j"),
            "session_info",
            json!({ "name": "Two ways" }),
        ),
    ])
}

fn claude() -> Vec<u8> {
    let line = |id: &str, parent: Option<&str>, kind: &str, message: Value| {
        json!({ "type": kind, "uuid": id, "parentUuid": parent, "sessionId": "c-1", "cwd": "/work/claude",
                "isSidechain": false, "timestamp": "2026-02-03T04:05:06.789Z", "message": message })
    };
    let answer = |id: &str, part: Value| {
        json!({ "id": id, "role": "assistant", "model": "claude-x", "content": [part],
                "usage": { "input_tokens": 7, "output_tokens": 8, "cache_read_input_tokens": 9,
                           "cache_creation_input_tokens": 10 } })
    };
    let result = |call: &str, content: Value| json!({ "role": "user", "content": [ { "type": "tool_result", "tool_use_id": call, "content": content } ] });
    let call =
        |id: &str| json!({ "type": "tool_use", "id": id, "name": "Read", "input": { "file": id } });
    let mut sub = line(
        "x1",
        None,
        "user",
        json!({ "role": "user", "content": "for a subagent" }),
    );
    sub["isSidechain"] = json!(true);
    let mut summary = line(
        "u9",
        Some("bound"),
        "user",
        json!({ "role": "user", "content": "what was" }),
    );
    summary["isCompactSummary"] = json!(true);
    jsonl(&[
        json!({ "type": "summary", "summary": "Reading two files", "leafUuid": "u7" }),
        line(
            "u1",
            None,
            "user",
            json!({ "role": "user", "content": "read both" }),
        ),
        sub,
        line(
            "u2",
            Some("u1"),
            "assistant",
            answer(
                "m1",
                json!({ "type": "thinking", "thinking": "hm", "signature": "s" }),
            ),
        ),
        line("u3", Some("u2"), "assistant", answer("m1", call("t1"))),
        line("u4", Some("u3"), "assistant", answer("m1", call("t2"))),
        // Each result follows the line of its own call.
        line("u5", Some("u3"), "user", result("t1", json!("first"))),
        line(
            "u6",
            Some("u4"),
            "user",
            result(
                "t2",
                json!([ { "type": "text", "text": "second" },
            { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": PICTURE } } ]),
            ),
        ),
        json!({ "type": "progress", "uuid": "p1", "parentUuid": "u6", "sessionId": "c-1" }),
        line(
            "u7",
            Some("p1"),
            "assistant",
            answer("m2", json!({ "type": "text", "text": "both read" })),
        ),
        json!({ "type": "system", "subtype": "compact_boundary", "uuid": "bound", "parentUuid": null,
                "logicalParentUuid": "u7", "sessionId": "c-1" }),
        summary,
        line(
            "u10",
            Some("u9"),
            "user",
            json!({ "role": "user", "content": [ { "type": "text", "text": "and now" } ] }),
        ),
        line("u11", Some("u10"), "assistant", answer("m3", call("t3"))),
        // Taken back: another question from the same place.
        line(
            "u12",
            Some("u9"),
            "user",
            json!({ "role": "user", "content": "rather this" }),
        ),
    ])
}

fn codex() -> Vec<u8> {
    let line = |kind: &str, payload: Value| json!({ "timestamp": "2026-02-03T04:05:06.789Z", "type": kind, "payload": payload });
    let item = |payload: Value| line("response_item", payload);
    let said = |role: &str, kind: &str, text: &str| {
        item(
            json!({ "type": "message", "role": role, "content": [ { "type": kind, "text": text } ] }),
        )
    };
    jsonl(&[
        line(
            "session_meta",
            json!({ "id": "x-1", "cwd": "/work/codex", "model_provider": "openai" }),
        ),
        said("developer", "input_text", "rules"),
        said(
            "user",
            "input_text",
            "<environment_context>here</environment_context>",
        ),
        line(
            "turn_context",
            json!({ "model": "gpt-x", "cwd": "/work/codex" }),
        ),
        said("user", "input_text", "run it"),
        line(
            "event_msg",
            json!({ "type": "user_message", "message": "run it" }),
        ),
        item(
            json!({ "type": "reasoning", "summary": [ { "type": "summary_text", "text": "hm" } ], "encrypted_content": "zzz" }),
        ),
        item(
            json!({ "type": "function_call", "name": "shell", "arguments": "{\"command\":[\"ls\"]}", "call_id": "f1" }),
        ),
        item(
            json!({ "type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin", "call_id": "f2" }),
        ),
        item(json!({ "type": "function_call_output", "call_id": "f1",
            "output": "{\"output\":\"gone\",\"metadata\":{\"exit_code\":2}}" })),
        item(
            json!({ "type": "custom_tool_call_output", "call_id": "f2", "output": [
            { "type": "input_text", "text": "done" },
            { "type": "input_image", "image_url": format!("data:image/png;base64,{PICTURE}") } ] }),
        ),
        said("assistant", "output_text", "it ran"),
        line(
            "event_msg",
            json!({ "type": "token_count", "info": { "last_token_usage": {
            "input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 20, "reasoning_output_tokens": 5 } } }),
        ),
        said("user", "input_text", "a mistake"),
        said("assistant", "output_text", "indeed"),
        line(
            "event_msg",
            json!({ "type": "thread_rolled_back", "num_turns": 1 }),
        ),
        line("compacted", json!({ "message": "it was run" })),
        item(json!({ "type": "web_search_call", "status": "completed" })),
        item(
            json!({ "type": "local_shell_call", "call_id": "f3", "status": "completed",
            "action": { "type": "exec", "command": ["true"] } }),
        ),
    ])
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
    assert_eq!(summary.directory.as_deref(), Some(Path::new("/work/pi")));
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
        directory: "/work/old".into(),
        output_directory: source.path("output"),
        version: "0".into(),
    };
    let file = source.path("exported");
    export(&source.path("session.db"), &facts, &file).unwrap();
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

/// Whatever a file holds: it is taken in whole, or refused.
fn does_no_harm(bytes: &[u8]) {
    let place = Place::new();
    if let Ok(summary) = place.import(bytes) {
        assert_eq!(place.all().len() as u64, summary.entries);
        place.is_whole();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_that_is_cut_anywhere_does_no_harm(which in 0..3_usize, begin in any::<prop::sample::Index>(), end in any::<prop::sample::Index>()) {
        let whole = [pi(), claude(), codex()][which].clone();
        let (begin, end) = (begin.index(whole.len()), end.index(whole.len()));
        does_no_harm(&whole[begin.min(end)..begin.max(end)]);
        does_no_harm(&whole[..end]);
    }

    #[test]
    fn lines_that_are_missing_doubled_or_out_of_order_do_no_harm(which in 0..3_usize, order in prop::collection::vec(any::<prop::sample::Index>(), 1..30)) {
        let whole = [pi(), claude(), codex()][which].clone();
        let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        let mixed: Vec<u8> = order.iter().flat_map(|index| lines[index.index(lines.len())].to_vec()).collect();
        does_no_harm(&mixed);
        let headed = [lines[0], &mixed].concat();
        does_no_harm(&headed);
    }

    #[test]
    fn values_of_another_kind_do_no_harm(which in 0..3_usize, at in any::<prop::sample::Index>(), put in prop::sample::select(vec!["null", "0", "[]", "{}", "\"x\"", "[[{}]]"])) {
        let whole = String::from_utf8([pi(), claude(), codex()][which].clone()).unwrap();
        // In place of some value that follows a colon.
        let colons: Vec<usize> = whole.match_indices("\":").map(|(at, _)| at + 2).collect();
        let begin = colons[at.index(colons.len())];
        let mut values = serde_json::Deserializer::from_str(&whole[begin..]).into_iter::<Value>();
        if values.next().is_some_and(|value| value.is_ok()) {
            let end = begin + values.byte_offset();
            does_no_harm(format!("{}{put}{}", &whole[..begin], &whole[end..]).as_bytes());
        }
    }

    #[test]
    fn garbage_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400), headed in any::<bool>()) {
        let head: &[u8] = if headed { b"SQLite format 3\0" } else { b"" };
        does_no_harm(&[head, &bytes].concat());
    }
}
