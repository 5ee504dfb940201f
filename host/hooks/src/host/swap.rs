//! The parameters of a loop swapped for a set that a hook has published, and back, where they lie.

use sconce_plugin_api::ext::{Collection, TensorAbi, Tensors};

use crate::bridge::BridgeState;

/// Parameters whose values lie under a published set's names, and vice versa.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Swapped {
    /// Name of the set.
    pub(super) set: String,
    /// The hook that has asked for it.
    pub(super) hook: String,
}

/// Exchanges the parameters with the tensors of a published set, each with the one under its name.
///
/// # Errors
///
/// If no tensor of the set is published, or one that does not fit its parameter; nothing is changed then.
pub(super) fn exchange(set: &str, shared: &BridgeState<'_>) -> Result<(), String> {
    let pairs = pairs(set, shared)?;
    for (parameter, published) in &pairs {
        let length = usize::try_from(parameter.byte_length).unwrap_or(0);
        // SAFETY: both were found to have this many bytes, to be contiguous and apart; the loop's tensors are its storage, and no
        // hook is being called.
        unsafe {
            std::ptr::swap_nonoverlapping(
                parameter.data.cast::<u8>(),
                published.data.cast::<u8>(),
                length,
            );
        }
    }
    Ok(())
}

/// The parameters that the set has tensors for, with these.
fn pairs(set: &str, shared: &BridgeState<'_>) -> Result<Vec<(TensorAbi, TensorAbi)>, String> {
    let parameters = Collection::Parameters;
    let mut pairs = Vec::new();
    for index in 0..shared.count(parameters as u32) {
        let name = format!("{set}/{}", shared.name_at(parameters, index));
        let Ok(published) = shared.find(Collection::Published as u32, &name) else {
            continue;
        };
        let of = |collection: Collection, index| {
            shared
                .at_any_point(collection, index)
                .map_err(|message| format!("`{name}`: {message}"))
        };
        let pair = (
            of(parameters, index)?,
            of(Collection::Published, published)?,
        );
        check(&name, &pair)?;
        pairs.push(pair);
    }
    if pairs.is_empty() {
        let first = shared.name_at(parameters, 0);
        return Err(format!(
            "no tensor of that set is published; publish them as `{set}/{first}` and so on"
        ));
    }
    Ok(pairs)
}

/// Checks that the two have the same elements in the same order, in memory of this process.
fn check(name: &str, (parameter, published): &(TensorAbi, TensorAbi)) -> Result<(), String> {
    let kind = |tensor: &TensorAbi| (tensor.type_code, tensor.type_bits, tensor.byte_length);
    // SAFETY: shape and strides are lent with the tensors, which nothing has released.
    let (one, other) = unsafe {
        (
            numbers(parameter, parameter.shape),
            numbers(published, published.shape),
        )
    };
    if kind(parameter) != kind(published) || one != other {
        return Err(format!(
            "`{name}` has the shape {other:?}, the parameter {one:?}, or another type"
        ));
    }
    // SAFETY: as above.
    let (steps, others) = unsafe {
        (
            numbers(parameter, parameter.strides),
            numbers(published, published.strides),
        )
    };
    // A dimension of one element has no step.
    let differ = |((size, one), other): ((&i64, &i64), &i64)| *size > 1 && one != other;
    if one.iter().zip(steps).zip(others).any(differ) {
        return Err(format!(
            "`{name}` lies in memory by the strides {others:?}, the parameter by {steps:?}"
        ));
    }
    if parameter.device_type != 1 || published.device_type != 1 {
        return Err(format!("`{name}` is on a device"));
    }
    Ok(())
}

/// One number for each dimension of a tensor: its shape or its strides.
///
/// # Safety
///
/// The tensor must be lent for the call, and the numbers be its own.
unsafe fn numbers(tensor: &TensorAbi, first: *const i64) -> &[i64] {
    if tensor.dimensions == 0 || first.is_null() {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(first, tensor.dimensions as usize) }
}
