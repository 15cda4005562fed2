//! The consuming side of a connection: namespaces, proxies, replicas, calls in flight.

mod held;
mod line;
mod namespace;
mod proxy;
mod replicas;
mod unread;

pub use held::HeldReference;
pub use namespace::Remote;
pub use proxy::Proxy;
pub use unread::{Followed, Notice, UnreadError};

pub(crate) use line::{IdHasher, Line};
pub(crate) use namespace::{Namespace, Reach};
