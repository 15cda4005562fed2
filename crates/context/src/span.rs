//! Spans that are part of a trace: a `tracing` span with the ids of its context.

use std::fmt;

use crate::TraceCarrier;

/// Opens a span under a context: gives the context to go on with, and the `tracing` span.
///
/// ```
/// use bezel_context::{Context, span};
/// use tracing::Instrument as _;
///
/// # async fn index(_: &Context) -> u32 { 3 }
/// async fn refresh(cx: &Context, lane: &str) {
///     let (cx, span) = span!(cx, "git.refresh", lane, files = tracing::field::Empty);
///     let files = index(&cx).instrument(span.clone()).await;
///     span.record("files", files);
/// }
/// ```
///
/// The name says what is done, for example `git.refresh`. What lies under the new context is the span's
/// child, in this process and in others. The span ends when its last handle is dropped.
///
/// Fields hold ids, names, counts and durations, never content, headers or secrets. Three are special:
/// `otel.kind` (`"client"`, `"server"`) says what the span is, `error.type` that it failed and with which
/// code, and `link` names another trace that it belongs to (see [`Link`]).
///
/// Only spans with these ids leave the process, so that what a library says of itself stays here; and
/// while nobody listens they cost two random numbers.
#[macro_export]
macro_rules! span {
    ($cx:expr, $name:literal $(, $($fields:tt)*)?) => {{
        let parent: &$crate::Context = $cx;
        let carrier = parent.trace().child();
        let span = $crate::__tracing::debug_span!(
            parent: None,
            $name,
            trace_id = %$crate::Hex128(carrier.trace_id()),
            span_id = %$crate::Hex64(carrier.span_id()),
            parent_id = %$crate::Hex64(parent.trace().open_span().unwrap_or(0)),
            sampled = carrier.is_sampled(),
            $($($fields)*)?
        );
        (parent.with_trace(carrier), span)
    }};
}

/// A trace id as the standard writes it.
#[derive(Debug, Clone, Copy)]
pub struct Hex128(pub u128);

/// A span id as the standard writes it.
#[derive(Debug, Clone, Copy)]
pub struct Hex64(pub u64);

/// Another trace as a span's field: `span.record("link", tracing::field::display(Link(&carrier)))`.
#[derive(Debug, Clone, Copy)]
pub struct Link<'c>(pub &'c TraceCarrier);

impl fmt::Display for Hex128 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

impl fmt::Display for Hex64 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl fmt::Display for Link<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, formatter)
    }
}
