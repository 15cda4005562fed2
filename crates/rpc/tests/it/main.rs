//! The machinery from outside: one contract, every way to reach it.

mod bytes;
mod calls;
mod connection;
mod contract;
mod crowd;
mod documents;
mod events;
mod holding;
mod hydration;
mod jobs;
mod local;
mod provider;
mod raw;
mod raw_server;
mod references;
mod replica;
mod routing;
mod simulation;
mod stage;
mod state;
mod strangers;
mod trace;
mod unread;
