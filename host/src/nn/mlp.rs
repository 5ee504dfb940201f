//! The multi-layer perceptron.

use candle_core::{D, Result, Tensor};

use super::{Activation, Linear, Model, ModuleInfo, Pass};
use crate::parameters::{self, Parameters};

/// Linear layers `fc1`, `fc2`, … with a nonlinearity between them, `act1`, `act2`, ….
#[derive(Clone, Debug)]
pub struct Mlp {
    layers: Vec<(ModuleInfo, Linear)>,
    /// The nonlinearities behind all layers but the last.
    activations: Vec<ModuleInfo>,
    activation: Activation,
    inputs: usize,
}

impl Mlp {
    /// From `inputs` numbers over hidden layers of the given widths to `outputs` numbers.
    pub fn new(
        parameters: &mut Parameters,
        inputs: usize,
        hidden: &[usize],
        outputs: usize,
        activation: Activation,
    ) -> std::result::Result<Self, parameters::Error> {
        let mut layers = Vec::with_capacity(hidden.len() + 1);
        let mut width = inputs;
        for (index, &next) in hidden.iter().chain([&outputs]).enumerate() {
            let module = ModuleInfo::new(format!("fc{}", index + 1), "linear");
            let linear = Linear::new(&mut parameters.scope(&module.name), width, next)?;
            layers.push((module, linear));
            width = next;
        }
        let between = (1..=hidden.len())
            .map(|index| ModuleInfo::new(format!("act{index}"), activation.name()));
        Ok(Mlp {
            layers,
            activations: between.collect(),
            activation,
            inputs,
        })
    }
}

impl Model for Mlp {
    /// From (batch, …), flattened behind the batch, to (batch, outputs).
    fn forward(&self, inputs: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        // candle can't flatten what has no dimension behind the batch.
        let mut x = match inputs.rank() {
            1 => inputs.unsqueeze(1)?,
            _ => inputs.flatten_from(1)?,
        };
        if x.dim(D::Minus1)? != self.inputs {
            candle_core::bail!(
                "`fc1` takes {} numbers a sample, the inputs have the shape {:?}",
                self.inputs,
                inputs.dims()
            );
        }
        let mut activations = self.activations.iter();
        for (module, layer) in &self.layers {
            x = pass.module(module, &x, |x, _| layer.forward(x))?;
            if let Some(module) = activations.next() {
                x = pass.module(module, &x, |x, _| self.activation.forward(x))?;
            }
        }
        Ok(x)
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        let mut modules = Vec::new();
        let mut activations = self.activations.iter();
        for (module, _) in &self.layers {
            modules.push(module.clone());
            modules.extend(activations.next().cloned());
        }
        modules
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};
    use sconce_plugin_api::Phase;

    use super::*;
    use crate::gradients::Gradients;
    use crate::loss::cross_entropy;
    use crate::random;

    fn inputs(batch: usize) -> (Tensor, Tensor) {
        let mut stream = random::stream(5, "inputs", 0, 0);
        let values: Vec<f64> = (0..batch * 6).map(|_| stream.normal()).collect();
        let targets: Vec<u32> = (0..batch as u32).map(|index| index % 4).collect();
        let inputs = Tensor::from_vec(values, (batch, 1, 2, 3), &Device::Cpu).expect("inputs");
        let targets = Tensor::from_vec(targets, batch, &Device::Cpu).expect("targets");
        (inputs, targets)
    }

