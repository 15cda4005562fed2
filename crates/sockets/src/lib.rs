//! Dial and listen: Unix sockets and, later, WebSocket.

mod stream;
mod unix;

pub use unix::{BindError, UnixListener, dial_unix};
