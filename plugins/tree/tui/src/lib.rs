//! The tree of a conversation: every branch, searched and gone to, labelled, forked.
//!
//! Choosing what a person said goes to the place before it and puts its text into the composer, to be said
//! in other words. Choosing anything else goes on from there. What is left stays in the tree.

mod rows;

use bezel_api_tui::{
    Binding, Command, CommandArguments, CommandResult, Facet, FacetError, Input, Namespace, Select,
    Selected, Toast, TuiContext, TuiFacet,
};
use bezel_chat_contract::{ChatClient, OutcomeStatus};
use bezel_context::Context;
use bezel_rpc::CallError;
use bezel_tree_contract::{Destination, NavigateRequest, Node, NodeKind, TreeClient, TreeError};
use serde_json::json;

use crate::rows::{Shown, items};

/// Nodes that are fetched: the newest.
const MOST: u32 = 2_000;

const SUMMARY: &str = "go with a summary";
const LABEL: &str = "label";
const FORK: &str = "fork";
const ALL: &str = "all or messages";

/// The terminal facet of the tree.
pub fn facet() -> TuiFacet {
    Facet::new("tree", setup)
        .requires::<TreeClient>(Namespace::Session)
        .requires::<ChatClient>(Namespace::Session)
}

async fn setup(cx: TuiContext) -> Result<(), FacetError> {
    let view = TreeView {
        context: cx.clone(),
        tree: cx.session.use_service(),
        chat: cx.session.use_service(),
    };
    let (opened, attachment) = (view.clone(), cx.session.attachment());
    cx.commands.add(
        Command::new("tree.open", "Go to another place in the conversation")
            .description("Shows all branches: say an earlier message again, go on from anywhere, label, fork")
            .slash("tree")
            .argument_hint("[search]")
            .enabled(move || attachment.get().is_attached())
            .run(move |cx, arguments| {
                let view = opened.clone();
                async move { view.open(&cx, &arguments.text).await }
            }),
    );
    let (labelled, attachment) = (view, cx.session.attachment());
    cx.commands.add(
        Command::new("tree.label", "Label this place in the conversation")
            .description("A name to find it by in the tree; empty takes it away")
            .slash("label")
            .argument_hint("[name]")
            .enabled(move || attachment.get().is_attached())
            .run(move |cx, arguments| {
                let view = labelled.clone();
                async move { view.label_tip(&cx, &arguments.text).await }
            }),
    );
    cx.keybindings.add(Binding::new("ctrl+x t", "tree.open")?);
    Ok(())
}

#[derive(Clone)]
struct TreeView {
    context: TuiContext,
    tree: TreeClient,
    chat: ChatClient,
}

impl TreeView {
    /// Shows the tree until something is chosen in it, or nothing.
    async fn open(&self, cx: &Context, query: &str) -> CommandResult {
        let mut shown = Shown::Messages;
        let mut query = query.to_owned();
        loop {
            let state = self.tree.state().ready(cx).await?;
            let outline = self.tree.outline(cx, None, MOST).await?;
            let select = Select::new("Conversation")
                .placeholder("search what was said, and labels")
                .empty("nothing was said yet")
                .query(std::mem::take(&mut query))
                .items(items(&outline.nodes, state.tip.as_ref(), shown))
                .action("ctrl+s", SUMMARY)?
                .action("ctrl+l", LABEL)?
                .action("ctrl+f", FORK)?
                .action("ctrl+o", ALL)?;
            let Some(Selected { value, action }) = self.context.ui.select(cx, select).await else {
                return Ok(());
            };
            match action.as_deref() {
                None => return self.go(cx, value, None).await,
                Some(SUMMARY) => {
                    let input = Input::new("What should the summary of this branch keep?")
                        .placeholder("everything that matters");
                    if let Some(wishes) = self.context.ui.input(cx, input).await {
                        return self.go(cx, value, Some(wishes.trim().to_owned())).await;
                    }
                }
                Some(LABEL) => self.label(cx, &value).await?,
                Some(FORK) => {
                    let arguments = CommandArguments::value(json!({ "entry": value.id }));
                    self.context.commands.run("sessions.fork", arguments);
                    return Ok(());
                }
                Some(_) => shown = shown.other(),
            }
        }
    }

    /// Goes to a node; what a person said is written into the composer again.
    async fn go(&self, cx: &Context, node: Node, summary: Option<String>) -> CommandResult {
        let said = match node.kind {
            NodeKind::User => Some(self.tree.text(cx, node.id.clone()).await?),
            _ => None,
        };
        let entry = node.id;
        let to = match said {
            Some(_) => Destination::Before { entry },
            None => Destination::At { entry },
        };
        let request = NavigateRequest {
            to,
            summary,
            label: None,
        };
        match self.tree.navigate(cx, request).await {
            Ok(operation) => {
                let outcome = self.chat.wait(cx, operation).await?;
                match outcome.status {
                    OutcomeStatus::Done => {}
                    OutcomeStatus::Interrupted => {
                        self.context
                            .ui
                            .toast("interrupted: the conversation stays where it was");
                        return Ok(());
                    }
                    OutcomeStatus::Failed => {
                        let reason = outcome.error.map(|error| error.message);
                        return Err(reason.unwrap_or_default().into());
                    }
                }
            }
            // It stands there already: what is said again is said from here.
            Err(CallError::Service(TreeError::Refused { .. })) if said.is_some() => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(said) = said {
            self.context
                .commands
                .run("chat.write", CommandArguments::text(said));
        }
        Ok(())
    }

    async fn label(&self, cx: &Context, node: &Node) -> CommandResult {
        let input = Input::new("Label this place")
            .initial(node.label.clone().unwrap_or_default())
            .placeholder("a name; empty takes it away");
        if let Some(label) = self.context.ui.input(cx, input).await {
            self.tree.label(cx, node.id.clone(), Some(label)).await?;
        }
        Ok(())
    }

    async fn label_tip(&self, cx: &Context, name: &str) -> CommandResult {
        let state = self.tree.state().ready(cx).await?;
        let Some(tip) = state.tip.clone() else {
            return Err("there is nothing to label yet".into());
        };
        let name = match name.is_empty() {
            false => name.to_owned(),
            true => {
                let input =
                    Input::new("Label this place").placeholder("a name; empty takes it away");
                match self.context.ui.input(cx, input).await {
                    Some(name) => name,
                    None => return Ok(()),
                }
            }
        };
        self.tree.label(cx, tip, Some(name.clone())).await?;
        self.context.ui.toast(match name.trim().is_empty() {
            true => Toast::success("this place has no label any more"),
            false => Toast::success(format!("this place is “{}” in /tree", name.trim())),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
