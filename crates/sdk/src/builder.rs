//! How an instance starts: its home, its configuration, its first tools.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use bezel_api_session::SessionFacet;
use bezel_cli::embed::{self, Additions, Given, Paths, Scratch};
use bezel_context::TaskScope;
use bezel_session_types::{ModelRef, PermissionMode};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use toml::{Table, Value};

use crate::bezel::{Bezel, Parts};
use crate::error::Error;
use crate::registry::{ProgramRuntime, Registry};
use crate::tool::{IntoOutput, Tool, ToolCall};

/// How an instance of Bezel starts. Made by [`Bezel::builder`].
#[derive(Default)]
#[must_use = "nothing starts before `start`"]
pub struct Builder {
    home: Home,
    user_config: bool,
    given: Vec<Given>,
    keys: BTreeMap<String, String>,
    permission_mode: Option<PermissionMode>,
    model: Option<ModelRef>,
    allowed: Vec<String>,
    tools: Vec<Tool>,
    plugins: Vec<SessionFacet>,
}

#[derive(Default)]
enum Home {
    #[default]
    Throwaway,
    Directory(PathBuf),
    User,
}

/// A model provider, as `[providers.NAME]` of the configuration has it.
#[derive(Clone)]
pub struct Provider {
    name: String,
    settings: Table,
    key: Option<String>,
    models: Vec<Value>,
}

impl Provider {
    /// A provider that speaks the protocol `kind`: `openai`, `openai-responses`, `anthropic`, `gemini`, `ollama`
    /// and others. Its models are called `NAME::MODEL`.
    pub fn new(name: &str, kind: &str) -> Self {
        Provider {
            name: name.to_owned(),
            settings: Table::from_iter([("kind".to_owned(), kind.into())]),
            key: None,
            models: Vec::new(),
        }
    }

    fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.settings.insert(key.to_owned(), value.into());
        self
    }

    /// Where it is, with the version path: `http://127.0.0.1:8080/v1`. The protocol's own place when left out.
    #[must_use]
    pub fn base_url(self, url: &str) -> Self {
        self.set("base_url", url)
    }

    /// Its key. It is in no file, no log, and in no tool's environment.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The environment variable that holds its key.
    #[must_use]
    pub fn key_variable(self, variable: &str) -> Self {
        self.set("api_key_env", variable)
    }

    /// One of its models, with its context window in tokens. Models that it lists itself need not be named.
    #[must_use]
    pub fn model(mut self, id: &str, context: u32) -> Self {
        let model = Table::from_iter([
            ("id".to_owned(), id.into()),
            ("context".to_owned(), i64::from(context).into()),
        ]);
        self.models.push(model.into());
        self
    }
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Provider");
        shown.field("name", &self.name).finish_non_exhaustive()
    }
}

impl Builder {
    /// Keeps everything under this directory, as `BEZEL_HOME` does: sessions are there at the next start, and
    /// `config.toml` in it is read. Without it the home is a throwaway one, gone when the instance has stopped.
    pub fn home(mut self, directory: impl Into<PathBuf>) -> Self {
        self.home = Home::Directory(directory.into());
        self
    }

    /// Uses the person's own home, as `bezel --standalone` does: sessions, credentials and configuration. Refused
    /// while a server of that home runs.
    pub fn user_home(mut self) -> Self {
        self.home = Home::User;
        self
    }

    /// Uses the person's own configuration and credentials with another home for all else.
    pub fn user_config(mut self) -> Self {
        self.user_config = true;
        self
    }

    /// Configuration as `config.toml` has it, over all files and variables.
    pub fn configuration(mut self, toml: impl Into<String>) -> Self {
        self.given.push(Given {
            name: "the configuration of this program".to_owned(),
            text: toml.into(),
        });
        self
    }

    /// Adds a model provider, over what the configuration has of that name.
    pub fn provider(mut self, provider: Provider) -> Self {
        let Provider {
            name,
            mut settings,
            key,
            models,
        } = provider;
        if let Some(key) = key {
            let letter = |letter: char| match letter.is_ascii_alphanumeric() {
                true => letter.to_ascii_uppercase(),
                false => '_',
            };
            // Numbered: names that differ in marks alone have keys of their own.
            let variable = format!(
                "BEZEL_SDK_KEY_{}_{}",
                self.keys.len(),
                name.chars().map(letter).collect::<String>()
            );
            settings.insert("api_key_env".to_owned(), variable.clone().into());
            self.keys.insert(variable, key);
        }
        if !models.is_empty() {
            settings.insert("models".to_owned(), models.into());
        }
        let of = |key: &str, value: Table| Table::from_iter([(key.to_owned(), value.into())]);
        self.given.push(Given {
            name: format!("provider `{name}` of this program"),
            text: of("providers", of(&name, settings)).to_string(),
        });
        self
    }

