//! Calls of a hook in a process of its own: as messages, and the host that sends them.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::{Definition, Form, Method, Output};

impl Definition {
    pub(super) fn forwarding(&self) -> TokenStream {
        if self.is_local {
            // An isolated hook's process implements the trait itself.
            return quote!();
        }
        let travelling: Vec<_> = self
            .methods
            .iter()
            .filter(|method| method.travels())
            .collect();
        let locals: Vec<_> = self
            .methods
            .iter()
            .filter(|method| method.is_own())
            .collect();
        let calls = self.calls(&travelling);
        let local = self.local(&locals);
        let host = self.forwarding_host(&locals);
        quote! { #calls #local #host }
    }

    /// The calls as an enumeration.
    fn calls(&self, methods: &[&Method]) -> TokenStream {
        let (item, call) = (&self.item.ident, self.named("Call"));
        let borrows = methods.iter().any(|method| method.borrows());
        let lifetime = borrows.then(|| quote!(<'a>));
        let any = borrows.then(|| quote!(<'_>));
        let docs = format!("A call of [`{item}`], as an isolated hook sends it.");
        let variants = methods.iter().map(|method| method.variant());
        let answers = methods.iter().map(|method| method.answer());
        let matches = |is_one: fn(&Method) -> bool| {
            let found = methods.iter().filter(|method| is_one(method));
            let names: Vec<_> = found.map(|method| method.variant_name()).collect();
            if names.is_empty() {
                return quote!(false);
            }
            quote!(matches!(self, #(Self::#names { .. })|*))
        };
        let has_effect = matches(|method| method.is("changes"));
        let is_ahead = matches(|method| method.is("ahead"));
        let may_be_posted = matches(|method| method.is("posted"));
        quote! {
            #[doc = #docs]
            #[cfg(feature = "host")]
            #[derive(Clone, Copy, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
            pub enum #call #lifetime { #(#variants),* }

            #[cfg(feature = "host")]
            impl #call #any {
                /// Makes the call.
                pub fn answer<H: #item>(self, host: &H) -> crate::ext::Answer<'_> {
                    match self { #(#answers),* }
                }

                /// Whether what other calls answer may be different after it.
                pub const fn has_effect(&self) -> bool { #has_effect }

                /// Whether its answer may be sent in advance: it has no effect, and is short.
                pub const fn is_ahead(&self) -> bool { #is_ahead }

                /// Whether it may be sent without waiting for an answer.
                pub const fn may_be_posted(&self) -> bool { #may_be_posted }
            }
        }
    }

    /// What an isolated hook's process answers by itself.
    fn local(&self, locals: &[&Method]) -> TokenStream {
        if locals.is_empty() {
            return quote!();
        }
        let (item, local) = (&self.item.ident, self.named("Local"));
        let docs =
            format!("Functions of [`{item}`] that an isolated hook's process has of its own.");
        let functions = locals.iter().map(|method| {
            let (docs, signature) = (&method.docs, self.signature_of(method));
            quote! { #(#docs)* #signature; }
        });
        quote! {
            #[doc = #docs]
            #[cfg(feature = "host")]
            #[allow(clippy::missing_safety_doc, clippy::missing_errors_doc, reason = "as in the trait")]
            pub trait #local { #(#functions)* }
        }
    }

    /// The trait for whoever sends calls.
    fn forwarding_host(&self, locals: &[&Method]) -> TokenStream {
        let (item, call, local) = (&self.item.ident, self.named("Call"), self.named("Local"));
        let bound = (!locals.is_empty()).then(|| quote!(+ #local));
        let functions = self.methods.iter().map(|method| {
            let signature = self.signature_of(method);
            let name = &method.name;
            let arguments: Vec<_> = method.arguments.iter().map(|it| &it.name).collect();
            if method.is_own() {
                let receiver = method.is_called_on_run.then(|| quote!(self,));
                let call = quote!(<C as #local>::#name(#receiver #(#arguments),*));
                return if method.is_unsafe {
                    // The guarantee is that of the trait's function.
                    quote! {
                        #signature {
                            // SAFETY: guaranteed by the caller.
                            unsafe { #call }
                        }
                    }
                } else {
                    quote! { #signature { #call } }
                };
            }
            let variant = method.variant_name();
            let made = quote!(crate::ext::HostCall::#item(#call::#variant { #(#arguments),* }));
            let send = if method.is("posted") {
                quote!(post)
            } else {
                quote!(ask)
            };
            quote! { #signature { crate::ext::Forwards::#send(self, #made) } }
        });
        quote! {
            #[cfg(feature = "host")]
            impl<C: crate::ext::Forwards #bound> #item for C { #(#functions)* }
        }
    }

    /// The trait's own signature of a method.
    fn signature_of(&self, method: &Method) -> TokenStream {
        let found = self.item.items.iter().find_map(|item| match item {
            syn::TraitItem::Fn(function) if function.sig.ident == method.name => {
                Some(&function.sig)
            }
            _ => None,
        });
        quote!(#found)
    }
}

impl Method {
    /// Whether it has a message.
    fn travels(&self) -> bool {
        self.is_called_on_run && !self.is("local")
    }

    /// Whether an isolated hook's process has a function of its own for it.
    fn is_own(&self) -> bool {
        self.is("local") || self.is("wrapped")
    }

    fn borrows(&self) -> bool {
        self.arguments
            .iter()
            .any(|argument| matches!(argument.form, Form::Text))
    }

    fn variant_name(&self) -> Ident {
        if self.name == "at" {
            // With another `At` in the crate, the compiler's messages would spell out the path of the authors'.
            return format_ident!("AtIndex");
        }
        let name = self.name.to_string();
        let words = name.split('_').map(|word| {
            let mut letters = word.chars();
            let first = letters.next().map(|first| first.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        });
        format_ident!("{}", words.collect::<String>())
    }

    fn variant(&self) -> TokenStream {
        let (name, docs) = (self.variant_name(), &self.docs);
        let fields = self.arguments.iter().map(|argument| {
            let field = &argument.name;
            match &argument.form {
                Form::Bool => quote!(#[allow(missing_docs)] #field: bool),
                Form::Text => quote!(#[allow(missing_docs)] #field: &'a str),
                Form::Plain(plain)
                | Form::Slice(plain)
                | Form::SliceMut(plain)
                | Form::Reference(plain) => {
                    quote!(#[allow(missing_docs)] #field: #plain)
                }
            }
        });
        quote! { #(#docs)* #name { #(#fields),* } }
    }

    fn answer(&self) -> TokenStream {
        let (variant, name) = (self.variant_name(), &self.name);
        let arguments: Vec<_> = self.arguments.iter().map(|it| &it.name).collect();
        let call = quote!(host.#name(#(#arguments),*));
        let answer = if matches!(self.result, Output::Nothing) {
            quote! {{ #call; crate::ext::Answer::default() }}
        } else {
            quote!(crate::ext::Travels::answer(#call))
        };
        quote! { Self::#variant { #(#arguments),* } => #answer }
    }
}
