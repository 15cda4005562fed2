//! Making a provider from its configuration.

use std::sync::Arc;

use bezel_context::Context;
use bezel_session_types::{ModelSpec, Provider, ProviderError};

use crate::config::{ProviderConfig, ProviderConfigError};
use crate::keys::KeySource;
use crate::kind::Wire;
use crate::listing;
use crate::native::NativeProvider;
use crate::through_genai::GenaiProvider;

/// The provider that `config` describes. Costs next to nothing: the key is looked for, and the connection
/// made, by the first request.
pub fn provider(
    config: ProviderConfig,
    keys: KeySource,
) -> Result<Arc<dyn Provider>, ProviderConfigError> {
    Ok(match config.kind.facts().wire {
        Wire::Genai(adapter) => Arc::new(GenaiProvider::new(adapter, config, keys)?),
        _ => Arc::new(NativeProvider::new(config, keys)?),
    })
}

/// Asks the provider which models it has. What it does not say of them comes from the configuration and the
/// catalogue. Models that answer no conversation are left out where the provider says so.
pub async fn refresh(
    cx: &Context,
    config: &ProviderConfig,
    keys: KeySource,
) -> Result<Vec<ModelSpec>, ProviderError> {
    listing::refresh(cx, config, keys).await
}
