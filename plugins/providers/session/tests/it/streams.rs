//! How an answer arrives and how it ends before its time, over each of the four wire formats.

use std::time::Duration;

use bezel_context::Context;
use bezel_providers_session::provider;
use bezel_session_types::{ModelEvent, ProviderErrorKind};
use bezel_testkit::{FakeModelServer, Script, Step, Turn, WireFormat};
use futures::StreamExt;

use crate::support::{ask, ask_in_part, config, keys, request, serve, user};

fn stalling() -> Turn {
    Turn::steps([Step::Text("first ".into()), Step::Stall])
}

#[tokio::test]
async fn cancelling_ends_the_answer_and_closes_the_request() {
    for format in WireFormat::MAIN {
        let (server, provider) = serve(stalling(), format).await;
        let (cx, cancel) = Context::background().with_cancel();
        let mut stream = provider.stream(&cx, request([user("hi")])).await.unwrap();
        let first = stream.next().await.unwrap().unwrap();
        assert_eq!(first, ModelEvent::Text("first ".into()), "{format:?}");
        cancel.cancel();
        let error = stream.next().await.unwrap().unwrap_err();
        assert_eq!(error.kind, ProviderErrorKind::Cancelled, "{format:?}");
        assert!(stream.next().await.is_none());
        // The stream is still held: ending the invocation alone closes the request.
        server.wait_for_early_close(0).await.unwrap();
    }
}

#[tokio::test]
async fn dropping_the_stream_closes_the_request() {
    for format in WireFormat::MAIN {
        let (server, provider) = serve(stalling(), format).await;
        let cx = Context::background();
        let mut stream = provider.stream(&cx, request([user("hi")])).await.unwrap();
        stream.next().await.unwrap().unwrap();
        drop(stream);
        server.wait_for_early_close(0).await.unwrap();
    }
}

#[tokio::test]
async fn cancelling_before_the_answer_begins_closes_the_request() {
    for format in WireFormat::MAIN {
        let (server, provider) = serve(Turn::steps([Step::Stall]), format).await;
        let (cx, cancel) = Context::background().with_cancel();
        let asked = provider.stream(&cx, request([user("hi")]));
        let asked = async {
            match asked.await {
                Ok(mut stream) => stream.next().await.unwrap().map(drop),
                Err(error) => Err(error),
            }
        };
        let cancelling = async {
            server.wait_for_requests(1).await.unwrap();
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(asked, cancelling);
        assert_eq!(
            outcome.unwrap_err().kind,
            ProviderErrorKind::Cancelled,
            "{format:?}"
        );
        server.wait_for_early_close(0).await.unwrap();
    }
}

#[tokio::test]
async fn a_stream_cut_half_way_gives_what_came_and_says_so() {
    for format in WireFormat::MAIN {
        let turn = Turn::steps([Step::Text("half".into()), Step::Cut]);
        let (_server, provider) = serve(turn, format).await;
        let (answer, outcome) = ask_in_part(&provider, request([user("hi")])).await;
        assert_eq!(answer.text(), "half", "{format:?}");
        let error = outcome.unwrap_err();
        assert_eq!(
            error.kind,
            ProviderErrorKind::Interrupted,
            "{format:?} {error}"
        );
        assert!(
            error.message.contains("`fake::m`") && error.message.contains("Try again"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_malformed_event_gives_what_came_and_quotes_it() {
    for format in WireFormat::MAIN {
        let turn = Turn::steps([
            Step::Text("before".into()),
            Step::Malformed,
            Step::Text("after".into()),
        ]);
        let (server, provider) = serve(turn, format).await;
        let (answer, outcome) = ask_in_part(&provider, request([user("hi")])).await;
        assert_eq!(answer.text(), "before", "{format:?}");
        let error = outcome.unwrap_err();
        assert_eq!(
            error.kind,
            ProviderErrorKind::Malformed,
            "{format:?} {error}"
        );
        assert!(
            error.message.contains("delta") && error.message.contains(&server.url()),
            "{error}"
        );
    }
}

#[tokio::test]
async fn silence_is_an_interruption_that_names_the_setting() {
    for format in WireFormat::MAIN {
        let server = FakeModelServer::start(stalling()).await.unwrap();
        let mut config = config(format, &server.base_url(format));
        config.idle_timeout_seconds = Some(1);
        let provider = provider(config, keys()).unwrap();
        let (answer, outcome) = ask_in_part(&provider, request([user("hi")])).await;
        assert_eq!(answer.text(), "first ", "{format:?}");
        let error = outcome.unwrap_err();
        assert_eq!(error.kind, ProviderErrorKind::Interrupted, "{format:?}");
        assert!(error.message.contains("idle_timeout_seconds"), "{error}");
        server.wait_for_early_close(0).await.unwrap();
    }
}

#[tokio::test]
async fn answers_one_after_the_other_share_a_connection() {
    for format in WireFormat::MAIN {
        let (server, provider) = serve(Script::repeating(Turn::text("ok")), format).await;
        for _ in 0..4 {
            ask(&provider, request([user("hi")])).await.unwrap();
        }
        assert_eq!(server.connections(), 1, "{format:?}");
    }
}

#[tokio::test]
async fn a_slow_answer_is_handed_on_as_it_comes() {
    for format in WireFormat::MAIN {
        let pause = Step::delay(Duration::from_millis(150));
        let steps = [Step::Text("one ".into()), pause, Step::Text("two".into())];
        let (_server, provider) = serve(Turn::steps(steps), format).await;
        let cx = Context::background();
        let mut stream = provider.stream(&cx, request([user("hi")])).await.unwrap();
        let mut next = async || stream.next().await.unwrap().unwrap();
        assert_eq!(next().await, ModelEvent::Text("one ".into()), "{format:?}");
        assert_eq!(next().await, ModelEvent::Text("two".into()), "{format:?}");
    }
}

#[tokio::test]
async fn a_flood_of_deltas_arrives_whole_in_few_events() {
    for format in WireFormat::MAIN {
        let (_server, provider) = serve(Turn::flood(3_000, "tok ", 64), format).await;
        let cx = Context::background();
        let stream = provider.stream(&cx, request([user("hi")])).await.unwrap();
        let events: Vec<_> = stream.map(Result::unwrap).collect().await;
        let lengths = events.iter().map(|event| match event {
            ModelEvent::Text(text) => text.len(),
            _ => 0,
        });
        assert_eq!(lengths.sum::<usize>(), 12_000, "{format:?}");
        assert!(events.len() < 1_000, "{format:?}: {} events", events.len());
    }
}
