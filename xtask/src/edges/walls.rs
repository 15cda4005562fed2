//! The walls: each a named rule over the graph, with the sentence of the architecture it holds.

use super::graph::{Crate, Graph};
use super::layer::{Layer, Side, feature};
use crate::source::Source;

/// A rule that the workspace's graph must keep.
pub(crate) struct Wall {
    pub(crate) name: &'static str,
    /// The sentence of the architecture that this wall holds.
    pub(crate) rule: &'static str,
    /// Every breach in the graph, in words; empty when the wall holds.
    pub(crate) check: fn(&Graph) -> Vec<String>,
}

/// Every wall. `ARCHITECTURE.md` names each under its invariants.
pub(crate) const WALLS: &[Wall] = &[
    Wall {
        name: "places",
        rule: "every crate lives in a folder of the architecture and is named for it",
        check: places,
    },
    Wall {
        name: "arrows",
        rule: "arrows point down, never up",
        check: arrows,
    },
    Wall {
        name: "kernel-alone",
        rule: "the kernel knows only lifecycle: of the workspace it lists the context alone",
        check: |graph| lists_only(graph, Layer::Kernel, &[Layer::Context]),
    },
    Wall {
        name: "rpc-neutral",
        rule: "rpc knows no session: of the workspace it lists the context and its macro alone",
        check: |graph| lists_only(graph, Layer::Rpc, &[Layer::Context, Layer::RpcMacros]),
    },
    Wall {
        name: "rpc-sockets",
        rule: "rpc opens no socket",
        check: |graph| source_names(graph, |layer| layer == Layer::Rpc, SOCKETS),
    },
    Wall {
        name: "sockets",
        rule: "only cli and attach list sockets",
        check: |graph| {
            listed_only_by(graph, Layer::Sockets, |layer| {
                matches!(layer, Layer::Cli | Layer::Attach | Layer::Testkit)
            })
        },
    },
    Wall {
        name: "telemetry",
        rule: "only cli and attach list telemetry: nobody else decides whether spans leave",
        check: |graph| {
            listed_only_by(graph, Layer::Telemetry, |layer| {
                matches!(layer, Layer::Cli | Layer::Attach)
            })
        },
    },
    Wall {
        name: "host-surroundings",
        rule: "hosts receive connect or listen and never read an address, an environment variable \
               or a secret",
        check: |graph| source_names(graph, |layer| matches!(layer, Layer::Host(_)), SURROUNDINGS),
    },
    Wall {
        name: "harness-neutral",
        rule: "harness knows no plugin and no RPC",
        check: harness_neutral,
    },
    Wall {
        name: "harness-owner",
        rule: "the harness is driven by the session host alone",
        check: |graph| {
            listed_only_by(graph, Layer::Harness, |layer| {
                matches!(layer, Layer::Host(Side::Session) | Layer::Testkit)
            })
        },
    },
    Wall {
        name: "store-owner",
        rule: "a session's database is written by the harness and read by the server host",
        check: |graph| {
            listed_only_by(graph, Layer::Store, |layer| {
                matches!(
                    layer,
                    Layer::Harness | Layer::Host(Side::Server) | Layer::Testkit
                )
            })
        },
    },
    Wall {
        name: "facet-inside",
        rule: "no facet lists harness, store or a host",
        check: facet_inside,
    },
    Wall {
        name: "facet-facet",
        rule: "no facet lists another facet",
        check: facet_facet,
    },
    Wall {
        name: "server-session",
        rule: "the server links no session facet or session contract",
        check: server_session,
    },
    Wall {
        name: "presentation-build",
        rule: "a presentation build links no session code",
        check: presentation_build,
    },
    Wall {
        name: "one-owner",
        rule: "a heavy dependency belongs to one place, so that nothing else builds it",
        check: one_owner,
    },
    Wall {
        name: "test-only",
        rule: "nothing that ships lists testkit, and xtask lists nothing of the workspace",
        check: test_only,
    },
    Wall {
        name: "features",
        rule: "no crate features inside the workspace",
        check: features,
    },
];

/// What rpc must not name: the standard library's and tokio's sockets.
const SOCKETS: &[&str] = &["tokio::net", "std::net", "unix::net"];

