//! A presentation without any session code: its dependency graph proves the wall.

fn main() {}
