//! Changes of a JSON value: what they are, how two values differ, how a change applies.

use std::fmt;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::path::{Path, Segment};

/// More operations than this are sent as a whole value instead.
const MOST_OPERATIONS: usize = 256;

/// One change of a JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operation {
    /// Puts a value at a place; at the root it replaces everything.
    Set { path: Path, value: Value },
    /// Takes a member out of its object.
    Delete { path: Path },
    /// Adds to the end of a string.
    Append { path: Path, text: String },
    /// Takes `delete` elements out of an array at `index` and puts `items` there.
    Splice {
        path: Path,
        index: usize,
        delete: usize,
        items: Vec<Value>,
    },
}

/// A change that does not fit the value it is applied to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {verb} at {path}: {reason}; give the path of {expected} in the current value")]
pub struct PatchError {
    /// What was attempted.
    pub verb: &'static str,
    /// Where, as a JSON pointer.
    pub path: String,
    /// Why it does not fit.
    pub reason: &'static str,
    /// What would have to be there.
    pub expected: &'static str,
}

impl Operation {
    /// Applies the change in place. On an error the value is as before.
    pub(crate) fn apply(self, root: &mut Value) -> Result<(), PatchError> {
        match self {
            Operation::Set { path, value } => set(root, &path, value),
            Operation::Delete { path } => {
                let error = || {
                    misfit(
                        "delete",
                        &path,
                        "there is no such member",
                        "an object's member",
                    )
                };
                let Some((Segment::Key(key), parent)) = path.0.split_last() else {
                    return Err(error());
                };
                let parent = Path(parent.into());
                let Some(Value::Object(fields)) = parent.resolve(root) else {
                    return Err(error());
                };
                fields.remove(key.as_ref()).map(drop).ok_or_else(error)
            }
            Operation::Append { path, text } => match path.resolve(root) {
                Some(Value::String(current)) => {
                    current.push_str(&text);
                    Ok(())
                }
                _ => Err(misfit("append", &path, "it is not a string", "a string")),
            },
            Operation::Splice {
                path,
                index,
                delete,
                items,
            } => match path.resolve(root) {
                Some(Value::Array(current))
                    if index
                        .checked_add(delete)
                        .is_some_and(|end| end <= current.len()) =>
                {
                    current.splice(index..index + delete, items);
                    Ok(())
                }
                Some(Value::Array(_)) => Err(misfit(
                    "splice",
                    &path,
                    "the range passes its end",
                    "a long enough array",
                )),
                _ => Err(misfit("splice", &path, "it is not an array", "an array")),
            },
        }
    }

    /// Takes `next` in, if both together are one operation.
    pub(crate) fn absorb(&mut self, next: Operation) -> Option<Operation> {
        match (self, next) {
            (
                Operation::Append { path, text },
                Operation::Append {
                    path: other,
                    text: more,
                },
            ) if *path == other => {
                text.push_str(&more);
                None
            }
            (
                Operation::Set { path, value },
                Operation::Set {
                    path: other,
                    value: newer,
                },
            ) if *path == other => {
                *value = newer;
                None
            }
            (
                Operation::Splice {
                    path, index, items, ..
                },
                Operation::Splice {
                    path: other,
                    index: at,
                    delete: 0,
                    items: more,
                },
            ) if *path == other && at == *index + items.len() => {
                items.extend(more);
                None
            }
            (_, next) => Some(next),
        }
    }

    /// About how many bytes it takes on the wire.
    pub(crate) fn weight(&self) -> usize {
        let (path, content) = match self {
            Operation::Set { path, value } => (path, encoded_len(value)),
            Operation::Delete { path } => (path, 0),
            Operation::Append { path, text } => (path, text.len()),
            Operation::Splice { path, items, .. } => {
                (path, items.iter().map(encoded_len).sum::<usize>() + 8)
            }
        };
        let steps: usize = path
            .0
            .iter()
            .map(|step| {
                if let Segment::Key(key) = step {
                    key.len() + 3
                } else {
                    4
                }
            })
            .sum();
        content + steps + 10
    }
}

fn misfit(
    verb: &'static str,
    path: &Path,
    reason: &'static str,
    expected: &'static str,
) -> PatchError {
    PatchError {
        verb,
        path: path.to_string(),
        reason,
        expected,
    }
}

fn set(root: &mut Value, path: &Path, value: Value) -> Result<(), PatchError> {
    let Some((last, parent)) = path.0.split_last() else {
        *root = value;
        return Ok(());
    };
    match (last, Path(parent.into()).resolve(root)) {
        (Segment::Key(key), Some(Value::Object(fields))) => {
            fields.insert(key.clone().into_owned(), value);
            Ok(())
        }
        (Segment::Index(index), Some(Value::Array(items))) if *index < items.len() => {
            items[*index] = value;
            Ok(())
        }
        _ => Err(misfit(
            "set",
            path,
            "its parent does not hold it",
            "an object's member or an array's element",
        )),
    }
}

