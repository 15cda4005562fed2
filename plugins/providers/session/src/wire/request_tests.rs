//! What stands in a request beside the conversation, kind by kind.

use std::sync::Arc;

use bezel_session_types::{
    AssistantContent, AssistantMessage, InvocationId, Message, ModelRef, ModelRequest,
    RequestOptions, ResultContent, StopReason, ThinkingLevel, ToolCall, ToolChoice, ToolDefinition,
    ToolResultMessage, Usage, UserMessage,
};
use serde_json::{Value, json};

use super::{Outgoing, WrittenTools, anthropic, chat, gemini, responses};
use crate::config::{ModelConfig, ProviderConfig};
use crate::kind::{ProviderKind, Wire};
use crate::thinking::Steering;

fn request(model: &str, level: ThinkingLevel, messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: ModelRef {
            provider: "p".into(),
            model_id: model.into(),
        },
        system: "".into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: Arc::new([]),
        options: RequestOptions {
            thinking: level,
            max_output: Some(1000),
            cache_key: Some("k".into()),
            ..RequestOptions::default()
        },
    }
}

fn body_of(config: &ProviderConfig, request: &ModelRequest, official: bool) -> Value {
    let model = request.model.model_id.as_str();
    let tools = WrittenTools::default();
    let outgoing = Outgoing {
        tools: &tools,
        steering: Steering::of(config, model, request.options.thinking),
        max_output: config.model(model).map(|model| model.max_output),
        official,
        request,
    };
    let bytes = match config.kind.facts().wire {
        Wire::Chat(dialect) => chat::body(&outgoing, dialect),
        Wire::Responses => responses::body(&outgoing),
        Wire::Anthropic => anthropic::body(&outgoing),
        Wire::Gemini => gemini::body(&outgoing),
        Wire::Genai(_) => panic!("not written here"),
    };
    serde_json::from_slice(&bytes.unwrap()).unwrap()
}

fn body(kind: ProviderKind, model: &str, level: ThinkingLevel) -> Value {
    let config = ProviderConfig::of_kind("p", kind);
    body_of(
        &config,
        &request(model, level, vec![Message::User(UserMessage::text("hi"))]),
        true,
    )
}

/// The fields of a body that are named, as an object.
fn fields(body: &Value, names: &[&str]) -> Value {
    let found = names
        .iter()
        .filter_map(|name| Some((name.to_string(), body.get(name)?.clone())));
    Value::Object(found.collect())
}

#[test]
fn a_model_that_is_to_answer_without_tools_is_told_so_in_each_format_and_told_of_them_all_the_same()
{
    for (kind, place, none) in [
        (ProviderKind::OpenAi, "/tool_choice", json!("none")),
        (ProviderKind::OpenAiResponses, "/tool_choice", json!("none")),
        (
            ProviderKind::Anthropic,
            "/tool_choice",
            json!({ "type": "none" }),
        ),
        (
            ProviderKind::Gemini,
            "/toolConfig/functionCallingConfig/mode",
            json!("NONE"),
        ),
    ] {
        let config = ProviderConfig::of_kind("p", kind);
        let said = vec![Message::User(UserMessage::text("hi"))];
        let mut request = request("m", ThinkingLevel::Off, said);
        let tool = ToolDefinition {
            name: "look".into(),
            description: "Looks.".into(),
            parameters: Arc::new(json!({ "type": "object" })),
        };
        let choice = |request: &ModelRequest| {
            let body = body_of(&config, request, true);
            let tools = body.get("tools").is_some();
            (tools, body.pointer(place).cloned())
        };
        request.options.tool_choice = ToolChoice::None;
        assert_eq!(
            choice(&request),
            (false, None),
            "{kind:?}: nothing to forbid"
        );
        request.tools = Arc::new([tool]);
        assert_eq!(choice(&request), (true, Some(none)), "{kind:?}");
        request.options.tool_choice = ToolChoice::Auto;
        assert_eq!(choice(&request), (true, None), "{kind:?}");
    }
}

