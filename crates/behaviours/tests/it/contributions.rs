//! 19: one result of many contributions.

use std::sync::{Arc, Mutex};

use bezel_plugin::{
    AssembleOptions, Deadlines, Draft, DraftError, Facet, FacetScope, Manifest, ManifestEntry,
    PluginId, Problem, Registry, assemble,
};
use bezel_rpc::ServiceTable;

/// A text that each plugin wraps.
struct Wrapped(String);

impl Draft for Wrapped {
    type Output = String;

    fn new() -> Self {
        Wrapped("core".into())
    }

    fn begin(&mut self, _plugin: &PluginId, _registration: u64) {}

    fn finish(self, _problems: &mut Vec<Problem>) -> Result<String, DraftError> {
        Ok(self.0)
    }
}

fn wrapper(
    registry: &Registry<Wrapped>,
    kept: &Arc<Mutex<Vec<bezel_plugin::Contribution<Wrapped>>>>,
    name: &'static str,
) -> Facet<FacetScope> {
    let (registry, kept) = (registry.clone(), Arc::clone(kept));
    Facet::new(name, move |cx: FacetScope| {
        let wraps = registry
            .contributions(&cx)
            .add(move |draft| draft.0 = format!("{name}({})", draft.0));
        kept.lock().unwrap().push(wraps);
        async { Ok(()) }
    })
}

#[tokio::test]
async fn b19_removing_a_middle_wrapper_rebuilds_the_others_in_their_order() {
    let registry = Registry::<Wrapped>::new(String::new());
    let kept = Arc::default();
    let names = ["inner", "middle", "outer"];
    let mut assembled = assemble(AssembleOptions {
        manifest: Manifest {
            plugins: names
                .map(|name| ManifestEntry::optional(name, "1.0.0"))
                .into(),
        },
        facets: names.map(|name| wrapper(&registry, &kept, name)).into(),
        table: ServiceTable::new(),
        context: Arc::new(|scope| scope),
        before_activation: Box::new(|| ()),
        deadlines: Deadlines::default(),
    })
    .await
    .unwrap();
    registry.open();
    assert_eq!(*registry.current(), "outer(middle(inner(core)))");
    assert!(assembled.remove("middle").await.is_empty());
    assert_eq!(*registry.current(), "outer(inner(core))");
    assert!(assembled.remove("outer").await.is_empty());
    assert_eq!(*registry.current(), "inner(core)");
}
