//! A block of layers whose activations are recomputed in the backward pass.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{Result, Tensor};

use crate::onnx::{Graph, OnnxError, Value};
use crate::running_statistics::StatisticsLog;
use crate::{Layer, ModuleInfo, Pass, ops};

/// A block of layers of whose activations only the input is kept for the backward pass, which computes the others
/// again, with the same bits.
///
/// They are kept as without recomputing where a hook listens at a module inside, since it may change what the module
/// gives, where batch norms are [synchronised across ranks](Pass::across), and where a layer inside reads what a hook has published,
/// which the backward pass knows nothing of.
pub(crate) struct Recomputed {
    layer: Arc<Mutex<dyn Layer>>,
    /// Modules inside the block.
    modules: Vec<ModuleInfo>,
    /// Parameters and buffers inside the block.
    parameters: Vec<Tensor>,
}

impl Recomputed {
    pub(crate) fn new(
        layer: impl Layer + 'static,
        modules: Vec<ModuleInfo>,
        parameters: Vec<Tensor>,
    ) -> Recomputed {
        Recomputed {
            layer: Arc::new(Mutex::new(layer)),
            modules,
            parameters,
        }
    }
}

fn run(layer: &Mutex<dyn Layer>, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
    // Layers have no state that a panic could leave half changed.
    let layer = layer.lock().unwrap_or_else(PoisonError::into_inner);
    layer.forward(x, pass)
}

/// Kind of the layer that reads what a hook has published.
const MASK_TOKENS: &str = "mask-tokens";

