//! The host's side of the boundary: what hooks see of a run, publish and ask for.
//!
//! **Parts.** [`Shared`] is the state of a run that the loop and its hooks both reach. It is made of what hooks see
//! ([`Exposed`]: parameters, gradients, the batch), what they publish ([`Values`], and metrics on the
//! [`MetricBoard`](crate::metric_board::MetricBoard)), what they have asked for ([`Requests`]) and what they have
//! claimed. `tables` are the functions that plugins call, a file for each extension as in
//! `sconce_plugin_api::ext`; `entry` is what all of them begin and end with. A [`Witness`] is shown everything
//! that hooks do and may refuse it: the conformance suite.
//!
//! **Flow.** A hook's call gets the context pointer that the host handed out with its view or setup. A table's
//! function turns it into the [`Shared`] state, which is alive for every call: hooks are created and called only
//! while it is borrowed. Reads answer from it. What is published is stored at once. A request is checked for the
//! present mount point, decoded and stored; some take effect at once (a learning rate, a skipped batch), the others
//! wait for the loop ([`Requests::take_asked`]) until all hooks of the point have run.
//!
//! **States.** The loop says at each mount point which point and phase it is (`Shared::enter`) and before each call
//! whose it is (`Shared::set_hook`); creation has a hook, but no point. A value lives as long as its
//! [`Keep`](sconce_plugin_api::Keep) says: the batch, the epoch, the run or one checkpoint.

mod claims;
mod entry;
mod exposed;
mod lent;
mod requests;
mod shared;
mod tables;
mod values;
mod witness;

pub use exposed::{Exposed, ModuleTensors};
pub use requests::{Requests, Stop};
pub use shared::Shared;
pub use tables::{EXTENSIONS, root};
pub use values::{Value, Values};
pub use witness::{Deed, Witness};
