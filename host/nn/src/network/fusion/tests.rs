//! Fused layers and layers with a hook between them compute the same bits.

use candle_core::{DType, Result, Tensor, Var};
use serde_json::json;

use crate::loss::cross_entropy;
use crate::ops::{backward, record};
use crate::parameters::Parameters;
use crate::test_numbers::normal_numbers;
use crate::{Model, ModelConfig, ModuleInfo, Network, Pass, Signal, Taps, Targets};

/// Listens at every module whose name has a part of this text, and counts calls.
struct Listener<'a> {
    at: &'a str,
    calls: usize,
}

impl Taps for Listener<'_> {
    fn listens(&mut self, module: &ModuleInfo) -> bool {
        module.name.contains(self.at)
    }

    fn enter(&mut self, module: &ModuleInfo, input: &Tensor) -> Result<Option<Tensor>> {
        Ok(self.listens(module).then(|| input.clone()))
    }

    fn leave(&mut self, _module: &ModuleInfo, _input: &Tensor, output: Tensor) -> Result<Tensor> {
        self.calls += 1;
        Ok(output)
    }
}

/// Convolutions with batch norms, `ReLU` and pooling, in and outside residual blocks.
fn network() -> (Network, Parameters) {
    let conv = |name: &str, stride: usize| {
        json!({"kind": "conv2d", "name": name, "channels": 32, "kernel": 3, "padding": 1,
            "stride": stride, "bias": false})
    };
    let norm = |name: &str| json!({"kind": "batch-norm", "name": name});
    let relu = |name: &str| json!({"kind": "relu", "name": name});
    let config = json!({"kind": "sequential", "layers": [
        conv("conv1", 1), norm("norm1"), relu("relu1"),
        {"kind": "residual", "name": "block", "activation": "relu",
            "layers": [conv("conv2", 1), norm("norm2"), relu("relu2"), conv("conv3", 1), norm("norm3")]},
        {"kind": "residual", "name": "halved", "activation": "relu",
            "layers": [conv("conv4", 2), norm("norm4")],
            "shortcut": [conv("conv5", 2), norm("norm5")]},
        {"kind": "conv2d", "name": "conv6", "channels": 32, "kernel": 3, "padding": 1}, relu("relu6"),
        {"kind": "max-pool2d", "name": "pool6", "kernel": 2},
        {"kind": "flatten", "name": "flat"}, {"kind": "linear", "name": "head"},
    ]});
    let config: ModelConfig = serde_json::from_value(config).expect("a model");
    let mut parameters = Parameters::new(0, DType::F32, &sconce_ops::device::for_tests());
    let classes = Targets::Class(vec!["a".to_owned(), "b".to_owned()]);
    let network = config.build(&mut parameters, &Signal::numbers([3, 12, 10]), &classes);
    (network.expect("a network"), parameters)
}

/// The bits of outputs, gradients and running statistics after a pass with a listener, and the number of its calls.
fn bits(at: &str, is_training: bool) -> Result<(Vec<Vec<u32>>, usize)> {
    let (network, parameters) = network();
    let x = Var::from_tensor(&normal_numbers(1, (4, 3, 12, 10))?)?;
    let targets = Tensor::new(&[0_u32, 1, 1, 0], &sconce_ops::device::for_tests())?;
    let mut listener = Listener { at, calls: 0 };
    let recording = record();
    let mut pass = Pass::new(is_training).with_taps(&mut listener);
    let outputs = network.forward(&x, &mut pass)?;
    let gradients = backward(&cross_entropy(&outputs, &targets)?, 1.0)?;
    drop(recording);
    let of_parameters = parameters
        .iter()
        .filter_map(|parameter| gradients.get(parameter.tensor()).cloned());
    let all = [
        outputs.clone(),
        gradients.get(&x).cloned().expect("a gradient"),
    ];
    let all = all.into_iter().chain(of_parameters);
    // Running statistics are among the parameters.
    let all = all.chain(
        parameters
            .iter()
            .map(|parameter| parameter.tensor().clone()),
    );
    let exactly = |tensor: Tensor| -> Result<Vec<u32>> {
        let numbers = tensor.flatten_all()?.to_vec1::<f32>()?;
        Ok(numbers.into_iter().map(f32::to_bits).collect())
    };
    let all: Result<Vec<_>> = all.map(exactly).collect();
    Ok((all?, listener.calls))
}

#[test]
fn a_hook_that_listens_does_not_change_a_bit() -> Result<()> {
    for is_training in [true, false] {
        let (fused, calls) = bits("no module", is_training)?;
        assert_eq!(calls, 0);
        assert!(fused.len() > 20, "gradients are missing");
        for (at, expected) in [
            ("", 19),
            ("norm", 5),
            ("relu", 3),
            ("conv3", 1),
            ("block", 6),
        ] {
            let (apart, calls) = bits(at, is_training)?;
            assert_eq!(calls, expected, "modules with {at:?}");
            assert!(
                apart == fused,
                "other bits with a hook at {at:?}, training: {is_training}"
            );
        }
    }
    Ok(())
}
