//! Ordered rules: the last one that matches counts, and one that denies is final.
//!
//! A path is matched as it is, with every link followed. Rules that deny or ask also match it as it was named,
//! and a command also as it reads without its wrapping: what is there to widen is matched once, what is there to
//! narrow is matched in every form.

use bezel_permissions_contract::{Effect, Rule};

use crate::pattern::{PathPattern, matches_text};
use crate::place::{Place, Resolved};

/// Rules that can be asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    own: Vec<Compiled>,
    /// The lists of other places; the strictest of what they and the own one say counts.
    above: Vec<(Place, Vec<Compiled>)>,
    /// Lists that each stand after each of those; the strictest of what they say counts.
    layers: Vec<Vec<Compiled>>,
    /// What the layers deny, as it is meant in the other places.
    denied_above: Vec<Compiled>,
}

#[derive(Debug, Clone)]
struct Compiled {
    rule: Rule,
    path: PathPattern,
}

/// What an action is done to, in all its forms.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// Anything: what a tool does not say.
    Any,
    /// A text, and other forms that it could be meant by.
    Text(&'a str, &'a [String]),
    /// A path.
    Path(&'a Resolved),
}

impl Rules {
    /// Reads patterns of paths as they are meant in `place`.
    pub(crate) fn new(rules: impl IntoIterator<Item = Rule>, place: &Place) -> Self {
        Rules {
            own: compiled(rules, place),
            ..Rules::default()
        }
    }

    /// The same, and no wider than these rules, whose paths are meant from `place`.
    pub(crate) fn below(mut self, rules: Vec<Rule>, place: Place) -> Self {
        let rules = compiled(rules, &place);
        self.above.push((place, rules));
        self
    }

    /// The same with lists that each stand after these.
    pub(crate) fn layered(&self, layers: &[Vec<Rule>], place: &Place) -> Self {
        let layer = |rules: &Vec<Rule>| compiled(rules.iter().cloned(), place);
        let denied = |rule: &&Rule| rule.effect == Effect::Deny;
        let denied: Vec<Rule> = layers.iter().flatten().filter(denied).cloned().collect();
        let places = self.above.iter().map(|(place, _)| place);
        Rules {
            own: self.own.clone(),
            above: self.above.clone(),
            layers: layers.iter().map(layer).collect(),
            denied_above: places
                .flat_map(|place| compiled(denied.iter().cloned(), place))
                .collect(),
        }
    }

    /// The lists that no layer is among, the own one first.
    fn lists(&self) -> impl Iterator<Item = &Vec<Compiled>> {
        let above = self.above.iter().map(|(_, rules)| rules);
        std::iter::once(&self.own).chain(above)
    }

    /// Every rule that there is.
    fn every(&self) -> impl Iterator<Item = &Compiled> {
        let lists = self.lists().chain(&self.layers).flatten();
        lists.chain(&self.denied_above)
    }

    /// A rule that denies it, wherever it stands.
    pub(crate) fn denial(&self, action: &str, subject: Subject<'_>) -> Option<&Rule> {
        let denies = |compiled: &&Compiled| {
            compiled.rule.effect == Effect::Deny && compiled.matches(action, subject)
        };
        self.every().find(denies).map(|compiled| &compiled.rule)
    }

    /// What the last rule that matches says; [`Self::denial`] goes before.
    pub(crate) fn effect(&self, action: &str, subject: Subject<'_>) -> Option<Effect> {
        self.deciding(action, subject).map(|rule| rule.effect)
    }

    /// The last rule that matches and does not deny.
    pub(crate) fn deciding(&self, action: &str, subject: Subject<'_>) -> Option<&Rule> {
        let by_list = self.lists().flat_map(|list| {
            let own = last(list, action, subject);
            let layers = self.layers.iter();
            let layers = layers.map(move |layer| last(layer, action, subject).or(own));
            let alone = self.layers.is_empty().then_some(own);
            layers.chain(alone)
        });
        // An ask is stricter than no word, which leaves it to the mode, and that is stricter than leave.
        let strictness = |rule: &Option<&Rule>| match rule.map(|rule| rule.effect) {
            Some(Effect::Deny) => 3,
            Some(Effect::Ask) => 2,
            None => 1,
            Some(Effect::Allow) => 0,
        };
        by_list.max_by_key(strictness).flatten()
    }

