//! Command lines: every command of one, and what it touches, weighed for itself.

use std::path::Path;

use bezel_permissions_contract::{Effect, PermissionMode};
use bezel_session_types::Access;

use super::{Findings, Judge, Standing, Weighed, denied_by};
use crate::below::below;
use crate::covers;
use crate::place::Resolved;
use crate::rules::Subject;
use crate::sensitive;
use crate::shell::{self, Class, Depth, Ground, Judged, Touch};

impl Judge {
    pub(super) fn line(
        &self,
        standing: Standing<'_>,
        findings: &mut Findings,
        action: &str,
        line: &str,
        directory: &Path,
    ) {
        let ground = Ground {
            home: self.place.home.as_deref(),
            session: &self.place.real,
        };
        let script = shell::parse(line, directory, ground);
        for why in script.unclear {
            // What cannot be told apart is allowed by what allows everything.
            self.weigh(
                standing,
                findings,
                Weighed {
                    action,
                    subject: Subject::Any,
                    shown: covers::cut(&covers::in_directory(line, directory, &self.place.real)),
                    changes: true,
                    by_mode: Some(why),
                    covers: None,
                    approvable: Some(Vec::new()),
                    unsure: [action, Access::READ, Access::EDIT]
                        .iter()
                        .any(|action| self.configured.denies(action)),
                },
            );
        }
        for command in &script.commands {
            self.command(standing, findings, action, command);
        }
        for touch in &script.touches {
            self.touch(standing, findings, touch, false);
        }
    }

    fn command(
        &self,
        standing: Standing<'_>,
        findings: &mut Findings,
        action: &str,
        command: &Judged,
    ) {
        let subject = Subject::Text(&command.text, &command.forms);
        let asked = self.configured.effect(action, subject) == Some(Effect::Ask);
        if command.wraps && !asked {
            if let Some(rule) = self.configured.denial(action, subject) {
                findings.denied.push(denied_by(rule, &command.text));
            }
            return;
        }
        let by_mode = match (command.class, standing.mode) {
            _ if command.wraps => None,
            (Class::Looks, _) => None,
            (Class::Files | Class::Project, PermissionMode::Auto) => None,
            (Class::Files, _) => Some("it changes files".to_owned()),
            (Class::Project, _) => Some("it runs the project's own code".to_owned()),
            (Class::Unknown, _) => Some("it is not known what it changes".to_owned()),
        };
        let covers = covers::command(action, command, &self.place);
        let approvable = covers.iter().flatten();
        let approvable = approvable.map(|rule| rule.resource.clone()).collect();
        let shown = match &command.directory {
            Some(directory) => covers::in_directory(&command.text, directory, &self.place.real),
            None => command.text.clone(),
        };
        self.weigh(
            standing,
            findings,
            Weighed {
                action,
                subject,
                shown: covers::cut(&shown),
                changes: command.class != Class::Looks && !command.wraps,
                by_mode,
                approvable: Some(approvable),
                covers,
                unsure: self.may_be_denied(action, command) || self.may_change_denied(command),
            },
        );
        for touch in &command.touches {
            if command.class == Class::Unknown {
                self.denied_touch(findings, touch);
            } else {
                self.touch(standing, findings, touch, true);
            }
        }
    }

    fn touch(&self, standing: Standing<'_>, findings: &mut Findings, touch: &Touch, vouched: bool) {
        let action = match touch.changes {
            true => Access::EDIT,
            false => Access::READ,
        };
        match &touch.from {
            Some(from) => {
                let path = self.place.resolve(&touch.path, from);
                self.path(standing, findings, action, &path, vouched);
                self.below(standing, findings, action, &path, touch.depth);
            }
            None if touch.path.is_absolute() => {
                let path = self.place.resolve(&touch.path, Path::new("/"));
                self.path(standing, findings, action, &path, vouched);
            }
            None => self.weigh(
                standing,
                findings,
                Weighed {
                    action,
                    subject: Subject::Any,
                    shown: touch.path.display().to_string(),
                    changes: touch.changes,
                    by_mode: Some("it cannot be told in which directory it is".to_owned()),
                    covers: None,
                    approvable: Some(Vec::new()),
                    unsure: self.configured.denies(action),
                },
            ),
        }
    }

    /// What a command reads or changes that goes through a directory: what lies there that is asked for by itself, or
    /// denied.
    fn below(
        &self,
        standing: Standing<'_>,
        findings: &mut Findings,
        action: &str,
        root: &Resolved,
        depth: Depth,
    ) {
        let changes = action == Access::EDIT;
        if changes && !self.configured.denies(action) {
            return;
        }
        let counts = |path: &Resolved| {
            let subject = Subject::Path(path);
            let is_read_alone = sensitive::secret(path).is_some()
                || (depth == Depth::Followed && !self.place.is_inside(path));
            (!changes && is_read_alone)
                || self.configured.denial(action, subject).is_some()
                || self.configured.effect(action, subject) == Some(Effect::Ask)
        };
        let found = below(root, depth, counts);
        for path in &found.paths {
            self.path(standing, findings, action, path, false);
        }
        if !found.all {
            self.weigh(
                standing,
                findings,
                Weighed {
                    action,
                    subject: Subject::Any,
                    shown: self.place.shown(&root.given),
                    changes,
                    by_mode: Some("it holds more than can be looked through".to_owned()),
                    covers: None,
                    approvable: Some(Vec::new()),
                    unsure: self.configured.denies(action),
                },
            );
        }
    }

    /// Whether a rule might deny what some words of a command come to.
    fn may_be_denied(&self, action: &str, command: &Judged) -> bool {
        let name = |text: &str| {
            let name = text.split(' ').next().unwrap_or_default();
            self.configured.may_deny(action, name)
        };
        let denied = |text: &String| {
            self.configured
                .denial(action, Subject::Text(text, &[]))
                .is_some()
        };
        let open = command.open
            && (self.configured.denies(Access::READ)
                || name(&command.text)
                || command.forms.iter().any(|form| name(form)));
        open || command.within.iter().any(denied)
    }

    /// Whether a command of which nothing is known names what may not be changed, or a directory with such a file in it.
    fn may_change_denied(&self, command: &Judged) -> bool {
        if command.class != Class::Unknown || !self.configured.denies(Access::EDIT) {
            return false;
        }
        command.touches.iter().any(|touch| {
            let Some(from) = &touch.from else { return true };
            self.changes_denied(&self.place.resolve(&touch.path, from))
        })
    }

    /// Whether a rule denies changing this path, or something below it.
    fn changes_denied(&self, path: &Resolved) -> bool {
        let denial = |path: &Resolved| {
            let subject = Subject::Path(path);
            self.configured.denial(Access::EDIT, subject).is_some()
        };
        let found = below(path, Depth::Whole, denial);
        denial(path) || !found.paths.is_empty() || !found.all
    }

    /// What nothing is known of may not be given what may not be read.
    fn denied_touch(&self, findings: &mut Findings, touch: &Touch) {
        let Some(from) = &touch.from else { return };
        let path = self.place.resolve(&touch.path, from);
        findings.leads.push(path.real.clone());
        let denial = |path: &Resolved| self.configured.denial(Access::READ, Subject::Path(path));
        let below = match touch.depth {
            Depth::Names => Vec::new(),
            _ if !self.configured.denies(Access::READ) => Vec::new(),
            depth => below(&path, depth, |path| denial(path).is_some()).paths,
        };
        for path in below.iter().chain([&path]) {
            if let Some(rule) = denial(path) {
                findings
                    .denied
                    .push(denied_by(rule, &self.place.shown(&path.given)));
            }
        }
    }
}
