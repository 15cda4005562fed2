//! What hooks are asked of whether a call may run, and what they answer.

use bezel_session_types::Access;

use super::PendingCall;

/// What a permission says of a call as it will run.
#[derive(Debug, Clone, PartialEq)]
pub enum Approval {
    /// It may run.
    Allow,
    /// It may not; the model reads why.
    Deny {
        /// For the model and the person.
        reason: String,
    },
    /// It may not, and the operation ends with it, as if a person had interrupted it here.
    End {
        /// For the person, and for the model when the conversation goes on.
        reason: String,
    },
}

/// What somebody who does not decide has to say of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Evaluation {
    /// Nothing.
    #[default]
    Nothing,
    /// It need not be asked for.
    Allow,
    /// A person should be asked, whatever was approved.
    Ask {
        /// For the person.
        reason: String,
    },
    /// It may not run.
    Deny {
        /// For the model and the person.
        reason: String,
    },
}

/// A call that waits for permission.
#[derive(Debug, Clone)]
pub struct PendingApproval {
    /// The call as it will run.
    pub call: PendingCall,
    /// What its tool says that it touches; `None` where the tool does not say.
    pub accesses: Option<Vec<Access>>,
    /// What those who were asked so far came to.
    pub evaluation: Evaluation,
}

impl std::ops::Deref for PendingApproval {
    type Target = PendingCall;

    fn deref(&self) -> &PendingCall {
        &self.call
    }
}
