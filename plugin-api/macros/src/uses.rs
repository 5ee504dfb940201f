//! What a hook asks for and reads, as far as the text of its block says.
//!
//! The tables name the methods of the authors' view (`src/view` of `sconce-plugin-api`, whose test compares the two). A call
//! counts wherever it is in a method of a mount point, whatever the variable is called, unless it is one of `self`'s. What the
//! block does by functions elsewhere is not seen: the attribute's `asks` and `reads` name it, and the test kit finds what they
//! lack.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::{FnArg, ImplItem, ItemImpl, Pat};

use crate::points;

/// Methods that make a request, and its name.
const ASKING: &[(&str, &str)] = &[
    ("stop", "stop"),
    ("stop_after_epoch", "stop_after_epoch"),
    ("skip_batch", "skip_batch"),
    ("skip_update", "skip_update"),
    ("scale_loss", "scale_loss"),
    ("set_learning_rate", "set_learning_rate"),
    ("set_momentum", "set_momentum"),
    ("set_weight_decay", "set_weight_decay"),
    ("freeze", "freeze"),
    ("unfreeze", "freeze"),
    ("set_accumulation", "set_accumulation"),
    ("renew_statistics", "renew_statistics"),
    ("validate_now", "validate"),
    ("generate", "generate"),
    ("swap_parameters", "swap_parameters"),
];

/// Methods of what `checkpoint(…)` returns.
const OF_CHECKPOINT: &[(&str, &str)] = &[
    ("save", "save_checkpoint"),
    ("load_parameters", "load_parameters"),
    ("roll_back", "roll_back"),
    ("delete", "delete_checkpoint"),
    ("copy_to", "copy_checkpoint"),
    ("publish", "publish_weights"),
];

/// `save`, after `in_background`.
const IN_BACKGROUND: &str = "save_in_background";

/// Methods that read or change something of the loop, and its name.
const READING: &[(&str, &str)] = &[
    ("parameters", "parameters"),
    ("parameter", "parameters"),
    ("parameter_mut", "parameters"),
    ("for_each_parameter", "parameters"),
    ("gradients", "gradients"),
    ("gradient", "gradients"),
    ("gradient_mut", "gradients"),
    ("for_each_gradient", "gradients"),
    ("inputs", "inputs"),
    ("inputs_mut", "inputs"),
    ("targets", "targets"),
    ("sample_indices", "sample_indices"),
    ("outputs", "outputs"),
    ("outputs_mut", "outputs"),
    ("variables", "batch"),
    ("variable", "batch"),
    ("loss", "loss"),
    ("losses", "loss"),
    ("learning_rate", "groups"),
    ("groups", "groups"),
    ("gather", "ranks"),
    ("gather_values", "ranks"),
    ("sum_u64", "ranks"),
    ("sum_f64", "ranks"),
    ("device", "device"),
    ("on_device", "device"),
    ("on_device_mut", "device"),
    ("forward_pass", "forward"),
    ("set_loss", "given_loss"),
];

/// Collections, as in `Collection::Gradients`.
const COLLECTIONS: &[(&str, &str)] = &[
    ("Parameters", "parameters"),
    ("Gradients", "gradients"),
    ("Batch", "batch"),
    ("Optimizer", "optimizer"),
];

/// Names of requests that the attribute may list.
pub(crate) fn requests() -> BTreeSet<&'static str> {
    let names = ASKING.iter().chain(OF_CHECKPOINT).map(|(_, name)| *name);
    names.chain([IN_BACKGROUND]).collect()
}

/// Names of what the attribute may list as read.
pub(crate) fn parts() -> BTreeSet<&'static str> {
    let names = READING.iter().chain(COLLECTIONS);
    names.map(|(_, name)| *name).collect()
}

/// What a hook asks for and reads: names, in order.
#[derive(Default)]
pub(crate) struct Uses {
    pub(crate) asks: BTreeSet<&'static str>,
    pub(crate) reads: BTreeSet<&'static str>,
}

