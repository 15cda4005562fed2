use bezel_rpc_macros::service;

#[service("models", version = "1.0")]
pub trait Generic<T> {}

#[service("models", version = "1.0")]
pub trait Super: Clone {}

fn main() {}
