//! Passes in bf16 compared with those in f32, of models with every kind of layer.

use candle_core::Var;
use candle_core::backprop::GradStore;
use serde_json::{Value, json};

use super::*;
use crate::gradients::Gradients;
use crate::loss::cross_entropy;
use crate::optim::{AdamW, Optimizer};
use crate::parameters::Parameters;
use crate::{Inputs, Model, ModelConfig, ModuleInfo, Network, Pass, Signal, Taps, Targets, random};

const CLASSES: usize = 4;

struct Case {
    name: String,
    network: Network,
    parameters: Parameters,
    inputs: Tensor,
    targets: Tensor,
}

impl Case {
    fn new(config: Value, input: &Signal) -> Case {
        Case::of_rows(8, config, input)
    }

    fn of_rows(batch: usize, config: Value, input: &Signal) -> Case {
        let name = config.to_string();
        let config: ModelConfig = serde_json::from_value(config).expect(&name);
        let names = (0..CLASSES).map(|class| class.to_string()).collect();
        let is_text = matches!(input.content, Inputs::Tokens(_));
        let targets = if is_text {
            Targets::ClassPerPosition(names)
        } else {
            Targets::Class(names)
        };
        let mut parameters = Parameters::new(5, DType::F32, &sconce_ops::device::for_tests());
        let network = config.build(&mut parameters, input, &targets);
        let shape = [&[batch], &input.shape[..]].concat();
        let count: usize = shape.iter().product();
        let mut stream = random::stream(3, "inputs", 0, 0);
        let inputs = match input.content {
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
        let rows = if is_text {
            vec![batch, input.shape[0]]
        } else {
            vec![batch]
        };
        let count: usize = rows.iter().product();
        let targets = (0..count).map(|row| (row * 5 % CLASSES) as u32);
        let targets = Tensor::from_vec(
            targets.collect::<Vec<_>>(),
            rows,
            &sconce_ops::device::for_tests(),
        );
        Case {
            name,
            network: network.expect("a model"),
            parameters,
            inputs: inputs.expect("inputs"),
            targets: targets.expect("targets"),
        }
    }

    fn loss(&self) -> Tensor {
        let mut pass = Pass::training();
        let outputs = self.network.forward(&self.inputs, &mut pass);
        let outputs = outputs.expect("outputs");
        assert_eq!(outputs.dtype(), DType::F32, "{}", self.name);
        cross_entropy(&outputs, &self.targets).expect("a loss")
    }

    /// The loss and the gradients of `factor` times it.
    fn run(&self, how: How, factor: f64) -> (f64, GradStore) {
        let _cast = ops::autocast((how == How::Cast).then_some(DType::BF16));
        let _rounded = ops::rounded_products(how == How::Rounded);
        let recording = ops::record();
        let loss = self.loss();
        let store = ops::backward(&loss, factor).expect("gradients");
        drop(recording);
        (number(&loss), store)
    }

    fn variables(&self) -> Vec<(&str, &Var)> {
        let trainable = self.parameters.trainable();
        trainable
            .map(|parameter| (parameter.name(), parameter.var()))
            .collect()
    }
}

/// How products are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Exact,
    /// In `bf16`, as on other devices.
    Cast,
    /// By kernels that round their factors.
    Rounded,
}

fn number(scalar: &Tensor) -> f64 {
    let wide = scalar.to_dtype(DType::F64).expect("f64");
    wide.to_scalar().expect("a scalar")
}

fn dot(a: &Tensor, b: &Tensor) -> f64 {
    let wide = |x: &Tensor| x.to_dtype(DType::F64).and_then(|x| x.flatten_all());
    let product = wide(a).and_then(|a| a.mul(&wide(b)?)?.sum_all());
    number(&product.expect("a product"))
}

fn cases() -> Vec<Case> {
    let images = Signal::numbers([3, 8, 8]);
    vec![
        Case::new(
            json!({"kind": "mlp", "hidden": [24], "activation": "gelu"}),
            &images,
        ),
        Case::new(
            json!({"kind": "sequential", "layers": [
                {"kind": "conv2d", "channels": 6, "kernel": 3, "padding": 1},
                {"kind": "relu"},
                {"kind": "max-pool2d", "kernel": 2},
                {"kind": "conv2d", "channels": 6, "kernel": 3, "groups": 6, "padding": 1},
                {"kind": "silu"},
                {"kind": "avg-pool2d", "kernel": 2},
                {"kind": "flatten"},
                {"kind": "dropout", "share": 0.2},
                {"kind": "linear"}
            ]}),
            &images,
        ),
        Case::new(
            json!({"kind": "sequential", "layers": [
                {"kind": "conv2d", "channels": 32, "kernel": 3, "padding": 1, "stride": 2},
                {"kind": "relu"},
                {"kind": "conv2d", "channels": 16, "kernel": 1},
                {"kind": "relu"},
                {"kind": "flatten"},
                {"kind": "linear"}
            ]}),
            &images,
        ),
        Case::new(
            json!({"kind": "resnet", "blocks": [1, 1], "width": 8}),
            &images,
        ),
        Case::new(
            json!({"kind": "vit", "width": 16, "heads": 2, "layers": 1}),
            &images,
        ),
        Case::new(
            json!({"kind": "gpt", "layers": 1, "width": 16, "heads": 2, "init_std": 0.2}),
            &Signal::tokens(6, CLASSES),
        ),
        Case::new(
            json!({"kind": "gpt", "layers": 1, "width": 16, "heads": 2, "init_std": 0.2, "recompute": true}),
            &Signal::tokens(6, CLASSES),
        ),
    ]
}

