//! The server process: started on demand, found, looked at, ended.

mod control;
mod launch;
mod lock;
mod serve;
mod start;
mod token;

pub use control::{Status, logs, status, stop};
pub use lock::Owner;
pub use serve::{owner, serve, server_paths};
pub use start::{StartError, ensure_running};
pub use token::{TokenError, read_or_create_token};
