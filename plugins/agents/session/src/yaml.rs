//! YAML as a tree in which every value knows its line: what is wrong is said where it stands, and keys keep their
//! order, which counts in lists of permissions.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) node: Node,
    /// From 1.
    pub(crate) line: u32,
}

/// A key, and where it stands, with its value.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) key: String,
    /// From 1.
    pub(crate) line: u32,
    pub(crate) value: Placed,
}

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Nothing,
    Flag(bool),
    /// Whole and not below zero, or another one.
    Number(Option<u64>),
    Text(String),
    List(Vec<Placed>),
    Map(Vec<Member>),
}

/// Something that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// From 1.
    pub(crate) line: u32,
    pub(crate) message: String,
}

/// Reads a map. What it is not, or what repeats a key, is wrong.
pub(crate) fn read(text: &str) -> Result<Vec<Member>, Wrong> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let read = serde_saphyr::from_str_with_options::<Spanned<Node>>(text, options);
    let placed = placed(read.map_err(|error| {
        let line = error.location().map_or(1, |location| line(location.line()));
        let message = error.without_snippet().to_string();
        // Where it is, is said apart.
        let what = message.split(" at line ").next().unwrap_or(&message);
        Wrong {
            line,
            message: format!("this is not YAML: {}", what.trim_end()),
        }
    })?);
    match placed.node {
        Node::Map(members) => Ok(members),
        // Comments alone.
        Node::Nothing => Ok(Vec::new()),
        other => Err(Wrong {
            line: placed.line,
            message: format!(
                "{} stands where keys and values belong, as in `description: What it is for`",
                other.kind()
            ),
        }),
    }
}

impl Node {
    /// For people.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Node::Nothing => "nothing",
            Node::Flag(_) => "`true` or `false`",
            Node::Number(_) => "a number",
            Node::Text(_) => "a text",
            Node::List(_) => "a list",
            Node::Map(_) => "keys and values",
        }
    }
}

fn line(line: u64) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX).max(1)
}

fn placed(node: Spanned<Node>) -> Placed {
    Placed {
        line: line(node.referenced.line()),
        node: node.value,
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Node, E> {
        Ok(Node::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Number(number.try_into().ok()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Number(Some(number)))
    }

    fn visit_f64<E>(self, _number: f64) -> Result<Node, E> {
        Ok(Node::Number(None))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<Spanned<Node>>()? {
            items.push(placed(item));
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            members.push(Member {
                line: line(key.referenced.line()),
                key: key.value,
                value: placed(map.next_value::<Spanned<Node>>()?),
            });
        }
        Ok(Node::Map(members))
    }
}