    /// Whether one of them denies this action of anything.
    pub(crate) fn denies(&self, action: &str) -> bool {
        self.denying(action).next().is_some()
    }

    /// Whether one of them may deny a command of this name, whatever else is in it.
    pub(crate) fn may_deny(&self, action: &str, name: &str) -> bool {
        self.denying(action).any(|rule| {
            let first = rule.resource.split(' ').next().unwrap_or_default();
            matches_text(first, name)
        })
    }

    fn denying<'a>(&'a self, action: &'a str) -> impl Iterator<Item = &'a Rule> {
        let rules = self.every().map(|compiled| &compiled.rule);
        rules.filter(move |rule| rule.effect == Effect::Deny && matches_text(&rule.action, action))
    }

    /// Whether one of them is this very rule that allows, for one of these resources.
    pub(crate) fn name(&self, action: &str, resources: &[String]) -> bool {
        self.own.iter().map(|compiled| &compiled.rule).any(|rule| {
            rule.effect == Effect::Allow
                && rule.action == action
                && resources.contains(&rule.resource)
        })
    }

    /// Whether one of them allows it.
    pub(crate) fn allow(&self, action: &str, subject: Subject<'_>) -> bool {
        self.effect(action, subject) == Some(Effect::Allow)
    }
}

fn compiled(rules: impl IntoIterator<Item = Rule>, place: &Place) -> Vec<Compiled> {
    let compiled = |rule: Rule| Compiled {
        path: PathPattern::new(&rule.resource, &place.real, place.home.as_deref()),
        rule,
    };
    rules.into_iter().map(compiled).collect()
}

/// The last rule of a list that matches and does not deny.
fn last<'a>(rules: &'a [Compiled], action: &str, subject: Subject<'_>) -> Option<&'a Rule> {
    let says = |compiled: &&Compiled| {
        compiled.rule.effect != Effect::Deny && compiled.matches(action, subject)
    };
    let found = rules.iter().rev().find(says);
    found.map(|compiled| &compiled.rule)
}

