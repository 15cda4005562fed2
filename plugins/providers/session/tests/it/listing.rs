//! The remote catalogue: a provider's own list of models.

use bezel_context::Context;
use bezel_providers_session::{ModelConfig, refresh};
use bezel_session_types::ProviderErrorKind;
use bezel_testkit::{FakeModelServer, Script, Turn, WireFormat};

use crate::support::{KEY, config, keys};

fn lists() -> Script {
    Script::repeating(Turn::text("ok"))
        .with_models(["alpha", "beta"])
        .with_key(KEY)
}

#[tokio::test]
async fn every_format_lists_its_models_under_the_providers_name() {
    for format in [WireFormat::MAIN.as_slice(), &[WireFormat::Ollama]].concat() {
        let script = if format == WireFormat::Ollama {
            Script::new([]).with_models(["alpha", "beta"])
        } else {
            lists()
        };
        let server = FakeModelServer::start(script).await.unwrap();
        let mut config = config(format, &server.base_url(format));
        config.models.push(ModelConfig {
            id: "beta".into(),
            context: Some(5),
            images: Some(true),
            ..ModelConfig::default()
        });
        let models = refresh(&Context::background(), &config, keys())
            .await
            .unwrap();
        let names: Vec<_> = models.iter().map(|model| model.model.to_string()).collect();
        assert_eq!(names, ["fake::alpha", "fake::beta"], "{format:?}");
        assert!(
            models[1].images && models[1].context == 5,
            "{format:?}: configuration is kept"
        );
        if format == WireFormat::Gemini {
            assert_eq!(
                (models[0].context, models[0].max_output, models[0].reasoning),
                (1_048_576, 65_536, true)
            );
            assert_eq!(models[0].name, "The alpha");
        }
    }
}

#[tokio::test]
async fn a_refused_key_fails_the_refresh_and_says_so() {
    for format in WireFormat::MAIN {
        let server = FakeModelServer::start(Script::new([]).with_key("another"))
            .await
            .unwrap();
        let error = refresh(
            &Context::background(),
            &config(format, &server.base_url(format)),
            keys(),
        )
        .await
        .unwrap_err();
        assert_eq!(
            error.kind,
            ProviderErrorKind::Authentication,
            "{format:?} {error}"
        );
        assert!(error.message.contains("`FAKE_KEY`"), "{error}");
    }
}

#[tokio::test]
async fn cancelling_ends_a_refresh() {
    let server = FakeModelServer::start(lists()).await.unwrap();
    let (cx, cancel) = Context::background().with_cancel();
    cancel.cancel();
    let format = WireFormat::OpenAiChat;
    let error = refresh(&cx, &config(format, &server.base_url(format)), keys())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Cancelled);
}
