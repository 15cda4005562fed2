//! What a directory held at one moment: paths and what stood there.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// A path below the directory, as bytes with `/` between its parts: file names need not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TreePath(Vec<u8>);

/// The name of a file's content in the object store: 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct BlobId(Box<str>);

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Node {
    /// A file whose content is kept.
    File {
        /// The twelve permission bits.
        mode: u32,
        /// Its content.
        blob: BlobId,
    },
    /// A symbolic link.
    Link {
        /// Where it points, as bytes.
        target: TreePath,
    },
    /// A directory.
    Directory {
        /// The twelve permission bits.
        mode: u32,
    },
    /// Something whose content is not kept.
    Unkept {
        /// Why.
        reason: Unkept,
    },
}

/// Why the content of something is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unkept {
    /// It is over the limit.
    Large,
    /// It cannot be read.
    Unreadable,
    /// It changed again and again while it was read.
    Changing,
    /// It is a socket, a pipe or a device.
    Special,
    /// An ignore file of git names it.
    Ignored,
    /// It is part of what a version control keeps of its own.
    Repository,
    /// It lies on another file system than the directory.
    Elsewhere,
}

/// Everything that was there. The directory itself is not in it.
pub(crate) type Tree = BTreeMap<TreePath, Node>;

/// How one path differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    /// Where.
    pub(crate) path: TreePath,
    /// What stood there; nothing where it did not exist.
    pub(crate) before: Option<Node>,
    /// What stands there now.
    pub(crate) after: Option<Node>,
}

/// All paths that differ, in order.
pub(crate) fn changes(before: &Tree, after: &Tree) -> Vec<Change> {
    let mut found = Vec::new();
    let (mut left, mut right) = (before.iter().peekable(), after.iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return found,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((old, _)), Some((new, _))) => old.cmp(new),
        };
        let old = order.is_le().then(|| left.next()).flatten();
        let new = order.is_ge().then(|| right.next()).flatten();
        let (old_node, new_node) = (old.map(|(_, node)| node), new.map(|(_, node)| node));
        if let Some((path, _)) = old.or(new)
            && old_node != new_node
        {
            found.push(Change {
                path: path.clone(),
                before: old_node.cloned(),
                after: new_node.cloned(),
            });
        }
    }
}

impl TreePath {
    pub(crate) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        TreePath(bytes.into())
    }

    /// Of a path relative to the directory.
    pub(crate) fn of(path: &Path) -> Self {
        TreePath(path.as_os_str().as_bytes().to_vec())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a path of the file system, relative to the directory.
    pub(crate) fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Below `root`.
    pub(crate) fn within(&self, root: &Path) -> PathBuf {
        root.join(self.as_path())
    }

    /// The directory that it is in; none at the top.
    pub(crate) fn parent(&self) -> Option<TreePath> {
        let slash = self.0.iter().rposition(|byte| *byte == b'/')?;
        Some(TreePath(self.0[..slash].to_vec()))
    }

    /// Its last part.
    pub(crate) fn name(&self) -> &[u8] {
        let start = self.0.iter().rposition(|byte| *byte == b'/');
        &self.0[start.map_or(0, |slash| slash + 1)..]
    }

    /// Whether it is somewhere below `directory`.
    pub(crate) fn is_below(&self, directory: &TreePath) -> bool {
        self.0
            .strip_prefix(directory.as_bytes())
            .is_some_and(|rest| rest.first() == Some(&b'/'))
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl Serialize for TreePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for TreePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Spelled {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(match Spelled::deserialize(deserializer)? {
            Spelled::Text(text) => TreePath(text.into_bytes()),
            Spelled::Bytes(bytes) => TreePath(bytes),
        })
    }
}

impl BlobId {
    /// The name that git gives this content in a store of SHA-256.
    pub(crate) fn of(content: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(format!("blob {}\0", content.len()));
        hash.update(content);
        let digits = hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        BlobId(digits.into())
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let hexadecimal = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        hexadecimal.then(|| BlobId(text.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Node {
    /// Whether it can be put back.
    pub(crate) fn is_kept(&self) -> bool {
        !matches!(self, Node::Unkept { .. })
    }

    /// Whether no snapshot holds it, though it was there.
    pub(crate) fn is_passed_over(&self) -> bool {
        matches!(
            self,
            Node::Unkept {
                reason: Unkept::Ignored | Unkept::Repository | Unkept::Elsewhere
            }
        )
    }

    pub(crate) fn is_directory(&self) -> bool {
        matches!(self, Node::Directory { .. })
    }
}

impl fmt::Display for Unkept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Unkept::Large => "it is larger than 10 MiB",
            Unkept::Unreadable => "it cannot be read",
            Unkept::Changing => "it kept changing while it was read",
            Unkept::Special => "it is neither file, link nor directory",
            Unkept::Ignored => "git ignores it",
            Unkept::Repository => "it belongs to the repository itself",
            Unkept::Elsewhere => "it lies on another file system",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    use super::*;

    fn tree() -> impl Strategy<Value = Tree> {
        let node = prop_oneof![
            (0u32..0o7777).prop_map(|mode| Node::Directory { mode }),
            "[a-c]".prop_map(|text| Node::File {
                mode: 0o644,
                blob: BlobId::of(text.as_bytes())
            }),
        ];
        btree_map(
            prop::collection::vec(any::<u8>(), 1..3).prop_map(TreePath),
            node,
            0..12,
        )
    }

    proptest! {
        #[test]
        fn the_changes_make_one_tree_of_the_other_and_touch_nothing_else(before in tree(), after in tree()) {
            let mut made = before.clone();
            for change in changes(&before, &after) {
                prop_assert_ne!(&change.before, &change.after);
                prop_assert_eq!(before.get(&change.path), change.before.as_ref());
                match change.after {
                    Some(node) => made.insert(change.path, node),
                    None => made.remove(&change.path),
                };
            }
            prop_assert_eq!(made, after);
        }

        #[test]
        fn a_path_of_any_bytes_reads_back(bytes in prop::collection::vec(any::<u8>(), 0..8)) {
            let path = TreePath(bytes);
            let text = serde_json::to_string(&path).unwrap();
            prop_assert_eq!(serde_json::from_str::<TreePath>(&text).unwrap(), path);
        }
    }

    #[test]
    fn the_name_of_a_content_is_the_one_that_git_gives_it() {
        assert_eq!(
            BlobId::of(b"").as_str(),
            "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"
        );
    }
}
