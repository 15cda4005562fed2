//! One module for each command.

pub mod config;
pub mod doctor;
pub mod models;
pub mod open;
pub mod run;
pub mod server;
pub mod session;
pub mod tour;
