//! Which files a search may look into, as the session's permissions have it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bezel_permissions_contract::MayRead;

type Below = dyn Fn(&Path) -> Arc<MayRead> + Send + Sync;

/// Says for a searched directory what may be looked into there. The default limits nothing. Cheap to clone.
#[derive(Clone, Default)]
pub struct SearchLimits(Option<Arc<Below>>);

impl fmt::Debug for SearchLimits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limited = self.0.is_some();
        formatter
            .debug_tuple("SearchLimits")
            .field(&limited)
            .finish()
    }
}

impl SearchLimits {
    /// Limits by what `below` gives for a directory.
    pub fn new(below: impl Fn(&Path) -> Arc<MayRead> + Send + Sync + 'static) -> Self {
        SearchLimits(Some(Arc::new(below)))
    }

    /// What holds for one search; none where nothing is limited. May block on the disk.
    pub(crate) fn below(&self, directory: &Path) -> Option<Arc<MayRead>> {
        let below = self.0.as_deref()?;
        Some(below(directory))
    }
}
