//! Where in a JSON value a change applies.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use smallvec::SmallVec;

/// One step into a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// A member of an object.
    Key(Cow<'static, str>),
    /// An element of an array.
    Index(usize),
}

impl From<&'static str> for Segment {
    fn from(key: &'static str) -> Self {
        Segment::Key(Cow::Borrowed(key))
    }
}

impl From<String> for Segment {
    fn from(key: String) -> Self {
        Segment::Key(Cow::Owned(key))
    }
}

impl From<usize> for Segment {
    fn from(index: usize) -> Self {
        Segment::Index(index)
    }
}

impl Serialize for Segment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Segment::Key(key) => serializer.serialize_str(key),
            Segment::Index(index) => serializer.serialize_u64(*index as u64),
        }
    }
}

impl<'de> Deserialize<'de> for Segment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SegmentVisitor;
        impl Visitor<'_> for SegmentVisitor {
            type Value = Segment;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a member name or an array index")
            }

            fn visit_str<E: de::Error>(self, key: &str) -> Result<Segment, E> {
                Ok(Segment::Key(Cow::Owned(key.to_owned())))
            }

            fn visit_u64<E: de::Error>(self, index: u64) -> Result<Segment, E> {
                usize::try_from(index)
                    .map(Segment::Index)
                    .map_err(E::custom)
            }
        }
        deserializer.deserialize_any(SegmentVisitor)
    }
}

/// The segments from a value's root to one place in it; empty for the root itself.
///
/// [`path!`](crate::path) writes one: `path!["entries", 3, "text"]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Path(pub(crate) SmallVec<[Segment; 4]>);

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.0)
    }
}

impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(|segments| Path(segments.into()))
    }
}

impl Path {
    /// The value itself.
    pub fn root() -> Self {
        Path::default()
    }

    /// One step further down.
    pub fn join(mut self, segment: impl Into<Segment>) -> Self {
        self.0.push(segment.into());
        self
    }

    /// The segments in order.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    pub(crate) fn resolve<'v>(&self, root: &'v mut Value) -> Option<&'v mut Value> {
        self.0
            .iter()
            .try_fold(root, |value, segment| match (segment, value) {
                (Segment::Key(key), Value::Object(fields)) => fields.get_mut(key.as_ref()),
                (Segment::Index(index), Value::Array(items)) => items.get_mut(*index),
                _ => None,
            })
    }
}

impl<S: Into<Segment>, const N: usize> From<[S; N]> for Path {
    fn from(segments: [S; N]) -> Self {
        segments.into_iter().collect()
    }
}

impl<S: Into<Segment>> FromIterator<S> for Path {
    fn from_iter<I: IntoIterator<Item = S>>(segments: I) -> Self {
        Path(segments.into_iter().map(Into::into).collect())
    }
}

/// A single member of the root object.
impl From<&'static str> for Path {
    fn from(key: &'static str) -> Self {
        Path::root().join(key)
    }
}

impl fmt::Display for Path {
    /// The path as a JSON pointer (RFC 6901).
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return formatter.write_str("(root)");
        }
        for segment in &self.0 {
            match segment {
                Segment::Key(key) => {
                    write!(formatter, "/{}", key.replace('~', "~0").replace('/', "~1"))?
                }
                Segment::Index(index) => write!(formatter, "/{index}")?,
            }
        }
        Ok(())
    }
}

/// Builds a [`Path`](crate::Path) of member names and array indexes: `path!["entries", index, "text"]`.
#[macro_export]
macro_rules! path {
    ($($segment:expr),* $(,)?) => {
        $crate::Path::root()$(.join($segment))*
    };
}
