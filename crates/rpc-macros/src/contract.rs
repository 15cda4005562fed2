//! Reads a contract from its trait, and says what is wrong with one that is none.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, GenericArgument, ItemTrait, LitStr, Pat, PathArguments, Result,
    ReturnType, Token, TraitItem, TraitItemFn, Type, Visibility,
};

pub struct Contract {
    pub role: Role,
    pub attributes: Vec<Attribute>,
    pub visibility: Visibility,
    pub name: Ident,
    pub members: Vec<Member>,
}

/// How the contract's object is reached.
pub enum Role {
    /// By its id.
    Service { id: LitStr, major: u32, minor: u32 },
    /// As the result of a member.
    Reference,
}

pub struct Member {
    pub name: Ident,
    /// The attributes that stay on the trait's method.
    pub attributes: Vec<Attribute>,
    pub scope: Ident,
    pub kind: MemberKind,
    /// The signature as the author wrote it, so that the author's imports are used.
    pub signature: syn::Signature,
}

pub enum MemberKind {
    State(Type),
    Events(Type),
    Call(Box<Call>),
}

pub struct Call {
    pub arguments: Vec<(Ident, Type)>,
    pub output: Type,
    /// Value and error, where the output is a `Result`.
    pub fallible: Option<(Type, Type)>,
    /// The value is a reference, or an optional one.
    pub reference: bool,
}

struct Header {
    id: LitStr,
    version: LitStr,
}

impl Parse for Header {
    fn parse(input: ParseStream) -> Result<Self> {
        let usage = "write #[service(\"id\", version = \"major.minor\")]";
        let id: LitStr = input
            .parse()
            .map_err(|error| Error::new(error.span(), usage))?;
        input
            .parse::<Token![,]>()
            .map_err(|error| Error::new(error.span(), usage))?;
        let key: Ident = input
            .parse()
            .map_err(|error| Error::new(error.span(), usage))?;
        if key != "version" {
            return Err(Error::new(key.span(), usage));
        }
        input.parse::<Token![=]>()?;
        let version = input
            .parse()
            .map_err(|error| Error::new(error.span(), usage))?;
        input.parse::<Option<Token![,]>>()?;
        if !input.is_empty() {
            return Err(input.error(usage));
        }
        Ok(Header { id, version })
    }
}

