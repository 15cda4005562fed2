//! A `serde` serializer of compact JSON.

use std::fmt::Display;

use serde::Serialize;
use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;

use super::{PRIVATE, append, key, text};

/// Writes one value at the end of a buffer.
pub(super) struct Writer<'o> {
    pub(super) out: &'o mut Vec<u8>,
}

/// Writes what is inside an array or an object.
pub(super) struct Inside<'o> {
    out: &'o mut Vec<u8>,
    first: bool,
    /// What closes it.
    end: &'static [u8],
    /// What `serde_json` writes itself.
    private: Option<&'static str>,
}

impl<'o> Writer<'o> {
    fn begin(self, open: u8, end: &'static [u8]) -> Inside<'o> {
        self.out.push(open);
        Inside {
            out: self.out,
            first: true,
            end,
            private: None,
        }
    }

    fn variant(&mut self, name: &'static str) {
        self.out.push(b'{');
        text::quoted(self.out, name);
        self.out.push(b':');
    }

    fn plain<T: Serialize>(self, value: T) -> Result<(), Error> {
        serde_json::to_writer(self.out, &value)
    }
}

impl Inside<'_> {
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        append(self.out, value)
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        if let Some(structure) = self.private {
            let mut serializer = serde_json::Serializer::new(&mut *self.out);
            let mut structure = serializer.serialize_struct(structure, 1)?;
            return SerializeStruct::serialize_field(&mut structure, name, value);
        }
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        text::quoted(self.out, name);
        self.out.push(b':');
        append(self.out, value)
    }

    fn close(self) {
        self.out.extend_from_slice(self.end);
    }
}

macro_rules! plain {
    ($($method:ident $ty:ty,)*) => {
        $(fn $method(self, value: $ty) -> Result<(), Error> { self.plain(value) })*
    };
}

impl<'o> Serializer for Writer<'o> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Inside<'o>;
    type SerializeTuple = Inside<'o>;
    type SerializeTupleStruct = Inside<'o>;
    type SerializeTupleVariant = Inside<'o>;
    type SerializeMap = Inside<'o>;
    type SerializeStruct = Inside<'o>;
    type SerializeStructVariant = Inside<'o>;

    plain! {
        serialize_bool bool,
        serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64, serialize_i128 i128,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64, serialize_u128 u128,
        serialize_f32 f32, serialize_f64 f64,
        serialize_char char,
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        text::quoted(self.out, value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        mut self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.variant(variant);
        append(self.out, value)?;
        self.out.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Inside<'o>, Error> {
        Ok(self.begin(b'[', b"]"))
    }

    fn serialize_tuple(self, _len: usize) -> Result<Inside<'o>, Error> {
        Ok(self.begin(b'[', b"]"))
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<Inside<'o>, Error> {
        Ok(self.begin(b'[', b"]"))
    }

    fn serialize_tuple_variant(
        mut self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Inside<'o>, Error> {
        self.variant(variant);
        Ok(self.begin(b'[', b"]}"))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Inside<'o>, Error> {
        // The brace stands with the first key.
        Ok(Inside {
            out: self.out,
            first: true,
            end: b"}",
            private: None,
        })
    }

    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Inside<'o>, Error> {
        if name.starts_with(PRIVATE) {
            return Ok(Inside {
                out: self.out,
                first: true,
                end: b"",
                private: Some(name),
            });
        }
        Ok(self.begin(b'{', b"}"))
    }

    fn serialize_struct_variant(
        mut self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Inside<'o>, Error> {
        self.variant(variant);
        Ok(self.begin(b'{', b"}}"))
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        text::quoted(self.out, &value.to_string());
        Ok(())
    }
}

macro_rules! elements {
    ($($kind:ident $method:ident,)*) => {
        $(impl $kind for Inside<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.element(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        })*
    };
}

elements! {
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field,
}

macro_rules! fields {
    ($($kind:ident,)*) => {
        $(impl $kind for Inside<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        })*
    };
}

fields! { SerializeStruct, SerializeStructVariant, }

impl SerializeMap for Inside<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        key::begin(self.out, std::mem::take(&mut self.first), key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.out.push(b':');
        append(self.out, value)
    }

    fn end(self) -> Result<(), Error> {
        if self.first {
            self.out.push(b'{');
        }
        self.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::super::to_vec;
    use super::*;

    #[derive(Serialize)]
    struct Newtype(f64);
    #[derive(Serialize)]
    struct Unit;
    #[derive(Serialize)]
    struct Pair(i128, char);
    #[derive(Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Kind {
        Plain,
    }
    #[derive(Serialize)]
    enum Choice<'t> {
        Nothing,
        One(&'t str),
        Two(u8, Option<bool>),
        #[serde(rename = "na\"med")]
        Named {
            left: f32,
            right: (),
        },
    }
    #[derive(Serialize)]
    struct Everything<'t> {
        #[serde(flatten)]
        tail: BTreeMap<&'t str, Value>,
        choices: Vec<Choice<'t>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        absent: Option<u64>,
        raw: Box<RawValue>,
        keyed: BTreeMap<i16, Newtype>,
        by_kind: BTreeMap<Kind, Unit>,
        empty: (BTreeMap<String, u8>, [u8; 0], Pair),
        shown: std::net::IpAddr,
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<u64>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            ".{0,90}".prop_map(Into::into),
        ];
        leaf.prop_recursive(5, 48, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".{0,8}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_form_is_written_as_serde_json_writes_it(
            inner in value(), text in ".{0,90}", float in any::<f64>(), number in any::<i128>(), letter in any::<char>()
        ) {
            let everything = Everything {
                tail: BTreeMap::from([("a\n", inner.clone()), ("b", json!({}))]),
                choices: vec![
                    Choice::Nothing,
                    Choice::One(&text),
                    Choice::Two(7, Some(true)),
                    Choice::Two(8, None),
                    Choice::Named { left: float as f32, right: () },
                ],
                absent: None,
                raw: serde_json::value::to_raw_value(&inner).expect("a value"),
                keyed: BTreeMap::from([(-1, Newtype(float)), (2, Newtype(f64::NAN))]),
                by_kind: BTreeMap::from([(Kind::Plain, Unit)]),
                empty: (BTreeMap::new(), [], Pair(number, letter)),
                shown: std::net::Ipv4Addr::LOCALHOST.into(),
            };
            let theirs = serde_json::to_string(&everything).expect("a value");
            let ours = to_vec(&everything).expect("a value");
            prop_assert_eq!(String::from_utf8(ours).expect("text"), theirs);
        }
    }

    #[test]
    fn a_key_without_a_text_form_is_refused() {
        assert!(to_vec(&BTreeMap::from([(vec![1], 2)])).is_err());
    }
}
