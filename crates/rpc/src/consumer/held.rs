//! A reference that a peer gave: it is given back when nobody here holds it any more.

use std::sync::Arc;

use super::line::Line;
use crate::error::{ErrorCode, RpcError};

/// One reference on one connection. Dropping it tells the peer.
#[derive(Debug)]
pub struct HeldReference {
    line: Arc<Line>,
    route: Option<u64>,
    id: u64,
}

impl HeldReference {
    pub(super) fn new(line: Arc<Line>, route: Option<u64>, id: u64) -> Self {
        HeldReference { line, route, id }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The way to the object, for as long as the connection and the attachment last that it came over.
    pub(super) fn reach(&self, contract: &str) -> Result<(Arc<Line>, Option<u64>), RpcError> {
        if self.line.is_open(self.route) {
            return Ok((Arc::clone(&self.line), self.route));
        }
        Err(RpcError::new(
            ErrorCode::StaleReference,
            format!(
                "this {contract} came over a connection or an attachment that has ended; ask its service for a new one"
            ),
        ))
    }
}

impl Drop for HeldReference {
    fn drop(&mut self) {
        self.line.release(self.id, self.route);
    }
}
