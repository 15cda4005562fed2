//! Changing messages that were admitted and not delivered yet.

use bezel_api_tui::{CommandResult, Input, Select, SelectItem, Selected, Ui};
use bezel_chat_contract::{ChatClient, Delivery, QueuedMessage};
use bezel_context::Context;

use crate::composer::Composer;

const STEER: &str = "steer now";
const TAKE_BACK: &str = "take back";

/// The list of what waits.
#[derive(Clone)]
pub(crate) struct Waiting {
    pub(crate) ui: Ui,
    pub(crate) chat: ChatClient,
    pub(crate) composer: Composer,
}

impl Waiting {
    /// Lets the person choose a message and change it, until nothing is chosen or nothing waits.
    pub(crate) async fn open(&self, cx: &Context) -> CommandResult {
        loop {
            let select = Select::new("Waiting messages")
                .placeholder("enter edits")
                .empty("nothing waits")
                .items(self.chat.state().get().queue.iter().map(item))
                .action("ctrl+s", STEER)?
                .action("ctrl+d", TAKE_BACK)?;
            let feed = select.feed();
            let _followed = self.chat.state().subscribe(move |state, _| {
                feed.replace(state.queue.iter().map(item));
            });
            let Some(Selected { value, action }) = self.ui.select(cx, select).await else {
                return Ok(());
            };
            let changed = match action.as_deref() {
                None => {
                    let input = Input::new("Edit the message").initial(value.text.as_str());
                    match self.ui.input(cx, input).await {
                        Some(text) => self.chat.edit(cx, value.id, text).await?,
                        None => continue,
                    }
                }
                Some(STEER) => self.chat.promote(cx, value.id).await?,
                Some(_) => {
                    let withdrawn = self.chat.withdraw(cx, value.id).await?;
                    if withdrawn {
                        self.composer.write_again(&value.text);
                        return Ok(());
                    }
                    false
                }
            };
            if !changed {
                self.ui.toast("too late: the message has been delivered");
            }
            if self.chat.state().get().queue.is_empty() {
                return Ok(());
            }
        }
    }
}

fn item(message: &QueuedMessage) -> SelectItem<QueuedMessage> {
    let words: Vec<&str> = message.text.split_whitespace().collect();
    SelectItem::new(words.join(" "), message.clone()).detail(match message.delivery {
        Delivery::Steer => "steers",
        Delivery::Queue => "after this turn",
    })
}
