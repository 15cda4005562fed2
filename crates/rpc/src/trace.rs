//! Trace ids as spans record them.

/// Formatted only when a span is recorded.
pub(crate) struct Hex128(pub(crate) u128);
/// Formatted only when a span is recorded.
pub(crate) struct Hex64(pub(crate) u64);

impl std::fmt::Display for Hex128 {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

impl std::fmt::Display for Hex64 {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}
