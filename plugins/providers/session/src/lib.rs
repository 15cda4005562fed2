//! Model providers: configuration, keys, the built-in catalogue, and the requests themselves.
//!
//! The four wire formats that most models speak are written and read here; the others go through genai
//! (`docs/design/0002-models-over-genai.md` says why).

mod answer;
mod catalogue;
mod command;
mod config;
mod facet;
mod failure;
mod http;
mod keys;
mod kind;
mod listing;
mod native;
mod provider;
mod refusal;
mod sse;
mod thinking;
mod through_genai;
mod wire;

#[cfg(test)]
mod wire_tests;

pub use catalogue::{built_in, catalogue};
pub use config::{ModelConfig, PriceConfig, ProviderConfig, ProviderConfigError};
pub use facet::{ProvidersConfig, facet};
pub use keys::{Availability, CredentialError, CredentialStore, KeySource, Secret};
pub use kind::{ProviderKind, key_variables};
pub use provider::{provider, refresh};
