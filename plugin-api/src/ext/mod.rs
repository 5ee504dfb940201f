//! Extensions: tables of functions, each frozen under a name and a revision. All are the host's but
//! [`TransportTable`], which a plugin may have.
//!
//! **Parts.** There is one file per extension: a trait, its definition, followed by the types that authors use. The attribute
//! `extension` makes everything else of the trait: the `repr(C)` table, the functions that a plugin calls, which check what it passes
//! and call the trait, the typed client for authors' code, the messages of an isolated hook, and the declaration in `sconce.h`.
//! A host implements the traits, for what it makes of a call's context ([`Served`]): the run's state, a hook's own process, the test
//! kit. [`CTable`] and [`TransportTable`] are written by hand: they are not called on a run. What requests mean and where they are legal
//! is in the folder of theirs.
//!
//! **Flow.** A plugin queries all tables when a hook is created. If the host lacks a table, the methods that need
//! it return an error, or the plugin is refused if its hook `requires` the extension.
//!
//! **A new call** is a function of a trait here, its implementation in `host/hooks/src/bridge/tables`, and a method of the view
//! (`src/view`) for authors. A hook's own process and the header follow (`UPDATE_EXPECT=1 cargo test -p sconce-plugin-api`
//! writes the latter). A new extension has a line in the list of this file, too.

mod c;
mod claims;
mod device;
mod forward;
mod given_loss;
mod gpu;
mod log;
mod loss;
mod metrics;
mod plan;
mod ranks;
mod requests;
mod resume;
mod retain;
mod run;
mod screen;
mod served;
mod task;
mod tensors;
mod threads;
mod transport;
#[cfg(feature = "host")]
mod travelling;
mod values;
mod vectors;

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;

use sconce_plugin_macros::extension;

pub use c::{C_ENTRY, CPlugin, CTable};
pub use device::DeviceAbi;
pub use forward::{ForwardMode, why_no_forward_at, why_no_loss_at};
pub use gpu::{GpuFiguresAbi, GpuSpanAbi};
pub use log::Level;
pub use metrics::MetricAbi;
pub use ranks::{
    why_no_gather_at, why_no_loss_on_first, why_not_asked_on_first, why_not_changed_on_first,
    why_not_on_first,
};
pub use requests::{
    Asked, BEST_CHECKPOINT, GENERATED_TEXT, KEPT_WEIGHTS, LATEST, RUN_TIMES, Readable, Request,
    TextRequest, WrittenText, check_name, check_path, check_ratio, check_tag, serving_order,
};
pub use retain::RetainedAbi;
pub use served::Served;
pub(crate) use served::{lent, lent_mut};
pub use task::GroupAbi;
pub use tensors::{Collection, TensorAbi};
pub use threads::{Part, PartAbi};
pub use transport::TransportTable;
pub use values::Keep;
pub use vectors::{Change, Combination, LentVectors, Reduction, VectorsAbi};
#[cfg(feature = "host")]
pub use {
    forward::ForwardLocal,
    metrics::MetricsLocal,
    ranks::RanksLocal,
    tensors::TensorsLocal,
    travelling::{Answer, Forwards, Travels},
    values::ValuesLocal,
};

pub use crate::abi::Refusal;
use crate::abi::{HostRoot, TextAbi};
use crate::{HookError, Result};

/// A table of host functions, frozen under its identifier.
///
/// # Safety
///
/// The type must be the `repr(C)` table frozen under `ID`: every answer to a query for `ID` is a pointer to
/// exactly this layout.
pub unsafe trait Extension: 'static {
    /// Name and revision, such as `sconce.log/1`.
    const ID: &'static str;
}

/// How a table is declared in `sconce.h`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// The extension's identifier.
    pub id: &'static str,
    /// The text.
    pub text: &'static str,
    /// Bytes of the table.
    pub size: usize,
    /// Its functions' names, and where each is.
    pub fields: &'static [(&'static str, usize)],
}