/// What a host must not name: where to connect, and what the process was started with. Pipes have no
/// address: the terminal host reads its terminal through one.
const SURROUNDINGS: &[&str] = &[
    "tokio::net::TcpListener",
    "tokio::net::TcpStream",
    "tokio::net::UdpSocket",
    "tokio::net::UnixDatagram",
    "tokio::net::UnixListener",
    "tokio::net::UnixStream",
    "tokio::net::lookup_host",
    "std::net",
    "unix::net",
    "env::var",
    "env::var_os",
    "env::vars",
    "env::vars_os",
];

/// Whether a crate is the place for a dependency.
type Owns = fn(&Crate) -> bool;

/// External crates that only these places may list.
const OWNERS: &[(&str, Owns)] = &[
    ("genai", |node| node.folder == "plugins/providers/session"),
    ("tree-sitter", |node| {
        node.folder == "plugins/permissions/session"
    }),
    ("tree-sitter-bash", |node| {
        node.folder == "plugins/permissions/session"
    }),
    ("rusqlite", |node| {
        matches!(node.layer(), Layer::Store | Layer::Host(Side::Server))
    }),
    ("ratatui", is_terminal),
    ("crossterm", is_terminal),
    ("syntect", |node| node.layer() == Layer::Presentation),
    ("pulldown-cmark", |node| node.layer() == Layer::Presentation),
    ("opentelemetry_sdk", |node| node.layer() == Layer::Telemetry),
    ("clap", |node| {
        matches!(node.layer(), Layer::Cli | Layer::Attach | Layer::Testkit)
    }),
];

/// Code that draws on a terminal, and the binaries that hand it one.
fn is_terminal(node: &Crate) -> bool {
    matches!(
        node.layer(),
        Layer::Api(Side::Tui)
            | Layer::Host(Side::Tui)
            | Layer::Facet(Side::Tui)
            | Layer::Dist(Side::Tui)
            | Layer::Testkit
            | Layer::Cli
            | Layer::Attach
    )
}

fn places(graph: &Graph) -> Vec<String> {
    graph
        .crates()
        .filter_map(|node| {
            if node.layer() == Layer::Unknown {
                return Some(format!(
                    "`{}` is in `{}`, which is no folder of the architecture",
                    node.name, node.folder
                ));
            }
            let expected = expected_name(&node.folder);
            (node.name != expected).then(|| {
                format!(
                    "`{}` in `{}` is not called `{expected}`",
                    node.name, node.folder
                )
            })
        })
        .collect()
}

/// The name of the crate in this folder, relative to the root.
fn expected_name(folder: &str) -> String {
    let parts: Vec<&str> = folder.split('/').collect();
    match parts.as_slice() {
        ["xtask"] => "xtask".to_owned(),
        ["crates", "cli"] => "bezel".to_owned(),
        ["crates", "hosts", side] => format!("bezel-host-{side}"),
        ["crates" | "plugins", rest @ ..] => format!("bezel-{}", rest.join("-")),
        other => other.join("-"),
    }
}

fn arrows(graph: &Graph) -> Vec<String> {
    pairs(graph)
        .filter(|(from, to)| !may_list(from, to))
        .map(|(from, to)| {
            format!(
                "`{}` ({:?}) may not list `{}` ({:?})",
                from.name,
                from.layer(),
                to.name,
                to.layer()
            )
        })
        .collect()
}

/// The contract of the records that the server keeps: a session host is its client, and speaks of sessions in
/// its words.
const RECORDS: &str = "bezel-sessions-contract";

/// The contract of what a session's rewind does, which `cx.session` asks of any session of its process.
const REWIND: &str = "bezel-rewind-contract";

