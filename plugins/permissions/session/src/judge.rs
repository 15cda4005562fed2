//! Judges what a call touches: rules, mode and approvals in, a verdict out. It asks the file system where paths
//! lead and nobody else anything.
//!
//! For each access, in this order: a configured rule that denies; plan mode, where it changes something; full
//! mode, which asks alone where it cannot be told whether a rule denies it; what was approved; the last configured
//! rule that matches; what the mode says. The strictest verdict of all accesses is the call's.
//!
//! An approval covers no more than it was offered for: a file that may hold secrets or that steers git or Bezel is
//! covered by its own name alone, and a command by its own line or by the words that name its like, where it has one.

mod line;

use std::path::{Path, PathBuf};

use bezel_permissions_contract::{Asked, Effect, PermissionMode, Rule};
use bezel_session_types::{Access, Resource};

use crate::covers;
use crate::facet::RulesAbove;
use crate::place::{Place, Resolved};
use crate::rules::{Rules, Subject};
use crate::sensitive;

/// What is asked beside the access itself where a path lies outside of the project.
pub(crate) const EXTERNAL: &str = "external_directory";

/// What happens with a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// It runs.
    Allow,
    /// It does not; the model reads why.
    Deny(String),
    /// A person decides.
    Ask {
        /// What needs an answer, at least one.
        asked: Vec<Asked>,
        /// What answering for more than this call would approve.
        covers: Vec<Rule>,
        /// Where the paths lead that it asks for: another answer to the same question where they lead elsewhere.
        leads: Vec<PathBuf>,
        /// Whether it cannot be told whether a rule denies some of it.
        unsure: bool,
    },
}

/// The rules and places of a session.
#[derive(Debug)]
pub(crate) struct Judge {
    place: Place,
    configured: Rules,
}

/// What holds at the moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'a> {
    pub(crate) mode: PermissionMode,
    /// Rules that allow: of the session and of the project.
    pub(crate) approved: &'a Rules,
}

/// One access, to be weighed.
struct Weighed<'a> {
    action: &'a str,
    subject: Subject<'a>,
    /// For people.
    shown: String,
    /// Whether it changes something.
    changes: bool,
    /// What the mode says: why it asks, or that it need not.
    by_mode: Option<String>,
    /// What answering for more than this call would approve; `None` where nothing can be.
    covers: Option<Vec<Rule>>,
    /// The approvals that hold for it; `None` where each does whose pattern matches.
    approvable: Option<Vec<String>>,
    /// Whether there is a rule that may deny it, and it cannot be told whether it does.
    unsure: bool,
}

/// The findings about one call so far.
#[derive(Default)]
struct Findings {
    denied: Vec<String>,
    asked: Vec<Asked>,
    covers: Vec<Rule>,
    leads: Vec<PathBuf>,
    uncovered: bool,
    unsure: bool,
}

impl Judge {
    pub(crate) fn new(place: Place, configured: Vec<Rule>) -> Self {
        Judge {
            configured: Rules::new(configured, &place),
            place,
        }
    }

    /// The same, bound also by what is configured where the sessions above work.
    pub(crate) fn bound_by(self, above: Vec<RulesAbove>) -> Self {
        let mut configured = self.configured;
        for RulesAbove { directory, rules } in above {
            let place = Place::new(&directory, self.place.home.clone(), &[]);
            configured = configured.below(rules, place);
        }
        Judge {
            configured,
            place: self.place,
        }
    }

    /// The same, bound also by what agents may do: each list of rules stands after the configured ones.
    pub(crate) fn limited(&self, layers: &[Vec<Rule>]) -> Judge {
        Judge {
            place: self.place.clone(),
            configured: self.configured.layered(layers, &self.place),
        }
    }

    /// Rules as they are meant in this session.
    pub(crate) fn rules(&self, rules: impl IntoIterator<Item = Rule>) -> Rules {
        Rules::new(rules, &self.place)
    }