/// The list of extensions: what follows from it as a whole.
macro_rules! extensions {
    ($($module:ident: $item:ident $table:ident $client:ident $([$call:ident $($life:lifetime)?])?,)*) => {
        $(
            $(#[cfg(feature = "host")] pub use $module::$call;)?
            pub use $module::{$item, $table};
            pub(crate) use $module::$client;
        )*

        /// Identifiers of the extensions of a host that this version of the API can use.
        pub const OF_HOST: [&str; 1 + [$($table::ID),*].len()] = [CTable::ID, $($table::ID),*];

        /// What a host implements.
        pub trait Host: Served $(+ $item)* {}

        impl<H: Served $(+ $item)*> Host for H {}

        /// The table of this identifier, whose functions call `H`; null if this version knows none. That for C is the host's own.
        pub fn table_of<H: Host>(id: &str) -> *const c_void {
            match id {
                $($table::ID => ptr::from_ref(const { &$table::of::<H>() }).cast(),)*
                _ => ptr::null(),
            }
        }

        /// The tables' declarations in `sconce.h`.
        #[doc(hidden)]
        pub const DECLARATIONS: &[Declaration] = &[$($table::DECLARATION),*];

        /// The host's tables, queried once per hook.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Tables {
            $($module: Option<&'static $table>,)*
        }

        impl Tables {
            /// Queries the host for every table that this version knows.
            pub(crate) fn query(host: &HostRoot) -> Tables {
                Tables { $($module: query(host),)* }
            }
        }

        impl<'call> HostCalls<'call> {
            $(
                #[track_caller]
                #[inline]
                pub(crate) fn $module(&self) -> Result<$client<'call>> {
                    let Some(table) = self.tables.$module else {
                        return Err(lacks($table::ID));
                    };
                    // SAFETY: guaranteed by the creator.
                    Ok(unsafe { $client::new(table, self.context) })
                }
            )*
        }

        extensions! { @calls [] $($item $([$call $($life)?])?,)* }
    };
    // A call of an isolated hook: of those extensions that have any.
    (@calls [$($done:tt)*] $item:ident [$($call:tt)*], $($rest:tt)*) => {
        extensions! { @calls [$($done)* $item [$($call)*],] $($rest)* }
    };
    (@calls [$($done:tt)*] $item:ident, $($rest:tt)*) => {
        extensions! { @calls [$($done)*] $($rest)* }
    };
    (@calls [$($item:ident [$call:ident $($life:lifetime)?],)*]) => {
        /// A call of the host by an isolated hook.
        #[cfg(feature = "host")]
        #[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(bound(deserialize = "'de: 'a"))]
        pub enum HostCall<'a> {
            $(#[allow(missing_docs, reason = "said of the type")] $item($call $(<$life>)?),)*
        }

        #[cfg(feature = "host")]
        impl HostCall<'_> {
            /// Makes the call.
            pub fn answer<H: Host>(self, host: &H) -> Answer<'_> {
                match self { $(HostCall::$item(call) => call.answer(host),)* }
            }

            /// Whether what other calls answer may be different after it.
            pub const fn has_effect(&self) -> bool {
                match self { $(HostCall::$item(call) => call.has_effect(),)* }
            }

            /// Whether its answer may be sent in advance: it has no effect, and is short.
            pub const fn is_ahead(&self) -> bool {
                match self { $(HostCall::$item(call) => call.is_ahead(),)* }
            }

            /// Whether it may be sent without waiting for an answer.
            pub const fn may_be_posted(&self) -> bool {
                match self { $(HostCall::$item(call) => call.may_be_posted(),)* }
            }
        }
    };
}

extensions! {
    claims: Claims ClaimsTable ClaimsClient [ClaimsCall 'a],
    device: Device DeviceTable DeviceClient,
    forward: Forward ForwardTable ForwardClient [ForwardCall 'a],
    given_loss: GivenLoss GivenLossTable GivenLossClient,
    gpu: Gpu GpuTable GpuClient,
    log: Log LogTable LogClient [LogCall 'a],
    loss: Loss LossTable LossClient,
    metrics: Metrics MetricsTable MetricsClient [MetricsCall 'a],
    plan: Plan PlanTable PlanClient [PlanCall],
    ranks: Ranks RanksTable RanksClient [RanksCall],
    requests: Requests RequestsTable RequestsClient [RequestsCall 'a],
    resume: Resume ResumeTable ResumeClient [ResumeCall],
    retain: Retain RetainTable RetainClient,
    run: Run RunTable RunClient [RunCall],
    screen: Screen ScreenTable ScreenClient [ScreenCall 'a],
    task: Task TaskTable TaskClient [TaskCall],
    tensors: Tensors TensorsTable TensorsClient [TensorsCall 'a],
    threads: Threads ThreadsTable ThreadsClient,
    values: Values ValuesTable ValuesClient [ValuesCall 'a],
    vectors: Vectors VectorsTable VectorsClient,
}

/// Identifiers of the extensions that this version of the API can use.
pub const KNOWN: [&str; OF_HOST.len() + 1] = {
    let mut known = [TransportTable::ID; OF_HOST.len() + 1];
    let mut index = 0;
    while index < OF_HOST.len() {
        known[index] = OF_HOST[index];
        index += 1;
    }
    known
};

/// The host's functions during one call of a hook, or its creation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostCalls<'call> {
    tables: &'call Tables,
    context: *const c_void,
    call: PhantomData<*const ()>,
}

impl<'call> HostCalls<'call> {
    /// # Safety
    ///
    /// The context must be the one that the host gave for a call that lasts as long as `'call`.
    #[inline]
    pub(crate) const unsafe fn new(tables: &'call Tables, context: *const c_void) -> Self {
        HostCalls {
            tables,
            context,
            call: PhantomData,
        }
    }

    /// Logs through the host; does nothing if the host provides no log.
    pub(crate) fn say(&self, level: Level, message: &str) {
        if let Ok(log) = self.log() {
            log.log(level as u32, message);
        }
    }
}

#[track_caller]
#[cold]
fn lacks(id: &str) -> HookError {
    HookError::new(format_args!(
        "the host lacks the extension `{id}`; update the host"
    ))
}

fn query<T: Extension>(host: &HostRoot) -> Option<&'static T> {
    // SAFETY: the identifier is a literal; the host answers with null or a table that lives as long as the
    // process and has the layout frozen under `ID` (the contract of `Extension`).
    unsafe {
        let table: *const c_void = (host.query)(TextAbi::new(T::ID));
        table.cast::<T>().as_ref()
    }
}
