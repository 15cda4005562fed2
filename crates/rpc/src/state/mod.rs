//! Replicated state: one owner, the latest value, patches, read-only handles.

mod cell;
mod core;
mod handle;
mod held;
mod history;
mod patch;
mod path;
mod replication;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use cell::StateCell;
pub use handle::{State, StateWatcher, Subscription};
pub use patch::PatchError;
pub use path::{Path, Segment};

pub(crate) use self::core::Core;
pub(crate) use handle::{Kept, Unlinked};
pub(crate) use patch::Operation;
pub(crate) use replication::{Change, Feed, Replica, Source};

/// What a state value must be. `Default` is what a replica shows until it is hydrated.
pub trait StateValue:
    Serialize + DeserializeOwned + Default + JsonSchema + Send + Sync + 'static
{
}

impl<T: Serialize + DeserializeOwned + Default + JsonSchema + Send + Sync + 'static> StateValue
    for T
{
}
