//! The host's side of the boundary: what hooks see of a run, publish and ask for.
//!
//! **Parts.** [`BridgeState`] is the state of a run that both the loop and its hooks access. It consists of what hooks see
//! ([`Exposed`]: parameters, gradients, the batch; [`ForeignTensors`] where they are not candle's), what they publish ([`PublishedValues`], and metrics on the
//! [`MetricBoard`](crate::metric_board::MetricBoard)), what they have asked for ([`Requests`]) and what they have
//! claimed (`claims`); `lent` gives access to the tensors by collection and index, `passes` reduces, changes and combines
//! whole collections of them, and `device_passes` does so on a device. `device` has what hooks see of tensors there, and what is not read
//! from it yet. `tables` are the functions that plugins call, which implement the traits of `sconce_plugin_api::ext`. A [`RanksView`]
//! is this process among those that train together. `model` is what the run's model does for hooks: passes with other parameters, text, and the
//! loss that a hook gives. `journal` has what a call has changed, until it is known to have happened; `transaction` undoes it otherwise. A [`Witness`], the conformance suite's, observes everything that hooks do and may refuse it.
//!
//! **Flow.** A hook receives a context pointer with its view or setup, and passes it to a table's function. The
//! function converts it to the [`BridgeState`] state, which is alive during every call: hooks are created and called only
//! while it is borrowed. Reads are answered from it, and published values are stored in it. A request is checked
//! against the current mount point, decoded and stored; some take effect immediately (a learning rate, a skipped
//! batch), the others wait for the loop ([`Requests::take_asked`]) until all hooks of the point have run.
//!
//! **States.** At each mount point the dispatcher sets point and phase (`BridgeState::enter`), and before each call the
//! hook (`BridgeState::set_hook`); during creation there is a hook, but no point. The lifetime of a published value is its
//! [`Keep`](sconce_plugin_api::Keep): the batch, the epoch, the run or one checkpoint.

mod claims;
mod device;
mod device_passes;
mod exposed;
mod foreign;
mod journal;
mod lent;
mod model;
mod names;
mod passes;
mod ranks;
mod requests;
mod shared;
mod tables;
mod transaction;
mod values;
mod witness;

pub use device::{
    CopyCosts, DeferredBatch, DeferredMeasure, DeferredMeasures, DeferredMetrics, HOST_COPIES,
    ReadLoss, RunGpu, always_copies,
};
pub use exposed::{Exposed, ModuleTensors};
pub use foreign::{ForeignParameter, ForeignTensor, ForeignTensors};
pub use model::{
    AskedPass, ForwardModel, GivenLosses, SetTensor, WritesText, exchange, tensors_of_set,
};
pub(crate) use passes::Passes;
pub use ranks::RanksView;
pub use requests::{Requests, StopRequest, Uses};
pub use shared::BridgeState;
pub(crate) use tables::state_of;
pub use tables::{C_TABLE, LossQueries, NO_MESSAGE, lent_before, readable, set_root};
pub use tables::{EXTENSIONS, root};
pub(crate) use transaction::{begin_transaction, commit, roll_back};
pub use values::{PublishedValues, ValueContent};
pub use witness::{HookAction, Witness};
