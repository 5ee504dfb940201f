//! `#[extension]`: everything that a table of functions needs, from the trait that defines it.
//!
//! **Parts.** [`Definition`] is the trait as it was read, [`Method`] one of its functions with the form in which each argument and the
//! result cross the boundary. From them come the `repr(C)` table, its functions, which check what a plugin passes and call the
//! trait, the typed client for authors (`client`), the calls of an isolated hook (`forwarding`) and the declaration in C (`c_header`).

mod c_header;
mod client;
mod forwarding;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::{
    Attribute, Error, Expr, FnArg, Ident, ItemTrait, LitStr, Pat, Result, ReturnType, Token,
    TraitItem, TraitItemFn, Type,
};

/// The attribute's arguments.
pub(crate) struct Identifier {
    id: LitStr,
    /// Nothing of it is asked for by an isolated hook: `, local`.
    is_local: bool,
}

impl Parse for Identifier {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let id = input.parse()?;
        let is_local = input.parse::<Option<Token![,]>>()?.is_some();
        if is_local {
            let word: Ident = input.parse()?;
            if word != "local" {
                return Err(Error::new_spanned(word, "`local`, or nothing"));
            }
        }
        Ok(Identifier { id, is_local })
    }
}

/// A trait with its extension's identifier.
pub(crate) struct Definition {
    id: LitStr,
    is_local: bool,
    item: ItemTrait,
    methods: Vec<Method>,
}

/// One function of the table.
struct Method {
    name: Ident,
    docs: Vec<Attribute>,
    /// Whether it has a receiver: the call's context crosses as its first argument.
    is_called_on_run: bool,
    is_unsafe: bool,
    arguments: Vec<Argument>,
    result: Output,
    /// What it returns where there is no run: the default of its type unless `#[or(…)]` says otherwise.
    or: Option<Expr>,
    /// Of [`MARKS`].
    marks: Vec<&'static str>,
}

/// How an isolated hook makes a call, as attributes of its function:
///
/// - `local`: its process answers by itself;
/// - `wrapped`: its process sends the message, and does something besides;
/// - `posted`: it may travel with the next message, as it needs no answer;
/// - `changes`: what other calls answer may be different after it;
/// - `ahead`: its answer may be sent in advance.
const MARKS: [&str; 5] = ["local", "wrapped", "posted", "changes", "ahead"];

struct Argument {
    name: Ident,
    form: Form,
}

/// How an argument crosses.
enum Form {
    /// As it is.
    Plain(Type),
    /// `bool`, as 0 or 1.
    Bool,
    /// `&str`, as a text.
    Text,
    /// `&[T]`, as address and length.
    Slice(Type),
    /// `&mut [T]`, likewise.
    SliceMut(Type),
    /// `&T`, as an address.
    Reference(Type),
}

/// How a result crosses.
enum Output {
    /// Nothing; a status, if there is a receiver.
    Nothing,
    /// The function's result.
    Plain(Value),
    /// `Option<T>`: the status `NOT_FOUND`, or the value where the caller says.
    Found(Value),
    /// `Result<T, Refusal>`: a status and the message, or the value where the caller says.
    Done(Option<Value>),
}

enum Value {
    Plain(Box<Type>),
    Bool,
    /// `&str`.
    Text,
}

impl Definition {
    pub(crate) fn new(attribute: Identifier, mut item: ItemTrait) -> Result<Definition> {
        let mut methods = Vec::new();
        for inner in &mut item.items {
            let TraitItem::Fn(function) = inner else {
                return Err(Error::new_spanned(inner, "a table has functions alone"));
            };
            methods.push(Method::new(function)?);
        }
        let Identifier { id, is_local } = attribute;
        Ok(Definition {
            id,
            is_local,
            item,
            methods,
        })
    }

    pub(crate) fn expand(&self) -> TokenStream {
        let Definition { item, .. } = self;
        let table = self.table();
        let client = self.client();
        let forwarding = self.forwarding();
        quote! { #item #table #client #forwarding }
    }

    /// `Metrics`, `MetricsTable` and the like.
    fn named(&self, suffix: &str) -> Ident {
        format_ident!("{}{suffix}", self.item.ident)
    }

    fn table(&self) -> TokenStream {
        let (id, item, table) = (&self.id, &self.item.ident, self.named("Table"));
        let declaration = self.c_declaration();
        let docs = format!("Function table of [`{item}`]. Frozen.");
        let fields = self.methods.iter().map(|method| {
            let (docs, name, signature) = (&method.docs, &method.name, method.signature());
            quote! { #(#docs)* pub #name: unsafe extern "C" fn #signature }
        });
        let names: Vec<_> = self.methods.iter().map(|method| &method.name).collect();
        let functions = self.methods.iter().map(|method| method.function(item));
        quote! {
            #[doc = #docs]
            #[repr(C)]
            #[derive(Debug)]
            pub struct #table { #(#fields),* }

            // SAFETY: this type is the table frozen under `ID`.
            unsafe impl crate::ext::Extension for #table {
                const ID: &'static str = #id;
            }

            impl #table {
                /// The extension's identifier.
                pub const ID: &'static str = #id;

                /// How it is declared in `sconce.h`.
                #[doc(hidden)]
                pub const DECLARATION: crate::ext::Declaration = crate::ext::Declaration {
                    id: #id,
                    text: #declaration,
                    size: size_of::<#table>(),
                    fields: &[#((stringify!(#names), ::std::mem::offset_of!(#table, #names))),*],
                };

                /// The table whose functions call `H`, after a check of what a plugin passes.
                pub const fn of<H: #item + crate::ext::Served>() -> #table {
                    #(#functions)*
                    #table { #(#names: #names::<H>),* }
                }
            }
        }
    }
}

