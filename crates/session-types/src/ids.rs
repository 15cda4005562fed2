//! Identifiers. All are opaque text; those that order in time are UUIDv7.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Environment variable that marks every process that a session started with the session's id. Whoever ends a
/// session finds by it what the session's own process has left.
pub const SESSION_VARIABLE: &str = "BEZEL_SESSION_ID";

/// How the names of a session's scratch directories begin, in the system's directory for such: this, the
/// session's id and a dash. Whoever deletes a session finds by it what is left there.
pub const SCRATCH_PREFIX: &str = "bezel-commands-";

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps an id that its owner made.
            pub fn new(id: impl Into<String>) -> Self {
                $name(id.into())
            }

            /// A new id, ordered by time.
            pub fn generate() -> Self {
                $name(uuid::Uuid::now_v7().simple().to_string())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

id! {
    /// A session: one tree of entries in one database.
    SessionId
}
id! {
    /// An entry of a session's tree.
    EntryId
}
id! {
    /// One run, compaction or navigation of a lane.
    OperationId
}
id! {
    /// One tool call as Bezel knows it: unique in the session, stable across replay, equal to the
    /// reserved id of its result entry. The provider's own call id is unique only within a step.
    InvocationId
}
id! {
    /// A caller's id for one command; the same id with the same input has one effect.
    CommandId
}
id! {
    /// A named movable tip of the tree. Every session has `main`.
    LaneName
}

impl LaneName {
    /// The lane that every session has.
    pub fn main() -> Self {
        LaneName::new("main")
    }
}
