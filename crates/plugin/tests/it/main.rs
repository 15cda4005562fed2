//! Assembly and contributions as a host and its plugins see them.

mod assembly;
mod contributions;
mod support;