impl Compiled {
    fn matches(&self, action: &str, subject: Subject<'_>) -> bool {
        if !matches_text(&self.rule.action, action) {
            return false;
        }
        let narrows = self.rule.effect != Effect::Allow;
        match subject {
            Subject::Any => self.rule.resource == "*",
            Subject::Text(text, forms) => {
                matches_text(&self.rule.resource, text)
                    || (narrows
                        && forms
                            .iter()
                            .any(|form| matches_text(&self.rule.resource, form)))
            }
            Subject::Path(path) => {
                self.path.matches(&path.real) || (narrows && self.path.matches(&path.given))
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;

    fn place() -> Place {
        Place {
            directory: "/srv".into(),
            real: "/srv".into(),
            project: "/srv".into(),
            home: Some("/home/me".into()),
            readable: Vec::new(),
        }
    }

    fn rule(action: &str, resource: &str, effect: Effect) -> Rule {
        Rule {
            action: action.into(),
            resource: resource.into(),
            effect,
        }
    }

    fn path(given: &str, real: &str) -> Resolved {
        Resolved {
            given: given.into(),
            real: real.into(),
        }
    }

    #[test]
    fn the_last_rule_that_matches_counts() {
        let rules = [
            rule("shell", "*", Effect::Ask),
            rule("shell", "git *", Effect::Allow),
            rule("shell", "git push *", Effect::Ask),
        ];
        let rules = Rules::new(rules, &place());
        let effect = |text| rules.effect("shell", Subject::Text(text, &[]));
        assert_eq!(effect("ls"), Some(Effect::Ask));
        assert_eq!(effect("git status"), Some(Effect::Allow));
        assert_eq!(effect("git push --force"), Some(Effect::Ask));
        assert_eq!(rules.effect("edit", Subject::Text("git status", &[])), None);
    }

    #[test]
    fn a_link_is_never_wider_than_what_it_leads_to() {
        let rules = [
            rule("read", "open/**", Effect::Allow),
            rule("read", "secret/**", Effect::Deny),
        ];
        let rules = Rules::new(rules, &place());
        // A link inside an allowed directory that leads to a place outside of it is not allowed.
        let escape = path("/srv/open/link", "/etc/passwd");
        assert!(!rules.allow("read", Subject::Path(&escape)));
        // Named through a denied directory, or leading into one, it is denied.
        let named = path("/srv/secret/link", "/elsewhere/x");
        let leading = path("/srv/open/link", "/srv/secret/x");
        assert!(rules.denial("read", Subject::Path(&named)).is_some());
        assert!(rules.denial("read", Subject::Path(&leading)).is_some());
    }

    fn effects() -> impl Strategy<Value = Effect> {
        prop_oneof![Just(Effect::Allow), Just(Effect::Ask), Just(Effect::Deny)]
    }

    fn some_rules() -> impl Strategy<Value = Vec<Rule>> {
        let one = ("(read|edit|shell|\\*)", "(a|b|a\\*|\\*|\\?)", effects());
        proptest::collection::vec(
            one.prop_map(|(action, resource, effect)| rule(&action, &resource, effect)),
            0..8,
        )
    }

    proptest! {
        #[test]
        fn no_rule_lifts_a_denial(before in some_rules(), after in some_rules(), text in "[ab]{1,2}") {
            let denying = rule("shell", &text, Effect::Deny);
            let rules: Vec<Rule> = before.into_iter().chain([denying]).chain(after).collect();
            let rules = Rules::new(rules, &place());
            prop_assert!(rules.denial("shell", Subject::Text(&text, &[])).is_some());
        }

        #[test]
        fn a_rule_at_the_end_decides_what_it_matches(before in some_rules(), text in "[ab]{1,2}", effect in effects()) {
            prop_assume!(effect != Effect::Deny);
            let rules: Vec<Rule> = before.into_iter().chain([rule("shell", &text, effect)]).collect();
            let rules = Rules::new(rules, &place());
            prop_assert_eq!(rules.effect("shell", Subject::Text(&text, &[])), Some(effect));
        }

        #[test]
        fn a_rule_that_matches_nothing_changes_nothing(rules in some_rules(), at in 0usize..8, effect in effects(), text in "[ab]{1,2}") {
            let mut more = rules.clone();
            more.insert(at.min(rules.len()), rule("shell", "never", effect));
            let (less, more) = (Rules::new(rules, &place()), Rules::new(more, &place()));
            let subject = Subject::Text(&text, &[]);
            prop_assert_eq!(less.effect("shell", subject), more.effect("shell", subject));
            prop_assert_eq!(less.denial("shell", subject).is_some(), more.denial("shell", subject).is_some());
        }

        #[test]
        fn another_list_never_allows_more(
            own in some_rules(), one in some_rules(), other in some_rules(), text in "[ab]{1,2}",
        ) {
            let configured = Rules::new(own, &place());
            let allowed = |layers: &[Vec<Rule>]| {
                let rules = configured.layered(layers, &place());
                let subject = Subject::Text(&text, &[]);
                rules.denial("shell", subject).is_none() && rules.allow("shell", subject)
            };
            let both = allowed(&[one.clone(), other]);
            prop_assert!(allowed(&[one]) || !both);
        }

        #[test]
        fn a_place_above_never_allows_more_and_what_it_denies_stays_denied(
            own in some_rules(), above in some_rules(), layer in some_rules(), text in "[ab]{1,2}",
        ) {
            let subject = Subject::Text(&text, &[]);
            let says = |rules: &Rules| match rules.denial("shell", subject) {
                Some(_) => Some(Effect::Deny),
                None => rules.effect("shell", subject),
            };
            // What nobody decides is for the mode, which is as narrow below as above.
            let strictness = |said: Option<Effect>| match said {
                Some(Effect::Deny) => 3,
                Some(Effect::Ask) => 2,
                None => 1,
                Some(Effect::Allow) => 0,
            };
            let elsewhere = Place { directory: "/other".into(), real: "/other".into(), ..place() };
            for layers in [&[][..], &[layer]] {
                let alone = Rules::new(own.clone(), &place()).layered(layers, &place());
                let parent = Rules::new(above.clone(), &elsewhere).layered(layers, &elsewhere);
                let child = Rules::new(own.clone(), &place()).below(above.clone(), elsewhere.clone());
                let child = child.layered(layers, &place());
                let most = strictness(says(&alone)).max(strictness(says(&parent)));
                prop_assert_eq!(strictness(says(&child)), most);
            }
        }

        #[test]
        fn more_forms_never_allow_more(rules in some_rules(), text in "[ab]{1,2}", form in "[ab]{1,2}") {
            let rules = Rules::new(rules, &place());
            let forms = [form];
            let allowed = |forms| {
                let subject = Subject::Text(&text, forms);
                rules.denial("shell", subject).is_none() && rules.allow("shell", subject)
            };
            prop_assert!(allowed(&[]) || !allowed(&forms));
        }
    }

    #[test]
    fn a_list_of_an_agent_stands_after_the_configured_rules_and_the_strictest_list_counts() {
        let configured = Rules::new(
            [
                rule("shell", "git *", Effect::Ask),
                rule("shell", "make *", Effect::Allow),
                rule("shell", "rm *", Effect::Deny),
            ],
            &place(),
        );
        let free = vec![
            rule("shell", "git *", Effect::Allow),
            rule("shell", "ls *", Effect::Allow),
            rule("shell", "rm *", Effect::Allow),
        ];
        let tight = vec![
            rule("shell", "make *", Effect::Ask),
            rule("shell", "ls -l", Effect::Deny),
        ];
        let alone = configured.layered(std::slice::from_ref(&free), &place());
        let both = configured.layered(&[tight, free], &place());
        let said = |rules: &Rules, text| {
            let subject = Subject::Text(text, &[]);
            match rules.denial("shell", subject) {
                Some(_) => Some(Effect::Deny),
                None => rules.effect("shell", subject),
            }
        };
        for (text, alone_says, both_say) in [
            ("git log", Some(Effect::Allow), Some(Effect::Ask)),
            ("make all", Some(Effect::Allow), Some(Effect::Ask)),
            ("ls", Some(Effect::Allow), None),
            ("ls -l", Some(Effect::Allow), Some(Effect::Deny)),
            ("rm x", Some(Effect::Deny), Some(Effect::Deny)),
            ("other", None, None),
        ] {
            assert_eq!(said(&alone, text), alone_says, "{text}");
            assert_eq!(said(&both, text), both_say, "{text}");
        }
    }

    #[test]
    fn paths_of_rules_above_are_meant_from_there() {
        let elsewhere = Place {
            directory: "/other".into(),
            real: "/other".into(),
            ..place()
        };
        let above = vec![rule("edit", "src/**", Effect::Deny)];
        let layer = vec![rule("edit", "docs/**", Effect::Deny)];
        let rules = Rules::new([], &place()).below(above, elsewhere);
        let rules = rules.layered(&[layer], &place());
        let denied = |at: &str| rules.denial("edit", Subject::Path(&path(at, at))).is_some();
        assert!(denied("/other/src/a") && !denied("/srv/src/a"));
        // An agent's are meant wherever a session that it binds works.
        assert!(denied("/other/docs/a") && denied("/srv/docs/a") && !denied("/x/docs/a"));
    }

    #[test]
    fn an_unknown_resource_is_matched_by_everything_alone() {
        let rules = [
            rule("deploy", "*", Effect::Allow),
            rule("other", "x", Effect::Allow),
        ];
        let rules = Rules::new(rules, &place());
        assert!(rules.allow("deploy", Subject::Any));
        assert!(!rules.allow("other", Subject::Any));
    }
}
