//! A model with its adapters added to the weights they belong to.

use std::collections::HashMap;

use candle_core::{DType, Result, Tensor};

use crate::parameters::adapters::{Adapters, LORA_A, LORA_B};

/// Adds to each weight scale · B · A of its adapter, computed in `f64`, and leaves the adapters out; everything else is as it was.
///
/// # Errors
///
/// If a device fails, or half of an adapter is missing.
pub fn merged(adapters: &Adapters, named: &[(&str, &Tensor)]) -> Result<Vec<(String, Tensor)>> {
    let by_name: HashMap<&str, &Tensor> = named.iter().copied().collect();
    let scale = adapters.plan().options.scale;
    let modules = adapters.modules().iter();
    let modules: HashMap<String, _> = modules
        .map(|module| (format!("{}.weight", module.name), module))
        .collect();
    let is_part = |name: &str| {
        [LORA_A, LORA_B].iter().any(|part| {
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
        let parts = (part(LORA_A)?, part(LORA_B)?);
        let sum = with_adapter(tensor, parts, scale, module.is_transposed)?;
        Ok(((*name).to_owned(), sum.to_dtype(tensor.dtype())?))
    })
    .collect()
}

/// W + scale · B · A in `f64`, where the product is transposed if the weight is (inputs, outputs).
pub(super) fn with_adapter(
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
