//! Asking the model for a summary: of older entries, or of a branch that is left.

use std::sync::Arc;

use bezel_context::Context;
use bezel_session_types::{
    Message, ModelEvent, ModelRequest, Provider, ProviderError, ProviderErrorKind, RequestOptions,
    Usage, UserContent, UserMessage,
};
use futures::StreamExt;
use tracing::Instrument as _;

use crate::harness::ResolvedModel;
use crate::request::{Refused, note_answer, request_span};
use crate::retry::wait_before;
use crate::run::Run;
use crate::stream::provider_error;

const SYSTEM: &str = "You summarise the work of a coding agent so that another can go on with it. \
Answer with the summary alone.";

/// Output limit of a summary, in tokens.
pub(crate) const SUMMARY_TOKENS: u64 = 8_192;

impl Run {
    /// What the model makes of `text`, which ends with the task. Tried again as any request is.
    pub(crate) async fn ask_for_summary(
        &self,
        model: &ResolvedModel,
        text: String,
    ) -> Result<(String, Usage), Refused> {
        let spec = &model.spec;
        let message = UserMessage {
            content: vec![UserContent::Text { text }],
            synthetic: true,
        };
        let request = ModelRequest {
            model: spec.model.clone(),
            system: SYSTEM.into(),
            messages: Arc::from([Arc::new(Message::User(message))]),
            tools: Arc::from([]),
            options: RequestOptions {
                max_output: Some(match spec.max_output {
                    0 => SUMMARY_TOKENS,
                    most => most.min(SUMMARY_TOKENS),
                }),
                ..RequestOptions::default()
            },
        };
        let mut attempt = 0;
        loop {
            let (cx, span) = request_span(&self.cx, spec);
            span.record("attempt", attempt);
            let collected = self.collect(&cx, &*model.provider, request.clone());
            let answer = cx.run(collected.instrument(span.clone())).await;
            if let Ok(answer) = &answer {
                note_answer(&span, answer.as_ref().map(|(_, usage)| usage));
            }
            drop(span);
            let error = match answer {
                Ok(Ok(summarised)) => return Ok(summarised),
                Ok(Err(error)) => error,
                Err(_) => return Err(Refused::Aborted),
            };
            attempt += 1;
            let Some(wait) = wait_before(&self.lane.session.config.retry, attempt, &error) else {
                let message = format!("the model could not summarise: {}", error.message);
                return Err(Refused::Failed {
                    code: crate::retry::code(error.kind),
                    message,
                });
            };
            if self.cx.run(tokio::time::sleep(wait)).await.is_err() {
                return Err(Refused::Aborted);
            }
        }
    }

    /// The text of one answer.
    async fn collect(
        &self,
        cx: &Context,
        provider: &dyn Provider,
        request: ModelRequest,
    ) -> Result<(String, Usage), ProviderError> {
        let idle = self.lane.session.config.stream_idle;
        let silent = |_| {
            provider_error(
                ProviderErrorKind::Interrupted,
                "the model sent nothing for too long".into(),
            )
        };
        let started = provider.stream(cx, request);
        let mut stream = tokio::time::timeout(idle, started)
            .await
            .map_err(silent)??;
        let mut text = String::new();
        while let Some(event) = tokio::time::timeout(idle, stream.next())
            .await
            .map_err(silent)?
        {
            match event? {
                ModelEvent::Text(more) => text.push_str(&more),
                ModelEvent::End { usage, .. } if !text.trim().is_empty() => {
                    return Ok((text, usage));
                }
                ModelEvent::End { .. } => {
                    let message = "the model answered nothing".to_owned();
                    return Err(provider_error(ProviderErrorKind::Malformed, message));
                }
                _ => {}
            }
        }
        let message = "the model's answer broke off before its end".to_owned();
        Err(provider_error(ProviderErrorKind::Interrupted, message))
    }
}
