//! Spans of the trace to an OpenTelemetry collector, where the standard variables ask for it.
//!
//! [`Settings::from_variables`] reads the variables. Without an endpoint in them nothing is started: no
//! thread, no layer, no client. With one, [`start`] gives a `tracing` layer for the process's subscriber,
//! and batches go out from a thread of their own, over OTLP/HTTP with protobuf.
//!
//! Only spans that carry the ids of a [`bezel_context::Context`] are exported, which `bezel_context::span!`
//! and the calls of `bezel-rpc` give them: their ids are those that travel in the headers of frames, so
//! that spans of several processes meet in one trace whether or not each of them exports. The layer is
//! therefore this crate's own, and not the one that makes ids itself from how `tracing` nests spans.
//!
//! The exporter is this crate's own too. The variables of a worker are those of the shell that started
//! its session and come over a pipe, so none may be read from the process; and it uses the HTTP client
//! that the workspace has. Queue, batches, words and encoding are those of the OpenTelemetry crates.
//!
//! Nothing here fails or delays what it watches. A collector that does not answer is warned about once.

mod exporter;
mod layer;
mod settings;
mod spans;
mod variables;

pub use settings::{Process, Reading, Settings};
pub use spans::{Telemetry, start};
