//! The service and reference attributes: one trait becomes a contract with client, descriptor, dispatcher.

mod contract;
mod emit;

use proc_macro::TokenStream;

/// Turns a trait into a service contract.
///
/// `#[service("models", version = "1.0")]` names the service and its version. Each method is one of:
///
/// - `fn state(&self) -> State<T>;` — a replicated latest value (scope `read`),
/// - `fn events(&self) -> Events<T>;` — events that are never replayed (scope `read`),
/// - `async fn select(&self, cx: &Context, model: ModelRef) -> Result<T, E>;` — a call that can fail
///   with the contract's own error, or without `Result` one that cannot (scope `operate`).
/// - `async fn start(&self, cx: &Context) -> Result<Reference<ScanJobClient>, E>;` — a call whose result
///   is an object that stays with its owner (see [`macro@reference`]).
///
/// `#[scope(read | operate | admin)]` on a member sets the scope that a caller must hold. Arguments
/// are owned values; on the wire they are one object, by name.
///
/// Besides the trait, which implementers fill with plain `async fn`s, the attribute emits a
/// cloneable `…Client`: token and handle, to the object itself or to a remote one.
#[proc_macro_attribute]
pub fn service(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand(contract::service(attribute.into(), item.into()))
}

/// Turns a trait into the contract of an object that a service's member returns.
///
/// `#[reference] pub trait ScanJob { … }` takes the same members as a service's trait, references to
/// further objects included. It emits a cloneable `ScanJobClient`: a handle to the object itself in its
/// process, to a proxy elsewhere, made there by receiving it as the result of a call. A member that
/// returns it says `Reference<ScanJobClient>`.
///
/// An object that is done for good at some time says so by implementing the provided method
/// `completion`: from then on peers may read it for a grace period, after which it is let go.
#[proc_macro_attribute]
pub fn reference(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand(contract::reference(attribute.into(), item.into()))
}

fn expand(contract: syn::Result<contract::Contract>) -> TokenStream {
    contract
        .map(|contract| emit::emit(&contract))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
