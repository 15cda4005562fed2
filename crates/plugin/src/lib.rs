//! What every facet shares: manifest, facet descriptors, provide and use, contribution drafts.
//!
//! A *plugin* is a feature; a *facet* is its part in one kind of host. A facet declares which services it
//! provides and which it uses; [`assemble`] checks the whole graph before any plugin code runs, then lets
//! the kernel set up, activate and, one day, dispose the facets. Each `api/*` crate wraps [`FacetScope`]
//! in the context of its host.
//!
//! Services have one owner and many users; [`Registry`] is the reverse: many contributors, one result.

mod assembly;
mod contributions;
mod facet;
mod graph;
mod local;
mod manifest;
mod scope;

pub use assembly::{AssembleOptions, Assembled, AssemblyError, FacetReport, FacetStatus, assemble};
pub use bezel_kernel::{BoxError, Deadlines, Failure, Phase, Scope};
pub use bezel_rpc::LocalService;
pub use contributions::{
    Contribution, Contributions, Draft, DraftError, Following, Named, Names, Problem, Registry,
};
pub use facet::{Facet, FacetError, Namespace, ServiceNeed};
pub use graph::GraphError;
pub use local::{Local, NotActive};
pub use manifest::{
    Grant, INTERFACE, InterfaceVersion, Manifest, ManifestEntry, ManifestError, PluginId,
};
pub use scope::{ConfigError, FacetScope};
