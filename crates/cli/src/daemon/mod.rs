//! The server process: started on demand, found, looked at, ended.

mod control;
mod launch;
mod leftovers;
mod lock;
mod port;
mod removals;
mod serve;
mod serving;
mod start;
mod token;

pub use control::{ControlError, Status, log_file, logs, status, stop, stop_left_workers};
pub use leftovers::{end as end_left_over_commands, remove_files};
pub use lock::{LockError, Owner, ServerLock, StartLock, open_elsewhere};
pub use serve::{owner, serve, server_paths};
pub use serving::{Remote, served_url};
pub use start::{StartError, ensure_running};
pub use token::{TokenError, read_or_create_token};