#[test]
fn each_server_of_chat_completions_is_asked_to_reason_in_its_own_way() {
    const NAMES: [&str; 5] = [
        "reasoning_effort",
        "reasoning_format",
        "thinking",
        "reasoning",
        "enable_thinking",
    ];
    use ThinkingLevel::{High, Low, Off};
    for (kind, model, level, expected) in [
        (
            ProviderKind::OpenAi,
            "gpt-5.1",
            Off,
            json!({ "reasoning_effort": "none" }),
        ),
        (
            ProviderKind::OpenAi,
            "gpt-5",
            Off,
            json!({ "reasoning_effort": "minimal" }),
        ),
        (
            ProviderKind::OpenAi,
            "o3",
            High,
            json!({ "reasoning_effort": "high" }),
        ),
        (ProviderKind::OpenAi, "gpt-4.1", High, json!({})),
        (ProviderKind::OpenAi, "unheard-of", Off, json!({})),
        (
            ProviderKind::OpenAi,
            "unheard-of",
            Low,
            json!({ "reasoning_effort": "low" }),
        ),
        (
            ProviderKind::Groq,
            "openai/gpt-oss-120b",
            Low,
            json!({ "reasoning_effort": "low", "reasoning_format": "parsed" }),
        ),
        (
            ProviderKind::DeepSeek,
            "deepseek-v4-pro",
            Off,
            json!({ "thinking": { "type": "disabled" } }),
        ),
        (
            ProviderKind::DeepSeek,
            "deepseek-v4-pro",
            Low,
            json!({ "thinking": { "type": "enabled" }, "reasoning_effort": "high" }),
        ),
        (ProviderKind::DeepSeek, "deepseek-chat", High, json!({})),
        (
            ProviderKind::Zai,
            "glm-5",
            High,
            json!({ "thinking": { "type": "enabled" } }),
        ),
        (
            ProviderKind::OpenRouter,
            "anthropic/claude",
            High,
            json!({ "reasoning": { "effort": "high" } }),
        ),
        (
            ProviderKind::Aliyun,
            "qwen3-max",
            Low,
            json!({ "enable_thinking": true }),
        ),
        (
            ProviderKind::Mistral,
            "mistral-large-latest",
            High,
            json!({}),
        ),
    ] {
        assert_eq!(
            fields(&body(kind, model, level), &NAMES),
            expected,
            "{kind:?} {model} {level:?}"
        );
    }
}

#[test]
fn only_openai_itself_gets_what_only_it_knows() {
    const NAMES: [&str; 4] = [
        "max_tokens",
        "max_completion_tokens",
        "prompt_cache_key",
        "stream_options",
    ];
    let usage = json!({ "include_usage": true });
    let own = fields(
        &body(ProviderKind::OpenAi, "gpt-5", ThinkingLevel::Off),
        &NAMES,
    );
    assert_eq!(
        own,
        json!({ "max_completion_tokens": 1000, "prompt_cache_key": "k", "stream_options": usage })
    );
    let config = ProviderConfig::of_kind("p", ProviderKind::OpenAi);
    let elsewhere = body_of(
        &config,
        &request("m", ThinkingLevel::Off, Vec::new()),
        false,
    );
    assert_eq!(
        fields(&elsewhere, &NAMES),
        json!({ "max_tokens": 1000, "prompt_cache_key": "k", "stream_options": usage })
    );
    let groq = fields(&body(ProviderKind::Groq, "m", ThinkingLevel::Off), &NAMES);
    assert_eq!(groq, json!({ "max_tokens": 1000, "stream_options": usage }));
    let mistral = fields(
        &body(ProviderKind::Mistral, "m", ThinkingLevel::Off),
        &NAMES,
    );
    assert_eq!(mistral, json!({ "max_tokens": 1000 }));
}

