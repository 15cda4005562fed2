//! Each wall falls when it is breached, and only then; the golden file shows a new arrow.

use super::graph::{Crate, Graph};
use super::{WALLS, breaches, golden};

/// A crate in its folder, named for it, listing the given crates; external ones start with `+`.
fn node(folder: &str, listed: &[&str]) -> Crate {
    let name = match folder {
        "crates/cli" => "bezel".to_owned(),
        _ => match folder.strip_prefix("crates/hosts/") {
            Some(side) => format!("bezel-host-{side}"),
            None => folder
                .replacen("crates/", "bezel-", 1)
                .replacen("plugins/", "bezel-", 1)
                .replace('/', "-"),
        },
    };
    let mut node = Crate {
        name,
        folder: folder.to_owned(),
        ..Crate::default()
    };
    for target in listed {
        match target.strip_prefix('+') {
            Some(external) => node.external.insert(external.to_owned()),
            None => node.normal.insert(format!("bezel-{target}")),
        };
    }
    node
}

/// A small workspace in which every wall holds.
fn sound() -> Graph {
    let mut graph = Graph::default();
    for (folder, listed) in [
        ("xtask", &[][..]),
        ("crates/context", &["+tokio"]),
        ("crates/kernel", &["context"]),
        ("crates/rpc-macros", &["+syn"]),
        ("crates/rpc", &["context", "rpc-macros"]),
        ("crates/sockets", &["context", "rpc", "+tokio"]),
        ("crates/telemetry", &["context", "+opentelemetry_sdk"]),
        ("crates/plugin", &["context", "kernel", "rpc"]),
        ("crates/session-types", &["context"]),
        ("crates/presentation", &["+syntect"]),
        ("crates/store", &["context", "session-types", "+rusqlite"]),
        ("crates/harness", &["context", "session-types", "store"]),
        ("crates/api/session", &["plugin", "session-types"]),
        ("crates/api/server", &["plugin"]),
        ("crates/api/tui", &["plugin", "presentation", "+ratatui"]),
        (
            "crates/hosts/session",
            &["api-session", "kernel", "harness"],
        ),
        ("crates/hosts/server", &["api-server", "kernel", "store"]),
        ("crates/hosts/tui", &["api-tui", "kernel", "+crossterm"]),
        ("crates/hosts/headless", &["rpc", "chat-contract"]),
        ("plugins/chat/contract", &["rpc", "session-types"]),
        ("plugins/chat/session", &["chat-contract", "api-session"]),
        ("plugins/chat/tui", &["chat-contract", "api-tui"]),
        ("plugins/fleet/contract", &["rpc"]),
        ("plugins/fleet/server", &["fleet-contract", "api-server"]),
        ("plugins/providers/session", &["api-session", "+genai"]),
        (
            "crates/dist/session",
            &["host-session", "chat-session", "providers-session"],
        ),
        ("crates/dist/server", &["host-server", "fleet-server"]),
        ("crates/dist/tui", &["host-tui", "chat-tui"]),
        (
            "crates/cli",
            &[
                "dist-session",
                "dist-server",
                "dist-tui",
                "sockets",
                "+clap",
            ],
        ),
        ("crates/attach", &["dist-tui", "sockets"]),
        ("crates/sdk", &["api-session", "host-headless"]),
        ("crates/testkit", &["rpc", "sockets", "harness"]),
    ] {
        graph.add(node(folder, listed));
    }
    graph
}

/// Names of the walls that fall.
fn fallen(graph: &Graph) -> Vec<&'static str> {
    WALLS
        .iter()
        .filter(|wall| !(wall.check)(graph).is_empty())
        .map(|wall| wall.name)
        .collect()
}

/// Adds an arrow (external with `+`) to the crate in this folder.
fn with_arrow(folder: &str, target: &str) -> Graph {
    let mut graph = sound();
    let present = graph
        .crates()
        .find(|node| node.folder == folder)
        .cloned()
        .expect("the crate is part of the sound workspace");
    let added = node(folder, &[target]);
    graph.add(Crate {
        normal: present.normal.union(&added.normal).cloned().collect(),
        external: present.external.union(&added.external).cloned().collect(),
        ..present
    });
    graph
}

/// Gives the crate in this folder one source file.
fn with_source(folder: &str, code: &str) -> Graph {
    let mut graph = sound();
    let mut present = node(folder, &["context"]);
    present
        .sources
        .push((format!("{folder}/src/lib.rs"), code.to_owned()));
    graph.add(present);
    graph
}

