//! JSON as payloads have it: written and read as `serde_json` does, text at the speed of a copy.
//!
//! Large texts are most of what crosses, and `serde_json` looks at them a byte at a time. What is read is looked
//! at once: the strict rules of [`crate::strict`] are kept on the way.

mod key;
mod name;
mod reader;
mod source;
mod text;
mod writer;

use serde::{Deserialize, Serialize};

use crate::strict::StrictError;

pub(crate) use text::specials;

/// Structures by which `serde_json`'s own types are known to it, such as a `RawValue`.
const PRIVATE: &str = "$serde_json::private::";

/// Why a payload cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// It is no strict JSON.
    #[error(transparent)]
    Strict(#[from] StrictError),
    /// It is something else than what was expected.
    #[error(transparent)]
    Value(#[from] serde_json::Error),
}

/// Reads one payload.
pub(crate) fn read<'p, T: Deserialize<'p>>(payload: &'p [u8]) -> Result<T, ReadError> {
    // A parser looks at what it keeps alone, and members that nobody knows are passed over.
    let text = crate::strict::text(payload)?;
    let mut source = source::Source::new(text);
    let value = T::deserialize(reader::Reader(&mut source))?;
    match source.next() {
        None => Ok(value),
        Some(_) => Err(StrictError::Trailing(source.scanner.at).into()),
    }
}

/// The bytes of a value.
pub(crate) fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    to_vec_of(256, value)
}

/// The bytes of a value, about so many.
pub(crate) fn to_vec_of<T: Serialize + ?Sized>(
    length: usize,
    value: &T,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::with_capacity(length);
    append(&mut out, value)?;
    Ok(out)
}

/// Writes a value at the end of `out`.
pub(crate) fn append<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    value: &T,
) -> Result<(), serde_json::Error> {
    value.serialize(writer::Writer { out })
}
