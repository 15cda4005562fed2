//! The composer: where a person writes.

mod choosing;
mod completion;
mod editor;
mod history;
mod keys;
mod layout;
mod list;
mod view;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bezel_api_tui::{CommandArguments, Commands, OverlayHandle, Toast, Ui};
use bezel_chat_contract::{Activity, ChatClient, Delivery};
use bezel_context::{Context, Spawner, Task};
use bezel_files_contract::FilesClient;
use bezel_rpc::{AttachmentState, State};
use bezel_session_types::OperationId;
use bezel_transcript_contract::{ItemBody, TranscriptState};
use tokio::time::Instant;

use self::completion::{List, Trigger};
use self::editor::Editor;
use self::history::History;
use crate::draft::{Chip, Draft};
use crate::images::{self, ImageError};
use crate::outbox::Outbox;

pub(crate) use self::keys::HELP;
pub(crate) use self::view::ComposerView;

/// Rows of the list of candidates.
const LIST_ROWS: u16 = 10;

/// A second esc within this time clears the input.
const AGAIN: Duration = Duration::from_secs(1);

/// What the composer works with.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) ui: Ui,
    pub(crate) commands: Commands,
    pub(crate) spawner: Spawner,
    pub(crate) chat: ChatClient,
    pub(crate) files: FilesClient,
    pub(crate) transcript: State<TranscriptState>,
    pub(crate) attachment: State<AttachmentState>,
    pub(crate) outbox: Outbox,
    pub(crate) home: Option<std::path::PathBuf>,
}

/// The composer, shared by its view, its list and the commands. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Composer {
    // A plain mutex: held while a key is handled or a frame drawn, never across an await.
    core: Arc<Mutex<Core>>,
    services: Services,
}

/// What the composer knows.
#[derive(Default)]
struct Core {
    editor: Editor,
    /// By session; the empty name is for what is written before one is there.
    histories: HashMap<String, History>,
    list: Option<List>,
    popup: Option<OverlayHandle>,
    /// What is being looked for.
    search: Option<(Trigger, Task<()>)>,
    /// Where a list was closed by hand; it stays closed while the cursor is in that word.
    dismissed: Option<usize>,
    /// When esc was pressed while there was something to clear.
    escaped: Option<Instant>,
    /// Columns for text in the last frame.
    columns: usize,
    /// The first row that is shown.
    scroll: usize,
}

