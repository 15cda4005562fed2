//! What a person should know of plugins that failed: said while it happens and nowhere kept, once a run for each
//! thing that failed.

use std::collections::HashSet;

/// Remarks in one run. What fails in so many ways is told by the log.
const MOST: usize = 50;

/// Stands between the item that a remark comes after and its number.
const MARK: &str = ":remark:";

/// What was remarked in this run.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    said: HashSet<(String, String)>,
    number: u64,
}

impl Remarks {
    /// A run begins.
    pub(crate) fn begin(&mut self) {
        self.said.clear();
    }

    /// The item's id, where this is not said yet. `about` is whose failure it is, and of what; `after` the newest
    /// item.
    pub(crate) fn id(
        &mut self,
        (plugin, what): (&str, &str),
        after: Option<&str>,
    ) -> Option<String> {
        let about = (plugin.to_owned(), what.to_owned());
        if self.said.len() >= MOST || !self.said.insert(about) {
            return None;
        }
        self.number += 1;
        let after = anchor(after.unwrap_or("start"));
        Some(format!("{after}{MARK}{}", self.number))
    }
}

/// Whether the item of this id is a remark.
pub(crate) fn is_remark(id: &str) -> bool {
    id.contains(MARK)
}

/// The item of the tree that an item stands for or comes after.
pub(crate) fn anchor(id: &str) -> &str {
    id.split_once(MARK).map_or(id, |(after, _)| after)
}

/// Of a hook.
pub(crate) fn failed(plugin: &str, hook: &str, message: &str) -> String {
    let message = message.trim_end_matches('.');
    format!("Plugin `{plugin}` failed in its hook `{hook}`: {message}.")
}

/// Of something contributed.
pub(crate) fn refused(message: &str) -> String {
    let message = message.trim_end_matches('.');
    format!("Not everything that plugins contribute is in place: {message}.")
}
