//! A `serde` deserializer that reads a payload once, and keeps the strict rules while it does.
//!
//! Numbers, words and what is only passed through are `serde_json`'s matter.

use std::borrow::Cow;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde_json::Error;

use super::name::Name;
use super::source::Source;
use crate::strict::{Keys, MOST_DEPTH, StrictError};

/// Of an array that stands for an object's fields in their order.
const NOT_AN_OBJECT: &str = "expected an object, and this is an array";

/// Reads one value.
pub(super) struct Reader<'s, 'p>(pub(super) &'s mut Source<'p>);

/// What is inside an array or an object.
struct Inside<'s, 'p> {
    source: &'s mut Source<'p>,
    first: bool,
    keys: Keys<'p>,
}

fn refused(error: StrictError) -> Error {
    Error::custom(error)
}

impl<'p> Source<'p> {
    fn expect(&mut self, byte: u8) -> Result<(), Error> {
        self.scanner.space();
        self.scanner.expect(byte).map_err(refused)
    }

    fn misplaced(&self) -> Error {
        refused(StrictError::Syntax(self.scanner.at))
    }

    fn descend(&mut self) -> Result<(), Error> {
        self.depth += 1;
        match self.depth > MOST_DEPTH {
            true => Err(refused(StrictError::TooDeep)),
            false => Ok(()),
        }
    }

    fn visit_string<V: Visitor<'p>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.string().map_err(refused)? {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    /// Visits what is inside brackets or braces, and closes them.
    fn inside<T>(
        &mut self,
        close: u8,
        visit: impl FnOnce(&mut Inside<'_, 'p>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.descend()?;
        self.scanner.at += 1;
        let visited = visit(&mut Inside {
            source: self,
            first: true,
            keys: Keys::default(),
        })?;
        self.expect(close)?;
        self.depth -= 1;
        Ok(visited)
    }
}

impl Inside<'_, '_> {
    /// Whether there is another element before `close`.
    fn another(&mut self, close: u8) -> Result<bool, Error> {
        let first = std::mem::take(&mut self.first);
        match self.source.next() {
            Some(byte) if byte == close => Ok(false),
            Some(b',') if !first => {
                self.source.scanner.at += 1;
                Ok(true)
            }
            Some(_) if first => Ok(true),
            _ => Err(self.source.misplaced()),
        }
    }
}

macro_rules! of_any {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'p>>(self, visitor: V) -> Result<V::Value, Error> {
            self.deserialize_any(visitor)
        })*
    };
}

macro_rules! of_serde_json {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'p>>(self, visitor: V) -> Result<V::Value, Error> {
            let text = self.0.value().map_err(refused)?;
            let mut reader = serde_json::Deserializer::from_str(text);
            let value = reader.$method(visitor)?;
            reader.end()?;
            Ok(value)
        })*
    };
}

impl<'p> Deserializer<'p> for Reader<'_, 'p> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'p>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.next() {
            Some(b'"') => self.0.visit_string(visitor),
            Some(b'[') => self.0.inside(b']', |inside| visitor.visit_seq(inside)),
            Some(b'{') => self.0.inside(b'}', |inside| visitor.visit_map(inside)),
            _ => self.deserialize_f64(visitor),
        }
    }

    of_any! {
        deserialize_str deserialize_string
        deserialize_seq deserialize_map
    }

    of_serde_json! {
        deserialize_bool deserialize_unit
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_char deserialize_bytes deserialize_byte_buf
    }

    fn deserialize_f64<V: Visitor<'p>>(self, visitor: V) -> Result<V::Value, Error> {
        let text = self.0.value().map_err(refused)?;
        let mut reader = serde_json::Deserializer::from_str(text);
        let value = reader.deserialize_any(visitor)?;
        reader.end()?;
        Ok(value)
    }

    /// A name of a variant: text, though `serde` would take its number too.
    fn deserialize_identifier<V: Visitor<'p>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.next() {
            Some(b'"') => self.0.visit_string(visitor),
            _ => Err(Error::custom("expected a name")),
        }
    }

    fn deserialize_option<V: Visitor<'p>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.next() {
            Some(b'n') => self.deserialize_unit(visitor),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'p>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'p>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if !name.starts_with(super::PRIVATE) {
            return visitor.visit_newtype_struct(self);
        }
        let text = self.0.value().map_err(refused)?;
        let mut reader = serde_json::Deserializer::from_str(text);
        let value = reader.deserialize_newtype_struct(name, visitor)?;
        reader.end()?;
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'p>>(self, _len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'p>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'p>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        // A derived reader takes an array too, as the fields in their order: no schema says so.
        match self.0.next() {
            Some(b'[') => Err(Error::custom(NOT_AN_OBJECT)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'p>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0.next() {
            Some(b'{') => self.0.inside(b'}', |inside| {
                visitor.visit_enum(Variant(&mut *inside.source))
            }),
            Some(b'"') => visitor.visit_enum(Unit(self.0)),
            _ => Err(Error::custom(
                "expected a variant: its name, or an object of its name and content",
            )),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'p>>(self, visitor: V) -> Result<V::Value, Error> {
        // Nobody reads it, but it has to be JSON all the same.
        let text = self.0.value().map_err(refused)?;
        let mut reader = serde_json::Deserializer::from_str(text);
        let value = reader.deserialize_ignored_any(visitor)?;
        reader.end()?;
        Ok(value)
    }
}

