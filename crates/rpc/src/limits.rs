//! What one connection may use up, each with its own error.

/// The bounds that both ends of a connection keep. They are told in `welcome`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Limits {
    /// A whole message, in bytes: `frame_too_large` beyond.
    pub message: usize,
    /// Calls in flight per client: `resource_exhausted` beyond.
    pub calls: usize,
    /// Subscriptions per client: `resource_exhausted` beyond.
    pub subscriptions: usize,
    /// References held per client: `resource_exhausted` beyond.
    pub references: usize,
    /// Bytes of state and events that may be on their way per subscription.
    pub window: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            message: 16 * 1024 * 1024,
            calls: 4096,
            subscriptions: 1024,
            references: 1024,
            window: 256 * 1024,
        }
    }
}
