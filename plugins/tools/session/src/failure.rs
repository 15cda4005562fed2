//! Input and output errors in words: what was attempted, on what, and what to do.

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// One sentence on a failed file operation. `attempt` is a verb phrase such as "read" or "write to".
pub(crate) fn describe(attempt: &str, path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    let reason = match error.kind() {
        ErrorKind::NotFound => return missing(attempt, path),
        ErrorKind::PermissionDenied => {
            "permission denied: the file or a directory above it does not allow it. Ask the user to change the permissions or choose another path"
        }
        ErrorKind::NotADirectory => {
            "a part of the path is a file and not a directory. Check the path with ls"
        }
        ErrorKind::IsADirectory => "it is a directory. Name a file inside it",
        ErrorKind::ReadOnlyFilesystem => {
            "the file system is read-only. Choose a path on another file system"
        }
        ErrorKind::StorageFull => {
            "the disk is full; nothing was changed. Free some space and try again"
        }
        ErrorKind::QuotaExceeded => {
            "the disk quota is used up; nothing was changed. Free some space and try again"
        }
        ErrorKind::InvalidFilename => {
            "the file name is too long or not allowed. Choose a shorter one"
        }
        ErrorKind::InvalidInput => {
            "the path holds a character that no file name can hold. Correct the path"
        }
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            "its symbolic links lead in a circle. Name the real file"
        }
        ErrorKind::ResourceBusy | ErrorKind::ExecutableFileBusy => {
            "something else is using it. Try again later"
        }
        _ => return format!("Could not {attempt} {shown}: {error}."),
    };
    format!("Could not {attempt} {shown}: {reason}.")
}

fn missing(attempt: &str, path: &Path) -> String {
    let shown = path.display();
    match std::fs::read_link(path) {
        Ok(target) => format!(
            "Could not {attempt} {shown}: it is a symbolic link to {}, which does not exist. Create the target or name another path.",
            target.display()
        ),
        Err(_) => format!("Could not {attempt} {shown}: it does not exist."),
    }
}

/// What a path is when it is neither file nor directory.
pub(crate) fn special_kind(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    match () {
        () if kind.is_fifo() => Some("a named pipe"),
        () if kind.is_socket() => Some("a socket"),
        () if kind.is_char_device() => Some("a character device"),
        () if kind.is_block_device() => Some("a block device"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_was_attempted_on_what() {
        let path = Path::new("/some/file");
        let full = describe("write to", path, &io::Error::from(ErrorKind::StorageFull));
        assert!(
            full.contains("write to /some/file") && full.contains("disk is full"),
            "{full}"
        );
        let odd = describe("read", path, &io::Error::other("strange"));
        assert_eq!(odd, "Could not read /some/file: strange.");
    }

    #[test]
    fn a_dangling_link_names_its_target() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).expect("link");
        let text = describe("read", &link, &io::Error::from(ErrorKind::NotFound));
        assert!(
            text.contains("symbolic link to nowhere, which does not exist"),
            "{text}"
        );
    }
}
