//! Models written with `candle_nn`: their variables in the registry, named, ordered and initialised from
//! the seed.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Result, Shape, Tensor};
use candle_nn::VarBuilder;
use candle_nn::init::NormalOrUniform;
use candle_nn::var_builder::SimpleBackend;

use crate::init::Init;
use crate::parameters::{ParameterKind, Parameters};

/// Builds a model from `candle_nn`'s layers and registers its variables in `parameters`.
///
/// Their values depend on the registry's seed and their names; a batch norm's running statistics
/// become buffers. A name used twice is the same variable, as in `candle_nn`'s `VarMap`.
///
/// Some of `candle_nn`'s layers cut the gradient: `docs/candle-gradients.md` has the list, and the
/// gradient audit finds them in a run's first iteration.
///
/// ```
/// use candle_core::{DType, Device, Module, Tensor};
/// use sconce_nn::with_var_builder;
/// use sconce_nn::parameters::Parameters;
///
/// # fn main() -> candle_core::Result<()> {
/// let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
/// let layer = with_var_builder(&mut parameters, |vb| candle_nn::linear(4, 2, vb.pp("fc")))?;
/// let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name()).collect();
/// assert_eq!(names, ["fc.weight", "fc.bias"]);
/// let x = Tensor::ones((3, 4), DType::F32, &Device::Cpu)?;
/// assert_eq!(layer.forward(&x)?.dims(), [3, 2]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Those of `make`, or if a name is requested again with another shape.
pub fn with_var_builder<M>(
    parameters: &mut Parameters,
    make: impl FnOnce(VarBuilder<'static>) -> Result<M>,
) -> Result<M> {
    let (dtype, device) = (parameters.dtype(), parameters.device().clone());
    let empty = || Parameters::new(0, dtype, &device);
    let shared = Arc::new(Mutex::new(mem::replace(parameters, empty())));
    let backend = Box::new(Registry(Arc::clone(&shared)));
    let model = make(VarBuilder::from_backend(backend, dtype, device.clone()));
    // Any part of the builder that the model has kept refers to an empty registry from now on.
    *parameters = mem::replace(&mut *lock(&shared), empty());
    model
}

struct Registry(Arc<Mutex<Parameters>>);

fn lock(parameters: &Mutex<Parameters>) -> MutexGuard<'_, Parameters> {
    parameters.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SimpleBackend for Registry {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        hint: candle_nn::Init,
        _dtype: DType,
        _device: &Device,
    ) -> Result<Tensor> {
        let mut parameters = lock(&self.0);
        if let Ok(known) = parameters.get(name) {
            let tensor = known.tensor().clone();
            if tensor.shape() != &shape {
                candle_core::bail!(
                    "`{name}` is asked for with the shape {shape:?}, it has {:?}",
                    tensor.shape()
                )
            }
            return Ok(tensor);
        }
        let own = name.rsplit('.').next().unwrap_or(name);
        let kind = match own {
            "running_mean" | "running_var" => ParameterKind::Buffer,
            _ => ParameterKind::Parameter,
        };
        let init = translated(hint, &shape);
        let registered = parameters.register(name.to_owned(), shape.dims(), init, kind);
        registered.map_err(candle_core::Error::wrap)
    }

    fn get_unchecked(&self, name: &str, _dtype: DType, _device: &Device) -> Result<Tensor> {
        match lock(&self.0).get(name) {
            Ok(known) => Ok(known.tensor().clone()),
            Err(error) => Err(candle_core::Error::wrap(error)),
        }
    }

    fn contains_tensor(&self, name: &str) -> bool {
        lock(&self.0).get(name).is_ok()
    }
}

/// Translates candle's initialisation to ours.
fn translated(hint: candle_nn::Init, shape: &Shape) -> Init {
    match hint {
        candle_nn::Init::Const(value) => Init::Constant(value),
        candle_nn::Init::Randn { mean, stdev } => Init::Normal { mean, std: stdev },
        candle_nn::Init::Uniform { lo, up } => Init::Uniform { low: lo, high: up },
        candle_nn::Init::Kaiming {
            dist,
            fan,
            non_linearity,
        } => {
            let std = non_linearity.gain() / (fan.for_shape(shape).max(1) as f64).sqrt();
            match dist {
                NormalOrUniform::Normal => Init::Normal { mean: 0.0, std },
                NormalOrUniform::Uniform => {
                    let bound = 3_f64.sqrt() * std;
                    Init::Uniform {
                        low: -bound,
                        high: bound,
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_nn::{BatchNormConfig, batch_norm, conv2d_no_bias, linear};

    use super::*;

    fn built(seed: u64) -> Parameters {
        let mut parameters = Parameters::new(seed, DType::F32, &sconce_ops::device::for_tests());
        with_var_builder(&mut parameters, |vb| {
            conv2d_no_bias(1, 8, 3, candle_nn::Conv2dConfig::default(), vb.pp("conv"))?;
            batch_norm(8, BatchNormConfig::default(), vb.pp("bn"))?;
            linear(64, 4, vb.pp("fc"))
        })
        .expect("a model");
        parameters
    }

    #[test]
    fn variables_are_named_ordered_and_drawn_from_the_seed() {
        let parameters = built(1);
        let names: Vec<&str> = parameters
            .iter()
            .map(crate::parameters::Parameter::name)
            .collect();
        assert_eq!(names.len(), 7);
        assert_eq!(names[0], "conv.weight");
        let buffers = parameters
            .iter()
            .filter(|p| p.kind() == ParameterKind::Buffer);
        assert_eq!(buffers.count(), 2);
        let values = |parameters: &Parameters| {
            let tensor = parameters.get("fc.weight").expect("it").tensor().clone();
            tensor
                .flatten_all()
                .and_then(|t| t.to_vec1::<f32>())
                .expect("numbers")
        };
        assert_eq!(values(&parameters), values(&built(1)));
        assert_ne!(values(&parameters), values(&built(2)));
        // Kaiming with the gain of ReLU: a variance of 2 / 64.
        let squares: f32 = values(&parameters).iter().map(|x| x * x).sum();
        let variance = squares / 256.0;
        assert!((0.025..0.038).contains(&variance), "{variance}");
    }

    #[test]
    fn a_name_that_comes_twice_is_one_variable_of_one_shape() {
        let mut parameters = Parameters::new(1, DType::F32, &sconce_ops::device::for_tests());
        let tied = with_var_builder(&mut parameters, |vb| {
            let first = vb.get((2, 3), "weight")?;
            let second = vb.get((2, 3), "weight")?;
            assert!(vb.contains_tensor("weight"));
            assert!(vb.get((3, 2), "weight").is_err());
            Ok(first.id() == second.id())
        });
        assert!(tied.expect("a model"));
        assert_eq!(parameters.len(), 1);
    }
}