/// The table of arrows: whether a crate of the one layer may list a crate of the other.
fn may_list(from: &Crate, to: &Crate) -> bool {
    use Layer::{
        Api, Attach, Cli, Context, Contract, Dist, Facet, Harness, Host, Kernel, Plugin,
        Presentation, Rpc, RpcMacros, Sdk, SessionTypes, Sockets, Store, Telemetry, Testkit,
        Unknown, Xtask,
    };
    let target = to.layer();
    match from.layer() {
        Context | RpcMacros | Xtask => false,
        Kernel | SessionTypes | Telemetry => target == Context,
        // Text in, styled text out: no word of the product.
        Presentation => false,
        Rpc => matches!(target, Context | RpcMacros),
        Sockets => matches!(target, Context | Rpc),
        Plugin => matches!(target, Context | Kernel | Rpc),
        Store => matches!(target, Context | SessionTypes),
        Harness => matches!(target, Context | SessionTypes | Store),
        Contract => matches!(target, Context | Rpc | SessionTypes),
        Api(side) => match target {
            Context | Rpc | Plugin | SessionTypes => true,
            Presentation => matches!(side, Side::Tui | Side::Web),
            Contract => side == Side::Session && [RECORDS, REWIND].contains(&to.name.as_str()),
            _ => false,
        },
        Host(side) => match target {
            Context | Rpc | Plugin | Kernel | SessionTypes => true,
            Api(api) => api == side,
            Harness => side == Side::Session,
            Store => side == Side::Server,
            Presentation => side.is_presentation(),
            // Those without facets are presentations that use contracts themselves.
            Contract => match side {
                Side::Headless | Side::Http => true,
                Side::Session => to.name == RECORDS,
                _ => false,
            },
            _ => false,
        },
        Dist(side) => match target {
            Context | Rpc | Plugin | Contract => true,
            Host(other) | Api(other) | Facet(other) => other == side,
            _ => false,
        },
        Facet(side) => match target {
            Context | Rpc | Plugin | SessionTypes | Contract => true,
            Api(api) => api == side,
            Presentation => side.is_presentation(),
            _ => false,
        },
        Cli => matches!(
            target,
            Context
                | Rpc
                | Plugin
                | SessionTypes
                | Contract
                | Sockets
                | Telemetry
                | Dist(_)
                | Host(_)
        ),
        Attach => matches!(
            target,
            Context | Rpc | Plugin | Sockets | Telemetry | Dist(Side::Tui) | Host(Side::Tui)
        ),
        // The deployment is the command's and not written twice; it hands facets to session hosts alone.
        Sdk => matches!(
            target,
            Context
                | Rpc
                | Plugin
                | SessionTypes
                | Contract
                | Cli
                | Api(Side::Session)
                | Host(Side::Headless)
        ),
        Testkit => !matches!(target, Cli | Attach | Sdk | Dist(_) | Facet(_) | Telemetry),
        Unknown => true,
    }
}

/// Every arrow between two crates of the workspace.
fn pairs(graph: &Graph) -> impl Iterator<Item = (&Crate, &Crate)> {
    graph.crates().flat_map(|from| {
        from.normal
            .iter()
            .filter_map(|name| graph.find(name))
            .map(move |to| (from, to))
    })
}

fn listing(from: &Crate, to: &Crate) -> String {
    format!("`{}` lists `{}`", from.name, to.name)
}

/// A crate of `layer` lists nothing of the workspace but crates of the `allowed` layers.
fn lists_only(graph: &Graph, layer: Layer, allowed: &[Layer]) -> Vec<String> {
    pairs(graph)
        .filter(|(from, to)| from.layer() == layer && !allowed.contains(&to.layer()))
        .map(|(from, to)| listing(from, to))
        .collect()
}

/// Crates of `layer` are listed by crates of the allowed layers alone.
fn listed_only_by(graph: &Graph, layer: Layer, allowed: fn(Layer) -> bool) -> Vec<String> {
    pairs(graph)
        .filter(|(from, to)| to.layer() == layer && !allowed(from.layer()))
        .map(|(from, to)| listing(from, to))
        .collect()
}

/// The code of these layers, tests apart, names none of these paths.
fn source_names(graph: &Graph, layers: fn(Layer) -> bool, paths: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for node in graph.crates().filter(|node| layers(node.layer())) {
        for (file, text) in &node.sources {
            if crate::tidy::is_test_file(file) {
                continue;
            }
            for (line, code) in Source::new(text).code_lines() {
                if let Some(path) = paths.iter().find(|path| names_path(code, path)) {
                    found.push(format!("{file}:{line} names `{path}`"));
                }
            }
        }
    }
    found
}

/// Whether a code line names this path itself, or imports it out of a group: `use tokio::{net, …}`.
fn names_path(code: &str, path: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    let whole = code
        .match_indices(path)
        .any(|(at, _)| ends(&code[at + path.len()..]));
    let grouped = || {
        let (parent, name) = path.rsplit_once("::")?;
        let (_, group) = code.split_once(&format!("{parent}::{{"))?;
        group
            .split([',', '{', '}'])
            .map(str::trim)
            .find(|member| member.split("::").next() == Some(name))
    };
    whole || grouped().is_some()
}