impl Uses {
    /// Those of the block's methods at mount points.
    pub(crate) fn of(block: &ItemImpl) -> Uses {
        let mut uses = Uses::default();
        for item in &block.items {
            let ImplItem::Fn(function) = item else {
                continue;
            };
            if points::find(&function.sig.ident.to_string()).is_none() {
                continue;
            }
            let payload = function.sig.inputs.iter().nth(2).and_then(name_of);
            let body = &function.block;
            uses.search(quote::quote!(#body), payload.as_deref());
        }
        uses
    }

    /// Finds the calls in these tokens. `payload` is the variable with the mount point's second argument.
    fn search(&mut self, tokens: TokenStream, payload: Option<&str>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut chain = Chain::default();
        for (place, token) in tokens.iter().enumerate() {
            let rest = tokens.get(place + 1..).unwrap_or_default();
            match token {
                TokenTree::Ident(name) => {
                    let name = name.to_string();
                    if chain.goes_on {
                        if is_call(rest) {
                            self.note(&mut chain, &name, payload);
                        }
                        chain.goes_on = false;
                    } else {
                        self.note_collection(&name, &tokens, place);
                        chain = Chain::from(name);
                    }
                }
                TokenTree::Punct(punct) if punct.as_char() == '.' => chain.goes_on = true,
                TokenTree::Punct(punct) if punct.as_char() == '?' => {}
                // A field of a tuple.
                TokenTree::Literal(_) if chain.goes_on => chain.goes_on = false,
                TokenTree::Group(group) => {
                    self.search(group.stream(), payload);
                    if !continues(group) {
                        chain = Chain::default();
                    }
                }
                _ => chain = Chain::default(),
            }
        }
    }

    /// Notes a method that is called in a chain.
    fn note(&mut self, chain: &mut Chain, method: &str, payload: Option<&str>) {
        let of = |table: &[(&str, &'static str)]| {
            let row = table.iter().find(|(name, _)| *name == method);
            row.map(|(_, name)| *name)
        };
        if chain.is_of("self") {
            return;
        }
        if payload.is_some_and(|payload| chain.is_of(payload)) {
            // A module's parameters are the model's; what else it has comes with its mount point.
            self.reads
                .extend(of(READING).filter(|_| method == "parameters"));
            return;
        }
        if method == "checkpoint" {
            chain.checkpoint = Some(false);
        } else if let Some(in_background) = &mut chain.checkpoint {
            *in_background |= method == "in_background";
            let is_later = *in_background && method == "save";
            let request = of(OF_CHECKPOINT);
            self.asks.extend(if is_later {
                Some(IN_BACKGROUND)
            } else {
                request
            });
        } else {
            self.asks.extend(of(ASKING));
            self.reads.extend(of(READING));
        }
    }

    /// Notes `Collection::Gradients` and the like, of which this is the last name.
    fn note_collection(&mut self, name: &str, tokens: &[TokenTree], place: usize) {
        let is_colon =
            |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':');
        let before = tokens.get(place.saturating_sub(3)..place);
        let is_of_collection = matches!(
            before,
            Some([TokenTree::Ident(kind), one, two])
                if kind == "Collection" && is_colon(one) && is_colon(two)
        );
        if is_of_collection {
            let row = COLLECTIONS
                .iter()
                .find(|(collection, _)| *collection == name);
            self.reads.extend(row.map(|(_, name)| *name));
        }
    }
}

/// A chain of calls, such as `task.checkpoint(tag).save()`.
#[derive(Default)]
struct Chain {
    /// The variable that it begins with, if it does.
    root: Option<String>,
    /// Whether a dot was last.
    goes_on: bool,
    /// After `checkpoint(…)`: whether it is in the background.
    checkpoint: Option<bool>,
}

impl Chain {
    fn from(root: String) -> Chain {
        Chain {
            root: Some(root),
            ..Chain::default()
        }
    }

    fn is_of(&self, root: &str) -> bool {
        self.root.as_deref() == Some(root)
    }
}

/// Whether a chain may go on after the group: after arguments, an index, or an expression in parentheses.
fn continues(group: &Group) -> bool {
    group.delimiter() != Delimiter::Brace
}

/// Whether a name is followed by arguments, or by types and arguments.
fn is_call(rest: &[TokenTree]) -> bool {
    match rest {
        [TokenTree::Group(group), ..] => group.delimiter() == Delimiter::Parenthesis,
        [TokenTree::Punct(one), TokenTree::Punct(two), ..] => {
            one.as_char() == ':' && two.as_char() == ':'
        }
        _ => false,
    }
}

/// The name of an argument.
fn name_of(argument: &FnArg) -> Option<String> {
    match argument {
        FnArg::Typed(argument) => match &*argument.pat {
            Pat::Ident(name) => Some(name.ident.to_string()),
            _ => None,
        },
        FnArg::Receiver(_) => None,
    }
}
