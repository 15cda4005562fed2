//! Text files as they are on disk: byte order marks, UTF-16, line endings, and what is no text.

use std::borrow::Cow;

/// How a file encodes its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf8Bom,
    Utf16Le,
    Utf16Be,
}

const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";

impl Encoding {
    /// What the first bytes of a file say.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        match bytes {
            [0xff, 0xfe, 0, 0, ..] => Encoding::Utf8,
            [0xff, 0xfe, ..] => Encoding::Utf16Le,
            [0xfe, 0xff, ..] => Encoding::Utf16Be,
            bytes if bytes.starts_with(UTF8_BOM) => Encoding::Utf8Bom,
            _ => Encoding::Utf8,
        }
    }

    /// For renderers and models.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "utf-8",
            Encoding::Utf8Bom => "utf-8-bom",
            Encoding::Utf16Le => "utf-16le",
            Encoding::Utf16Be => "utf-16be",
        }
    }
}

/// A file's text in UTF-8 without a byte order mark. Bytes that are no UTF-8 stay as they are, so that a
/// file can be changed around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) encoding: Encoding,
    /// True when encoding the text again would not give the file back.
    pub(crate) lossy: bool,
}

/// Takes a whole file apart.
pub(crate) fn decode(mut file: Vec<u8>) -> Decoded {
    let encoding = Encoding::of(&file);
    let big_endian = match encoding {
        Encoding::Utf8 => {
            return Decoded {
                bytes: file,
                encoding,
                lossy: false,
            };
        }
        Encoding::Utf8Bom => {
            file.drain(..UTF8_BOM.len());
            return Decoded {
                bytes: file,
                encoding,
                lossy: false,
            };
        }
        Encoding::Utf16Le => false,
        Encoding::Utf16Be => true,
    };
    let (pairs, rest) = file[2..].as_chunks::<2>();
    let units = pairs.iter().map(|pair| {
        if big_endian {
            u16::from_be_bytes(*pair)
        } else {
            u16::from_le_bytes(*pair)
        }
    });
    let mut lossy = !rest.is_empty();
    let mut text = String::with_capacity(file.len() / 2);
    for unit in char::decode_utf16(units) {
        text.push(unit.unwrap_or_else(|_| {
            lossy = true;
            char::REPLACEMENT_CHARACTER
        }));
    }
    Decoded {
        bytes: text.into_bytes(),
        encoding,
        lossy,
    }
}

/// The file for `text`, which must be UTF-8 where the encoding is UTF-16.
pub(crate) fn encode(text: &[u8], encoding: Encoding) -> Vec<u8> {
    let units = || {
        String::from_utf8_lossy(text)
            .encode_utf16()
            .collect::<Vec<u16>>()
    };
    match encoding {
        Encoding::Utf8 => text.to_vec(),
        Encoding::Utf8Bom => [UTF8_BOM, text].concat(),
        Encoding::Utf16Le => [0xfeff]
            .into_iter()
            .chain(units())
            .flat_map(u16::to_le_bytes)
            .collect(),
        Encoding::Utf16Be => [0xfeff]
            .into_iter()
            .chain(units())
            .flat_map(u16::to_be_bytes)
            .collect(),
    }
}

/// What a file is when it is no text; `None` for text. Looks at the first bytes, 8 KiB or the whole file.
pub(crate) fn binary_kind(head: &[u8]) -> Option<Cow<'static, str>> {
    if head.starts_with(b"%PDF-") {
        return Some("a PDF document".into());
    }
    if is_text(head) {
        return None;
    }
    let known = infer::get(head).filter(|kind| kind.matcher_type() != infer::MatcherType::Text);
    match known {
        Some(kind) => Some(describe_mime(kind.mime_type())),
        None => memchr::memchr(0, head).map(|_| "binary data".into()),
    }
}

/// Magic numbers are short and texts begin with any letters ("BM", "MZ", "GIF"): valid text is text.
pub(crate) fn is_text(head: &[u8]) -> bool {
    if matches!(Encoding::of(head), Encoding::Utf16Le | Encoding::Utf16Be) {
        return true;
    }
    let valid = match std::str::from_utf8(head) {
        Ok(_) => true,
        // The head may end within a character.
        Err(error) => error.error_len().is_none(),
    };
    valid && memchr::memchr(0, head).is_none()
}

