//! Paths as people write them: relative to where they work.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bezel_presentation::wrap::truncate_start;

/// Columns that a path has in any case.
const LEAST: usize = 12;

/// Columns of a title that are not the path's: the time beside it.
pub(crate) const TIME: usize = 10;

/// Shortens absolute paths. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paths {
    directory: Option<Arc<Path>>,
    home: Option<Arc<Path>>,
}

impl Paths {
    pub(crate) fn new(directory: &Path, home: Option<&str>) -> Self {
        let shorten =
            |path: &Path| (path.is_absolute() && path.parent().is_some()).then(|| Arc::from(path));
        Paths {
            directory: shorten(directory),
            home: home.map(PathBuf::from).as_deref().and_then(shorten),
        }
    }

    /// The same in at most `room` columns: what is cut is its beginning, for its end says more.
    pub(crate) fn fitted(&self, path: &str, room: usize) -> String {
        truncate_start(&self.short(path), room.max(LEAST)).into_owned()
    }

    /// The path below the directory or below home; the path itself where it is neither.
    pub(crate) fn short(&self, path: &str) -> String {
        let path = Path::new(path);
        if let Some(rest) = self
            .directory
            .as_deref()
            .and_then(|directory| path.strip_prefix(directory).ok())
        {
            return if rest.as_os_str().is_empty() {
                ".".into()
            } else {
                rest.display().to_string()
            };
        }
        match self
            .home
            .as_deref()
            .and_then(|home| path.strip_prefix(home).ok())
        {
            Some(rest) => format!("~/{}", rest.display()),
            None => path.display().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_where_one_works() {
        let paths = Paths::new(Path::new("/home/me/code"), Some("/home/me"));
        assert_eq!(paths.short("/home/me/code/src/a.rs"), "src/a.rs");
        assert_eq!(paths.short("/home/me/code"), ".");
        assert_eq!(paths.short("/home/me/notes"), "~/notes");
        assert_eq!(paths.short("/etc/hosts"), "/etc/hosts");
        assert_eq!(paths.short("already/relative"), "already/relative");
        assert_eq!(Paths::new(Path::new("/"), None).short("/etc"), "/etc");
        assert_eq!(
            paths.fitted("/srv/some/where/deep/file.rs", 18),
            "…here/deep/file.rs"
        );
    }
}
