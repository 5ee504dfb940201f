//! Defaults that several kinds of layers have in common.

#![expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks by reference whether an option is left out"
)]

use crate::{Activation, Extent};

pub(in crate::config) fn yes() -> bool {
    true
}

/// For options that are left out when a layer is written.
pub(in crate::config) fn is_true(value: &bool) -> bool {
    *value
}

pub(in crate::config) fn is_false(value: &bool) -> bool {
    !*value
}

pub(in crate::config) fn one() -> usize {
    1
}

pub(in crate::config) fn is_one(value: &usize) -> bool {
    *value == 1
}

pub(in crate::config) fn one_extent() -> Extent {
    Extent::Both(1)
}

pub(in crate::config) fn is_one_extent(value: &Extent) -> bool {
    value.pair() == (1, 1)
}

pub(in crate::config) fn zero_extent() -> Extent {
    Extent::Both(0)
}

pub(in crate::config) fn is_zero_extent(value: &Extent) -> bool {
    value.pair() == (0, 0)
}

pub(in crate::config) fn epsilon() -> f64 {
    1e-5
}

pub(in crate::config) fn half() -> f64 {
    0.5
}

pub(in crate::config) fn identity() -> Activation {
    Activation::Identity
}

pub(in crate::config) fn is_identity(value: &Activation) -> bool {
    *value == Activation::Identity
}