/// Reads `#[service("id", version = "major.minor")]`.
pub fn service(attribute: TokenStream, item: TokenStream) -> Result<Contract> {
    let header: Header = syn::parse2(attribute)?;
    let valid = |text: &str| {
        !text.is_empty()
            && text.len() <= 64
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    if !valid(&header.id.value()) {
        return Err(Error::new(
            header.id.span(),
            "a service id is 1 to 64 letters, digits, '-', '_' or '.'",
        ));
    }
    let version = header.version.value();
    let numbers = version
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let Some((major, minor)) = numbers else {
        return Err(Error::new(
            header.version.span(),
            "a version is \"major.minor\", such as \"1.0\"",
        ));
    };
    let Header { id, .. } = header;
    parse(Role::Service { id, major, minor }, syn::parse2(item)?)
}

/// Reads `#[reference]`.
pub fn reference(attribute: TokenStream, item: TokenStream) -> Result<Contract> {
    if !attribute.is_empty() {
        return Err(Error::new(
            attribute.span(),
            "write #[reference] alone: an object has neither id nor version, it comes from a service's member",
        ));
    }
    let contract = parse(Role::Reference, syn::parse2(item)?)?;
    if let Some(taken) = contract
        .members
        .iter()
        .find(|member| member.name == "completion")
    {
        return Err(Error::new(
            taken.name.span(),
            "`completion` is what an implementation says of its own end; give the member another name",
        ));
    }
    Ok(contract)
}

fn parse(role: Role, item: ItemTrait) -> Result<Contract> {
    if !item.generics.params.is_empty() || item.generics.where_clause.is_some() {
        return Err(Error::new(
            item.generics.span(),
            "a contract takes no generic parameters",
        ));
    }
    if !item.supertraits.is_empty() {
        return Err(Error::new(
            item.supertraits.span(),
            "a contract names no supertraits; it is Send + Sync + 'static by itself",
        ));
    }
    let mut members = Vec::new();
    let mut faults: Option<Error> = None;
    for entry in item.items {
        let member = match entry {
            TraitItem::Fn(method) => member(method),
            other => Err(Error::new(other.span(), "a contract holds methods only")),
        };
        match member {
            Ok(member) => members.push(member),
            Err(error) => match &mut faults {
                Some(faults) => faults.combine(error),
                None => faults = Some(error),
            },
        }
    }
    match faults {
        Some(faults) => Err(faults),
        None => Ok(Contract {
            role,
            attributes: item.attrs,
            visibility: item.vis,
            name: item.ident,
            members,
        }),
    }
}

fn member(method: TraitItemFn) -> Result<Member> {
    let TraitItemFn {
        attrs,
        sig,
        default,
        ..
    } = method;
    if let Some(body) = default {
        return Err(Error::new(
            body.span(),
            "a contract's method has no body; implementers write it",
        ));
    }
    if !sig.generics.params.is_empty() || sig.generics.where_clause.is_some() {
        return Err(Error::new(
            sig.generics.span(),
            "a contract's method takes no generic parameters",
        ));
    }
    let signature = sig.clone();
    let mut inputs = sig.inputs.iter();
    match inputs.next() {
        Some(FnArg::Receiver(receiver))
            if receiver.reference.is_some() && receiver.mutability.is_none() => {}
        Some(other) => {
            return Err(Error::new(
                other.span(),
                "a contract's method takes &self first",
            ));
        }
        None => {
            return Err(Error::new(
                sig.ident.span(),
                "a contract's method takes &self first",
            ));
        }
    }
    if sig.ident == "new" {
        return Err(Error::new(
            sig.ident.span(),
            "the client's constructor is `new`; give the member another name",
        ));
    }
    let (attributes, scope) = take_scope(attrs)?;
    let output = match &sig.output {
        ReturnType::Default => syn::parse_quote!(()),
        ReturnType::Type(_, ty) => Type::clone(ty),
    };
    let kind = if sig.asyncness.is_none() {
        if let Some(extra) = inputs.next() {
            return Err(Error::new(
                extra.span(),
                "a state or events member takes &self alone",
            ));
        }
        if let Some(nested) = find_reference(&output) {
            return Err(Error::new(
                nested.span(),
                "a reference is the result of an `async fn`: handing it out may fail",
            ));
        }
        match (
            argument_of(&output, "State"),
            argument_of(&output, "Events"),
        ) {
            (Some(value), _) => MemberKind::State(value),
            (_, Some(event)) => MemberKind::Events(event),
            _ => {
                let message = "a member is `async fn` (a call), or returns State<T> or Events<T>";
                return Err(Error::new(sig.fn_token.span(), message));
            }
        }
    } else {
        match inputs.next() {
            Some(FnArg::Typed(first)) if is_context(&first.ty) => {}
            other => {
                let span = other.map_or_else(|| sig.ident.span(), Spanned::span);
                return Err(Error::new(
                    span,
                    "a call takes `cx: &Context` right after &self",
                ));
            }
        }
        let mut arguments = Vec::new();
        for input in inputs {
            let FnArg::Typed(argument) = input else {
                return Err(Error::new(input.span(), "unexpected receiver"));
            };
            let Pat::Ident(name) = &*argument.pat else {
                return Err(Error::new(
                    argument.pat.span(),
                    "an argument is a plain name: it is the name on the wire",
                ));
            };
            if matches!(&*argument.ty, Type::Reference(_) | Type::ImplTrait(_)) {
                let message = "an argument is an owned value, for it may cross a connection (String, not &str)";
                return Err(Error::new(argument.ty.span(), message));
            }
            if let Some(nested) = find_reference(&argument.ty) {
                let message = "a reference goes from the owner to the caller and never back; take a value that names the object";
                return Err(Error::new(nested.span(), message));
            }
            arguments.push((name.ident.clone(), Type::clone(&argument.ty)));
        }
        for live in ["State", "Events"] {
            if argument_of(&output, live).is_some() {
                let message = format!(
                    "{live} is no result of a call: it is a member of its own, `fn {}(&self) -> {live}<T>`",
                    sig.ident
                );
                return Err(Error::new(output.span(), message));
            }
        }
        let fallible = result_of(&output);
        let value = fallible.as_ref().map_or(&output, |(value, _)| value);
        let reference = is_reference(value)
            || argument_of(value, "Option").is_some_and(|value| is_reference(&value));
        if !reference && let Some(nested) = find_reference(&output) {
            let message = "a reference is the whole result: Reference<C> or Option<Reference<C>>, alone or as the value of a Result";
            return Err(Error::new(nested.span(), message));
        }
        MemberKind::Call(Box::new(Call {
            arguments,
            output,
            fallible,
            reference,
        }))
    };
    let scope = scope.unwrap_or_else(|| {
        let default = if matches!(kind, MemberKind::Call(_)) {
            "Operate"
        } else {
            "Read"
        };
        Ident::new(default, sig.ident.span())
    });
    Ok(Member {
        name: sig.ident,
        attributes,
        scope,
        kind,
        signature,
    })
}

fn take_scope(attributes: Vec<Attribute>) -> Result<(Vec<Attribute>, Option<Ident>)> {
    let (scopes, kept): (Vec<_>, Vec<_>) = attributes
        .into_iter()
        .partition(|attribute| attribute.path().is_ident("scope"));
    let mut found = None;
    for attribute in scopes {
        let usage =
            |error: Error| Error::new(error.span(), "write #[scope(read | operate | admin)]");
        let name: Ident = attribute.parse_args().map_err(usage)?;
        let variant = match name.to_string().as_str() {
            "read" => "Read",
            "operate" => "Operate",
            "admin" => "Admin",
            _ => return Err(Error::new(name.span(), "a scope is read, operate or admin")),
        };
        if found.replace(Ident::new(variant, name.span())).is_some() {
            return Err(Error::new(attribute.span(), "a member has one scope"));
        }
    }
    Ok((kept, found))
}

fn is_context(ty: &Type) -> bool {
    let Type::Reference(reference) = ty else {
        return false;
    };
    let Type::Path(path) = &*reference.elem else {
        return false;
    };
    reference.mutability.is_none()
        && path
            .path
            .segments
            .last()
            .is_some_and(|segment| segment.ident == "Context")
}

fn type_arguments(ty: &Type, name: &str) -> Option<Vec<Type>> {
    let Type::Path(path) = ty else { return None };
    let segment = path
        .path
        .segments
        .last()
        .filter(|segment| segment.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty.clone()),
        _ => None,
    });
    Some(types.collect())
}

fn argument_of(ty: &Type, name: &str) -> Option<Type> {
    match <[Type; 1]>::try_from(type_arguments(ty, name)?) {
        Ok([argument]) => Some(argument),
        Err(_) => None,
    }
}

fn is_reference(ty: &Type) -> bool {
    argument_of(ty, "Reference").is_some_and(|client| find_reference(&client).is_none())
}

/// The first `Reference` named anywhere in a type.
fn find_reference(ty: &Type) -> Option<Ident> {
    fn find(tokens: TokenStream) -> Option<Ident> {
        tokens.into_iter().find_map(|token| match token {
            TokenTree::Ident(ident) if ident == "Reference" => Some(ident),
            TokenTree::Group(group) => find(group.stream()),
            _ => None,
        })
    }
    find(ty.to_token_stream())
}

fn result_of(ty: &Type) -> Option<(Type, Type)> {
    match <[Type; 2]>::try_from(type_arguments(ty, "Result")?) {
        Ok([value, error]) => Some((value, error)),
        Err(_) => None,
    }
}
