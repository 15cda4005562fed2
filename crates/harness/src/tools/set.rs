//! The tools of a session: an immutable set; a change is another set.

use std::sync::{Arc, OnceLock};

use bezel_session_types::{Tool, ToolDefinition};
use indexmap::IndexMap;
use jsonschema::ValidationError;
use serde_json::{Map, Value};

use super::output::OutputSchema;
use crate::schema::{self, Schema};

/// A schema compiled, or why it does not compile.
pub(super) type Compiled = Result<Arc<Schema>, Arc<ValidationError<'static>>>;

pub(super) fn compile(schema: &Value) -> Compiled {
    schema::compile(schema).map_err(Arc::new)
}

/// What a registration is known by: its base registration and its ordered wrappers. Two sets whose
/// entries of one name have equal identities have the same tool there, however often it was rebuilt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ToolIdentity(Arc<str>);

impl ToolIdentity {
    /// An identity from any text that stands for the registration.
    pub fn new(identity: impl Into<Arc<str>>) -> Self {
        ToolIdentity(identity.into())
    }
}

/// A tool under its name.
#[derive(Clone)]
pub struct ToolRegistration {
    /// The name that a model calls it by.
    pub name: Arc<str>,
    /// The tool, wrappers and all.
    pub tool: Arc<dyn Tool>,
    /// What it is known by.
    pub identity: ToolIdentity,
    /// Whose it is, for those who read of its faults.
    pub origin: ToolOrigin,
}

/// Whose a tool is. What those are is not known here: it is repeated where a tool is at fault.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOrigin {
    /// Who registered it, as hooks name theirs.
    pub registrant: Arc<str>,
    /// The same and who stands around it, as a sentence goes on with after the tool's name: `of …`.
    pub described: Arc<str>,
    /// The same for programs: members of the details of a fault.
    pub details: Arc<Map<String, Value>>,
}

impl ToolOrigin {
    /// The tool as a text names it.
    pub(super) fn named(&self, tool: &str) -> String {
        match self.described.is_empty() {
            true => format!("`{tool}`"),
            false => format!("`{tool}` {}", self.described),
        }
    }

    /// The details of a fault of the tool's own.
    pub(super) fn fault(&self, code: &str) -> Value {
        let mut details = Map::clone(&self.details);
        details.insert("code".to_owned(), code.into());
        Value::Object(details)
    }
}

/// An immutable set of tools. A model request keeps the one that it was made with.
#[derive(Default)]
pub struct ToolSet {
    tools: IndexMap<Arc<str>, RegisteredTool>,
    definitions: Arc<[ToolDefinition]>,
}

/// A tool of a set with its validators, compiled when first needed.
pub(crate) struct RegisteredTool {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) identity: ToolIdentity,
    pub(crate) origin: ToolOrigin,
    pub(crate) validator: OnceLock<Compiled>,
    pub(crate) output: OutputSchema,
}

/// What became of a tool that the model called.
pub(crate) enum Lookup<'a> {
    Found(&'a RegisteredTool),
    /// It was there when the request was made, and was replaced or removed since.
    Stale,
    /// The model was never told of it.
    Unknown,
}

impl ToolSet {
    /// A set of these tools; of two with one name the later stays.
    pub fn new(registrations: impl IntoIterator<Item = ToolRegistration>) -> Self {
        let tools: IndexMap<Arc<str>, RegisteredTool> = registrations
            .into_iter()
            .map(
                |ToolRegistration {
                     name,
                     tool,
                     identity,
                     origin,
                 }| {
                    (
                        name,
                        RegisteredTool {
                            output: OutputSchema::of(tool.spec()),
                            tool,
                            identity,
                            origin,
                            validator: OnceLock::new(),
                        },
                    )
                },
            )
            .collect();
        let definitions = tools
            .iter()
            .map(|(name, registered)| ToolDefinition {
                name: Arc::clone(name),
                description: Arc::clone(&registered.tool.spec().description),
                parameters: Arc::clone(&registered.tool.spec().parameters),
            })
            .collect();
        ToolSet { tools, definitions }
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.tools.keys()
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|registered| &registered.tool)
    }

    /// What a model is told.
    pub fn definitions(&self) -> Arc<[ToolDefinition]> {
        Arc::clone(&self.definitions)
    }

    /// Takes over what `previous` compiled for registrations that stayed.
    pub(crate) fn adopt(&self, previous: &ToolSet) {
        for (name, registered) in &self.tools {
            // A registration that makes its tool anew each time may declare other schemas.
            let declares = |registered: &RegisteredTool| {
                let spec = registered.tool.spec();
                (Arc::clone(&spec.parameters), spec.output.clone())
            };
            let kept = previous.tools.get(name).filter(|old| {
                old.identity == registered.identity && declares(old) == declares(registered)
            });
            let Some(kept) = kept else { continue };
            if let Some(compiled) = kept.validator.get() {
                registered.validator.get_or_init(|| compiled.clone());
            }
            if let Some(compiled) = kept.output.compiled.get() {
                registered.output.compiled.get_or_init(|| compiled.clone());
            }
        }
    }

    /// The tool to run for a call that was answered to a request made with `advertised`.
    pub(crate) fn look_up(&self, name: &str, advertised: &ToolSet) -> Lookup<'_> {
        match (advertised.tools.get(name), self.tools.get(name)) {
            (None, _) => Lookup::Unknown,
            (Some(then), Some(now)) if then.identity == now.identity => Lookup::Found(now),
            (Some(_), _) => Lookup::Stale,
        }
    }
}

impl std::fmt::Debug for ToolSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.tools.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::arguments::decode;
    use super::*;
    use bezel_context::Context;
    use bezel_session_types::{
        ExecutionMode, Replay, ToolError, ToolInvocation, ToolOutput, ToolSpec,
    };
    use futures::future::BoxFuture;

    struct Nothing(ToolSpec);

    impl Tool for Nothing {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }

        fn execute(
            &self,
            _cx: Context,
            _invocation: ToolInvocation,
        ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
            Box::pin(async { Ok(ToolOutput::default()) })
        }
    }

    fn set(identities: [&str; 2]) -> ToolSet {
        let registrations = ["a", "b"]
            .into_iter()
            .zip(identities)
            .map(|(name, identity)| {
                let tool = Nothing(ToolSpec {
                    label: name.into(),
                    description: name.into(),
                    parameters: Arc::new(json!({ "type": "object" })),
                    output: None,
                    execution_mode: ExecutionMode::Parallel,
                    replay: Replay::Never,
                });
                let identity = ToolIdentity::new(identity);
                ToolRegistration {
                    name: name.into(),
                    tool: Arc::new(tool),
                    identity,
                    origin: ToolOrigin::default(),
                }
            });
        ToolSet::new(registrations)
    }

    #[test]
    fn a_schema_is_compiled_when_first_needed_and_kept_while_its_registration_stays() {
        let first = set(["a1", "b1"]);
        assert!(first.tools["a"].validator.get().is_none());
        for (name, registered) in &first.tools {
            decode(name, registered, &json!({})).unwrap();
        }
        let second = set(["a1", "b2"]);
        second.adopt(&first);
        let compiled = |set: &ToolSet, name: &str| {
            set.tools[name]
                .validator
                .get()
                .map(|compiled| Arc::clone(compiled.as_ref().unwrap()))
        };
        let kept = compiled(&second, "a").unwrap();
        assert!(Arc::ptr_eq(&kept, &compiled(&first, "a").unwrap()));
        assert!(compiled(&second, "b").is_none());
    }
}
