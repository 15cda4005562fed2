//! Which definition counts, and what a bad one disturbs.

use bezel_agents_contract::{AgentMode, AgentSource};
use bezel_session_types::PermissionMode;

use super::*;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let file = self.0.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn read(&self) -> Catalogue {
        let directory = |name: &str, origin| AgentDirectory {
            path: self.0.path().join(name),
            origin,
        };
        read(&[
            directory("user", Origin::User),
            directory("project", Origin::Project),
        ])
    }
}

fn names(catalogue: &Catalogue) -> Vec<String> {
    let summaries = catalogue.summaries().into_iter();
    summaries.map(|summary| summary.name).collect()
}

#[test]
fn three_agents_are_built_in_and_whole() {
    let catalogue = Place::new().read();
    assert_eq!(catalogue.problems(), []);
    assert_eq!(names(&catalogue), ["build", "plan", "explore"]);
    let find = |name| catalogue.find(name).unwrap();
    let (build, plan, explore) = (find("build"), find("plan"), find("explore"));
    assert_eq!(build.public.mode, AgentMode::Primary);
    assert!(build.tools.allows("anything") && build.rules.is_empty());
    assert_eq!(
        (build.public.permission_mode, build.public.prompt.as_str()),
        (None, "")
    );
    assert_eq!(plan.public.permission_mode, Some(PermissionMode::Plan));
    assert_eq!(explore.public.mode, AgentMode::Subagent);
    assert!(explore.tools.allows("read") && !explore.tools.allows("edit"));
    assert!(
        catalogue
            .summaries()
            .iter()
            .all(|agent| !agent.description.is_empty())
    );
}

#[test]
fn the_project_goes_before_the_user_and_the_user_before_what_is_built_in() {
    let place = Place::new();
    place.write("user/plan.md", "---\ndescription: mine\n---\n");
    place.write("user/both.md", "---\ndescription: mine\n---\n");
    place.write(
        "project/other-file.md",
        "---\nname: both\ndescription: ours\n---\n",
    );
    place.write("project/notes.txt", "not a definition");
    let catalogue = place.read();
    assert_eq!(catalogue.problems(), []);
    assert_eq!(names(&catalogue), ["build", "plan", "explore", "both"]);
    assert_eq!(catalogue.get("plan").unwrap().description, "mine");
    let both = catalogue.get("both").unwrap();
    assert_eq!(both.description, "ours");
    assert!(
        matches!(&both.source, AgentSource::Project { file } if file.ends_with("other-file.md"))
    );
}

#[test]
fn a_name_is_taken_out_by_a_later_directory() {
    let place = Place::new();
    place.write("user/plan.md", "---\ndescription: mine\n---\n");
    place.write("project/plan.md", "---\ndisable: true\n---\n");
    assert_eq!(names(&place.read()), ["build", "explore"]);
}

#[test]
fn a_bad_file_is_one_problem_and_disturbs_nothing() {
    let place = Place::new();
    place.write("user/good.md", "---\n---\n");
    place.write("user/bad.md", "---\nmode: x\n---\n");
    place.write("user/plan.md", "no keys");
    place.write("user/wide.md", vec![b'x'; 300 * 1024]);
    place.write("user/odd.md", [0xff, 0xfe]);
    place.write("user/twice.md", "---\nname: good\n---\n");
    std::os::unix::fs::symlink("nowhere", place.0.path().join("user/zz.md")).unwrap();
    let catalogue = place.read();
    assert_eq!(names(&catalogue), ["build", "plan", "explore", "good"]);
    assert_eq!(catalogue.get("plan").unwrap().source, AgentSource::BuiltIn);
    let problems: Vec<String> = catalogue
        .problems()
        .iter()
        .map(ToString::to_string)
        .collect();
    let said = |part: &str| problems.iter().any(|problem| problem.contains(part));
    for part in [
        "bad.md:2: `mode` cannot be `x`",
        "plan.md:1: a definition begins",
        "wide.md: it has more than 256 KiB",
        "odd.md: it is not UTF-8",
        "good.md is an agent `good` already",
        "zz.md: it cannot be read",
    ] {
        assert!(said(part), "{part} is not in {problems:?}");
    }
    assert_eq!(problems.len(), 6);
    assert!(catalogue.problems().iter().all(|problem| problem.refused));
}
