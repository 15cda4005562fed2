//! The services that one route of a connection leads to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use super::line::Line;
use super::proxy::Proxy;
use super::replicas::Replicas;
use crate::descriptor::{ServiceDescriptor, ServiceSummary, Version};
use crate::error::{ErrorCode, RpcError};
use crate::service::ServiceClient;
use crate::sync::lock;

/// The services of one peer. Cheap to clone; proxies stay valid when the connection comes and goes.
#[derive(Clone)]
pub struct Remote(Arc<Namespace>);

pub(crate) struct Namespace {
    inner: Mutex<Inner>,
}

struct Inner {
    reach: Reach,
    /// By id and the version that the consumer was built against.
    replicas: HashMap<(&'static str, Version), Weak<Replicas>>,
}

/// How a namespace's peer is reached now.
#[derive(Clone)]
pub(crate) enum Reach {
    Up {
        line: Arc<Line>,
        route: Option<u64>,
        services: Arc<HashMap<String, Version>>,
    },
    Down {
        code: ErrorCode,
        message: &'static str,
    },
}

impl Remote {
    pub(crate) fn new(namespace: Arc<Namespace>) -> Self {
        Remote(namespace)
    }

    /// A handle to the peer's service, at once, whether the peer can be reached or not.
    ///
    /// All handles to one service share one replica and one subscription, which begins when somebody
    /// first asks for state or events.
    pub fn use_service<C: ServiceClient>(&self) -> C {
        C::from_proxy(Proxy::new(self.0.replicas(C::descriptor())))
    }

    /// A handle to a service that the peer may lack: `None` unless it offers a fitting version now.
    pub fn try_use<C: ServiceClient>(&self) -> Option<C> {
        self.check::<C>().is_ok().then(|| self.use_service())
    }

    /// The way to a service of whatever version.
    pub(super) fn reach_unread(&self, id: &str) -> Result<(Arc<Line>, Option<u64>), RpcError> {
        match &lock(&self.0.inner).reach {
            Reach::Down { code, message } => Err(RpcError::new(*code, *message)),
            Reach::Up {
                line,
                route,
                services,
            } => match services.contains_key(id) {
                true => Ok((Arc::clone(line), *route)),
                false => Err(unknown_service(id)),
            },
        }
    }

    /// Why the peer's service cannot be used now, if so: not connected, unknown, or another version.
    pub fn check<C: ServiceClient>(&self) -> Result<(), RpcError> {
        self.0.reach(C::descriptor()).map(drop)
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Remote")
    }
}

impl Namespace {
    pub(crate) fn new(reach: Reach) -> Arc<Self> {
        Arc::new(Namespace {
            inner: Mutex::new(Inner {
                reach,
                replicas: HashMap::new(),
            }),
        })
    }

    fn replicas(self: &Arc<Self>, descriptor: &'static ServiceDescriptor) -> Arc<Replicas> {
        let key = (descriptor.id, descriptor.version);
        let mut inner = lock(&self.inner);
        if let Some(replicas) = inner.replicas.get(&key).and_then(Weak::upgrade) {
            return replicas;
        }
        let replicas = Replicas::new(Arc::clone(self), descriptor);
        inner.replicas.retain(|_, other| other.strong_count() > 0);
        inner.replicas.insert(key, Arc::downgrade(&replicas));
        replicas
    }

    /// The way to a service, or why there is none.
    pub(crate) fn reach(
        &self,
        service: &ServiceDescriptor,
    ) -> Result<(Arc<Line>, Option<u64>), RpcError> {
        let inner = lock(&self.inner);
        match &inner.reach {
            Reach::Down { code, message } => Err(RpcError::new(*code, *message)),
            Reach::Up {
                line,
                route,
                services,
            } => match services.get(service.id) {
                None => Err(unknown_service(service.id)),
                Some(provided) if !service.version.fits(*provided) => Err(RpcError::new(
                    ErrorCode::IncompatibleVersion,
                    format!(
                        "the peer provides {} {provided}, this side was built for {}; update the older side",
                        service.id, service.version
                    ),
                )),
                Some(_) => Ok((Arc::clone(line), *route)),
            },
        }
    }

    /// Changes how the peer is reached. The old way is then closed, and [`Namespace::refollow`] called.
    pub(crate) fn point(&self, reach: Reach) {
        lock(&self.inner).reach = reach;
    }

    /// Marks what came over the old way as stale, and follows over the new one.
    pub(crate) fn refollow(&self) {
        let live = lock(&self.inner).live();
        for replicas in live {
            replicas.refollow();
        }
    }

    /// Takes a new list of services without touching what is followed already.
    pub(crate) fn set_services(&self, summaries: &[ServiceSummary]) {
        let live = {
            let mut inner = lock(&self.inner);
            if let Reach::Up { services, .. } = &mut inner.reach {
                *services = Arc::new(by_id(summaries));
            }
            inner.live()
        };
        for replicas in live {
            replicas.follow();
        }
    }

    pub(crate) fn is_route(&self, route: u64) -> bool {
        matches!(&lock(&self.inner).reach, Reach::Up { route: Some(current), .. } if *current == route)
    }
}

impl Inner {
    fn live(&self) -> Vec<Arc<Replicas>> {
        self.replicas.values().filter_map(Weak::upgrade).collect()
    }
}

impl Reach {
    pub(crate) fn up(line: &Arc<Line>, route: Option<u64>, services: &[ServiceSummary]) -> Self {
        Reach::Up {
            line: Arc::clone(line),
            route,
            services: Arc::new(by_id(services)),
        }
    }
}

fn by_id(services: &[ServiceSummary]) -> HashMap<String, Version> {
    services
        .iter()
        .map(|service| (service.id.clone(), service.version))
        .collect()
}

fn unknown_service(id: &str) -> RpcError {
    RpcError::new(
        ErrorCode::UnknownService,
        format!("the peer provides no service {id}"),
    )
}