impl Method {
    fn new(function: &mut TraitItemFn) -> Result<Method> {
        let mut marks = Vec::new();
        let mut or = None;
        let mut kept = Vec::new();
        for attribute in std::mem::take(&mut function.attrs) {
            let path = attribute.path();
            if let Some(mark) = MARKS.into_iter().find(|mark| path.is_ident(mark)) {
                marks.push(mark);
            } else if path.is_ident("or") {
                or = Some(attribute.parse_args()?);
            } else {
                kept.push(attribute);
            }
        }
        function.attrs = kept;
        let docs = function
            .attrs
            .iter()
            .filter(|it| it.path().is_ident("doc"))
            .cloned();
        let signature = &function.sig;
        let mut arguments = Vec::new();
        for argument in &signature.inputs {
            if let FnArg::Typed(typed) = argument {
                let Pat::Ident(name) = &*typed.pat else {
                    return Err(Error::new_spanned(typed, "an argument has a name"));
                };
                let form = Form::of(&typed.ty);
                arguments.push(Argument {
                    name: name.ident.clone(),
                    form,
                });
            }
        }
        Ok(Method {
            name: signature.ident.clone(),
            docs: docs.collect(),
            is_called_on_run: signature.receiver().is_some(),
            is_unsafe: signature.unsafety.is_some(),
            arguments,
            result: Output::of(&signature.output)?,
            or,
            marks,
        })
    }

