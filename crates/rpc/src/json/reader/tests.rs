//! What is read in one pass is what two would read.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::read;
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

#[test]
fn an_array_is_no_object_whose_fields_stand_in_their_order() {
    let refused = |text: &str| read::<Known>(text.as_bytes()).unwrap_err().to_string();
    for text in ["[null, null]", "[]", r#"["b", [1]]"#] {
        assert!(
            refused(text).contains(super::NOT_AN_OBJECT),
            "{}",
            refused(text)
        );
    }
    assert!(read::<Choice>(br#"{"Named": [1.5, null]}"#).is_err());
    assert!(read::<Choice>(br#"{"Named": {"left": 1.5, "right": null}}"#).is_ok());
    assert!(read::<Known>(br#"{"c": [1]}"#).is_ok());
}

/// It is read as it is when the strict rules are checked first and `serde_json` reads it then.
fn same<T: DeserializeOwned + std::fmt::Debug>(payload: &[u8]) {
    let apart = check(payload)
        .ok()
        .and_then(|text| serde_json::from_str::<T>(text).ok());
    let once = read::<T>(payload);
    if let Err(error) = &once
        && error.to_string().contains(super::NOT_AN_OBJECT)
    {
        // The one thing that `serde_json` takes and this does not; a test of its own holds it.
        return;
    }
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

#[test]
fn the_tag_of_a_variant_is_its_name_and_never_its_number() {
    assert!(read::<Tagged>(br#"{"t":"B"}"#).is_ok());
    let error = read::<Tagged>(br#"{"t":1}"#).unwrap_err().to_string();
    assert!(error.contains("expected a name"), "{error}");
}
