//! Every refusal over each of the four wire formats: its kind, and that its words say what to do.

use std::time::Duration;

use bezel_providers_session::{KeySource, ProviderConfig, ProviderKind, provider};
use bezel_session_types::{ProviderError, ProviderErrorKind};
use bezel_testkit::{FakeModelServer, Script, Step, StreamFault, Turn, WireFormat};

use crate::support::{ask, ask_in_part, config, keys, nobody, request, serve, user};

async fn error(script: impl Into<Script>, format: WireFormat) -> ProviderError {
    let (_server, provider) = serve(script, format).await;
    ask(&provider, request([user("hi")])).await.unwrap_err()
}

#[tokio::test]
async fn http_errors_have_their_kind_and_say_what_to_do() {
    for format in WireFormat::MAIN {
        for (status, kind, said) in [
            (
                400,
                ProviderErrorKind::InvalidRequest,
                "refused the request to `m`",
            ),
            (401, ProviderErrorKind::Authentication, "`FAKE_KEY`"),
            (
                403,
                ProviderErrorKind::Authentication,
                "does not allow this key",
            ),
            (404, ProviderErrorKind::InvalidRequest, "base_url"),
            (429, ProviderErrorKind::RateLimited, "Wait"),
            (500, ProviderErrorKind::Overloaded, "Try again later"),
            (529, ProviderErrorKind::Overloaded, "overloaded or down"),
        ] {
            // OpenAI's 404 always means the model.
            let openai = matches!(format, WireFormat::OpenAiChat | WireFormat::OpenAiResponses);
            let (kind, said) = if status == 404 && openai {
                (ProviderErrorKind::UnknownModel, "bezel models")
            } else {
                (kind, said)
            };
            let error = error(Turn::status(status), format).await;
            assert_eq!(
                (error.kind, error.status),
                (kind, Some(status)),
                "{format:?} {status}: {error}"
            );
            assert!(error.message.contains(said), "{format:?} {status}: {error}");
            assert!(
                error.message.contains("`fake`") || status == 404,
                "{format:?} {status}: {error}"
            );
        }
    }
}

#[tokio::test]
async fn a_wrong_key_and_a_missing_key_name_the_variable() {
    for format in WireFormat::MAIN {
        let wrong = error(Script::new([Turn::text("ok")]).with_key("another"), format).await;
        assert_eq!(
            wrong.kind,
            ProviderErrorKind::Authentication,
            "{format:?} {wrong}"
        );
        assert!(wrong.message.contains("`FAKE_KEY`"), "{wrong}");

        let server = FakeModelServer::start(Turn::text("ok")).await.unwrap();
        let provider = provider(
            config(format, &server.base_url(format)),
            KeySource::default(),
        )
        .unwrap();
        let missing = ask(&provider, request([user("hi")])).await.unwrap_err();
        assert_eq!(
            missing.kind,
            ProviderErrorKind::Authentication,
            "{format:?}"
        );
        assert!(missing.message.contains("Set `FAKE_KEY`"), "{missing}");
        assert!(
            server.requests().is_empty(),
            "nothing is sent without a key"
        );
    }
}

#[tokio::test]
async fn an_unknown_model_is_named() {
    for format in WireFormat::MAIN {
        let unknown = error(
            Script::new([Turn::text("ok")]).with_models(["other"]),
            format,
        )
        .await;
        assert_eq!(
            unknown.kind,
            ProviderErrorKind::UnknownModel,
            "{format:?} {unknown}"
        );
        assert!(
            unknown.message.contains("no model `m`") && unknown.message.contains("bezel models"),
            "{unknown}"
        );
    }
}

#[tokio::test]
async fn the_wait_that_is_asked_for_is_told() {
    for format in WireFormat::MAIN {
        let long = error(Turn::status(429).retry_after("4000"), format).await;
        assert!(
            long.message
                .contains("Wait 67 minutes, or choose another model"),
            "{}",
            long.message
        );
        let limited = error(Turn::status(429).retry_after("7"), format).await;
        assert_eq!(
            limited.retry_after,
            Some(Duration::from_secs(7)),
            "{format:?}"
        );
        assert!(limited.kind.is_transient());
        let overloaded = error(Turn::status(529).retry_after("0.25"), format).await;
        assert_eq!(
            overloaded.retry_after,
            Some(Duration::from_millis(250)),
            "{format:?}"
        );
    }
}

