//! The service graph, binding, reports and removal.

use std::sync::{Arc, Mutex};

use bezel_plugin::{Facet, FacetScope, FacetStatus, Local, ManifestEntry, Namespace, PluginId};
use bezel_rpc::{CallError, Context, ErrorCode};

use crate::support::{CounterClient, Counting, Vault, manifest, start};

type Taken = Arc<Mutex<Option<(CounterClient, Local<Vault>)>>>;
type Ran = Arc<Mutex<Vec<&'static str>>>;

fn provider(ran: &Ran, plugin: &'static str) -> Facet<FacetScope> {
    let ran = Arc::clone(ran);
    Facet::new(plugin, move |cx: FacetScope| {
        ran.lock().unwrap().push(plugin);
        async move {
            cx.provide(CounterClient::new(Counting(Mutex::new(40))));
            cx.provide_local(Arc::new(Vault("secret")));
            Ok(())
        }
    })
    .provides::<CounterClient>()
    .provides_local::<Vault>()
}

fn user(ran: &Ran, plugin: &'static str) -> Facet<FacetScope> {
    let ran = Arc::clone(ran);
    Facet::new(plugin, move |_cx: FacetScope| {
        ran.lock().unwrap().push(plugin);
        async { Ok(()) }
    })
    .requires::<CounterClient>(Namespace::Local)
}

fn entries(names: &[&str]) -> Vec<ManifestEntry> {
    names
        .iter()
        .map(|name| ManifestEntry::required(name, "1.0.0"))
        .collect()
}

#[tokio::test]
async fn a_handle_taken_before_its_provider_is_set_up_works_from_activation_on() {
    let ran = Ran::default();
    let taken: Taken = Arc::default();
    let keep = Arc::clone(&taken);
    let early = Facet::new("early", move |cx: FacetScope| {
        let keep = Arc::clone(&keep);
        async move {
            let counter: CounterClient = cx.use_service();
            let vault: Local<Vault> = cx.use_local();
            assert!(vault.get().is_err());
            let refused = counter.add(&Context::background(), 1).await.unwrap_err();
            assert!(matches!(refused, CallError::Rpc(error) if error.code == ErrorCode::NotActive));
            *keep.lock().unwrap() = Some((counter.clone(), vault));
            cx.on_activate(move || async move {
                assert_eq!(counter.add(&Context::background(), 1).await.unwrap(), 41);
                Ok(())
            });
            Ok(())
        }
    })
    .requires::<CounterClient>(Namespace::Local)
    .requires_local::<Vault>();
    let facets = vec![early, provider(&ran, "provider")];
    let host = start(manifest(entries(&["early", "provider"])), facets)
        .await
        .unwrap();
    let (counter, vault) = taken.lock().unwrap().take().unwrap();
    assert_eq!(counter.add(&Context::background(), 1).await.unwrap(), 42);
    assert_eq!(vault.get().unwrap().0, "secret");
    assert!(host.assembled.dispose().await.is_empty());
}

#[tokio::test]
async fn a_wrong_graph_is_refused_before_any_plugin_code_runs_and_names_everyone() {
    let ran = Ran::default();
    let duplicate = vec![provider(&ran, "one"), provider(&ran, "two")];
    let error = start(manifest(entries(&["one", "two"])), duplicate)
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("`one`") && error.contains("`two`") && error.contains("`counter`"),
        "{error}"
    );

    let missing = vec![user(&ran, "lonely")];
    let error = start(manifest(entries(&["lonely"])), missing)
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("`lonely`") && error.contains("`counter`"),
        "{error}"
    );

    let circle = vec![
        provider(&ran, "one").requires_local::<Other>(),
        Facet::new("two", |_: FacetScope| async { Ok(()) })
            .provides_local::<Other>()
            .requires::<CounterClient>(Namespace::Local),
    ];
    let error = start(manifest(entries(&["one", "two"])), circle)
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("`one` requires `other`, `two` requires `counter`"),
        "{error}"
    );
    assert!(ran.lock().unwrap().is_empty());
}

struct Other;

impl bezel_plugin::LocalService for Other {
    const ID: &'static str = "other";
}

