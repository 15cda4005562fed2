//! The speed of the registry of tools: `cargo xtask bench --only session-registry` runs it.
//!
//! 200 plugins with 20 contributions each, and 5 wrappers around each of 50 tools. What is compared is measured
//! in turns of one run. It prints one JSON document.

use std::collections::HashMap;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use bezel_api_session::{RegisteredTool, ToolDraft, ToolSet};
use bezel_context::Context;
use bezel_plugin::{
    AssembleOptions, Assembled, Deadlines, Facet, FacetScope, Manifest, ManifestEntry, Registry,
    assemble,
};
use bezel_rpc::ServiceTable;
use bezel_session_types::{
    ExecutionMode, Replay, Tool, ToolError, ToolInvocation, ToolOutput, ToolSpec,
};
use futures::future::BoxFuture;
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PLUGINS: usize = 200;
const TOOLS_OF_EACH: usize = 20;
const WRAPPERS: usize = 5;
const WRAPPED: usize = 50;
/// Plugins that are taken out in a round, each from 4,000 entries and those that earlier ones left.
const REMOVED: usize = 15;
const READS: u32 = 100_000;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("registry: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let rounds = match words.as_slice() {
        ["registry"] => 5,
        ["registry", "--rounds", rounds] => rounds.parse()?,
        _ => return Err("this takes registry [--rounds N]".into()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut rows: [Vec<f64>; 3] = Default::default();
    for round in 0..=rounds {
        let samples = runtime.block_on(measure())?;
        // The first warms everything up.
        if round > 0 {
            for (row, sample) in rows.iter_mut().zip(samples) {
                row.push(sample);
            }
        }
    }
    let [rebuild, clone, read] = rows;
    let figures = [
        json!({
            "name": "remove one of 200 plugins with 20 tools each, rebuilt",
            "unit": "µs",
            "ours": rebuild,
            "reference": { "name": "a map of the same entries, cloned", "rounds": clone },
            "target": { "at_most_times": 2.0 },
        }),
        json!({
            "name": "read a snapshot",
            "unit": "ns",
            "ours": read,
            "reference": null,
            "target": { "at_most": 50.0 },
        }),
    ];
    println!("{}", json!({ "figures": figures, "absent": [] }));
    Ok(())
}

/// Microseconds of a removal, of a clone, nanoseconds of a read.
async fn measure() -> Result<[f64; 3]> {
    let (registry, mut host) = host().await?;
    let (mut rebuilds, mut clones) = (Vec::new(), Vec::new());
    for number in 0..REMOVED {
        // As the harness does, which has the set until it takes over the next.
        let before = registry.current();
        let map: HashMap<String, RegisteredTool> = by_name(&before);
        let started = Instant::now();
        let cloned = black_box(&map).clone();
        clones.push(started.elapsed().as_secs_f64() * 1e6);
        drop(black_box(cloned));
        // In the middle of the order, and none of the wrapped.
        let plugin = plugin(100 + number);
        let started = Instant::now();
        let failures = host.remove(plugin).await;
        rebuilds.push(started.elapsed().as_secs_f64() * 1e6);
        let left = registry.current().tools.len();
        if !failures.is_empty() || left + TOOLS_OF_EACH != before.tools.len() {
            return Err(format!("{left} tools are left, {failures:?}").into());
        }
    }
    let started = Instant::now();
    for _ in 0..READS {
        drop(black_box(registry.current()));
    }
    let read = started.elapsed().as_secs_f64() * 1e9 / f64::from(READS);
    host.dispose().await;
    Ok([median(rebuilds), median(clones), read])
}

fn by_name(set: &ToolSet) -> HashMap<String, RegisteredTool> {
    let named = |tool: &RegisteredTool| (tool.name.to_string(), tool.clone());
    set.tools.iter().map(named).collect()
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

fn plugin(number: usize) -> &'static str {
    // A facet's name lives as long as the program; there are as many as plugins.
    static NAMES: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let names = 0..PLUGINS + WRAPPERS;
        names.map(|number| format!("plugin-{number:03}")).collect()
    });
    &names[number]
}

fn tool(plugin: usize, number: usize) -> String {
    format!("tool_{number:02}_of_{plugin:03}")
}

async fn host() -> Result<(Registry<ToolDraft>, Assembled)> {
    let registry = Registry::<ToolDraft>::new(ToolSet::default());
    let facets = (0..PLUGINS + WRAPPERS).map(|number| {
        let registry = registry.clone();
        Facet::new(plugin(number), move |cx: FacetScope| {
            contribute(&registry, &cx, number);
            async { Ok(()) }
        })
    });
    let facets: Vec<Facet<FacetScope>> = facets.collect();
    let entry =
        |facet: &Facet<FacetScope>| ManifestEntry::required(facet.plugin().as_str(), "1.0.0");
    let host = assemble(AssembleOptions {
        manifest: Manifest {
            plugins: facets.iter().map(entry).collect(),
        },
        facets,
        table: ServiceTable::new(),
        context: Arc::new(|scope| scope),
        before_activation: Box::new(|| ()),
        deadlines: Deadlines::default(),
    });
    let host = host.await?;
    registry.open();
    match &registry.problems()[..] {
        [] => Ok((registry, host)),
        problems => Err(format!("the registry has problems: {problems:?}").into()),
    }
}

fn contribute(registry: &Registry<ToolDraft>, cx: &FacetScope, plugin: usize) {
    let contributions = registry.contributions(cx);
    if plugin >= PLUGINS {
        contributions.add(|draft| {
            for number in 0..WRAPPED {
                let name = tool(number % 10, number / 10);
                draft.wrap(&name, |next| Arc::new(Around(next)));
            }
        });
        return;
    }
    for number in 0..TOOLS_OF_EACH {
        let name = tool(plugin, number);
        let built: Arc<dyn Tool> = Arc::new(Nothing(spec(&name)));
        contributions.add(move |draft| draft.set(&name, Arc::clone(&built)));
    }
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        output: None,
        label: name.into(),
        description: "A tool of a measurement.".into(),
        parameters: Arc::new(json!({
            "type": "object",
            "properties": { "path": { "type": "string" }, "limit": { "type": "integer" } },
            "required": ["path"],
        })),
        execution_mode: ExecutionMode::Parallel,
        replay: Replay::Safe,
    }
}

struct Nothing(ToolSpec);

impl Tool for Nothing {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn execute(
        &self,
        _cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, std::result::Result<ToolOutput, ToolError>> {
        let said = Arc::clone(&invocation.arguments);
        Box::pin(async move { Ok(ToolOutput::text(said.to_string())) })
    }
}

struct Around(Arc<dyn Tool>);

impl Tool for Around {
    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }

    fn execute(
        &self,
        cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, std::result::Result<ToolOutput, ToolError>> {
        self.0.execute(cx, invocation)
    }
}
