//! Permissions in a definition: rules in order, as the configuration has them, or an action with an effect, or with
//! resources and effects.

use bezel_permissions_contract::{Effect, Rule};

use crate::keys::{text, unfit};
use crate::yaml::{Member, Node, Placed, Wrong};

/// Reads the rules, in order.
pub(crate) fn read(key: &str, value: &Placed) -> Result<Vec<Rule>, Wrong> {
    match &value.node {
        Node::List(items) => items.iter().map(|item| rule(key, item)).collect(),
        Node::Map(members) => {
            let mut rules = Vec::new();
            for member in members {
                of_action(member, &mut rules)?;
            }
            Ok(rules)
        }
        // One effect for everything.
        Node::Text(_) => Ok(vec![Rule {
            action: "*".to_owned(),
            resource: "*".to_owned(),
            effect: effect(key, value)?,
        }]),
        _ => Err(unfit(key, value, "a list of rules")),
    }
}

/// `action`, `resource` and `effect`.
fn rule(key: &str, item: &Placed) -> Result<Rule, Wrong> {
    let Node::Map(members) = &item.node else {
        return Err(unfit(
            key,
            item,
            "rules of an action, a resource and an effect",
        ));
    };
    let (mut action, mut resource, mut effect) = (None, None, None);
    for member in members {
        match member.key.as_str() {
            "action" => action = Some(shared(text(&member.key, &member.value)?)),
            "resource" => resource = Some(text(&member.key, &member.value)?.to_owned()),
            "effect" => effect = Some(self::effect(&member.key, &member.value)?),
            other => {
                return Err(Wrong {
                    line: member.line,
                    message: format!(
                        "a rule has an action, a resource and an effect, and no `{other}`"
                    ),
                });
            }
        }
    }
    let missing = |what: &str| Wrong {
        line: item.line,
        message: format!(
            "this rule has no `{what}`; a rule has an action, a resource and an effect"
        ),
    };
    Ok(Rule {
        action: action.ok_or_else(|| missing("action"))?,
        resource: resource.ok_or_else(|| missing("resource"))?,
        effect: effect.ok_or_else(|| missing("effect"))?,
    })
}

/// An action with one effect, or with an effect for each of some resources.
fn of_action(member: &Member, rules: &mut Vec<Rule>) -> Result<(), Wrong> {
    let action = shared(&member.key);
    let mut add = |resource: &str, effect| {
        rules.push(Rule {
            action: action.clone(),
            resource: resource.to_owned(),
            effect,
        });
    };
    match &member.value.node {
        Node::Map(resources) => {
            for resource in resources {
                add(&resource.key, effect(&resource.key, &resource.value)?);
            }
        }
        _ => add("*", effect(&member.key, &member.value)?),
    }
    Ok(())
}

fn effect(key: &str, value: &Placed) -> Result<Effect, Wrong> {
    let Node::Text(word) = &value.node else {
        return Err(unfit(key, value, "`allow`, `ask` or `deny`"));
    };
    match word.as_str() {
        "allow" => Ok(Effect::Allow),
        "ask" => Ok(Effect::Ask),
        "deny" => Ok(Effect::Deny),
        other => Err(Wrong {
            line: value.line,
            message: format!("`{key}` cannot be `{other}`; it is one of: allow, ask, deny"),
        }),
    }
}

/// The action that a tool's name means: tools that do the same share one.
fn shared(action: &str) -> String {
    let shared = match action.to_lowercase().as_str() {
        "bash" => "shell",
        "write" | "patch" | "apply_patch" | "multiedit" => "edit",
        "grep" | "glob" | "ls" | "list" => "read",
        "webfetch" | "websearch" => "web",
        "read" => "read",
        "edit" => "edit",
        _ => action,
    };
    shared.to_owned()
}
