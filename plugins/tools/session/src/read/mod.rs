//! `read`: shows a text file by line ranges, or a picture.

mod image;
mod lines;

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bezel_context::Context;
use bezel_session_types::{
    Access, ExecutionMode, Replay, ResultContent, Tool, ToolError, ToolInvocation, ToolOutput,
    ToolSpec,
};
use bezel_tools_contract::{ReadContent, ReadDetails, ToolDetails};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::blocking::reading;
use crate::bound::{self, counted};
use crate::ledger::COMPARED_BYTES;
use crate::{ToolShared, failure, paths, schema, text};

/// Lines shown when the model does not say how many, and at most.
const MOST_LINES: u64 = (bound::MAX_LINES - bound::NOTES_LINES) as u64;
/// Bytes looked at to tell text from binary.
const HEAD_BYTES: usize = 8 * 1024;
/// UTF-16 files are read as a whole, up to this size.
const UTF16_BYTES: u64 = 64 * 1024 * 1024;

const DESCRIPTION: &str = r#"
Reads a file: text as numbered lines, or a picture that you can then see.

- Text comes in the form of `cat -n`: line number, a tab, the line. The number and the tab are not part of the file: leave them out of `edit`.
- Without `offset` and `limit` you get the first 1,990 lines. Read a whole file that way whenever it is of moderate size; use a range when you know which part of a large file you need. A result ends at about 50 KB; it then says with which `offset` to go on.
- PNG, JPEG, GIF and WebP files are shown as pictures. Other binary files are refused with what they are: use `bash` with a fitting program for those.
- To list a directory use `ls`, to find files by name `glob`, to find text in many files `grep`.
- Read a file before you overwrite it with `write`: one that you have not read, or that changed since, is not overwritten.
- Several files can be read side by side: make all the calls in one step.
"#;

/// Arguments of `read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file: absolute, relative to the session's directory, or under `~`.
    path: String,
    /// First line to show, counted from 1. Default: 1.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// How many lines to show. Default: 1990, which is also the most.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

/// What can go wrong with a read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("{described}{suggestion}")]
    Io {
        described: String,
        suggestion: String,
    },
    #[error("{path} is a directory. List it with ls, or read a file inside it.")]
    Directory { path: String },
    #[error(
        "{path} is {kind} and no regular file; reading it could wait for ever. Use bash with a timeout if you need it."
    )]
    Special { path: String, kind: &'static str },
    #[error(
        "{path} is {kind} ({size}) and cannot be shown as text. Inspect it with a fitting program through bash, such as `file` or `xxd | head`."
    )]
    Binary {
        path: String,
        kind: String,
        size: String,
    },
    #[error("{path} has only {total}, so there is nothing at line {offset}. Use a smaller offset.")]
    BeyondEnd {
        path: String,
        total: String,
        offset: u64,
    },
    #[error(
        "{path} is UTF-16 text of {size}, too large to decode here. Convert it with `iconv -f UTF-16 -t UTF-8` through bash and read the result."
    )]
    LargeUtf16 { path: String, size: String },
    #[error(transparent)]
    Image(#[from] image::ImageError),
    #[error(transparent)]
    Path(#[from] paths::PathError),
    #[error("cancelled")]
    Cancelled,
}

impl From<ReadError> for ToolError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Cancelled => ToolError::Interrupted,
            error => ToolError::failed(error.to_string()),
        }
    }
}

/// The tool.
pub(crate) struct Read {
    spec: ToolSpec,
    shared: ToolShared,
}

impl Read {
    pub(crate) fn new(shared: ToolShared) -> Self {
        let spec =
            schema::spec::<Arguments>("Read", DESCRIPTION, ExecutionMode::Parallel, Replay::Safe);
        Read { spec, shared }
    }
}

impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute(
        &self,
        cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let arguments: Arguments = schema::arguments(&invocation)?;
            let directory: Arc<Path> = invocation.host.directory().into();
            let shared = self.shared.clone();
            reading(&cx.clone(), move || {
                Ok(read(&cx, &shared, &directory, &arguments)?)
            })
            .await
        })
    }

    fn accesses(&self, arguments: &Value, directory: &Path) -> Option<Vec<Access>> {
        let arguments = Arguments::deserialize(arguments).ok()?;
        let path = paths::resolve(&arguments.path, directory, &self.shared.environment).ok()?;
        Some(vec![Access::read(path)])
    }
}

/// A file that turned out to be readable as text or picture.
struct Opened {
    path: PathBuf,
    /// For messages.
    shown: String,
    file: File,
    metadata: Metadata,
    head: Vec<u8>,
}

fn read(
    cx: &Context,
    shared: &ToolShared,
    directory: &Path,
    arguments: &Arguments,
) -> Result<ToolOutput, ReadError> {
    let path = paths::resolve(&arguments.path, directory, &shared.environment)?;
    let opened = open(cx, path, directory)?;
    let (content, read) = match image::Format::of(&opened.head) {
        Some(format) => show_image(shared, &opened, format)?,
        None => show_text(cx, shared, &opened, arguments)?,
    };
    let details = ReadDetails {
        path: opened.path.display().to_string(),
        content: read,
        bytes: opened.metadata.len(),
    };
    Ok(ToolOutput {
        content,
        details: ToolDetails::Read(details).to_value(),
        ..ToolOutput::default()
    })
}

