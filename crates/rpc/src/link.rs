//! A managed connection to a server: it comes back by itself, and handles survive that.

use std::sync::{Arc, Mutex};

use bezel_context::{CancelHandle, Cancelled, ClientId, Context, Spawner, Task};

use crate::connection::{AttachmentState, Connect, ConnectError, ConnectionState};
use crate::consumer::{Namespace, Reach, Remote};
use crate::error::{ErrorCode, RpcError};
use crate::handshake::{Credential, Hello};
use crate::keeper::Keeper;
use crate::provider::ServiceTable;
use crate::service::ServiceClient;
use crate::state::{Kept, State};
use crate::sync::lock;

/// A connection that is kept up. Cheap to clone; [`Link::stop`] or the end of its scope ends it.
#[derive(Clone)]
pub struct Link(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) server: Arc<Namespace>,
    pub(crate) attached: Arc<Namespace>,
    pub(crate) connection: Kept<ConnectionState>,
    pub(crate) attachment: Kept<AttachmentState>,
    pub(crate) client: Mutex<Option<ClientId>>,
    pub(crate) cancel: CancelHandle,
    pub(crate) task: Mutex<Option<Task<()>>>,
}

/// The services of the attached target. Its proxies stay valid across switches. Cheap to clone.
#[derive(Clone)]
pub struct AttachedRemote {
    remote: Remote,
    attachment: State<AttachmentState>,
}

impl Link {
    /// Begins to connect, and connects again whenever the connection is lost.
    pub fn start(
        spawner: &Spawner,
        connect: Arc<dyn Connect>,
        hello: Hello,
        provides: ServiceTable,
    ) -> Self {
        let (keeper, cx) = keeper(spawner, connect, hello, provides);
        let shared = Arc::clone(&keeper.shared);
        let task = spawner.spawn("rpc link", async move { keeper.run(&cx).await });
        *lock(&shared.task) = Some(task);
        Link(shared)
    }

    /// Connects once, and never again after that: for who has to know why it cannot.
    ///
    /// The credential is there where the welcome brought one for that of the hello, which is used up.
    pub async fn once(
        cx: &Context,
        spawner: &Spawner,
        connect: Arc<dyn Connect>,
        hello: Hello,
    ) -> Result<(Self, Option<Credential>), ConnectError> {
        let (keeper, life) = keeper(spawner, connect, hello, ServiceTable::new());
        let mut established = cx.run(keeper.attempt(cx)).await??;
        let issued = established.welcome.credential.take();
        let link = Link(Arc::clone(&keeper.shared));
        let running = async move { keeper.run_once(&life, established).await };
        *lock(&link.0.task) = Some(spawner.spawn("rpc link", running));
        link.settled(cx).await?;
        Ok((link, issued))
    }

    /// The server's own services.
    pub fn server(&self) -> Remote {
        Remote::new(Arc::clone(&self.0.server))
    }

    /// The services of the target that this connection is attached to.
    pub fn attached(&self) -> AttachedRemote {
        AttachedRemote {
            remote: Remote::new(Arc::clone(&self.0.attached)),
            attachment: self.0.attachment.state(),
        }
    }

    /// How the connection stands.
    pub fn connection(&self) -> State<ConnectionState> {
        self.0.connection.state()
    }

    /// What the server calls this connection; `None` while there is none.
    pub fn client_id(&self) -> Option<ClientId> {
        lock(&self.0.client).clone()
    }

    /// Waits until there is a connection, or none can come: then its state says why.
    pub async fn settled(&self, cx: &Context) -> Result<Arc<ConnectionState>, Cancelled> {
        let done = |state: &ConnectionState| match state {
            ConnectionState::Connecting { .. } => false,
            ConnectionState::Connected { .. } => true,
            ConnectionState::Disconnected { retry_at, .. } => retry_at.is_none(),
        };
        self.0.connection.state().wait_for(cx, done).await
    }

    /// Ends the connection in good order and connects no more.
    pub async fn stop(&self) {
        self.0.cancel.cancel();
        let task = lock(&self.0.task).take();
        if let Some(task) = task
            && let Some(Err(error)) = task.await
        {
            tracing::debug!(%error, "the link had ended before it was stopped");
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Link")
            .field("connection", &self.0.connection.get())
            .finish_non_exhaustive()
    }
}

impl AttachedRemote {
    /// See [`Remote::use_service`]. While nothing is attached, calls fail with `not_attached`.
    pub fn use_service<C: ServiceClient>(&self) -> C {
        self.remote.use_service()
    }

    /// See [`Remote::try_use`].
    pub fn try_use<C: ServiceClient>(&self) -> Option<C> {
        self.remote.try_use::<C>()
    }

    /// See [`Remote::check`].
    pub fn check<C: ServiceClient>(&self) -> Result<(), RpcError> {
        self.remote.check::<C>()
    }

    /// The namespace alone.
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Which target, and whether it can be reached.
    pub fn attachment(&self) -> State<AttachmentState> {
        self.attachment.clone()
    }
}

impl std::fmt::Debug for AttachedRemote {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("AttachedRemote")
            .field("attachment", &self.attachment)
            .finish()
    }
}

/// What keeps a link, and the context that ends with it.
fn keeper(
    spawner: &Spawner,
    connect: Arc<dyn Connect>,
    hello: Hello,
    provides: ServiceTable,
) -> (Keeper, Context) {
    let (cx, cancel) = Context::background().with_cancel();
    let shared = Arc::new(Shared {
        server: Namespace::new(no_connection()),
        attached: Namespace::new(no_connection()),
        connection: Kept::new(ConnectionState::default()),
        attachment: Kept::new(AttachmentState::Detached),
        client: Mutex::new(None),
        cancel,
        task: Mutex::new(None),
    });
    let keeper = Keeper {
        shared,
        connect,
        hello,
        provides,
        spawner: spawner.clone(),
    };
    (keeper, cx)
}

pub(crate) fn no_connection() -> Reach {
    Reach::Down {
        code: ErrorCode::Disconnected,
        message: "there is no connection to the server; wait until it is restored",
    }
}

pub(crate) fn nothing_attached() -> Reach {
    Reach::Down {
        code: ErrorCode::NotAttached,
        message: "nothing is attached; attach first",
    }
}
