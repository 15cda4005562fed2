//! The service graph of one host, checked before any plugin code runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::PluginId;
use crate::facet::{Facet, Namespace};

/// A set of facets that cannot work together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// Two plugins provide one service.
    #[error(
        "plugins `{first}` and `{second}` both provide service `{service}`; remove one of them from the manifest"
    )]
    Duplicate {
        /// The service.
        service: &'static str,
        /// The earlier in the manifest.
        first: PluginId,
        /// The later.
        second: PluginId,
    },
    /// Nobody provides a service of this process that a plugin requires.
    #[error(
        "plugin `{plugin}` requires service `{service}`, which no plugin of the manifest provides in this host"
    )]
    Missing {
        /// The service.
        service: &'static str,
        /// Who requires it.
        plugin: PluginId,
    },
    /// Plugins require each other's services in a circle.
    #[error("plugins require each other's services in a circle: {}", describe(.0))]
    Cycle(Vec<(PluginId, &'static str)>),
}

fn describe(circle: &[(PluginId, &'static str)]) -> String {
    let steps: Vec<String> = circle
        .iter()
        .map(|(plugin, service)| format!("`{plugin}` requires `{service}`"))
        .collect();
    steps.join(", ")
}

/// For each facet, in the given order, the plugins whose local services it cannot do without.
pub(crate) struct Graph {
    pub(crate) needs: Vec<BTreeSet<PluginId>>,
    pub(crate) provided: BTreeSet<&'static str>,
}

/// Checks `facets`, given in manifest order.
pub(crate) fn check<C>(facets: &[Facet<C>]) -> Result<Graph, GraphError> {
    let mut owners: BTreeMap<&'static str, &PluginId> = BTreeMap::new();
    for facet in facets {
        for service in &facet.provides {
            if let Some(first) = owners.insert(service, &facet.plugin) {
                let (first, second) = (first.clone(), facet.plugin.clone());
                return Err(GraphError::Duplicate {
                    service,
                    first,
                    second,
                });
            }
        }
    }
    let mut needs = Vec::with_capacity(facets.len());
    let mut edges: BTreeMap<&PluginId, Vec<(&'static str, &PluginId)>> = BTreeMap::new();
    for facet in facets {
        let mut providers = BTreeSet::new();
        for need in facet
            .needs
            .iter()
            .filter(|need| need.namespace == Namespace::Local)
        {
            match owners.get(need.service) {
                None if need.optional => {}
                None => {
                    let plugin = facet.plugin.clone();
                    return Err(GraphError::Missing {
                        service: need.service,
                        plugin,
                    });
                }
                Some(owner) if need.optional || **owner == facet.plugin => {}
                Some(owner) => {
                    providers.insert((*owner).clone());
                    edges
                        .entry(&facet.plugin)
                        .or_default()
                        .push((need.service, owner));
                }
            }
        }
        needs.push(providers);
    }
    match facets
        .iter()
        .find_map(|facet| circle(&edges, &facet.plugin))
    {
        Some(circle) => Err(GraphError::Cycle(circle)),
        None => Ok(Graph {
            needs,
            provided: owners.into_keys().collect(),
        }),
    }
}

type Edges<'a> = BTreeMap<&'a PluginId, Vec<(&'static str, &'a PluginId)>>;

/// The shortest walk along requirements from `start` back to it.
fn circle(edges: &Edges<'_>, start: &PluginId) -> Option<Vec<(PluginId, &'static str)>> {
    let mut paths: Vec<(&PluginId, Vec<(PluginId, &'static str)>)> = vec![(start, Vec::new())];
    let mut seen = BTreeSet::new();
    while let Some((plugin, path)) = (!paths.is_empty()).then(|| paths.remove(0)) {
        for (service, owner) in edges.get(plugin).into_iter().flatten() {
            let mut longer = path.clone();
            longer.push((plugin.clone(), *service));
            if *owner == start {
                return Some(longer);
            }
            if seen.insert(*owner) {
                paths.push((owner, longer));
            }
        }
    }
    None
}