fn harness_neutral(graph: &Graph) -> Vec<String> {
    reaches(
        graph,
        |layer| layer == Layer::Harness,
        |_, to| {
            matches!(
                to,
                Layer::Plugin | Layer::Rpc | Layer::RpcMacros | Layer::Api(_) | Layer::Kernel
            )
        },
    )
}

fn facet_inside(graph: &Graph) -> Vec<String> {
    reaches(
        graph,
        |layer| matches!(layer, Layer::Facet(_)),
        |_, to| matches!(to, Layer::Harness | Layer::Store | Layer::Host(_)),
    )
}

fn facet_facet(graph: &Graph) -> Vec<String> {
    pairs(graph)
        .filter(|(from, to)| {
            matches!(from.layer(), Layer::Facet(_)) && matches!(to.layer(), Layer::Facet(_))
        })
        .map(|(from, to)| listing(from, to))
        .collect()
}

/// Nothing of the crates chosen by `from` reaches, over any number of arrows, what `banned` names.
fn reaches(
    graph: &Graph,
    from: fn(Layer) -> bool,
    banned: fn(&Crate, Layer) -> bool,
) -> Vec<String> {
    let mut found = Vec::new();
    for root in graph.crates().filter(|node| from(node.layer())) {
        for (name, path) in graph.tree(&root.name) {
            let hit = graph
                .find(&name)
                .is_some_and(|node| banned(node, node.layer()));
            if hit {
                found.push(format!(
                    "`{}` reaches `{name}`: {}",
                    root.name,
                    path.join(" -> ")
                ));
            }
        }
    }
    found
}

/// A contract belongs to the server when its plugin has a server facet; every other contract is
/// spoken between a session and its presentations, past a server that routes without understanding.
fn server_session(graph: &Graph) -> Vec<String> {
    let serves = |node: &Crate| {
        graph.crates().any(|other| {
            other.layer() == Layer::Facet(Side::Server)
                && feature(&other.folder) == feature(&node.folder)
        })
    };
    let mut found = Vec::new();
    for root in graph.crates().filter(|node| {
        matches!(
            node.layer(),
            Layer::Host(Side::Server) | Layer::Dist(Side::Server) | Layer::Facet(Side::Server)
        )
    }) {
        for (name, path) in graph.tree(&root.name) {
            let Some(node) = graph.find(&name) else {
                continue;
            };
            let banned = match node.layer() {
                Layer::Facet(Side::Session) => "a session facet",
                Layer::Contract if !serves(node) => "a session contract",
                _ => continue,
            };
            found.push(format!(
                "`{}` links {banned}: {}",
                root.name,
                path.join(" -> ")
            ));
        }
    }
    found
}

/// External crates that only session code needs.
const SESSION_ONLY: &[&str] = &["genai", "rusqlite"];

fn presentation_build(graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    for root in graph.crates().filter(|node| match node.layer() {
        Layer::Attach => true,
        Layer::Host(side) | Layer::Dist(side) | Layer::Facet(side) => side.is_presentation(),
        _ => false,
    }) {
        for (name, path) in graph.tree(&root.name) {
            let session = match graph.find(&name).map(Crate::layer) {
                Some(Layer::Harness | Layer::Store) => true,
                Some(
                    Layer::Api(side) | Layer::Host(side) | Layer::Dist(side) | Layer::Facet(side),
                ) => side == Side::Session,
                Some(_) => false,
                None => SESSION_ONLY.contains(&name.as_str()),
            };
            if session {
                found.push(format!(
                    "`{}` links `{name}`: {}",
                    root.name,
                    path.join(" -> ")
                ));
            }
        }
    }
    found
}

fn one_owner(graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    for node in graph.crates() {
        for (external, owns) in OWNERS {
            if node.external.contains(*external) && !owns(node) {
                found.push(format!("`{}` lists `{external}`", node.name));
            }
        }
    }
    found
}

fn test_only(graph: &Graph) -> Vec<String> {
    pairs(graph)
        .filter(|(from, to)| {
            from.layer() == Layer::Xtask || matches!(to.layer(), Layer::Testkit | Layer::Xtask)
        })
        .map(|(from, to)| listing(from, to))
        .collect()
}

fn features(graph: &Graph) -> Vec<String> {
    graph
        .crates()
        .flat_map(|node| {
            node.features
                .iter()
                .map(|name| format!("`{}` has the feature `{name}`", node.name))
        })
        .collect()
}
