//! What of a session is still to come when its process has just taken it up: nobody is shown the session before it is
//! there.
//!
//! What waits for a person in a child is in the list of its parent. A child that an earlier process had begun is taken
//! up by the call that waits for it, and until then the list says less than is asked.

use std::sync::Arc;

use bezel_context::{Cancelled, Context};
use tokio::sync::watch;

/// What is to come of one session before it is shown. Clones are the same.
#[doc(hidden)]
#[derive(Clone, Default)]
pub struct Opening {
    /// Children that are to be taken up again.
    children: Awaited,
    /// Lists that are not whole yet.
    lists: Awaited,
}

#[derive(Clone, Default)]
struct Awaited(Arc<watch::Sender<usize>>);

/// Something that is to come before its session is shown; dropped, it is there, or will not come.
#[must_use = "what is to come counts as there when this is dropped"]
pub struct ToCome(Awaited);

impl Drop for ToCome {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

impl Awaited {
    fn one_more(&self) -> ToCome {
        self.0.send_modify(|count| *count += 1);
        ToCome(self.clone())
    }
}

impl Opening {
    pub(crate) fn child(&self) -> ToCome {
        self.children.one_more()
    }

    pub(crate) fn list(&self) -> ToCome {
        self.lists.one_more()
    }

    /// How many children are to be taken up again, now and from now on.
    pub(crate) fn children(&self) -> watch::Receiver<usize> {
        self.children.0.subscribe()
    }

    /// Waits until the session can be shown: the facets are active, and their lists are whole.
    pub async fn done(&self, cx: &Context) -> Result<(), Cancelled> {
        let mut lists = self.lists.0.subscribe();
        let whole = cx.run(lists.wait_for(|count| *count == 0)).await?;
        drop(whole.expect("the sender lives in this value"));
        Ok(())
    }
}