impl Composer {
    pub(crate) fn new(services: Services) -> Self {
        let core = Core {
            columns: 80,
            ..Core::default()
        };
        Composer {
            core: Arc::new(Mutex::new(core)),
            services,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The operation that runs in the attached session, and whether it is being ended.
    pub(crate) fn running(&self) -> Option<(OperationId, bool)> {
        let state = self.services.chat.state();
        if !self.services.attachment.get().is_attached() || state.is_stale() {
            return None;
        }
        match &state.get().activity {
            Activity::Idle => None,
            Activity::Running {
                operation_id,
                cancelling,
                ..
            } => Some((operation_id.clone(), *cancelling)),
        }
    }

    /// Asks the session to end what runs. False when nothing does.
    pub(crate) fn interrupt(&self) -> bool {
        let Some((operation, _)) = self.running() else {
            return false;
        };
        let Services { chat, ui, .. } = self.services.clone();
        self.services.spawner.spawn("interrupt", async move {
            if let Err(error) = chat.request_abort(&Context::background(), operation).await {
                ui.toast(Toast::error(format!("could not interrupt: {error}")));
            }
        });
        true
    }

    /// Puts a message back that was not taken: before everything that was written since.
    pub(crate) fn give_back(&self, mut draft: Draft) {
        let mut core = self.lock();
        if !core.editor.is_empty() {
            draft.append(core.editor.draft());
        }
        core.editor.replace(draft);
        drop(core);
        self.services.ui.redraw();
    }

    /// Puts a message back that was sent from here or elsewhere, with its pictures where they are known.
    pub(crate) fn write_again(&self, text: &str) {
        self.give_back(self.said_before(text));
    }

    /// Takes the newest pending message back for editing.
    pub(crate) fn take_back(&self) {
        if let Some(draft) = self.services.outbox.take_back() {
            return self.give_back(draft);
        }
        let state = self.services.chat.state().get();
        let Some(last) = state.queue.last().cloned() else {
            return;
        };
        let composer = self.clone();
        self.services.spawner.spawn("withdraw", async move {
            let ui = &composer.services.ui;
            match composer
                .services
                .chat
                .withdraw(&Context::background(), last.id)
                .await
            {
                Ok(true) => composer.give_back(composer.said_before(&last.text)),
                Ok(false) => ui.toast("too late: the message has been delivered"),
                Err(error) => ui.toast(Toast::error(format!(
                    "could not take the message back: {error}"
                ))),
            }
        });
    }

    /// Lets the person write in their editor.
    pub(crate) async fn edit(&self, cx: &Context) -> Result<(), bezel_api_tui::ProgramError> {
        let draft = self.lock().editor.draft().clone();
        let text = self.services.ui.edit(cx, draft.expanded(), "md").await?;
        let edited = draft.rewritten(text.trim_end());
        self.lock().editor.replace(edited);
        self.services.ui.redraw();
        Ok(())
    }

    /// Puts text at the cursor.
    pub(crate) fn insert(&self, text: &str) {
        let mut core = self.lock();
        core.editor.type_text(text);
        self.complete(&mut core);
        drop(core);
        self.services.ui.redraw();
    }

    /// Sends what is written, or runs it where it is a command.
    fn submit(&self, core: &mut Core, delivery: Delivery) {
        if core.editor.draft().is_blank() {
            return self.send_held();
        }
        let text = core.editor.text().trim().to_owned();
        if let Some(line) = text.strip_prefix('/') {
            let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            if let Some(command) = self.services.commands.find_slash(name) {
                let arguments = CommandArguments::text(arguments.trim());
                self.keep(core);
                self.close_list(core);
                return self.services.commands.run(&command.id, arguments);
            }
            // A path may begin a message; a single word is a mistyped command.
            if !name.contains('/') && !name.is_empty() {
                let note = format!(
                    "there is no command /{name}; type / to see them all, or a space before it to send it as text"
                );
                return self.services.ui.toast(Toast::warning(note));
            }
        }
        let draft = self.keep(core);
        self.close_list(core);
        let attachment = self.services.attachment.get();
        self.services
            .outbox
            .push(draft, delivery, attachment.target());
    }

    /// Sends the oldest message that was held when the turn was interrupted; the others follow it into the
    /// turn that it begins.
    fn send_held(&self) {
        let state = self.services.chat.state();
        if !self.services.attachment.get().is_attached()
            || state.is_stale()
            || self.running().is_some()
            || !self.services.outbox.is_empty()
        {
            return;
        }
        let Some(held) = state.get().queue.first().cloned() else {
            return;
        };
        let composer = self.clone();
        self.services.spawner.spawn("send held", async move {
            let Services {
                chat, ui, outbox, ..
            } = &composer.services;
            match chat.withdraw(&Context::background(), held.id).await {
                Ok(true) => {
                    let draft = composer.said_before(&held.text);
                    let attachment = composer.services.attachment.get();
                    outbox.push(draft, held.delivery, attachment.target());
                    ui.redraw();
                }
                // Somebody else has sent it or taken it back.
                Ok(false) => ui.redraw(),
                Err(error) => ui.toast(Toast::error(format!(
                    "could not send the message that is held: {error}"
                ))),
            }
        });
    }

    /// A message that was sent from here, with its pictures; otherwise its text.
    fn said_before(&self, text: &str) -> Draft {
        let said = text.trim();
        let kept = self.lock().history(&self.services).find(said);
        kept.unwrap_or_else(|| Draft::plain(said))
    }

    /// Takes the draft out and keeps it in the history.
    fn keep(&self, core: &mut Core) -> Draft {
        let draft = core.editor.take();
        core.history(&self.services).add(&draft);
        (core.escaped, core.dismissed, core.scroll) = (None, None, 0);
        draft
    }

    fn clear(&self, core: &mut Core) {
        self.keep(core);
        self.close_list(core);
    }

    /// Handles pasted text: pictures by path, everything else as text.
    fn paste(&self, core: &mut Core, text: &str) {
        core.escaped = None;
        match images::pasted_path(text, self.services.home.as_deref()) {
            None => {
                core.editor.paste(text);
                self.complete(core);
            }
            Some(path) => {
                let (composer, text) = (self.clone(), text.to_owned());
                self.services.spawner.spawn("picture", async move {
                    let read = images::read(&path).await;
                    composer.attach(read, &text);
                });
            }
        }
    }

    fn attach(&self, read: Result<Chip, ImageError>, pasted: &str) {
        let mut core = self.lock();
        match read {
            Ok(chip) => core.editor.insert_chip(chip),
            Err(ImageError::NotThere) => core.editor.paste(pasted),
            Err(ImageError::Unfit(why)) => self.services.ui.toast(Toast::error(why)),
        }
        drop(core);
        self.services.ui.redraw();
    }

    /// What the conversation holds of the person, oldest first.
    fn said(&self) -> Vec<String> {
        if self.services.transcript.is_stale() {
            return Vec::new();
        }
        let transcript = self.services.transcript.get();
        let said = transcript.items.iter().filter_map(|item| match &item.body {
            ItemBody::User {
                text,
                synthetic: false,
                ..
            } => Some(text.clone()),
            _ => None,
        });
        said.collect()
    }
}

impl Core {
    fn history(&mut self, services: &Services) -> &mut History {
        let session = services
            .attachment
            .get()
            .target()
            .unwrap_or_default()
            .to_owned();
        if !session.is_empty()
            && let Some(early) = self.histories.remove("")
        {
            // What was written before the session was there belongs to it.
            self.histories.entry(session.clone()).or_insert(early);
        }
        self.histories.entry(session).or_default()
    }

    fn stop_search(&mut self) {
        if let Some((_, task)) = self.search.take() {
            task.abort();
        }
    }
}
