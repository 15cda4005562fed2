//! Commands that go on in the background, for other facets of the same worker.

use bezel_rpc::LocalService;

/// How many commands run in the background. A service of the worker alone.
pub struct BackgroundCommands(Box<dyn Fn() -> usize + Send + Sync>);

impl LocalService for BackgroundCommands {
    const ID: &'static str = "background-commands";
}

impl BackgroundCommands {
    /// Counted by `running`.
    pub fn new(running: impl Fn() -> usize + Send + Sync + 'static) -> Self {
        BackgroundCommands(Box::new(running))
    }

    /// How many run now.
    pub fn running(&self) -> usize {
        (self.0)()
    }
}
