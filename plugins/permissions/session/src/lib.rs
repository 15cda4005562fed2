//! x
mod pattern;
mod place;
mod rules;
mod shell;
