//! What an answer holds, over each of the four wire formats.

use bezel_session_types::{
    ImageContent, Message, ResultContent, StopReason, ThinkingLevel, Usage, UserContent,
    UserMessage,
};
use bezel_testkit::{Script, SeenPart, SeenRole, Step, Turn, WireFormat};
use serde_json::{Value, json};

use crate::support::{ask, request, result, serve, user};

#[tokio::test]
async fn text_is_streamed_whole_with_usage_and_reason() {
    for format in WireFormat::MAIN {
        let usage = Usage {
            input: 100,
            output: 40,
            cache_read: 30,
            cache_write: 0,
            reasoning: 10,
        };
        let (server, provider) =
            serve(Turn::text("Hello \"world\" é\n").usage(usage), format).await;
        let answer = ask(&provider, request([user("hi")])).await.unwrap();
        assert_eq!(answer.text(), "Hello \"world\" é\n", "{format:?}");
        assert_eq!(answer.stop_reason(), StopReason::Stop, "{format:?}");
        let reasoning = if format == WireFormat::Anthropic {
            0
        } else {
            10
        };
        assert_eq!(answer.usage(), Usage { reasoning, ..usage }, "{format:?}");
        let call = server.last_call();
        let asked = (call.model.as_str(), call.system.as_str(), call.stream);
        assert_eq!(asked, ("m", "be brief", true), "{format:?}");
        assert_eq!(call.last_user_text(), "hi");
        let tools = call
            .tools
            .iter()
            .map(|tool| (tool.name.as_str(), tool.description.as_str()));
        let tools: Vec<_> = tools.collect();
        assert_eq!(
            tools,
            [("read", "runs read"), ("bash", "runs bash")],
            "{format:?}"
        );
        assert_eq!(
            call.tools[0].parameters["properties"]["path"]["type"], "string",
            "{format:?}"
        );
    }
}

#[tokio::test]
async fn thinking_comes_with_its_signature_and_both_go_back_unchanged() {
    for format in WireFormat::MAIN {
        let steps = [
            Step::thinking("Let me see.", Some("sig+/=1")),
            Step::Text("Done.".into()),
            Step::call("read", json!({ "path": "a" })),
        ];
        let (server, provider) =
            serve(Script::new([Turn::steps(steps), Turn::text("ok")]), format).await;
        let mut first = request([user("think")]);
        first.options.thinking = ThinkingLevel::Medium;
        let answer = ask(&provider, first.clone()).await.unwrap();
        let thinking = answer.thinking();
        assert_eq!(thinking.len(), 1, "{format:?} {answer:?}");
        assert_eq!(thinking[0].0, "Let me see.", "{format:?}");
        assert!(
            !server.last_call().thinking.is_null(),
            "{format:?} must ask to think"
        );

        let call = &answer.calls()[0];
        let history = [
            user("think"),
            Message::Assistant(answer.message()),
            Message::ToolResult(result(call, "x")),
        ];
        let mut second = request(history);
        second.options.thinking = ThinkingLevel::Medium;
        ask(&provider, second.clone()).await.unwrap();
        let back = server.last_call();
        let expected = SeenPart::Thinking {
            text: "Let me see.".into(),
            signature: Some("sig+/=1".into()),
        };
        assert_eq!(back.messages[1].parts[0], expected, "{format:?}");
        assert_eq!(
            back.messages[1].parts[1],
            SeenPart::Text("Done.".into()),
            "{format:?}"
        );

        // Another model's provider would refuse it.
        second.model.model_id = "other".into();
        server.push(Turn::text("ok"));
        ask(&provider, second).await.unwrap();
        let call = server.last_call();
        let kept = call
            .parts()
            .any(|part| matches!(part, SeenPart::Thinking { .. }));
        assert!(!kept, "{format:?} sent another model's reasoning");
    }
}

