//! What goes out beside the conversation, over each of the four wire formats.

use bezel_providers_session::provider;
use bezel_session_types::{AssistantContent, Message, StopReason, ThinkingLevel, Usage};
use bezel_testkit::{FakeModelServer, Script, Turn, WireFormat};

use crate::support::{Answer, KEY, ask, config, keys, request, serve, user};

#[tokio::test]
async fn the_key_and_who_asks_go_with_the_request() {
    for format in WireFormat::MAIN {
        let (server, provider) = serve(Script::new([Turn::text("ok")]).with_key(KEY), format).await;
        ask(&provider, request([user("hi")])).await.unwrap();
        let sent = &server.requests()[0];
        assert!(
            sent.header("user-agent").unwrap().starts_with("bezel/"),
            "{format:?}"
        );
        assert_eq!(
            sent.header("content-type"),
            Some("application/json"),
            "{format:?}"
        );
        assert!(
            !sent.target.contains(KEY),
            "a key must not stand in an address: {format:?}"
        );
        assert!(
            sent.header("accept-encoding").is_none(),
            "compression holds deltas back: {format:?}"
        );
    }
}

#[tokio::test]
async fn caching_is_asked_for_and_its_tokens_are_counted_apart() {
    for format in WireFormat::MAIN {
        let usage = Usage {
            input: 50,
            output: 5,
            cache_read: 1000,
            cache_write: 200,
            reasoning: 0,
        };
        let (server, provider) = serve(Turn::text("ok").usage(usage), format).await;
        let said = Answer {
            content: vec![AssistantContent::Text { text: "1".into() }],
            ..Answer::default()
        };
        let mut asked = request([user("one"), Message::Assistant(said.message()), user("two")]);
        asked.options.cache_key = Some("session-7".into());
        let answer = ask(&provider, asked).await.unwrap();
        let call = server.last_call();
        match format {
            WireFormat::Anthropic => {
                assert_eq!(
                    call.cache_markers,
                    ["tools", "system", "messages[0]", "messages[2]"]
                );
                assert_eq!(answer.usage(), usage);
            }
            // Gemini caches by itself and counts no writes.
            WireFormat::Gemini => {
                assert_eq!(
                    answer.usage(),
                    Usage {
                        input: 250,
                        cache_write: 0,
                        ..usage
                    }
                );
            }
            _ => {
                assert_eq!(call.cache_key.as_deref(), Some("session-7"), "{format:?}");
                assert_eq!(answer.usage(), usage, "{format:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_limit_on_output_is_sent_and_its_reason_told() {
    for format in WireFormat::MAIN {
        let (server, provider) =
            serve(Turn::text("cut sh").stop_reason(StopReason::Length), format).await;
        let mut asked = request([user("hi")]);
        asked.options.max_output = Some(77);
        let answer = ask(&provider, asked).await.unwrap();
        assert_eq!(answer.stop_reason(), StopReason::Length, "{format:?}");
        assert_eq!(server.last_call().max_output, Some(77), "{format:?}");
    }
}

#[tokio::test]
async fn claude_with_a_budget_may_think_between_calls() {
    for (level, told) in [(ThinkingLevel::Off, false), (ThinkingLevel::High, true)] {
        let server = FakeModelServer::start(Turn::text("ok")).await.unwrap();
        let mut config = config(
            WireFormat::Anthropic,
            &server.base_url(WireFormat::Anthropic),
        );
        config.models.clear();
        let provider = provider(config, keys()).unwrap();
        let mut asked = request([user("hi")]);
        asked.model.model_id = "claude-sonnet-4-5".into();
        asked.options.thinking = level;
        ask(&provider, asked).await.unwrap();
        let sent = server.requests();
        let beta = sent[0].header("anthropic-beta").unwrap_or_default();
        assert_eq!(beta.contains("interleaved-thinking"), told);
    }
}

#[tokio::test]
async fn configured_headers_are_added_and_win() {
    for format in WireFormat::MAIN {
        let server = FakeModelServer::start(Turn::text("ok")).await.unwrap();
        let mut config = config(format, &server.base_url(format));
        config.headers.insert("x-team".into(), "blue".into());
        config
            .headers
            .insert("authorization".into(), "Basic abc".into());
        let provider = provider(config, keys()).unwrap();
        ask(&provider, request([user("hi")])).await.unwrap();
        let sent = &server.requests()[0];
        assert_eq!(sent.header("x-team"), Some("blue"), "{format:?}");
        assert_eq!(
            sent.header("authorization"),
            Some("Basic abc"),
            "{format:?}"
        );
    }
}

#[tokio::test]
async fn a_base_url_may_leave_out_the_version_where_the_format_has_one() {
    for (format, path) in [
        (WireFormat::Anthropic, "/v1/messages"),
        (WireFormat::Gemini, "/v1beta/models/m:streamGenerateContent"),
    ] {
        let server = FakeModelServer::start(Turn::text("ok")).await.unwrap();
        let provider = provider(config(format, &server.url()), keys()).unwrap();
        ask(&provider, request([user("hi")])).await.unwrap();
        assert_eq!(server.requests()[0].path, path);
    }
}
