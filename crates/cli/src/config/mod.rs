//! The configuration: layered TOML, checked as a whole, with every error at its line.

mod check;
mod diagnostic;
mod formats;
mod layers;
mod rules;
#[cfg(test)]
mod tests;
mod trust;
mod types;

pub use check::join;
pub use diagnostic::{ConfigErrors, Diagnostic, Place, nearest};
pub use layers::{
    Given, LoadError, Loaded, Origin, Sources, VARIABLES, load, project_file, project_of,
};
pub use trust::TrustStore;
pub use types::{
    Config, Permission, ProviderSettings, ResumeWhen, Theme, Thinking, published_schema,
};
#[cfg(test)]
pub use types::{PluginSettings, ProviderKind};
