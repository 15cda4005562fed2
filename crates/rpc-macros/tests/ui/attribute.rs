use bezel_rpc_macros::service;

#[service("models")]
pub trait WithoutVersion {}

#[service("models", version = "one")]
pub trait WithoutNumbers {}

#[service("two words", version = "1.0")]
pub trait WithoutId {}

fn main() {}
