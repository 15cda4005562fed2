//! From TextMate scopes to roles.

use std::cell::RefCell;
use std::collections::HashMap;

use syntect::parsing::{Scope, ScopeStack};

use crate::text::Role;

/// Scope prefixes and what they are; the longest one that fits counts.
const RULES: &[(&str, Role)] = &[
    ("comment", Role::Comment),
    ("constant", Role::Constant),
    ("constant.character.escape", Role::Escape),
    ("constant.numeric", Role::Number),
    ("constant.other.placeholder", Role::Escape),
    ("entity.name", Role::Type),
    ("entity.name.constant", Role::Constant),
    ("entity.name.function", Role::Function),
    ("entity.name.label", Role::Attribute),
    ("entity.name.module", Role::Namespace),
    ("entity.name.namespace", Role::Namespace),
    ("entity.name.section", Role::Heading),
    ("entity.name.tag", Role::Tag),
    ("entity.other.attribute-name", Role::Attribute),
    ("entity.other.inherited-class", Role::Type),
    ("invalid", Role::Invalid),
    ("keyword", Role::Keyword),
    ("keyword.operator", Role::Operator),
    ("keyword.operator.word", Role::Keyword),
    ("markup.bold", Role::Strong),
    ("markup.deleted", Role::DiffRemoved),
    ("markup.heading", Role::Heading),
    ("markup.inserted", Role::DiffAdded),
    ("markup.italic", Role::Emphasis),
    ("markup.quote", Role::Quote),
    ("markup.raw", Role::InlineCode),
    ("markup.underline.link", Role::Link),
    ("meta.annotation", Role::Attribute),
    ("meta.diff.header", Role::Heading),
    ("meta.diff.range", Role::DiffHunk),
    ("meta.mapping.key", Role::Property),
    ("punctuation", Role::Punctuation),
    ("punctuation.definition.comment", Role::Comment),
    ("punctuation.definition.string", Role::String),
    ("storage", Role::Keyword),
    ("string", Role::String),
    ("support.class", Role::Type),
    ("support.constant", Role::Constant),
    ("support.function", Role::Function),
    ("support.macro", Role::Function),
    ("support.type", Role::Type),
    ("support.type.property-name", Role::Property),
    ("variable", Role::Variable),
    ("variable.annotation", Role::Attribute),
    ("variable.function", Role::Function),
    ("variable.language", Role::Constant),
    ("variable.other.member", Role::Property),
    ("variable.other.property", Role::Property),
];

/// Roles of scopes, remembered.
#[derive(Default)]
pub(super) struct Roles(RefCell<HashMap<Scope, Option<Role>>>);

impl Roles {
    /// What the innermost scope with a meaning says.
    pub(super) fn of(&self, stack: &ScopeStack) -> Role {
        let mut role = None;
        for scope in stack.scopes.iter().rev() {
            match self.of_scope(*scope) {
                // A key of a mapping is a key first and a string second.
                Some(Role::Property) if role == Some(Role::String) => role = Some(Role::Property),
                found => role = role.or(found),
            }
        }
        role.unwrap_or(Role::CodeBlock)
    }

    fn of_scope(&self, scope: Scope) -> Option<Role> {
        *self.0.borrow_mut().entry(scope).or_insert_with(|| {
            let name = scope.build_string();
            let fits = |prefix: &str| {
                name.strip_prefix(prefix)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            RULES
                .iter()
                .filter(|(prefix, _)| fits(prefix))
                .max_by_key(|(prefix, _)| prefix.len())
                .map(|(_, role)| *role)
        })
    }
}
