//! What a handle stands for: the object itself, a remote peer's service, or nothing yet.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use super::Object;
use crate::consumer::Proxy;
use crate::events::{EventValue, Events, UnlinkedEvents};
use crate::state::Unlinked;
use crate::state::{State, StateValue};
use crate::sync::lock;

/// The target of a handle; `O` is the contract's object form.
pub struct Binding<O: ?Sized>(Kind<O>);

enum Kind<O: ?Sized> {
    Local(Object<O>),
    Remote(Proxy),
    Late(Arc<Late<O>>),
}

/// What a call on a handle goes to.
pub enum Target<'b, O: ?Sized> {
    /// The object in this process.
    Local(&'b Arc<O>),
    /// A peer's service.
    Remote(&'b Proxy),
    /// Nothing yet.
    Unbound,
}

struct Late<O: ?Sized> {
    bound: OnceLock<Binding<O>>,
    waiting: Mutex<Waiting<O>>,
}

type Linking<O> = dyn FnOnce(&Binding<O>) + Send;

struct Waiting<O: ?Sized> {
    members: HashMap<(&'static str, TypeId), Box<dyn Any + Send + Sync>>,
    links: Vec<Box<Linking<O>>>,
}

/// Binds a late handle, once.
pub struct LateBinding<C>(Box<dyn FnOnce(&C) + Send>);

impl<C> LateBinding<C> {
    /// Wraps what the macro emits.
    pub fn new(bind: impl FnOnce(&C) + Send + 'static) -> Self {
        LateBinding(Box::new(bind))
    }

    /// Makes the late handle, and every clone of it, stand for what `client` stands for.
    pub fn bind(self, client: &C) {
        (self.0)(client);
    }
}

impl<C> std::fmt::Debug for LateBinding<C> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("LateBinding")
    }
}

impl<O: ?Sized> Clone for Binding<O> {
    fn clone(&self) -> Self {
        Binding(match &self.0 {
            Kind::Local(object) => Kind::Local(Arc::clone(object)),
            Kind::Remote(proxy) => Kind::Remote(proxy.clone()),
            Kind::Late(late) => Kind::Late(Arc::clone(late)),
        })
    }
}

impl<O: ?Sized + Send + Sync + 'static> Binding<O> {
    /// To the object itself.
    pub fn local(object: Arc<O>) -> Self {
        Binding(Kind::Local(object))
    }

    /// To a peer's service.
    pub fn remote(proxy: Proxy) -> Self {
        Binding(Kind::Remote(proxy))
    }

    /// To nothing yet, and the function that binds it.
    pub fn late() -> (Self, impl FnOnce(&Binding<O>) + Send + 'static) {
        let late = Arc::new(Late {
            bound: OnceLock::new(),
            waiting: Mutex::new(Waiting {
                members: HashMap::new(),
                links: Vec::new(),
            }),
        });
        let bound = Arc::clone(&late);
        let bind = move |binding: &Binding<O>| {
            let links = {
                let mut waiting = lock(&bound.waiting);
                if bound.bound.set(binding.clone()).is_err() {
                    return;
                }
                waiting.members.clear();
                std::mem::take(&mut waiting.links)
            };
            for link in links {
                link(binding);
            }
        };
        (Binding(Kind::Late(late)), bind)
    }

    /// What a call goes to now.
    #[inline]
    pub fn target(&self) -> Target<'_, O> {
        match &self.0 {
            Kind::Local(object) => Target::Local(object),
            Kind::Remote(proxy) => Target::Remote(proxy),
            Kind::Late(late) => late.bound.get().map_or(Target::Unbound, Binding::target),
        }
    }

    /// A state member.
    pub fn state<T: StateValue>(
        &self,
        member: &'static str,
        local: fn(&O) -> State<T>,
    ) -> State<T> {
        match &self.0 {
            Kind::Local(object) => local(object),
            Kind::Remote(proxy) => proxy.state(member),
            Kind::Late(late) => {
                if let Some(binding) = late.bound.get() {
                    return binding.state(member, local);
                }
                let mut waiting = lock(&late.waiting);
                if let Some(binding) = late.bound.get() {
                    return binding.state(member, local);
                }
                let Waiting { members, links } = &mut *waiting;
                let unlinked = members
                    .entry((member, TypeId::of::<State<T>>()))
                    .or_insert_with(|| {
                        let unlinked = Arc::new(Unlinked::<T>::new());
                        let link = Arc::clone(&unlinked);
                        links.push(Box::new(move |binding| {
                            link.link(&binding.state(member, local))
                        }));
                        Box::new(unlinked)
                    });
                unlinked
                    .downcast_ref::<Arc<Unlinked<T>>>()
                    .expect("keyed by the type")
                    .state()
            }
        }
    }

    /// An events member.
    pub fn events<T: EventValue>(
        &self,
        member: &'static str,
        local: fn(&O) -> Events<T>,
    ) -> Events<T> {
        match &self.0 {
            Kind::Local(object) => local(object),
            Kind::Remote(proxy) => proxy.events(member),
            Kind::Late(late) => {
                if let Some(binding) = late.bound.get() {
                    return binding.events(member, local);
                }
                let mut waiting = lock(&late.waiting);
                if let Some(binding) = late.bound.get() {
                    return binding.events(member, local);
                }
                let Waiting { members, links } = &mut *waiting;
                let unlinked = members
                    .entry((member, TypeId::of::<Events<T>>()))
                    .or_insert_with(|| {
                        let unlinked = Arc::new(UnlinkedEvents::<T>::new());
                        let link = Arc::clone(&unlinked);
                        links.push(Box::new(move |binding| {
                            link.link(&binding.events(member, local))
                        }));
                        Box::new(unlinked)
                    });
                unlinked
                    .downcast_ref::<Arc<UnlinkedEvents<T>>>()
                    .expect("keyed by the type")
                    .events()
            }
        }
    }
}