#[tokio::test]
async fn parallel_calls_arrive_in_order_and_go_back_with_their_results() {
    for format in WireFormat::MAIN {
        let calls = [
            ("read", json!({ "path": "é \"x\"" })),
            ("bash", json!({ "command": "ls\n-l" })),
            ("read", json!({})),
        ];
        let script = Script::new([Turn::tool_calls(calls.clone()), Turn::text("ok")]);
        let (server, provider) = serve(script, format).await;
        let answer = ask(&provider, request([user("go")])).await.unwrap();
        assert_eq!(answer.stop_reason(), StopReason::ToolUse, "{format:?}");
        let arrived = answer
            .calls()
            .into_iter()
            .map(|call| (call.name, call.arguments));
        let arrived: Vec<_> = arrived.collect();
        let expected = calls.map(|(name, arguments)| (name.to_string(), arguments));
        assert_eq!(arrived, expected, "{format:?}");
        let announced: Vec<_> = answer
            .announced
            .iter()
            .map(|(_, name)| name.as_str())
            .collect();
        assert_eq!(announced, ["read", "bash", "read"], "{format:?}");
        for (text, (_, arguments)) in answer.argument_text.iter().zip(&expected) {
            let shown = serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(shown, *arguments, "{format:?} shows what it parses");
        }

        let mut messages = vec![user("go"), Message::Assistant(answer.message())];
        for (index, call) in answer.calls().iter().enumerate() {
            let mut result = result(call, &format!("result {index}"));
            result.is_error = index == 1;
            messages.push(Message::ToolResult(result));
        }
        ask(&provider, request(messages)).await.unwrap();
        let back = server.last_call();
        let called = back.messages[1].parts.iter().map(|part| match part {
            SeenPart::ToolCall {
                name, arguments, ..
            } => (name.clone(), arguments.clone()),
            other => panic!("{other:?}"),
        });
        let called: Vec<_> = called.collect();
        assert_eq!(called, expected, "{format:?}");
        let results = back.last_results().into_iter().map(|part| match part {
            SeenPart::ToolResult { call, text, .. } => (call.clone(), text.clone()),
            other => panic!("{other:?}"),
        });
        let results: Vec<_> = results.collect();
        // Gemini matches by name and order, the others by id.
        let ids = answer.calls().into_iter().map(|call| {
            if format == WireFormat::Gemini {
                call.name
            } else {
                call.id
            }
        });
        let texts = (0..3).map(|index| format!("result {index}"));
        assert_eq!(results, ids.zip(texts).collect::<Vec<_>>(), "{format:?}");
        if matches!(format, WireFormat::Anthropic | WireFormat::Gemini) {
            let failed = back.last_results()[1];
            assert!(
                matches!(failed, SeenPart::ToolResult { is_error: true, .. }),
                "{format:?}"
            );
        }
    }
}

#[tokio::test]
async fn arguments_that_are_not_json_stay_text_and_go_back_as_json() {
    for format in [
        WireFormat::OpenAiChat,
        WireFormat::OpenAiResponses,
        WireFormat::Anthropic,
    ] {
        let turn = Turn::tool_calls([("bash", json!("{\"command\": \"ls"))]);
        let (server, provider) = serve(Script::new([turn, Turn::text("ok")]), format).await;
        let answer = ask(&provider, request([user("go")])).await.unwrap();
        let call = &answer.calls()[0];
        assert_eq!(call.arguments, json!("{\"command\": \"ls"), "{format:?}");
        let history = [
            user("go"),
            Message::Assistant(answer.message()),
            Message::ToolResult(result(call, "no")),
        ];
        ask(&provider, request(history)).await.unwrap();
        let back = server.last_call();
        let SeenPart::ToolCall { arguments, .. } = &back.messages[1].parts[0] else {
            panic!("{back:?}")
        };
        assert!(arguments.is_object(), "{format:?} {arguments}");
    }
}

#[tokio::test]
async fn pictures_go_in_from_the_user_and_from_tools() {
    let image = ImageContent {
        media_type: "image/png".into(),
        data: "aGVsbG8=".into(),
    };
    for format in WireFormat::MAIN {
        let calls = Turn::tool_calls([("read", json!({ "path": "x.png" }))]);
        let (server, provider) = serve(Script::new([calls, Turn::text("ok")]), format).await;
        let said = UserMessage {
            content: vec![
                UserContent::Text {
                    text: "look".into(),
                },
                UserContent::Image(image.clone()),
            ],
            synthetic: false,
        };
        let answer = ask(&provider, request([Message::User(said.clone())]))
            .await
            .unwrap();
        let seen = SeenPart::Image {
            media_type: "image/png".into(),
            data: "aGVsbG8=".into(),
        };
        let parts = [SeenPart::Text("look".into()), seen.clone()];
        assert_eq!(server.last_call().messages[0].parts, parts, "{format:?}");

        let mut shown = result(&answer.calls()[0], "a picture");
        shown.content.push(ResultContent::Image(image.clone()));
        let history = [
            Message::User(said),
            Message::Assistant(answer.message()),
            Message::ToolResult(shown),
        ];
        ask(&provider, request(history)).await.unwrap();
        let last = server.last_call().messages.pop().unwrap();
        assert_eq!(last.role, SeenRole::User, "{format:?}");
        let SeenPart::ToolResult { text, images, .. } = &last.parts[0] else {
            panic!("{format:?} {last:?}")
        };
        assert_eq!(text, "a picture", "{format:?}");
        let beside = last.parts.contains(&seen);
        let within = images == &[("image/png".to_string(), "aGVsbG8=".to_string())];
        assert!(beside ^ within, "{format:?} {last:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_told_as_one() {
    for format in WireFormat::MAIN {
        let (_server, provider) =
            serve(Turn::text("No.").stop_reason(StopReason::Refusal), format).await;
        let answer = ask(&provider, request([user("hi")])).await.unwrap();
        assert_eq!(answer.stop_reason(), StopReason::Refusal, "{format:?}");
    }
}