/// Listens at every module, so that its inputs and outputs are kept as they are.
struct Everywhere;

impl Taps for Everywhere {
    fn listens(&mut self, _module: &ModuleInfo) -> bool {
        true
    }

    fn enter(&mut self, _module: &ModuleInfo, input: &Tensor) -> Result<Option<Tensor>> {
        assert_ne!(input.dtype(), DType::BF16);
        Ok(Some(input.clone()))
    }

    fn leave(&mut self, _module: &ModuleInfo, _input: &Tensor, output: Tensor) -> Result<Tensor> {
        assert_eq!(output.dtype(), DType::F32);
        Ok(output)
    }
}

impl Case {
    /// The bits of all gradients with rounded products, and the bytes that were kept for them.
    fn kept(&self, taps: Option<&mut dyn Taps>) -> (Vec<Vec<u32>>, usize) {
        let _rounded = ops::rounded_products(true);
        let recording = ops::record();
        let mut pass = Pass::training();
        if let Some(taps) = taps {
            pass = pass.with_taps(taps);
        }
        let outputs = self.network.forward(&self.inputs, &mut pass);
        let loss = cross_entropy(&outputs.expect("outputs"), &self.targets).expect("a loss");
        let bytes = ops::recorded_bytes();
        let store = ops::backward(&loss, 1.0).expect("gradients");
        drop(recording);
        let bits = |(name, var): (&str, &Var)| {
            let gradient = store.get(var).expect(name).flatten_all();
            let numbers = gradient.and_then(|it| it.to_vec1::<f32>()).expect(name);
            numbers.into_iter().map(f32::to_bits).collect()
        };
        (self.variables().into_iter().map(bits).collect(), bytes)
    }
}

#[test]
fn what_is_kept_rounded_takes_less_memory_and_changes_no_bit() {
    let images = Signal::numbers([3, 16, 16]);
    let mlp =
        |activation: &str| json!({"kind": "mlp", "hidden": [32, 48, 16], "activation": activation});
    let gpt = |more: &[(&str, Value)]| {
        let mut config =
            json!({"kind": "gpt", "layers": 2, "width": 32, "heads": 2, "init_std": 0.2});
        for (key, value) in more {
            config[*key] = value.clone();
        }
        Case::new(config, &Signal::tokens(20, CLASSES))
    };
    // How much of the memory there may be: what only products read is halved, and blocks that are computed again keep little.
    let cases = [
        (0.95, Case::of_rows(16, mlp("relu"), &images)),
        (0.95, Case::of_rows(16, mlp("gelu"), &images)),
        (
            0.85,
            Case::new(
                json!({"kind": "vit", "width": 32, "heads": 2, "layers": 2, "patch": 4}),
                &images,
            ),
        ),
        (0.85, gpt(&[])),
        (
            0.85,
            gpt(&[("norm", json!("rms")), ("activation", json!("silu"))]),
        ),
        (0.95, gpt(&[("positions", json!("rotary"))])),
        (1.0, gpt(&[("dropout", json!(0.1))])),
        (1.0, gpt(&[("recompute", json!(true))])),
    ];
    for (most, case) in cases {
        let (bits, bytes) = case.kept(None);
        let (expected, all) = case.kept(Some(&mut Everywhere));
        assert!(bits == expected, "other bits: {}", case.name);
        assert!(
            ops::are_composed_on_cpu()
                || !ops::rounds_products()
                || !sconce_ops::device::for_tests().is_cpu()
                || (bytes as f64) <= most * all as f64,
            "{bytes} of {all} bytes: {}",
            case.name
        );
    }
}

