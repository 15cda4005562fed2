//! What was approved: for a project, always, in one file of the user that all workers share, and for a session in
//! one of its own.
//!
//! The file is replaced whole under a lock of its own, so a reader sees the old or the new one and no writer loses
//! what another wrote. It lies in the user's data directory: what a repository brings along approves nothing.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use bezel_permissions_contract::{Effect, Rule};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// Approvals of one at most; the oldest go.
const MOST: usize = 1_000;

/// The approvals of one project, or of one session.
#[derive(Debug, Clone)]
pub(crate) struct Approvals {
    file: PathBuf,
    of: String,
}

/// What the file holds.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Contents {
    version: u32,
    /// By the project, its directory, or the session.
    projects: BTreeMap<String, Vec<Rule>>,
}

/// Why approvals could not be read or kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApprovalsError {
    #[error(
        "cannot {attempt} the approvals in {}: {error}; make the file and its directory yours to write", file.display()
    )]
    Io {
        attempt: &'static str,
        file: PathBuf,
        error: io::Error,
    },
    #[error(
        "the approvals in {} cannot be understood: {reason}; mend the file, or remove it to be asked again", file.display()
    )]
    Format { file: PathBuf, reason: String },
    #[error("the approvals were not kept: the worker ends")]
    Stopped,
}

const VERSION: u32 = 1;

impl Approvals {
    /// Those of `of`, in `file`.
    pub(crate) fn new(file: PathBuf, of: &str) -> Self {
        Approvals {
            file,
            of: of.to_owned(),
        }
    }

    /// What is approved now.
    pub(crate) fn load(&self) -> Result<Vec<Rule>, ApprovalsError> {
        Ok(self.read()?.projects.remove(&self.of).unwrap_or_default())
    }

    /// Approves more. Returns what is approved now.
    pub(crate) fn add(&self, rules: &[Rule]) -> Result<Vec<Rule>, ApprovalsError> {
        self.change(|approved| {
            for rule in rules.iter().filter(|rule| rule.effect == Effect::Allow) {
                if !approved.contains(rule) {
                    approved.push(rule.clone());
                }
            }
            let over = approved.len().saturating_sub(MOST);
            approved.drain(..over);
        })
    }

    /// Takes an approval back. Returns what is approved now.
    pub(crate) fn remove(&self, rule: &Rule) -> Result<Vec<Rule>, ApprovalsError> {
        self.change(|approved| approved.retain(|other| other != rule))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Rule>)) -> Result<Vec<Rule>, ApprovalsError> {
        let failed = |attempt| {
            move |error| ApprovalsError::Io {
                attempt,
                file: self.file.clone(),
                error,
            }
        };
        let _lock = self.lock().map_err(failed("lock"))?;
        let mut contents = self.read()?;
        let before = contents.projects.get(&self.of).cloned().unwrap_or_default();
        let mut after = before.clone();
        change(&mut after);
        if after != before {
            match after.is_empty() {
                true => drop(contents.projects.remove(&self.of)),
                false => drop(contents.projects.insert(self.of.clone(), after.clone())),
            }
            self.write(&contents).map_err(failed("write"))?;
        }
        Ok(after)
    }

    fn read(&self) -> Result<Contents, ApprovalsError> {
        let bytes = match std::fs::read(&self.file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Contents {
                    version: VERSION,
                    ..Contents::default()
                });
            }
            Err(error) => {
                return Err(ApprovalsError::Io {
                    attempt: "read",
                    file: self.file.clone(),
                    error,
                });
            }
        };
        let wrong = |reason: String| ApprovalsError::Format {
            file: self.file.clone(),
            reason,
        };
        let contents: Contents =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if contents.version != VERSION {
            return Err(wrong(format!("it has version {}", contents.version)));
        }
        // Nothing else can have been written here, and nothing else is taken from here.
        let mut rules = contents.projects.values().flatten();
        if rules.any(|rule| rule.effect != Effect::Allow) {
            return Err(wrong("it holds a rule that does not allow".to_owned()));
        }
        Ok(contents)
    }

    fn write(&self, contents: &Contents) -> io::Result<()> {
        let directory = self.file.parent().unwrap_or(Path::new("/"));
        let mut fresh = tempfile::NamedTempFile::new_in(directory)?;
        serde_json::to_writer_pretty(&mut fresh, contents)?;
        fresh.as_file().sync_all()?;
        fresh.persist(&self.file)?;
        Ok(())
    }

    /// Held until it is dropped, and let go of by the kernel where its holder dies.
    fn lock(&self) -> io::Result<File> {
        if let Some(directory) = self.file.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options.open(self.file.with_extension("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(lock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(resource: &str) -> Rule {
        Rule {
            action: "shell".into(),
            resource: resource.into(),
            effect: Effect::Allow,
        }
    }

    #[test]
    fn approvals_are_kept_per_project_and_can_be_taken_back() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("data/approvals.json");
        let one = Approvals::new(file.clone(), "/one");
        let two = Approvals::new(file.clone(), "/two");
        assert_eq!(one.load().unwrap(), []);
        one.add(&[rule("a"), rule("b"), rule("a")]).unwrap();
        two.add(&[rule("c")]).unwrap();
        assert_eq!(one.load().unwrap(), [rule("a"), rule("b")]);
        assert_eq!(one.remove(&rule("a")).unwrap(), [rule("b")]);
        assert_eq!(two.load().unwrap(), [rule("c")]);
        // What denies or asks is configured and never saved here.
        let denies = Rule {
            effect: Effect::Deny,
            ..rule("x")
        };
        assert_eq!(two.add(&[denies]).unwrap(), [rule("c")]);
    }

    #[test]
    fn writers_at_the_same_time_lose_nothing_of_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let approvals = Approvals::new(directory.path().join("approvals.json"), "/p");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let approvals = approvals.clone();
                scope.spawn(move || {
                    for at in 0..10 {
                        approvals.add(&[rule(&format!("{writer}-{at}"))]).unwrap();
                    }
                });
            }
        });
        assert_eq!(approvals.load().unwrap().len(), 80);
    }

    #[test]
    fn a_damaged_file_is_named_and_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("approvals.json");
        for (text, expected) in [
            ("{", "cannot be understood"),
            (r#"{"version":9,"projects":{}}"#, "version 9"),
            (
                r#"{"version":1,"projects":{"/q":[{"action":"a","resource":"b","effect":"deny"}]}}"#,
                "does not allow",
            ),
        ] {
            std::fs::write(&file, text).unwrap();
            let approvals = Approvals::new(file.clone(), "/p");
            let error = approvals.add(&[rule("a")]).unwrap_err().to_string();
            assert!(
                error.contains(expected) && error.contains("approvals.json"),
                "{error}"
            );
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
    }
}
