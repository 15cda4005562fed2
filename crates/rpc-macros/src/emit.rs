//! Writes what a contract expands to.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

use crate::contract::{Call, Contract, Member, MemberKind, Role};

pub fn emit(contract: &Contract) -> TokenStream {
    let facade = emit_trait(contract);
    let object = emit_object(contract);
    let client = emit_client(contract);
    let dispatch = emit_dispatch(contract);
    quote! { #facade #object #client #dispatch }
}

fn object_name(contract: &Contract) -> Ident {
    format_ident!("__{}Object", contract.name)
}

fn client_name(contract: &Contract) -> Ident {
    format_ident!("{}Client", contract.name)
}

/// What descriptors and messages call the contract.
fn contract_id(contract: &Contract) -> String {
    match &contract.role {
        Role::Service { id, .. } => id.value(),
        Role::Reference => contract.name.to_string(),
    }
}

fn twin(member: &Member) -> Ident {
    format_ident!("__bezel_{}", member.name)
}

fn emit_trait(contract: &Contract) -> TokenStream {
    let Contract {
        attributes,
        visibility,
        name,
        members,
        ..
    } = contract;
    let methods = members.iter().map(|member| {
        let Member {
            attributes, kind, ..
        } = member;
        let mut signature = member.signature.clone();
        if let MemberKind::Call(call) = kind {
            let output = &call.output;
            signature.asyncness = None;
            signature.output = syn::parse_quote! {
                -> impl ::core::future::Future<Output = #output> + ::core::marker::Send
            };
        }
        quote! { #(#attributes)* #signature; }
    });
    let completion = matches!(contract.role, Role::Reference).then(|| {
        quote! {
            /// Says when this object is done for good; peers may then read it for a grace period.
            ///
            /// `None`, as provided: it is kept until it is given back or its service goes.
            fn completion(&self) -> ::core::option::Option<::bezel_rpc::Completion> {
                ::core::option::Option::None
            }
        }
    });
    quote! {
        #(#attributes)*
        #visibility trait #name: ::core::marker::Send + ::core::marker::Sync + 'static {
            #(#methods)*
            #completion
        }
    }
}

fn emit_object(contract: &Contract) -> TokenStream {
    let Contract {
        visibility: _,
        name,
        members,
        ..
    } = contract;
    let object = object_name(contract);
    let declared = members.iter().map(|member| {
        let signature = twin_signature(member);
        quote! { #signature; }
    });
    let defined = members.iter().map(|member| {
        let signature = twin_signature(member);
        let method = &member.name;
        let body = match &member.kind {
            MemberKind::State(_) | MemberKind::Events(_) => quote! { <Self as #name>::#method(self) },
            MemberKind::Call(call) => {
                let arguments = call.arguments.iter().map(|(name, _)| name);
                quote! { ::std::boxed::Box::pin(<Self as #name>::#method(self, cx, #(#arguments),*)) }
            }
        };
        quote! { #signature { #body } }
    });
    let completion = quote! {
        fn __bezel_completion(&self) -> ::core::option::Option<::bezel_rpc::Completion>
    };
    let (declared_completion, defined_completion) = match contract.role {
        Role::Service { .. } => (None, None),
        Role::Reference => (
            Some(quote! { #completion; }),
            Some(quote! { #completion { <Self as #name>::completion(self) } }),
        ),
    };
    quote! {
        #[doc(hidden)]
        trait #object: ::core::marker::Send + ::core::marker::Sync + 'static {
            #(#declared)*
            #declared_completion
        }

        impl<Implementation: #name> #object for Implementation {
            #(#defined)*
            #defined_completion
        }
    }
}

fn twin_signature(member: &Member) -> TokenStream {
    let name = twin(member);
    match &member.kind {
        MemberKind::State(value) => quote! { fn #name(&self) -> ::bezel_rpc::State<#value> },
        MemberKind::Events(event) => quote! { fn #name(&self) -> ::bezel_rpc::Events<#event> },
        MemberKind::Call(call) => {
            let Call {
                arguments, output, ..
            } = &**call;
            let arguments = arguments.iter().map(|(name, ty)| quote! { #name: #ty });
            quote! {
                fn #name<'call>(
                    &'call self,
                    cx: &'call ::bezel_rpc::Context,
                    #(#arguments),*
                ) -> ::bezel_rpc::__private::BoxFuture<'call, #output>
            }
        }
    }
}

fn emit_client(contract: &Contract) -> TokenStream {
    let Contract {
        role,
        visibility,
        name,
        members,
        ..
    } = contract;
    let (client, object) = (client_name(contract), object_name(contract));
    let methods = members.iter().map(|member| client_method(contract, member));
    let declared: Vec<_> = members
        .iter()
        .filter_map(|member| {
            let method = member.name.to_string();
            match &member.kind {
                MemberKind::State(value) => {
                    Some(quote! { proxy.declare_state::<#value>(#method); })
                }
                MemberKind::Events(event) => {
                    Some(quote! { proxy.declare_events::<#event>(#method); })
                }
                MemberKind::Call(_) => None,
            }
        })
        .collect();
    let identity = emit_identity(contract, &declared);
    let doc = match role {
        Role::Service { .. } => format!(
            "Token and handle of [`{name}`]: to the object itself in its process, to a proxy elsewhere."
        ),
        Role::Reference => format!(
            "Handle of a [`{name}`]: to the object itself in its process, to a proxy elsewhere."
        ),
    };
    let new_doc = "A handle to `implementation` itself; calls are not serialised.";
    quote! {
        #[doc = #doc]
        #visibility struct #client {
            binding: ::bezel_rpc::__private::Binding<dyn #object>,
        }

        impl ::core::clone::Clone for #client {
            fn clone(&self) -> Self {
                #client { binding: ::core::clone::Clone::clone(&self.binding) }
            }
        }

        impl ::core::fmt::Debug for #client {
            fn fmt(&self, formatter: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                formatter.write_str(::core::stringify!(#client))
            }
        }

        impl #client {
            #[doc = #new_doc]
            pub fn new(implementation: impl #name) -> Self {
                let object: ::std::sync::Arc<dyn #object> = ::std::sync::Arc::new(implementation);
                #client { binding: ::bezel_rpc::__private::Binding::local(object) }
            }

            #(#methods)*
        }

        #identity
    }
}

/// The implementation of the trait by which the machinery knows the client.
fn emit_identity(contract: &Contract, declared: &[TokenStream]) -> TokenStream {
    let (client, id) = (client_name(contract), contract_id(contract));
    let dispatch = format_ident!("__{}Dispatch", contract.name);
    let descriptors = contract.members.iter().map(descriptor);
    let documentation = documentation(&contract.attributes);
    let version = match &contract.role {
        Role::Service { major, minor, .. } => {
            quote! { ::bezel_rpc::Version::new(#major, #minor) }
        }
        // It has that of the service that returns it.
        Role::Reference => quote! { ::bezel_rpc::Version::new(0, 0) },
    };
    let common = quote! {
        fn descriptor() -> &'static ::bezel_rpc::ServiceDescriptor {
            static DESCRIPTOR: ::bezel_rpc::ServiceDescriptor = ::bezel_rpc::ServiceDescriptor {
                id: #id,
                version: #version,
                documentation: #documentation,
                members: &[#(#descriptors),*],
            };
            &DESCRIPTOR
        }

        fn from_proxy(proxy: ::bezel_rpc::Proxy) -> Self {
            #(#declared)*
            #client { binding: ::bezel_rpc::__private::Binding::remote(proxy) }
        }

        fn exposed(&self) -> ::bezel_rpc::Exposed {
            match self.binding.target() {
                ::bezel_rpc::__private::Target::Local(object) => ::bezel_rpc::Exposed::new(
                    Self::descriptor(),
                    ::std::sync::Arc::new(#dispatch(::std::sync::Arc::clone(object))),
                ),
                _ => ::bezel_rpc::Exposed::without_object(Self::descriptor()),
            }
        }
    };
    match &contract.role {
        Role::Service { .. } => quote! {
            impl ::bezel_rpc::ServiceClient for #client {
                const ID: &'static str = #id;
                const VERSION: ::bezel_rpc::Version = #version;

                #common

                fn late() -> (Self, ::bezel_rpc::LateBinding<Self>) {
                    let (binding, bind) = ::bezel_rpc::__private::Binding::late();
                    let late = ::bezel_rpc::LateBinding::new(move |client: &Self| bind(&client.binding));
                    (#client { binding }, late)
                }
            }
        },
        Role::Reference => quote! {
            impl ::bezel_rpc::ReferenceClient for #client {
                const NAME: &'static str = #id;

                #common
            }
        },
    }
}

fn client_method(contract: &Contract, member: &Member) -> TokenStream {
    let id = contract_id(contract);
    let object = object_name(contract);
    let (name, twin) = (&member.name, twin(member));
    let wire_name = name.to_string();
    let docs = member
        .attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("doc"));
    let documented = member
        .attributes
        .iter()
        .any(|attribute| attribute.path().is_ident("doc"));
    let fallback = (!documented).then(|| {
        let doc = format!("The contract's member `{name}`.");
        quote! { #[doc = #doc] }
    });
    let body = match &member.kind {
        MemberKind::State(value) => quote! {
            pub fn #name(&self) -> ::bezel_rpc::State<#value> {
                self.binding.state(#wire_name, |object: &(dyn #object)| object.#twin())
            }
        },
        MemberKind::Events(event) => quote! {
            pub fn #name(&self) -> ::bezel_rpc::Events<#event> {
                self.binding.events(#wire_name, |object: &(dyn #object)| object.#twin())
            }
        },
        MemberKind::Call(call) => {
            let Call {
                arguments,
                output,
                fallible,
                reference,
            } = &**call;
            let names: Vec<_> = arguments.iter().map(|(name, _)| name).collect();
            let parameters = arguments.iter().map(|(name, ty)| quote! { #name: #ty });
            let pairs = arguments.iter().map(|(name, _)| {
                let wire = name.to_string();
                quote! { (#wire, &#name) }
            });
            let local = quote! {
                ::bezel_rpc::__private::call_local(
                    &**object,
                    cx,
                    ::core::concat!(#id, ".", #wire_name),
                    move |object: &(dyn #object), cx: &::bezel_rpc::Context| object.#twin(cx, #(#names),*),
                ).await
            };
            let (returns, local, remote) = match fallible {
                Some((value, error)) => (
                    quote! { ::core::result::Result<#value, ::bezel_rpc::CallError<#error>> },
                    quote! { ::bezel_rpc::__private::local_outcome(#local) },
                    if *reference {
                        quote! { proxy.call_for_reference::<#value, #error>(cx, #wire_name, arguments).await }
                    } else {
                        quote! { proxy.call::<#value, #error>(cx, #wire_name, arguments).await }
                    },
                ),
                None => (
                    quote! { ::core::result::Result<#output, ::bezel_rpc::CallError<::core::convert::Infallible>> },
                    quote! { #local.map_err(::bezel_rpc::CallError::Rpc) },
                    if *reference {
                        quote! { proxy.call_for_reference_plain::<#output>(cx, #wire_name, arguments).await }
                    } else {
                        quote! { proxy.call_plain::<#output>(cx, #wire_name, arguments).await }
                    },
                ),
            };
            quote! {
                pub async fn #name(&self, cx: &::bezel_rpc::Context, #(#parameters),*) -> #returns {
                    match self.binding.target() {
                        ::bezel_rpc::__private::Target::Local(object) => #local,
                        ::bezel_rpc::__private::Target::Remote(proxy) => {
                            #[allow(unused_mut)]
                            let mut arguments = ::bezel_rpc::__private::ArgumentsWriter::new(#wire_name);
                            #(arguments.field #pairs ?;)*
                            let arguments = arguments.finish();
                            #remote
                        }
                        ::bezel_rpc::__private::Target::Unbound => ::core::result::Result::Err(
                            ::bezel_rpc::CallError::Rpc(::bezel_rpc::__private::not_bound(#id, #wire_name)),
                        ),
                    }
                }
            }
        }
    };
    quote! { #(#docs)* #fallback #body }
}

fn descriptor(member: &Member) -> TokenStream {
    let (name, scope) = (member.name.to_string(), &member.scope);
    let schema = |ty: &dyn quote::ToTokens| quote! { ::bezel_rpc::__private::schema_of::<#ty> };
    let mut reference = quote!(::core::option::Option::None);
    let (kind, arguments, result, error) = match &member.kind {
        MemberKind::State(value) => (
            quote!(State),
            quote!(::core::option::Option::None),
            schema(value),
            quote!(::core::option::Option::None),
        ),
        MemberKind::Events(event) => (
            quote!(Events),
            quote!(::core::option::Option::None),
            schema(event),
            quote!(::core::option::Option::None),
        ),
        MemberKind::Call(call) => {
            let Call {
                arguments,
                output,
                fallible,
                reference: is_reference,
            } = &**call;
            // A reference has no content of its own.
            let content = |ty: &dyn quote::ToTokens| match is_reference {
                true => schema(&quote!(())),
                false => schema(ty),
            };
            if *is_reference {
                let value = fallible.as_ref().map_or(output, |(value, _)| value);
                reference = quote! {
                    ::core::option::Option::Some(::bezel_rpc::__private::reference_of::<#value>)
                };
            }
            let arguments = if arguments.is_empty() {
                quote!(::core::option::Option::None)
            } else {
                let fields = arguments.iter().map(|(name, ty)| quote! { #name: #ty });
                quote! {
                    ::core::option::Option::Some(|| {
                        #[derive(::bezel_rpc::__private::schemars::JsonSchema)]
                        #[schemars(crate = "::bezel_rpc::__private::schemars")]
                        #[allow(dead_code)]
                        struct Arguments { #(#fields),* }
                        ::bezel_rpc::__private::schema_of::<Arguments>()
                    })
                }
            };
            match fallible {
                None => (
                    quote!(Call),
                    arguments,
                    content(output),
                    quote!(::core::option::Option::None),
                ),
                Some((value, error)) => {
                    let error = schema(error);
                    (
                        quote!(Call),
                        arguments,
                        content(value),
                        quote!(::core::option::Option::Some(#error)),
                    )
                }
            }
        }
    };
    let documentation = documentation(&member.attributes);
    quote! {
        ::bezel_rpc::MemberDescriptor {
            name: #name,
            kind: ::bezel_rpc::MemberKind::#kind,
            scope: ::bezel_rpc::Scope::#scope,
            documentation: #documentation,
            arguments: #arguments,
            result: #result,
            error: #error,
            reference: #reference,
        }
    }
}

/// The text of an item's documentation comments, each line without the space that begins it.
fn documentation(attributes: &[Attribute]) -> String {
    let lines: Vec<String> = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(doc) if doc.path.is_ident("doc") => match &doc.value {
                Expr::Lit(ExprLit {
                    lit: Lit::Str(line),
                    ..
                }) => Some(line.value()),
                _ => None,
            },
            _ => None,
        })
        .map(|line| {
            line.strip_prefix(' ')
                .unwrap_or(&line)
                .trim_end()
                .to_owned()
        })
        .collect();
    lines.join("\n").trim().to_owned()
}

fn emit_dispatch(contract: &Contract) -> TokenStream {
    let Contract { members, .. } = contract;
    let id = contract_id(contract);
    let object = object_name(contract);
    let dispatch = format_ident!("__{}Dispatch", contract.name);
    let mut calls = Vec::new();
    let mut states = Vec::new();
    let mut events = Vec::new();
    for member in members {
        let (name, twin) = (member.name.to_string(), twin(member));
        match &member.kind {
            MemberKind::State(_) => states.push(quote! {
                #name => ::core::option::Option::Some(::bezel_rpc::__private::StateExposure::new(self.0.#twin())),
            }),
            MemberKind::Events(_) => events.push(quote! {
                #name => ::core::option::Option::Some(::bezel_rpc::__private::EventsExposure::new(self.0.#twin())),
            }),
            MemberKind::Call(call) => {
                let Call { arguments, fallible, reference, .. } = &**call;
                let (names, types): (Vec<_>, Vec<_>) = arguments.iter().map(|(name, ty)| (name, ty)).unzip();
                let encode = match (fallible, reference) {
                    (None, false) => quote! { encode_value },
                    (Some(_), false) => quote! { encode_outcome },
                    (None, true) => quote! { encode_reference },
                    (Some(_), true) => quote! { encode_reference_outcome },
                };
                calls.push(quote! {
                    #name => {
                        #[derive(::bezel_rpc::__private::serde::Deserialize)]
                        #[serde(crate = "::bezel_rpc::__private::serde")]
                        struct Arguments { #(#names: #types),* }
                        let Arguments { #(#names),* } =
                            ::bezel_rpc::__private::decode_arguments(#id, #name, arguments)?;
                        let object = ::std::sync::Arc::clone(&self.0);
                        ::core::result::Result::Ok(::std::boxed::Box::pin(async move {
                            ::bezel_rpc::__private::#encode(
                                ::core::concat!(#id, ".", #name),
                                object.#twin(&cx, #(#names),*).await,
                            )
                        }))
                    }
                });
            }
        }
    }
    let completion = matches!(contract.role, Role::Reference).then(|| {
        quote! {
            fn completion(&self) -> ::core::option::Option<::bezel_rpc::Completion> {
                self.0.__bezel_completion()
            }
        }
    });
    quote! {
        #[doc(hidden)]
        struct #dispatch(::std::sync::Arc<dyn #object>);

        impl ::bezel_rpc::__private::Dispatch for #dispatch {
            #[allow(unused_variables)]
            fn call(
                &self,
                cx: ::bezel_rpc::Context,
                member: &str,
                arguments: &[u8],
            ) -> ::core::result::Result<::bezel_rpc::__private::Answer, ::bezel_rpc::__private::Failure> {
                match member {
                    #(#calls)*
                    _ => ::core::result::Result::Err(::bezel_rpc::__private::unknown_member(#id, member)),
                }
            }

            fn state(&self, member: &str) -> ::core::option::Option<::bezel_rpc::__private::StateExposure> {
                match member {
                    #(#states)*
                    _ => ::core::option::Option::None,
                }
            }

            fn events(&self, member: &str) -> ::core::option::Option<::bezel_rpc::__private::EventsExposure> {
                match member {
                    #(#events)*
                    _ => ::core::option::Option::None,
                }
            }

            #completion
        }
    }
}