#[track_caller]
fn breach(wall: &str, graph: &Graph) {
    let fallen = fallen(graph);
    assert!(fallen.contains(&wall), "`{wall}` held; fallen: {fallen:?}");
}

#[test]
fn a_sound_workspace_breaches_nothing() {
    assert_eq!(breaches(&sound()), Vec::<String>::new());
}

#[test]
fn a_breach_is_reported_with_the_wall_its_rule_and_the_crates() {
    let text = breaches(&with_arrow("plugins/chat/tui", "store")).join("\n");
    for expected in [
        "wall `facet-inside`: no facet lists harness, store or a host",
        "`bezel-chat-tui` reaches `bezel-store`: bezel-chat-tui -> bezel-store",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_crate_outside_the_architecture_or_with_another_name_breaches_places() {
    let mut graph = sound();
    graph.add(node("crates/common", &[]));
    breach("places", &graph);
    let mut graph = sound();
    graph.add(Crate {
        name: "bezel-chatter".into(),
        ..node("plugins/chat/session", &[])
    });
    breach("places", &graph);
}

#[test]
fn arrows_that_point_up_or_aside_breach_arrows() {
    for (folder, target) in [
        ("crates/context", "rpc"),
        ("crates/session-types", "rpc"),
        ("crates/presentation", "session-types"),
        ("crates/sockets", "session-types"),
        ("crates/plugin", "session-types"),
        ("crates/store", "harness"),
        ("crates/api/session", "api-server"),
        ("crates/api/server", "presentation"),
        ("crates/hosts/tui", "api-session"),
        ("crates/hosts/server", "chat-contract"),
        ("crates/hosts/session", "chat-contract"),
        ("crates/api/session", "chat-contract"),
        ("crates/dist/tui", "chat-session"),
        ("plugins/chat/contract", "fleet-contract"),
        ("plugins/chat/contract", "plugin"),
        ("plugins/chat/session", "presentation"),
        ("plugins/chat/session", "api-tui"),
        ("plugins/chat/session", "kernel"),
        ("crates/cli", "harness"),
        ("crates/cli", "chat-tui"),
        ("crates/attach", "dist-server"),
        ("crates/testkit", "attach"),
        ("crates/testkit", "sdk"),
        ("crates/attach", "sdk"),
        ("crates/sdk", "host-server"),
        ("crates/sdk", "sockets"),
    ] {
        let graph = with_arrow(folder, target);
        assert!(fallen(&graph).contains(&"arrows"), "{folder} -> {target}");
    }
}

#[test]
fn a_kernel_that_lists_more_than_the_context_breaches_kernel_alone() {
    breach("kernel-alone", &with_arrow("crates/kernel", "plugin"));
    breach(
        "kernel-alone",
        &with_arrow("crates/kernel", "session-types"),
    );
}

#[test]
fn an_rpc_that_lists_session_types_breaches_rpc_neutral() {
    breach("rpc-neutral", &with_arrow("crates/rpc", "session-types"));
}

#[test]
fn an_rpc_that_names_a_socket_breaches_rpc_sockets() {
    for code in [
        "use tokio::net::UnixStream;\n",
        "use tokio::{io, net::UnixStream};\n",
        "fn f() { std::net::TcpStream::connect(\"x\"); }\n",
        "use std::os::unix::net;\n",
    ] {
        breach("rpc-sockets", &with_source("crates/rpc", code));
    }
    for code in [
        "// tokio::net is for others\n",
        "use network::Map;\nuse tokio::{io, sync};\n",
        "#[cfg(test)]\nmod tests {\n    use tokio::net::UnixStream;\n}\n",
    ] {
        let fallen = fallen(&with_source("crates/rpc", code));
        assert!(!fallen.contains(&"rpc-sockets"), "{code}");
    }
}

#[test]
fn a_host_that_lists_sockets_breaches_sockets() {
    breach("sockets", &with_arrow("crates/hosts/server", "sockets"));
    breach("sockets", &with_arrow("plugins/chat/tui", "sockets"));
    breach("sockets", &with_arrow("crates/dist/tui", "sockets"));
}

#[test]
fn a_host_that_lists_telemetry_breaches_telemetry() {
    breach("telemetry", &with_arrow("crates/hosts/server", "telemetry"));
    breach("telemetry", &with_arrow("plugins/chat/tui", "telemetry"));
}

#[test]
fn a_host_that_reads_an_environment_variable_breaches_host_surroundings() {
    for code in [
        "fn f() { std::env::var(\"HOME\"); }\n",
        "use std::env;\nfn f() { env::var_os(\"HOME\"); }\n",
        "use tokio::net::UnixListener;\n",
    ] {
        breach(
            "host-surroundings",
            &with_source("crates/hosts/session", code),
        );
    }
}

#[test]
fn a_harness_that_reaches_plugin_or_rpc_breaches_harness_neutral() {
    breach("harness-neutral", &with_arrow("crates/harness", "plugin"));
    breach("harness-neutral", &with_arrow("crates/store", "rpc"));
}

#[test]
fn another_user_of_the_harness_breaches_harness_owner() {
    breach("harness-owner", &with_arrow("crates/hosts/tui", "harness"));
    breach(
        "harness-owner",
        &with_arrow("crates/api/session", "harness"),
    );
}

#[test]
fn another_user_of_the_store_breaches_store_owner() {
    breach("store-owner", &with_arrow("crates/hosts/session", "store"));
    breach("store-owner", &with_arrow("crates/api/server", "store"));
}

#[test]
fn a_facet_that_lists_harness_store_or_a_host_breaches_facet_inside() {
    for target in ["harness", "store", "host-session"] {
        breach("facet-inside", &with_arrow("plugins/chat/session", target));
    }
    // The long way round counts too.
    breach("facet-inside", &with_arrow("crates/plugin", "store"));
}

#[test]
fn a_facet_that_lists_a_facet_breaches_facet_facet() {
    breach(
        "facet-facet",
        &with_arrow("plugins/chat/session", "providers-session"),
    );
}

#[test]
fn a_server_that_links_session_code_breaches_server_session() {
    for (folder, target) in [
        ("plugins/fleet/server", "chat-contract"),
        ("crates/hosts/server", "chat-contract"),
        ("crates/dist/server", "chat-session"),
    ] {
        breach("server-session", &with_arrow(folder, target));
    }
}

#[test]
fn a_presentation_that_links_session_code_breaches_presentation_build() {
    for (folder, target) in [
        ("crates/attach", "dist-session"),
        ("crates/hosts/tui", "harness"),
        ("plugins/chat/tui", "api-session"),
        ("plugins/chat/contract", "store"),
        ("crates/presentation", "+genai"),
        ("crates/rpc", "+rusqlite"),
        ("crates/hosts/headless", "chat-session"),
    ] {
        let graph = with_arrow(folder, target);
        let fallen = fallen(&graph);
        assert!(
            fallen.contains(&"presentation-build"),
            "{folder} -> {target}"
        );
    }
}

#[test]
fn a_second_owner_of_a_heavy_dependency_breaches_one_owner() {
    for (folder, target) in [
        ("plugins/chat/session", "+genai"),
        ("crates/harness", "+rusqlite"),
        ("plugins/chat/contract", "+ratatui"),
        ("plugins/chat/tui", "+syntect"),
    ] {
        breach("one-owner", &with_arrow(folder, target));
    }
}

#[test]
fn a_shipped_crate_that_lists_testkit_breaches_test_only() {
    breach("test-only", &with_arrow("plugins/chat/session", "testkit"));
    breach("test-only", &with_arrow("xtask", "rpc"));
}

#[test]
fn a_crate_feature_breaches_features() {
    let mut graph = sound();
    let mut present = node("crates/rpc", &["context", "rpc-macros"]);
    present.features.insert("websocket".into());
    graph.add(present);
    breach("features", &graph);
}

#[test]
fn every_wall_has_a_name_of_its_own_and_a_test_above() {
    let tests = include_str!("tests.rs");
    for (index, wall) in WALLS.iter().enumerate() {
        assert!(WALLS[..index].iter().all(|other| other.name != wall.name));
        let used = format!("\"{}\"", wall.name);
        assert!(tests.contains(&used), "no test breaches {used}");
    }
}

#[test]
fn a_new_arrow_and_a_removed_crate_are_lines_of_the_difference() {
    let before = golden::render(&sound());
    assert_eq!(golden::difference(&before, &before), Vec::<String>::new());
    let after = golden::render(&with_arrow("plugins/chat/tui", "store"));
    assert_eq!(
        golden::difference(&before, &after),
        ["+ bezel-chat-tui -> bezel-store"]
    );
    let without = before.replace(
        "\nbezel-attach\n  -> bezel-dist-tui\n  -> bezel-sockets\n",
        "",
    );
    assert_eq!(
        golden::difference(&before, &without),
        [
            "- bezel-attach",
            "- bezel-attach -> bezel-dist-tui",
            "- bezel-attach -> bezel-sockets"
        ]
    );
}
