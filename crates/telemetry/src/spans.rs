//! The running export of one process.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SpanProcessor};

use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::exporter::{Exporter, Health};
use crate::layer::SpanLayer;
use crate::settings::Settings;

/// How long the end of a process waits for the last batch.
const FAREWELL: Duration = Duration::from_secs(1);

/// The export of one process. Dropping it ends the export without the last batch.
#[derive(Debug)]
pub struct Telemetry {
    processor: Arc<BatchSpanProcessor>,
    health: Arc<Health>,
}

/// Starts the thread that exports. It connects when there is something to send.
pub fn start(settings: Settings) -> Telemetry {
    settings.sampling.install();
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(settings.queue)
        .with_max_export_batch_size(settings.batch)
        .with_scheduled_delay(settings.delay)
        .build();
    let (exporter, health) = Exporter::new(settings);
    Telemetry {
        processor: Arc::new(BatchSpanProcessor::new(exporter, batches)),
        health,
    }
}

impl Telemetry {
    /// The layer to put into the process's subscriber. It takes only spans of a context's trace.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync
    where
        S: Subscriber + for<'s> LookupSpan<'s>,
    {
        let processor = Arc::clone(&self.processor) as Arc<dyn SpanProcessor>;
        SpanLayer::new(processor)
            .with_filter(filter_fn(SpanLayer::takes).with_max_level_hint(LevelFilter::DEBUG))
    }

    /// Exports the spans of a process that keeps no log.
    pub fn install(&self) {
        // Only a second subscriber in one process fails; the first one's goes on.
        tracing_subscriber::registry()
            .with(self.layer())
            .try_init()
            .ok();
    }

    /// Sends what there is now, and waits for that a few seconds at most.
    pub fn flush(&self) {
        if let Err(error) = self.processor.force_flush() {
            tracing::debug!(target: "bezel", %error, "spans did not arrive");
        }
    }

    /// Sends what is left, and waits for that at most a second; not at all for a collector that did not
    /// answer before.
    pub fn finish(&self) {
        let patience = if self.health.failing() {
            Duration::ZERO
        } else {
            FAREWELL
        };
        if let Err(error) = self.processor.shutdown_with_timeout(patience) {
            tracing::debug!(target: "bezel", %error, "the last spans did not arrive");
        }
    }
}
