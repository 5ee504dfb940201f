//! The same steps as in PyTorch, from the same initialisation on the same batches.
//!
//! `tests/reference/training.py` made the figures; what it hashes is hashed here.

use std::collections::{BTreeMap, HashMap};
use std::process::Command;

use candle_core::{DType, Device, Tensor};
use sconce::data::Targets;
use sconce::gradients::Gradients;
use sconce::loss::LossConfig;
use sconce::nn::ops::kernels::{InstructionLevel, level};
use sconce::nn::{Model, ModelConfig, Network, Pass, PassPosition, Signal};
use sconce::optim::{AdamW, Optimizer};
use sconce::parameters::Parameters;
use sconce::weights;
use sconce_plugin_api::Phase;
use sconce_tests::{say, workspace};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Reference {
    steps: usize,
    batches: usize,
    tasks: BTreeMap<String, Losses>,
}

#[derive(Deserialize)]
struct Losses {
    batch_size: usize,
    f64: Vec<f64>,
    f32: Vec<f64>,
}

fn reference() -> Reference {
    let file = workspace().join("tests/reference/training.json");
    let text = std::fs::read_to_string(file).expect("the figures");
    serde_json::from_str(&text).expect("JSON")
}

/// `hashed` of `models.py`.
fn hashed(name: &str, index: usize) -> f64 {
    let key = name.bytes().fold(0_u32, |key, byte| {
        key.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    let mut x = (index as u32).wrapping_mul(2_654_435_761).wrapping_add(key);
    x ^= x >> 16;
    x = x.wrapping_mul(0x045d_9f3b);
    x ^= x >> 16;
    f64::from(x) / 2_f64.powi(32)
}

/// Numbers from -1 to below 1, rounded to `f32`.
fn uniform(name: &str, shape: &[usize], scale: f64, dtype: DType) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count)
        .map(|index| ((2.0 * hashed(name, index) - 1.0) * scale) as f32)
        .collect();
    let tensor = Tensor::from_vec(values, shape, &Device::Cpu);
    tensor
        .and_then(|tensor| tensor.to_dtype(dtype))
        .expect("a tensor")
}

fn below(name: &str, count: usize, bound: f64) -> Vec<u32> {
    (0..count)
        .map(|index| (hashed(name, index) * bound) as u32)
        .collect()
}

/// A layer of a `sequential` model.
fn layer(kind: &str, keys: Value) -> Value {
    let mut layer = keys;
    layer["kind"] = kind.into();
    layer
}

fn relu() -> Value {
    layer("relu", json!({}))
}

/// The model of `models.py` of this name.
fn config(task: &str) -> Value {
    let sequential = |layers: Vec<Value>| json!({"kind": "sequential", "layers": layers});
    match task {
        "mlp" => json!({"kind": "mlp", "hidden": [256]}),
        "lenet" => json!({"kind": "convnet", "conv_activation": "identity", "hidden": [1024]}),
        "gpt" => json!({"kind": "gpt"}),
        "tabular" => json!({"kind": "mlp", "hidden": [48, 48, 48, 48]}),
        "wide" => json!({"kind": "mlp", "hidden": [128, 128]}),
        "online" => json!({"kind": "mlp", "hidden": [32]}),
        "autoencoder" => json!({"kind": "mlp", "hidden": [64, 16, 8, 16, 64]}),
        "vgg" => sequential(vgg()),
        "resnet18" => json!({"kind": "resnet", "width": 8}),
        "depthwise" => sequential(depthwise()),
        "vit" => json!({"kind": "vit", "width": 24, "layers": 2}),
        _ => json!({"kind": "gpt", "layers": 8, "heads": 8, "width": 32}),
    }
}

fn vgg() -> Vec<Value> {
    let conv = |index: usize, channels: usize| {
        let name = format!("conv{index}");
        let keys = json!({"name": name, "channels": channels, "kernel": 3, "padding": 1});
        [layer("conv2d", keys), relu()]
    };
    let pool = || [layer("max-pool2d", json!({"kernel": 2}))];
    let mut layers = Vec::new();
    layers.extend(conv(1, 8).into_iter().chain(conv(2, 8)).chain(pool()));
    layers.extend(conv(3, 16).into_iter().chain(conv(4, 16)).chain(pool()));
    layers.push(layer("flatten", json!({})));
    layers.push(layer("linear", json!({"name": "fc1", "outputs": 32})));
    layers.extend([relu(), layer("linear", json!({"name": "fc2"}))]);
    layers
}

