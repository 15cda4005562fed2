//! What the transcript knows and does, shared by its view, its commands and what it fetches.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_api_tui::{ToolRenderers, Ui};
use bezel_blobs_contract::BlobsClient;
use bezel_context::{Context, Spawner};
use bezel_presentation::clock::Clock;
use bezel_presentation::highlight::Highlighter;
use bezel_rpc::{AttachmentState, State};
use bezel_transcript_contract::{TranscriptClient, TranscriptState};

use crate::conversation::{Conversation, Older};
use crate::entry::{Layout, Whole};
use crate::scroll::{self, Anchor};

/// Items that are fetched at once.
const PAGE: u32 = 100;

/// What the transcript works with.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) ui: Ui,
    pub(crate) spawner: Spawner,
    pub(crate) transcript: TranscriptClient,
    pub(crate) blobs: BlobsClient,
    /// Where the presentation was started.
    pub(crate) directory: PathBuf,
    pub(crate) state: State<TranscriptState>,
    pub(crate) attachment: State<AttachmentState>,
    pub(crate) renderers: ToolRenderers,
    pub(crate) clock: Clock,
}

/// The transcript. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Transcript {
    // A plain mutex: held while input is handled or a frame drawn, never across an await.
    core: Arc<Mutex<Core>>,
    pub(crate) services: Services,
}

#[derive(Default)]
pub(crate) struct Core {
    pub(crate) conversation: Conversation,
    pub(crate) anchor: Anchor,
    pub(crate) all_open: bool,
    /// The item that keys are about.
    pub(crate) selected: Option<String>,
    /// Whether something came that was not seen yet, while older items are looked at.
    pub(crate) unseen: bool,
    /// The session that is shown.
    pub(crate) target: Option<String>,
    /// Columns and rows of the last frame.
    pub(crate) width: u16,
    pub(crate) height: usize,
    pub(crate) highlighter: Highlighter,
}

