//! Reads the layers and puts one over the other: user, project, environment, flags.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::check::{self, Checked};
use super::diagnostic::{ConfigErrors, Diagnostic, Excerpt, Place};
use super::rules;
use super::trust::{TrustError, TrustStore};
use super::types::{Config, schema};

/// Variables that set a key, over the files and under the flags.
pub const VARIABLES: &[(&str, &str)] = &[
    ("BEZEL_MODEL", "model"),
    ("BEZEL_THINKING", "thinking"),
    ("BEZEL_THEME", "theme"),
    ("BEZEL_PERMISSION_MODE", "permission_mode"),
    ("BEZEL_SERVER_IDLE_EXIT_MINUTES", "server.idle_exit_minutes"),
    (
        "BEZEL_SESSION_IDLE_EXIT_MINUTES",
        "session.idle_exit_minutes",
    ),
    ("BEZEL_TUI_MOUSE", "tui.mouse"),
];

/// The list that every layer adds to.
const RULES: &str = "/permissions/rules";

/// What to read.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The user's file; it need not exist.
    pub user: PathBuf,
    /// Where the project's file is looked for: here, and up to the root of the repository.
    pub directory: Option<PathBuf>,
    /// The trusted projects.
    pub trust: PathBuf,
    /// The environment; other variables than [`VARIABLES`] are passed over.
    pub environment: BTreeMap<String, String>,
    /// What whoever starts the hosts says, over all of these and in order.
    pub given: Vec<Given>,
    /// Keys that flags set: the flag, the key, its text.
    pub flags: Vec<(&'static str, &'static str, String)>,
}

/// Configuration that is in no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// What it is called where something in it is wrong, in place of a file's name.
    pub name: String,
    /// TOML, as in a file.
    pub text: String,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A line of a file.
    File {
        /// Which file.
        file: PathBuf,
        /// From 1.
        line: usize,
    },
    /// An environment variable.
    Variable(&'static str),
    /// A flag.
    Flag(&'static str),
}

/// A checked configuration.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What holds.
    pub config: Config,
    /// Where each key that was set came from, by dotted path.
    pub origins: BTreeMap<String, Origin>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
    /// The project's file, where it was passed over because its project is not trusted.
    pub untrusted: Option<PathBuf>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Something in it is wrong.
    #[error(transparent)]
    Invalid(#[from] ConfigErrors),
    /// It could not be told whether the project is trusted.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// One layer, checked.
pub(super) struct Layer {
    from: From,
    checked: Checked,
}

enum From {
    File { file: PathBuf, text: String },
    Variable(&'static str),
    Flag(&'static str),
}

/// The layers, lowest first, and what they come to.
pub(super) struct Stack {
    layers: Vec<Layer>,
    /// The merged values.
    pub(super) merged: Value,
}

/// Reads, checks and merges all layers. Reports everything that is wrong in any of them.
///
/// `plugins` lists the product's plugins, and whether it needs them; it is asked only where it matters.
pub fn load(
    sources: &Sources,
    plugins: impl Fn() -> Vec<(String, bool)>,
) -> Result<Loaded, LoadError> {
    // A worker reads the configuration again for each session that it hosts.
    static SCHEMA: LazyLock<Value> = LazyLock::new(schema);

    let mut reading = Reading {
        schema: &SCHEMA,
        layers: Vec::new(),
        wrong: Vec::new(),
    };
    reading.file(&sources.user);
    let mut untrusted = None;
    if let Some(file) = sources
        .directory
        .as_deref()
        .and_then(project_file)
        .filter(|file| *file != sources.user)
    {
        let project = project_of(&file);
        if TrustStore::new(sources.trust.clone()).trusts(project)? {
            reading.file(&file);
        } else {
            untrusted = Some(file);
        }
    }
    for (variable, key) in VARIABLES {
        if let Some(text) = sources
            .environment
            .get(*variable)
            .filter(|text| !text.is_empty())
        {
            reading.word(From::Variable(variable), key, text);
        }
    }
    for given in &sources.given {
        reading.text(Path::new(&given.name), given.text.clone());
    }
    for (flag, key, text) in &sources.flags {
        reading.word(From::Flag(flag), key, text);
    }
    let Reading {
        layers, mut wrong, ..
    } = reading;
    let mut merged = Value::Object(Map::new());
    let mut rules: Vec<Value> = Vec::new();
    for layer in &layers {
        if let Some(Value::Array(more)) = layer.checked.value.pointer(RULES) {
            rules.extend(more.iter().cloned());
        }
        overlay(&mut merged, &layer.checked.value);
    }
    // A project adds to the user's rules: in their place it could lift what they deny.
    if let Some(all) = merged.pointer_mut(RULES) {
        *all = Value::Array(rules);
    }
    let stack = Stack { layers, merged };
    let complete = wrong.is_empty();
    wrong.extend(rules::check(&stack, plugins, complete));
    if !wrong.is_empty() {
        return Err(ConfigErrors(wrong).into());
    }
    let config = serde_json::from_value(stack.merged.clone()).map_err(|error| {
        let message = format!("the configuration cannot be read: {error}");
        ConfigErrors(vec![Diagnostic {
            message,
            hint: None,
            place: Place::Named("all layers together".to_owned()),
        }])
    })?;
    Ok(Loaded {
        config,
        origins: stack.origins(),
        files: stack.files(),
        untrusted,
    })
}

/// The nearest `.bezel/config.toml` from `directory` up to the root of its repository.
pub fn project_file(directory: &Path) -> Option<PathBuf> {
    for ancestor in directory.ancestors() {
        let file = ancestor.join(".bezel").join("config.toml");
        if file.is_file() {
            return Some(file);
        }
        if ancestor.join(".git").exists() {
            return None;
        }
    }
    None
}

/// The project that a file found by [`project_file`] belongs to.
pub fn project_of(file: &Path) -> &Path {
    file.parent().and_then(Path::parent).unwrap_or(file)
}

struct Reading<'a> {
    schema: &'a Value,
    layers: Vec<Layer>,
    wrong: Vec<Diagnostic>,
}

impl Reading<'_> {
    fn file(&mut self, file: &Path) {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                let hint = match error.kind() {
                    io::ErrorKind::InvalidData => "save it as UTF-8".to_owned(),
                    _ => "make it a readable file, or remove it".to_owned(),
                };
                let message = format!("the configuration file cannot be read: {error}");
                let place = Place::Named(file.display().to_string());
                self.wrong.push(Diagnostic {
                    message,
                    hint: Some(hint),
                    place,
                });
                return;
            }
        };
        self.text(file, text);
    }

    fn text(&mut self, file: &Path, text: String) {
        match check::check(file, &text, self.schema) {
            Ok(checked) => self.layers.push(Layer {
                from: From::File {
                    file: file.to_owned(),
                    text,
                },
                checked,
            }),
            Err(errors) => self.wrong.extend(errors.0),
        }
    }

    /// A key that is set by one word, checked as if it stood in a file.
    fn word(&mut self, from: From, key: &str, word: &str) {
        let pointer = format!("/properties/{}", key.replace('.', "/properties/"));
        let kind = self.kind_of(&pointer);
        let wanted = match kind {
            Some("integer") => "a whole number, for example 10",
            _ => "true or false",
        };
        let literal = match kind {
            Some("integer" | "boolean") if !word.contains(['\n', '#']) => word.to_owned(),
            _ => toml::Value::String(word.to_owned()).to_string(),
        };
        let named = Place::Named(match &from {
            From::Variable(name) => format!("environment variable {name}"),
            From::Flag(name) => format!("flag {name}"),
            From::File { file, .. } => file.display().to_string(),
        });
        let text = format!("{key} = {literal}");
        match check::check(Path::new(""), &text, self.schema) {
            Ok(checked) => self.layers.push(Layer { from, checked }),
            Err(errors) => self
                .wrong
                .extend(errors.0.into_iter().take(1).map(|mut diagnostic| {
                    if diagnostic.message.starts_with("this is not TOML") {
                        diagnostic.message = format!("`{key}` cannot be {word:?}");
                        diagnostic.hint = Some(format!("it takes {wanted}"));
                    }
                    Diagnostic {
                        place: named.clone(),
                        ..diagnostic
                    }
                })),
        }
    }

    fn kind_of(&self, pointer: &str) -> Option<&str> {
        let mut schema = self.schema;
        for step in pointer.split('/').skip(1) {
            schema = &schema[step];
            if let Some(name) = schema["$ref"].as_str() {
                schema = self.schema.pointer(name.strip_prefix('#')?)?;
            }
        }
        schema["type"].as_str()
    }
}

