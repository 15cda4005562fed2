//! A managed connection of a measuring process.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bezel_context::{Context, TaskScope};
use bezel_rpc::{AttachedRemote, AttachmentState, Credential, Hello, Link, Role, ServiceTable};
use bezel_sockets::dial_unix;

use super::contract::ControlClient;
use super::meter::{Meter, MeteredDial};

/// The credential of a presentation.
pub const PRESENTATION: &str = "8c0d5f3e-presentation";
/// The credential of a worker, before its target.
pub const WORKER: &str = "8c0d5f3e-worker-";

pub fn hello(role: Role, token: &str) -> Hello {
    Hello {
        role,
        product_version: env!("CARGO_PKG_VERSION").to_owned(),
        credential: Credential::token(token),
    }
}

/// One presentation.
pub struct Client {
    link: Link,
    pub control: ControlClient,
    pub meter: Arc<Meter>,
    pub attached: AttachedRemote,
}

impl Client {
    /// Connects over a socket that nothing looks into.
    pub async fn connect(scope: &TaskScope, socket: &str) -> Result<Self> {
        Self::over(scope, dial_unix(socket), Arc::default()).await
    }

    /// Connects over a socket whose frames are counted.
    pub async fn metered(scope: &TaskScope, socket: &str) -> Result<Self> {
        let meter = Arc::<Meter>::default();
        let dial = MeteredDial {
            inner: dial_unix(socket),
            meter: Arc::clone(&meter),
        };
        Self::over(scope, Arc::new(dial), meter).await
    }

    async fn over(
        scope: &TaskScope,
        dial: Arc<dyn bezel_rpc::Connect>,
        meter: Arc<Meter>,
    ) -> Result<Self> {
        let hello = hello(Role::Presentation, PRESENTATION);
        let link = Link::start(&scope.spawner(), dial, hello, ServiceTable::new());
        let state = link.settled(&Context::background()).await?;
        ensure!(state.is_connected(), "not connected: {state:?}");
        Ok(Client {
            control: link.server().use_service(),
            attached: link.attached(),
            link,
            meter,
        })
    }

    /// Attaches to a target and waits until that is done.
    pub async fn attach(&self, cx: &Context, target: &str) -> Result<()> {
        self.control
            .attach(cx, target.to_owned())
            .await
            .context("attach")?;
        let done = |state: &AttachmentState| matches!(state, AttachmentState::Attached { target: at } if at == target);
        self.attached.attachment().wait_for(cx, done).await?;
        Ok(())
    }

    /// Ends the connection in good order.
    pub async fn stop(&self) {
        self.link.stop().await;
    }
}
