//! Which names a tool may have: what every provider takes, and what none of them and nobody else means by it.
//!
//! A provider that refuses one name refuses the whole request, so that one tool would end every turn of the
//! session. Which provider answers can change from one request to the next: what one of them refuses is refused
//! for all.

use bezel_plugin::PluginId;

/// The longest name, in bytes: OpenAI's and Anthropic's limit.
const LONGEST: usize = 64;

/// Names that OpenAI's models have for what is theirs, and requests with tools of these names are refused for.
const OF_PROVIDERS: &[&str] = &["functions", "multi_tool_use", "python", "tool_search"];

/// What the names of tools of MCP servers begin with: `mcp__SERVER__TOOL`, as other programs' rules name them.
const MCP: &str = "mcp__";

/// The plugin that may contribute them.
const MCP_PLUGIN: &str = "mcp";

/// A name that a tool cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NameRefused {
    #[error(
        "`{0}` is not a tool name: 1 to {LONGEST} of A-Z, a-z, 0-9, `_` and `-`, beginning with a letter"
    )]
    Malformed(String),
    #[error(
        "the tool name `{0}` is reserved: model providers have tools of their own under it and refuse requests with \
         another; choose another name"
    )]
    OfProviders(String),
    #[error(
        "the tool name `{0}` is reserved: names of tools of MCP servers begin with `{MCP}`, and the plugin \
         `{MCP_PLUGIN}` contributes those; choose another name"
    )]
    OfMcp(String),
}

/// Whether a plugin may have a tool of this name.
pub(super) fn check(name: &str, plugin: &PluginId) -> Result<(), NameRefused> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let starts = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic());
    if !starts || name.len() > LONGEST || !name.bytes().all(fits) {
        return Err(NameRefused::Malformed(name.to_owned()));
    }
    // In any case: models do not keep the letters apart.
    if OF_PROVIDERS
        .iter()
        .any(|theirs| theirs.eq_ignore_ascii_case(name))
    {
        return Err(NameRefused::OfProviders(name.to_owned()));
    }
    let begins = name
        .get(..MCP.len())
        .is_some_and(|begins| begins.eq_ignore_ascii_case(MCP));
    match begins && plugin.as_str() != MCP_PLUGIN {
        true => Err(NameRefused::OfMcp(name.to_owned())),
        false => Ok(()),
    }
}
