//! The machinery from outside: one contract, every way to reach it.

mod bytes;
mod calls;
mod connection;
mod contract;
mod local;
mod provider;
mod raw;
mod raw_server;
mod replica;
mod routing;
mod stage;
mod state;
mod trace;
