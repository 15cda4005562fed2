//! What can be tuned. The defaults are meant to stay.

use std::time::Duration;

/// How a harness behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct HarnessConfig {
    /// How failed model requests are tried again.
    pub retry: RetryConfig,
    /// When and how the context is compacted.
    pub compaction: CompactionConfig,
    /// How long one hook may take.
    pub hook_deadline: Duration,
    /// How long a cancelled tool may take to end what it started.
    pub cancel_grace: Duration,
    /// How long a model may say nothing before the request counts as broken off.
    pub stream_idle: Duration,
    /// How often one operation is taken up again after its process ended.
    pub max_recoveries: u32,
}

/// How failed model requests are tried again.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryConfig {
    /// Requests after the first.
    pub retries: u32,
    /// Wait before the first retry; it doubles with each.
    pub backoff: Duration,
    /// The longest wait that a provider may ask for; more fails at once.
    pub max_wait: Duration,
}

/// When and how the context is compacted.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionConfig {
    /// Whether it happens by itself, on the threshold.
    pub automatic: bool,
    /// Tokens of the window to leave free for the answer.
    pub reserve: u64,
    /// Tokens of the newest entries that are kept as they are.
    pub keep_recent: u64,
}

impl Default for HarnessConfig {
    fn default() -> Self {
        HarnessConfig {
            retry: RetryConfig {
                retries: 4,
                backoff: Duration::from_millis(500),
                max_wait: Duration::from_secs(300),
            },
            compaction: CompactionConfig {
                automatic: true,
                reserve: 16_384,
                keep_recent: 20_000,
            },
            hook_deadline: Duration::from_secs(30),
            cancel_grace: Duration::from_secs(5),
            stream_idle: Duration::from_secs(300),
            max_recoveries: 10,
        }
    }
}
