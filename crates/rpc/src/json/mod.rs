//! JSON as it goes out: what `serde_json` writes, byte for byte, with text escaped at the speed of a copy.
//!
//! Large texts are most of what crosses, and `serde_json` looks at them a byte at a time.

mod key;
mod text;
mod writer;

use serde::Serialize;

pub(crate) use text::specials;

/// The bytes of a value.
pub(crate) fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::with_capacity(128);
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
