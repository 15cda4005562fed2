//! Tools as ordered contributions.
//!
//! The finished set is immutable: a request keeps the one that it was made with, and a call of a tool that was
//! replaced or removed since runs nothing and answers `tool.stale`. A call that runs keeps its tool to the end,
//! whatever becomes of the plugin.
//!
//! What is not right is refused by the name of its plugin, and disturbs nothing else: a name that another plugin
//! has set ([`Problem::Conflict`]: the earlier stays), a name that is no tool name or is reserved, a schema that is not
//! one, a wrapper around what nobody sets, a contribution or wrapper that panics.

mod names;
mod schema;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use bezel_context::Context;
use bezel_plugin::{Draft, DraftError, Names, PluginId, Problem};
use bezel_session_types::{Access, Tool, ToolError, ToolInvocation, ToolOutput, ToolSpec};
use futures::future::BoxFuture;
use serde_json::Value;

type Allows = Arc<dyn Fn(&str) -> bool + Send + Sync>;
type Wrap = Arc<dyn Fn(Arc<dyn Tool>) -> Arc<dyn Tool> + Send + Sync>;

/// Tools under construction.
pub struct ToolDraft {
    names: Names<(Arc<dyn Tool>, u64)>,
    /// How often the contribution that runs has changed.
    changes: u64,
    wrappers: Vec<(String, PluginId, u64, Wrap)>,
    restrictions: Vec<(PluginId, Allows)>,
    previous: Option<Arc<ToolSet>>,
}

/// What makes a tool the same tool: its base registration and its wrappers' in order. A rebuild that
/// leaves both unchanged makes no call stale, also where a contribution makes its tool anew each time that it runs;
/// what it sets after it said that it has changed is another tool, unless it is the very same value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ToolIdentity {
    registration: u64,
    /// At which change of its contribution the tool came.
    since: u64,
    wrappers: Vec<u64>,
}

impl std::fmt::Display for ToolIdentity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:x}.{:x}.", self.registration, self.since)?;
        let mut wrappers = self.wrappers.iter();
        wrappers.try_for_each(|wrapper| write!(formatter, "{wrapper:x}."))
    }
}

/// A finished tool.
#[derive(Clone)]
pub struct RegisteredTool {
    /// The name that a model calls it by.
    pub name: String,
    /// The tool with its wrappers around it.
    pub tool: Arc<dyn Tool>,
    /// What makes it this tool.
    pub identity: ToolIdentity,
    /// Who set the tool itself.
    pub plugin: PluginId,
    /// Who has something around it, from the inside out.
    pub wrapped_by: Vec<PluginId>,
    /// What its contribution set.
    set: SetTool,
}

/// What a contribution set, to be told from what it sets at the next rebuild.
#[derive(Clone, Copy)]
struct SetTool {
    /// How often the contribution had changed.
    changes: u64,
    /// Where the tool is without its wrappers. They hold it, so that no other comes to be there meanwhile.
    address: usize,
}

/// The finished tools, in order.
#[derive(Clone, Default)]
pub struct ToolSet {
    /// In order of first setting.
    pub tools: Vec<RegisteredTool>,
}

impl ToolDraft {
    /// Adds a tool; refused where another plugin has set the name.
    pub fn set(&mut self, name: &str, tool: Arc<dyn Tool>) {
        self.names.set(name, (tool, self.changes));
    }

    /// Sets a tool on purpose, whoever has set it before.
    pub fn replace(&mut self, name: &str, tool: Arc<dyn Tool>) {
        self.names.replace(name, (tool, self.changes));
    }

    /// Takes a tool out. False where nobody had set it.
    pub fn remove(&mut self, name: &str) -> bool {
        self.names.remove(name)
    }

    /// Leaves out every tool that `allows` says no to, whoever sets it and whether before or after this.
    pub fn restrict(&mut self, allows: impl Fn(&str) -> bool + Send + Sync + 'static) {
        let (plugin, _) = self.names.contributor();
        self.restrictions.push((plugin, Arc::new(allows)));
    }

    /// The names so far, in order.
    pub fn list(&self) -> Vec<String> {
        self.names.names().map(str::to_owned).collect()
    }

    /// Puts something around a tool, outside of all earlier wrappers. The tool may come later.
    pub fn wrap(
        &mut self,
        name: &str,
        wrap: impl Fn(Arc<dyn Tool>) -> Arc<dyn Tool> + Send + Sync + 'static,
    ) {
        let (plugin, registration) = self.names.contributor();
        self.wrappers
            .push((name.to_owned(), plugin, registration, Arc::new(wrap)));
    }
}

impl Draft for ToolDraft {
    type Output = ToolSet;

    fn new() -> Self {
        ToolDraft {
            names: Names::new("tool"),
            changes: 0,
            wrappers: Vec::new(),
            restrictions: Vec::new(),
            previous: None,
        }
    }

    fn prepare(&mut self, previous: &Arc<ToolSet>, contributions: usize) {
        self.names.reserve(contributions);
        self.previous = Some(Arc::clone(previous));
    }

    fn begin(&mut self, plugin: &PluginId, registration: u64) {
        self.names.begin(plugin, registration);
    }

    fn changes(&mut self, changes: u64) {
        self.changes = changes;
    }

