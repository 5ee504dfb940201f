//! What can go wrong between a loop and its hooks.

use std::fmt;

use sconce_lifecycle::OutOfOrder;
use sconce_manifest::diagnostic::{Diagnostic, render};

use crate::dispatch::HookFault;
use crate::planning::UnusableHooks;

/// An error of a [`HookHost`](super::HookHost) or of [`LoopHooks`](super::LoopHooks).
#[derive(thiserror::Error)]
pub enum HostError {
    /// The hooks can't be used: the document, a plugin, or something that the loop can't do is at fault. All problems.
    #[error("{}", Listed(.0))]
    Unusable(Vec<Diagnostic>),
    /// The loop left a call out, or made one out of order.
    #[error(transparent)]
    Order(#[from] OutOfOrder),
    /// A hook failed, and its policy is `fail`.
    #[error("{0}")]
    Hook(Box<HookFault>),
    /// candle failed to read or change a tensor.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
    /// States of hooks can't be saved or restored.
    #[error("the states of hooks: {0}")]
    States(String),
    /// The loop's own source of batches, or what it was asked to do, failed.
    #[error("{0}")]
    Loop(String),
}

// As its text: it is what a program prints whose `main` returns it.
impl fmt::Debug for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Problems with their places, one after the other.
struct Listed<'a>(&'a [Diagnostic]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(render::text(self.0, false).trim_end())
    }
}

impl From<Box<HookFault>> for HostError {
    fn from(fault: Box<HookFault>) -> HostError {
        HostError::Hook(fault)
    }
}

impl From<UnusableHooks> for HostError {
    fn from(unusable: UnusableHooks) -> HostError {
        HostError::Unusable(unusable.diagnostics)
    }
}

/// Result of a call to hooks.
pub type HostResult<T = ()> = Result<T, HostError>;
