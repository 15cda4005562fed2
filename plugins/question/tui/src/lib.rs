//! Questions in the terminal: the dialog and the card.
//!
//! Every pending question of the attached session has a task that asks the person. It ends when the
//! question is no longer pending, whoever answered it.

mod asking;
mod card;

use bezel_api_tui::{Facet, FacetError, Namespace, TuiContext, TuiFacet};
use bezel_question_contract::{QuestionsClient, TOOL};
use bezel_sessions_contract::SessionDirectoryClient;

/// The terminal facet of questions.
pub fn facet() -> TuiFacet {
    Facet::new("question", setup)
        .requires::<QuestionsClient>(Namespace::Session)
        .optional::<SessionDirectoryClient>(Namespace::Server)
}

async fn setup(cx: TuiContext) -> Result<(), FacetError> {
    cx.tool_renderers.add(TOOL, card::QuestionCard);
    asking::follow(&cx);
    Ok(())
}

#[cfg(test)]
mod tests;
