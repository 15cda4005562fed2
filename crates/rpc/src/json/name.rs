//! A key of an object, for whatever type it is read as.

use std::borrow::Cow;

use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde_json::Error;

use super::source::unescaped;

/// A key, without its quotes and escapes.
pub(super) struct Name<'p>(Cow<'p, str>);

impl<'p> Name<'p> {
    /// What stands between the quotes; `None` where that is not JSON.
    pub(super) fn read(raw: &'p str) -> Option<Self> {
        match raw.as_bytes().contains(&b'\\') {
            true => Some(Name(Cow::Owned(unescaped(raw).ok()?))),
            false => Some(Name(Cow::Borrowed(raw))),
        }
    }
}

/// Keys that are text of a number or a word, as `serde_json` writes them.
macro_rules! parsed {
    ($($method:ident $visit:ident $ty:ty,)*) => {
        $(fn $method<V: Visitor<'p>>(self, visitor: V) -> Result<V::Value, Error> {
            // White space around it is JSON, but no key that anybody writes.
            match serde_json::from_str::<$ty>(&self.0) {
                Ok(value) if !self.0.contains(char::is_whitespace) => visitor.$visit(value),
                _ => self.deserialize_any(visitor),
            }
        })*
    };
}

impl<'p> Deserializer<'p> for Name<'p> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'p>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    parsed! {
        deserialize_bool visit_bool bool,
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64, deserialize_i128 visit_i128 i128,
        deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16, deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64, deserialize_u128 visit_u128 u128,
        deserialize_f32 visit_f32 f32, deserialize_f64 visit_f64 f64,
    }

    fn deserialize_option<V: Visitor<'p>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'p>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'p>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    serde::forward_to_deserialize_any! {
        <W: Visitor<'p>>
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}
