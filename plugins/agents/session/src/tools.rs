//! Which tools an agent has.

use bezel_permissions_contract::Wildcard;

/// Names with wildcards and what they say, in order: the last that matches counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolFilter {
    /// What holds for a name that none matches.
    pub(crate) otherwise: bool,
    /// In lower case: other programs' files name the same tools with capitals.
    pub(crate) entries: Vec<(Wildcard, bool)>,
}

impl Default for ToolFilter {
    fn default() -> Self {
        ToolFilter {
            otherwise: true,
            entries: Vec::new(),
        }
    }
}

impl ToolFilter {
    /// Whether the agent has the tool.
    pub(crate) fn allows(&self, tool: &str) -> bool {
        let tool = tool.to_lowercase();
        let said = self
            .entries
            .iter()
            .rev()
            .find(|(pattern, _)| pattern.matches(&tool));
        said.map_or(self.otherwise, |(_, allowed)| *allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_that_matches_counts_and_capitals_do_not() {
        let filter = |otherwise, entries: &[(&str, bool)]| ToolFilter {
            otherwise,
            entries: entries
                .iter()
                .map(|(name, allowed)| (Wildcard::new(name), *allowed))
                .collect(),
        };
        for (filter, tool, allowed) in [
            (filter(true, &[]), "bash", true),
            (filter(false, &[("read", true)]), "read", true),
            (filter(false, &[("read", true)]), "Read", true),
            (filter(false, &[("read", true)]), "reader", false),
            (filter(true, &[("*", false), ("read", true)]), "read", true),
            (filter(true, &[("read", true), ("*", false)]), "read", false),
            (filter(true, &[("mcp_*", false)]), "mcp_a_b", false),
            (filter(true, &[("*_write", false)]), "a_write_write", false),
            (filter(true, &[("*_write", false)]), "a_write_", true),
            (filter(true, &[("e?it", false)]), "edit", false),
        ] {
            assert_eq!(filter.allows(tool), allowed, "{filter:?} {tool}");
        }
    }
}
