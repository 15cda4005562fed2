//! When a failed model request is tried again.

use std::time::Duration;

use bezel_session_types::{ProviderError, ProviderErrorKind};

use crate::config::RetryConfig;

/// How long to wait before retry number `attempt` (from 1); none when it is not worth one.
pub(crate) fn wait_before(
    config: &RetryConfig,
    attempt: u32,
    error: &ProviderError,
) -> Option<Duration> {
    if attempt > config.retries || !error.kind.is_transient() {
        return None;
    }
    let asked = error.retry_after.unwrap_or_default();
    if asked > config.max_wait {
        return None;
    }
    let doubled = config.backoff.saturating_mul(1 << (attempt - 1).min(16));
    // Jitter, so that sessions that failed together do not come back together.
    let backoff = doubled.mul_f64(rand::random_range(0.75..1.25));
    Some(backoff.max(asked).min(config.max_wait))
}

/// The stable code of a failed request.
pub(crate) fn code(kind: ProviderErrorKind) -> &'static str {
    match kind {
        ProviderErrorKind::Authentication => "model.authentication",
        ProviderErrorKind::UnknownModel => "model.unknown",
        ProviderErrorKind::InvalidRequest => "model.invalid_request",
        ProviderErrorKind::ContextOverflow => "model.context_overflow",
        ProviderErrorKind::RateLimited => "model.rate_limited",
        ProviderErrorKind::Overloaded => "model.overloaded",
        ProviderErrorKind::Unreachable => "model.unreachable",
        ProviderErrorKind::Interrupted => "model.interrupted",
        ProviderErrorKind::Malformed => "model.malformed",
        ProviderErrorKind::Cancelled => "model.cancelled",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HarnessConfig;

    fn error(kind: ProviderErrorKind, retry_after: Option<u64>) -> ProviderError {
        let retry_after = retry_after.map(Duration::from_secs);
        ProviderError {
            kind,
            message: "no".into(),
            status: None,
            retry_after,
        }
    }

    #[test]
    fn waits_double_from_the_backoff_and_honour_what_the_provider_asks() {
        let config = HarnessConfig::default().retry;
        for attempt in 1..=4 {
            let wait = wait_before(
                &config,
                attempt,
                &error(ProviderErrorKind::Overloaded, None),
            );
            let middle = 500.0 * f64::from(1 << (attempt - 1));
            let wait = wait.unwrap().as_millis() as f64;
            assert!(
                (middle * 0.75..=middle * 1.25).contains(&wait),
                "{attempt}: {wait}"
            );
        }
        let asked = wait_before(&config, 1, &error(ProviderErrorKind::RateLimited, Some(20)));
        assert_eq!(asked, Some(Duration::from_secs(20)));
    }

    #[test]
    fn a_wrong_key_too_many_tries_and_too_long_a_wait_are_not_tried_again() {
        let config = HarnessConfig::default().retry;
        let never = error(ProviderErrorKind::Authentication, None);
        assert_eq!(wait_before(&config, 1, &never), None);
        let later = error(ProviderErrorKind::RateLimited, Some(3_600));
        assert_eq!(wait_before(&config, 1, &later), None);
        let often = error(ProviderErrorKind::Overloaded, None);
        assert_eq!(wait_before(&config, 5, &often), None);
    }
}
