//! The service attribute: one trait becomes a contract with client, descriptor and dispatcher.

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
///
/// `#[scope(read | operate | admin)]` on a member sets the scope that a caller must hold. Arguments
/// are owned values; on the wire they are one object, by name.
///
/// Besides the trait, which implementers fill with plain `async fn`s, the attribute emits a
/// cloneable `…Client`: token and handle, to the object itself or to a remote one.
#[proc_macro_attribute]
pub fn service(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let expanded =
        contract::parse(attribute.into(), item.into()).map(|contract| emit::emit(&contract));
    expanded
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