#[test]
fn losses_and_gradients_in_bf16_are_those_in_f32_but_for_rounding() {
    let mut rounded_cases = 0;
    for (case, how) in both_ways() {
        let (exact, expected) = case.run(How::Exact, 1.0);
        let (rounded, found) = case.run(how, 1.0);
        let name = format!("{how:?} {}", case.name);
        assert!(
            (exact - rounded).abs() < 0.03 * exact.abs().max(1.0),
            "{name}: {exact} {rounded}"
        );
        // Rounded to bf16, no loss is that of f32 to the last bit; kernels round large products alone.
        let is_rounded = (exact - rounded).abs() > 0.0;
        assert!(
            is_rounded || how == How::Rounded,
            "{name} was computed in f32"
        );
        rounded_cases += usize::from(is_rounded && how == How::Rounded);
        let (mut together, mut ours, mut theirs) = (0.0, 0.0, 0.0);
        for (parameter, var) in case.variables() {
            let (a, b) = (found.get(var), expected.get(var));
            let (a, b) = (a.expect("a gradient"), b.expect("a gradient"));
            assert_eq!(a.dtype(), DType::F32, "{name}: {parameter}");
            together += dot(a, b);
            ours += dot(a, a);
            theirs += dot(b, b);
        }
        let cosine = together / (ours * theirs).sqrt();
        assert!(
            cosine > 0.98,
            "{name}: the cosine of both gradients is {cosine}"
        );
        let ratio = (ours / theirs).sqrt();
        assert!(
            (0.95..1.05).contains(&ratio),
            "{name}: lengths differ by {ratio}"
        );
    }
    let is_here = ops::rounds_products() && sconce_ops::device::for_tests().is_cpu();
    assert!(
        rounded_cases >= 5 || !is_here || ops::are_composed_on_cpu(),
        "{rounded_cases}"
    );
}

fn both_ways() -> impl Iterator<Item = (Case, How)> {
    let of = |how: How| cases().into_iter().map(move |case| (case, how));
    of(How::Cast).chain(of(How::Rounded))
}

/// Along the gradient in bf16, the loss in f32 changes as much as it says.
#[test]
fn gradients_in_bf16_are_finite_differences_of_the_loss() {
    for case in cases() {
        let (_, store) = case.run(How::Cast, 1.0);
        let direction = |var: &Var| store.get(var).expect("a gradient").clone();
        let square: f64 = (case.variables().iter())
            .map(|(_, var)| dot(&direction(var), &direction(var)))
            .sum();
        let step = 1e-2 / square.sqrt();
        let at = |sign: f64| {
            let starts: Vec<Tensor> = (case.variables().iter())
                .map(|(_, var)| {
                    let start = var.as_tensor().copy().expect("a copy").detach();
                    let way = direction(var).affine(sign * step, 0.0).expect("a step");
                    var.set(&start.add(&way).expect("a sum")).expect("moved");
                    start
                })
                .collect();
            let loss = number(&case.loss());
            for ((_, var), start) in case.variables().iter().zip(starts) {
                var.set(&start).expect("moved back");
            }
            loss
        };
        let slope = (at(1.0) - at(-1.0)) / (2.0 * step);
        let name = &case.name;
        assert!(
            (slope / square - 1.0).abs() < 0.06,
            "{name}: {slope} instead of {square}"
        );
    }
}

/// So `loss-scale` may be used, though it isn't needed.
#[test]
fn a_factor_of_two_goes_through_without_rounding() {
    for case in cases() {
        let (_, once) = case.run(How::Cast, 1.0);
        let (_, scaled) = case.run(How::Cast, 1024.0);
        for (parameter, var) in case.variables() {
            let (a, b) = (once.get(var), scaled.get(var));
            let far = b.expect("a gradient").affine(1.0 / 1024.0, 0.0);
            let far = far.and_then(|b| (b - a.expect("a gradient"))?.abs()?.sum_all());
            let far = number(&far.expect("a distance"));
            assert!(far < 1e-6, "{}: {parameter}: {far}", case.name);
        }
    }
}

#[test]
fn models_train_in_bf16() {
    for (case, how) in both_ways().filter(|(case, _)| !case.name.contains("recompute")) {
        let (first, _) = case.run(how, 1.0);
        let mut optimizer = AdamW::new(1e-2);
        for _ in 0..30 {
            let (_, store) = case.run(how, 1.0);
            let gradients = Gradients::from_store(&case.parameters, &store);
            let stepped = optimizer.step(&case.parameters, &gradients);
            stepped.expect("a step");
        }
        let (last, _) = case.run(how, 1.0);
        assert!(
            last < 0.5 * first,
            "{how:?} {}: from {first} to {last}",
            case.name
        );
    }
}

#[test]
fn precisions_have_names_and_end() {
    for precision in Precision::ALL {
        let name: Value = serde_json::to_value(precision).expect("a name");
        assert_eq!(name, precision.to_string());
        let scope = precision.begin(&Device::Cpu);
        let is_composed = precision == Precision::Bf16 && ops::are_composed_on_cpu();
        assert_eq!(ops::autocast_dtype(), is_composed.then_some(DType::BF16));
        drop(scope);
        assert_eq!(ops::autocast_dtype(), None);
    }
}