fn open(cx: &Context, path: PathBuf, directory: &Path) -> Result<Opened, ReadError> {
    let shown = paths::shown(&path, directory);
    let failed = |error: io::Error| {
        let missing = error.kind() == io::ErrorKind::NotFound && !path.is_symlink();
        ReadError::Io {
            described: failure::describe("read", &path, &error),
            suggestion: if missing {
                paths::suggestion(cx, &path, directory)
            } else {
                String::new()
            },
        }
    };
    // Opening a pipe would wait for its writer, so the kind comes first.
    let metadata = path.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(ReadError::Directory { path: shown });
    }
    if let Some(kind) = failure::special_kind(&metadata) {
        return Err(ReadError::Special { path: shown, kind });
    }
    let mut file = File::open(&path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let mut head = Vec::new();
    file.by_ref()
        .take(HEAD_BYTES as u64)
        .read_to_end(&mut head)
        .map_err(failed)?;
    Ok(Opened {
        path,
        shown,
        file,
        metadata,
        head,
    })
}

impl Opened {
    /// The rest of the file after its head, with the head.
    fn whole(&self) -> Result<Vec<u8>, ReadError> {
        let mut content = self.head.clone();
        (&self.file)
            .read_to_end(&mut content)
            .map_err(|error| self.failed(&error))?;
        Ok(content)
    }

    fn failed(&self, error: &io::Error) -> ReadError {
        ReadError::Io {
            described: failure::describe("read", &self.path, error),
            suggestion: String::new(),
        }
    }
}

fn show_image(
    shared: &ToolShared,
    opened: &Opened,
    format: image::Format,
) -> Result<(Vec<ResultContent>, ReadContent), ReadError> {
    image::check_size(&opened.shown, opened.metadata.len())?;
    let content = opened.whole()?;
    shared
        .ledger
        .record(&opened.path, &opened.metadata, Some(&content));
    let picture = image::prepare(&opened.shown, content, format)?;
    let (width, height) = picture.size;
    let mut note = format!(
        "{} ({}, {width}×{height} pixels)",
        opened.shown,
        format.media_type()
    );
    if let Some((width, height)) = picture.sent {
        note += &format!(", shrunk to {width}×{height} to be shown here");
    }
    if picture.first_frame_only {
        note += "; only the first frame of the animation is shown";
    }
    let read = ReadContent::Image {
        media_type: picture.content.media_type.clone(),
        width,
        height,
        sent: picture.sent,
    };
    Ok((
        vec![
            ResultContent::text(note),
            ResultContent::Image(picture.content),
        ],
        read,
    ))
}

fn show_text(
    cx: &Context,
    shared: &ToolShared,
    opened: &Opened,
    arguments: &Arguments,
) -> Result<(Vec<ResultContent>, ReadContent), ReadError> {
    if let Some(kind) = text::binary_kind(&opened.head) {
        return Err(ReadError::Binary {
            path: opened.shown.clone(),
            kind: kind.into_owned(),
            size: bound::size(opened.metadata.len()),
        });
    }
    let range = lines::Range {
        first: arguments.offset.unwrap_or(1).max(1),
        limit: arguments.limit.unwrap_or(MOST_LINES).clamp(1, MOST_LINES),
    };
    let encoding = text::Encoding::of(&opened.head);
    let utf16 = matches!(encoding, text::Encoding::Utf16Le | text::Encoding::Utf16Be);
    let size = opened.metadata.len();
    let window = if size <= COMPARED_BYTES || utf16 {
        if size > UTF16_BYTES {
            return Err(ReadError::LargeUtf16 {
                path: opened.shown.clone(),
                size: bound::size(size),
            });
        }
        let content = opened.whole()?;
        shared
            .ledger
            .record(&opened.path, &opened.metadata, Some(&content));
        lines::window(&mut text::decode(content).bytes.as_slice(), range, || {
            cx.is_cancelled()
        })
    } else {
        shared.ledger.record(&opened.path, &opened.metadata, None);
        let head = if encoding == text::Encoding::Utf8Bom {
            &opened.head[3..]
        } else {
            &opened.head
        };
        let mut rest = io::BufReader::with_capacity(256 * 1024, head.chain(&opened.file));
        lines::window(&mut rest, range, || cx.is_cancelled())
    };
    let window = window
        .map_err(|error| opened.failed(&error))?
        .ok_or(ReadError::Cancelled)?;
    if let Some(total) = window.total.filter(|total| range.first > (*total).max(1)) {
        return Err(ReadError::BeyondEnd {
            path: opened.shown.clone(),
            total: counted(total, "line"),
            offset: range.first,
        });
    }
    let read = ReadContent::Text {
        first_line: if window.shown == 0 { 0 } else { range.first },
        last_line: if window.shown == 0 {
            0
        } else {
            range.first + window.shown - 1
        },
        total_lines: window.total,
        cut_lines: window.cut,
        encoding: encoding.name().into(),
    };
    let shown = window.into_text(range, encoding);
    Ok((vec![ResultContent::text(shown)], read))
}
