//! The chat screen: composer, queue, activity.
//!
//! What a person writes keeps its text and one command id until the session has taken it, over lost
//! connections and restarts of the worker. Writing ahead works before a session is there.

mod activity;
mod composer;
mod draft;
mod images;
mod notify;
mod outbox;
mod queue;
mod waiting;

use std::sync::Arc;

use bezel_api_tui::{
    Binding, Command, Facet, FacetError, Namespace, Placement, Slot, Toast, TuiContext, TuiFacet,
};
use bezel_blobs_contract::BlobsClient;
use bezel_chat_contract::{ChatClient, Delivery};
use bezel_context::Context;
use bezel_files_contract::FilesClient;
use bezel_presentation::clock::Clock;
use bezel_sessions_contract::{LaunchEnvironment, SessionManagementClient};
use bezel_transcript_contract::TranscriptClient;
use bezel_usage_contract::UsageClient;

use crate::activity::ActivityView;
use crate::composer::{Composer, ComposerView, Services};
use crate::draft::Draft;
use crate::outbox::{Courier, Outbox};
use crate::queue::QueueView;
use crate::waiting::Waiting;

/// The terminal facet of the chat.
pub fn facet() -> TuiFacet {
    facet_at(Clock::system())
}

fn facet_at(clock: Clock) -> TuiFacet {
    Facet::new("chat", move |cx| setup(cx, clock.clone()))
        .requires::<ChatClient>(Namespace::Session)
        .optional::<BlobsClient>(Namespace::Session)
        .optional::<TranscriptClient>(Namespace::Session)
        .optional::<UsageClient>(Namespace::Session)
        .optional::<FilesClient>(Namespace::Session)
        .requires::<SessionManagementClient>(Namespace::Server)
}

async fn setup(cx: TuiContext, clock: Clock) -> Result<(), FacetError> {
    let chat: ChatClient = cx.session.use_service();
    let transcript: TranscriptClient = cx.session.use_service();
    let usage: UsageClient = cx.session.use_service();
    let attachment = cx.session.attachment();
    let outbox = Outbox::default();
    let composer = Composer::new(Services {
        ui: cx.ui.clone(),
        commands: cx.commands.clone(),
        spawner: cx.spawner().clone(),
        chat: chat.clone(),
        files: cx.session.use_service(),
        transcript: transcript.state(),
        attachment: attachment.clone(),
        outbox: outbox.clone(),
        home: cx.launch.environment.get("HOME").map(Into::into),
    });

    cx.slots.add(
        Slot::Composer,
        Placement::default(),
        ComposerView(composer.clone()),
    );
    let activity = ActivityView {
        chat: chat.state(),
        attachment: attachment.clone(),
        usage: usage.state(),
        transcript: transcript.state(),
        clock,
        baseline: None,
        lines: Vec::new(),
    };
    cx.slots
        .add(Slot::AboveComposer, Placement::order(0), activity);
    let queue = QueueView {
        chat: chat.state(),
        attachment: attachment.clone(),
        outbox: outbox.clone(),
    };
    cx.slots
        .add(Slot::AboveComposer, Placement::order(10), queue);
    cx.help.add("Composer", composer::HELP)?;
    add_commands(&cx, &chat, &composer)?;

    let ui = cx.ui.clone();
    cx.own(chat.state().subscribe(move |_, _| ui.redraw()));
    let ui = cx.ui.clone();
    cx.own(transcript.state().subscribe(move |_, _| ui.redraw()));
    let (ui, waiting) = (cx.ui.clone(), composer.clone());
    cx.own(attachment.subscribe(move |state, _| {
        if state.is_attached() {
            waiting.look_again();
        }
        ui.redraw();
    }));
    cx.own(notify::when_done(&chat.state(), &cx.ui));

    let (returned, ui) = (composer, cx.ui.clone());
    let courier = Courier {
        outbox,
        chat,
        blobs: cx.session.use_service(),
        management: cx.server.use_service(),
        attachment,
        connection: cx.connection.clone(),
        environment: LaunchEnvironment(cx.launch.environment.clone()),
        refused: Arc::new(move |draft, reason| {
            returned.give_back(draft);
            ui.toast(Toast::error(reason));
        }),
        changed: {
            let ui = cx.ui.clone();
            Arc::new(move || ui.redraw())
        },
    };
    let first = cx.launch.prompt.trim();
    if !first.is_empty() {
        courier
            .outbox
            .push(Draft::plain(first), Delivery::default(), None);
    }
    let spawner = cx.spawner().clone();
    cx.on_activate(move || async move {
        spawner.spawn("courier", async move {
            let (cx, cancel) = Context::background().with_cancel();
            let _ends_with_the_facet = cancel.drop_guard();
            courier.run(&cx).await;
        });
        Ok(())
    });
    Ok(())
}

