//! Opening, choosing and keeping sessions, in a terminal before a server that the test plays.

mod choosing;
mod forking;
mod keeping;
mod opening;
mod support;
