//! The tree service over the session's tree and its main lane.

use bezel_api_session::{Lane, LaneError, Navigation, NavigationError, SessionTree};
use bezel_rpc::{Context, State};
use bezel_session_types::{Entry, EntryId, Message, OperationId};
use bezel_tree_contract::{Destination, NavigateRequest, Outline, Tree, TreeError, TreeState};

use crate::outline::node;

/// Nodes of one page.
const MOST: u32 = 2_000;
/// Characters of a label.
const LABEL: usize = 80;

pub(crate) struct TreeService {
    pub(crate) tree: SessionTree,
    pub(crate) lane: Lane,
    pub(crate) state: State<TreeState>,
}

impl TreeService {
    async fn entry(&self, id: &EntryId) -> Result<Entry, TreeError> {
        let found = self.tree.entry(id).await.map_err(failed)?;
        found.ok_or_else(|| TreeError::UnknownEntry { entry: id.clone() })
    }
}

impl Tree for TreeService {
    fn state(&self) -> State<TreeState> {
        self.state.clone()
    }

    async fn outline(
        &self,
        _cx: &Context,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Outline, TreeError> {
        let limit = usize::try_from(limit.clamp(1, MOST)).unwrap_or(1);
        // One more tells whether there are more.
        let mut entries = self.tree.all(before, limit + 1).await.map_err(failed)?;
        let has_older = entries.len() > limit;
        if has_older {
            entries.remove(0);
        }
        let labels = self.tree.labels().await.map_err(failed)?;
        let nodes = entries.iter().map(|entry| node(entry, &labels)).collect();
        Ok(Outline { nodes, has_older })
    }

    async fn text(&self, _cx: &Context, entry: EntryId) -> Result<String, TreeError> {
        match self.entry(&entry).await?.message() {
            Some(Message::User(user)) => Ok(user.to_text()),
            _ => Err(TreeError::Refused {
                message: "only what a person said can be said again: choose such a message".into(),
            }),
        }
    }

    async fn navigate(
        &self,
        cx: &Context,
        request: NavigateRequest,
    ) -> Result<OperationId, TreeError> {
        let NavigateRequest { to, summary, label } = request;
        let target = match to {
            Destination::At { entry } => Some(self.entry(&entry).await?.id),
            Destination::Before { entry } => self.entry(&entry).await?.parent,
        };
        // The beginning takes no summary: there is nothing before what is said again.
        let (summary, label) = match &target {
            Some(_) => (summary, label.map(|label| clipped(&label))),
            None => (None, None),
        };
        let navigation = Navigation {
            target,
            summary,
            label,
        };
        let started = self.lane.navigate(cx, navigation).await;
        started.map_err(|error| {
            let message = error.to_string();
            match error {
                NavigationError::Busy(_) => TreeError::Busy { message },
                NavigationError::Refused(_) => TreeError::Refused { message },
                NavigationError::Unsupported(_) => TreeError::Unsupported { message },
                NavigationError::Storage(_) => TreeError::Storage { message },
            }
        })
    }

    async fn label(
        &self,
        cx: &Context,
        entry: EntryId,
        label: Option<String>,
    ) -> Result<(), TreeError> {
        let label = label.map(|label| clipped(&label));
        let label = label.as_deref().filter(|label| !label.is_empty());
        match self.tree.set_label(cx, &entry, label).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(TreeError::UnknownEntry { entry }),
            Err(error) => Err(failed(error)),
        }
    }
}

/// On one line and not too long.
fn clipped(label: &str) -> String {
    let words: Vec<&str> = label.split_whitespace().collect();
    words.join(" ").chars().take(LABEL).collect()
}

fn failed(error: LaneError) -> TreeError {
    let message = error.to_string();
    match error {
        LaneError::Unsupported(_) => TreeError::Unsupported { message },
        _ => TreeError::Storage { message },
    }
}
