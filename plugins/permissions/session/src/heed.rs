//! What other plugins have to say of a call, over the verdict that rules, mode and approvals come to.
//!
//! What is denied stays denied: by a rule, and by plan mode, which a hook that allows does not lift for what changes
//! something. Beside that a hook's denial is final. A hook that allows answers in the person's place, and not where it
//! cannot be told whether a rule denies the call: such a rule is the person's own last word. A hook that asks is heard
//! whatever was approved, and in every mode; what is approved with its answer is the one call.

use bezel_api_session::Evaluation;
use bezel_permissions_contract::Asked;

use crate::judge::Verdict;

impl Verdict {
    /// The verdict on a call of `tool` that other plugins said this of.
    pub(crate) fn heeding(self, tool: &str, evaluation: &Evaluation) -> Verdict {
        match (self, evaluation) {
            (Verdict::Deny(reason), _) => Verdict::Deny(reason),
            (_, Evaluation::Deny(reason)) => Verdict::Deny(format!("Not run: {reason}.")),
            (Verdict::Ask { unsure: false, .. }, Evaluation::Allow) => Verdict::Allow,
            (verdict, Evaluation::Ask(reason)) => {
                let (mut asked, leads, unsure) = match verdict {
                    Verdict::Ask {
                        asked,
                        leads,
                        unsure,
                        ..
                    } => (asked, leads, unsure),
                    _ => (Vec::new(), Vec::new(), false),
                };
                asked.push(Asked {
                    action: tool.to_owned(),
                    resource: "*".to_owned(),
                    reason: reason.clone(),
                });
                Verdict::Ask {
                    asked,
                    covers: Vec::new(),
                    leads,
                    unsure,
                }
            }
            (verdict, _) => verdict,
        }
    }
}