#[test]
fn responses_stores_nothing_and_gets_reasoning_back_encrypted() {
    const NAMES: [&str; 3] = ["reasoning", "include", "store"];
    let thinks = fields(
        &body(
            ProviderKind::OpenAiResponses,
            "gpt-5.1",
            ThinkingLevel::Medium,
        ),
        &NAMES,
    );
    let include = json!(["reasoning.encrypted_content"]);
    assert_eq!(
        thinks,
        json!({ "reasoning": { "effort": "medium", "summary": "auto" }, "include": include, "store": false })
    );
    let off = fields(
        &body(ProviderKind::OpenAiResponses, "gpt-5.1", ThinkingLevel::Off),
        &NAMES,
    );
    assert_eq!(off["reasoning"], json!({ "effort": "none" }));
    let plain = fields(
        &body(
            ProviderKind::OpenAiResponses,
            "gpt-4.1",
            ThinkingLevel::High,
        ),
        &NAMES,
    );
    assert_eq!(
        plain,
        json!({ "store": false }),
        "a model that does not reason refuses to include what it has not"
    );
}

#[test]
fn claude_is_given_an_effort_or_a_budget_and_room_to_answer() {
    const NAMES: [&str; 3] = ["thinking", "output_config", "max_tokens"];
    use ThinkingLevel::{High, Low, Off};
    let with_limit = |model, level, limit| {
        let mut asked = request(model, level, vec![Message::User(UserMessage::text("hi"))]);
        asked.options.max_output = limit;
        fields(
            &body_of(
                &ProviderConfig::of_kind("p", ProviderKind::Anthropic),
                &asked,
                true,
            ),
            &NAMES,
        )
    };
    let adaptive = json!({ "type": "adaptive", "display": "summarized" });
    for (model, level, limit, expected) in [
        ("claude-opus-4-7", Off, None, json!({ "max_tokens": 32000 })),
        (
            "claude-opus-4-7",
            High,
            None,
            json!({ "thinking": adaptive, "output_config": { "effort": "high" }, "max_tokens": 32000 }),
        ),
        (
            "claude-sonnet-5",
            Off,
            None,
            json!({ "thinking": { "type": "disabled" }, "max_tokens": 32000 }),
        ),
        (
            "claude-sonnet-4-5",
            Off,
            None,
            json!({ "max_tokens": 32000 }),
        ),
        (
            "claude-sonnet-4-5",
            Low,
            None,
            json!({ "thinking": { "type": "enabled", "budget_tokens": 4096 }, "max_tokens": 32000 }),
        ),
        (
            "claude-sonnet-4-5",
            High,
            None,
            json!({ "thinking": { "type": "enabled", "budget_tokens": 24000 }, "max_tokens": 32000 }),
        ),
        (
            "claude-sonnet-4-5",
            High,
            Some(2000),
            json!({ "thinking": { "type": "enabled", "budget_tokens": 1500 }, "max_tokens": 2000 }),
        ),
        (
            "claude-sonnet-4-5",
            High,
            Some(1000),
            json!({ "max_tokens": 1000 }),
        ),
    ] {
        assert_eq!(
            with_limit(model, level, limit),
            expected,
            "{model} {level:?} {limit:?}"
        );
    }
}

#[test]
fn gemini_is_given_a_level_or_a_budget() {
    use ThinkingLevel::{High, Low, Off};
    for (model, level, expected) in [
        (
            "gemini-2.5-flash",
            Off,
            json!({ "includeThoughts": false, "thinkingBudget": 0 }),
        ),
        (
            "gemini-2.5-pro",
            Off,
            json!({ "includeThoughts": false, "thinkingBudget": 128 }),
        ),
        (
            "gemini-2.5-pro",
            High,
            json!({ "includeThoughts": true, "thinkingBudget": 32768 }),
        ),
        (
            "gemini-3.1-pro-preview",
            Off,
            json!({ "includeThoughts": false, "thinkingLevel": "low" }),
        ),
        (
            "gemini-3.5-flash",
            Low,
            json!({ "includeThoughts": true, "thinkingLevel": "low" }),
        ),
    ] {
        let body = body(ProviderKind::Gemini, model, level);
        assert_eq!(
            body["generationConfig"]["thinkingConfig"], expected,
            "{model} {level:?}"
        );
        assert_eq!(body["generationConfig"]["maxOutputTokens"], 1000);
    }
}

