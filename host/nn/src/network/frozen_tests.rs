//! Frozen parts of models: gradients of trainable parts are unchanged, and frozen parts are in no graph.

use candle_core::{DType, Result, Tensor, Var};
use serde_json::{Value, json};

use crate::gradients::Gradients;
use crate::loss::cross_entropy;
use crate::ops::{backward, hold, record};
use crate::parameters::Parameters;
use crate::test_numbers::normal_numbers;
use crate::{
    Inputs, Model, ModelConfig, ModuleInfo, Network, Pass, PassPosition, Signal, Taps, Targets,
};

/// A model with its parameters and a batch.
struct Case {
    parameters: Parameters,
    network: Network,
    inputs: Tensor,
    targets: Tensor,
}

impl Case {
    fn new(model: Value, shape: &[usize]) -> Case {
        let config: ModelConfig = serde_json::from_value(model).expect("a model");
        let mut parameters = Parameters::new(3, DType::F32, &sconce_ops::device::for_tests());
        let names: Vec<String> = (0..5).map(|class| class.to_string()).collect();
        let has_tokens = matches!(config, ModelConfig::Gpt(_));
        let batch = 32;
        let numbers = normal_numbers(5, [&[batch], shape].concat()).expect("numbers");
        let (signal, targets, inputs) = if has_tokens {
            let tokens = numbers.abs().and_then(|x| x.to_dtype(DType::U32));
            let signal = Signal {
                content: Inputs::Tokens(5),
                ..Signal::numbers(shape.to_vec())
            };
            let tokens = tokens.and_then(|tokens| tokens.clamp(0_u32, 4_u32));
            (
                signal,
                Targets::ClassPerPosition(names),
                tokens.expect("tokens"),
            )
        } else {
            let signal = Signal::numbers(shape.to_vec());
            (signal, Targets::Class(names), numbers)
        };
        let network = config.build(&mut parameters, &signal, &targets);
        let wanted: Vec<usize> = if has_tokens {
            inputs.dims().to_vec()
        } else {
            vec![batch]
        };
        let targets = normal_numbers(6, wanted).and_then(|x| x.abs()?.to_dtype(DType::U32));
        Case {
            parameters,
            network: network.expect("a network"),
            inputs,
            targets: targets
                .and_then(|x| x.clamp(0_u32, 4_u32))
                .expect("targets"),
        }
    }

    /// The bits of the trainable parameters' gradients, in registry order.
    fn gradients(&self, holds: bool) -> Vec<(String, Vec<u32>)> {
        let _recording = record();
        let held = self.parameters.held().filter(|_| holds);
        let _held = hold(held);
        let moment = PassPosition {
            seed: 7,
            ..PassPosition::default()
        };
        let mut pass = Pass::training().at(moment);
        let outputs = self.network.forward(&self.inputs, &mut pass);
        let loss = outputs.and_then(|outputs| cross_entropy(&outputs, &self.targets));
        let store = loss.and_then(|loss| backward(&loss, 1.0)).expect("a pass");
        let gradients = Gradients::from_store(&self.parameters, &store);
        let parameters = self.parameters.iter().enumerate();
        let bits = parameters.filter_map(|(index, parameter)| {
            let gradient = gradients.at(index)?.flatten_all().expect("flat");
            let numbers: Vec<f32> = gradient.to_vec1().expect("numbers");
            let bits = numbers.into_iter().map(f32::to_bits).collect();
            Some((parameter.name().to_owned(), bits))
        });
        bits.collect()
    }
}

fn cases() -> Vec<Case> {
    let convnet = json!({"kind": "convnet", "channels": [4, 8], "hidden": [16], "batch_norm": true, "kernel": 3, "padding": 1});
    let gpt = |positions: &str, dropout: f64| json!({"kind": "gpt", "layers": 2, "heads": 2, "width": 16, "positions": positions, "dropout": dropout});
    vec![
        Case::new(json!({"kind": "mlp", "hidden": [64, 32]}), &[40]),
        // Enough rows for tiled matrix multiplication.
        Case::new(
            json!({"kind": "mlp", "hidden": [256], "activation": "gelu"}),
            &[128],
        ),
        Case::new(convnet, &[1, 12, 12]),
        Case::new(
            json!({"kind": "resnet", "blocks": [1, 1], "width": 4}),
            &[3, 8, 8],
        ),
        Case::new(gpt("learned", 0.0), &[8]),
        Case::new(gpt("rotary", 0.1), &[8]),
    ]
}

/// Whether the parameter with this index and name is frozen.
type IsFrozen<'a> = &'a dyn Fn(usize, &str) -> bool;

