//! Who needs whom at run time: no session needs itself by way of what it is made of.
//!
//! Sessions are data of the server; what touches a directory is the runtime of a worker. A plugin that is handed
//! sessions as a whole closes a circle where the two are one: session data → the map of locations → a location's
//! plugins → their host → session data. The crates cannot show that, because services find each other at run time:
//! so the facets' own declarations are read here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::golden;

type Arrows = BTreeMap<String, BTreeSet<String>>;

fn arrows<'a>(listed: impl IntoIterator<Item = (&'a str, &'a str)>) -> Arrows {
    let mut arrows = Arrows::new();
    for (from, to) in listed {
        arrows.entry(from.into()).or_default().insert(to.into());
    }
    arrows
}

/// A way that leads back to where it begins, if there is one.
fn cycle(arrows: &Arrows) -> Option<Vec<&str>> {
    fn walk<'a>(
        arrows: &'a Arrows,
        at: &'a str,
        way: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> bool {
        if let Some(first) = way.iter().position(|passed| *passed == at) {
            way.drain(..first);
            return true;
        }
        if done.contains(at) {
            return false;
        }
        way.push(at);
        for to in arrows.get(at).into_iter().flatten() {
            if walk(arrows, to, way, done) {
                return true;
            }
        }
        way.pop();
        done.insert(at);
        false
    }
    let (mut way, mut done) = (Vec::new(), BTreeSet::new());
    arrows
        .keys()
        .any(|from| walk(arrows, from, &mut way, &mut done))
        .then_some(way)
}

/// What can be reached from `from`.
fn reach<'a>(arrows: &'a Arrows, from: &'a str) -> BTreeSet<&'a str> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(at) = open.pop() {
        for to in arrows.get(at).into_iter().flatten() {
            if found.insert(to.as_str()) {
                open.push(to);
            }
        }
    }
    found
}

/// What a source declares with `.word::<Service>(…)`: the service, and what stands between the parentheses.
fn declared<'a>(source: &'a str, word: &str) -> Vec<(&'a str, &'a str)> {
    let opening = format!(".{word}::<");
    let pieces = source.split(opening.as_str()).skip(1);
    let declared = pieces.filter_map(|piece| {
        let (service, rest) = piece.split_once('>')?;
        let (arguments, _) = rest.strip_prefix('(')?.split_once(')')?;
        Some((service.rsplit("::").next().unwrap_or(service), arguments))
    });
    declared.collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

fn sources(folder: &Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&std::fs::read_to_string(&path).expect("a source is text"));
        }
    }
}

/// The facets' declarations as arrows from a facet to those that provide what it needs: `side/feature`.
fn services() -> Arrows {
    let mut facets: Vec<(String, &str, String)> = Vec::new();
    for feature in std::fs::read_dir(root().join("plugins")).unwrap().flatten() {
        for side in ["session", "server", "tui"] {
            let folder = feature.path().join(side).join("src");
            let mut source = String::new();
            sources(&folder, &mut source);
            if !source.is_empty() {
                let name = format!("{side}/{}", feature.file_name().to_string_lossy());
                facets.push((name, side, source));
            }
        }
    }
    let mut providers: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for (name, side, source) in &facets {
        for (service, _) in declared(source, "provides") {
            providers.insert((side, service), name);
        }
    }
    let mut arrows = Arrows::new();
    for (name, side, source) in &facets {
        let needed = ["requires", "optional"].map(|word| declared(source, word));
        for (service, namespace) in needed.into_iter().flatten() {
            let at = match namespace.rsplit("::").next() {
                Some("Server") => "server",
                Some("Session") => "session",
                _ => side,
            };
            if let Some(provider) = providers.get(&(at, service)) {
                let needs = arrows.entry(name.clone()).or_default();
                needs.insert((*provider).to_owned());
            }
        }
    }
    arrows
}

#[test]
fn the_arrangement_in_which_session_data_knows_locations_is_found_to_be_a_circle() {
    let red = arrows([
        ("session data", "location map"),
        ("location map", "location runtime"),
        ("location runtime", "plugins"),
        ("plugins", "plugin host"),
        ("plugin host", "session data"),
        ("plugin host", "tools"),
    ]);
    assert_eq!(
        cycle(&red).unwrap(),
        [
            "location map",
            "location runtime",
            "plugins",
            "plugin host",
            "session data"
        ]
    );
    let itself = arrows([("a", "b"), ("b", "b")]);
    assert_eq!(cycle(&itself).unwrap(), ["b"]);
}

#[test]
fn the_arrangements_that_keep_data_and_runtime_apart_are_not() {
    let supervisor = [
        ("supervisor", "session data"),
        ("supervisor", "location map"),
        ("supervisor", "plugin host"),
        ("location map", "plugins"),
    ];
    let runtime = [
        ("server routes", "session data"),
        ("server routes", "location map"),
        ("location map", "session runtime"),
        ("session runtime", "session data"),
        ("plugins", "plugin host"),
        ("plugin host", "session data"),
        ("plugin host", "session runtime"),
    ];
    let ambient = [
        ("plugins", "plugin host"),
        ("plugin host", "session data"),
        ("session data", "ambient location"),
    ];
    let embedded = [
        ("embedding program", "plugin"),
        ("plugin", "plugin host"),
        ("plugin host", "session runtime"),
        ("session runtime", "session data"),
    ];
    for green in [&supervisor[..], &runtime, &ambient, &embedded] {
        assert_eq!(cycle(&arrows(green.iter().copied())), None);
    }
}

#[test]
fn o01_the_service_graph_is_acyclic_and_no_global_service_references_a_location() {
    let services = services();
    // The reading itself: what is known to be there is found.
    assert!(
        services["session/models"].contains("server/sessions"),
        "{services:?}"
    );
    assert!(
        services["tui/sessions"].contains("session/sessions"),
        "{services:?}"
    );
    assert_eq!(cycle(&services), None);
    for global in services.keys().filter(|name| name.starts_with("server/")) {
        let reached = reach(&services, global);
        let local = reached.iter().find(|name| name.starts_with("session/"));
        assert_eq!(local, None, "{global} needs a service of a session");
    }

    let text = std::fs::read_to_string(root().join(super::GOLDEN)).unwrap();
    let lines = golden::arrows(&text);
    let crates = arrows(lines.iter().filter_map(|line| line.split_once(" -> ")));
    for global in [
        "bezel-host-server",
        "bezel-dist-server",
        "bezel-sessions-server",
        "bezel-api-server",
    ] {
        assert!(crates.contains_key(global), "{global}");
        let reached = reach(&crates, global);
        for local in [
            "bezel-host-session",
            "bezel-api-session",
            "bezel-harness",
            "bezel-dist-session",
        ] {
            assert!(!reached.contains(local), "{global} links {local}");
        }
    }
}
