//! When a worker that nobody watches ends.

use std::time::Duration;

use bezel_api_session::SessionContext;
use tokio::sync::watch;

/// Retires the worker once no client was attached and nothing ran for `after`, and no child is hosted: one that
/// nobody needs is let go by its own policy. Needs the grant.
pub(crate) fn retire_when_unattended(
    cx: &SessionContext,
    after: Duration,
    mut attachments: watch::Receiver<usize>,
) {
    let Some(retirement) = cx.retirement() else {
        tracing::warn!(
            "the manifest does not grant the policy plugin `session.retire`: an unattended worker stays"
        );
        return;
    };
    let mut activity = cx.agent.main().activity();
    let (own, mut hosted) = (cx.session.own().clone(), cx.session.hosted());
    cx.spawner().spawn("unattended session", async move {
        loop {
            let busy =
                *attachments.borrow_and_update() > 0 || !activity.borrow_and_update().is_idle();
            let unneeded = async {
                match busy {
                    true => std::future::pending().await,
                    false => tokio::time::sleep(after).await,
                }
                let alone = hosted.wait_for(|hosted| {
                    let mut parents = hosted.iter().map(|session| session.parent_id.as_ref());
                    parents.all(|parent| parent != Some(&own))
                });
                alone.await.is_ok()
            };
            tokio::select! {
                changed = attachments.changed() => if changed.is_err() { return },
                changed = activity.changed() => if changed.is_err() { return },
                unneeded = unneeded => {
                    if unneeded {
                        retirement.retire("unattended and idle");
                    }
                    return;
                }
            }
        }
    });
}
