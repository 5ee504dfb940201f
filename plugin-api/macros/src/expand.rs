//! Expansion of an `impl Hook for …` block to the block and its `HookKind` implementation.

use std::collections::BTreeSet;

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, Ident, ImplItem, ItemImpl, parse_quote};

use crate::arguments::{Arguments, Field, Listed};
use crate::points::{self, PointMethod};
use crate::uses::{self, Uses};

/// The unchanged block (with a default `Config` if it has none) and its `HookKind` implementation.
///
/// On errors: the errors, and a stand-in for the block, so that no follow-up errors hide them.
pub(crate) fn expand(arguments: &Arguments, mut block: ItemImpl) -> TokenStream {
    let methods = match overridden(&block) {
        Ok(methods) => methods,
        Err(error) => {
            let errors = error.to_compile_error();
            let stand_in = stand_in(&block);
            return quote! { #errors #stand_in };
        }
    };
    if !block
        .items
        .iter()
        .any(|item| matches!(item, ImplItem::Type(_)))
    {
        block.items.push(parse_quote!(
            type Config = ::sconce_plugin_api::NoConfig;
        ));
    }
    let methods_of_state = state_methods(&arguments.state);
    if let Some(message) = state_conflict(&block, methods_of_state.is_some()) {
        let errors = Error::new_spanned(&block.self_ty, message).to_compile_error();
        let stand_in = stand_in(&block);
        return quote! { #errors #stand_in };
    }
    if let Some((save, load)) = methods_of_state {
        block.items.push(save);
        block.items.push(load);
    }
    let kind = kind(arguments, &block, &methods);
    quote! { #block #kind }
}

/// How the block's methods contradict `state = …`, or its absence.
fn state_conflict(block: &ItemImpl, has_state: bool) -> Option<&'static str> {
    let is_there = |name: &str| block.items.iter().any(|item| is_named(item, name));
    if has_state && (is_there("save_state") || is_there("load_state")) {
        return Some("`state = …` writes `save_state` and `load_state`: leave out either");
    }
    (!has_state && is_there("state_restored"))
        .then_some("`state_restored` is called for the fields of `state = …`, which is missing")
}

/// `save_state` and `load_state` of a hook whose state is these fields; `None` if there are none.
fn state_methods(fields: &[Field]) -> Option<(ImplItem, ImplItem)> {
    if fields.is_empty() {
        return None;
    }
    let names: Vec<String> = fields.iter().map(|field| field.name.to_string()).collect();
    // Errors point at the field.
    let places = fields
        .iter()
        .map(|Field { path, .. }| quote_spanned!(path.span()=> &mut self.#path));
    let places: Vec<TokenStream> = places.collect();
    let saved: Vec<Ident> = (0..fields.len())
        .map(|index| format_ident!("saved_{index}"))
        .collect();
    let save = parse_quote! {
        fn save_state(&mut self) -> ::sconce_plugin_api::Result<::std::vec::Vec<u8>> {
            let mut state = ::sconce_plugin_api::state::Fields::default();
            #(state.add(#names, #places)?;)*
            state.to_bytes()
        }
    };
    // All are read and checked before the first is changed for good.
    let load = parse_quote! {
        fn load_state(&mut self, state: &[u8]) -> ::sconce_plugin_api::Result<()> {
            let state = ::sconce_plugin_api::state::Fields::from_bytes(state, &[#(#names),*])?;
            #(let mut #saved = state.read(#names, #places)?;)*
            #(::sconce_plugin_api::state::swap(#places, &mut #saved);)*
            if let ::core::result::Result::Err(error) = ::sconce_plugin_api::Hook::state_restored(self) {
                #(::sconce_plugin_api::state::swap(#places, &mut #saved);)*
                return ::core::result::Result::Err(error);
            }
            #(::sconce_plugin_api::state::restore(#places, #saved)?;)*
            ::core::result::Result::Ok(())
        }
    };
    Some((save, load))
}

/// A hook that does nothing, in place of one that cannot be parsed.
fn stand_in(block: &ItemImpl) -> TokenStream {
    let self_type = &block.self_ty;
    quote! {
        impl ::sconce_plugin_api::Hook for #self_type {
            type Config = ::sconce_plugin_api::NoConfig;

            fn new(
                _: Self::Config,
                _: &::sconce_plugin_api::Setup<'_>,
            ) -> ::sconce_plugin_api::Result<Self> {
                ::core::unreachable!()
            }
        }

        impl ::sconce_plugin_api::HookKind for #self_type {
            const NAME: &'static str = "";
            const METADATA: &'static str = "";

            fn dispatch(
                &mut self,
                _: u32,
                _: &mut ::sconce_plugin_api::export::Call<'_>,
            ) -> ::sconce_plugin_api::Result<()> {
                ::core::result::Result::Ok(())
            }
        }
    }
}

/// The mount points among the block's methods.
fn overridden(block: &ItemImpl) -> Result<Vec<&'static PointMethod>, Error> {
    let is_hook = block.trait_.as_ref().is_some_and(|(_, path, _)| {
        path.segments
            .last()
            .is_some_and(|segment| segment.ident == "Hook")
    });
    if !is_hook {
        return Err(Error::new_spanned(
            &block.self_ty,
            "`#[hook]` belongs on a block `impl Hook for …`",
        ));
    }
    if !block.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &block.generics,
            "a hook kind is one concrete type: `#[hook]` can't stand on a generic `impl` block",
        ));
    }
    let mut methods = Vec::new();
    let mut errors: Option<Error> = None;
    for item in &block.items {
        let ImplItem::Fn(function) = item else {
            continue;
        };
        let name = &function.sig.ident;
        match points::find(&name.to_string()) {
            Some(point) => methods.push(point),
            None if points::OTHERS.iter().any(|other| name == other) => {}
            None => combine(&mut errors, unknown(name)),
        }
    }
    if !block.items.iter().any(is_new) {
        combine(
            &mut errors,
            Error::new_spanned(
                &block.self_ty,
                "a hook needs `fn new(config: Self::Config, setup: &Setup<'_>) -> Result<Self>`",
            ),
        );
    }
    errors.map_or(Ok(methods), Err)
}

