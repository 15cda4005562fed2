//! Nothing is built twice: what one build has built, the next one takes.

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use cargo_metadata::Message;

use crate::command;

/// Runs a build whose crates were all built before, and fails when it builds one of them again.
pub(super) fn check(who: &str, build: &mut Command) -> Result<()> {
    let messages = command::output(build.arg("--message-format=json-render-diagnostics"))?;
    let again = built(&messages)?;
    let Some(first) = again.first() else {
        return Ok(());
    };
    bail!(
        "{who} builds {} crates again, beginning with {first}: its features or its profile differ from \
         those in `cargo build --workspace --all-targets`. Usual causes are a macro with a dev-dependency \
         (compare `cargo tree --edges features` with and without `--edges no-dev`) and one without \
         `debug = false` among the profiles of Cargo.toml",
        again.len()
    );
}

/// The targets that a build did not find built, in the order in which they were done.
pub(super) fn built(messages: &str) -> Result<Vec<String>> {
    let mut built = Vec::new();
    for message in Message::parse_stream(messages.as_bytes()) {
        let message = message.context("read what cargo built")?;
        if let Message::CompilerArtifact(artifact) = message
            && !artifact.fresh
        {
            let kinds: Vec<String> = artifact
                .target
                .kind
                .iter()
                .map(ToString::to_string)
                .collect();
            built.push(format!("{} ({})", artifact.target.name, kinds.join(", ")));
        }
    }
    Ok(built)
}
