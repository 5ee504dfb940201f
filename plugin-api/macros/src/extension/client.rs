//! The typed functions by which authors' code calls a table.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Argument, Definition, Form, Method, Output, Value};

impl Definition {
    pub(super) fn client(&self) -> TokenStream {
        let (item, table, client) = (&self.item.ident, self.named("Table"), self.named("Client"));
        let docs = format!("The functions of [`{item}`], for one call of a hook.");
        let on_run = self.methods.iter().filter(|method| method.is_called_on_run);
        let functions = on_run.map(Method::client);
        quote! {
            #[doc = #docs]
            #[derive(Clone, Copy, Debug)]
            pub(crate) struct #client<'a> {
                table: &'static #table,
                context: *const ::std::ffi::c_void,
                call: ::std::marker::PhantomData<&'a ()>,
            }

            #[allow(dead_code, reason = "authors' code has no use for some")]
            impl<'a> #client<'a> {
                /// # Safety
                ///
                /// The context must be the one that the host gave for a call that lasts as long as `'a`.
                #[inline]
                pub(crate) const unsafe fn new(table: &'static #table, context: *const ::std::ffi::c_void) -> Self {
                    #client { table, context, call: ::std::marker::PhantomData }
                }

                /// The table.
                pub(crate) const fn table(self) -> &'static #table {
                    self.table
                }

                #(#functions)*
            }
        }
    }
}

impl Method {
    fn client(&self) -> TokenStream {
        let (name, docs) = (&self.name, &self.docs);
        let taken = self.arguments.iter().map(Argument::taken);
        let passed = self.arguments.iter().map(Argument::passed);
        let is_unsafe = self.is_unsafe.then(|| quote!(unsafe));
        let place = self.result.value().map(|value| {
            let crossing = value.crossing();
            quote! { let mut value = ::std::mem::MaybeUninit::<#crossing>::zeroed(); }
        });
        let value = self.result.value().map(|_| quote!(value.as_mut_ptr(),));
        let error_place = self
            .has_error()
            .then(|| quote! { let mut error = crate::abi::ErrorAbi::new(); });
        let error = self.has_error().then(|| quote!(&raw mut error,));
        let call = quote! {
            // SAFETY: the context is that of the call in progress (`new`); all else is borrowed for it.
            unsafe { (self.table.#name)(self.context, #(#passed)* #value #error) }
        };
        let (result, body) = match &self.result {
            Output::Nothing => (None, quote! { #call; }),
            Output::Plain(value) => (Some(value.typed()), value.read(&call)),
            Output::Found(value) => {
                let (typed, read) = (value.typed(), value.read(&quote!(value.assume_init())));
                let body = quote! {
                    let status = #call;
                    if status != crate::abi::Status::OK.0 { return None; }
                    // SAFETY: the host has written it, or it is zero, which is valid for every type that crosses.
                    Some(unsafe { #read })
                };
                (Some(quote!(Option<#typed>)), body)
            }
            Output::Done(value) => {
                let typed = value.as_ref().map_or_else(|| quote!(()), Value::typed);
                let found = value.as_ref().map(|value| {
                    let read = value.read(&quote!(value.assume_init()));
                    // SAFETY: as it was written, or zero, which is valid for every type that crosses.
                    quote! { let found = unsafe { #read }; }
                });
                let given = found.as_ref().map_or_else(|| quote!(()), |_| quote!(found));
                let body = quote! {
                    let status = #call;
                    if status != crate::abi::Status::OK.0 {
                        return Err(crate::ext::Refusal::given(status, &error));
                    }
                    #found
                    Ok(#given)
                };
                (
                    Some(quote!(::std::result::Result<#typed, crate::ext::Refusal>)),
                    body,
                )
            }
        };
        let result = result.map(|result| quote!(-> #result));
        quote! {
            #(#docs)*
            #[inline]
            pub(crate) #is_unsafe fn #name(self, #(#taken),*) #result {
                #place #error_place #body
            }
        }
    }
}

impl Argument {
    fn taken(&self) -> TokenStream {
        let name = &self.name;
        match &self.form {
            Form::Plain(plain) => quote!(#name: #plain),
            Form::Bool => quote!(#name: bool),
            Form::Text => quote!(#name: &str),
            Form::Slice(element) => quote!(#name: &[#element]),
            Form::SliceMut(element) => quote!(#name: &mut [#element]),
            Form::Reference(to) => quote!(#name: &#to),
        }
    }

    fn passed(&self) -> TokenStream {
        let name = &self.name;
        match &self.form {
            Form::Plain(_) => quote!(#name,),
            Form::Bool => quote!(u32::from(#name),),
            Form::Text => quote!(crate::abi::TextAbi::new(#name),),
            Form::Slice(_) => quote!(#name.as_ptr(), #name.len(),),
            Form::SliceMut(_) => quote!(#name.as_mut_ptr(), #name.len(),),
            Form::Reference(_) => quote!(::std::ptr::from_ref(#name),),
        }
    }
}

impl Value {
    fn typed(&self) -> TokenStream {
        match self {
            Value::Plain(plain) => quote!(#plain),
            Value::Bool => quote!(bool),
            Value::Text => quote!(&'a str),
        }
    }

    /// The typed value of one that has crossed.
    fn read(&self, crossed: &TokenStream) -> TokenStream {
        match self {
            Value::Plain(_) => crossed.clone(),
            Value::Bool => quote!((#crossed) != 0),
            Value::Text => quote!(#crossed.read().unwrap_or_default()),
        }
    }
}