    /// The model of new sessions, as `PROVIDER::MODEL`.
    pub fn model(mut self, model: &str) -> Self {
        let table = Table::from_iter([("model".to_owned(), model.into())]);
        self.given.push(Given {
            name: "the model of this program".to_owned(),
            text: table.to_string(),
        });
        self.model = model.parse().ok();
        self
    }

    /// What the agent may do unasked in new sessions; what the configuration says when left out, and `auto` where that
    /// says nothing.
    pub fn permission_mode(mut self, mode: PermissionMode) -> Self {
        self.permission_mode = Some(mode);
        self
    }

    /// Lets a tool that does not say what it touches run unasked, whatever its arguments are. One that says it is
    /// judged by that: rules for it are `[[permissions.rules]]` of the configuration. What somebody's rules deny stays
    /// denied.
    pub fn allow(mut self, tool: &str) -> Self {
        self.allowed.push(tool.to_owned());
        self
    }

    /// Adds a tool: see [`Tool::new`].
    pub fn tool<Input, F, Fut, Output, Failure>(self, name: &str, description: &str, run: F) -> Self
    where
        Input: DeserializeOwned + JsonSchema,
        F: Fn(Input, ToolCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, Failure>> + Send + 'static,
        Output: IntoOutput,
        Failure: Display,
    {
        self.add_tool(Tool::new(name, description, run))
    }

    /// Adds a tool that says more of itself than its name.
    pub fn add_tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds a plugin of the program's own to every session: hooks, contributions, services. Its name must be one
    /// that no plugin of the product has.
    pub fn plugin(mut self, facet: SessionFacet) -> Self {
        self.plugins.push(facet);
        self
    }

    /// Starts the hosts: a server, and a thread for each session that is opened. The program's tools run on the
    /// runtime that this is called on.
    pub async fn start(mut self) -> Result<Bezel, Error> {
        self.given.extend(self.rules());
        let tasks = TaskScope::new();
        let registry = Registry::new(ProgramRuntime {
            handle: Handle::current(),
            spawner: tasks.spawner(),
        });
        for tool in self.tools {
            registry.add(tool)?;
        }
        let (paths, scratch) = paths(&self.home, self.user_config)?;
        let mut environment = embed::environment();
        environment.extend(self.keys);
        self.plugins.push(registry.facet());
        let additions = Additions {
            facets: self.plugins,
            given: self.given,
            environment: Some(environment.clone()),
            ..Additions::default()
        };
        let starting = tokio::task::spawn_blocking(move || embed::start(&paths, additions));
        let standalone = match starting.await {
            Ok(started) => started?,
            Err(error) => return Err(Error::Connection(error.to_string())),
        };
        let configured = standalone.permission_mode;
        Bezel::connect(Parts {
            standalone,
            registry,
            tasks,
            scratch,
            environment,
            permission_mode: self
                .permission_mode
                .or(configured)
                .unwrap_or(PermissionMode::Auto),
            model: self.model,
        })
        .await
    }

    fn rules(&self) -> Option<Given> {
        let rule = |tool: &String| {
            let words = [
                ("action", tool.as_str()),
                ("resource", "*"),
                ("effect", "allow"),
            ];
            let table = words.map(|(key, word)| (key.to_owned(), word.into()));
            Value::from(Table::from_iter(table))
        };
        let rules: Vec<Value> = self.allowed.iter().map(rule).collect();
        let rules = Table::from_iter([("rules".to_owned(), rules.into())]);
        let all = Table::from_iter([("permissions".to_owned(), rules.into())]);
        (!self.allowed.is_empty()).then(|| Given {
            name: "what this program allows".to_owned(),
            text: all.to_string(),
        })
    }
}

/// Where everything goes; the scratch directory where it is a throwaway home.
fn paths(home: &Home, user_config: bool) -> Result<(Paths, Option<Scratch>), Error> {
    let scratch = match home {
        Home::Throwaway => Some(embed::scratch()?),
        Home::Directory(_) | Home::User => None,
    };
    let directory: Option<&Path> = match home {
        Home::Throwaway => scratch.as_ref().map(Scratch::path),
        Home::Directory(directory) => Some(directory),
        Home::User => None,
    };
    let Some(directory) = directory else {
        return Ok((Paths::of_process()?, scratch));
    };
    let absolute = std::path::absolute(directory).map_err(|error| Error::Directory {
        path: directory.to_owned(),
        error,
    })?;
    let paths = match user_config {
        true => embed::throwaway(&Paths::of_process()?, &absolute),
        false => Paths::under(absolute),
    };
    Ok((paths, scratch))
}