fn depthwise() -> Vec<Value> {
    let mut layers = Vec::new();
    let mut add = |channels: usize, kernel: usize, stride: usize, groups: usize| {
        let index = layers.len() / 3 + 1;
        let conv = json!({
            "name": format!("conv{index}"), "channels": channels, "kernel": kernel, "stride": stride,
            "padding": kernel / 2, "groups": groups, "bias": false
        });
        let norm = json!({"name": format!("bn{index}")});
        layers.extend([layer("conv2d", conv), layer("batch-norm", norm), relu()]);
    };
    add(8, 3, 1, 1);
    let mut inputs = 8;
    for (outputs, stride) in [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1)] {
        add(inputs, 3, stride, inputs);
        add(outputs, 1, 1, 1);
        inputs = outputs;
    }
    layers.push(layer("adaptive-avg-pool2d", json!({})));
    layers.push(layer("flatten", json!({})));
    layers.push(layer("linear", json!({"name": "fc"})));
    layers
}

/// Number of tokens of a sample, for a text.
fn context(task: &str) -> Option<usize> {
    match task {
        "gpt" => Some(64),
        "gpt-8x256" => Some(32),
        _ => None,
    }
}

/// Shape of a sample that is not a text.
fn sample(task: &str) -> &'static [usize] {
    match task {
        "tabular" => &[54],
        "autoencoder" => &[96],
        "vgg" => &[1, 12, 12],
        "resnet18" | "depthwise" | "vit" => &[3, 16, 16],
        _ => &[1, 28, 28],
    }
}

fn targets(task: &str) -> Targets {
    let names = |count: usize| (0..count).map(|index| index.to_string()).collect();
    match task {
        "gpt" | "gpt-8x256" => Targets::ClassPerPosition(names(256)),
        "autoencoder" => Targets::Numbers(names(96)),
        "tabular" => Targets::Class(names(7)),
        _ => Targets::Class(names(10)),
    }
}

fn model(task: &str, dtype: DType) -> (Network, Parameters) {
    let config: ModelConfig = serde_json::from_value(config(task)).expect("a model");
    let input = match context(task) {
        Some(length) => Signal::tokens(length, 256),
        None => Signal::numbers(sample(task)),
    };
    let mut parameters = Parameters::new(0, dtype, &Device::Cpu);
    let network = config
        .build(&mut parameters, &input, &targets(task))
        .expect("a model");
    initialise(&parameters);
    (network, parameters)
}

/// `initialise` of `models.py`.
fn initialise(parameters: &Parameters) {
    for parameter in parameters.iter() {
        let (layer, _) = parameter.name().rsplit_once('.').expect("a layer");
        let weight = parameters
            .get(&format!("{layer}.weight"))
            .expect("a weight");
        // Normalisations stay as they are.
        if weight.tensor().rank() == 1 {
            continue;
        }
        let fan_in: usize = weight.tensor().dims()[1..].iter().product();
        let scale = match layer {
            "tok" | "pos" => 0.5,
            _ => 1.0 / (fan_in as f64).sqrt(),
        };
        let tensor = parameter.tensor();
        let values = uniform(parameter.name(), tensor.dims(), scale, tensor.dtype());
        parameter.var().set(&values).expect("set");
    }
}

/// Inputs and targets; of a text the tokens and those one further.
fn batch(task: &str, index: usize, size: usize, dtype: DType) -> (Tensor, Tensor) {
    if let Some(length) = context(task) {
        let tokens = below(&format!("tokens/{index}"), size * (length + 1), 256.0);
        let tokens = Tensor::from_vec(tokens, (size, length + 1), &Device::Cpu).expect("tokens");
        let part = |start| {
            tokens
                .narrow(1, start, length)
                .and_then(|part| part.contiguous())
        };
        return (part(0).expect("inputs"), part(1).expect("targets"));
    }
    let shape = [&[size], sample(task)].concat();
    let images = uniform(&format!("images/{index}"), &shape, 1.0, dtype);
    let targets = match targets(task) {
        Targets::Numbers(_) => images.clone(),
        classes => {
            let labels = below(&format!("labels/{index}"), size, classes.outputs() as f64);
            Tensor::from_vec(labels, size, &Device::Cpu).expect("labels")
        }
    };
    (images, targets)
}

