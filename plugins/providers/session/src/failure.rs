//! What can go wrong with a request, in words that say what to do.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bezel_session_types::{ModelRef, ProviderError, ProviderErrorKind};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use crate::refusal::{self, Report};
use crate::sse::TooLong;

/// What ended an answer inside its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The body ended before the answer did.
    Cut,
    /// An event was not what the protocol says; its beginning.
    Malformed(String),
    /// The provider reported a failure.
    Reported(Report),
}

impl Fault {
    /// A malformed event, of which only the beginning is kept.
    pub(crate) fn malformed(data: &[u8]) -> Fault {
        let beginning = &data[..data.len().min(200)];
        Fault::Malformed(
            String::from_utf8_lossy(beginning)
                .chars()
                .take(120)
                .collect(),
        )
    }
}

impl From<TooLong> for Fault {
    fn from(_: TooLong) -> Self {
        Fault::Malformed("an event of more than 64 MiB".into())
    }
}

/// Whom a request was made to, for the words of an error.
#[derive(Debug, Clone)]
pub(crate) struct Origin(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    model: ModelRef,
    url: String,
    /// What to look at when the key is refused.
    key_hint: String,
    /// Whether the address is the configuration's.
    own_url: bool,
}

impl Origin {
    pub(crate) fn new(model: ModelRef, url: String, key_hint: String, own_url: bool) -> Self {
        Origin(Arc::new(Inner {
            model,
            url,
            key_hint,
            own_url,
        }))
    }

    fn error(&self, kind: ProviderErrorKind, message: String) -> ProviderError {
        ProviderError {
            kind,
            message,
            status: None,
            retry_after: None,
        }
    }

    pub(crate) fn cancelled(&self) -> ProviderError {
        self.error(
            ProviderErrorKind::Cancelled,
            format!("The request to `{}` was cancelled.", self.0.model),
        )
    }

    /// The request was sent and no answer began.
    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> ProviderError {
        let Inner {
            model,
            url,
            own_url,
            ..
        } = &*self.0;
        let cause = cause(error);
        if error.is_builder() {
            let message = format!(
                "The request to `{model}` could not be written: {cause}. Check its base_url and headers."
            );
            return self.error(ProviderErrorKind::InvalidRequest, message);
        }
        let remedy = if *own_url {
            format!(
                "Check that the server runs and that providers.{}.base_url is right.",
                model.provider
            )
        } else {
            "Check the network connection and the proxy settings.".into()
        };
        let message = format!(
            "`{}` could not be reached at {url}: {cause}. {remedy}",
            model.provider
        );
        self.error(ProviderErrorKind::Unreachable, message)
    }

    pub(crate) fn broken_off(&self, error: &reqwest::Error) -> ProviderError {
        let message = format!(
            "The answer of `{}` broke off: {}. Try again.",
            self.0.model,
            cause(error)
        );
        self.error(ProviderErrorKind::Interrupted, message)
    }

    pub(crate) fn silent(&self, timeout: Duration) -> ProviderError {
        let Inner { model, .. } = &*self.0;
        let message = format!(
            "`{model}` sent nothing for {} s, so the request was ended. Try again; if the model is that slow, raise \
             providers.{}.idle_timeout_seconds.",
            timeout.as_secs(),
            model.provider,
        );
        self.error(ProviderErrorKind::Interrupted, message)
    }

    pub(crate) fn fault(&self, fault: Fault) -> ProviderError {
        let Inner { model, url, .. } = &*self.0;
        match fault {
            Fault::Cut => {
                let message =
                    format!("The answer of `{model}` broke off before its end. Try again.");
                self.error(ProviderErrorKind::Interrupted, message)
            }
            Fault::Malformed(beginning) => {
                let message = format!(
                    "`{model}` at {url} sent an event that cannot be read: `{beginning}`. Try again; if it stays, \
                     check that providers.{}.kind is what the server speaks.",
                    model.provider
                );
                self.error(ProviderErrorKind::Malformed, message)
            }
            Fault::Reported(report) => self.refusal(None, &HeaderMap::new(), &report),
        }
    }

