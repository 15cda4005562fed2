//! From a manifest and a host's facets to running facets.

use std::collections::BTreeSet;
use std::sync::Arc;

use bezel_kernel::{Deadlines, Failure, Running, StartError, Unit};
use bezel_rpc::ServiceTable;
use futures::FutureExt;

use crate::facet::Namespace;
use crate::graph::{self, GraphError};
use crate::local::LocalRegistry;
use crate::scope::{Declared, FacetScope};
use crate::{Facet, Manifest, ManifestEntry, ManifestError, PluginId};

/// What a host assembles.
pub struct AssembleOptions<C> {
    /// Which plugins, in which order.
    pub manifest: Manifest,
    /// The facets that this host's build has; those that the manifest does not name stay out.
    pub facets: Vec<Facet<C>>,
    /// Where remote services are offered.
    pub table: ServiceTable,
    /// Wraps a facet's scope in the host's context.
    pub context: Arc<dyn Fn(FacetScope) -> C + Send + Sync>,
    /// Runs once all facets are set up, before the first is activated.
    pub before_activation: Box<dyn FnOnce() + Send>,
    /// How long each step may take.
    pub deadlines: Deadlines,
}

/// Why a host does not start.
#[derive(Debug, thiserror::Error)]
pub enum AssemblyError {
    /// The manifest itself is wrong.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A required plugin is for another interface.
    #[error("a required plugin cannot be loaded: {0}")]
    Incompatible(String),
    /// The facets cannot work together.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A required plugin failed.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Facets that run.
#[derive(Debug)]
pub struct Assembled {
    running: Running,
    order: Vec<(PluginId, String)>,
    left_out: Vec<(PluginId, String)>,
}

/// What became of one plugin in this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FacetReport {
    /// The plugin.
    pub plugin: PluginId,
    /// Its version.
    pub version: String,
    /// What became of it.
    pub status: FacetStatus,
}

/// What became of one plugin in this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FacetStatus {
    /// It runs.
    Active,
    /// It has nothing for this kind of host.
    NoFacet,
    /// It could not be loaded or failed, and why.
    Unavailable(String),
}

/// Checks the graph, then sets up and activates the facets.
pub async fn assemble<C: Send + 'static>(
    options: AssembleOptions<C>,
) -> Result<Assembled, AssemblyError> {
    let AssembleOptions {
        manifest,
        facets,
        table,
        context,
        before_activation,
        deadlines,
    } = options;
    manifest.validate()?;
    let mut left_out = Vec::new();
    let mut chosen: Vec<(&ManifestEntry, Facet<C>)> = Vec::new();
    for entry in &manifest.plugins {
        match entry.incompatibility() {
            Some(reason) if entry.required => return Err(AssemblyError::Incompatible(reason)),
            Some(reason) => left_out.push((entry.id.clone(), reason)),
            None => {
                let own = facets.iter().filter(|facet| facet.plugin == entry.id);
                chosen.extend(own.map(|facet| (entry, facet.clone())));
            }
        }
    }
    let selected: Vec<Facet<C>> = chosen.iter().map(|(_, facet)| facet.clone()).collect();
    let graph = graph::check(&selected)?;
    let registry = LocalRegistry::default();
    let units = chosen
        .into_iter()
        .zip(graph.needs)
        .map(|((entry, facet), needs)| {
            let declared = Declared {
                provides: facet.provides.iter().copied().collect(),
                uses: local_needs(&facet),
                available: graph.provided.clone(),
            };
            let (config, grants) = (entry.config.clone(), entry.grants.clone());
            let (registry, table, context) =
                (registry.clone(), table.clone(), Arc::clone(&context));
            let plugin = entry.id.clone();
            Unit {
                name: entry.id.to_arc(),
                required: entry.required,
                needs: needs.iter().map(PluginId::to_arc).collect(),
                setup: Box::new(move |scope| {
                    let facet_scope =
                        FacetScope::new(plugin, scope, (config, grants), declared, registry, table);
                    let running = (facet.setup)(context(facet_scope.clone()));
                    async move {
                        running.await?;
                        match facet_scope.violations() {
                            violations if violations.is_empty() => Ok(()),
                            violations => Err(violations.join("; ").into()),
                        }
                    }
                    .boxed()
                }),
            }
        });
    let units: Vec<Unit> = units.collect();
    let running = bezel_kernel::start(units, deadlines, |_| {
        registry.bind_all();
        before_activation();
    })
    .await?;
    let order = manifest
        .plugins
        .into_iter()
        .map(|entry| (entry.id, entry.version))
        .collect();
    Ok(Assembled {
        running,
        order,
        left_out,
    })
}

fn local_needs<C>(facet: &Facet<C>) -> BTreeSet<&'static str> {
    let local = facet
        .needs
        .iter()
        .filter(|need| need.namespace == Namespace::Local);
    local.map(|need| need.service).collect()
}

impl Assembled {
    /// What became of every plugin of the manifest, in its order.
    pub fn report(&self) -> Vec<FacetReport> {
        let active: BTreeSet<&str> = self.running.names().map(|name| &**name).collect();
        let lost = |id: &PluginId| {
            let failed = self
                .running
                .unavailable()
                .iter()
                .map(|lost| (&*lost.unit, &lost.reason));
            let left_out = self
                .left_out
                .iter()
                .map(|(id, reason)| (id.as_str(), reason));
            failed
                .chain(left_out)
                .find(|(name, _)| *name == id.as_str())
                .map(|(_, reason)| reason.clone())
        };
        let reports = self.order.iter().map(|(plugin, version)| {
            let status = match lost(plugin) {
                Some(reason) => FacetStatus::Unavailable(reason),
                None if active.contains(plugin.as_str()) => FacetStatus::Active,
                None => FacetStatus::NoFacet,
            };
            FacetReport {
                plugin: plugin.clone(),
                version: version.clone(),
                status,
            }
        });
        reports.collect()
    }

    /// Ends one plugin's facet and those that cannot do without it. Returns every failed disposer.
    pub async fn remove(&mut self, plugin: &str) -> Vec<Failure> {
        let (_, failures) = self.running.remove(plugin).await;
        failures
    }

    /// Ends everything in reverse order. Returns every failed disposer.
    pub async fn dispose(self) -> Vec<Failure> {
        self.running.dispose().await
    }
}