/// Lays `upper` over `lower`: tables merge, everything else replaces.
fn overlay(lower: &mut Value, upper: &Value) {
    match (lower, upper) {
        (Value::Object(lower), Value::Object(upper)) => {
            for (key, value) in upper {
                overlay(lower.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (lower, upper) => *lower = upper.clone(),
    }
}

impl Stack {
    /// Where the key at `path` was set last.
    pub(super) fn place(&self, path: &str) -> Place {
        let found = self
            .layers
            .iter()
            .rev()
            .find_map(|layer| Some((layer, layer.checked.places.get(path)?)));
        match found {
            Some((
                Layer {
                    from: From::File { file, text },
                    ..
                },
                span,
            )) => Place::Text(Excerpt::new(file, text, Range::clone(span))),
            Some((
                Layer {
                    from: From::Variable(name),
                    ..
                },
                _,
            )) => Place::Named(format!("environment variable {name}")),
            Some((
                Layer {
                    from: From::Flag(name),
                    ..
                },
                _,
            )) => Place::Named(format!("flag {name}")),
            None => Place::Named(path.to_owned()),
        }
    }

    fn origins(&self) -> BTreeMap<String, Origin> {
        let mut origins = BTreeMap::new();
        for layer in &self.layers {
            for (path, span) in &layer.checked.places {
                let origin = match &layer.from {
                    From::File { file, text } => Origin::File {
                        file: file.clone(),
                        line: Excerpt::new(file, text, span.clone()).line,
                    },
                    From::Variable(name) => Origin::Variable(name),
                    From::Flag(name) => Origin::Flag(name),
                };
                origins.insert(path.clone(), origin);
            }
        }
        origins
    }

    fn files(&self) -> Vec<PathBuf> {
        let files = self.layers.iter().filter_map(|layer| match &layer.from {
            From::File { file, .. } => Some(file.clone()),
            _ => None,
        });
        files.collect()
    }
}
