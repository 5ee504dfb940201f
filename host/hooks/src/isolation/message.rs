//! Messages between the two processes, in postcard's format.
//!
//! Both are the same executable, so the format has no versions. The parent does not trust what it reads: numbers are
//! checked where they are used.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// What the parent wants; the child answers with [`Word`]s, the last of which is [`Word::Return`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order<'a> {
    /// Open the library; returns its description as JSON.
    Open,
    /// Create the hook.
    #[serde(borrow)]
    Create(Create<'a>),
    /// Call the hook at a mount point. Behind it are the prefetched answers: an [`Ask`] and its [`Reply`] each.
    #[serde(borrow)]
    Call(Call<'a>),
    /// Save the hook's state; returns it.
    Save,
    /// Restore the hook's state.
    Load(&'a [u8]),
    /// Drop the hook, and end.
    Drop,
}

/// What a hook knows at its creation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Create<'a> {
    pub(super) kind: &'a str,
    pub(super) config: &'a str,
    pub(super) name: &'a str,
    pub(super) run_directory: &'a str,
    pub(super) manifest: &'a str,
    pub(super) seed: u64,
    /// Threads that the host computes on.
    pub(super) threads: u32,
    /// Number of the host's process among those that train together, and how many they are.
    pub(super) ranks: (u32, u32),
}

/// A mount point, as in [`ViewAbi`](sconce_plugin_api::abi::ViewAbi).
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Call<'a> {
    /// The counters in the order of the type's fields, from `epoch` to `ordinal`.
    pub(super) counters: [u64; 9],
    pub(super) loss: f64,
    pub(super) learning_rate: f64,
    pub(super) flags: u64,
    pub(super) point: u32,
    pub(super) phase: u32,
    pub(super) stream: &'a str,
    #[serde(borrow)]
    pub(super) payload: PayloadText<'a>,
    /// Number of prefetched answers.
    pub(super) prefetched: u32,
}

/// Payload of a mount point.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum PayloadText<'a> {
    None,
    Outcome {
        kind: u32,
        reason: &'a str,
    },
    Profile {
        /// From `total` to `update`.
        times: [f64; 6],
        /// Name, calls, and the seconds: of the calls, of the longest, of requests.
        #[serde(borrow)]
        hooks: Vec<(&'a str, u64, [f64; 3])>,
    },
    Failure {
        origin: u32,
        message: &'a str,
        hook: &'a str,
    },
    Module {
        name: &'a str,
        kind: &'a str,
    },
    Checkpoint {
        /// Path, tag, hook, error, reference, missing references.
        #[serde(borrow)]
        texts: [&'a str; 6],
        bytes: u64,
        seconds: f64,
    },
}

/// What the child says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Word<'a> {
    /// It needs something of the host, which answers with a [`Reply`].
    Ask(#[serde(borrow)] Ask<'a>, #[serde(borrow)] Posted<'a>),
    /// The order has been carried out.
    #[serde(borrow)]
    Return(Return<'a>),
}

/// What the hook did that needs no answer, in order.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Posted<'a> {
    pub(super) count: u32,
    /// As many [`Ask`]s.
    pub(super) bytes: &'a [u8],
}

/// Result of an order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Return<'a> {
    pub(super) status: u32,
    pub(super) message: &'a str,
    pub(super) place: &'a str,
    #[serde(borrow)]
    pub(super) posted: Posted<'a>,
    /// Prefetched of the call that were used, as a bit set.
    pub(super) used: u64,
    /// The description, or the state.
    pub(super) bytes: &'a [u8],
}

/// A call of one of the host's functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Ask<'a> {
    Log(u32, &'a str),
    Status(&'a str),
    Columns,
    MetricCount(u32),
    MetricAt(u32, u64),
    MetricGet(u32, &'a str),
    Publish(&'a str, f64),
    TensorCount(u32),
    TensorFind(u32, &'a str),
    /// Collection, index, whether it is to be written to.
    TensorAt(u32, u64, bool),
    ValueGet(u32, &'a str),
    ValueSet(u32, &'a str, &'a str),
    /// Lifetime and name; the elements are at the offset of the child's arena.
    ValueSetTensor(u32, &'a str, TensorForm, u64),
    ValueRemove(&'a str),
    Request(u32, f64, &'a str),
    Facts,
    GroupCount,
    Group(u64),
    Elapsed,
    Remaining,
    ResumeFlags,
    Plan,
    Claim(&'a str),
    IsRepeated,
    /// What every rank gathers.
    Gather(&'a [u8]),
}

/// The most prefetched answers of a call.
pub(super) const MOST_PREFETCHED: usize = 64;

impl Ask<'_> {
    /// Whether what others answer may be different after it.
    pub(super) fn has_effect(&self) -> bool {
        matches!(
            self,
            Ask::Publish(..)
                | Ask::ValueSet(..)
                | Ask::ValueSetTensor(..)
                | Ask::ValueRemove(_)
                | Ask::Request(..)
                | Ask::Claim(_)
        )
    }

    /// Whether the answer can be given in advance: it has no effect, and is short.
    pub(super) fn can_be_prefetched(&self) -> bool {
        matches!(
            self,
            Ask::Columns
                | Ask::MetricCount(_)
                | Ask::MetricAt(..)
                | Ask::MetricGet(..)
                | Ask::TensorCount(_)
                | Ask::TensorFind(..)
                | Ask::ValueGet(..)
                | Ask::GroupCount
                | Ask::Group(_)
                | Ask::Elapsed
                | Ask::Remaining
                | Ask::IsRepeated
        )
    }
}

/// The host's answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Reply<'a> {
    pub(super) status: u32,
    /// A number, count, index or flags.
    pub(super) count: u64,
    pub(super) number: f64,
    /// A name or JSON.
    pub(super) text: &'a str,
    /// Why it was refused.
    pub(super) message: &'a str,
    pub(super) tensor: Option<LentTensor>,
    /// What all ranks have gathered.
    pub(super) bytes: Cow<'a, [u8]>,
}

/// Type and shape of a tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TensorForm {
    pub(super) shape: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) byte_length: u64,
    pub(super) type_code: u8,
    pub(super) type_bits: u8,
}

/// A tensor in the parent's arena.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LentTensor {
    pub(super) form: TensorForm,
    pub(super) offset: u64,
    pub(super) flags: u64,
    pub(super) device: (i32, i32),
}
