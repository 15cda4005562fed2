//! The started binary, in a home of its own.

mod configuration;
mod home;
mod runs;
mod servers;
