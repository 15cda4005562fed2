//! Checks one TOML text against the schema, and finds all that is wrong with it at once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{ConfigErrors, Diagnostic, Excerpt, Place, nearest};
use super::formats;

/// A file that holds to the schema.
#[derive(Debug)]
pub(super) struct Checked {
    /// What it says.
    pub(super) value: Value,
    /// Where each of its keys stands, by dotted path.
    pub(super) places: BTreeMap<String, Range<usize>>,
}

/// Checks `text`, which was read from `file`.
pub(super) fn check(file: &Path, text: &str, schema: &Value) -> Result<Checked, ConfigErrors> {
    let (document, syntax) = DeTable::parse_recoverable(text);
    let mut walk = Walk {
        file,
        text,
        schema,
        found: Vec::new(),
        places: BTreeMap::new(),
    };
    for error in syntax {
        walk.report(
            error.span().unwrap_or(0..0),
            format!("this is not TOML: {}", error.message()),
            None,
        );
    }
    let value = if walk.found.is_empty() {
        let span = document.span();
        walk.table(schema, "", document.get_ref(), span)
    } else {
        Value::Null
    };
    if walk.found.is_empty() {
        return Ok(Checked {
            value,
            places: walk.places,
        });
    }
    walk.found.sort_by_key(|(at, _)| *at);
    walk.found.dedup();
    Err(ConfigErrors(
        walk.found
            .into_iter()
            .map(|(_, diagnostic)| diagnostic)
            .collect(),
    ))
}

struct Walk<'a> {
    file: &'a Path,
    text: &'a str,
    schema: &'a Value,
    found: Vec<(usize, Diagnostic)>,
    places: BTreeMap<String, Range<usize>>,
}

impl<'a> Walk<'a> {
    fn report(&mut self, span: Range<usize>, message: String, hint: Option<String>) {
        let place = Place::Text(Excerpt::new(self.file, self.text, span.clone()));
        self.found.push((
            span.start,
            Diagnostic {
                message,
                hint,
                place,
            },
        ));
    }

    /// Hides what the last report marks: it may be a key that was put where its variable's name belongs.
    fn mask_last(&mut self) {
        if let Some((
            _,
            Diagnostic {
                place: Place::Text(excerpt),
                ..
            },
        )) = self.found.last_mut()
        {
            excerpt.mask();
        }
    }

