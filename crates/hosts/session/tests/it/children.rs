//! Children that a server wants, and wants no more, of the process of their root.

use crate::tree_world::Hosts;

#[tokio::test]
async fn a_child_that_is_wanted_again_stays_whatever_is_left_of_its_last_host() {
    let (server, hosts, tree) = Hosts::new(vec![]);
    let root = hosts.host(tree, "root", None).await;
    for round in 1..=20 {
        server.want(&["child"], &[]);
        server.hears(round, "claim child").await;
        server.want(&[], &["child"]);
        server.hears(round, "released child").await;
    }
    // Another child comes and goes: what the first one's hosts have left to do is done by then.
    server.want(&["other"], &[]);
    server.hears(1, "claim other").await;
    server.want(&[], &["other"]);
    server.hears(1, "released other").await;
    let told = server.told.borrow().clone();
    let released = told.iter().filter(|told| *told == "released child");
    assert_eq!(released.count(), 20, "each host is told of once: {told:?}");
    assert!(root.stop().await.is_empty());
}
