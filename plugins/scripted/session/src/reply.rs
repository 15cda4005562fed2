//! What the scripted model says once the tour is over.

use crate::tour::Turn;
use crate::words;

/// How much of a prompt is repeated.
const QUOTED: usize = 400;

/// Whether a prompt asks for the tour.
pub(crate) fn asks_for_tour(prompt: &str) -> bool {
    mentions(prompt, &["tour", "again"])
}

/// The answer to a prompt that asks for something else.
pub(crate) fn reply(turn: &Turn<'_>) -> String {
    if mentions(
        &turn.prompt,
        &[
            "model",
            "models",
            "key",
            "keys",
            "configure",
            "configuration",
            "provider",
            "config",
        ],
    ) {
        return words::configure(turn.audience);
    }
    if mentions(&turn.prompt, &["next", "help", "try", "what"]) {
        return words::NEXT.into();
    }
    let quoted: Vec<_> = shortened(&turn.prompt)
        .lines()
        .map(|line| format!("> {line}"))
        .collect();
    format!(
        "You said:\n\n{}\n\nI am a script and cannot think about it; a model can. Say **model** to see how to configure \
         one.\n\n{}",
        quoted.join("\n"),
        words::NEXT
    )
}

fn shortened(prompt: &str) -> String {
    let prompt = prompt.trim();
    match prompt.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &prompt[..end]),
        None => prompt.into(),
    }
}

/// Whether one of these words stands in the prompt.
fn mentions(prompt: &str, words: &[&str]) -> bool {
    let prompt = prompt.to_lowercase();
    prompt
        .split(|character: char| !character.is_alphanumeric())
        .any(|word| words.contains(&word))
}