    fn finish(self, problems: &mut Vec<Problem>) -> Result<ToolSet, DraftError> {
        let ToolDraft {
            names,
            wrappers,
            restrictions,
            previous,
            ..
        } = self;
        let allowed = |name: &str| allow(&restrictions, name);
        let mut known = Known::of(previous.as_deref());
        let places: Vec<Option<usize>> = wrappers
            .iter()
            .map(|(name, ..)| names.position(name))
            .collect();
        let named = names.finish(problems);
        let mut tools = Vec::with_capacity(named.len());
        // Where among the tools each name is, in the order of the names.
        let mut kept = Vec::with_capacity(named.len());
        for (name, named) in named {
            if !allowed(&name)? {
                kept.push(None);
                continue;
            }
            kept.push(Some(tools.len()));
            let (tool, changes) = named.value;
            let set = SetTool {
                changes,
                address: Arc::as_ptr(&tool).addr(),
            };
            let before = known.get(&name, named.registration);
            // Looked at once, not at each rebuild.
            if before.is_none_or(|before| before.set.address != set.address) {
                validate(&name, &named.plugin, tool.as_ref())?;
            }
            let same = before.filter(|before| {
                before.set.changes == changes || before.set.address == set.address
            });
            tools.push(RegisteredTool {
                name,
                tool,
                identity: ToolIdentity {
                    registration: named.registration,
                    since: same.map_or(changes, |before| before.identity.since),
                    wrappers: Vec::new(),
                },
                plugin: named.plugin,
                wrapped_by: Vec::new(),
                set,
            });
        }
        for ((name, plugin, registration, wrap), place) in wrappers.into_iter().zip(places) {
            let place = place.and_then(|place| kept.get(place).copied().flatten());
            match place.and_then(|place| tools.get_mut(place)) {
                None if !allowed(&name)? => {}
                None => problems.push(Problem::Failed(DraftError {
                    plugin,
                    message: format!("it wraps tool `{name}`, which no plugin sets"),
                })),
                Some(registered) => {
                    let within = Arc::clone(&registered.tool);
                    let wrapping = AssertUnwindSafe(|| wrap(Arc::clone(&within)));
                    let wrapper = catch_unwind(wrapping).map_err(|_| DraftError {
                        plugin: plugin.clone(),
                        message: format!("its wrapper around tool `{name}` panicked"),
                    })?;
                    registered.tool = Arc::new(Wrapped { wrapper, within });
                    registered.identity.wrappers.push(registration);
                    validate(&name, &plugin, registered.tool.as_ref())?;
                    registered.wrapped_by.push(plugin);
                }
            }
        }
        Ok(ToolSet { tools })
    }
}

/// Whether no restriction leaves the name out.
fn allow(restrictions: &[(PluginId, Allows)], name: &str) -> Result<bool, DraftError> {
    for (plugin, allows) in restrictions {
        match catch_unwind(AssertUnwindSafe(|| allows(name))) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(_) => {
                return Err(DraftError {
                    plugin: plugin.clone(),
                    message: format!(
                        "its restriction panicked when it was asked for tool `{name}`"
                    ),
                });
            }
        }
    }
    Ok(true)
}

/// The tools of the previous set.
struct Known<'set> {
    /// Those that were not come to yet. The order of a draft is mostly that of the set.
    rest: std::slice::Iter<'set, RegisteredTool>,
    all: &'set [RegisteredTool],
    /// All of them, from when one was not found in order.
    by_name: Option<HashMap<&'set str, &'set RegisteredTool>>,
}

impl<'set> Known<'set> {
    fn of(previous: Option<&'set ToolSet>) -> Self {
        let all = previous.map_or(&[][..], |set| &set.tools);
        Known {
            rest: all.iter(),
            all,
            by_name: None,
        }
    }

    /// What the contribution had set under the name.
    fn get(&mut self, name: &str, registration: u64) -> Option<&'set RegisteredTool> {
        if self.by_name.is_none() {
            while let Some(tool) = self.rest.as_slice().first() {
                if tool.identity.registration > registration {
                    break;
                }
                self.rest.next();
                if tool.identity.registration == registration && tool.name == name {
                    return Some(tool);
                }
            }
        }
        let all = self.all;
        let by_name = self
            .by_name
            .get_or_insert_with(|| all.iter().map(|tool| (tool.name.as_str(), tool)).collect());
        let found = by_name.get(name).copied();
        found.filter(|tool| tool.identity.registration == registration)
    }
}

/// A wrapper and what it is around: a wrapper that does not say what a call touches does not hide what the
/// tool says.
struct Wrapped {
    wrapper: Arc<dyn Tool>,
    within: Arc<dyn Tool>,
}

impl Tool for Wrapped {
    fn spec(&self) -> &ToolSpec {
        self.wrapper.spec()
    }

    fn execute(
        &self,
        cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        self.wrapper.execute(cx, invocation)
    }

    fn accesses(&self, arguments: &Value, directory: &Path) -> Option<Vec<Access>> {
        let said = self.wrapper.accesses(arguments, directory);
        said.or_else(|| self.within.accesses(arguments, directory))
    }
}

fn validate(name: &str, plugin: &PluginId, tool: &dyn Tool) -> Result<(), DraftError> {
    let refuse = |message: String| {
        Err(DraftError {
            plugin: plugin.clone(),
            message,
        })
    };
    if let Err(refused) = names::check(name, plugin) {
        return refuse(refused.to_string());
    }
    let Ok(spec) = catch_unwind(AssertUnwindSafe(|| tool.spec())) else {
        return refuse(format!(
            "tool `{name}` panicked when it was asked what it is"
        ));
    };
    let kind = spec.parameters.get("type");
    if kind.and_then(Value::as_str) != Some("object") {
        return refuse(format!(
            "the parameters of tool `{name}` are not a JSON Schema of an object"
        ));
    }
    let schemas = [
        ("parameters", Some(&spec.parameters)),
        ("output", spec.output.as_ref()),
    ];
    for (what, schema) in schemas {
        if let Some(Err(error)) = schema.map(schema::check) {
            return refuse(format!(
                "the {what} of tool `{name}` are not a valid JSON Schema: {error}"
            ));
        }
    }
    Ok(())
}
