//! The kinds that go through genai: Ollama, and Vertex over both of its publishers.

use std::sync::Arc;

use bezel_context::Context;
use bezel_providers_session::{ProviderConfig, ProviderKind, provider};
use bezel_session_types::{
    ImageContent, Message, Provider, ProviderErrorKind, ResultContent, StopReason, ThinkingLevel,
};
use bezel_testkit::{FakeModelServer, Script, SeenPart, Step, Turn, WireFormat};
use futures::StreamExt;
use serde_json::json;

use crate::support::{KEY, ask, ask_in_part, keys, nobody, request, result, serve, user};

async fn vertex(script: impl Into<Script>) -> (FakeModelServer, Arc<dyn Provider>) {
    let server = FakeModelServer::start(script).await.unwrap();
    let mut config = ProviderConfig::of_kind("fake", ProviderKind::Vertex);
    config.base_url = Some(format!("{}/v1/projects/p/locations/global", server.url()));
    config.api_key_env = Some("FAKE_KEY".into());
    (server, provider(config, keys()).unwrap())
}

#[tokio::test]
async fn ollama_streams_text_thought_and_calls() {
    let steps = [
        Step::thinking("hm, well", None),
        Step::Text("Sure. ".into()),
        Step::call("read", json!({ "path": "a" })),
        Step::call("bash", json!({ "command": "ls" })),
    ];
    let (server, provider) = serve(
        Script::new([Turn::steps(steps), Turn::text("ok")]),
        WireFormat::Ollama,
    )
    .await;
    let mut asked = request([user("go")]);
    asked.options.thinking = ThinkingLevel::High;
    let answer = ask(&provider, asked).await.unwrap();
    assert_eq!(
        (answer.text().as_str(), answer.stop_reason()),
        ("Sure. ", StopReason::ToolUse)
    );
    assert_eq!(answer.thinking(), [("hm, well".to_string(), None)]);
    let names: Vec<_> = answer.calls().into_iter().map(|call| call.name).collect();
    assert_eq!(names, ["read", "bash"]);
    assert_eq!((answer.usage().input, answer.usage().output), (12, 7));
    let call = server.last_call();
    assert_eq!(
        (call.model.as_str(), call.system.as_str(), call.tools.len()),
        ("m", "be brief", 2)
    );
    assert_eq!(call.thinking, json!("high"));

    let mut shown = result(&answer.calls()[0], "text");
    shown.content.push(ResultContent::Image(ImageContent {
        media_type: "image/png".into(),
        data: "aGk=".into(),
    }));
    let history = [
        user("go"),
        Message::Assistant(answer.message()),
        Message::ToolResult(shown),
        Message::ToolResult(result(&answer.calls()[1], "listing")),
    ];
    ask(&provider, request(history)).await.unwrap();
    let back = server.last_call();
    let parts: Vec<_> = back.parts().collect();
    let called = parts
        .iter()
        .filter(|part| matches!(part, SeenPart::ToolCall { .. }))
        .count();
    let texts: Vec<_> = parts
        .iter()
        .filter_map(|part| match part {
            SeenPart::ToolResult { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!((called, texts), (2, vec!["text", "listing"]));
    assert!(
        parts
            .iter()
            .any(|part| matches!(part, SeenPart::Image { data, .. } if data == "aGk=")),
        "{parts:?}"
    );
}

#[tokio::test]
async fn what_goes_wrong_behind_genai_is_told_like_anything_else() {
    for (turn, kind) in [
        (
            Turn::status(429).retry_after("3"),
            ProviderErrorKind::RateLimited,
        ),
        (Turn::status(500), ProviderErrorKind::Overloaded),
        (
            Turn::status(404).saying("model 'm' not found"),
            ProviderErrorKind::UnknownModel,
        ),
        (Turn::context_overflow(), ProviderErrorKind::ContextOverflow),
        (
            Turn::steps([Step::Text("half".into()), Step::Cut]),
            ProviderErrorKind::Interrupted,
        ),
        (
            Turn::steps([Step::Text("half".into()), Step::Malformed]),
            ProviderErrorKind::Malformed,
        ),
    ] {
        let (_server, provider) = serve(turn.clone(), WireFormat::Ollama).await;
        let (_, outcome) = ask_in_part(&provider, request([user("hi")])).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.kind, kind, "{turn:?} {error}");
        if kind == ProviderErrorKind::RateLimited {
            assert_eq!(error.retry_after, Some(std::time::Duration::from_secs(3)));
        }
    }
    let url = format!("http://{}", nobody());
    let gone = provider(crate::support::config(WireFormat::Ollama, &url), keys()).unwrap();
    let error = ask(&gone, request([user("hi")])).await.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Unreachable, "{error}");
    assert!(
        error.message.contains("Connection refused") && error.message.contains(&url),
        "{error}"
    );
}

#[tokio::test]
async fn cancelling_closes_a_request_of_genai() {
    let (server, provider) = serve(
        Turn::steps([Step::Text("first".into()), Step::Stall]),
        WireFormat::Ollama,
    )
    .await;
    let (cx, cancel) = Context::background().with_cancel();
    let mut stream = provider.stream(&cx, request([user("hi")])).await.unwrap();
    stream.next().await.unwrap().unwrap();
    cancel.cancel();
    assert_eq!(
        stream.next().await.unwrap().unwrap_err().kind,
        ProviderErrorKind::Cancelled
    );
    server.wait_for_early_close(0).await.unwrap();
}

#[tokio::test]
async fn vertex_speaks_to_both_of_its_publishers() {
    for (model, format) in [
        ("gemini-3-flash", WireFormat::Gemini),
        ("claude-sonnet-4-6", WireFormat::Anthropic),
    ] {
        let steps = [
            Step::Text("Sure.".into()),
            Step::call("read", json!({ "path": "a" })),
        ];
        let (server, provider) =
            vertex(Script::new([Turn::steps(steps), Turn::text("ok")]).with_key(KEY)).await;
        let mut asked = request([user("go")]);
        asked.model.model_id = model.into();
        let answer = ask(&provider, asked.clone()).await.unwrap();
        assert_eq!(
            (answer.text().as_str(), answer.stop_reason()),
            ("Sure.", StopReason::ToolUse),
            "{model}"
        );
        assert_eq!(
            answer.calls()[0].arguments,
            json!({ "path": "a" }),
            "{model}"
        );
        let call = server.last_call();
        assert_eq!((call.format, call.model.as_str()), (Some(format), model));
        let mut said = answer.message();
        said.model = asked.model.clone();
        asked.messages = [
            user("go"),
            Message::Assistant(said),
            Message::ToolResult(result(&answer.calls()[0], "x")),
        ]
        .map(Arc::new)
        .into();
        ask(&provider, asked).await.unwrap();
        assert_eq!(server.last_call().last_results().len(), 1, "{model}");
    }
}
