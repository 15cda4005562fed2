//! The contributions.

use std::sync::Arc;

use bezel_api_server::{
    Access, AccessRequest, Attempt, Granted, ServerContext, Verdict, WorkerPolicy,
};
use bezel_context::{Scopes, Workspaces};

pub(crate) fn contribute(cx: &ServerContext, workers: WorkerPolicy) {
    cx.authentication
        .add(|draft| draft.set("local-user", Arc::new(local_user)));
    cx.authorization
        .add(|draft| draft.set("owner-and-workspace", Arc::new(owner_and_workspace)));
    cx.workers.add(move |draft| draft.set(workers));
}

fn local_user(attempt: Attempt) -> Verdict {
    let local = attempt.is_same_process() || attempt.is_same_user() && attempt.shows_local_token();
    match local {
        true => Verdict::Granted(Granted {
            owner: attempt.local_owner().to_owned(),
            workspaces: Workspaces::All,
            scopes: Scopes::all(),
            credential: None,
            issued: None,
        }),
        false if attempt.shows_local_token() => Verdict::Refused(
            "this token serves the user that the server runs as, and no other".into(),
        ),
        false => Verdict::Unrecognised,
    }
}

fn owner_and_workspace(request: &AccessRequest<'_>) -> Access {
    let owned = request.principal.owner == request.owner;
    match owned && request.principal.workspaces.reaches(request.workspace) {
        true => Access::Allowed,
        false => Access::Denied,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bezel_api_server::Presented;
    use bezel_context::{ClientId, Principal, WorkspaceId};

    use super::*;

    fn verdict(same_process: bool, same_user: bool, presented: Presented) -> Verdict {
        local_user(Attempt::new("me", same_process, same_user, presented))
    }

    #[test]
    fn a_local_client_needs_to_be_the_same_user_and_to_show_the_token() {
        let granted = |verdict: &Verdict| matches!(verdict, Verdict::Granted(granted) if granted.owner == "me");
        assert!(granted(&verdict(true, false, Presented::Nothing)));
        assert!(granted(&verdict(false, true, Presented::LocalToken)));
        assert_eq!(
            verdict(false, true, Presented::Nothing),
            Verdict::Unrecognised
        );
        assert_eq!(
            verdict(false, true, Presented::Bearer("other".into())),
            Verdict::Unrecognised
        );
        assert!(matches!(
            verdict(false, false, Presented::LocalToken),
            Verdict::Refused(_)
        ));
    }

    #[test]
    fn a_principal_reaches_its_owners_sessions_in_its_workspaces_alone() {
        let (inside, outside) = (WorkspaceId::new("in"), WorkspaceId::new("out"));
        let bound = Principal {
            client: ClientId::new("c"),
            owner: "me".into(),
            workspaces: Workspaces::Only(BTreeSet::from([inside.clone()])),
            scopes: Scopes::all(),
            credential: None,
        };
        let access = |principal: &Principal, owner: &str, workspace: &WorkspaceId| {
            owner_and_workspace(&AccessRequest {
                principal,
                owner,
                workspace,
                session: None,
            })
        };
        assert_eq!(access(&bound, "me", &inside), Access::Allowed);
        assert_eq!(access(&bound, "me", &outside), Access::Denied);
        assert_eq!(access(&bound, "you", &inside), Access::Denied);
        let local = Principal {
            workspaces: Workspaces::All,
            ..bound
        };
        assert_eq!(access(&local, "me", &outside), Access::Allowed);
        assert_eq!(access(&local, "you", &outside), Access::Denied);
    }
}
