//! Small sessions as other programs write them, with everything in them that has a meaning here.

use serde_json::{Value, json};

fn jsonl(lines: &[Value]) -> Vec<u8> {
    let lines = lines.iter().map(|line| format!("{line}\n"));
    lines.collect::<String>().into_bytes()
}

const PICTURE: &str = "iVBORw0KGgo=";

pub(super) fn pi() -> Vec<u8> {
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
        json!({ "type": "session", "version": 3, "id": "p-1", "timestamp": "2026-02-03T04:05:06Z", "cwd": "/srv/pi" }),
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

pub(super) fn claude() -> Vec<u8> {
    let line = |id: &str, parent: Option<&str>, kind: &str, message: Value| {
        json!({ "type": kind, "uuid": id, "parentUuid": parent, "sessionId": "c-1", "cwd": "/srv/claude",
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

pub(super) fn codex() -> Vec<u8> {
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
            json!({ "id": "x-1", "cwd": "/srv/codex", "model_provider": "openai" }),
        ),
        said("developer", "input_text", "rules"),
        said(
            "user",
            "input_text",
            "<environment_context>here</environment_context>",
        ),
        line(
            "turn_context",
            json!({ "model": "gpt-x", "cwd": "/srv/codex" }),
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