fn describe_mime(mime: &'static str) -> Cow<'static, str> {
    match mime {
        "application/x-executable" => "an executable program".into(),
        "application/pdf" => "a PDF document".into(),
        "application/zip" => "a ZIP archive".into(),
        "application/gzip" => "a gzip archive".into(),
        "application/vnd.sqlite3" | "application/x-sqlite3" => "an SQLite database".into(),
        "application/wasm" => "a WebAssembly module".into(),
        "application/java-vm" | "application/java" => "a Java class".into(),
        mime => format!("binary data of type {mime}").into(),
    }
}

/// Line endings of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Lf,
    CrLf,
}

impl Ending {
    /// The ending of most lines; LF when there are as many of both, `None` without a newline.
    pub(crate) fn of(text: &[u8]) -> Option<Self> {
        let (mut lf, mut crlf) = (0_usize, 0_usize);
        for at in memchr::memchr_iter(b'\n', text) {
            if at > 0 && text[at - 1] == b'\r' {
                crlf += 1
            } else {
                lf += 1
            }
        }
        match (lf, crlf) {
            (0, 0) => None,
            _ if crlf > lf => Some(Ending::CrLf),
            _ => Some(Ending::Lf),
        }
    }

    /// Its bytes.
    pub(crate) fn bytes(self) -> &'static [u8] {
        match self {
            Ending::Lf => b"\n",
            Ending::CrLf => b"\r\n",
        }
    }
}

/// A text with every CRLF as LF.
pub(crate) fn to_lf(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memmem::find(text, b"\r\n").is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    for (index, byte) in text.iter().enumerate() {
        if *byte != b'\r' || text.get(index + 1) != Some(&b'\n') {
            plain.push(*byte);
        }
    }
    Cow::Owned(plain)
}

/// Number of the line, from 1, in which the byte at `offset` is.
pub(crate) fn line_at(text: &[u8], offset: usize) -> u64 {
    memchr::memchr_iter(b'\n', &text[..offset.min(text.len())]).count() as u64 + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_encoding_gives_the_file_back(text in "\\PC{0,40}(\r?\n\\PC{0,20}){0,3}") {
            for encoding in [Encoding::Utf8, Encoding::Utf8Bom, Encoding::Utf16Le, Encoding::Utf16Be] {
                prop_assume!(!text.starts_with('\u{feff}'));
                let file = encode(text.as_bytes(), encoding);
                let decoded = decode(file.clone());
                prop_assert_eq!(&decoded.bytes, text.as_bytes());
                prop_assert_eq!(decoded.encoding, encoding);
                prop_assert!(!decoded.lossy);
                prop_assert_eq!(encode(&decoded.bytes, encoding), file);
            }
        }
    }

    #[test]
    fn broken_utf16_is_noticed() {
        assert!(decode(vec![0xff, 0xfe, b'a', 0, 0x00]).lossy);
        assert!(decode(vec![0xff, 0xfe, 0x00, 0xd8]).lossy);
    }

    #[test]
    fn binary_files_are_named_for_what_they_are() {
        assert_eq!(
            binary_kind(&[b"\x7fELF\x02\x01\x01".as_slice(), &[0; 80]].concat()).as_deref(),
            Some("an executable program")
        );
        assert_eq!(
            binary_kind(b"%PDF-1.7\n").as_deref(),
            Some("a PDF document")
        );
        assert_eq!(binary_kind(b"abc\0def").as_deref(), Some("binary data"));
        assert_eq!(binary_kind(b"<!DOCTYPE html><html></html>"), None);
        assert_eq!(binary_kind(b"#!/bin/sh\necho\n"), None);
        assert_eq!(binary_kind("\u{feff}text".as_bytes()), None);
        assert_eq!(binary_kind(b"\xff\xfea\0b\0"), None);
        assert_eq!(binary_kind(b""), None);
        for text in [
            "BM is a text",
            "MZ too",
            "GIF as well",
            "II*",
            "caf\u{e9} \u{6f22}",
        ] {
            assert_eq!(binary_kind(text.as_bytes()), None, "{text}");
        }
        assert_eq!(binary_kind(&"caf\u{e9}".as_bytes()[..4]), None);
    }

    #[test]
    fn the_ending_is_that_of_most_lines() {
        assert_eq!(Ending::of(b"one"), None);
        assert_eq!(Ending::of(b"a\nb\r\n"), Some(Ending::Lf));
        assert_eq!(Ending::of(b"a\r\nb\r\nc\n"), Some(Ending::CrLf));
        assert_eq!(to_lf(b"a\r\nb\rc\n").as_ref(), b"a\nb\rc\n");
    }
}
