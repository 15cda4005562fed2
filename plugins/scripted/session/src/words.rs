//! What the tour says.

use crate::tour::Audience;

/// The program that the tour writes.
pub(crate) const PROGRAM: &str =
    "#!/bin/sh\n# Greets whoever it is told to.\necho \"Hello, ${1:-world}.\"\n";
/// The line that the tour changes.
pub(crate) const OLD_LINE: &str = "echo \"Hello, ${1:-world}.\"";
/// What it becomes.
pub(crate) const NEW_LINE: &str = "echo \"Hello, ${1:-world}, from $(uname -s).\"";

/// The steps of the tour as a list of tasks.
pub(crate) const STEPS: [&str; 3] = [
    "Write a small program and run it",
    "Change one line of it",
    "Run it again and compare",
];

pub(crate) const GREETING: &str = "Hello! I am the **tour**: a script that ships with Bezel and answers where no \
    model is configured. I need no key and no network. What I say is written beforehand, but the tools that I call \
    are the real ones, and so is what they do.\n\nLet me show you a turn of an agent. I begin with a small program \
    in a scratch directory.";

pub(crate) const FOUND_A_FILE: &str = "There is such a file already, from an earlier tour. Bezel overwrites nothing that it has not read, so I read it first.";

pub(crate) const WRITE_AGAIN: &str = "Now that I know what it holds, I may write it.";

pub(crate) const READ_AND_RUN: &str = "It is on disk. I read it back and run it; the two calls do not depend on each other, so they run side by side.";

pub(crate) const CHANGE_IT: &str =
    "It runs. Now a change: an edit names the text to replace, exactly, and you see it as a diff.";

pub(crate) const RUN_AGAIN: &str =
    "The file is changed. I run it once more to see whether the change does what it should.";

/// How to get a real model, as Markdown.
const CONFIGURE: &str = r#"Set the key of a provider in the shell that you start Bezel from. That is enough: the first of its models serves, and `bezel models` lists them all.

```sh
export ANTHROPIC_API_KEY=…        # or OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY…
bezel
```

To choose another model for good, or to use a server of your own, write `config.toml` (`bezel config path` says where it belongs):

```toml
model = "local::qwen3-coder"

[providers.local]
kind = "openai"                  # whatever speaks OpenAI's chat completions
base_url = "http://127.0.0.1:8080/v1"

[[providers.local.models]]
id = "qwen3-coder"
context = 262144
```

`bezel doctor` says what is missing."#;

/// What to write where `bezel` is not found.
const NOT_INSTALLED: &str = "`bezel` is not on your `PATH` yet: in the clone of Bezel, `cargo install --locked --path \
    crates/cli` puts it there. Until then, write `cargo xtask run --` in its place.";

/// How to get a real model.
pub(crate) fn configure(audience: Audience) -> String {
    if audience.installed {
        CONFIGURE.to_owned()
    } else {
        format!("{CONFIGURE}\n\n{NOT_INSTALLED}")
    }
}

/// The end of the tour.
pub(crate) fn summary(file: &str, printed: &str, edited: bool, audience: Audience) -> String {
    let mut text = String::from(
        "That was a turn: text, calls of tools, their results, and again, until there is nothing left to do.\n",
    );
    if !printed.is_empty() {
        text.push_str(&format!(
            "\nThe last run printed\n\n```text\n{}\n```\n",
            unfenced(printed)
        ));
    }
    if edited {
        text.push_str(&format!("\nand this is what the edit changed in `{file}`:\n\n```diff\n-{OLD_LINE}\n+{NEW_LINE}\n```\n"));
    } else {
        text.push_str(&format!("\nThe file is `{file}`.\n"));
    }
    text.push_str("\n## A real model\n\n");
    text.push_str(&configure(audience));
    text.push_str(if audience.answers {
        "\n\nAsk me **what next** for things to try, or say **tour** to see it again."
    } else {
        "\n\nIn a terminal, `bezel tour` shows the same on its screen, and there you can ask it more."
    });
    text
}

/// The tour where writing is not possible.
pub(crate) fn trouble(said: &str, audience: Audience) -> String {
    let (said, configure) = (unfenced(said), configure(audience));
    format!(
        "I could not write into the scratch directory. This is what the tool said:\n\n```text\n{said}\n```\n\nAn agent \
         reads such an answer and tries another way; I only have this one, so the tour ends here.\n\n## A real \
         model\n\n{configure}"
    )
}

/// The tour in plan mode.
pub(crate) fn plan_mode(said: &str, audience: Audience) -> String {
    let (said, configure) = (unfenced(said), configure(audience));
    format!(
        "This session is in **plan mode**: an agent may look at everything and change nothing, so my file was not \
         written. This is what the tool said:\n\n```text\n{said}\n```\n\nA model would go on looking and end with a \
         plan. Everything that I have to show changes something, so the tour ends here; a session without \
         `permission_mode = \"plan\"` shows the rest.\n\n## A real model\n\n{configure}"
    )
}

/// The tour where there are no tools.
pub(crate) fn without_tools(audience: Audience) -> String {
    let configure = configure(audience);
    format!(
        "Hello! I am the **tour**: a script that answers where no model is configured. I would show you a turn with \
         real tools, but this session offers me neither `write` nor `bash`.\n\n## A real model\n\n{configure}"
    )
}

/// What to try next.
pub(crate) const NEXT: &str = "Things to try:\n\n\
    - **tour**: I run the tour again.\n\
    - **model** or **key**: I show how to configure a real model.\n\
    - `/` opens the list of commands, `@` completes a file name, F1 shows every key, and Esc interrupts me.\n\
    - A tool card opens and closes; the diff of an edit is inside.\n\
    - `bezel run \"PROMPT\"` does the same without a screen, and with `--json` as events.\n\
    - Ctrl+D leaves. With a real model, `bezel --continue` goes on where you left.";

/// A fence inside quoted output would end the quote.
fn unfenced(text: &str) -> String {
    text.replace("```", "'''")
}