    /// An HTTP error.
    pub(crate) fn status(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &str,
    ) -> ProviderError {
        if status.is_redirection() {
            let Inner { model, url, .. } = &*self.0;
            let place = headers
                .get("location")
                .and_then(|place| place.to_str().ok())
                .unwrap_or("elsewhere");
            let message = format!(
                "{url} redirects to {place}. Set providers.{}.base_url to where it leads.",
                model.provider
            );
            let error = self.error(ProviderErrorKind::InvalidRequest, message);
            return ProviderError {
                status: Some(status.as_u16()),
                ..error
            };
        }
        self.refusal(Some(status), headers, &refusal::read(body))
    }

    fn refusal(
        &self,
        status: Option<StatusCode>,
        headers: &HeaderMap,
        report: &Report,
    ) -> ProviderError {
        let Inner {
            model,
            url,
            key_hint,
            ..
        } = &*self.0;
        let ModelRef { provider, model_id } = model;
        let reason = refusal::classify(status, report);
        let retry_after = refusal::retry_after(headers, report);
        let said = match (status, report.message.is_empty()) {
            (Some(status), true) => format!("HTTP {}", status.as_u16()),
            (Some(status), false) => format!("HTTP {}: {}", status.as_u16(), report.message),
            (None, _) => report.message.clone(),
        };
        use refusal::Reason;
        let (kind, message) = match reason {
            Reason::Key => (
                ProviderErrorKind::Authentication,
                format!("`{provider}` refused the key ({said}). {key_hint}"),
            ),
            Reason::Forbidden => (
                ProviderErrorKind::Authentication,
                format!(
                    "`{provider}` does not allow this key to use `{model_id}` ({said}). {key_hint}"
                ),
            ),
            Reason::Credit => (
                ProviderErrorKind::InvalidRequest,
                format!(
                    "The account at `{provider}` has no credit or quota left ({said}). Check its plan and billing."
                ),
            ),
            Reason::UnknownModel => (
                ProviderErrorKind::UnknownModel,
                format!(
                    "`{provider}` has no model `{model_id}` ({said}). See `bezel models` for those it has."
                ),
            ),
            Reason::NoSuchPath => (
                ProviderErrorKind::InvalidRequest,
                format!(
                    "There is nothing at {url} ({said}). Check providers.{provider}.base_url and kind."
                ),
            ),
            Reason::ContextOverflow => (
                ProviderErrorKind::ContextOverflow,
                format!(
                    "The conversation does not fit into `{model_id}` ({said}). Compact it, or choose a model with a larger context."
                ),
            ),
            Reason::RateLimited => (
                ProviderErrorKind::RateLimited,
                format!(
                    "`{provider}` limits the rate of requests ({said}). Wait{}, or choose another model.",
                    retry_after.map_or_else(String::new, minutes)
                ),
            ),
            Reason::Overloaded => (
                ProviderErrorKind::Overloaded,
                format!(
                    "`{provider}` is overloaded or down ({said}). Try again later, or choose another model."
                ),
            ),
            Reason::Refused => (
                ProviderErrorKind::InvalidRequest,
                format!("`{provider}` refused the request to `{model_id}` as wrong ({said})."),
            ),
        };
        ProviderError {
            kind,
            message,
            status: status.map(|status| status.as_u16()),
            retry_after,
        }
    }
}

/// A wait that a person would notice, as the end of "wait": ` 67 minutes`; nothing for a short one.
fn minutes(wait: Duration) -> String {
    match wait.as_secs().div_ceil(60) {
        0 | 1 => String::new(),
        count => format!(" {count} minutes"),
    }
}

/// The innermost cause: what a person can act on.
fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    if error.is_timeout() {
        return "it took too long".into();
    }
    let text = innermost.to_string();
    // The operating system's number says nothing to a person.
    match text.rfind(" (os error ") {
        Some(end) => text[..end].into(),
        None => text,
    }
}