#[tokio::test]
async fn what_a_descriptor_does_not_say_fails_the_setup() {
    let sneaky = Facet::new("sneaky", |cx: FacetScope| async move {
        cx.provide(CounterClient::new(Counting(Mutex::new(0))));
        let _vault: Local<Vault> = cx.use_local();
        Ok(())
    })
    .provides_local::<Other>();
    let error = start(manifest(entries(&["sneaky"])), vec![sneaky])
        .await
        .err()
        .unwrap()
        .to_string();
    for part in [
        "provides `counter` without declaring",
        "uses `vault`",
        "declares `other` and does not",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn an_optional_service_is_an_option_and_a_broken_optional_plugin_is_reported() {
    let seen: Arc<Mutex<Vec<bool>>> = Arc::default();
    let looking = |seen: &Arc<Mutex<Vec<bool>>>| {
        let seen = Arc::clone(seen);
        Facet::new("looking", move |cx: FacetScope| {
            let seen = Arc::clone(&seen);
            async move {
                seen.lock()
                    .unwrap()
                    .push(cx.use_optional::<CounterClient>().is_some());
                Ok(())
            }
        })
        .optional::<CounterClient>(Namespace::Local)
    };
    start(manifest(entries(&["looking"])), vec![looking(&seen)])
        .await
        .unwrap();

    let broken = Facet::new("broken", |_: FacetScope| async { Err("no disk".into()) })
        .provides::<CounterClient>();
    let mut list = entries(&["looking"]);
    list.push(ManifestEntry::optional("broken", "2.1.0"));
    list.push(ManifestEntry::optional("elsewhere", "1.0.0"));
    let mut newer = ManifestEntry::optional("newer", "1.0.0");
    newer.interface.minor += 1;
    list.push(newer);
    let host = start(manifest(list), vec![looking(&seen), broken])
        .await
        .unwrap();
    assert_eq!(*seen.lock().unwrap(), [false, true]);
    let report = host.assembled.report();
    let status = |id: &str| {
        report
            .iter()
            .find(|facet| facet.plugin == PluginId::new(id))
            .unwrap()
            .status
            .clone()
    };
    assert_eq!(status("looking"), FacetStatus::Active);
    assert_eq!(status("elsewhere"), FacetStatus::NoFacet);
    assert!(
        matches!(status("broken"), FacetStatus::Unavailable(reason) if reason.contains("no disk"))
    );
    assert!(
        matches!(status("newer"), FacetStatus::Unavailable(reason) if reason.contains("interface"))
    );
}

#[tokio::test]
async fn opencode_36_removing_a_plugin_withdraws_its_services_and_ends_its_users() {
    let ran = Ran::default();
    let facets = vec![user(&ran, "user"), provider(&ran, "provider")];
    let mut host = start(manifest(entries(&["user", "provider"])), facets)
        .await
        .unwrap();
    let offered = |host: &crate::support::Host| {
        host.table
            .descriptors()
            .iter()
            .any(|service| service.id == "counter")
    };
    assert!(offered(&host));
    assert!(
        !host
            .table
            .descriptors()
            .iter()
            .any(|service| service.id == "vault"),
        "a local service is not exposed"
    );
    assert!(host.assembled.remove("provider").await.is_empty());
    assert!(!offered(&host));
    assert!(
        host.assembled
            .report()
            .iter()
            .all(|facet| matches!(facet.status, FacetStatus::Unavailable(_)))
    );
}

#[tokio::test]
async fn configuration_is_typed_and_a_grant_counts_only_where_the_manifest_gives_it() {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Settings {
        limit: u32,
    }
    let facet = || {
        Facet::new("configured", |cx: FacetScope| async move {
            let settings: Settings = cx.config()?;
            assert_eq!(settings.limit, 3);
            assert!(cx.is_granted("host.more") && !cx.is_granted("host.other"));
            Ok(())
        })
    };
    let mut entry = ManifestEntry::required("configured", "1.0.0");
    entry.config = serde_json::json!({ "limit": 3 });
    entry.grants.insert(bezel_plugin::Grant::new("host.more"));
    start(manifest(vec![entry.clone()]), vec![facet()])
        .await
        .unwrap();
    entry.config = serde_json::json!({ "limit": "three" });
    let error = start(manifest(vec![entry]), vec![facet()])
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("plugin `configured`") && error.contains("u32"),
        "{error}"
    );
}