#[tokio::test]
async fn a_conversation_that_does_not_fit_is_known_as_that() {
    for format in WireFormat::MAIN {
        let before = error(Turn::context_overflow(), format).await;
        assert_eq!(
            before.kind,
            ProviderErrorKind::ContextOverflow,
            "{format:?} {before}"
        );
        assert!(before.message.contains("Compact"), "{before}");
        let within = error(
            Turn::steps([Step::Fault(StreamFault::ContextOverflow)]),
            format,
        )
        .await;
        assert_eq!(
            within.kind,
            ProviderErrorKind::ContextOverflow,
            "{format:?} {within}"
        );
    }
}

#[tokio::test]
async fn a_failure_reported_inside_the_stream_keeps_what_came() {
    for format in WireFormat::MAIN {
        for (fault, kind) in [
            (StreamFault::Overloaded, ProviderErrorKind::Overloaded),
            (StreamFault::RateLimited, ProviderErrorKind::RateLimited),
        ] {
            let (_server, provider) = serve(
                Turn::steps([Step::Text("half".into()), Step::Fault(fault)]),
                format,
            )
            .await;
            let (answer, outcome) = ask_in_part(&provider, request([user("hi")])).await;
            assert_eq!(answer.text(), "half", "{format:?}");
            assert_eq!(outcome.unwrap_err().kind, kind, "{format:?}");
        }
    }
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_named() {
    for format in WireFormat::MAIN {
        let url = format!("http://{}/v1", nobody());
        let provider = provider(config(format, &url), keys()).unwrap();
        let error = ask(&provider, request([user("hi")])).await.unwrap_err();
        assert_eq!(
            error.kind,
            ProviderErrorKind::Unreachable,
            "{format:?} {error}"
        );
        assert!(error.message.contains(&url), "{error}");
        assert!(
            error.message.contains("Connection refused") && !error.message.contains("os error"),
            "{error}"
        );
        assert!(error.message.contains("providers.fake.base_url"), "{error}");
    }
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_named() {
    let mut config = ProviderConfig::of_kind("nowhere", ProviderKind::OpenAi);
    config.base_url = Some("http://nowhere.invalid/v1".into());
    let provider = provider(config, KeySource::default()).unwrap();
    let error = ask(&provider, request([user("hi")])).await.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Unreachable);
    assert!(
        error.message.contains("http://nowhere.invalid/v1"),
        "{error}"
    );
}

fn page(status: u16, body: &str) -> Turn {
    Turn::Refuse(bezel_testkit::Refusal {
        status,
        message: None,
        retry_after: None,
        context_overflow: false,
        body: Some(body.into()),
    })
}

#[tokio::test]
async fn a_page_of_a_proxy_is_not_quoted() {
    let error = error(
        page(502, "<html><body>Bad gateway</body></html>"),
        WireFormat::OpenAiChat,
    )
    .await;
    assert_eq!(error.kind, ProviderErrorKind::Overloaded);
    assert!(
        error.message.contains("a web page instead of JSON"),
        "{error}"
    );
}

#[tokio::test]
async fn a_document_where_a_stream_was_asked_for_says_what_it_is() {
    for format in WireFormat::MAIN {
        let reported = error(
            page(200, r#"{"error":{"message":"prompt is too long"}}"#),
            format,
        )
        .await;
        assert_eq!(
            reported.kind,
            ProviderErrorKind::ContextOverflow,
            "{reported}"
        );
        let other = error(page(200, r#"{"status":"up"}"#), format).await;
        assert_eq!(other.kind, ProviderErrorKind::Malformed, "{other}");
        assert!(other.message.contains("providers.fake.kind"), "{other}");
    }
}

#[tokio::test]
async fn a_key_from_a_command_that_is_refused_is_asked_for_anew() {
    let server = FakeModelServer::start(Script::new([Turn::text("ok")]).with_key("key-2"))
        .await
        .unwrap();
    let directory = std::env::temp_dir().join(format!("bezel-command-{}", server.address().port()));
    let mut config = config(
        WireFormat::Anthropic,
        &server.base_url(WireFormat::Anthropic),
    );
    config.api_key_env = None;
    config.api_key_command = Some(format!(
        "echo x >> {0}; printf 'key-%s' $(wc -l < {0})",
        directory.display()
    ));
    let path = std::env::var_os("PATH").unwrap();
    let provider = provider(config, KeySource::new([("PATH", path)])).unwrap();
    let refused = ask(&provider, request([user("hi")])).await.unwrap_err();
    assert_eq!(refused.kind, ProviderErrorKind::Authentication);
    assert!(refused.message.contains("api_key_command"), "{refused}");
    assert_eq!(
        ask(&provider, request([user("hi")])).await.unwrap().text(),
        "ok"
    );
    std::fs::remove_file(&directory).unwrap();
}
