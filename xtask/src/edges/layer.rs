//! Which layer of the architecture a crate belongs to, told by its folder alone.

/// The four kinds of host that a facet or a host crate is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Session,
    Server,
    Tui,
    Web,
    Headless,
    Http,
}

impl Side {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "session" => Self::Session,
            "server" => Self::Server,
            "tui" => Self::Tui,
            "web" => Self::Web,
            "headless" => Self::Headless,
            "http" => Self::Http,
            _ => return None,
        })
    }

    /// Hosts that show a session and hold none.
    pub(crate) fn is_presentation(self) -> bool {
        matches!(self, Self::Tui | Self::Web | Self::Headless | Self::Http)
    }
}

/// A crate's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    Context,
    Kernel,
    Rpc,
    RpcMacros,
    Sockets,
    Telemetry,
    Plugin,
    SessionTypes,
    Api(Side),
    Presentation,
    Store,
    Harness,
    Host(Side),
    Dist(Side),
    Cli,
    Attach,
    Sdk,
    Testkit,
    Contract,
    Facet(Side),
    Xtask,
    /// A folder that no layer claims: a breach of the wall `places`.
    Unknown,
}

impl Layer {
    /// The layer of the crate in this folder, relative to the root.
    pub(crate) fn of(folder: &str) -> Self {
        let parts: Vec<&str> = folder.split('/').collect();
        let sided = |make: fn(Side) -> Self, name: &str| Side::named(name).map(make);
        match parts.as_slice() {
            ["xtask"] => Some(Self::Xtask),
            ["crates", "context"] => Some(Self::Context),
            ["crates", "kernel"] => Some(Self::Kernel),
            ["crates", "rpc"] => Some(Self::Rpc),
            ["crates", "rpc-macros"] => Some(Self::RpcMacros),
            ["crates", "sockets"] => Some(Self::Sockets),
            ["crates", "telemetry"] => Some(Self::Telemetry),
            ["crates", "plugin"] => Some(Self::Plugin),
            ["crates", "session-types"] => Some(Self::SessionTypes),
            ["crates", "presentation"] => Some(Self::Presentation),
            ["crates", "store"] => Some(Self::Store),
            ["crates", "harness"] => Some(Self::Harness),
            ["crates", "cli"] => Some(Self::Cli),
            ["crates", "attach"] => Some(Self::Attach),
            ["crates", "sdk"] => Some(Self::Sdk),
            // Tests alone: what they list is listed for nobody.
            ["crates", "testkit" | "behaviours"] => Some(Self::Testkit),
            ["crates", "api", side] => sided(Self::Api, side),
            ["crates", "hosts", side] => sided(Self::Host, side),
            ["crates", "dist", side] => sided(Self::Dist, side),
            ["plugins", _, "contract"] => Some(Self::Contract),
            ["plugins", _, side] => sided(Self::Facet, side),
            _ => None,
        }
        .unwrap_or(Self::Unknown)
    }
}

/// The plugin that a crate's folder belongs to.
pub(crate) fn feature(folder: &str) -> Option<&str> {
    folder.strip_prefix("plugins/")?.split('/').next()
}
