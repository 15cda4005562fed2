//! References: objects that a member returns, and that stay with their owner when the result crosses.

use bezel_context::Context;
use tokio_util::sync::CancellationToken;

use super::Exposed;
use super::exposed::Answered;
use crate::consumer::{HeldReference, Proxy};
use crate::descriptor::ServiceDescriptor;
use crate::error::{ErrorCode, Failure, RpcError, ServiceError};

/// In a contract: this result is an object that stays where it is.
///
/// `async fn start(&self, cx: &Context) -> Result<Reference<ScanJobClient>, StartError>` is the same as a
/// result of `ScanJobClient`, which `#[reference] pub trait ScanJob` emits: the object itself in the
/// owner's process, a proxy elsewhere. `Option<Reference<…>>` is allowed too. Nothing else can be returned
/// so:
///
/// ```compile_fail,E0277
/// use bezel_rpc::{Context, Reference, service};
///
/// #[service("names", version = "1.0")]
/// pub trait Names {
///     async fn pick(&self, cx: &Context) -> Reference<String>;
/// }
/// ```
///
/// Nor can it be returned as a plain value, for an object has no JSON form:
///
/// ```compile_fail,E0277
/// use bezel_rpc::{Context, reference, service};
///
/// #[reference]
/// pub trait Pen {
///     async fn write(&self, cx: &Context);
/// }
///
/// #[service("pens", version = "1.0")]
/// pub trait Pens {
///     async fn pick(&self, cx: &Context) -> PenClient;
/// }
/// ```
///
/// And a reference is no service: nobody can provide one under an id or look one up.
///
/// ```compile_fail,E0277
/// use bezel_rpc::{Context, Remote, reference};
///
/// #[reference]
/// pub trait Pen {
///     async fn write(&self, cx: &Context);
/// }
///
/// fn look_up(remote: &Remote) {
///     remote.use_service::<PenClient>();
/// }
/// ```
pub type Reference<C> = C;

/// What `#[reference]` emits for a contract: a handle to the object itself or to a remote one.
///
/// The remote object is given back when the last clone of its handle, and of the states and events taken
/// from it, is dropped. After that, and after a detach, a disconnect or the grace period of an object that
/// is complete, calls fail with `stale_reference`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned as a reference",
    label = "not the client of a `#[reference]` contract",
    note = "write `Reference<…Client>` with the client that `#[reference] pub trait …` emits, or return the plain value"
)]
pub trait ReferenceClient: Clone + Send + Sync + 'static {
    /// The contract's name, for descriptors and messages; it never crosses.
    const NAME: &'static str;

    /// Members, kinds, scopes and schemas. Its version is that of the service that returns it.
    fn descriptor() -> &'static ServiceDescriptor;

    /// A handle to an object on the other side of a connection.
    fn from_proxy(proxy: Proxy) -> Self;

    /// What is needed to serve this object to peers.
    fn exposed(&self) -> Exposed;
}

/// Says that an object is complete: nothing will change any more. Cheap to clone.
///
/// Peers may then still read it for a grace period; after that their references are stale.
#[derive(Debug, Clone, Default)]
pub struct Completion(CancellationToken);

impl Completion {
    /// Of an object that is not complete yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins the grace period. More than once is no different from once.
    pub fn complete(&self) {
        self.0.cancel();
    }

    /// Whether the object is complete.
    pub fn is_complete(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the object is complete.
    pub async fn completed(&self) {
        self.0.cancelled().await;
    }
}

/// The results that can carry a reference: one, or none.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned as a reference",
    label = "not the client of a `#[reference]` contract",
    note = "write `Reference<…Client>` with the client that `#[reference] pub trait …` emits, or return the plain value"
)]
pub trait ReferenceResult: Send + Sized + 'static {
    /// The object on its way out; `None` where there is none.
    fn into_exposed(self) -> Option<Exposed>;

    /// The result on its way in.
    fn from_held(held: Option<HeldReference>) -> Result<Self, RpcError>;

    /// The contract of the object.
    fn descriptor() -> &'static ServiceDescriptor;
}

impl<C: ReferenceClient> ReferenceResult for C {
    fn into_exposed(self) -> Option<Exposed> {
        Some(self.exposed())
    }

    fn from_held(held: Option<HeldReference>) -> Result<Self, RpcError> {
        let held = held.ok_or_else(|| {
            RpcError::new(
                ErrorCode::InvalidResult,
                format!(
                    "the peer answered without the {} that its contract promises",
                    C::NAME
                ),
            )
        })?;
        Ok(C::from_proxy(Proxy::of_reference(held, C::descriptor())))
    }

    fn descriptor() -> &'static ServiceDescriptor {
        C::descriptor()
    }
}

impl<C: ReferenceClient> ReferenceResult for Option<C> {
    fn into_exposed(self) -> Option<Exposed> {
        self.map(|client| client.exposed())
    }

    fn from_held(held: Option<HeldReference>) -> Result<Self, RpcError> {
        held.map(|held| C::from_held(Some(held))).transpose()
    }

    fn descriptor() -> &'static ServiceDescriptor {
        C::descriptor()
    }
}

/// An infallible member's reference on its way out.
pub fn encode_reference<R: ReferenceResult>(member: &str, result: R) -> Result<Answered, Failure> {
    match result.into_exposed() {
        None => Ok(Answered::Nothing),
        Some(exposed) if exposed.dispatch().is_some() => Ok(Answered::Reference(exposed)),
        Some(exposed) => Err(RpcError::new(
            ErrorCode::InvalidResult,
            format!(
                "{member} answered with a {} of another host; nobody passes on what is not its own",
                exposed.descriptor().id
            ),
        )
        .into()),
    }
}

/// A fallible member's reference on its way out.
pub fn encode_reference_outcome<R: ReferenceResult, E: ServiceError>(
    member: &str,
    outcome: Result<R, E>,
) -> Result<Answered, Failure> {
    match outcome {
        Ok(result) => encode_reference(member, result),
        Err(error) => Err(Failure::declared(&error)),
    }
}

/// The contract behind a result that is a reference.
pub fn reference_of<R: ReferenceResult>() -> &'static ServiceDescriptor {
    R::descriptor()
}

/// Ends with the object's completion, or with `cx`.
pub(crate) async fn completed(cx: &Context, completion: &Completion) -> bool {
    cx.run(completion.completed()).await.is_ok()
}
