//! Compiled JSON Schemas, shared by all sessions of a process.
//!
//! Compiling takes longer than all else that becomes of a schema. The sessions of one process mostly have the same
//! tools, each with values of its own: so a schema is known by what it says. It is kept for as long as somebody
//! has it.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use jsonschema::{ValidationError, Validator};
use serde_json::Value;

/// A schema that compiled.
#[derive(Debug)]
pub(crate) struct Schema {
    says: Value,
    validator: Validator,
}

impl Deref for Schema {
    type Target = Validator;

    fn deref(&self) -> &Validator {
        &self.validator
    }
}

// A plain mutex: held to look up or note.
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// Entries from which those that nobody has any more are looked for.
const CROWDED: usize = 256;

#[derive(Default)]
struct Known {
    hasher: RandomState,
    by_hash: HashMap<u64, Weak<Schema>>,
}

impl Known {
    fn lock() -> MutexGuard<'static, Self> {
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, says: &Value) -> Option<Arc<Schema>> {
        let found = self.by_hash.get(&self.hasher.hash_one(says))?.upgrade()?;
        (found.says == *says).then_some(found)
    }

    fn keep(&mut self, schema: &Arc<Schema>) {
        if self.by_hash.len() >= CROWDED && self.by_hash.len().is_power_of_two() {
            self.by_hash.retain(|_, schema| schema.strong_count() > 0);
        }
        let hash = self.hasher.hash_one(&schema.says);
        self.by_hash.insert(hash, Arc::downgrade(schema));
    }
}

/// Compiles a schema, unless somebody has it compiled.
pub(crate) fn compile(says: &Value) -> Result<Arc<Schema>, ValidationError<'static>> {
    if let Some(known) = Known::lock().find(says) {
        return Ok(known);
    }
    let validator = jsonschema::validator_for(says).map_err(ValidationError::to_owned)?;
    let says = says.clone();
    let schema = Arc::new(Schema { says, validator });
    Known::lock().keep(&schema);
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(name: &str) -> Value {
        json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] })
    }

    #[test]
    fn one_compiled_schema_serves_all_that_say_the_same_and_goes_with_the_last() {
        let first = compile(&schema("shared")).unwrap();
        let second = compile(&schema("shared")).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!second.is_valid(&json!({ "other": "x" })));
        let kept = Arc::downgrade(&first);
        drop(first);
        assert!(kept.upgrade().is_some());
        drop(second);
        assert!(kept.upgrade().is_none(), "nothing else keeps it alive");
        assert!(compile(&schema("shared")).is_ok());
    }

    #[test]
    fn schemas_that_differ_are_told_apart() {
        let one = compile(&schema("one")).unwrap();
        let other = compile(&schema("other")).unwrap();
        let value = json!({ "one": "x" });
        assert!(one.is_valid(&value) && !other.is_valid(&value));
    }

    #[test]
    fn what_is_no_schema_is_refused_each_time() {
        for _ in 0..2 {
            assert!(compile(&json!({ "type": "nonsense" })).is_err());
        }
    }

    #[test]
    fn what_nobody_has_any_more_is_forgotten() {
        let mut known = Known::default();
        for number in 0..8 * CROWDED {
            let says = Value::from(number);
            let validator = jsonschema::validator_for(&Value::Bool(true)).unwrap();
            known.keep(&Arc::new(Schema { says, validator }));
        }
        assert!(known.by_hash.len() <= CROWDED, "{}", known.by_hash.len());
    }
}