impl Transcript {
    pub(crate) fn new(services: Services) -> Self {
        let core = Core {
            width: 80,
            height: 20,
            ..Core::default()
        };
        Transcript {
            core: Arc::new(Mutex::new(core)),
            services,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what the session has told since.
    pub(crate) fn sync(&self, core: &mut Core) {
        let attachment = self.services.attachment.get();
        if let Some(target) = attachment.target()
            && core.target.as_deref() != Some(target)
        {
            core.target = Some(target.to_owned());
            (core.anchor, core.selected, core.unseen) = (Anchor::End, None, false);
            core.conversation.switch();
        }
        if attachment.is_attached()
            && self.services.state.is_ready()
            && !self.services.state.is_stale()
        {
            let changed = core.conversation.take(self.services.state.get());
            core.unseen |= changed && core.anchor != Anchor::End;
        }
    }

    /// Fetches older items, unless that is under way.
    pub(crate) fn fetch_older(&self, core: &mut Core) {
        let Some(first) = core
            .conversation
            .entries()
            .first()
            .map(|first| first.id().to_owned())
        else {
            return;
        };
        if !core.conversation.has_older() || core.conversation.older == Older::Loading {
            return;
        }
        core.conversation.older = Older::Loading;
        let (transcript, target) = (self.clone(), core.target.clone());
        self.services.spawner.spawn("older items", async move {
            let page = transcript
                .services
                .transcript
                .page(&Context::background(), first.clone(), PAGE)
                .await;
            let mut core = transcript.lock();
            if core.target == target {
                match page {
                    Ok(page) => core.conversation.prepend(&first, page),
                    Err(error) => core.conversation.older = Older::Failed(error.to_string()),
                }
            }
            drop(core);
            transcript.services.ui.redraw();
        });
    }

    /// Fetches the whole result of a call whose item is clipped.
    pub(crate) fn fetch_whole(&self, core: &mut Core, index: usize) {
        let Some(entry) = core.conversation.entry(index) else {
            return;
        };
        entry.set_whole(Whole::Loading);
        let id = entry.id().to_owned();
        let transcript = self.clone();
        self.services.spawner.spawn("whole result", async move {
            let result = transcript
                .services
                .transcript
                .result(&Context::background(), id.clone())
                .await;
            let whole = match result {
                Ok(result) => Whole::Known(Box::new(result)),
                Err(error) => Whole::Failed(error.to_string()),
            };
            let mut core = transcript.lock();
            if let Some(entry) = core
                .conversation
                .position(&id)
                .and_then(|index| core.conversation.entry(index))
            {
                entry.set_whole(whole);
            }
            drop(core);
            transcript.services.ui.redraw();
        });
    }

    /// Opens everything, or closes it.
    pub(crate) fn toggle_all(&self) {
        let mut core = self.lock();
        core.all_open = !core.all_open;
        core.conversation
            .entries_mut()
            .iter_mut()
            .for_each(crate::entry::Entry::follow_all);
        drop(core);
        self.services.ui.redraw();
    }

    /// Scrolls by rows.
    pub(crate) fn scroll(&self, core: &mut Core, rows: isize) {
        let Core {
            conversation,
            anchor,
            width,
            height,
            all_open,
            highlighter,
            ..
        } = core;
        let cx = Layout {
            width: *width,
            all_open: *all_open,
            renderers: &self.services.renderers,
            highlighter,
        };
        scroll::scroll(anchor, conversation, rows, *height, &cx);
        let top = scroll::top(anchor, conversation, *height, &cx);
        if rows < 0 && top.entry == 0 && top.row < 2 {
            self.fetch_older(core);
        }
        core.unseen &= core.anchor != Anchor::End;
    }

    /// Goes to the first known item.
    pub(crate) fn go_to_start(&self, core: &mut Core) {
        scroll::hold(
            &mut core.anchor,
            &core.conversation,
            scroll::Top { entry: 0, row: 0 },
        );
        self.fetch_older(core);
    }

    pub(crate) fn go_to_end(&self, core: &mut Core) {
        (core.anchor, core.unseen) = (Anchor::End, false);
    }

    /// Selects another item; the newest at first.
    pub(crate) fn select(&self, core: &mut Core, step: isize) {
        let selected = core
            .selected
            .as_deref()
            .and_then(|id| core.conversation.position(id));
        let count = core.conversation.entries().len();
        let mut index = match selected {
            Some(selected) => selected.checked_add_signed(step),
            None => count.checked_sub(1),
        };
        // What shows nothing cannot be selected.
        while let Some(candidate) = index.filter(|index| *index < count) {
            if self.height_of(core, candidate) > 0 {
                core.selected = core
                    .conversation
                    .entries()
                    .get(candidate)
                    .map(|entry| entry.id().to_owned());
                return self.reveal(core, candidate);
            }
            index = candidate.checked_add_signed(if selected.is_none() { -1 } else { step });
        }
        if step < 0 {
            self.fetch_older(core);
        }
    }

    /// Opens or closes an item; what is in sight stays where it is.
    pub(crate) fn toggle(&self, core: &mut Core, index: usize) {
        let all_open = core.all_open;
        if !core
            .conversation
            .entries()
            .get(index)
            .is_some_and(crate::entry::Entry::can_open)
        {
            return;
        }
        let Core {
            conversation,
            anchor,
            width,
            height,
            highlighter,
            ..
        } = core;
        let cx = Layout {
            width: *width,
            all_open,
            renderers: &self.services.renderers,
            highlighter,
        };
        let top = scroll::top(anchor, conversation, *height, &cx);
        if let Some(entry) = conversation.entry(index) {
            entry.toggle(all_open);
        }
        scroll::hold(anchor, conversation, top);
    }

    fn height_of(&self, core: &mut Core, index: usize) -> usize {
        let Core {
            conversation,
            width,
            all_open,
            highlighter,
            ..
        } = core;
        let cx = Layout {
            width: *width,
            all_open: *all_open,
            renderers: &self.services.renderers,
            highlighter,
        };
        conversation.entry(index).map_or(0, |entry| {
            entry.lay_out(&cx);
            entry.height()
        })
    }

    pub(crate) fn reveal(&self, core: &mut Core, index: usize) {
        let Core {
            conversation,
            anchor,
            width,
            height,
            all_open,
            highlighter,
            ..
        } = core;
        let cx = Layout {
            width: *width,
            all_open: *all_open,
            renderers: &self.services.renderers,
            highlighter,
        };
        scroll::reveal(anchor, conversation, index, *height, &cx);
    }
}
