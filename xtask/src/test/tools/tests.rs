//! What is pinned, and what a missing tool says.

use super::*;

const PINNED: &str = include_str!("../../../tools.txt");

#[test]
fn every_wheel_is_pinned_with_hashes_and_has_the_version_of_its_crate() {
    for tool in [Tool::Nextest, Tool::Deny] {
        for source in tool.sources() {
            match source {
                Source::Wheel { package } => {
                    let lines = requirement(PINNED, package).expect("listed");
                    assert!(lines.starts_with(&format!("{package}==")), "{lines}");
                    assert_eq!(lines.matches("--hash=sha256:").count(), 3, "{lines}");
                }
                Source::Crate { name } => {
                    let version = version_of(PINNED, name).expect("pinned");
                    assert_eq!(version.split('.').count(), 3, "{version}");
                }
                Source::Debian { .. } => panic!("{tool:?} is not from Debian"),
            }
        }
    }
}

#[test]
fn a_missing_tool_is_named_with_what_was_tried() {
    let missing = Unavailable::Absent {
        program: "tmux",
        tried: vec!["apt-get needs root".into()],
    };
    assert_eq!(
        missing.to_string(),
        "`tmux` is not installed (apt-get needs root); install it and run again"
    );
    let forbidden = Unavailable::Forbidden {
        what: "a network namespace",
        reason: "Operation not permitted".into(),
    };
    assert!(
        forbidden
            .to_string()
            .starts_with("a network namespace is not allowed here (Operation not permitted)")
    );
}
