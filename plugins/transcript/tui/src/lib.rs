//! Renders the transcript in the terminal.
//!
//! What a frame costs depends on what is in sight and what has changed: items keep their rows until they or
//! the width change, texts are laid out where they grow, and nothing out of sight is laid out at all.

mod conversation;
mod core;
mod entry;
mod saving;
mod scroll;
#[cfg(test)]
mod tests;
mod view;
mod welcome;

use bezel_api_tui::{
    Binding, Command, Facet, FacetError, Namespace, Placement, Slot, TuiContext, TuiFacet,
};
use bezel_blobs_contract::BlobsClient;
use bezel_models_contract::ModelsClient;
use bezel_presentation::clock::Clock;
use bezel_sessions_contract::SessionDirectoryClient;
use bezel_transcript_contract::{ItemBody, TranscriptClient};

use crate::core::{Services, Transcript};
use crate::view::TranscriptView;
use crate::welcome::Welcome;

/// The terminal facet of the transcript.
pub fn facet() -> TuiFacet {
    facet_at(Clock::system())
}

fn facet_at(clock: Clock) -> TuiFacet {
    Facet::new("transcript", move |cx| setup(cx, clock.clone()))
        .requires::<TranscriptClient>(Namespace::Session)
        .optional::<BlobsClient>(Namespace::Session)
        .optional::<ModelsClient>(Namespace::Session)
        .optional::<SessionDirectoryClient>(Namespace::Server)
}

async fn setup(cx: TuiContext, clock: Clock) -> Result<(), FacetError> {
    let service: TranscriptClient = cx.session.use_service();
    let models: ModelsClient = cx.session.use_service();
    let directory: SessionDirectoryClient = cx.server.use_service();
    let attachment = cx.session.attachment();
    let transcript = Transcript::new(Services {
        ui: cx.ui.clone(),
        spawner: cx.spawner().clone(),
        state: service.state(),
        transcript: service,
        blobs: cx.session.use_service(),
        directory: cx.launch.directory.clone(),
        attachment: attachment.clone(),
        renderers: cx.tool_renderers.clone(),
        clock,
    });
    let home = cx.launch.environment.get("HOME").map(String::as_str);
    let welcome = Welcome {
        models: models.state(),
        directory: directory.state(),
        attachment: attachment.clone(),
        keybindings: cx.keybindings.clone(),
        commands: cx.commands.clone(),
        place: welcome::shown_path(&cx.launch.directory, home),
    };
    cx.slots.add(
        Slot::Main,
        Placement::default(),
        TranscriptView::new(transcript.clone(), welcome),
    );
    cx.help.add("Transcript", view::HELP)?;
    add_commands(&cx, &transcript)?;

    let ui = cx.ui.clone();
    cx.own(transcript.services.state.subscribe(move |_, _| ui.redraw()));
    let ui = cx.ui.clone();
    cx.own(attachment.subscribe(move |_, _| ui.redraw()));
    Ok(())
}

fn add_commands(cx: &TuiContext, transcript: &Transcript) -> Result<(), FacetError> {
    let all = transcript.clone();
    cx.commands.add(
        Command::new("transcript.toggle_all", "Open or close all details")
            .description("Tool calls with their whole output, and the model's reasoning")
            .run(move |_, _| {
                all.toggle_all();
                async { Ok(()) }
            }),
    );
    let last = transcript.clone();
    cx.commands.add(
        Command::new("transcript.copy", "Copy the last answer")
            .description("Puts its Markdown on the clipboard")
            .slash("copy")
            .run(move |_, _| {
                let core = last.lock();
                let answers = core.conversation.entries().iter().rev();
                let mut texts = answers
                    .filter(|entry| matches!(entry.item().body, ItemBody::Assistant { .. }))
                    .map(entry::Entry::to_text);
                let text = texts
                    .find(|text| !text.trim().is_empty())
                    .unwrap_or_default();
                drop(texts);
                drop(core);
                view::copy(&last, text);
                async { Ok(()) }
            }),
    );
    let start = transcript.clone();
    cx.commands.add(
        Command::new(
            "transcript.start",
            "Go to the beginning of the conversation",
        )
        .run(move |_, _| {
            start.go_to_start(&mut start.lock());
            start.services.ui.redraw();
            async { Ok(()) }
        }),
    );
    let end = transcript.clone();
    cx.commands.add(
        Command::new("transcript.end", "Go to the end of the conversation").run(move |_, _| {
            end.go_to_end(&mut end.lock());
            end.services.ui.redraw();
            async { Ok(()) }
        }),
    );
    cx.keybindings
        .add(Binding::new("ctrl+o", "transcript.toggle_all")?);
    Ok(())
}
