//! The product's own connections, with everything on: three processes, Unix sockets, credentials, scopes,
//! contracts. One thread a process, as the product's processes are.

mod attacher;
mod caller;
mod client;
mod contract;
mod fleet;
mod meter;
mod server;
mod worker;

pub use attacher::attacher;
pub use caller::caller;
pub use contract::{Adder, AdderClient};
pub use fleet::replicas;
pub use server::server;
pub use worker::{CELLS, worker};
