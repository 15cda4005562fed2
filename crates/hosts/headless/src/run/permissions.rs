//! Calls that wait for a person's permission: told, and declined where nobody can give it.

use bezel_permissions_contract::{PendingAsk, PermissionsClient, Reply};

use super::{Run, Stop};
use crate::events::{PermissionAsked, RunEvent};

/// What the model reads where nobody can answer.
const NOBODY: &str =
    "nobody can be asked in this run. Do what is left without it, or say what is needed";

impl Run<'_, '_> {
    /// Tells of asks that were not told yet, and declines them where nobody can reach the session.
    pub(super) async fn tell_asks(
        &mut self,
        permissions: Option<&PermissionsClient>,
        asks: &[PendingAsk],
    ) -> Result<(), Stop> {
        let (Some(session_id), Some(permissions)) = (self.session.clone(), permissions) else {
            return Ok(());
        };
        for PendingAsk { id, request, .. } in asks {
            if !self.permissions_told.insert(id.clone()) {
                continue;
            }
            let asked = request.asked.iter().map(|asked| PermissionAsked {
                action: asked.action.clone(),
                resource: asked.resource.clone(),
                reason: asked.reason.clone(),
            });
            self.printer.print(RunEvent::Permission {
                item: id.to_string(),
                session_id: session_id.clone(),
                tool: request.tool.clone(),
                asked: asked.collect(),
                declined: self.options.unreachable,
            })?;
            if self.options.unreachable {
                let reply = Reply::Reject {
                    message: Some(NOBODY.to_owned()),
                };
                let replied = permissions.reply(self.cx, id.clone(), reply).await;
                if let Err(error) = replied {
                    return Err(Stop::Failed(format!(
                        "the run could not decline a call: {error}"
                    )));
                }
            }
        }
        Ok(())
    }
}
