//! A host with nothing but facet scopes, and a few services.

use std::sync::{Arc, Mutex};

use bezel_plugin::{
    AssembleOptions, Assembled, AssemblyError, Deadlines, Facet, FacetScope, LocalService,
    Manifest, ManifestEntry, assemble,
};
use bezel_rpc::{Context, ServiceTable, service};

#[service("counter", version = "1.0")]
pub trait Counter {
    async fn add(&self, cx: &Context, amount: u32) -> u32;
}

pub struct Counting(pub Mutex<u32>);

impl Counter for Counting {
    async fn add(&self, _cx: &Context, amount: u32) -> u32 {
        let mut total = self.0.lock().unwrap();
        *total += amount;
        *total
    }
}

/// A secret that must not leave the process.
pub struct Vault(pub &'static str);

impl LocalService for Vault {
    const ID: &'static str = "vault";
}

pub struct Host {
    pub table: ServiceTable,
    pub assembled: Assembled,
}

pub fn manifest(entries: Vec<ManifestEntry>) -> Manifest {
    Manifest { plugins: entries }
}

pub async fn start(
    manifest: Manifest,
    facets: Vec<Facet<FacetScope>>,
) -> Result<Host, AssemblyError> {
    let table = ServiceTable::new();
    let assembled = assemble(AssembleOptions {
        manifest,
        facets,
        table: table.clone(),
        context: Arc::new(|scope| scope),
        before_activation: Box::new(|| ()),
        deadlines: Deadlines::default(),
    })
    .await?;
    Ok(Host { table, assembled })
}
