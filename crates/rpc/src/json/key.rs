//! Keys of maps, which are text or have a text form; `serde_json` knows which do.

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer as _};

/// Writes what stands before a map's key, and the key.
pub(super) fn begin<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    first: bool,
    key: &T,
) -> Result<(), serde_json::Error> {
    let start = out.len();
    let mut serializer = serde_json::Serializer::new(&mut *out);
    // A map of its own, of which only the beginning is wanted: `{` and the key.
    serializer.serialize_map(None)?.serialize_key(key)?;
    if !first {
        out[start] = b',';
    }
    Ok(())
}
