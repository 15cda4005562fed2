//! Commands: what a person can ask for by palette, slash or key.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bezel_context::Context;
use bezel_plugin::{
    Contributions, Draft, DraftError, FacetScope, Names, PluginId, Problem, Registry,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::backend::Runner;

/// What a command was given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CommandArguments {
    /// What stands behind the slash name, trimmed.
    pub text: String,
    /// What another facet passes; `null` from a person.
    pub value: Value,
}

impl CommandArguments {
    /// Arguments as a person types them.
    pub fn text(text: impl Into<String>) -> Self {
        CommandArguments {
            text: text.into(),
            value: Value::Null,
        }
    }

    /// Arguments from code.
    pub fn value(value: impl Into<Value>) -> Self {
        CommandArguments {
            text: String::new(),
            value: value.into(),
        }
    }
}

/// Why a command did not do its work; shown to the person as it reads.
#[derive(Debug)]
pub struct CommandError(Box<dyn std::error::Error + Send + Sync>);

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for CommandError {
    fn from(error: E) -> Self {
        CommandError(error.into())
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What a command comes to.
pub type CommandResult = Result<(), CommandError>;

/// A value that an argument may take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// What is inserted.
    pub text: String,
    /// What it means, in a few words.
    pub detail: String,
}

type Handler =
    Arc<dyn Fn(Context, CommandArguments) -> BoxFuture<'static, CommandResult> + Send + Sync>;
type Completer = Arc<dyn Fn(Context, String) -> BoxFuture<'static, Vec<Completion>> + Send + Sync>;
type Condition = Arc<dyn Fn() -> bool + Send + Sync>;

/// Something to ask for.
#[derive(Clone)]
pub struct Command {
    pub(crate) id: Arc<str>,
    title: Arc<str>,
    description: Arc<str>,
    slash: Option<Arc<str>>,
    aliases: Vec<Arc<str>>,
    argument_hint: Arc<str>,
    hidden: bool,
    enabled: Option<Condition>,
    complete: Option<Completer>,
    handler: Option<Handler>,
    owner: Option<FacetScope>,
}

impl Command {
    /// A command; `id` is `feature.verb`, `title` what palette and help show.
    pub fn new(id: &str, title: &str) -> Self {
        Command {
            id: id.into(),
            title: title.into(),
            description: "".into(),
            slash: None,
            aliases: Vec::new(),
            argument_hint: "".into(),
            hidden: false,
            enabled: None,
            complete: None,
            handler: None,
            owner: None,
        }
    }

    /// Says in one sentence what it does.
    #[must_use]
    pub fn description(mut self, description: &str) -> Self {
        self.description = description.into();
        self
    }

    /// Makes it available as `/name`.
    #[must_use]
    pub fn slash(mut self, name: &str) -> Self {
        self.slash = Some(name.into());
        self
    }

    /// Another slash name, found but not listed.
    #[must_use]
    pub fn alias(mut self, name: &str) -> Self {
        self.aliases.push(name.into());
        self
    }

    /// What stands behind the slash name, for people: `<name>`, `[model]`.
    #[must_use]
    pub fn argument_hint(mut self, hint: &str) -> Self {
        self.argument_hint = hint.into();
        self
    }

    /// Keeps it out of palette and slash list; keys and code still reach it.
    #[must_use]
    pub fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// Offers it only while `condition` holds.
    #[must_use]
    pub fn enabled(mut self, condition: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.enabled = Some(Arc::new(condition));
        self
    }

    /// Completes its argument; gets what was typed so far.
    #[must_use]
    pub fn complete<F, Fut>(mut self, complete: F) -> Self
    where
        F: Fn(Context, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<Completion>> + Send + 'static,
    {
        self.complete = Some(Arc::new(move |cx, typed| complete(cx, typed).boxed()));
        self
    }

    /// What it does. Runs as a task of the facet; its context ends with the facet. An error is shown.
    #[must_use]
    pub fn run<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(Context, CommandArguments) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = CommandResult> + Send + 'static,
    {
        self.handler = Some(Arc::new(move |cx, arguments| {
            handler(cx, arguments).boxed()
        }));
        self
    }
}

/// A command as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandEntry {
    /// `feature.verb`.
    pub id: Arc<str>,
    /// What palette and help show.
    pub title: Arc<str>,
    /// One sentence, perhaps empty.
    pub description: Arc<str>,
    /// `/name`, without the slash.
    pub slash: Option<Arc<str>>,
    /// Other slash names.
    pub aliases: Vec<Arc<str>>,
    /// What stands behind the slash name, perhaps empty.
    pub argument_hint: Arc<str>,
    /// Whose it is.
    pub plugin: PluginId,
    /// Kept out of lists.
    pub hidden: bool,
    /// Whether it can be asked for now.
    pub enabled: bool,
    /// Whether its argument can be completed.
    pub completes: bool,
}

/// The commands under construction.
pub struct CommandDraft(Names<Command>);

impl CommandDraft {
    /// Sets a command; refused where another plugin has one of that id.
    pub fn set(&mut self, command: Command) {
        self.0.set(&command.id.clone(), command);
    }

    /// Sets a command on purpose, whoever has set it before.
    pub fn replace(&mut self, command: Command) {
        self.0.replace(&command.id.clone(), command);
    }

    /// Takes a command out. False where there is none.
    pub fn remove(&mut self, id: &str) -> bool {
        self.0.remove(id)
    }
}

/// The commands of a host, in order.
#[derive(Default)]
pub struct CommandSet {
    commands: Vec<(PluginId, Command)>,
}

impl Draft for CommandDraft {
    type Output = CommandSet;

    fn new() -> Self {
        CommandDraft(Names::new("command"))
    }

    fn begin(&mut self, plugin: &PluginId, registration: u64) {
        self.0.begin(plugin, registration);
    }

    fn finish(self, problems: &mut Vec<Problem>) -> Result<CommandSet, DraftError> {
        let mut commands: Vec<(PluginId, Command)> = Vec::new();
        for (name, named) in self.0.finish(problems) {
            let mut command = named.value;
            if command.handler.is_none() {
                let message =
                    format!("command `{name}` does nothing; give it a handler with `run`");
                return Err(DraftError {
                    plugin: named.plugin,
                    message,
                });
            }
            if let Some(slash) = command.slash.clone() {
                let taken = commands
                    .iter()
                    .find(|(_, other)| other.slash.as_ref() == Some(&slash));
                if let Some((kept, _)) = taken {
                    problems.push(Problem::Conflict {
                        kind: "slash name",
                        name: slash.to_string(),
                        kept: kept.clone(),
                        refused: named.plugin.clone(),
                    });
                    command.slash = None;
                }
            }
            commands.push((named.plugin, command));
        }
        Ok(CommandSet { commands })
    }
}

impl CommandSet {
    fn find(&self, id: &str) -> Option<&Command> {
        self.commands
            .iter()
            .map(|(_, command)| command)
            .find(|command| &*command.id == id)
    }

    pub(crate) fn entries(&self) -> Vec<CommandEntry> {
        let entry = |(plugin, command): &(PluginId, Command)| CommandEntry {
            id: Arc::clone(&command.id),
            title: Arc::clone(&command.title),
            description: Arc::clone(&command.description),
            slash: command.slash.clone(),
            aliases: command.aliases.clone(),
            argument_hint: Arc::clone(&command.argument_hint),
            plugin: plugin.clone(),
            hidden: command.hidden,
            enabled: command.enabled.as_ref().is_none_or(|enabled| enabled()),
            completes: command.complete.is_some(),
        };
        self.commands.iter().map(entry).collect()
    }
}

/// A facet's commands, and everybody's to list and run.
#[derive(Clone)]
pub struct Commands {
    contributions: Contributions<CommandDraft>,
    registry: Registry<CommandDraft>,
    scope: FacetScope,
    runner: Runner,
}

impl Commands {
    pub(crate) fn new(
        registry: &Registry<CommandDraft>,
        scope: &FacetScope,
        runner: Runner,
    ) -> Self {
        let contributions = registry.contributions(scope);
        Commands {
            contributions,
            registry: registry.clone(),
            scope: scope.clone(),
            runner,
        }
    }

    /// Adds a command.
    pub fn add(&self, mut command: Command) {
        command.owner = Some(self.scope.clone());
        self.contributions
            .add(move |draft| draft.set(command.clone()));
    }

    /// Contributes to the draft of all commands: to replace or take out those of earlier plugins.
    /// Commands set here run as tasks of this facet too.
    pub fn contribute(&self, contribute: impl Fn(&mut CommandDraft) + Send + Sync + 'static) {
        let scope = self.scope.clone();
        self.contributions.add(move |draft| {
            contribute(draft);
            draft.own_new(&scope);
        });
    }

    /// All commands, in order.
    pub fn list(&self) -> Vec<CommandEntry> {
        self.registry.current().entries()
    }

    /// The command behind a slash name or an alias of one.
    pub fn find_slash(&self, name: &str) -> Option<CommandEntry> {
        find_slash(self.list(), name)
    }

    /// Starts a command; what goes wrong is shown to the person.
    pub fn run(&self, id: &str, arguments: CommandArguments) {
        self.runner.run(id, arguments);
    }

    /// Values for the argument of a command, by what was typed so far; none where it offers none.
    pub async fn complete(&self, cx: &Context, id: &str, typed: &str) -> Vec<Completion> {
        let complete = self
            .registry
            .current()
            .find(id)
            .and_then(|command| command.complete.clone());
        match complete {
            None => Vec::new(),
            Some(complete) => cx
                .run(complete(cx.clone(), typed.to_owned()))
                .await
                .unwrap_or_default(),
        }
    }
}

impl CommandDraft {
    fn own_new(&mut self, scope: &FacetScope) {
        let unowned: Vec<String> = {
            let names = self.0.names().map(str::to_owned);
            names
                .filter(|name| {
                    self.0
                        .get(name)
                        .is_some_and(|named| named.value.owner.is_none())
                })
                .collect()
        };
        for name in unowned {
            if let Some(named) = self.0.get(&name) {
                let command = Command {
                    owner: Some(scope.clone()),
                    ..named.value.clone()
                };
                self.0.replace(&name, command);
            }
        }
    }
}

pub(crate) fn find_slash(entries: Vec<CommandEntry>, name: &str) -> Option<CommandEntry> {
    let alias = entries
        .iter()
        .position(|entry| entry.aliases.iter().any(|alias| &**alias == name));
    let exact = entries
        .iter()
        .position(|entry| entry.slash.as_deref() == Some(name));
    entries.into_iter().nth(exact.or(alias)?)
}

/// Why a command could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// There is none.
    #[error("there is no command `{0}`; ctrl+p lists all commands")]
    Unknown(String),
    /// It is not offered now.
    #[error("`{0}` is not available right now")]
    Disabled(Arc<str>),
}

/// Starts a command as a task of its facet. `failed` hears of an error or a panic.
pub(crate) fn start(
    commands: &CommandSet,
    id: &str,
    arguments: CommandArguments,
    failed: impl FnOnce(String) + Send + 'static,
) -> Result<(), RunError> {
    let command = commands
        .find(id)
        .ok_or_else(|| RunError::Unknown(id.to_owned()))?;
    if command.enabled.as_ref().is_some_and(|enabled| !enabled()) {
        return Err(RunError::Disabled(Arc::clone(&command.title)));
    }
    let (Some(handler), Some(owner)) = (command.handler.clone(), &command.owner) else {
        return Err(RunError::Unknown(id.to_owned()));
    };
    let title = Arc::clone(&command.title);
    owner.spawner().spawn("command", async move {
        let (cx, cancel) = Context::background().with_cancel();
        let _ended_with_the_facet = cancel.drop_guard();
        let run = AssertUnwindSafe(async move { handler(cx, arguments).await }).catch_unwind();
        match run.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failed(format!("{title}: {error}")),
            Err(_) => failed(format!(
                "{title} failed unexpectedly; the log has the details"
            )),
        }
    });
    Ok(())
}
