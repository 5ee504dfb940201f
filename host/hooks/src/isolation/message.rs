//! Messages between the two processes, in postcard's format.
//!
//! Both are the same executable, so the format has no versions. The parent does not trust what it reads: numbers are
//! checked where they are used.

use std::borrow::Cow;

use postcard::ser_flavors::Flavor;
use sconce_plugin_api::ext::{Answer, HostCall, Refusal, Travels};
use serde::{Deserialize, Serialize};

/// Appends a message, or what a message ends with.
///
/// # Errors
///
/// If its type has no form in this format, which none of this module's lacks. `bytes` may end with a part of it then.
pub(super) fn append(value: &impl Serialize, bytes: &mut Vec<u8>) -> postcard::Result<()> {
    postcard::serialize_with_flavor(value, Appended(bytes))
}

/// Bytes to which more are appended: those of a text, or of a number, at a time. (`postcard::to_extend` appends each byte for itself.)
struct Appended<'a>(&'a mut Vec<u8>);

impl Flavor for Appended<'_> {
    type Output = ();

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

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

/// What the child asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Ask<'a> {
    /// A call of one of the host's functions, as it was made.
    #[serde(borrow)]
    Host(HostCall<'a>),
    /// A tensor: collection, index, whether it is to be written to.
    TensorAt(u32, u64, bool),
    /// Lifetime and name of a tensor to publish; the elements are at the offset of the child's arena.
    SetTensor(u32, &'a str, TensorForm, u64),
    /// A batch's loss and its gradient; the elements are at the offset of the child's arena.
    GiveLoss(f64, TensorForm, u64),
    /// What every rank gathers.
    Gather(&'a [u8]),
}

/// The most prefetched answers of a call.
pub(super) const MOST_PREFETCHED: usize = 64;

impl Ask<'_> {
    /// Whether what others answer may be different after it.
    pub(super) const fn has_effect(&self) -> bool {
        match self {
            Ask::Host(call) => call.has_effect(),
            Ask::SetTensor(..) | Ask::GiveLoss(..) => true,
            Ask::TensorAt(..) | Ask::Gather(_) => false,
        }
    }

    /// Whether the answer can be given in advance: it has no effect, and is short.
    pub(super) const fn can_be_prefetched(&self) -> bool {
        matches!(self, Ask::Host(call) if call.is_ahead())
    }
}

/// The host's answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Reply<'a> {
    #[serde(borrow)]
    pub(super) answer: Answer<'a>,
    pub(super) tensor: Option<LentTensor>,
    /// What all ranks have gathered.
    pub(super) bytes: Cow<'a, [u8]>,
}

impl Reply<'_> {
    /// A refusal.
    pub(super) fn refused(refusal: Refusal) -> Reply<'static> {
        Reply::from(Travels::answer(Err::<(), _>(refusal)))
    }

    /// With texts that outlive the message.
    pub(super) fn into_owned(self) -> Reply<'static> {
        let Answer {
            status,
            count,
            number,
            text,
            message,
        } = self.answer;
        Reply {
            answer: Answer {
                status,
                count,
                number,
                text: text.into_owned().into(),
                message: message.into_owned().into(),
            },
            tensor: self.tensor,
            bytes: self.bytes.into_owned().into(),
        }
    }

    /// What the call returns that has no other value.
    pub(super) fn done(&self) -> Result<(), Refusal> {
        Travels::read(&self.answer, &mut |_| "")
    }
}

impl<'a> From<Answer<'a>> for Reply<'a> {
    fn from(answer: Answer<'a>) -> Reply<'a> {
        Reply {
            answer,
            ..Reply::default()
        }
    }
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
