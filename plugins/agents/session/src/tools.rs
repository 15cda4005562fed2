//! Which tools an agent has.

/// Names with wildcards and what they say, in order: the last that matches counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolFilter {
    /// What holds for a name that none matches.
    pub(crate) otherwise: bool,
    /// In lower case: other programs' files name the same tools with capitals.
    pub(crate) entries: Vec<(String, bool)>,
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
            .find(|(pattern, _)| matches(pattern.as_bytes(), tool.as_bytes()));
        said.map_or(self.otherwise, |(_, allowed)| *allowed)
    }
}

/// Whether a pattern is all of a text: `*` is any part of it, `?` one byte. It goes back to the last `*` alone.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                star = Some((at, read));
                continue;
            }
            Some(one)
                if text
                    .get(read)
                    .is_some_and(|byte| *one == b'?' || one == byte) =>
            {
                (at, read) = (at + 1, read + 1);
                continue;
            }
            None if read == text.len() => return true,
            _ => {}
        }
        match &mut star {
            Some((after, from)) if *from < text.len() => {
                *from += 1;
                (at, read) = (*after, *from);
            }
            _ => return false,
        }
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
                .map(|(name, allowed)| ((*name).to_owned(), *allowed))
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
