//! What a command starts from: its directory, the paths and the configuration that holds there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::config::{self, Loaded, Sources};
use crate::failure::{Failure, Outcome};
use crate::manifest;
use crate::paths::Paths;

/// Where a command works.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Where Bezel keeps what it keeps.
    pub paths: Paths,
    /// The directory to work in: absolute, existing.
    pub directory: PathBuf,
}

impl Setup {
    /// In `directory`, or where the process stands.
    pub fn new(directory: Option<&Path>) -> Outcome<Self> {
        let paths = Paths::of_process().map_err(Failure::usage)?;
        let here = std::env::current_dir()
            .context("cannot tell the working directory: it may have been deleted; change to another one")
            .map_err(Failure::usage)?;
        let directory = match directory {
            None => here,
            Some(directory) => here
                .join(directory)
                .canonicalize()
                .ok()
                .filter(|directory| directory.is_dir())
                .with_context(|| {
                    format!(
                        "cannot work in {}: there is no such directory",
                        directory.display()
                    )
                })
                .map_err(Failure::usage)?,
        };
        Ok(Setup { paths, directory })
    }

    /// What to read for the configuration here; `flags` lie over all else.
    pub fn sources(&self, flags: Vec<(&'static str, &'static str, String)>) -> Sources {
        Sources {
            user: self.paths.config.clone(),
            directory: Some(self.directory.clone()),
            trust: self.paths.trust(),
            environment: environment(),
            given: Vec::new(),
            flags,
        }
    }

    /// The configuration here.
    pub fn load(&self, flags: Vec<(&'static str, &'static str, String)>) -> Outcome<Loaded> {
        Ok(config::load(&self.sources(flags), manifest::plugins)?)
    }
}

/// The variables of this process that are text.
pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// What to say of a project whose configuration was passed over.
pub fn untrusted_notice(file: &Path) -> String {
    format!(
        "{} is not used, for this project is not trusted: read it, then run `bezel config trust {}`",
        file.display(),
        config::project_of(file).display()
    )
}
