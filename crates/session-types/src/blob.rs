//! Content-addressed bytes of a session, and the parts of a prompt that may name them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ImageContent, UserContent};

/// Names a sequence of bytes by their SHA-256: 64 lower-case hexadecimal digits, and nothing else, so that it
/// may name a file.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = "^[0-9a-f]{64}$"))]
pub struct BlobId(String);

/// Text that is no [`BlobId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` names no blob: expected the SHA-256 of its bytes in 64 lower-case hexadecimal digits"
)]
pub struct BlobIdError {
    /// The start of it.
    pub text: String,
}

impl BlobId {
    /// The name of the bytes that have this SHA-256.
    pub fn from_digest(digest: [u8; 32]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = digest
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|digit| char::from(DIGITS[usize::from(digit)]));
        BlobId(digits.collect())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for BlobId {
    type Error = BlobIdError;

    fn try_from(text: String) -> Result<Self, BlobIdError> {
        let digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() == 64 && text.as_bytes().iter().all(digit) {
            Ok(BlobId(text))
        } else {
            let text = text.chars().take(80).collect();
            Err(BlobIdError { text })
        }
    }
}

impl From<BlobId> for String {
    fn from(id: BlobId) -> Self {
        id.0
    }
}

impl std::fmt::Display for BlobId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// One part of a prompt: what a user message has, where a picture may also be one that was uploaded before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PromptPart {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture, inline.
    Image(ImageContent),
    /// A picture that the session has as a blob.
    UploadedImage(UploadedImage),
}

/// A picture that the session has as a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UploadedImage {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// The bytes of the file.
    pub blob: BlobId,
}

impl From<UserContent> for PromptPart {
    fn from(content: UserContent) -> Self {
        match content {
            UserContent::Text { text } => PromptPart::Text { text },
            UserContent::Image(image) => PromptPart::Image(image),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_digest_names_a_blob() {
        let id = BlobId::from_digest([0xa5; 32]);
        assert_eq!(id.as_str(), "a5".repeat(32));
        assert_eq!(BlobId::try_from(id.to_string()), Ok(id));
        for text in ["", "../../etc/passwd", &"A5".repeat(32), &"a".repeat(63)] {
            assert!(BlobId::try_from(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_prompt_of_an_older_client_reads_the_same() {
        let old = UserContent::Image(ImageContent {
            media_type: "image/png".into(),
            data: "AAAA".into(),
        });
        let text = serde_json::to_string(&old).expect("JSON");
        let read: PromptPart = serde_json::from_str(&text).expect("a part");
        assert_eq!(read, PromptPart::from(old));
    }
}