fn add_commands(cx: &TuiContext, chat: &ChatClient, composer: &Composer) -> Result<(), FacetError> {
    let (service, ui) = (chat.clone(), cx.ui.clone());
    cx.commands.add(
        Command::new("chat.compact", "Compact the conversation")
            .description("Summarises what was said so far for the model; nothing is lost")
            .slash("compact")
            .argument_hint("[what matters]")
            .run(move |cx, arguments| {
                let (service, ui) = (service.clone(), ui.clone());
                async move {
                    let instructions = Some(arguments.text).filter(|text| !text.is_empty());
                    let reply = service.compact(&cx, instructions).await?;
                    match reply.error {
                        Some(error) if !reply.accepted => Err(error.into()),
                        _ => {
                            ui.redraw();
                            Ok(())
                        }
                    }
                }
            }),
    );
    let (running, interrupted) = (composer.clone(), composer.clone());
    cx.commands.add(
        Command::new("chat.interrupt", "Interrupt the agent")
            .description("Ends what runs now; what was done stays")
            .enabled(move || running.running().is_some())
            .run(move |_, _| {
                interrupted.interrupt();
                async { Ok(()) }
            }),
    );
    let edited = composer.clone();
    cx.commands.add(
        Command::new("chat.edit", "Write the message in your editor")
            .description("Opens $VISUAL or $EDITOR with what is written so far")
            .slash("editor")
            .run(move |cx, _| {
                let edited = edited.clone();
                async move { Ok(edited.edit(&cx).await?) }
            }),
    );
    let taken = composer.clone();
    cx.commands.add(
        Command::new("chat.take_back", "Take the last pending message back")
            .description("Puts a message that was not delivered yet into the composer again")
            .run(move |_, _| {
                taken.take_back();
                async { Ok(()) }
            }),
    );
    let inserted = composer.clone();
    cx.commands.add(
        Command::new("chat.insert", "Insert text into the composer")
            .hidden()
            .run(move |_, arguments| {
                inserted.insert(&arguments.text);
                async { Ok(()) }
            }),
    );
    let written = composer.clone();
    cx.commands.add(
        Command::new("chat.write", "Write text into the composer")
            .hidden()
            .run(move |_, arguments| {
                written.give_back(Draft::plain(&arguments.text));
                async { Ok(()) }
            }),
    );
    let waiting = Waiting {
        ui: cx.ui.clone(),
        chat: chat.clone(),
        composer: composer.clone(),
    };
    let state = chat.state();
    cx.commands.add(
        Command::new("chat.queue", "Change what waits")
            .description(
                "Messages that were not delivered yet: edit one, take it back, or let it steer",
            )
            .slash("queue")
            .enabled(move || !state.get().queue.is_empty())
            .run(move |cx, _| {
                let waiting = waiting.clone();
                async move { waiting.open(&cx).await }
            }),
    );
    cx.keybindings.add(Binding::new("ctrl+g", "chat.edit")?);
    Ok(())
}

#[cfg(test)]
mod tests;