fn losses(task: &str, dtype: DType, size: usize, reference: &Reference, steps: usize) -> Vec<f64> {
    let (network, parameters) = model(task, dtype);
    let (targets, mut optimizer) = (targets(task), AdamW::new(1e-3).with_weight_decay(0.01));
    let loss = LossConfig::default_for(&targets).build(&targets, None);
    let loss = loss.expect("it fits the targets");
    let mut found = Vec::new();
    for step in 0..steps {
        let (x, y) = batch(task, step % reference.batches, size, dtype);
        let mut pass = Pass::training().at(PassPosition::default());
        let outputs = network.forward(&x, &mut pass).expect("forward");
        let loss = loss.forward(&outputs, &y).expect("a loss");
        let store = loss.backward().expect("backward");
        let gradients = Gradients::from_store(&parameters, &store);
        optimizer.step(&parameters, &gradients).expect("a step");
        let loss = loss
            .to_dtype(DType::F64)
            .and_then(|loss| loss.to_scalar::<f64>());
        found.push(loss.expect("a number"));
    }
    found
}

fn agree(task: &str, found: &[f64], wanted: &[f64], tolerance: f64) {
    for (step, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let difference = (found - wanted).abs() / wanted;
        assert!(
            difference <= tolerance,
            "{task}, step {step}: {found}, PyTorch has {wanted}: {difference:e} apart"
        );
    }
}

/// In `f64`, so that what is compared is the arithmetic: 1e-6 relative over all steps.
#[test]
fn a_hundred_steps_of_the_mlp_are_pytorchs() {
    compare("mlp", "a_hundred_steps_of_the_mlp_are_pytorchs", 100);
}

#[test]
fn a_hundred_steps_of_the_convnet_are_pytorchs() {
    compare("lenet", "a_hundred_steps_of_the_convnet_are_pytorchs", 100);
}

#[test]
fn a_hundred_steps_of_the_gpt_are_pytorchs() {
    compare("gpt", "a_hundred_steps_of_the_gpt_are_pytorchs", 100);
}

/// One test each, so that they run at the same time.
macro_rules! hundred_steps {
    ($($test:ident: $task:literal,)*) => {
        $(#[test]
        fn $test() {
            compare($task, stringify!($test), 100);
        })*
    };
}

hundred_steps! {
    a_hundred_steps_of_the_table_are_pytorchs: "tabular",
    a_hundred_steps_of_the_wide_mlp_are_pytorchs: "wide",
    a_hundred_steps_of_single_samples_are_pytorchs: "online",
    a_hundred_steps_of_the_autoencoder_are_pytorchs: "autoencoder",
    a_hundred_steps_of_the_vgg_are_pytorchs: "vgg",
    a_hundred_steps_of_the_resnet_are_pytorchs: "resnet18",
    a_hundred_steps_of_the_mobilenet_are_pytorchs: "depthwise",
    a_hundred_steps_of_the_vit_are_pytorchs: "vit",
    a_hundred_steps_of_the_deep_gpt_are_pytorchs: "gpt-8x256",
}