/// A turn with a call that another provider's model made.
fn foreign_turn() -> Vec<Message> {
    let call = ToolCall {
        id: "fc|1".into(),
        name: "ls".into(),
        arguments: json!({}),
        signature: Some("theirs".into()),
    };
    vec![
        Message::User(UserMessage::text("go")),
        Message::Assistant(AssistantMessage {
            content: vec![
                AssistantContent::Thinking {
                    text: "hm".into(),
                    signature: Some("theirs".into()),
                },
                AssistantContent::Text { text: " ".into() },
                AssistantContent::ToolCall(call),
            ],
            model: "other::model".parse().unwrap(),
            usage: Usage::default(),
            stop_reason: StopReason::ToolUse,
            error: None,
        }),
        Message::ToolResult(ToolResultMessage {
            call_id: "fc|1".into(),
            invocation_id: InvocationId::generate(),
            tool: "ls".into(),
            content: vec![ResultContent::text("")],
            structured: None,
            details: Value::Null,
            is_error: true,
        }),
    ]
}

#[test]
fn a_conversation_that_another_model_began_is_made_to_fit() {
    let body = |kind, model: &str| {
        body_of(
            &ProviderConfig::of_kind("p", kind),
            &request(model, ThinkingLevel::Off, foreign_turn()),
            true,
        )
    };
    for (kind, model) in [
        (ProviderKind::OpenAi, "gpt-5"),
        (ProviderKind::OpenAiResponses, "gpt-5"),
        (ProviderKind::Anthropic, "claude-sonnet-4-5"),
        (ProviderKind::Gemini, "gemini-2.5-pro"),
        (ProviderKind::Mistral, "m"),
    ] {
        let text = body(kind, model).to_string();
        assert!(
            !text.contains("theirs") && !text.contains("fc|1"),
            "{kind:?} {text}"
        );
    }
    let claude = body(ProviderKind::Anthropic, "claude-sonnet-4-5");
    let (call, result) = (
        &claude["messages"][1]["content"][0],
        &claude["messages"][2]["content"][0],
    );
    assert_eq!(call["id"], result["tool_use_id"]);
    assert_eq!(
        result["content"][0]["text"], "(no output)",
        "an error without words is refused"
    );
    let mistral = body(ProviderKind::Mistral, "m");
    assert_eq!(
        mistral["messages"][1]["tool_calls"][0]["id"]
            .as_str()
            .unwrap()
            .len(),
        9
    );
    assert_eq!(
        mistral["messages"][1]["tool_calls"][0]["id"],
        mistral["messages"][2]["tool_call_id"]
    );
    let signature = |model| {
        let parts = &body(ProviderKind::Gemini, model)["contents"][1]["parts"];
        parts.as_array().unwrap().last().unwrap()["thoughtSignature"].clone()
    };
    assert_eq!(signature("gemini-2.5-pro"), Value::Null);
    assert_eq!(
        signature("gemini-3.5-flash"),
        "skip_thought_signature_validator"
    );
}

#[test]
fn reasoning_goes_back_to_the_field_that_it_came_from() {
    let mut config = ProviderConfig::of_kind("p", ProviderKind::OpenAi);
    config.models.push(ModelConfig {
        id: "m".into(),
        reasoning: Some(true),
        ..ModelConfig::default()
    });
    for (signature, pointer, expected) in [
        ("reasoning_content", "/reasoning_content", json!("hm")),
        ("reasoning", "/reasoning", json!("hm")),
        ("content", "/content/0/thinking/0/text", json!("hm")),
        (
            r#"[{"type":"reasoning.text","text":"hm"}]"#,
            "/reasoning_details/0/text",
            json!("hm"),
        ),
    ] {
        let answer = AssistantMessage {
            content: vec![
                AssistantContent::Thinking {
                    text: "hm".into(),
                    signature: Some(signature.into()),
                },
                AssistantContent::Text { text: "so".into() },
            ],
            model: "p::m".parse().unwrap(),
            usage: Usage::default(),
            stop_reason: StopReason::Stop,
            error: None,
        };
        let messages = vec![
            Message::User(UserMessage::text("hi")),
            Message::Assistant(answer),
        ];
        let body = body_of(&config, &request("m", ThinkingLevel::Off, messages), false);
        assert_eq!(
            body["messages"][1].pointer(pointer),
            Some(&expected),
            "{signature}: {body}"
        );
    }
}
