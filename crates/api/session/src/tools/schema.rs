//! Whether what a tool declares is a JSON Schema.
//!
//! A registry is rebuilt from the start at each change, and every child session builds its own, mostly over tools
//! that declare the same in values of their own. So what compiled once counts as long as somebody holds a value
//! that says it.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::Value;

// A plain mutex: held to look up or note.
static COMPILED: LazyLock<Mutex<Compiled>> = LazyLock::new(Mutex::default);

/// Entries from which those whose values are gone are looked for.
const CROWDED: usize = 256;
/// The same of those that say the same.
const FEW: usize = 8;

/// Schemas that compiled. They keep no value alive.
#[derive(Default)]
struct Compiled {
    /// The quick way, for a value that was seen itself. A weak reference keeps its address from being given to
    /// another.
    by_address: HashMap<usize, Weak<Value>>,
    hasher: RandomState,
    /// All that say the same: sessions end in any order.
    by_hash: HashMap<u64, Vec<Weak<Value>>>,
}

impl Compiled {
    fn lock() -> MutexGuard<'static, Self> {
        COMPILED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&mut self, schema: &Arc<Value>) -> bool {
        if self.by_address.contains_key(&address(schema)) {
            return true;
        }
        let alike = self.by_hash.get(&self.hasher.hash_one(schema));
        let mut alike = alike.into_iter().flatten().filter_map(Weak::upgrade);
        let is_known = alike.any(|alike| alike == *schema);
        if is_known {
            self.note(schema);
        }
        is_known
    }

    fn note(&mut self, schema: &Arc<Value>) {
        let is_there = |schema: &Weak<Value>| schema.strong_count() > 0;
        if self.by_address.len() >= CROWDED && self.by_address.len().is_power_of_two() {
            self.by_address.retain(|_, schema| is_there(schema));
            self.by_hash.retain(|_, alike| alike.iter().any(is_there));
        }
        let weak = Arc::downgrade(schema);
        self.by_address.insert(address(schema), weak.clone());
        let hash = self.hasher.hash_one(schema);
        let alike = self.by_hash.entry(hash).or_default();
        if alike.len() >= FEW && alike.len().is_power_of_two() {
            alike.retain(is_there);
        }
        alike.push(weak);
    }
}

fn address(schema: &Arc<Value>) -> usize {
    Arc::as_ptr(schema).addr()
}

/// A schema that does not compile; the text says where and why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidSchema(jsonschema::ValidationError<'static>);

/// Compiles `schema`, unless that was done before with one that says the same.
pub(super) fn check(schema: &Arc<Value>) -> Result<(), InvalidSchema> {
    if Compiled::lock().has(schema) {
        return Ok(());
    }
    jsonschema::validator_for(schema).map_err(|error| InvalidSchema(error.to_owned()))?;
    Compiled::lock().note(schema);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(number: usize) -> Arc<Value> {
        Arc::new(json!({ "type": "object", "minProperties": number }))
    }

    #[test]
    fn what_says_the_same_as_a_value_that_somebody_holds_is_known() {
        let mut compiled = Compiled::default();
        let (first, second, third) = (schema(1), schema(1), schema(1));
        assert!(!compiled.has(&first));
        compiled.note(&first);
        assert!(compiled.has(&second) && !compiled.has(&schema(2)));
        drop(first);
        // The session that had it first has ended.
        assert!(compiled.has(&third));
    }

    #[test]
    fn nothing_is_kept_alive_and_what_is_gone_is_forgotten() {
        let mut compiled = Compiled::default();
        let gone = schema(0);
        compiled.note(&gone);
        assert_eq!(Arc::strong_count(&gone), 1);
        drop(gone);
        assert!(!compiled.has(&schema(0)));
        for number in 0..8 * CROWDED {
            compiled.note(&schema(number));
        }
        assert!(compiled.by_address.len() <= CROWDED && compiled.by_hash.len() <= CROWDED);
    }

    #[test]
    fn what_is_no_schema_is_refused_each_time() {
        let nonsense = Arc::new(json!({ "type": "nonsense" }));
        assert!(check(&nonsense).is_err() && check(&nonsense).is_err());
    }
}
