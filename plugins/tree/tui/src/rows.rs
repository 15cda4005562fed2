//! The tree as rows of a list: one indentation a branch, so that a conversation without one reads straight.

use std::collections::{HashMap, HashSet};

use bezel_api_tui::SelectItem;
use bezel_session_types::EntryId;
use bezel_tree_contract::{Node, NodeKind};

/// Indentations that a row has at most.
const DEEPEST: usize = 12;

/// Which nodes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// What people said, summaries, what has a label, and where the conversation stands.
    Messages,
    /// Everything.
    All,
}

impl Shown {
    pub(crate) fn other(self) -> Self {
        match self {
            Shown::Messages => Shown::All,
            Shown::All => Shown::Messages,
        }
    }
}

/// A row: a node, how deep in branches it lies, and whether it begins one.
#[derive(Debug, PartialEq, Eq)]
struct Row<'nodes> {
    node: &'nodes Node,
    depth: usize,
    begins: bool,
}

/// The rows of the tree, branches in the order of their beginning. The newest message of the path that the
/// conversation is on is selected at first.
pub(crate) fn items(nodes: &[Node], tip: Option<&EntryId>, shown: Shown) -> Vec<SelectItem<Node>> {
    let path = path(nodes, tip);
    let rows = rows(nodes, tip, shown);
    let current = rows.iter().rposition(|row| path.contains(&row.node.id));
    let item = |(place, row): (usize, Row<'_>)| {
        let node = row.node;
        let mut label = "  ".repeat(row.depth.min(DEEPEST));
        label.push_str(if row.begins { "├ " } else { "" });
        label.push_str(if path.contains(&node.id) {
            "● "
        } else {
            "○ "
        });
        label.push_str(&words(node));
        let detail = node.label.as_deref().map(|label| format!("[{label}]"));
        SelectItem::new(label, node.clone())
            .detail(detail.unwrap_or_default())
            .search(format!("{} {}", node.text, node.id))
            .current(Some(place) == current)
    };
    rows.into_iter().enumerate().map(item).collect()
}

fn words(node: &Node) -> String {
    let text = &node.text;
    match node.kind {
        NodeKind::User => format!("› {text}"),
        NodeKind::Assistant => text.clone(),
        NodeKind::Tool => format!("⚙ {text}"),
        NodeKind::Compaction => format!("── compacted: {text}"),
        NodeKind::Branch => format!("↰ left branch: {text}"),
        NodeKind::Synthetic | NodeKind::Other => format!("↪ {text}"),
    }
}

/// The ids from the tip to the root.
fn path(nodes: &[Node], tip: Option<&EntryId>) -> HashSet<EntryId> {
    let parents: HashMap<&EntryId, Option<&EntryId>> = nodes
        .iter()
        .map(|node| (&node.id, node.parent.as_ref()))
        .collect();
    let mut path = HashSet::new();
    let mut next = tip;
    while let Some(id) = next {
        path.insert(id.clone());
        next = parents.get(id).copied().flatten();
    }
    path
}

fn rows<'nodes>(nodes: &'nodes [Node], tip: Option<&EntryId>, shown: Shown) -> Vec<Row<'nodes>> {
    let visible = |node: &Node| {
        shown == Shown::All
            || matches!(
                node.kind,
                NodeKind::User | NodeKind::Branch | NodeKind::Compaction
            )
            || node.label.is_some()
            || Some(&node.id) == tip
    };
    // The nearest visible node above each; parents come before their children.
    let mut above: HashMap<&EntryId, Option<usize>> = HashMap::new();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut roots = Vec::new();
    for (place, node) in nodes.iter().enumerate() {
        let parent = node.parent.as_ref();
        let over = parent.and_then(|parent| above.get(parent).copied().flatten());
        if !visible(node) {
            above.insert(&node.id, over);
            continue;
        }
        match over {
            Some(over) => children[over].push(place),
            None => roots.push(place),
        }
        above.insert(&node.id, Some(place));
    }
    let mut rows = Vec::new();
    let forks = roots.len() > 1;
    let mut open: Vec<(usize, usize, bool)> = roots
        .into_iter()
        .rev()
        .map(|root| (root, usize::from(forks), forks))
        .collect();
    while let Some((place, depth, begins)) = open.pop() {
        rows.push(Row {
            node: &nodes[place],
            depth,
            begins,
        });
        let below = &children[place];
        let forks = below.len() > 1;
        let deeper = depth + usize::from(forks);
        open.extend(below.iter().rev().map(|child| (*child, deeper, forks)));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, parent: Option<&str>, kind: NodeKind) -> Node {
        Node {
            id: EntryId::new(id),
            parent: parent.map(EntryId::new),
            seq: 0,
            at: String::new(),
            kind,
            text: id.to_owned(),
            label: None,
        }
    }

    fn drawn(nodes: &[Node], tip: &str, shown: Shown) -> Vec<String> {
        let tip = EntryId::new(tip);
        let rows = rows(nodes, Some(&tip), shown);
        let line = |row: &Row<'_>| {
            let begins = if row.begins { "├ " } else { "" };
            format!("{}{begins}{}", "  ".repeat(row.depth), row.node.id)
        };
        rows.iter().map(line).collect()
    }

    #[test]
    fn branches_are_indented_and_a_straight_conversation_is_not() {
        use NodeKind::{Assistant, User};
        let nodes = [
            node("one", None, User),
            node("a1", Some("one"), Assistant),
            node("two", Some("a1"), User),
            node("a2", Some("two"), Assistant),
            node("three", Some("a1"), User),
            node("four", Some("a2"), User),
        ];
        assert_eq!(
            drawn(&nodes[..4], "a2", Shown::Messages),
            ["one", "two", "a2"]
        );
        assert_eq!(
            drawn(&nodes, "three", Shown::Messages),
            ["one", "  ├ two", "  four", "  ├ three"]
        );
        assert_eq!(
            drawn(&nodes, "three", Shown::All),
            ["one", "a1", "  ├ two", "  a2", "  four", "  ├ three"]
        );
        let path = path(&nodes, Some(&EntryId::new("three")));
        assert!(path.contains(&EntryId::new("a1")) && !path.contains(&EntryId::new("two")));
    }

    #[test]
    fn a_very_long_conversation_is_laid_out_without_recursion() {
        let ids: Vec<String> = (0..50_000).map(|place| format!("n{place}")).collect();
        let nodes: Vec<Node> = (0..ids.len())
            .map(|place| {
                let parent = place.checked_sub(1).map(|before| ids[before].as_str());
                node(&ids[place], parent, NodeKind::User)
            })
            .collect();
        assert_eq!(rows(&nodes, None, Shown::All).len(), nodes.len());
    }
}
