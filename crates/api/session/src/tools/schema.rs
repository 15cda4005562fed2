//! Whether what a tool declares is a JSON Schema.
//!
//! A registry is rebuilt from the start at each change, and every child session builds its own, over the same
//! tools: a schema is compiled once for as long as its value lives.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::Value;

/// Schemas that compiled, by address. The weak reference keeps the address from being given to another value.
// A plain mutex: held to look up or note.
static COMPILED: Mutex<Option<HashMap<usize, Weak<Value>>>> = Mutex::new(None);

/// Entries from which those whose values are gone are looked for.
const CROWDED: usize = 256;

/// A schema that does not compile; the text says where and why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidSchema(jsonschema::ValidationError<'static>);

/// Compiles `schema`, unless that was done before.
pub(super) fn check(schema: &Arc<Value>) -> Result<(), InvalidSchema> {
    let address = Arc::as_ptr(schema) as usize;
    let known = |compiled: &HashMap<usize, Weak<Value>>| compiled.contains_key(&address);
    if COMPILED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .as_ref()
        .is_some_and(known)
    {
        return Ok(());
    }
    jsonschema::validator_for(schema).map_err(|error| InvalidSchema(error.to_owned()))?;
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let compiled = compiled.get_or_insert_default();
    if compiled.len() >= CROWDED && compiled.len().is_power_of_two() {
        compiled.retain(|_, schema| schema.strong_count() > 0);
    }
    compiled.insert(address, Arc::downgrade(schema));
    Ok(())
}
