//! The patch format: `*** Begin Patch`, sections for files, chunks of lines, `*** End Patch`.

/// A patch as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patch {
    pub(crate) sections: Vec<Section>,
}

/// What is to be done with one file. Paths are as the model wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Section {
    Add {
        path: String,
        content: String,
    },
    Delete {
        path: String,
    },
    Update {
        path: String,
        move_to: Option<String>,
        chunks: Vec<Chunk>,
    },
}

/// A place in a file and what changes there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Lines of the file that come somewhere before the place, outermost first.
    pub(crate) anchors: Vec<String>,
    pub(crate) lines: Vec<ChunkLine>,
    /// True when the place is the end of the file.
    pub(crate) at_end: bool,
    /// Line of the patch where the chunk begins, from 1.
    pub(crate) patch_line: usize,
}

/// One line of a chunk, without its sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChunkLine {
    Context(String),
    Add(String),
    Remove(String),
}

/// Why a text is no patch. Lines are counted from 1.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ParseError {
    #[error(
        "The patch does not begin with a line \"*** Begin Patch\". Put it first, then one section for each file."
    )]
    NoBegin,
    #[error(
        "The patch has no line \"*** End Patch\", so a part of it may be missing. Send all of it again."
    )]
    NoEnd,
    #[error(
        "The patch has no section. Add one for each file: \"*** Add File: PATH\", \"*** Update File: PATH\" or \"*** Delete File: PATH\"."
    )]
    Empty,
    #[error(
        "Line {line} of the patch, {text:?}, is not the start of a section. Expected \"*** Add File: PATH\", \"*** Update File: PATH\" or \"*** Delete File: PATH\"."
    )]
    NoSection { line: usize, text: String },
    #[error("Line {line} of the patch names no path. Put it after the colon.")]
    NoPath { line: usize },
    #[error(
        "Line {line} of the patch, {text:?}, is in a section that adds a file, so it must begin with \"+\"."
    )]
    NotAdded { line: usize, text: String },
    #[error(
        "Line {line} of the patch, {text:?}, must begin with a space (unchanged), \"-\" (removed), \"+\" (added) or \"@@\" (next place)."
    )]
    BadSign { line: usize, text: String },
    #[error(
        "The update of {path} at line {line} of the patch changes nothing. Add at least one chunk, or \"*** Move to: PATH\"."
    )]
    NoChunks { line: usize, path: String },
    #[error(
        "The chunk at line {line} of the patch adds and removes nothing. Leave it out or correct its signs."
    )]
    NoChange { line: usize },
}

/// Reads a patch. Text around it, such as a here-document or a code fence, is skipped.
pub(crate) fn parse(text: &str) -> Result<Patch, ParseError> {
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines
        .iter()
        .position(|line| line.trim() == "*** Begin Patch")
        .ok_or(ParseError::NoBegin)?;
    let end = lines
        .iter()
        .rposition(|line| line.trim_end() == "*** End Patch")
        .filter(|end| *end > begin);
    let mut reader = Reader {
        lines: &lines[..end.ok_or(ParseError::NoEnd)?],
        at: begin + 1,
    };
    let mut sections = Vec::new();
    while let Some(line) = reader.peek() {
        if line.trim().is_empty() {
            reader.at += 1;
        } else {
            sections.push(reader.section()?);
        }
    }
    if sections.is_empty() {
        Err(ParseError::Empty)
    } else {
        Ok(Patch { sections })
    }
}

