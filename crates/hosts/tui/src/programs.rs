//! Programs that get the terminal: anyone's, and the editor with a text.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use bezel_api_tui::{Program, ProgramError};

use crate::terminal::TerminalOptions;

/// Runs a program at the terminal, which must have been given back before.
pub(crate) async fn run(program: &Program) -> Result<ExitStatus, ProgramError> {
    let failed = |source| ProgramError::Start {
        program: program.program.to_string_lossy().into_owned(),
        source,
    };
    let mut command = tokio::process::Command::new(&program.program);
    command.args(&program.arguments).kill_on_drop(true);
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    command.status().await.map_err(failed)
}

/// Lets a person edit a text with the editor that the options name.
pub(crate) async fn edit(
    options: &TerminalOptions,
    text: &str,
    extension: &str,
) -> Result<String, ProgramError> {
    let words = options
        .editor
        .as_deref()
        .and_then(|editor| shell_words::split(editor).ok())
        .filter(|words| !words.is_empty());
    let words = words.ok_or(ProgramError::NoEditor)?;
    let file = TextFile::create(&options.temporary, text, extension).map_err(ProgramError::File)?;
    let mut program = Program::new(&words[0]);
    program.arguments = words[1..].iter().map(Into::into).collect();
    let status = run(&program.argument(&file.path)).await?;
    if !status.success() {
        return Err(ProgramError::Failed(status));
    }
    let edited = std::fs::read_to_string(&file.path).map_err(ProgramError::File)?;
    // Editors end a file with a newline that nobody typed.
    Ok(edited
        .strip_suffix('\n')
        .filter(|_| !text.ends_with('\n'))
        .unwrap_or(&edited)
        .to_owned())
}

/// A file that only this user can read, and that goes away.
struct TextFile {
    path: PathBuf,
}

impl TextFile {
    fn create(directory: &Path, text: &str, extension: &str) -> io::Result<Self> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let clean: String = extension
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        let mut number = 0_u32;
        loop {
            let name = format!("bezel-{}-{number}.{clean}", std::process::id());
            let path = directory.join(name);
            match std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
            {
                Ok(mut file) => {
                    let file_of_path = TextFile { path };
                    file.write_all(text.as_bytes())?;
                    return Ok(file_of_path);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {
                    number += 1
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for TextFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "could not remove the editor's file");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn edited(editor: Option<&str>) -> Result<String, ProgramError> {
        let editor = editor.map(str::to_owned);
        edit(
            &TerminalOptions {
                editor,
                ..TerminalOptions::default()
            },
            "text",
            "md",
        )
        .await
    }

    #[tokio::test]
    async fn a_text_is_edited_by_the_editor_that_is_set() {
        let script = "sh -c 'printf \"%s, edited\\n\" \"$(cat \"$0\")\" > \"$0\"'";
        assert_eq!(edited(Some(script)).await.unwrap(), "text, edited");
    }

    #[tokio::test]
    async fn what_goes_wrong_is_said() {
        let error = |result: Result<String, ProgramError>| result.unwrap_err().to_string();
        assert!(error(edited(None).await).contains("EDITOR"));
        assert!(error(edited(Some("/nowhere/editor")).await).contains("/nowhere/editor"));
        assert!(error(edited(Some("false")).await).contains("unchanged"));
    }
}
