//! The host from outside: facets, keys and the screen that comes of them.

mod dialogs;
mod frames;
mod input;
mod layout;
mod lifecycle;
mod server;
mod support;
mod terminal;