    /// Follows references and leaves `null` alternatives out: TOML has no null.
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        let mut schema = schema;
        loop {
            if let Some(name) = schema["$ref"].as_str() {
                let Some(target) = name
                    .strip_prefix('#')
                    .and_then(|path| self.schema.pointer(path))
                else {
                    return schema;
                };
                schema = target;
            } else if let Some(first) = schema["anyOf"].as_array().and_then(|all| all.first()) {
                schema = first;
            } else {
                return schema;
            }
        }
    }

    fn value(&mut self, schema: &'a Value, path: &str, value: &Spanned<DeValue<'_>>) -> Value {
        let schema = self.resolve(schema);
        let span = value.span();
        let expected = match &schema["type"] {
            Value::String(kind) => Some(kind.as_str()),
            Value::Array(kinds) => kinds
                .iter()
                .filter_map(Value::as_str)
                .find(|kind| *kind != "null"),
            _ if schema.get("oneOf").is_some() => Some("string"),
            _ => None,
        };
        match (expected, value.get_ref()) {
            (Some("object"), DeValue::Table(table)) => self.table(schema, path, table, span),
            (Some("array"), DeValue::Array(items)) => {
                let items = items.iter().enumerate();
                Value::Array(
                    items
                        .map(|(at, item)| {
                            self.value(&schema["items"], &format!("{path}[{at}]"), item)
                        })
                        .collect(),
                )
            }
            (Some("string"), DeValue::String(text)) => self.text(schema, path, text, span),
            (Some("boolean"), DeValue::Boolean(flag)) => Value::Bool(*flag),
            (Some("integer" | "number"), DeValue::Integer(_))
            | (Some("number"), DeValue::Float(_)) => {
                self.number(schema, path, value.get_ref(), span)
            }
            (None, other) => self.anything(path, other, span),
            (Some(expected), other) => {
                let message = format!(
                    "`{path}` must be {}, not {}",
                    kind_name(expected),
                    value_name(other)
                );
                let hint = match choices(schema) {
                    some if some.is_empty() => type_hint(expected, other),
                    some => Some(format!("one of {}", some.join(", "))),
                };
                self.report(span, message, hint);
                Value::Null
            }
        }
    }

    fn table(
        &mut self,
        schema: &'a Value,
        path: &str,
        table: &DeTable<'_>,
        span: Range<usize>,
    ) -> Value {
        let mut out = Map::new();
        let properties = schema["properties"].as_object();
        let additional = schema
            .get("additionalProperties")
            .filter(|more| **more != Value::Bool(false));
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let here = join(path, name);
            self.places.insert(here.clone(), key.span());
            if let Some(member) = properties.and_then(|all| all.get(name)) {
                out.insert(name.to_owned(), self.value(member, &here, value));
            } else if let Some(member) = additional {
                self.key_format(schema, name, key.span());
                out.insert(name.to_owned(), self.value(member, &here, value));
            } else {
                let known = properties
                    .into_iter()
                    .flat_map(|all| all.keys())
                    .map(String::as_str);
                let top = &self.schema["properties"];
                let hint = match nearest(name, known.clone()) {
                    _ if !path.is_empty() && top.get(name).is_some() => format!(
                        "`{name}` belongs to no table: write it above the first line in [ ]"
                    ),
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("known here: {}", known.collect::<Vec<_>>().join(", ")),
                };
                let inside = if path.is_empty() {
                    String::new()
                } else {
                    format!(" in `{path}`")
                };
                self.report(
                    key.span(),
                    format!("unknown key `{name}`{inside}"),
                    Some(hint),
                );
            }
        }
        for required in schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            if !table.keys().any(|key| key.get_ref() == required) {
                self.report(
                    span.clone(),
                    format!("`{path}` needs `{required}`"),
                    Some("add it here".to_owned()),
                );
            }
        }
        Value::Object(out)
    }

    fn key_format(&mut self, schema: &Value, name: &str, span: Range<usize>) {
        let Some(format) = schema["propertyNames"]["format"].as_str() else {
            return;
        };
        if let Err(mismatch) = formats::check(format, name) {
            self.report(
                span,
                format!("`{name}` is not {}", mismatch.expected),
                Some(mismatch.hint),
            );
        }
    }

    fn text(&mut self, schema: &Value, path: &str, text: &str, span: Range<usize>) -> Value {
        let choices = choices(schema);
        if !choices.is_empty() && !choices.contains(&text) {
            let hint = match nearest(text, choices.iter().copied()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("one of {}", choices.join(", ")),
            };
            self.report(span, format!("`{path}` cannot be {text:?}"), Some(hint));
        } else if let Some(format) = schema["format"].as_str()
            && let Err(mismatch) = formats::check(format, text)
        {
            self.report(
                span,
                format!("`{path}` must be {}", mismatch.expected),
                Some(mismatch.hint),
            );
            if format == "variable" {
                self.mask_last();
            }
        }
        Value::String(text.to_owned())
    }

    fn number(
        &mut self,
        schema: &Value,
        path: &str,
        value: &DeValue<'_>,
        span: Range<usize>,
    ) -> Value {
        let number = match value {
            DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
                .ok()
                .map(Number::from),
            DeValue::Float(float) => float.as_str().parse().ok().and_then(Number::from_f64),
            _ => None,
        };
        let Some(number) = number else {
            self.report(
                span,
                format!("`{path}` is a number that Bezel cannot take"),
                Some("use a smaller one".to_owned()),
            );
            return Value::Null;
        };
        let (low, high) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
        let plain = number.as_f64().unwrap_or(0.0);
        if low.is_some_and(|low| plain < low) || high.is_some_and(|high| plain > high) {
            let hint = match (low, high) {
                (Some(low), Some(high)) => format!("from {low} to {high}"),
                (Some(low), None) => format!("{low} or more"),
                (None, Some(high)) => format!("at most {high}"),
                (None, None) => String::new(),
            };
            self.report(span, format!("`{path}` cannot be {number}"), Some(hint));
        }
        Value::Number(number)
    }

    /// What a plugin reads itself: taken as it is. Dates become text.
    fn anything(&mut self, path: &str, value: &DeValue<'_>, span: Range<usize>) -> Value {
        match value {
            DeValue::String(text) => Value::String(text.clone().into_owned()),
            DeValue::Boolean(flag) => Value::Bool(*flag),
            DeValue::Datetime(time) => Value::String(time.to_string()),
            DeValue::Integer(_) | DeValue::Float(_) => self.number(&Value::Null, path, value, span),
            DeValue::Array(items) => {
                let items = items.iter().enumerate();
                Value::Array(
                    items
                        .map(|(at, item)| {
                            self.anything(&format!("{path}[{at}]"), item.get_ref(), item.span())
                        })
                        .collect(),
                )
            }
            DeValue::Table(table) => {
                let members = table.iter().map(|(key, value)| {
                    let here = join(path, key.get_ref());
                    self.places.insert(here.clone(), key.span());
                    (
                        key.get_ref().clone().into_owned(),
                        self.anything(&here, value.get_ref(), value.span()),
                    )
                });
                Value::Object(members.collect())
            }
        }
    }
}

/// The texts that a schema allows; empty where it allows any.
fn choices(schema: &Value) -> Vec<&str> {
    match (&schema["enum"], &schema["oneOf"]) {
        (Value::Array(all), _) => all.iter().filter_map(Value::as_str).collect(),
        (_, Value::Array(all)) => all.iter().filter_map(|one| one["const"].as_str()).collect(),
        _ => Vec::new(),
    }
}

/// `path.key`, the key quoted where TOML would ask for it.
pub fn join(path: &str, key: &str) -> String {
    let bare = !key.is_empty()
        && key
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || "-_".contains(character));
    let key = if bare {
        key.to_owned()
    } else {
        format!("{key:?}")
    };
    if path.is_empty() {
        key
    } else {
        format!("{path}.{key}")
    }
}

fn kind_name(kind: &str) -> &'static str {
    match kind {
        "object" => "a table",
        "array" => "a list",
        "string" => "text",
        "boolean" => "true or false",
        "integer" => "a whole number",
        _ => "a number",
    }
}

fn value_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn type_hint(expected: &str, value: &DeValue<'_>) -> Option<String> {
    match (expected, value) {
        ("string", DeValue::Integer(number)) => Some(format!("put it in quotes: \"{number}\"")),
        ("string", DeValue::Float(number)) => Some(format!("put it in quotes: \"{number}\"")),
        ("string", DeValue::Boolean(flag)) => Some(format!("put it in quotes: \"{flag}\"")),
        ("integer" | "number", DeValue::String(text)) if text.parse::<f64>().is_ok() => {
            Some(format!("without quotes: {text}"))
        }
        ("boolean", DeValue::String(text)) if matches!(text.as_ref(), "true" | "false") => {
            Some(format!("without quotes: {text}"))
        }
        ("array", _) => Some("put it in [ ]".to_owned()),
        _ => None,
    }
}
