//! The parts of a prompt, with the bytes of what it names.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bezel_api_session::Local;
use bezel_blobs_contract::{BlobError, BlobShelf};
use bezel_chat_contract::PromptPart;
use bezel_session_types::{ImageContent, UploadedImage, UserContent};

/// Bytes that the pictures of one prompt may have together, where they were uploaded. What travels in the
/// prompt is bounded by the wire.
const MAX_PICTURES: u64 = 64 * 1024 * 1024;

/// Why a prompt's pictures are not at hand.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PartError {
    #[error("picture {index} of the prompt cannot be used: {source}")]
    Blob {
        /// From 1, of those that were uploaded.
        index: usize,
        source: BlobError,
    },
    #[error(
        "the pictures of a prompt may have {} MiB together: send them in several prompts",
        MAX_PICTURES / 1024 / 1024
    )]
    TooMuch,
    #[error(
        "this session keeps no uploads, because its plugin `blobs` is not running: send smaller pictures, or see `bezel doctor`"
    )]
    NoBlobs,
}

/// The content of the message that a prompt becomes.
pub(crate) async fn resolved(
    blobs: Option<&Local<BlobShelf>>,
    parts: Vec<PromptPart>,
) -> Result<Vec<UserContent>, PartError> {
    let uploaded = |part: &PromptPart| matches!(part, PromptPart::UploadedImage(_));
    if !parts.iter().any(uploaded) {
        return parts
            .into_iter()
            .map(|part| plain(part, |_| Err(PartError::NoBlobs)))
            .collect();
    }
    let shelf = blobs
        .and_then(|blobs| blobs.get().ok())
        .ok_or(PartError::NoBlobs)?;
    let work = move || {
        let (mut index, mut room) = (0, MAX_PICTURES);
        let mut take = |image: UploadedImage| {
            index += 1;
            let most = ImageContent::MAX_BYTES as u64;
            let bytes = shelf
                .take(&image.blob, most)
                .map_err(|source| PartError::Blob { index, source })?;
            room = room
                .checked_sub(bytes.len() as u64)
                .ok_or(PartError::TooMuch)?;
            Ok(ImageContent {
                media_type: image.media_type,
                data: BASE64_STANDARD.encode(bytes),
            })
        };
        parts
            .into_iter()
            .map(|part| plain(part, &mut take))
            .collect()
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(content) => content,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(PartError::NoBlobs),
    }
}

fn plain(
    part: PromptPart,
    take: impl FnOnce(UploadedImage) -> Result<ImageContent, PartError>,
) -> Result<UserContent, PartError> {
    Ok(match part {
        PromptPart::Text { text } => UserContent::Text { text },
        PromptPart::Image(image) => UserContent::Image(image),
        PromptPart::UploadedImage(image) => UserContent::Image(take(image)?),
    })
}