/// Both types: `f64` over all steps, and `f32` as long as PyTorch's own `f32` stays by its `f64`:
/// past that only its rounding could be compared.
///
/// Rounding is that of one thread, in a process of its own: sums are shared out by the number of threads, and after
/// some tens of steps of `f32` a convnet shows that, since of two equal numbers of a square either may be the largest.
fn compare(task: &str, test: &str, steps: usize) {
    if std::env::var("CANDLE_NUM_THREADS").as_deref() != Ok("1") {
        let program = std::env::current_exe().expect("this program");
        let done = std::process::Command::new(program)
            .args(["--exact", &format!("pytorch::{test}"), "--nocapture"])
            .envs([("CANDLE_NUM_THREADS", "1"), ("RAYON_NUM_THREADS", "1")])
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(
            said.contains("1 passed"),
            "{said}{}",
            String::from_utf8_lossy(&done.stderr)
        );
        return;
    }
    let reference = reference();
    assert_eq!(reference.steps, steps);
    let wanted = &reference.tasks[task];
    let found = losses(task, DType::F64, wanted.batch_size, &reference, steps);
    assert_eq!(found.len(), steps);
    agree(task, &found, &wanted.f64, 1e-6);
    let pairs = wanted.f32.iter().zip(&wanted.f64);
    let same = pairs.take_while(|(single, double)| ((*single - *double) / *double).abs() < 2e-5);
    let mut steps = same.count();
    if level() != InstructionLevel::Avx512 {
        // Sums have another order there than in the reference, and roundings are as large some steps sooner: those of the mobilenet pass
        // the limit at step 43 of 50.
        steps = steps * 4 / 5;
    }
    // Of batch norms over a few numbers each, rounding grows fastest.
    let least = if task == "resnet18" { 10 } else { 20 };
    assert!(steps >= least, "{task}: {steps}");
    let found = losses(task, DType::F32, wanted.batch_size, &reference, steps);
    // Operations composed of candle's add in another order, and roundings grow from step to step: the mobilenet's losses are 2e-4
    // apart after 46 steps. In double precision, which checks the formulas, the limit is one for both.
    let composed = std::env::var("SCONCE_OPS").is_ok_and(|operations| operations == "composed");
    agree(
        task,
        &found,
        &wanted.f32,
        if composed { 1e-3 } else { 1e-4 },
    );
}

/// Weights go to PyTorch by name, strictly, and come back from there.
#[test]
fn weights_go_to_pytorch_and_come_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    let config: ModelConfig =
        serde_json::from_value(json!({"kind": "resnet", "blocks": [1, 1], "width": 4}))
            .expect("a model");
    let names = (0..10).map(|class| class.to_string()).collect();
    let mut parameters = Parameters::new(4, DType::F32, &Device::Cpu);
    let input = Signal::numbers([1, 12, 12]);
    let network = config.build(&mut parameters, &input, &Targets::Class(names));
    let network = network.expect("a model");
    let inputs = uniform("inputs", &[3, 1, 12, 12], 1.0, DType::F32);
    let outputs = |phase| {
        network
            .forward(&inputs, &mut Pass::new(phase == Phase::Train))
            .expect("forward")
    };
    // Running statistics other than those of the start.
    outputs(Phase::Train);
    weights::save(&file("weights.safetensors"), &parameters).expect("saved");
    let given = HashMap::from([
        ("inputs".to_owned(), inputs.clone()),
        ("outputs".to_owned(), outputs(Phase::Val)),
    ]);
    candle_core::safetensors::save(&given, file("inputs.safetensors")).expect("saved");
    let python = std::env::var("SCONCE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = workspace().join("tests/reference/interop.py");
    let finished = Command::new(&python)
        .arg(script)
        .arg(directory.path())
        .output();
    let Ok(finished) = finished else {
        say(&format!("skipped: `{python}` can't be started"));
        return;
    };
    let printed = String::from_utf8_lossy(&finished.stdout).into_owned();
    if finished.status.code() == Some(77) {
        say(&format!("PyTorch is not here: {printed}"));
        return;
    }
    let errors = String::from_utf8_lossy(&finished.stderr);
    assert!(finished.status.success(), "{printed}\n{errors}");
    weights::load(&file("from_torch.safetensors"), &parameters, true).expect("they fit");
    let expected = weights::read(&file("expected.safetensors")).expect("outputs");
    let numbers = |tensor: &Tensor| tensor.flatten_all().and_then(|t| t.to_vec1::<f32>());
    let found = numbers(&outputs(Phase::Val)).expect("numbers");
    let wanted = numbers(&expected[0].1).expect("numbers");
    assert_eq!((found.len(), wanted.len()), (30, 30));
    for (found, wanted) in found.iter().zip(&wanted) {
        assert!((found - wanted).abs() < 1e-5, "{found} {wanted}");
    }
}