#[test]
fn what_is_trained_has_the_same_gradients() {
    for case in cases() {
        let names: Vec<&str> = case
            .parameters
            .iter()
            .map(crate::parameters::Parameter::name)
            .collect();
        let count = names.len();
        let plans: [(&str, IsFrozen<'_>); 5] = [
            ("all but the end", &|index, _| index + 2 < count),
            ("the first half", &|index, _| index < count / 2),
            ("the second half", &|index, _| index >= count / 2),
            ("weights", &|_, name| name.ends_with("weight")),
            ("every third", &|index, _| index % 3 == 0),
        ];
        for (plan, is_frozen) in plans {
            for (index, parameter) in case.parameters.iter().enumerate() {
                // Buffers keep their state: it determines the forward pass.
                let is_buffer = parameter.kind() == crate::parameters::ParameterKind::Buffer;
                let is_frozen = !is_buffer && is_frozen(index, parameter.name());
                parameter.set_learning_rate_scale(if is_frozen { 0.0 } else { 1.0 });
            }
            let (with, without) = (case.gradients(true), case.gradients(false));
            assert_eq!(with.len(), case.parameters.trainable().count(), "{plan}");
            assert_eq!(with, without, "{plan} of {names:?}");
        }
    }
}

/// Returns which modules' outputs are in a graph.
#[derive(Default)]
struct Graph(Vec<(String, bool)>);

impl Taps for Graph {
    fn listens(&mut self, _module: &ModuleInfo) -> bool {
        true
    }

    fn enter(&mut self, _module: &ModuleInfo, input: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(input.clone()))
    }

    fn leave(&mut self, module: &ModuleInfo, _input: &Tensor, output: Tensor) -> Result<Tensor> {
        self.0.push((module.name.clone(), output.track_op()));
        Ok(output)
    }
}

#[test]
fn a_frozen_body_is_in_no_graph_and_its_statistics_move() {
    let body = json!({"kind": "sequential", "layers": [
        {"kind": "conv2d", "name": "conv", "channels": 4, "kernel": 3},
        {"kind": "batch-norm", "name": "norm"},
        {"kind": "relu", "name": "act"},
        {"kind": "flatten", "name": "flat"},
        {"kind": "linear", "name": "head"},
    ]});
    let case = Case::new(body, &[1, 6, 6]);
    for parameter in case.parameters.iter() {
        let is_body = ["conv.", "norm.weight", "norm.bias"];
        if is_body
            .iter()
            .any(|start| parameter.name().starts_with(start))
        {
            parameter.set_learning_rate_scale(0.0);
        }
    }
    let mean = || {
        let mean = case.parameters.get("norm.running_mean").expect("a buffer");
        mean.tensor().to_vec1::<f32>().expect("numbers")
    };
    let before = mean();
    let graph = |holds: bool| {
        let _recording = record();
        let _held = hold(case.parameters.held().filter(|_| holds));
        let mut graph = Graph::default();
        {
            let mut pass = Pass::training().with_taps(&mut graph);
            let outputs = case.network.forward(&case.inputs, &mut pass);
            outputs.expect("a pass");
        }
        graph
            .0
            .into_iter()
            .map(|(_, is_tracked)| is_tracked)
            .collect::<Vec<_>>()
    };
    assert_eq!(graph(false), [true; 5]);
    assert_eq!(graph(true), [false, false, false, false, true]);
    assert_ne!(mean(), before, "running statistics move all the same");
}

#[test]
fn a_module_of_candles_operations_is_left_out_as_a_whole() -> Result<()> {
    let [body, head] = [1, 2].map(|seed| normal_numbers(seed, (3, 3)).expect("numbers"));
    let (body, head) = (Var::from_tensor(&body)?, Var::from_tensor(&head)?);
    let x = normal_numbers(3, (2, 3))?;
    let layer = |name: &str, x: &Tensor, weight: &Var, pass: &mut Pass<'_>| {
        let module = ModuleInfo::new(name, "linear");
        pass.module(&module, x, |x, _| x.matmul(&weight.t()?)?.tanh())
    };
    let gradient = |held: &[&Tensor]| -> Result<(bool, Vec<f32>)> {
        let _held = hold(held.iter().copied());
        let mut pass = Pass::training();
        let inner = layer("body", &x, &body, &mut pass)?;
        let loss = layer("head", &inner, &head, &mut pass)?.sum_all()?;
        let store = backward(&loss, 1.0)?;
        let gradient = store.get(&head).expect("a gradient").flatten_all()?;
        Ok((inner.track_op(), gradient.to_vec1()?))
    };
    let (was_tracked, before) = gradient(&[])?;
    let (is_tracked, after) = gradient(&[&body])?;
    assert!(was_tracked && !is_tracked);
    assert_eq!(before, after);
    Ok(())
}
