//! The list of candidates: when it opens, what fills it, and what choosing does.

use bezel_api_tui::{CommandArguments, Overlay, OverlayHandle, OverlayPlacement};
use bezel_chat_contract::Delivery;
use bezel_context::Context;

use super::completion::{self, LIMIT, List, Topic, Trigger};
use super::list::ListView;
use super::{Composer, Core, LIST_ROWS};
use crate::draft::Draft;

impl Composer {
    /// Looks again for what could not be found while there was no session.
    pub(crate) fn look_again(&self) {
        let mut core = self.lock();
        if core.list.is_none()
            && core
                .search
                .as_ref()
                .is_some_and(|(_, task)| task.is_finished())
        {
            core.stop_search();
            self.complete(&mut core);
        }
    }

    /// Brings the list of candidates in line with what stands at the cursor.
    pub(super) fn complete(&self, core: &mut Core) {
        let find = |name: &str| self.services.commands.find_slash(name);
        let trigger = completion::trigger(core.editor.text(), core.editor.cursor(), find);
        if core.dismissed.is_some()
            && core.dismissed != trigger.as_ref().map(|trigger| trigger.range.start)
        {
            core.dismissed = None;
        }
        let Some(trigger) = trigger.filter(|_| core.dismissed.is_none()) else {
            return self.close_list(core);
        };
        match &trigger.topic {
            Topic::Command => {
                let candidates =
                    completion::commands(&trigger.query, self.services.commands.list());
                core.stop_search();
                self.show(core, List::new(trigger, candidates));
            }
            Topic::File | Topic::Argument(_) => self.look_up(core, trigger),
        }
    }

    fn look_up(&self, core: &mut Core, trigger: Trigger) {
        if core
            .search
            .as_ref()
            .is_some_and(|(wanted, task)| *wanted == trigger && !task.is_finished())
        {
            return;
        }
        // What is shown stays until there is something better, unless it is about something else.
        match &mut core.list {
            Some(list)
                if list.trigger.topic == trigger.topic
                    && list.trigger.range.start == trigger.range.start =>
            {
                list.trigger = trigger.clone();
            }
            _ => self.hide(core),
        }
        core.stop_search();
        let (composer, wanted) = (self.clone(), trigger.clone());
        let task = self.services.spawner.spawn("completion", async move {
            let cx = Context::background();
            let candidates = match &wanted.topic {
                Topic::Argument(command) => completion::values(
                    composer
                        .services
                        .commands
                        .complete(&cx, command, &wanted.query)
                        .await,
                ),
                _ => {
                    let limit = u32::try_from(LIMIT).unwrap_or(u32::MAX);
                    match composer
                        .services
                        .files
                        .search(&cx, wanted.query.clone(), limit)
                        .await
                    {
                        Ok(matches) => completion::files(matches),
                        Err(error) => {
                            tracing::debug!(%error, "no files to complete from");
                            Vec::new()
                        }
                    }
                }
            };
            let mut core = composer.lock();
            if core
                .search
                .as_ref()
                .is_some_and(|(current, _)| *current == wanted)
            {
                composer.show(&mut core, List::new(wanted, candidates));
                drop(core);
                composer.services.ui.redraw();
            }
        });
        core.search = Some((trigger, task));
    }

    pub(super) fn show(&self, core: &mut Core, list: List) {
        if list.candidates.is_empty() {
            return self.hide(core);
        }
        core.list = Some(list);
        if core.popup.as_ref().is_none_or(OverlayHandle::is_closed) {
            let overlay = Overlay::new(ListView::new(self.clone()))
                .placement(OverlayPlacement::AboveComposer { height: LIST_ROWS })
                .frameless()
                .passive();
            core.popup = Some(self.services.ui.open(overlay));
        }
    }

    pub(super) fn hide(&self, core: &mut Core) {
        core.list = None;
        if let Some(popup) = core.popup.take() {
            popup.close();
        }
    }

    pub(super) fn close_list(&self, core: &mut Core) {
        core.stop_search();
        self.hide(core);
    }

    /// Takes the selected candidate; `enter` also runs what it completes.
    pub(super) fn accept(&self, core: &mut Core, enter: bool) {
        let Some((trigger, chosen, by_hand)) = core.list.as_ref().and_then(|list| {
            let chosen = list.chosen()?.clone();
            Some((list.trigger.clone(), chosen, list.by_hand))
        }) else {
            return;
        };
        if enter && !chosen.meant && !by_hand {
            // Nobody meant what only looks similar: what was typed is taken at its word.
            return self.submit(core, Delivery::Steer);
        }
        if let (true, Some(command)) = (enter, &chosen.runs) {
            core.editor.replace(Draft::plain(chosen.insert.trim_end()));
            self.keep(core);
            self.close_list(core);
            return self
                .services
                .commands
                .run(command, CommandArguments::default());
        }
        let text = core.editor.text();
        // A file may be completed in the middle of a text: no second space.
        let spaced = text[trigger.range.end.min(text.len())..].starts_with(char::is_whitespace);
        let insert = if spaced {
            chosen.insert.trim_end()
        } else {
            &chosen.insert
        };
        core.editor.replace_range(trigger.range.clone(), insert);
        if enter && matches!(trigger.topic, Topic::Argument(_)) {
            return self.submit(core, Delivery::Steer);
        }
        if chosen.goes_on {
            self.complete(core)
        } else {
            self.close_list(core)
        }
    }
}