struct Reader<'a> {
    lines: &'a [&'a str],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    /// Lines up to the next section's header.
    fn peek_body(&self) -> Option<&'a str> {
        self.peek().filter(|line| header(line).is_none())
    }

    fn section(&mut self) -> Result<Section, ParseError> {
        let line = self.at + 1;
        let text = self.peek().unwrap_or_default();
        let Some((kind, path)) = header(text) else {
            return Err(ParseError::NoSection {
                line,
                text: text.into(),
            });
        };
        if path.is_empty() {
            return Err(ParseError::NoPath { line });
        }
        let path = path.to_owned();
        self.at += 1;
        match kind {
            Header::Add => Ok(Section::Add {
                path,
                content: self.added()?,
            }),
            Header::Delete => Ok(Section::Delete { path }),
            Header::Update => {
                let move_to = self.move_to()?;
                let chunks = self.chunks()?;
                if chunks.is_empty() && move_to.is_none() {
                    return Err(ParseError::NoChunks { line, path });
                }
                Ok(Section::Update {
                    path,
                    move_to,
                    chunks,
                })
            }
        }
    }

    fn added(&mut self) -> Result<String, ParseError> {
        let mut content = String::new();
        let mut blank = 0;
        while let Some(line) = self.peek_body() {
            if let Some(added) = line.strip_prefix('+') {
                content.extend(std::iter::repeat_n('\n', blank));
                blank = 0;
                content.push_str(added);
                content.push('\n');
            } else if line.trim().is_empty() {
                blank += 1;
            } else {
                return Err(ParseError::NotAdded {
                    line: self.at + 1,
                    text: line.into(),
                });
            }
            self.at += 1;
        }
        Ok(content)
    }

    fn move_to(&mut self) -> Result<Option<String>, ParseError> {
        let Some(path) = self
            .peek()
            .and_then(|line| line.trim().strip_prefix("*** Move to:"))
        else {
            return Ok(None);
        };
        let path = path.trim();
        if path.is_empty() {
            return Err(ParseError::NoPath { line: self.at + 1 });
        }
        self.at += 1;
        Ok(Some(path.into()))
    }

    fn chunks(&mut self) -> Result<Vec<Chunk>, ParseError> {
        let mut chunks = Vec::new();
        while let Some(line) = self.peek_body() {
            if line.trim().is_empty() && self.only_blank_lines_follow() {
                self.at += 1;
                continue;
            }
            chunks.push(self.chunk()?);
        }
        Ok(chunks)
    }

    fn only_blank_lines_follow(&self) -> bool {
        let rest = self.lines[self.at..]
            .iter()
            .take_while(|line| header(line).is_none());
        rest.into_iter().all(|line| line.trim().is_empty())
    }

    fn chunk(&mut self) -> Result<Chunk, ParseError> {
        let mut chunk = Chunk {
            patch_line: self.at + 1,
            ..Chunk::default()
        };
        while let Some(anchor) = self.peek_body().and_then(anchor) {
            chunk.anchors.extend(anchor);
            self.at += 1;
        }
        while let Some(line) = self.peek_body().filter(|line| anchor(line).is_none()) {
            if line.trim_end() == "*** End of File" {
                chunk.at_end = true;
                self.at += 1;
                break;
            }
            if line.is_empty() && self.only_blank_lines_follow() {
                break;
            }
            chunk.lines.push(self.chunk_line(line)?);
            self.at += 1;
        }
        if chunk
            .lines
            .iter()
            .all(|line| matches!(line, ChunkLine::Context(_)))
        {
            return Err(ParseError::NoChange {
                line: chunk.patch_line,
            });
        }
        Ok(chunk)
    }

    fn chunk_line(&self, line: &str) -> Result<ChunkLine, ParseError> {
        let rest = || line[1..].to_owned();
        match line.as_bytes().first() {
            // Editors and models drop the trailing space of an empty context line.
            None => Ok(ChunkLine::Context(String::new())),
            Some(b' ') => Ok(ChunkLine::Context(rest())),
            Some(b'+') => Ok(ChunkLine::Add(rest())),
            Some(b'-') => Ok(ChunkLine::Remove(rest())),
            Some(_) => Err(ParseError::BadSign {
                line: self.at + 1,
                text: line.into(),
            }),
        }
    }
}

enum Header {
    Add,
    Delete,
    Update,
}

fn header(line: &str) -> Option<(Header, &str)> {
    let line = line.strip_prefix("*** ")?;
    let (kind, path) = line.split_once(" File:")?;
    let kind = match kind {
        "Add" => Header::Add,
        "Delete" => Header::Delete,
        "Update" => Header::Update,
        _ => return None,
    };
    Some((kind, path.trim()))
}