impl<'p> SeqAccess<'p> for &mut Inside<'_, 'p> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'p>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        match self.another(b']')? {
            true => seed.deserialize(Reader(self.source)).map(Some),
            false => Ok(None),
        }
    }
}

impl<'p> MapAccess<'p> for &mut Inside<'_, 'p> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'p>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        if !self.another(b'}')? {
            return Ok(None);
        }
        if self.source.next() != Some(b'"') {
            return Err(self.source.misplaced());
        }
        let start = self.source.scanner.at;
        let raw = self.source.raw().map_err(refused)?;
        self.keys.insert(raw.as_bytes()).map_err(refused)?;
        let name = Name::read(raw).ok_or_else(|| refused(StrictError::Syntax(start)))?;
        self.source.expect(b':')?;
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'p>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(Reader(self.source))
    }
}

/// A variant that stands as its name alone.
struct Unit<'s, 'p>(&'s mut Source<'p>);

impl<'p> EnumAccess<'p> for Unit<'_, 'p> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'p>>(self, seed: T) -> Result<(T::Value, Self), Error> {
        let variant = seed.deserialize(Reader(&mut *self.0))?;
        Ok((variant, self))
    }
}

impl<'p> VariantAccess<'p> for Unit<'_, 'p> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'p>>(self, _seed: T) -> Result<T::Value, Error> {
        Err(Error::invalid_type(
            Unexpected::UnitVariant,
            &"newtype variant",
        ))
    }

    fn tuple_variant<V: Visitor<'p>>(self, _len: usize, _visitor: V) -> Result<V::Value, Error> {
        Err(Error::invalid_type(
            Unexpected::UnitVariant,
            &"tuple variant",
        ))
    }

    fn struct_variant<V: Visitor<'p>>(
        self,
        _fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Error> {
        Err(Error::invalid_type(
            Unexpected::UnitVariant,
            &"struct variant",
        ))
    }
}

/// A variant that stands as an object of its name and its content.
struct Variant<'s, 'p>(&'s mut Source<'p>);

impl<'p> EnumAccess<'p> for Variant<'_, 'p> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'p>>(self, seed: T) -> Result<(T::Value, Self), Error> {
        if self.0.next() != Some(b'"') {
            return Err(self.0.misplaced());
        }
        let variant = seed.deserialize(Reader(&mut *self.0))?;
        self.0.expect(b':')?;
        Ok((variant, self))
    }
}

impl<'p> VariantAccess<'p> for Variant<'_, 'p> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        serde::Deserialize::deserialize(Reader(self.0))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'p>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(Reader(self.0))
    }

    fn tuple_variant<V: Visitor<'p>>(self, _len: usize, visitor: V) -> Result<V::Value, Error> {
        Reader(self.0).deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'p>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        Reader(self.0).deserialize_struct("", &[], visitor)
    }
}

#[cfg(test)]
mod tests;
