//! The tree in a terminal.
