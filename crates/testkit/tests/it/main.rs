//! Promises about the whole workspace that no single plugin can test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod contracts;