/// The anchor of an `@@` line, inside `None` when it names none. Line numbers of a unified diff do not count.
fn anchor(line: &str) -> Option<Option<String>> {
    let rest = line.strip_prefix("@@")?;
    let rest = match rest
        .trim_start()
        .strip_prefix('-')
        .and_then(|numbers| numbers.split_once("@@"))
    {
        Some((numbers, rest)) if numbers.bytes().all(|byte| b"0123456789,+ ".contains(&byte)) => {
            rest
        }
        _ => rest,
    };
    let rest = rest.strip_prefix(' ').unwrap_or(rest).trim_end();
    Some((!rest.trim().is_empty()).then(|| rest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_section_is_read() {
        let patch = parse(
            "*** Begin Patch\n*** Add File: a.txt\n+one\n+\n+two\n*** Delete File: b.txt\n\
             *** Update File: c.rs\n*** Move to: d.rs\n@@ fn main()\n@@ -3,4 +5,6 @@ inner\n context\n\n-old\n+new\n\
             *** End of File\n@@\n+last\n*** End Patch\n",
        );
        let chunk = |line, anchors: &[&str], lines, at_end| Chunk {
            anchors: anchors.iter().map(|anchor| (*anchor).to_owned()).collect(),
            lines,
            at_end,
            patch_line: line,
        };
        let lines = vec![
            ChunkLine::Context("context".into()),
            ChunkLine::Context(String::new()),
            ChunkLine::Remove("old".into()),
            ChunkLine::Add("new".into()),
        ];
        assert_eq!(
            patch.expect("a patch").sections,
            [
                Section::Add {
                    path: "a.txt".into(),
                    content: "one\n\ntwo\n".into()
                },
                Section::Delete {
                    path: "b.txt".into()
                },
                Section::Update {
                    path: "c.rs".into(),
                    move_to: Some("d.rs".into()),
                    chunks: vec![
                        chunk(9, &["fn main()", "inner"], lines, true),
                        chunk(16, &[], vec![ChunkLine::Add("last".into())], false),
                    ],
                },
            ]
        );
    }

    #[test]
    fn wrapping_and_trailing_blank_lines_do_no_harm() {
        let patch = parse(
            "apply_patch <<'EOF'\r\n*** Begin Patch\r\n*** Update File: a\r\n-x\r\n+y\r\n\r\n*** End Patch\r\nEOF\r\n",
        );
        let lines = vec![ChunkLine::Remove("x".into()), ChunkLine::Add("y".into())];
        let chunks = vec![Chunk {
            lines,
            patch_line: 4,
            ..Chunk::default()
        }];
        assert_eq!(
            patch.expect("a patch").sections,
            [Section::Update {
                path: "a".into(),
                move_to: None,
                chunks
            }]
        );
    }

    #[test]
    fn what_is_no_patch_is_refused_with_its_line() {
        let within = |body: &str| parse(&format!("*** Begin Patch\n{body}\n*** End Patch"));
        assert_eq!(parse("--- a\n+++ b\n"), Err(ParseError::NoBegin));
        assert_eq!(
            parse("*** Begin Patch\n*** Delete File: a\n"),
            Err(ParseError::NoEnd)
        );
        assert_eq!(within(""), Err(ParseError::Empty));
        assert_eq!(
            within("hello"),
            Err(ParseError::NoSection {
                line: 2,
                text: "hello".into()
            })
        );
        assert_eq!(
            within("*** Add File: "),
            Err(ParseError::NoPath { line: 2 })
        );
        assert_eq!(
            within("*** Add File: a\n x"),
            Err(ParseError::NotAdded {
                line: 3,
                text: " x".into()
            })
        );
        assert_eq!(
            within("*** Update File: a\n+x\nx"),
            Err(ParseError::BadSign {
                line: 4,
                text: "x".into()
            })
        );
        assert_eq!(
            within("*** Update File: a"),
            Err(ParseError::NoChunks {
                line: 2,
                path: "a".into()
            })
        );
        assert_eq!(
            within("*** Update File: a\n@@\n x"),
            Err(ParseError::NoChange { line: 3 })
        );
    }
}
