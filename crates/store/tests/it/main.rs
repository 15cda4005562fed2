//! The store from outside: what is promised of a session database.

#![expect(clippy::unwrap_used, reason = "what a test cannot do, fails it")]

mod commits;
mod damage;
mod formats;
mod ownership;
mod packages;
mod paths;
mod reading;
mod refusals;
mod support;
