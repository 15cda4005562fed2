//! Lifecycle mechanics: scopes, ordered phases, deadlines, rollback, reverse disposal.
//!
//! The kernel starts an ordered list of [`Unit`]s. It knows what order means, what a failure undoes and
//! how long a step may take; it has no word for what a unit is for.
//!
//! - Setup runs in the given order; activation runs providers before their users, ties in the given
//!   order; disposal runs in reverse order of activation.
//! - A *required* unit that fails disposes everything and fails the start. An *optional* one is rolled
//!   back alone, together with the units that need it.
//! - One failing disposer stops no other: all failures are reported together.

mod lifecycle;
mod scope;
mod step;

pub use lifecycle::{Deadlines, Running, StartError, Unavailable, Unit, start};
pub use scope::Scope;
pub use step::{BoxError, Failure, Phase};