fn is_new(item: &ImplItem) -> bool {
    is_named(item, "new")
}

fn is_named(item: &ImplItem, name: &str) -> bool {
    matches!(item, ImplItem::Fn(function) if function.sig.ident == name)
}

fn combine(errors: &mut Option<Error>, error: Error) {
    match errors {
        Some(errors) => errors.combine(error),
        None => *errors = Some(error),
    }
}

fn unknown(name: &Ident) -> Error {
    let hint = points::nearest(&name.to_string()).map_or_else(
        || "helper functions belong in an `impl` block of their own".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    Error::new(
        name.span(),
        format!("`{name}` is not a mount point; {hint}"),
    )
}

/// The `HookKind` implementation.
fn kind(arguments: &Arguments, block: &ItemImpl, methods: &[&PointMethod]) -> TokenStream {
    let self_type = &block.self_ty;
    let name = &arguments.name;
    let metadata = metadata(arguments, &Uses::of(block), methods);
    let arms = methods.iter().map(|point| arm(point));
    quote! {
        impl ::sconce_plugin_api::HookKind for #self_type {
            const NAME: &'static str = #name;
            const METADATA: &'static str = #metadata;

            #[inline]
            fn dispatch(
                &mut self,
                point: u32,
                call: &mut ::sconce_plugin_api::export::Call<'_>,
            ) -> ::sconce_plugin_api::Result<()> {
                match point {
                    #(#arms)*
                    _ => ::core::result::Result::Ok(()),
                }
            }
        }
    }
}

fn arm(point: &PointMethod) -> TokenStream {
    let number = point.number;
    let method = Ident::new(point.name, Span::call_site());
    match point.payload {
        None => quote! {
            #number => ::sconce_plugin_api::Hook::#method(self, &mut call.at()),
        },
        Some(payload) => {
            let payload = format_ident!("{payload}");
            quote! {
                #number => {
                    let payload = call.#payload()?;
                    ::sconce_plugin_api::Hook::#method(self, &mut call.at(), &payload)
                }
            }
        }
    }
}

/// The `HookMetadata` as JSON.
///
/// Written here: with `serde_json` every plugin's build would compile it a second time, for the compiler.
fn metadata(arguments: &Arguments, in_block: &Uses, methods: &[&PointMethod]) -> String {
    let mut methods: Vec<_> = methods.iter().collect();
    methods.sort_by_key(|point| point.number);
    let points: Vec<_> = methods
        .iter()
        .map(|point| format!(r#"{{"name":"{}","number":{}}}"#, point.name, point.number))
        .collect();
    let ranks = if arguments.on_all_ranks {
        r#","ranks":"all""#
    } else {
        ""
    };
    let reads = all_of(&arguments.reads, &in_block.reads).map(|mut reads| {
        reads.extend(arguments.optional.intersection(&uses::parts()));
        reads
    });
    let optional = Some(arguments.optional.clone()).filter(|names| !names.is_empty());
    format!(
        r#"{{"about":{}{},"name":{},"points":[{}],"priority":{},"publishes":{}{ranks}{}{},"requires":{}}}"#,
        string(&arguments.about),
        member("asks", all_of(&arguments.asks, &in_block.asks)),
        string(&arguments.name),
        points.join(","),
        arguments.priority,
        strings(&arguments.publishes),
        member("optional", optional),
        member("reads", reads),
        strings(&arguments.requires),
    )
}

/// What the attribute lists and what is found in the block; `None` if that is not known.
fn all_of(listed: &Listed, in_block: &BTreeSet<&'static str>) -> Option<BTreeSet<&'static str>> {
    match listed {
        Listed::Also(more) => Some(more.union(in_block).copied().collect()),
        Listed::Unknown => None,
    }
}

/// A member of an object whose value is names, which need no escapes; nothing if there is none.
fn member(key: &str, names: Option<BTreeSet<&'static str>>) -> String {
    let Some(names) = names else {
        return String::new();
    };
    let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    format!(",\"{key}\":[{}]", names.join(","))
}

/// A list of strings as JSON.
fn strings(texts: &[String]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| string(text)).collect();
    format!("[{}]", texts.join(","))
}

/// A string as JSON (RFC 8259, section 7).
fn string(text: &str) -> String {
    let escaped = |character| match character {
        '"' | '\\' => format!("\\{character}"),
        '\0'..='\x1f' => format!("\\u{:04x}", u32::from(character)),
        _ => String::from(character),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}