    /// Arguments and result of the function that crosses.
    fn signature(&self) -> TokenStream {
        let context = self
            .is_called_on_run
            .then(|| quote!(context: *const ::std::ffi::c_void,));
        let arguments = self.arguments.iter().map(Argument::crossing);
        let value = self.result.value().map(|value| {
            let value = value.crossing();
            quote!(value: *mut #value,)
        });
        let error = self
            .has_error()
            .then(|| quote!(error: *mut crate::abi::ErrorAbi,));
        let result = match &self.result {
            Output::Plain(value) => {
                let value = value.crossing();
                quote!(-> #value)
            }
            Output::Nothing if !self.is_called_on_run => quote!(),
            _ => quote!(-> u32),
        };
        quote! { (#context #(#arguments)* #value #error) #result }
    }

    fn is(&self, mark: &str) -> bool {
        self.marks.contains(&mark)
    }

    fn has_error(&self) -> bool {
        matches!(self.result, Output::Done(_))
    }

    /// What the function returns if an argument is null, without a message.
    fn without_answer(&self) -> TokenStream {
        match (&self.result, &self.or) {
            (Output::Nothing, _) if !self.is_called_on_run => quote!(()),
            (Output::Plain(_), Some(or)) => quote!(#or),
            (Output::Plain(_), None) => quote!(::std::default::Default::default()),
            _ => quote!(crate::abi::Status::INVALID.0),
        }
    }

    /// The function that crosses.
    fn function(&self, item: &Ident) -> TokenStream {
        let (name, signature, none) = (&self.name, self.signature(), self.without_answer());
        let host = self.is_called_on_run.then(|| {
            quote! { let Some(host) = H::of(context) else { return #none; }; }
        });
        let checks = self.arguments.iter().map(|argument| argument.check(self));
        let place = self.result.value().map(|_| {
            quote! { let Some(value) = value.as_mut() else { return #none; }; }
        });
        let arguments = self.arguments.iter().map(|argument| &argument.name);
        let call = if self.is_called_on_run {
            quote!(host.#name(#(#arguments),*))
        } else {
            quote!(H::#name(#(#arguments),*))
        };
        let answer = match &self.result {
            Output::Nothing if !self.is_called_on_run => call,
            Output::Nothing => quote! { #call; crate::abi::Status::OK.0 },
            Output::Plain(value) => {
                let given = value.given();
                quote! { let given = #call; #given }
            }
            Output::Found(value) => {
                let given = value.given();
                quote! {
                    match #call {
                        Some(given) => { *value = #given; crate::abi::Status::OK.0 }
                        None => crate::abi::Status::NOT_FOUND.0,
                    }
                }
            }
            Output::Done(value) => {
                let given = value.as_ref().map(Value::given);
                let write = given.map(|given| quote! { *value = #given; });
                quote! {
                    match #call {
                        Ok(given) => { let _ = &given; #write crate::abi::Status::OK.0 }
                        Err(refusal) => refusal.answer(error),
                    }
                }
            }
        };
        quote! {
            unsafe extern "C" fn #name<H: #item + crate::ext::Served> #signature {
                // SAFETY: the context is the one that the host handed out for this call, for which the plugin lends all else
                // that it passes.
                #[allow(unused_unsafe, reason = "some functions have nothing to check")]
                unsafe { #host #(#checks)* #place #answer }
            }
        }
    }
}

impl Argument {
    /// The name of a slice's length.
    fn length(&self) -> Ident {
        format_ident!("{}_length", self.name)
    }

    fn crossing(&self) -> TokenStream {
        let (name, length) = (&self.name, self.length());
        match &self.form {
            Form::Plain(plain) => quote!(#name: #plain,),
            Form::Bool => quote!(#name: u32,),
            Form::Text => quote!(#name: crate::abi::TextAbi,),
            Form::Slice(element) => quote!(#name: *const #element, #length: usize,),
            Form::SliceMut(element) => quote!(#name: *mut #element, #length: usize,),
            Form::Reference(to) => quote!(#name: *const #to,),
        }
    }

    /// Makes the trait's argument of what has crossed.
    fn check(&self, method: &Method) -> TokenStream {
        let (name, length, none) = (&self.name, self.length(), method.without_answer());
        match &self.form {
            Form::Plain(_) => quote!(),
            Form::Bool => quote! { let #name = #name != 0; },
            Form::Text => {
                let message = format!("`{name}` is not valid UTF-8");
                let refused = if method.has_error() {
                    quote!(crate::ext::Refusal::invalid(#message).answer(error))
                } else {
                    none
                };
                quote! { let Some(#name) = #name.read() else { return #refused; }; }
            }
            Form::Slice(_) => {
                quote! { let Some(#name) = crate::ext::lent(#name, #length) else { return #none; }; }
            }
            Form::SliceMut(_) => {
                quote! { let Some(#name) = crate::ext::lent_mut(#name, #length) else { return #none; }; }
            }
            Form::Reference(_) => {
                quote! { let Some(#name) = #name.as_ref() else { return #none; }; }
            }
        }
    }
}

impl Form {
    fn of(given: &Type) -> Form {
        if let Type::Reference(reference) = given {
            let is_mut = reference.mutability.is_some();
            return match &*reference.elem {
                Type::Slice(slice) if is_mut => Form::SliceMut((*slice.elem).clone()),
                Type::Slice(slice) => Form::Slice((*slice.elem).clone()),
                Type::Path(path) if path.path.is_ident("str") => Form::Text,
                to => Form::Reference(to.clone()),
            };
        }
        match given {
            Type::Path(path) if path.path.is_ident("bool") => Form::Bool,
            plain => Form::Plain(plain.clone()),
        }
    }
}

impl Output {
    fn of(given: &ReturnType) -> Result<Output> {
        let ReturnType::Type(_, given) = given else {
            return Ok(Output::Nothing);
        };
        let Type::Path(path) = &**given else {
            return Err(Error::new_spanned(
                given,
                "a result is a value, an Option or a Result",
            ));
        };
        let Some(last) = path.path.segments.last() else {
            return Err(Error::new_spanned(given, "a result has a type"));
        };
        let inner = || match &last.arguments {
            syn::PathArguments::AngleBracketed(inner) => {
                inner.args.iter().find_map(|it| match it {
                    syn::GenericArgument::Type(inner) => Some(inner.clone()),
                    _ => None,
                })
            }
            _ => None,
        };
        let needed = || Error::new_spanned(given, "which type is it of?");
        match last.ident.to_string().as_str() {
            "Option" => Ok(Output::Found(Value::of(&inner().ok_or_else(needed)?))),
            "Result" => {
                let inner = inner().ok_or_else(needed)?;
                let is_empty = matches!(&inner, Type::Tuple(tuple) if tuple.elems.is_empty());
                Ok(Output::Done((!is_empty).then(|| Value::of(&inner))))
            }
            _ => Ok(Output::Plain(Value::of(given))),
        }
    }

    /// What is written where the caller says.
    fn value(&self) -> Option<&Value> {
        match self {
            Output::Nothing | Output::Plain(_) => None,
            Output::Found(value) => Some(value),
            Output::Done(value) => value.as_ref(),
        }
    }
}

impl Value {
    fn of(given: &Type) -> Value {
        match Form::of(given) {
            Form::Text => Value::Text,
            Form::Bool => Value::Bool,
            _ => Value::Plain(Box::new(given.clone())),
        }
    }

    fn crossing(&self) -> TokenStream {
        match self {
            Value::Plain(plain) => quote!(#plain),
            Value::Bool => quote!(u32),
            Value::Text => quote!(crate::abi::TextAbi),
        }
    }

    /// What crosses, of `given`.
    fn given(&self) -> TokenStream {
        match self {
            Value::Plain(_) => quote!(given),
            Value::Bool => quote!(u32::from(given)),
            Value::Text => quote!(crate::abi::TextAbi::new(given)),
        }
    }
}
