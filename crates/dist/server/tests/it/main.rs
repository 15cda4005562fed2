//! The product's server, facets and all, with workers that are links of this process. Everything runs
//! over loopback and over a Unix socket.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod children;
mod launcher;
mod lifetime;
mod plugins;
mod reading;
mod records;
mod remote;
mod sessions;
mod taps;
mod workers;
mod world;

/// Runs one scenario over both ways to connect.
macro_rules! over_both {
    ($($(#[$attribute:meta])* async fn $name:ident($world:ident: World) $body:block)*) => {
        $(
            mod $name {
                use super::*;

                async fn scenario($world: World) $body

                #[tokio::test]
                async fn over_loopback() {
                    scenario(World::start(Via::Loopback).await).await;
                }

                #[tokio::test]
                async fn over_a_unix_socket() {
                    scenario(World::start(Via::Socket).await).await;
                }
            }
        )*
    };
}

pub(crate) use over_both;
