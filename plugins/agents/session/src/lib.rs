//! Agents: named ways to work, read from Markdown files, and what the one that a session runs may do.
//!
//! A definition is a Markdown file: what it says before the second `---` (YAML) is who the agent is and what it may
//! use, the rest is its section of the system prompt. Three agents are built in; files of the user replace those of
//! the same name, and files of a trusted project replace both.
//!
//! What an agent may not do adds up along a tree: a session that another one began is bound by the agents of all
//! sessions above it, whatever its own agent says. Tools are left out of the set for that, rules go to the
//! permissions plugin, and before each run it is looked again at the files and at what the sessions above run. An
//! agent that is not there lets nothing run, for nobody knows what it was kept from.

mod definition;
mod desk;
mod facet;
mod files;
mod keys;
mod nearest;
mod parse;
mod permissions;
mod service;
mod standing;
mod steps;
mod tools;
mod yaml;

pub use desk::DEFAULT;
pub use facet::{AgentsAbove, AgentsConfig, facet};
pub use files::{AgentDirectory, Catalogue, Origin, read};
