//! Services that never leave their process.

/// A service confined to its process: it may hold functions, credentials, handles. It has an id like any
/// other, and a remote look-up of it answers `unknown_service`, as for an id that does not exist.
pub trait LocalService: Send + Sync + 'static {
    /// Its id, in the same name space as remote services.
    const ID: &'static str;
}
