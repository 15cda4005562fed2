//! Dial and listen: Unix sockets and WebSocket.

mod stream;
mod unix;
mod websocket;

pub use unix::{BindError, UnixListener, dial_unix};
pub use websocket::{
    Endpoint, EndpointError, ListenError, ServerTls, Site, TlsError, Trust, Visitor,
    WebSocketListener, WebSocketOptions, dial_websocket,
};
