//! Which files a search may look into, for tools of the same process.

use std::path::Path;
use std::sync::Arc;

use bezel_rpc::LocalService;

/// Whether a file may be looked into: an absolute path below the searched directory, as the walk found it, with no
/// link followed on the way.
pub type MayRead = dyn Fn(&Path) -> bool + Send + Sync;

/// What gives out the judgement for one searched directory.
type Below = dyn Fn(&Path) -> Arc<MayRead> + Send + Sync;

/// Judges what a search finds below a directory. That the call may look into the directory itself was judged
/// before it ran.
pub struct ReadGuard(Box<Below>);

impl LocalService for ReadGuard {
    const ID: &'static str = "read-guard";
}

impl ReadGuard {
    /// A guard that gives out `below` for a searched directory.
    pub fn new(below: impl Fn(&Path) -> Arc<MayRead> + Send + Sync + 'static) -> Self {
        ReadGuard(Box::new(below))
    }

    /// What holds for one search of this directory, which is absolute. False for what a rule denies, and for what
    /// would be asked for if it were read by itself: nobody is asked in the middle of a search. Blocks on the disk
    /// once; what it gives does not.
    pub fn below(&self, directory: &Path) -> Arc<MayRead> {
        (self.0)(directory)
    }
}
