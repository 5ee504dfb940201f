//! A model with its adapters added to the weights they belong to.

use std::collections::HashMap;

use candle_core::{DType, Result, Tensor};

use crate::parameters::Parameters;
use crate::parameters::adapters::{AdapterOptions, Adapters, LORA_A, LORA_B, MAGNITUDE};

/// Adds to each weight scale · B · A of its adapter, computed in `f64`, gives its rows the lengths of a magnitude, and leaves the
/// adapters out; everything else is as it was.
///
/// # Errors
///
/// If a device fails, or part of an adapter is missing.
pub fn merged(adapters: &Adapters, named: &[(&str, &Tensor)]) -> Result<Vec<(String, Tensor)>> {
    let by_name: HashMap<&str, &Tensor> = named.iter().copied().collect();
    let AdapterOptions { scale, dora, .. } = adapters.plan().options;
    let modules = adapters.modules().iter();
    let modules: HashMap<String, _> = modules
        .map(|module| (format!("{}.weight", module.name), module))
        .collect();
    let is_part = |name: &str| {
        [LORA_A, LORA_B, MAGNITUDE].iter().any(|part| {
            let module = name.strip_suffix(part);
            module.is_some_and(|module| modules.contains_key(&format!("{module}weight")))
        })
    };
    let kept = named.iter().filter(|(name, _)| !is_part(name));
    kept.map(|(name, tensor)| {
        let Some(module) = modules.get(*name) else {
            return Ok(((*name).to_owned(), (*tensor).clone()));
        };
        let part = |part: &str| {
            let name = format!("{}.{part}", module.name);
            match by_name.get(name.as_str()) {
                Some(tensor) => Ok(*tensor),
                None => candle_core::bail!("`{name}` is missing"),
            }
        };
        let parts = AdapterParts {
            down: part(LORA_A)?,
            up: part(LORA_B)?,
            magnitude: if dora { Some(part(MAGNITUDE)?) } else { None },
        };
        let sum = with_adapter(tensor, &parts, scale, module.is_transposed)?;
        Ok(((*name).to_owned(), sum.to_dtype(tensor.dtype())?))
    })
    .collect()
}

/// The parts of an adapter.
pub(super) struct AdapterParts<'a> {
    pub(super) down: &'a Tensor,
    pub(super) up: &'a Tensor,
    /// Lengths of the adapted weight's rows, if they are trained by themselves.
    pub(super) magnitude: Option<&'a Tensor>,
}

/// W + scale · B · A in `f64`, where the product is transposed if the weight is (inputs, outputs); of the lengths of the magnitude, if the
/// adapter has one.
pub(super) fn with_adapter(
    weight: &Tensor,
    parts: &AdapterParts<'_>,
    scale: f64,
    is_transposed: bool,
) -> Result<Tensor> {
    let sum = sum_of(weight, (parts.down, parts.up), scale, is_transposed)?;
    let Some(magnitude) = parts.magnitude else {
        return Ok(sum);
    };
    let (inputs, shape) = if is_transposed {
        (0, (1, magnitude.elem_count()))
    } else {
        (1, (magnitude.elem_count(), 1))
    };
    let lengths = sum.sqr()?.sum_keepdim(inputs)?.sqrt()?;
    let factors = (magnitude.to_dtype(DType::F64)?.reshape(shape)? / lengths)?;
    sum.broadcast_mul(&factors)
}

fn sum_of(
    weight: &Tensor,
    (down, up): (&Tensor, &Tensor),
    scale: f64,
    is_transposed: bool,
) -> Result<Tensor> {
    let product = up
        .to_dtype(DType::F64)?
        .matmul(&down.to_dtype(DType::F64)?)?;
    let product = if is_transposed {
        product.t()?.contiguous()?
    } else {
        product
    };
    weight.to_dtype(DType::F64)? + (product * scale)?
}

/// Sets each magnitude to the lengths of the rows of its adapted weight: the adapter then changes nothing that its matrices don't.
///
/// # Errors
///
/// If a device fails, or part of an adapter is missing.
pub fn begin_magnitudes(parameters: &Parameters) -> Result<()> {
    let Some(adapters) = parameters.adapters() else {
        return Ok(());
    };
    let options = adapters.plan().options;
    if !options.dora {
        return Ok(());
    }
    for module in adapters.modules() {
        let part = |part: &str| {
            let found = parameters.get(&format!("{}.{part}", module.name));
            found.map_err(candle_core::Error::wrap)
        };
        let (weight, magnitude) = (part("weight")?, part(MAGNITUDE)?);
        let (down, up) = (part(LORA_A)?, part(LORA_B)?);
        let halves = (down.tensor(), up.tensor());
        let sum = sum_of(weight.tensor(), halves, options.scale, module.is_transposed)?;
        let inputs = usize::from(!module.is_transposed);
        let lengths = sum.sqr()?.sum(inputs)?.sqrt()?;
        magnitude.assign(&lengths)?;
    }
    Ok(())
}
