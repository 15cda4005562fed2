//! What files say, in Bezel's words and in those of other programs.

use bezel_agents_contract::{AgentMode, AgentSource};
use bezel_permissions_contract::Effect;
use bezel_session_types::{PermissionMode, ThinkingLevel};

use super::*;

fn read(text: &str) -> Result<Parsed, Wrong> {
    parse(text, "from-file", AgentSource::BuiltIn)
}

fn defined(text: &str) -> (Definition, Vec<Wrong>) {
    let parsed = read(text).unwrap();
    match parsed.agent {
        Agent::Defined(definition) => (*definition, parsed.notes),
        Agent::Disabled(name) => panic!("{name} is disabled"),
    }
}

fn head(keys: &str) -> String {
    format!("---\n{keys}\n---\nBody\n")
}

fn rules(keys: &str) -> Vec<(String, String, Effect)> {
    let (definition, _) = defined(&head(keys));
    let rules = definition.rules.into_iter();
    rules
        .map(|rule| (rule.action, rule.resource, rule.effect))
        .collect()
}

#[test]
fn a_definition_says_everything_in_bezels_words() {
    let (definition, notes) = defined(
        "---\nname: review\ndescription: >\n  Reads what\n  changed\nmode: primary\nmodel: acme::deep\nthinking: high\n\
         permission_mode: accept-edits\ntools: [read, 'mcp_*']\npermissions:\n  - action: shell\n    resource: git *\n    \
         effect: allow\n---\n\nYou review.\n\n---\nStill the prompt.\n",
    );
    let public = definition.public;
    assert_eq!(public.name, "review");
    assert_eq!(public.description, "Reads what changed");
    assert_eq!(public.mode, AgentMode::Primary);
    assert_eq!(public.model.unwrap().to_string(), "acme::deep");
    assert_eq!(public.thinking, Some(ThinkingLevel::High));
    assert_eq!(public.permission_mode, Some(PermissionMode::AcceptEdits));
    assert_eq!(public.prompt, "You review.\n\n---\nStill the prompt.");
    assert!(definition.tools.allows("mcp_x") && !definition.tools.allows("bash"));
    assert_eq!(definition.rules.len(), 1);
    assert_eq!(notes, []);
}

#[test]
fn what_is_left_out_is_the_files_name_all_tools_and_nothing_else() {
    for text in [
        "---\n---\n",
        "---\r\n# nothing\r\n---",
        "\u{feff}---\n\n---\n  \n",
    ] {
        let (definition, notes) = defined(text);
        assert_eq!(definition.public.name, "from-file");
        assert_eq!(definition.public.mode, AgentMode::All);
        assert_eq!(definition.public.prompt, "");
        assert!(definition.tools.allows("anything"));
        assert!(definition.rules.is_empty() && notes.is_empty());
    }
}

#[test]
fn tools_are_a_list_a_text_with_commas_or_names_and_whether_they_are_allowed() {
    for (keys, allowed, refused) in [
        ("tools: [read, Grep]", "grep", "bash"),
        ("tools: Read, Grep, Bash", "bash", "edit"),
        ("tools:\n  - read", "read", "write"),
        ("tools:\n  write: false\n  bash: false", "read", "bash"),
        ("tools:\n  '*': false\n  read: true", "read", "bash"),
        (
            "tools: Read, Write\ndisallowedTools: Write",
            "read",
            "write",
        ),
        ("disallowed_tools: [mcp_*]", "read", "mcp_write"),
        ("tools: []\n", "", "read"),
    ] {
        let (definition, _) = defined(&head(keys));
        assert!(
            allowed.is_empty() || definition.tools.allows(allowed),
            "{keys}"
        );
        assert!(!definition.tools.allows(refused), "{keys}");
    }
}

#[test]
fn permissions_are_rules_or_actions_with_effects_in_their_order() {
    use Effect::{Allow, Ask, Deny};
    let named =
        |action: &str, resource: &str, effect| (action.to_owned(), resource.to_owned(), effect);
    for (keys, expected) in [
        (
            "permissions:\n  - {action: shell, resource: 'git push *', effect: deny}\n  - {action: bash, resource: x, effect: ask}",
            vec![named("shell", "git push *", Deny), named("shell", "x", Ask)],
        ),
        (
            "permission:\n  edit: deny\n  bash:\n    '*': ask\n    git diff *: allow\n  webfetch: allow",
            vec![
                named("edit", "*", Deny),
                named("shell", "*", Ask),
                named("shell", "git diff *", Allow),
                named("web", "*", Allow),
            ],
        ),
        ("permissions: ask", vec![named("*", "*", Ask)]),
        ("permissions: []", vec![]),
        (
            "permissions:\n  deploy: deny",
            vec![named("deploy", "*", Deny)],
        ),
    ] {
        assert_eq!(rules(keys), expected, "{keys}");
    }
}

#[test]
fn models_are_read_in_both_spellings_and_a_word_alone_is_passed_over_with_a_note() {
    for (keys, model) in [
        ("model: acme::deep", Some("acme::deep")),
        ("model: acme/deep", Some("acme::deep")),
        ("model: router/acme/deep", Some("router::acme/deep")),
        ("model: inherit", None),
    ] {
        let (definition, notes) = defined(&head(keys));
        let read = definition.public.model.map(|model| model.to_string());
        assert_eq!((read.as_deref(), notes.len()), (model, 0), "{keys}");
    }
    let (definition, notes) = defined(&head("description: x\nmodel: sonnet"));
    assert_eq!(definition.public.model, None);
    assert_eq!(notes[0].line, 3);
    assert!(notes[0].message.contains("PROVIDER::MODEL"), "{notes:?}");
}

