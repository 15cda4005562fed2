//! Pictures that are pasted or dropped as paths.

use std::path::{Path, PathBuf};

use bezel_blobs_contract::Picture;
use bezel_session_types::ImageContent;

use crate::draft::Chip;

/// Larger files are not sent: the session refuses them, as providers do.
const LIMIT: u64 = ImageContent::MAX_BYTES as u64;

/// The path of a picture, if that is all that was pasted.
pub(crate) fn pasted_path(text: &str, home: Option<&Path>) -> Option<PathBuf> {
    let text = text.trim();
    if text.is_empty() || text.contains('\n') {
        return None;
    }
    let quoted = ['"', '\'']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    let path = match (quoted, text.strip_prefix("file://")) {
        (Some(path), _) => path.to_owned(),
        (None, Some(url)) => percent_decoded(url)?,
        (None, None) => unescaped(text)?,
    };
    let path = match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    };
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    matches!(extension.as_str(), "png" | "jpg" | "jpeg" | "gif" | "webp").then_some(path)
}

/// Why a picture is not attached.
#[derive(Debug)]
pub(crate) enum ImageError {
    /// There is no such file: it was text after all.
    NotThere,
    /// The file is no picture that can be sent.
    Unfit(String),
}

/// Reads a picture.
pub(crate) async fn read(path: &Path) -> Result<Chip, ImageError> {
    let shown = path.display();
    let metadata = tokio::fs::metadata(path)
        .await
        .map_err(|_| ImageError::NotThere)?;
    if !metadata.is_file() {
        return Err(ImageError::NotThere);
    }
    if metadata.len() > LIMIT {
        let size = bezel_presentation::format::bytes(metadata.len());
        return Err(ImageError::Unfit(format!(
            "{shown} has {size}, pictures may have {}; attach a smaller one",
            bezel_presentation::format::bytes(LIMIT)
        )));
    }
    let bytes = tokio::fs::read(path)
        .await
        .map_err(|error| ImageError::Unfit(format!("cannot read {shown}: {error}")))?;
    let picture = Picture::new(bytes).ok_or_else(|| {
        ImageError::Unfit(format!(
            "{shown} is not a PNG, JPEG, GIF or WebP picture, whatever its name says"
        ))
    })?;
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .replace(['[', ']'], "_");
    Ok(Chip::Image { name, picture })
}

/// A path as a shell writes it; `None` where it is more than one word.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => out.push(letters.next()?),
            // Terminals paste dropped files with escaped spaces; a bare one may still be part of a path.
            ' ' if !text.starts_with(['/', '~']) => return None,
            letter => out.push(letter),
        }
    }
    Some(out)
}

fn percent_decoded(url: &str) -> Option<String> {
    // `file://host/path`: only this machine's own files are meant.
    let path = url.strip_prefix("localhost").unwrap_or(url);
    if !path.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_pictures_are_told_from_text() {
        let found = |text: &str| {
            pasted_path(text, Some(Path::new("/home/me"))).map(|path| path.display().to_string())
        };
        assert_eq!(found("/tmp/a.png\n").as_deref(), Some("/tmp/a.png"));
        assert_eq!(
            found("'/tmp/my shot.PNG'").as_deref(),
            Some("/tmp/my shot.PNG")
        );
        assert_eq!(
            found("/tmp/my\\ shot.jpg").as_deref(),
            Some("/tmp/my shot.jpg")
        );
        assert_eq!(
            found("file:///tmp/my%20shot.webp").as_deref(),
            Some("/tmp/my shot.webp")
        );
        assert_eq!(found("~/a.gif").as_deref(), Some("/home/me/a.gif"));
        assert_eq!(found("see a.png"), None);
        assert_eq!(found("/tmp/a.txt"), None);
        assert_eq!(found("/tmp/a.png\n/tmp/b.png"), None);
        assert_eq!(found(""), None);
    }

    #[tokio::test]
    async fn a_picture_is_read_and_what_only_looks_like_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shot.png");
        assert!(matches!(read(&path).await, Err(ImageError::NotThere)));
        std::fs::write(&path, b"no picture").unwrap();
        assert!(
            matches!(read(&path).await, Err(ImageError::Unfit(why)) if why.contains("whatever its name says"))
        );
        std::fs::write(&path, b"\x89PNG\r\n\x1a\n").unwrap();
        let chip = read(&path).await.unwrap();
        assert_eq!(chip.label(), "[image shot.png]");
        assert!(matches!(chip, Chip::Image { picture, .. } if picture.media_type() == "image/png"));
    }
}
