//! The steps against real directories and a real git.

mod attribution;
mod crashes;
mod properties;
mod stages;
mod support;
