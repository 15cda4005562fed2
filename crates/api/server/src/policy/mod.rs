//! Server policy as ordered contributions: who may connect, who may reach what, how workers are kept.

mod authentication;
mod authorization;
mod workers;

pub use authentication::{
    Attempt, AuthenticationDraft, AuthenticationMethod, AuthenticationPolicy, Granted,
    IssuedCredential, Presented, Verdict,
};
pub use authorization::{
    Access, AccessRequest, AuthorizationDraft, AuthorizationPolicy, AuthorizationRule,
};
pub use workers::{Restart, Resume, WorkerPolicy, WorkerPolicyDraft};
