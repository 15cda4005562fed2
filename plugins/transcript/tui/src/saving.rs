//! Saves the whole output of a tool call in a file of the person's machine.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bezel_api_tui::{Input, Toast};
use bezel_blobs_contract::{BlobsClient, ReadSource, TransferError, download};
use bezel_context::Context;
use bezel_presentation::format;
use bezel_session_types::InvocationId;
use bezel_transcript_contract::{ItemBody, ToolStatus};

use crate::core::{Core, Transcript};

/// Why an output is not in its file.
#[derive(Debug, thiserror::Error)]
enum SaveError {
    /// The file cannot be made. One that is there already is never replaced.
    #[error("cannot make {path}: {source}; choose another name", path = path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the output could not be saved: {0}")]
    Transfer(#[from] TransferError),
}

/// Asks where the output of the call goes, and saves it there.
pub(crate) fn save(transcript: &Transcript, core: &Core, index: usize) {
    let services = &transcript.services;
    let entry = core.conversation.entries().get(index);
    let Some((id, ItemBody::Tool(tool))) =
        entry.map(|entry| (entry.id().to_owned(), &entry.item().body))
    else {
        return services
            .ui
            .toast("only the output of a tool call can be saved");
    };
    if !matches!(tool.status, ToolStatus::Done | ToolStatus::Failed) {
        return services
            .ui
            .toast("the output can be saved when the call has ended");
    }
    let end: String = id
        .chars()
        .skip(id.chars().count().saturating_sub(8))
        .collect();
    let name = format!("{}-{end}.txt", tool.tool);
    let (services, cx) = (services.clone(), Context::background());
    services.spawner.clone().spawn("saved output", async move {
        let question = Input::new("Save the whole output")
            .prompt("In which file? Relative to the directory that Bezel was started in.")
            .initial(name);
        let Some(name) = services.ui.input(&cx, question).await else {
            return;
        };
        let path = services.directory.join(name.trim());
        services
            .ui
            .toast(match written(&cx, &services.blobs, id, &path).await {
                Ok(size) => {
                    let size = format::bytes(size);
                    Toast::success(format!("saved {size} in {}", path.display()))
                }
                Err(error) => Toast::error(error.to_string()),
            });
    });
}

async fn written(
    cx: &Context,
    blobs: &BlobsClient,
    id: String,
    path: &Path,
) -> Result<u64, SaveError> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let mut file: File = made.map_err(|source| SaveError::File {
        path: path.to_owned(),
        source,
    })?;
    let source = ReadSource::Output {
        result: InvocationId::new(id),
    };
    let downloaded = download(cx, blobs, source, |bytes, _| file.write_all(bytes)).await;
    if downloaded.is_err()
        && let Err(error) = std::fs::remove_file(path)
    {
        tracing::warn!(%error, "a half-saved output stays");
    }
    Ok(downloaded?)
}