    /// What happens with a call of `tool`.
    pub(crate) fn judge(
        &self,
        standing: Standing<'_>,
        tool: &str,
        accesses: Option<&[Access]>,
    ) -> Verdict {
        let mut findings = Findings::default();
        let Some(accesses) = accesses else {
            self.weigh(
                standing,
                &mut findings,
                Weighed {
                    action: tool,
                    subject: Subject::Any,
                    shown: "*".to_owned(),
                    changes: true,
                    by_mode: Some("the tool does not say what it touches".to_owned()),
                    covers: Some(vec![covers::allow(tool, "*")]),
                    approvable: None,
                    unsure: false,
                },
            );
            return findings.verdict();
        };
        if let Some(rule) = self.configured.denial(tool, Subject::Any)
            && rule.action != "*"
        {
            findings.denied.push(denied_by(rule, tool));
        }
        for access in accesses {
            self.access(standing, &mut findings, access);
        }
        findings.verdict()
    }

    /// Whether a search that may look into `root` may look into a file that it finds below. No for what is denied,
    /// and for what would be asked for by itself, if not by the very rule that the root was asked for.
    pub(crate) fn searches(&self, standing: Standing<'_>, root: &Resolved, file: &Path) -> bool {
        let inside = file.strip_prefix(&root.given);
        let file = Resolved {
            given: file.to_owned(),
            // A walk follows no links: what is below the root is so in reality too.
            real: inside.map_or_else(|_| file.to_owned(), |inside| root.real.join(inside)),
        };
        let (read, subject) = (Access::READ, Subject::Path(&file));
        if self.configured.denial(read, subject).is_some() {
            return false;
        }
        if standing.mode == PermissionMode::Full {
            return true;
        }
        let approved = match sensitive::secret(&file) {
            // As for a call that names it: an approval of what is around it does not cover it.
            Some(_) => standing.approved.name(read, &[covers::path(&file)]),
            None => standing.approved.allow(read, subject),
        };
        if approved {
            return true;
        }
        match self.configured.deciding(read, subject) {
            Some(rule) if rule.effect == Effect::Allow => true,
            Some(rule) => {
                let asked = self.configured.deciding(read, Subject::Path(root));
                asked.is_some_and(|asked| std::ptr::eq(asked, rule))
            }
            None => sensitive::secret(&file).is_none(),
        }
    }

    /// Where a path of a call leads.
    pub(crate) fn resolve(&self, path: &Path) -> Resolved {
        self.place.resolve(path, &self.place.directory)
    }

    fn access(&self, standing: Standing<'_>, findings: &mut Findings, access: &Access) {
        match &access.resource {
            Resource::Path(path) => {
                let path = self.place.resolve(path, &self.place.directory);
                self.path(standing, findings, &access.action, &path, false);
            }
            Resource::Command { command, directory } => {
                self.line(standing, findings, &access.action, command, directory);
            }
            Resource::Text(text) => self.weigh(
                standing,
                findings,
                Weighed {
                    action: &access.action,
                    subject: Subject::Text(text, &[]),
                    shown: text.clone(),
                    changes: access.action != Access::WEB,
                    by_mode: Some("it leaves this machine, or may do so".to_owned()),
                    covers: Some(covers::text(&access.action, text)),
                    approvable: None,
                    unsure: false,
                },
            ),
            Resource::Any => self.weigh(
                standing,
                findings,
                Weighed {
                    action: &access.action,
                    subject: Subject::Any,
                    shown: "*".to_owned(),
                    changes: !matches!(&*access.action, Access::READ | Access::WEB),
                    by_mode: Some("it cannot be told what it touches".to_owned()),
                    covers: Some(vec![covers::allow(&access.action, "*")]),
                    approvable: None,
                    unsure: false,
                },
            ),
        }
    }

