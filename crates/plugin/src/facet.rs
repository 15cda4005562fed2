//! Facet descriptors: what a facet provides, what it uses, and its setup.

use std::future::Future;
use std::sync::Arc;

use bezel_rpc::{LocalService, ServiceClient};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::PluginId;
use crate::scope::{ConfigError, read_config};

/// Any error of plugin code; hosts report it with the plugin's name.
pub type FacetError = bezel_kernel::BoxError;

/// Where a service is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespace {
    /// In the facet's own process: missing is an assembly error.
    Local,
    /// At the connected server: missing is a state at run time.
    Server,
    /// At the selected session: missing is a state at run time.
    Session,
}

/// A service that a facet uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceNeed {
    /// Where.
    pub namespace: Namespace,
    /// Which.
    pub service: &'static str,
    /// Whether the facet works without it.
    pub optional: bool,
}

type Setup<C> = Arc<dyn Fn(C) -> BoxFuture<'static, Result<(), FacetError>> + Send + Sync>;

/// One plugin's part in hosts that hand out `C`.
pub struct Facet<C> {
    pub(crate) plugin: PluginId,
    pub(crate) provides: Vec<&'static str>,
    pub(crate) needs: Vec<ServiceNeed>,
    pub(crate) setup: Setup<C>,
    check: Option<CheckConfig>,
}

/// Reads a configuration as the facet will.
type CheckConfig = fn(&PluginId, &Value) -> Result<(), ConfigError>;

impl<C> Clone for Facet<C> {
    fn clone(&self) -> Self {
        Facet {
            plugin: self.plugin.clone(),
            provides: self.provides.clone(),
            needs: self.needs.clone(),
            setup: Arc::clone(&self.setup),
            check: self.check,
        }
    }
}

impl<C> Facet<C> {
    /// A facet of `plugin`. `setup` registers; effects start in `on_activate`.
    pub fn new<F, Fut>(plugin: &'static str, setup: F) -> Self
    where
        F: Fn(C) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), FacetError>> + Send + 'static,
    {
        Facet {
            plugin: PluginId::new(plugin),
            provides: Vec::new(),
            needs: Vec::new(),
            setup: Arc::new(move |context| setup(context).boxed()),
            check: None,
        }
    }

    /// Declares what setup reads its plugin's configuration as, so that it can be checked where nothing runs.
    #[must_use]
    pub fn configured<T: DeserializeOwned>(mut self) -> Self {
        self.check = Some(|plugin, config| read_config::<T>(plugin, config).map(drop));
        self
    }

    /// Declares a service that setup will provide.
    #[must_use]
    pub fn provides<S: ServiceClient>(mut self) -> Self {
        self.provides.push(S::ID);
        self
    }

    /// Declares a service of this process only that setup will provide.
    #[must_use]
    pub fn provides_local<L: LocalService>(mut self) -> Self {
        self.provides.push(L::ID);
        self
    }

    /// Declares a service that the facet cannot do without.
    #[must_use]
    pub fn requires<S: ServiceClient>(self, namespace: Namespace) -> Self {
        self.need(namespace, S::ID, false)
    }

    /// Declares a service of this process only that the facet cannot do without.
    #[must_use]
    pub fn requires_local<L: LocalService>(self) -> Self {
        self.need(Namespace::Local, L::ID, false)
    }

    /// Declares a service that the facet uses where it exists.
    #[must_use]
    pub fn optional<S: ServiceClient>(self, namespace: Namespace) -> Self {
        self.need(namespace, S::ID, true)
    }

    /// Declares a service of this process only that the facet uses where it exists.
    #[must_use]
    pub fn optional_local<L: LocalService>(self) -> Self {
        self.need(Namespace::Local, L::ID, true)
    }

    /// Whether `config` is one that setup can read; `None` where the facet declares none.
    pub fn check_config(&self, config: &Value) -> Option<Result<(), ConfigError>> {
        self.check.map(|check| check(&self.plugin, config))
    }

    /// Whose facet it is.
    pub fn plugin(&self) -> &PluginId {
        &self.plugin
    }

    fn need(mut self, namespace: Namespace, service: &'static str, optional: bool) -> Self {
        self.needs.push(ServiceNeed {
            namespace,
            service,
            optional,
        });
        self
    }
}
