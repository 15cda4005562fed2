//! 1 to 5, 18 and 37: how a host is put together, and how it comes apart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_plugin::{
    AssembleOptions, Assembled, AssemblyError, Deadlines, Facet, FacetScope, FacetStatus, Manifest,
    ManifestEntry, Namespace, assemble,
};
use bezel_rpc::{Context, ErrorCode, LocalService, ServiceTable, service};

use crate::over_both;
use crate::world::{Via, World, cx};

type Log = Arc<Mutex<Vec<String>>>;

#[service("counter", version = "1.0")]
trait Counter {
    async fn count(&self, cx: &Context) -> u64;
}

struct One;

impl Counter for One {
    async fn count(&self, _cx: &Context) -> u64 {
        1
    }
}

struct Vault;

impl LocalService for Vault {
    const ID: &'static str = "vault";
}

#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    None,
    Setup,
    Activation,
    Disposal,
    HangingActivation,
    HangingDisposal,
}

/// A facet that notes each step of its life.
fn facet(log: &Log, name: &'static str, trouble: Trouble) -> Facet<FacetScope> {
    let log = Arc::clone(log);
    Facet::new(name, move |cx: FacetScope| {
        let (log, then, last) = (Arc::clone(&log), Arc::clone(&log), Arc::clone(&log));
        async move {
            log.lock().unwrap().push(format!("register {name}"));
            if trouble == Trouble::Setup {
                return Err("broken setup".into());
            }
            cx.on_activate(move || async move {
                then.lock().unwrap().push(format!("activate {name}"));
                match trouble {
                    Trouble::Activation => Err("broken activation".into()),
                    Trouble::HangingActivation => std::future::pending().await,
                    _ => Ok(()),
                }
            });
            cx.on_dispose(move || async move {
                last.lock().unwrap().push(format!("dispose {name}"));
                match trouble {
                    Trouble::Disposal => Err("broken disposal".into()),
                    Trouble::HangingDisposal => std::future::pending().await,
                    _ => Ok(()),
                }
            });
            Ok(())
        }
    })
}

fn manifest(names: &[&str]) -> Manifest {
    let entry = |name: &&str| ManifestEntry::required(name, "1.0.0");
    Manifest {
        plugins: names.iter().map(entry).collect(),
    }
}

async fn start(names: &[&str], facets: Vec<Facet<FacetScope>>) -> Result<Assembled, AssemblyError> {
    assemble(AssembleOptions {
        manifest: manifest(names),
        facets,
        table: ServiceTable::new(),
        context: Arc::new(|scope| scope),
        before_activation: Box::new(|| ()),
        deadlines: Deadlines::default(),
    })
    .await
}

fn lines(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

#[tokio::test]
async fn b01_a_duplicate_a_missing_provider_or_a_cycle_fails_before_any_plugin_code_runs() {
    let log = Log::default();
    let plain = |name| facet(&log, name, Trouble::None);
    let duplicate = vec![
        plain("a").provides::<CounterClient>(),
        plain("b").provides::<CounterClient>(),
    ];
    let missing = vec![
        plain("a").requires::<CounterClient>(Namespace::Local),
        plain("b"),
    ];
    let cycle = vec![
        plain("a")
            .provides::<CounterClient>()
            .requires_local::<Vault>(),
        plain("b")
            .provides_local::<Vault>()
            .requires::<CounterClient>(Namespace::Local),
    ];
    for facets in [duplicate, missing, cycle] {
        let error = start(&["a", "b"], facets).await.unwrap_err();
        assert!(matches!(error, AssemblyError::Graph(_)), "{error}");
        assert!(error.to_string().contains("`a`"), "{error}");
    }
    assert_eq!(lines(&log), Vec::<String>::new());
}

#[tokio::test]
async fn b02_facets_register_in_manifest_order_then_activate_and_are_disposed_in_reverse() {
    let log = Log::default();
    // The order of the build does not count.
    let facets = ["c", "a", "b"].map(|name| facet(&log, name, Trouble::None));
    let assembled = start(&["a", "b", "c"], facets.into()).await.unwrap();
    let upwards = [
        "register a",
        "register b",
        "register c",
        "activate a",
        "activate b",
        "activate c",
    ];
    assert_eq!(lines(&log), upwards);
    assert!(assembled.dispose().await.is_empty());
    assert_eq!(lines(&log), ["dispose c", "dispose b", "dispose a"]);
}

#[tokio::test]
async fn b03_a_facet_that_fails_takes_those_before_it_down_in_reverse_and_the_error_says_which() {
    for (trouble, disposed) in [
        (Trouble::Setup, &["dispose b", "dispose a"][..]),
        (
            Trouble::Activation,
            &["dispose c", "dispose b", "dispose a"],
        ),
    ] {
        let log = Log::default();
        let facets = vec![
            facet(&log, "a", Trouble::None),
            facet(&log, "b", Trouble::None),
            facet(&log, "c", trouble),
        ];
        let error = start(&["a", "b", "c"], facets)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("`c`") && error.contains("broken"), "{error}");
        let mut lines = lines(&log);
        lines.retain(|line| line.starts_with("dispose"));
        assert_eq!(lines, disposed);
    }
}

