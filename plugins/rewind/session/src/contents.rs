//! Looking at one path: what stands there, and a file's content, read in peace.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use bezel_rewind_contract::LARGEST_FILE;

use crate::scan::{Kind, Stat, kind};
use crate::tree::{BlobId, Node, TreePath, Unkept};

/// How often a file is read again that changes meanwhile.
const ATTEMPTS: usize = 3;

/// What stands at a path, and a file's content.
pub(crate) enum Looked {
    Nothing,
    File {
        stat: Stat,
        blob: BlobId,
        content: Vec<u8>,
    },
    Other(Stat, Node),
    Unkept(Unkept),
}

impl Looked {
    pub(crate) fn node(self, stat: Stat) -> Option<(Stat, Node)> {
        match self {
            Looked::Nothing => None,
            Looked::File { stat, blob, .. } => {
                let mode = stat.mode;
                Some((stat, Node::File { mode, blob }))
            }
            Looked::Other(stat, node) => Some((stat, node)),
            Looked::Unkept(reason) => Some((stat, Node::Unkept { reason })),
        }
    }

    /// As a node of a tree; nothing where nothing stands.
    fn into_node(self) -> Option<Node> {
        match self {
            Looked::Nothing => None,
            Looked::File { stat, blob, .. } => Some(Node::File {
                mode: stat.mode,
                blob,
            }),
            Looked::Other(_, node) => Some(node),
            Looked::Unkept(reason) => Some(Node::Unkept { reason }),
        }
    }
}

/// What stands at a path below `root`; nothing where a link or a file is on the way.
pub(crate) fn look_within(root: &Path, path: &TreePath) -> Option<Node> {
    let mut parent = path.parent();
    while let Some(directory) = parent {
        if !directory.within(root).symlink_metadata().ok()?.is_dir() {
            return None;
        }
        parent = directory.parent();
    }
    look_at(&path.within(root)).into_node()
}

/// Looks at one path without following a link at its end.
pub(crate) fn look_at(path: &Path) -> Looked {
    let metadata = match path.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) => return absent_or_closed(&error),
    };
    let stat = Stat::of(&metadata);
    match kind(&metadata) {
        Kind::File => read(path),
        Kind::Directory => Looked::Other(stat, Node::Directory { mode: stat.mode }),
        Kind::Special => Looked::Unkept(Unkept::Special),
        Kind::Link => match std::fs::read_link(path) {
            Ok(target) => {
                let target = TreePath::new(target.as_os_str().as_bytes());
                Looked::Other(stat, Node::Link { target })
            }
            Err(error) => absent_or_closed(&error),
        },
    }
}

fn absent_or_closed(error: &io::Error) -> Looked {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Looked::Nothing,
        _ => Looked::Unkept(Unkept::Unreadable),
    }
}

fn read(path: &Path) -> Looked {
    for _ in 0..ATTEMPTS {
        let read = open(path).and_then(|mut file| {
            let before = file.metadata()?;
            if before.len() > LARGEST_FILE {
                return Ok(Err(Unkept::Large));
            }
            let content = read_all(&mut file, &before)?;
            let after = file.metadata()?;
            let steady =
                Stat::of(&before) == Stat::of(&after) && content.len() as u64 == after.len();
            Ok(Ok(steady.then_some((Stat::of(&after), content))))
        });
        match read {
            Ok(Ok(Some((stat, content)))) => {
                return Looked::File {
                    stat,
                    blob: BlobId::of(&content),
                    content,
                };
            }
            Ok(Ok(None)) => {}
            Ok(Err(reason)) => return Looked::Unkept(reason),
            Err(error) => return absent_or_closed(&error),
        }
    }
    Looked::Unkept(Unkept::Changing)
}

/// Neither follows a link nor waits for the other end of a pipe that has taken the file's place.
fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn read_all(file: &mut File, metadata: &Metadata) -> io::Result<Vec<u8>> {
    let mut content = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default() + 1);
    file.take(LARGEST_FILE + 1).read_to_end(&mut content)?;
    Ok(content)
}