    /// A path. `vouched` where a command that is judged for itself changes it.
    fn path(
        &self,
        standing: Standing<'_>,
        findings: &mut Findings,
        action: &str,
        path: &Resolved,
        vouched: bool,
    ) {
        let reads = action == Access::READ;
        let inside = self.place.is_inside(path);
        let shown = self.place.shown(&path.given);
        let special = match reads {
            true => sensitive::secret(path),
            false => sensitive::secret(path).or_else(|| sensitive::steering(path)),
        };
        let edits = action == Access::EDIT
            && (vouched
                || matches!(
                    standing.mode,
                    PermissionMode::AcceptEdits | PermissionMode::Auto
                ));
        let by_mode = match special {
            Some(why) => Some(why.to_owned()),
            None if reads || edits => None,
            None => Some(format!("changes are asked for in mode `{}`", standing.mode)),
        };
        let covers = match special {
            Some(_) => covers::exact(action, path),
            None => covers::directory(action, path, inside, &self.place),
        };
        self.weigh(
            standing,
            findings,
            Weighed {
                action,
                subject: Subject::Path(path),
                shown: shown.clone(),
                changes: !reads,
                by_mode,
                covers: Some(covers),
                approvable: special.map(|_| vec![covers::path(path)]),
                unsure: false,
            },
        );
        let readable =
            reads && (self.place.readable.iter()).any(|free| path.real.starts_with(free));
        if inside || readable {
            return;
        }
        let leads = match path.given == path.real {
            true => "it is outside of the project".to_owned(),
            false => format!(
                "it leads to {}, which is outside of the project",
                path.real.display()
            ),
        };
        self.weigh(
            standing,
            findings,
            Weighed {
                action: EXTERNAL,
                subject: Subject::Path(path),
                shown,
                changes: false,
                by_mode: Some(leads),
                covers: Some(covers::directory(EXTERNAL, path, false, &self.place)),
                approvable: None,
                unsure: false,
            },
        );
    }

    fn weigh(&self, standing: Standing<'_>, findings: &mut Findings, access: Weighed<'_>) {
        let Weighed {
            action, subject, ..
        } = access;
        if let Some(rule) = self.configured.denial(action, subject) {
            return findings.denied.push(denied_by(rule, &access.shown));
        }
        if standing.mode == PermissionMode::Plan && access.changes {
            return findings.denied.push(format!(
                "`{action}` of `{}` is blocked: the session is in plan mode, in which nothing may be changed. Look at \
                 what you need, then present a plan",
                access.shown
            ));
        }
        let approved = match &access.approvable {
            Some(resources) => standing.approved.name(action, resources),
            None => standing.approved.allow(action, subject),
        };
        if approved || (standing.mode == PermissionMode::Full && !access.unsure) {
            return;
        }
        let reason = match self.configured.effect(action, subject) {
            Some(Effect::Allow) => return,
            _ if standing.mode == PermissionMode::Full => {
                "it cannot be told whether a rule denies it".to_owned()
            }
            Some(_) => "a configured rule asks for it".to_owned(),
            None => match access.by_mode {
                Some(reason) => reason,
                None => return,
            },
        };
        if let Subject::Path(path) = subject {
            findings.leads.push(path.real.clone());
        }
        findings.unsure |= access.unsure;
        findings.ask(
            Asked {
                action: action.to_owned(),
                resource: access.shown,
                reason,
            },
            access.covers,
        );
    }
}

impl Findings {
    fn ask(&mut self, asked: Asked, covers: Option<Vec<Rule>>) {
        if !self.asked.contains(&asked) {
            self.asked.push(asked);
        }
        match covers {
            Some(rules) => {
                for rule in rules {
                    if !self.covers.contains(&rule) {
                        self.covers.push(rule);
                    }
                }
            }
            None => self.uncovered = true,
        }
    }

    fn verdict(mut self) -> Verdict {
        self.denied.dedup();
        if !self.denied.is_empty() {
            return Verdict::Deny(format!("Not run: {}.", self.denied.join("; ")));
        }
        if self.asked.is_empty() {
            return Verdict::Allow;
        }
        if self.uncovered {
            self.covers.clear();
        }
        Verdict::Ask {
            asked: self.asked,
            covers: self.covers,
            leads: self.leads,
            unsure: self.unsure,
        }
    }
}

fn denied_by(rule: &Rule, shown: &str) -> String {
    format!(
        "`{shown}` is denied by the configured rule `{} {}`, which only the person can change",
        rule.action, rule.resource
    )
}

#[cfg(test)]
mod approved;
#[cfg(test)]
mod attacks;
#[cfg(test)]
mod everyday;
#[cfg(test)]
mod misread;
#[cfg(test)]
mod real_bash;
#[cfg(test)]
mod tests;
