//! The providing side of a connection: who may call what, the calls that run, the subscriptions served.

mod calls;
mod client;
mod publish;
mod references;
mod serve;
mod served;
mod subscriptions;
mod table;

pub use table::{ProvideError, ServiceTable};

pub(crate) use client::{AttachPayload, server_principal};
pub(crate) use serve::{Provider, Told};