impl Layer for Recomputed {
    fn continues(&self) -> bool {
        // As in `run`.
        let layer = self.layer.lock().unwrap_or_else(PoisonError::into_inner);
        layer.continues()
    }

    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let is_heard = self.modules.iter().any(|module| pass.listens(module));
        let is_masked = self.modules.iter().any(|module| module.kind == MASK_TOKENS);
        if !pass.is_training() || pass.shared_batch().is_some() || is_heard || is_masked {
            return run(&self.layer, x, pass);
        }
        let (layer, position, part) = (Arc::clone(&self.layer), pass.position(), pass.part());
        let named = pass.named_inputs();
        let visibility = pass.visibility().cloned();
        let again = move |x: &Tensor| {
            // Running statistics have been updated by the first pass: these are dropped.
            let statistics = RefCell::new(StatisticsLog::default());
            let mut pass = Pass::training().at(position).collecting(&statistics);
            pass.begin_part(part);
            pass.set_named_inputs(named.clone());
            if let Some(visibility) = &visibility {
                pass = pass.seeing(visibility.clone());
            }
            run(&layer, x, &mut pass)
        };
        ops::recomputed(x, &self.parameters, |x| run(&self.layer, x, pass), again)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let layer = self.layer.lock().unwrap_or_else(PoisonError::into_inner);
        layer.onnx(graph, x)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Var};
    use serde_json::{Value, json};

    use super::*;
    use crate::parameters::Parameters;
    use crate::{Inputs, Model, ModelConfig, Network, PassPosition, Signal, Taps, Targets, random};

    fn build(mut config: Value, recompute: bool, input: &Signal) -> (Network, Parameters) {
        config["recompute"] = recompute.into();
        let config: ModelConfig = serde_json::from_value(config).expect("a model");
        let names = (0..4).map(|class| class.to_string()).collect();
        let targets = match input.content {
            Inputs::Numbers | Inputs::Columns(_) => Targets::Class(names),
            Inputs::Tokens(_) => Targets::ClassPerPosition(names),
        };
        let mut parameters = Parameters::new(5, DType::F32, &sconce_ops::device::for_tests());
        let network = config.build(&mut parameters, input, &targets);
        (network.expect("a model"), parameters)
    }

    fn inputs(input: &Signal) -> Tensor {
        let mut stream = random::stream(3, "inputs", 0, 0);
        let shape = [&[6], &input.shape[..]].concat();
        let count: usize = shape.iter().product();
        let tensor = match input.content {
            Inputs::Numbers | Inputs::Columns(_) => {
                let values: Vec<f32> = (0..count).map(|_| stream.normal() as f32).collect();
                Tensor::from_vec(values, shape, &sconce_ops::device::for_tests())
            }
            Inputs::Tokens(vocabulary) => {
                let tokens = (0..count).map(|index| (index * 7 % vocabulary) as u32);
                Tensor::from_vec(
                    tokens.collect::<Vec<_>>(),
                    shape,
                    &sconce_ops::device::for_tests(),
                )
            }
        };
        tensor.expect("inputs")
    }

    /// Bits of all parameters' gradients and of all buffers after two passes, and the number of recorded operations.
    fn run(
        network: &Network,
        parameters: &Parameters,
        x: &Tensor,
        taps: &mut dyn Taps,
    ) -> (Vec<Vec<u32>>, usize) {
        let bits = |tensor: &Tensor| -> Vec<u32> {
            let flat = tensor.flatten_all().and_then(|flat| flat.to_vec1::<f32>());
            flat.expect("numbers")
                .into_iter()
                .map(f32::to_bits)
                .collect()
        };
        let (mut found, mut count) = (Vec::new(), 0);
        for iteration in 0..2 {
            let recording = ops::record();
            let position = PassPosition {
                seed: 2,
                epoch: 1,
                iteration,
            };
            let mut pass = Pass::training().at(position).with_taps(taps);
            let loss = network.forward(x, &mut pass).and_then(|y| {
                let zeros = y.zeros_like()?;
                ops::mean_squared_error(&y, &zeros)
            });
            count = ops::recorded().len();
            let store = ops::backward(&loss.expect("a loss"), 1.0).expect("backward");
            drop(recording);
            for parameter in parameters.iter() {
                let gradient = store.get(parameter.tensor());
                let shown = gradient.unwrap_or(parameter.tensor()).to_dtype(DType::F32);
                found.push(bits(&shown.expect("f32")));
            }
        }
        (found, count)
    }

    /// Listens at one module, or at none.
    struct One(Option<&'static str>);

    impl Taps for One {
        fn listens(&mut self, module: &ModuleInfo) -> bool {
            self.0 == Some(module.name.as_str())
        }

        fn enter(&mut self, module: &ModuleInfo, input: &Tensor) -> Result<Option<Tensor>> {
            Ok(self.listens(module).then(|| input.clone()))
        }

        fn leave(&mut self, _: &ModuleInfo, _: &Tensor, output: Tensor) -> Result<Tensor> {
            Ok(output)
        }
    }

    #[test]
    fn gradients_and_running_statistics_have_the_same_bits() {
        let images = Signal::numbers([3, 8, 8]);
        for (config, input, heard) in [
            (
                json!({"kind": "resnet", "blocks": [2, 1], "width": 4}),
                &images,
                "layer1.0.conv1",
            ),
            (
                json!({"kind": "vit", "width": 12, "heads": 3, "layers": 2}),
                &images,
                "blocks.0.up",
            ),
            (
                json!({"kind": "gpt", "layers": 2, "width": 16, "init_std": 0.1}),
                &Signal::tokens(6, 11),
                "blocks.1.attn",
            ),
        ] {
            let x = inputs(input);
            let ((kept, old), (again, new)) = (
                build(config.clone(), false, input),
                build(config.clone(), true, input),
            );
            let (expected, all) = run(&kept, &old, &x, &mut One(None));
            let (found, few) = run(&again, &new, &x, &mut One(None));
            assert!(expected == found, "{config}");
            // Operations that candle's own are composed of are not recorded one by one.
            let counts = !ops::are_composed_on_cpu() && ops::device::for_tests().is_cpu();
            assert!(
                !counts || few < all / 2,
                "{config}: {few} of {all} operations are kept"
            );
            // Where a hook listens, that block's activations are kept.
            let (network, parameters) = build(config.clone(), true, input);
            let (found, some) = run(&network, &parameters, &x, &mut One(Some(heard)));
            assert!(expected == found, "{config} with a hook");
            assert!(
                !counts || few < some && some < all,
                "{config}: {few}, {some}, {all}"
            );
        }
    }

    /// Dropout draws the same numbers again.
    #[test]
    fn blocks_with_dropout_are_the_same_too() {
        let layers = |recompute: bool| {
            json!({"kind": "sequential", "layers": [
                {"kind": "linear", "outputs": 9},
                {"kind": "residual", "recompute": recompute, "layers": [
                    {"kind": "layer-norm"},
                    {"kind": "linear", "outputs": 9},
                    {"kind": "dropout", "share": 0.5},
                    {"kind": "gelu"}
                ]},
                {"kind": "linear"}
            ]})
        };
        let input = Signal::numbers([7]);
        let x = inputs(&input);
        let [kept, again] = [false, true].map(|recompute| {
            let config: ModelConfig = serde_json::from_value(layers(recompute)).expect("a model");
            let targets = Targets::Numbers(vec!["a".to_owned(), "b".to_owned()]);
            let mut parameters = Parameters::new(5, DType::F32, &sconce_ops::device::for_tests());
            let network = config
                .build(&mut parameters, &input, &targets)
                .expect("a model");
            run(&network, &parameters, &x, &mut One(None))
        });
        assert!(kept.0 == again.0);
        assert!(ops::are_composed_on_cpu() || again.1 < kept.1);
    }

    /// The first block of a model has no gradient of its input to give.
    #[test]
    fn a_block_of_inputs_trains() {
        let config = json!({"kind": "sequential", "layers": [
            {"kind": "sequential", "recompute": true, "layers": [
                {"kind": "linear", "outputs": 5}, {"kind": "tanh"}
            ]},
            {"kind": "linear"}
        ]});
        let config: ModelConfig = serde_json::from_value(config).expect("a model");
        let input = Signal::numbers([3]);
        let mut parameters = Parameters::new(5, DType::F32, &sconce_ops::device::for_tests());
        let targets = Targets::Numbers(vec!["a".to_owned()]);
        let network = config
            .build(&mut parameters, &input, &targets)
            .expect("a model");
        let recording = ops::record();
        let y = network
            .forward(&inputs(&input), &mut Pass::training())
            .expect("forward");
        let store = ops::backward(&y.sum_all().expect("a loss"), 1.0).expect("backward");
        drop(recording);
        for parameter in parameters.trainable() {
            let variable: &Var = parameter.var();
            assert!(store.get(variable).is_some(), "{}", parameter.name());
        }
    }
}
