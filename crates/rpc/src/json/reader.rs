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
        deserialize_str deserialize_string deserialize_identifier
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
        self.deserialize_any(visitor)
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
        Reader(self.0).deserialize_map(visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::super::read;
    use crate::strict::check;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code)]
    struct Newtype(f64);
    #[derive(Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
    enum Kind {
        Plain,
    }
    #[derive(Debug, Deserialize)]
    #[expect(dead_code)]
    enum Choice {
        Nothing,
        One(String),
        Two(u8, Option<bool>),
        Named { left: f32, right: () },
    }
    #[derive(Debug, Deserialize)]
    #[serde(tag = "t")]
    #[expect(dead_code)]
    enum Tagged {
        A { a: i128 },
        B,
    }
    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code)]
    enum Any {
        Number(i64),
        Text(String),
        Many(Vec<Any>),
    }
    #[derive(Debug, Deserialize)]
    #[expect(dead_code)]
    struct Everything {
        choices: Vec<Choice>,
        #[serde(default)]
        absent: Option<u64>,
        raw: Option<Box<RawValue>>,
        #[serde(default)]
        keyed: BTreeMap<i16, Newtype>,
        #[serde(default)]
        by_kind: BTreeMap<Option<Kind>, (char, [u8; 2])>,
        tagged: Option<Tagged>,
        any: Option<Any>,
        #[serde(flatten)]
        rest: BTreeMap<String, Value>,
    }
    #[derive(Debug, Deserialize)]
    #[expect(dead_code)]
    struct Known {
        b: Option<String>,
        c: Option<Vec<u32>>,
    }

    /// It is read as it is when the strict rules are checked first and `serde_json` reads it then.
    fn same<T: DeserializeOwned + std::fmt::Debug>(payload: &[u8]) {
        let apart = check(payload)
            .ok()
            .and_then(|text| serde_json::from_str::<T>(text).ok());
        let once = read::<T>(payload);
        assert_eq!(
            format!("{:?}", once.as_ref().ok()),
            format!("{:?}", apart.as_ref()),
            "{:?}: {once:?}",
            String::from_utf8_lossy(payload)
        );
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            "(.|[\"\\\\\n\t/]){0,90}".prop_map(Into::into),
        ];
        leaf.prop_recursive(5, 48, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-d\"\n]{0,2}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Some form of [`Everything`], right or wrong.
    fn form() -> impl Strategy<Value = String> {
        let pieces = vec![
            r#""choices":["Nothing",{"One":"a\u00e9\ud83d\ude00\/"},{"Two":[1,null]}]"#,
            r#""choices":[{"Named":{"left":1.5,"right":null,"more":[{}]}},{"Nothing":null}]"#,
            r#""choices":["One"]"#,
            r#""choices":[{"Nothing":null,"One":"x"}]"#,
            r#""choices":[7]"#,
            r#""absent":null"#,
            r#""absent":-1"#,
            r#""absent":9007199254740993"#,
            r#""raw":{"a": [1,2 , 3.50],"b":"\n"}"#,
            r#""raw":{"a":1,"a":2}"#,
            r#""raw":[01]"#,
            r#""keyed":{"-1":1,"2":1e3}"#,
            r#""keyed":{" 1":1}"#,
            r#""keyed":{"x":1}"#,
            r#""keyed":{"1":1,"\u0031":2}"#,
            r#""by_kind":{"Plain":["x",[1,2]]}"#,
            r#""by_kind":{"Plain":["x",[1,2,3]]}"#,
            r#""tagged":{"a":12,"t":"A"}"#,
            r#""tagged":{"t":"B","z":{"y":"\ud800"}}"#,
            r#""any":[1,"two",[3]]"#,
            r#""any":true"#,
            r#""other":{"deep":[[["x"]],nul]}"#,
            r#""other":{"deep":[[["x"]],null,]}"#,
            r#""other":"\u12"#,
            r#""other":" \u12g4""#,
            "\"other\":\"a\nb\"",
            r#""choices":[]"#,
        ];
        let pieces = prop::collection::vec(prop::sample::select(pieces), 0..4);
        (
            pieces,
            "[ \n]{0,2}",
            prop::sample::select(vec!["", " ", " x", "}", ","]),
        )
            .prop_map(|(pieces, space, end)| {
                format!(
                    "{{{space}\"choices\":[]{space},{}}}{end}",
                    pieces.join(&format!("{space},"))
                )
                .replace(
                    if pieces.iter().any(|piece| piece.starts_with("\"choices")) {
                        "\"choices\":[]"
                    } else {
                        "\u{0}"
                    },
                    "\"first\":1",
                )
                .replace(",}", "}")
            })
    }

    proptest! {
        #[test]
        fn a_value_is_read_as_in_two_passes(value in json(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut payload = serde_json::to_vec(&value).expect("a value");
            same::<Value>(&payload);
            same::<Known>(&payload);
            same::<Any>(&payload);
            same::<Box<RawValue>>(&payload);
            let at = at.index(payload.len());
            payload[at] = byte;
            same::<Value>(&payload);
            same::<Known>(&payload);
            payload.truncate(at);
            same::<Value>(&payload);
        }

        #[test]
        fn every_type_is_read_as_in_two_passes(form in form()) {
            same::<Everything>(form.as_bytes());
            same::<Value>(form.as_bytes());
        }
    }

    #[test]
    fn depth_counts_across_what_is_read_and_what_is_passed_over() {
        for depth in [62, 63, 64, 65] {
            let nested = "[".repeat(depth) + &"]".repeat(depth);
            same::<Value>(nested.as_bytes());
            same::<Known>(format!("{{\"x\":{nested}}}").as_bytes());
            same::<Known>(format!("{{\"c\":{nested}}}").as_bytes());
        }
    }
}