    /// Central differences, h = 1e-6, against the gradients of backward: 1e-7 relative to the
    /// largest gradient; 1e-5 for GELU, whose backward pass in candle has constants of six digits.
    #[test]
    fn gradients_are_those_of_finite_differences_for_every_activation() {
        let (inputs, targets) = inputs(5);
        for (activation, tolerance) in [
            (Activation::Relu, 1e-7),
            (Activation::Gelu, 1e-5),
            (Activation::Silu, 1e-7),
            (Activation::Tanh, 1e-7),
            (Activation::Sigmoid, 1e-7),
        ] {
            let mut parameters = Parameters::new(3, DType::F64, &Device::Cpu);
            let mlp = Mlp::new(&mut parameters, 6, &[5, 3], 4, activation).expect("model");
            let loss = || {
                let outputs = mlp
                    .forward(&inputs, &mut Pass::new(Phase::Train))
                    .expect("forward");
                cross_entropy(&outputs, &targets).expect("loss")
            };
            let store = loss().backward().expect("backward");
            let gradients = Gradients::from_store(&parameters, &store);
            let mut checked = 0;
            for (index, parameter) in parameters.iter().enumerate() {
                let gradient: Vec<f64> = gradients
                    .at(index)
                    .and_then(|t| t.flatten_all().and_then(|t| t.to_vec1()).ok())
                    .expect("a gradient");
                let shape = parameter.tensor().dims().to_vec();
                let values: Vec<f64> = parameter
                    .tensor()
                    .flatten_all()
                    .and_then(|t| t.to_vec1())
                    .expect("values");
                let largest = gradient.iter().fold(0.0_f64, |m, g| m.max(g.abs()));
                for element in 0..values.len() {
                    let at = |step: f64| {
                        let mut moved = values.clone();
                        moved[element] += step;
                        let moved = Tensor::from_vec(moved, shape.clone(), &Device::Cpu);
                        parameter.var().set(&moved.expect("tensor")).expect("set");
                        loss().to_scalar::<f64>().expect("a number")
                    };
                    let slope = (at(1e-6) - at(-1e-6)) / 2e-6;
                    at(0.0);
                    let difference = (slope - gradient[element]).abs();
                    assert!(
                        difference <= tolerance * largest.max(0.01),
                        "{activation:?} {} [{element}]: {slope} {}",
                        parameter.name(),
                        gradient[element]
                    );
                    checked += 1;
                }
            }
            assert_eq!(checked, 6 * 5 + 5 + 5 * 3 + 3 + 3 * 4 + 4);
        }
    }

    #[test]
    fn inputs_of_another_size_are_told_with_the_layer() {
        let mut parameters = Parameters::new(3, DType::F64, &Device::Cpu);
        let mlp = Mlp::new(&mut parameters, 7, &[], 4, Activation::Relu).expect("model");
        let error = mlp
            .forward(&inputs(2).0, &mut Pass::new(Phase::Val))
            .expect_err("wrong size")
            .to_string();
        assert!(error.contains("`fc1` takes 7 numbers a sample"), "{error}");
        assert!(error.contains("[2, 1, 2, 3]"), "{error}");
    }

    #[test]
    fn a_batch_of_single_numbers_is_a_batch() {
        let mut parameters = Parameters::new(3, DType::F64, &Device::Cpu);
        let mlp = Mlp::new(&mut parameters, 1, &[], 4, Activation::Relu).expect("model");
        let numbers = Tensor::ones(5, DType::F64, &Device::Cpu).expect("numbers");
        let outputs = mlp
            .forward(&numbers, &mut Pass::new(Phase::Val))
            .expect("forward");
        assert_eq!(outputs.dims(), [5, 4]);
    }

    #[test]
    fn names_and_shapes_are_those_of_pytorch() {
        let mut parameters = Parameters::new(3, DType::F32, &Device::Cpu);
        Mlp::new(&mut parameters, 784, &[256], 10, Activation::Relu).expect("model");
        let found: Vec<_> = parameters
            .iter()
            .map(|p| (p.name(), p.tensor().dims()))
            .collect();
        let expected: [(&str, &[usize]); 4] = [
            ("fc1.weight", &[256, 784]),
            ("fc1.bias", &[256]),
            ("fc2.weight", &[10, 256]),
            ("fc2.bias", &[10]),
        ];
        assert_eq!(found, expected);
        assert_eq!(parameters.element_count(), 203_530);
    }
}
