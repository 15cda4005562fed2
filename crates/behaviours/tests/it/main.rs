//! What plugins may rely on, each as a test whose name begins with its number (`b07_…`), over the
//! product's server with workers that are links of this process; then hostile peers, and long use.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod allocations;
mod assembly;
mod calls;
mod contributions;
mod cycles;
mod floods;
mod hostile;
mod http;
mod identity;
mod probe;
mod raw;
mod routing;
mod state;
mod taps;
mod world;

/// Runs one scenario over both ways to connect.
macro_rules! over_both {
    ($($(#[$attribute:meta])* async fn $name:ident($world:ident: World) $body:block)*) => {
        $(
            mod $name {
                use super::*;

                async fn scenario($world: World) $body

                $(#[$attribute])*
                #[tokio::test]
                async fn over_loopback() {
                    scenario(World::start(Via::Loopback).await).await;
                }

                $(#[$attribute])*
                #[tokio::test]
                async fn over_a_unix_socket() {
                    scenario(World::start(Via::Socket).await).await;
                }
            }
        )*
    };
}

pub(crate) use over_both;

#[test]
fn every_behaviour_has_a_test_of_its_number() {
    let sources = [
        include_str!("assembly.rs"),
        include_str!("calls.rs"),
        include_str!("contributions.rs"),
        include_str!("identity.rs"),
        include_str!("routing.rs"),
        include_str!("state.rs"),
    ];
    for number in (1..=25).chain([37, 38]) {
        let name = format!("fn b{number:02}_");
        let found = sources
            .iter()
            .filter(|source| source.contains(&name))
            .count();
        assert_eq!(found, 1, "{name} stands in {found} modules");
    }
}
