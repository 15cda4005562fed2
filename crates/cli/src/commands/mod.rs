//! One module for each command.

pub mod access;
pub mod agents;
mod asked;
pub mod attach;
pub mod config;
pub mod doctor;
pub mod models;
pub mod open;
mod opened;
mod permit;
pub mod rewind;
pub mod run;
pub mod serve;
pub mod server;
pub mod session;
pub mod tour;