#[test]
fn the_steps_of_a_turn_are_limited_in_the_words_of_any_program() {
    for (keys, steps) in [
        ("steps: 12", Some(12)),
        ("maxSteps: 1", Some(1)),
        ("max_steps: 4294967295", Some(u32::MAX)),
        ("maxTurns: 3", Some(3)),
        ("description: x", None),
    ] {
        let (definition, notes) = defined(&head(keys));
        let read = definition.steps.map(std::num::NonZeroU32::get);
        assert_eq!((read, notes.len()), (steps, 0), "{keys}");
    }
    for (keys, part) in [
        ("steps: 0", "whole number from 1"),
        ("steps: -1", "whole number from 1"),
        ("steps: 1.5", "whole number from 1"),
        ("steps: 4294967296", "whole number from 1"),
        ("steps: many", "takes a number, and here is a text"),
    ] {
        let wrong = read(&head(keys)).unwrap_err();
        assert!(wrong.message.contains(part), "{keys}: {}", wrong.message);
    }
}

#[test]
fn keys_of_other_programs_are_named_and_passed_over() {
    let (definition, notes) = defined(&head(
        "color: red\npermissionMode: acceptEdits\ntemperature: 0.2",
    ));
    assert_eq!(
        definition.public.permission_mode,
        Some(PermissionMode::AcceptEdits)
    );
    let notes: Vec<_> = notes
        .iter()
        .map(|note| (note.line, note.message.as_str()))
        .collect();
    assert_eq!(
        notes,
        [
            (2, "`color` has no effect here"),
            (4, "`temperature` has no effect here")
        ]
    );
}

#[test]
fn a_name_can_be_taken_out() {
    let parsed = read(&head("name: plan\ndisable: true")).unwrap();
    assert_eq!(parsed.agent, Agent::Disabled("plan".to_owned()));
}

#[test]
fn a_bad_file_is_told_with_its_line_and_what_to_do() {
    let long = format!("name: {}", "x".repeat(65));
    for (text, line, part) in [
        ("", 1, "begins with a line `---`"),
        ("# Notes\n---\n", 1, "begins with a line `---`"),
        ("---\nname: x\n", 1, "do not end"),
        ("---\na: [1\n---\n", 2, "not YAML"),
        ("---\ndescription: one: two\n---\n", 2, "not YAML"),
        ("---\nmode: all\nmode: all\n---\n", 3, "mode"),
        ("---\n- one\n---\n", 2, "keys and values belong"),
        (
            "---\nname: x\nmodle: a::b\n---\n",
            3,
            "did you mean `model`?",
        ),
        (
            "---\nfrobnicate: 1\n---\n",
            2,
            "there are name, description",
        ),
        ("---\nmode: main\n---\n", 2, "primary, subagent, all"),
        (
            "---\nmode: [all]\n---\n",
            2,
            "takes a word, and here is a list",
        ),
        ("---\nname: Not Good\n---\n", 2, "a-z, 0-9"),
        (&head(&long), 2, "1 to 64"),
        ("---\nthinking: deep\n---\n", 2, "off, low, medium, high"),
        (
            "---\npermission_mode: none\n---\n",
            2,
            "plan, ask, accept-edits, auto, full",
        ),
        ("---\ntools: 3\n---\n", 2, "a list of names of tools"),
        (
            "---\ntools:\n  - read\n  - Bash(git *)\n---\n",
            4,
            "what it may be used on",
        ),
        ("---\ntools:\n  read: maybe\n---\n", 3, "`true` or `false`"),
        (
            "---\npermissions:\n  - action: edit\n    effect: deny\n---\n",
            3,
            "no `resource`",
        ),
        (
            "---\npermissions:\n  - {action: a, resource: b, effect: no}\n---\n",
            3,
            "effect",
        ),
        (
            "---\npermissions:\n  edit: never\n---\n",
            3,
            "allow, ask, deny",
        ),
        ("---\npermissions:\n  - edit\n---\n", 3, "takes rules"),
        ("---\ndescription: 3\n---\n", 2, "takes a text"),
        ("---\ndisable: perhaps\n---\n", 2, "`true` or `false`"),
    ] {
        let wrong = read(text).unwrap_err();
        assert_eq!(wrong.line, line, "{text:?}: {}", wrong.message);
        assert!(wrong.message.contains(part), "{text:?}: {}", wrong.message);
    }
}

#[test]
fn a_file_that_unfolds_without_end_is_refused() {
    let mut keys = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (name, before) in [
        ('b', 'a'),
        ('c', 'b'),
        ('d', 'c'),
        ('e', 'd'),
        ('f', 'e'),
        ('g', 'f'),
        ('h', 'g'),
    ] {
        keys.push_str(&format!(
            "{name}: &{name} [{}]\n",
            format!("*{before}, ").repeat(9)
        ));
    }
    assert!(read(&head(&keys)).is_err());
}

#[test]
fn a_file_named_so_that_it_is_no_name_needs_one() {
    let wrong = parse("---\n---\n", "My Agent", AgentSource::BuiltIn).unwrap_err();
    assert!(wrong.message.contains("`My Agent`"), "{}", wrong.message);
    assert!(parse("---\nname: mine\n---\n", "My Agent", AgentSource::BuiltIn).is_ok());
}