fn encoded_len(value: &Value) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX / 4,
    }
}

/// The operations that turn `old` into `new`; none when they are equal.
pub(crate) fn difference(old: &Value, new: &Value) -> Vec<Operation> {
    let mut operations = Vec::new();
    compare(&mut Path::root(), old, new, &mut operations);
    if operations.len() > MOST_OPERATIONS {
        return vec![Operation::Set {
            path: Path::root(),
            value: new.clone(),
        }];
    }
    operations
}

fn compare(path: &mut Path, old: &Value, new: &Value, operations: &mut Vec<Operation>) {
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            for key in before.keys().filter(|key| !after.contains_key(*key)) {
                operations.push(Operation::Delete {
                    path: path.clone().join(key.clone()),
                });
            }
            for (key, value) in after {
                match before.get(key) {
                    Some(previous) if previous == value => {}
                    Some(previous) => {
                        path.0.push(Segment::from(key.clone()));
                        compare(path, previous, value, operations);
                        path.0.pop();
                    }
                    None => operations.push(Operation::Set {
                        path: path.clone().join(key.clone()),
                        value: value.clone(),
                    }),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            compare_arrays(path, before, after, operations)
        }
        (Value::String(before), Value::String(after)) if before != after && !before.is_empty() => {
            operations.push(match after.strip_prefix(before.as_str()) {
                Some(added) => Operation::Append {
                    path: path.clone(),
                    text: added.to_owned(),
                },
                None => Operation::Set {
                    path: path.clone(),
                    value: new.clone(),
                },
            });
        }
        _ if old == new => {}
        _ => operations.push(Operation::Set {
            path: path.clone(),
            value: new.clone(),
        }),
    }
}

fn compare_arrays(
    path: &mut Path,
    before: &[Value],
    after: &[Value],
    operations: &mut Vec<Operation>,
) {
    let front = before
        .iter()
        .zip(after)
        .take_while(|(old, new)| old == new)
        .count();
    let back = before[front..]
        .iter()
        .rev()
        .zip(after[front..].iter().rev())
        .take_while(|(old, new)| old == new)
        .count();
    let (gone, come) = (
        &before[front..before.len() - back],
        &after[front..after.len() - back],
    );
    if gone.len() == come.len() {
        for (offset, (old, new)) in gone.iter().zip(come).enumerate() {
            path.0.push(Segment::Index(front + offset));
            compare(path, old, new, operations);
            path.0.pop();
        }
    } else {
        operations.push(Operation::Splice {
            path: path.clone(),
            index: front,
            delete: gone.len(),
            items: come.to_vec(),
        });
    }
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Operation::Set { path, value } => ("s", path, value).serialize(serializer),
            Operation::Delete { path } => ("d", path).serialize(serializer),
            Operation::Append { path, text } => ("a", path, text).serialize(serializer),
            Operation::Splice {
                path,
                index,
                delete,
                items,
            } => {
                let mut tuple = serializer.serialize_tuple(5)?;
                tuple.serialize_element("x")?;
                tuple.serialize_element(path)?;
                tuple.serialize_element(index)?;
                tuple.serialize_element(delete)?;
                tuple.serialize_element(items)?;
                tuple.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Operation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OperationVisitor;
        impl<'de> Visitor<'de> for OperationVisitor {
            type Value = Operation;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("[\"s\"|\"d\"|\"a\"|\"x\", path, …]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Operation, A::Error> {
                fn next<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(
                    sequence: &mut A,
                ) -> Result<T, A::Error> {
                    sequence
                        .next_element()?
                        .ok_or_else(|| de::Error::custom("an operation is too short"))
                }
                let tag: String = next(&mut sequence)?;
                let path: Path = next(&mut sequence)?;
                Ok(match tag.as_str() {
                    "s" => Operation::Set {
                        path,
                        value: next(&mut sequence)?,
                    },
                    "d" => Operation::Delete { path },
                    "a" => Operation::Append {
                        path,
                        text: next(&mut sequence)?,
                    },
                    "x" => Operation::Splice {
                        path,
                        index: next(&mut sequence)?,
                        delete: next(&mut sequence)?,
                        items: next(&mut sequence)?,
                    },
                    _ => return Err(de::Error::unknown_variant(&tag, &["s", "d", "a", "x"])),
                })
            }
        }
        deserializer.deserialize_seq(OperationVisitor)
    }
}
