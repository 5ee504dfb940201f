//! The attribute macro of `sconce-plugin-api`; use it through that crate.

mod arguments;
mod expand;
mod extension;
mod points;
mod uses;

use proc_macro::TokenStream;
use syn::{ItemImpl, ItemTrait, parse_macro_input};

/// Makes an `impl Hook for …` block a hook kind that a plugin can export.
///
/// ```text
/// #[hook(name = "good-enough", about = "Stops when it is good enough.", priority = LOW)]
/// impl Hook for GoodEnough { … }
/// ```
///
/// | argument | meaning |
/// |---|---|
/// | `name` | name used in manifests: lower-case words joined by hyphens; required |
/// | `about` | purpose of the hook, in one sentence; required |
/// | `priority` | `HIGHEST`, `HIGHER`, `HIGH`, `NORMAL` (default), `LOW`, `LOWER`, `LOWEST`, or 0 to 100 |
/// | `publishes` | names of the metrics that it publishes: `["grad_norm"]` |
/// | `requires` | host extensions that it requires: `["sconce.metrics/1"]` |
/// | `asks` | requests that functions outside the block make: `[stop, save_checkpoint]` |
/// | `reads` | what of the loop functions outside the block read or change: `[gradients, loss]` |
/// | `optional` | what of `reads`, and which mount points, it does without if the loop lacks them: `[targets, module_forward]` |
/// | `state` | the fields that are the hook's state: `counters`, or `[best, inner.waited]`; see [`state`](../sconce_plugin_api/state/index.html) |
/// | `ranks` | where it runs when several processes train together: `"first"` (default) or `"all"` |
///
/// The hook is called at the mount points whose methods the block contains. A block without `type Config`
/// gets `type Config = NoConfig`.
///
/// What the block's own methods ask for and read is found in their text. For the rest `asks` and `reads` list the names of
/// [`Request`](../sconce_plugin_api/ext/enum.Request.html) and [`Readable`](../sconce_plugin_api/ext/enum.Readable.html). A loop
/// other than Sconce's own may lack some of it, and refuses the hook by these lists before a run. The test kit fails a hook that
/// uses what is not in them. For a hook that knows only at its creation what it uses there is `asks = unknown`, and then
/// [`Setup::asks`](../sconce_plugin_api/struct.Setup.html#method.asks).
///
/// A hook that changes parameters or gradients, or that counts the batches it sees, has `ranks = "all"`: otherwise
/// other ranks would train without its changes, and their batches would be missing. All others run on the first rank
/// alone; what they ask for, a stop or a learning rate, reaches all ranks.
#[proc_macro_attribute]
pub fn hook(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = parse_macro_input!(arguments as arguments::Arguments);
    let block = parse_macro_input!(item as ItemImpl);
    expand::expand(&arguments, block).into()
}

/// Makes a trait the definition of an extension of the host: of its table, the functions that plugins call, the typed client, the
/// messages of isolated hooks, and the declaration in C. For `sconce-plugin-api` alone.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn extension(id: TokenStream, item: TokenStream) -> TokenStream {
    let id = parse_macro_input!(id as extension::Identifier);
    let item = parse_macro_input!(item as ItemTrait);
    match extension::Definition::new(id, item) {
        Ok(definition) => definition.expand().into(),
        Err(error) => error.into_compile_error().into(),
    }
}