#[tokio::test]
async fn b04_a_failing_disposer_does_not_prevent_the_rest_and_all_failures_are_reported() {
    let log = Log::default();
    let facets = vec![
        facet(&log, "a", Trouble::Disposal),
        facet(&log, "b", Trouble::None),
        facet(&log, "c", Trouble::Disposal),
    ];
    let assembled = start(&["a", "b", "c"], facets).await.unwrap();
    lines(&log);
    let failures = assembled.dispose().await;
    let failed: Vec<&str> = failures.iter().map(|failure| &*failure.unit).collect();
    assert_eq!(failed, ["c", "a"]);
    assert_eq!(lines(&log), ["dispose c", "dispose b", "dispose a"]);
}

#[tokio::test]
async fn b05_a_host_resolves_its_own_facets_alone_and_a_presentation_has_no_session_code() {
    // A manifest names whole plugins; this build has the facet of one.
    let log = Log::default();
    let facets = vec![facet(&log, "here", Trouble::None)];
    let assembled = start(&["elsewhere", "here"], facets).await.unwrap();
    let statuses: Vec<_> = assembled
        .report()
        .into_iter()
        .map(|report| report.status)
        .collect();
    assert_eq!(statuses, [FacetStatus::NoFacet, FacetStatus::Active]);

    // The committed list of arrows, which the project's checks keep true.
    let text = include_str!("../../../../docs/edges.txt");
    let mut arrows: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut from = "";
    for line in text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        match line.strip_prefix("  -> ") {
            Some(to) => arrows.entry(from).or_default().push(to),
            None => from = line,
        }
    }
    let mut linked = BTreeSet::new();
    let mut open = vec!["bezel-attach"];
    while let Some(next) = open.pop() {
        if linked.insert(next) {
            open.extend(arrows.get(next).into_iter().flatten());
        }
    }
    assert!(
        linked.contains("bezel-host-tui") && linked.len() > 10,
        "{linked:?}"
    );
    let session = |name: &&&str| {
        name.ends_with("-session") || ["bezel-harness", "bezel-store"].contains(*name)
    };
    assert_eq!(linked.iter().find(session), None);
}

over_both! {
    async fn b18_a_service_that_is_not_exposed_is_unknown_to_every_peer(world: World) {
        let client = world.client().await;
        let session = client.create(&world.project("p")).await;
        client.attach(&session).await;
        for remote in [client.link.server(), client.link.attached().remote().clone()] {
            let counter: CounterClient = remote.use_service();
            let error = counter.count(&cx()).await.unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::UnknownService));
            assert!(remote.try_use::<CounterClient>().is_none());
        }
        assert_eq!(CounterClient::new(One).count(&cx()).await, Ok(1), "locally it is the object itself");
    }
}

#[tokio::test(start_paused = true)]
async fn b37_what_hangs_ends_at_its_deadline_and_its_plugin_is_named() {
    let log = Log::default();
    let hanging = vec![
        facet(&log, "fine", Trouble::None),
        facet(&log, "stuck", Trouble::HangingActivation),
    ];
    let started = tokio::time::Instant::now();
    let error = start(&["fine", "stuck"], hanging)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("`stuck`"), "{error}");
    assert!(lines(&log).contains(&"dispose fine".to_owned()));

    let hanging = vec![
        facet(&log, "fine", Trouble::None),
        facet(&log, "stuck", Trouble::HangingDisposal),
    ];
    let assembled = start(&["fine", "stuck"], hanging).await.unwrap();
    let failures = assembled.dispose().await;
    assert_eq!(failures.len(), 1);
    assert_eq!(&*failures[0].unit, "stuck");
    assert!(lines(&log).contains(&"dispose fine".to_owned()));
    assert!(
        started.elapsed() < Duration::from_secs(120),
        "the deadlines are the hosts' own"
    );
}
