//! Getting contents and recorded trees back.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};

use super::{CommitId, Ended, FILES, GitError, ObjectStore, REST, Rest};
use crate::tree::{BlobId, Node, Tree, TreePath};

impl ObjectStore {
    /// Reads contents back.
    pub(crate) fn read(&self) -> Result<Reader, GitError> {
        let attempt = "start reading a checkpoint";
        let mut command = self.command();
        let spawned = command
            .args(["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = Ended(spawned.map_err(|source| self.io(attempt, source))?);
        let (input, output) = (child.0.stdin.take(), child.0.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err(self.io(attempt, io::ErrorKind::BrokenPipe.into()));
        };
        Ok(Reader {
            store: self.clone(),
            input,
            output: BufReader::new(output),
            _child: child,
        })
    }

    /// A recorded tree.
    pub(crate) fn load(&self, commit: &CommitId) -> Result<Tree, GitError> {
        let rest = self.read()?.object(&format!("{}:{REST}", commit.0))?;
        let Rest(rest) = serde_json::from_slice(&rest)
            .map_err(|_| self.lost(format!("the tree of checkpoint {}", commit.0)))?;
        let files = format!("{}:{FILES}", commit.0);
        let mut tree: Tree = BTreeMap::new();
        // A tree without files has no folder for them.
        let listed = self.run("list a checkpoint", &["ls-tree", "-r", "-z", &commit.0])?;
        if listed
            .split(|byte| *byte == 0)
            .any(|line| line.ends_with(REST.as_bytes()))
        {
            for line in listed
                .split(|byte| *byte == 0)
                .filter(|line| !line.is_empty())
            {
                let Some((path, node)) = listed_file(line) else {
                    continue;
                };
                tree.insert(path, node);
            }
        } else {
            return Err(self.lost(files));
        }
        tree.extend(rest);
        Ok(tree)
    }
}

/// A line of `ls-tree`: mode, kind, object, tab, path.
fn listed_file(line: &[u8]) -> Option<(TreePath, Node)> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let path = line[tab + 1..].strip_prefix(b"files/")?;
    let mut words = std::str::from_utf8(&line[..tab]).ok()?.split(' ');
    let mode = if words.next()? == "100755" {
        0o755
    } else {
        0o644
    };
    let blob = BlobId::parse(words.nth(1)?)?;
    Some((TreePath::new(path), Node::File { mode, blob }))
}

/// Gives contents back, one after the other.
pub(crate) struct Reader {
    store: ObjectStore,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _child: Ended,
}

impl Reader {
    /// A file's content, complete and unchanged.
    pub(crate) fn blob(&mut self, blob: &BlobId) -> Result<Vec<u8>, GitError> {
        let content = self.object(blob.as_str())?;
        if BlobId::of(&content) != *blob {
            return Err(self
                .store
                .lost(format!("the content {}: it is damaged", blob.as_str())));
        }
        Ok(content)
    }

    fn object(&mut self, name: &str) -> Result<Vec<u8>, GitError> {
        let attempt = "read a checkpoint";
        let io = |store: &ObjectStore, source| store.io(attempt, source);
        let asked = writeln!(self.input, "{name}").and_then(|()| self.input.flush());
        asked.map_err(|source| io(&self.store, source))?;
        let mut head = String::new();
        self.output
            .read_line(&mut head)
            .map_err(|source| io(&self.store, source))?;
        let size = head
            .trim_end()
            .rsplit(' ')
            .next()
            .and_then(|size| size.parse().ok());
        let Some(size) = size else {
            return Err(self.store.lost(format!("the content {name}")));
        };
        let mut content = vec![0; size];
        let read = self
            .output
            .read_exact(&mut content)
            .and_then(|()| self.output.read_exact(&mut [0]));
        read.map_err(|source| io(&self.store, source))?;
        Ok(content)
    }
}
