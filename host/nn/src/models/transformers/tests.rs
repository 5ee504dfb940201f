//! The families compared with `transformers`, by `tests/reference/transformers_models.py`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Tensor};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ConfigSource, TransformersConfig};
use crate::gradients::Gradients;
use crate::loss::LossConfig;
use crate::models::ModelConfig;
use crate::optim::OptimizerConfig;
use crate::parameters::{MemoryBudget, Parameters};
use crate::{Model, NamedInputs, Network, Pass, Signal, Targets, ops};

#[derive(Deserialize)]
struct Reference {
    cases: Vec<Case>,
    training: Training,
}

#[derive(Deserialize)]
struct Case {
    inputs: BTreeMap<String, Stored>,
    outputs: Stored,
}

#[derive(Deserialize)]
struct Training {
    inputs: BTreeMap<String, Stored>,
    targets: Vec<u32>,
    losses: Vec<f64>,
    /// Elements of each parameter after the steps, evenly apart.
    trained: BTreeMap<String, Vec<f64>>,
}

/// How many elements of a parameter the reference has at most.
const SAMPLED: usize = 16;

#[derive(Deserialize)]
struct Stored {
    shape: Vec<usize>,
    values: Vec<f64>,
}

fn directory(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("../../tests/reference/transformers").join(name)
}

fn tensor(stored: &Stored, dtype: DType) -> Tensor {
    let tensor = Tensor::from_slice(&stored.values, &stored.shape[..], &ops::device::for_tests());
    tensor
        .and_then(|tensor| tensor.to_dtype(dtype))
        .expect("a tensor")
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| index.to_string()).collect()
}

/// Samples and targets like those of the reference.
fn shapes(name: &str, reference: &Reference) -> (Signal, Targets) {
    let case = &reference.cases[0];
    let classes = names(*case.outputs.shape.last().expect("classes"));
    let targets = match case.outputs.shape.len() {
        3 => Targets::ClassPerPosition(classes),
        _ => Targets::Class(classes),
    };
    let input = if let Some(images) = case.inputs.get("pixel_values") {
        Signal::numbers(&images.shape[1..])
    } else {
        let longest = reference
            .cases
            .iter()
            .map(|case| case.inputs["input_ids"].shape[1]);
        let length = longest.max().expect("a case");
        let tokens = Signal::tokens(length, 40).up_to();
        if name.starts_with("bert") {
            tokens.with("token_types", Signal::tokens(length, 2).up_to())
        } else {
            tokens
        }
    };
    (input, targets)
}

/// The batch of a case, and the pass that reads it.
fn batch<'a>(
    inputs: &BTreeMap<String, Stored>,
    dtype: DType,
    mut pass: Pass<'a>,
) -> (Tensor, Pass<'a>) {
    if let Some(types) = inputs.get("token_type_ids") {
        let types = ("token_types".to_owned(), tensor(types, DType::U32));
        pass.set_named_inputs(NamedInputs::new([types].into()));
    }
    let x = match inputs.get("pixel_values") {
        Some(images) => tensor(images, dtype),
        None => tensor(&inputs["input_ids"], DType::U32),
    };
    (x, pass)
}

/// The model with the weights that `transformers` has written.
fn loaded(name: &str, reference: &Reference, dtype: DType) -> (Network, Parameters, Targets) {
    let mut config: ModelConfig = serde_json::from_value(json!({
        "kind": "transformers", "config": directory(name)
    }))
    .expect("a model");
    config.read_files(Path::new("")).expect("its config.json");
    assert_eq!(config.warnings(), [""; 0], "{name}");
    let (input, targets) = shapes(name, reference);
    let mut parameters = Parameters::new(1, dtype, &ops::device::for_tests());
    let network = config
        .build(&mut parameters, &input, &targets)
        .expect("a model");
    let file = directory(name).join("model.safetensors");
    let weights = candle_core::safetensors::load(file, &ops::device::for_tests());
    let weights = weights.expect("weights");
    let mut wanted: Vec<&str> = weights.keys().map(String::as_str).collect();
    let mut found: Vec<&str> = parameters
        .iter()
        .map(sconce_parameters::Parameter::name)
        .collect();
    wanted.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, wanted, "{name}");
    for parameter in parameters.iter() {
        let weight = &weights[parameter.name()];
        assert_eq!(
            parameter.tensor().dims(),
            weight.dims(),
            "{}",
            parameter.name()
        );
        parameter.assign(weight).expect("assigned");
    }
    (network, parameters, targets)
}

fn reference(name: &str) -> Reference {
    let text = std::fs::read_to_string(directory(name).join("reference.json"));
    serde_json::from_str(&text.expect("the reference")).expect("JSON")
}

fn agree_outputs(name: &str) {
    let reference = reference(name);
    let (network, _, _) = loaded(name, &reference, DType::F32);
    for case in &reference.cases {
        let (x, mut pass) = batch(&case.inputs, DType::F32, Pass::evaluation());
        let y = network.forward(&x, &mut pass).expect("forward");
        assert_eq!(y.dims(), case.outputs.shape, "{name}");
        let y = y
            .flatten_all()
            .and_then(|y| y.to_vec1::<f32>())
            .expect("outputs");
        let wanted = &case.outputs.values;
        let largest = wanted.iter().fold(1.0_f64, |most, y| most.max(y.abs()));
        for (found, wanted) in y.iter().zip(wanted) {
            let apart = (f64::from(*found) - wanted).abs();
            assert!(
                apart <= 1e-5 * largest,
                "{name}: {found} {wanted}, of up to {largest}"
            );
        }
    }
}

/// Whether it is a bias of keys: softmax does not see it, its gradient is rounding error, and Adam makes full steps of that.
fn is_bias_of_keys(name: &str) -> bool {
    let is_key = [".c_attn.bias", ".key.bias", ".k_proj.bias"];
    is_key.iter().any(|end| name.ends_with(end))
}

/// Twenty steps: losses in the type that models train in, and what is trained in the reference's.
fn agree_training(name: &str, dtype: DType) {
    let reference = reference(name);
    let (network, parameters, targets) = loaded(name, &reference, dtype);
    let optimizer = json!({"kind": "adamw", "learning_rate": 1e-3, "weight_decay": 0.01});
    let optimizer: OptimizerConfig = serde_json::from_value(optimizer).expect("a config");
    let mut optimizer = optimizer.build(&parameters).expect("an optimizer");
    let loss = LossConfig::default_for(&targets)
        .build(&targets, None)
        .expect("a loss");
    let Training {
        inputs,
        targets: classes,
        losses,
        trained,
    } = &reference.training;
    for (step, wanted) in losses.iter().enumerate() {
        let recording = ops::record();
        let (x, mut pass) = batch(inputs, dtype, Pass::training());
        let y = network.forward(&x, &mut pass).expect("forward");
        let shape = y.dims()[..y.rank() - 1].to_vec();
        let classes = Tensor::from_slice(classes, shape, &ops::device::for_tests());
        let loss = loss
            .forward(&y, &classes.expect("targets"))
            .expect("a loss");
        let store = ops::backward(&loss, 1.0).expect("backward");
        drop(recording);
        let gradients = Gradients::from_store(&parameters, &store);
        optimizer.step(&parameters, &gradients).expect("a step");
        let found = loss
            .to_dtype(DType::F64)
            .and_then(|loss| loss.to_scalar::<f64>());
        let found = found.expect("a number");
        let apart = (found - wanted).abs();
        assert!(
            apart <= 1e-5 * wanted.max(1.0),
            "{name}, step {step}: {found} {wanted}"
        );
    }
    if dtype != DType::F64 {
        return;
    }
    let compared = trained.iter().filter(|(name, _)| !is_bias_of_keys(name));
    for (parameter, wanted) in compared {
        let own = parameters.get(parameter).expect("a parameter");
        let all = own.tensor().flatten_all().and_then(|x| x.to_vec1::<f64>());
        let all = all.expect("elements");
        let found = all.iter().step_by(all.len().div_ceil(SAMPLED));
        assert_eq!(found.len(), wanted.len(), "{name}: {parameter}");
        for (found, wanted) in found.zip(wanted) {
            assert!(
                (found - wanted).abs() <= 1e-4,
                "{name}: {parameter}: {found} {wanted}"
            );
        }
    }
}

macro_rules! families {
    ($($test:ident: $($name:literal),+;)+) => {
        $(#[test]
        fn $test() {
            for name in [$($name),+] {
                agree_outputs(name);
                agree_training(name, DType::F64);
                // Batch norms of a few numbers per channel make more of roundings than 20 steps of other layers.
                if !name.starts_with("resnet") {
                    agree_training(name, DType::F32);
                }
            }
        })+
    };
}

families! {
    gpt2_is_that_of_transformers: "gpt2";
    llama_is_that_of_transformers: "llama", "llama-tied";
    mistral_is_that_of_transformers: "mistral";
    qwen_is_that_of_transformers: "qwen2", "qwen3";
    bert_is_that_of_transformers_at_all_lengths: "bert", "bert-language";
    vit_is_that_of_transformers: "vit";
    resnet_is_that_of_transformers_with_both_blocks: "resnet", "resnet-basic";
    convnext_is_that_of_transformers: "convnext";
}

fn of(values: Value) -> TransformersConfig {
    let Value::Object(values) = values else {
        panic!("not an object: {values}")
    };
    TransformersConfig {
        config: ConfigSource::Object(values),
        head: None,
        recompute: false,
    }
}

fn built(values: Value, input: &Signal, budget: u64) -> Result<(), String> {
    let budget = MemoryBudget::new(budget, 1, 1);
    let mut parameters = Parameters::counting(DType::F32, budget);
    let model = ModelConfig::Transformers(of(values));
    let network = model.build(&mut parameters, input, &Targets::Class(names(3)));
    network.map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn what_a_configuration_can_not_have_is_refused_with_its_key() {
    let tokens = Signal::tokens(8, 40);
    for (values, part) in [
        (json!({}), "no `model_type`; families are `gpt2`, `llama`"),
        (
            json!({"model_type": "gemma"}),
            "is `gemma`, and families are",
        ),
        (
            json!({"model_type": "gpt2", "n_layer": -1}),
            "`n_layer` of the model's `config.json` is -1; it must be a whole number",
        ),
        (
            json!({"model_type": "gpt2", "n_layer": 1_000_000_000}),
            "at most 10000 layers",
        ),
        (
            json!({"model_type": "gpt2", "attn_pdrop": 1.0}),
            "from 0 to below 1",
        ),
        (
            json!({"model_type": "gpt2", "activation_function": "mish"}),
            "`activation_function`",
        ),
        (
            json!({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true}),
            "the scores of each layer would be divided by its number",
        ),
        (
            json!({"model_type": "gpt2", "n_positions": 4}),
            "has a table of 4 positions",
        ),
        (
            json!({"model_type": "gpt2", "vocab_size": 12}),
            "has a table of 12 rows",
        ),
        (
            json!({"model_type": "llama", "rope_scaling": {"rope_type": "yarn", "factor": 2.0}}),
            "angles are `default`, `linear` or `llama3` here",
        ),
        (
            json!({"model_type": "llama", "rope_scaling": {"type": "linear"}}),
            "it has no `factor` above 0",
        ),
        (
            json!({"model_type": "qwen2", "use_sliding_window": true}),
            "only some layers would have the window",
        ),
        (
            json!({"model_type": "qwen3", "layer_types": ["sliding_attention"]}),
            "all layers attend alike here",
        ),
        (
            json!({"model_type": "bert", "is_decoder": true}),
            "the family's attention is that of an encoder",
        ),
        (
            json!({"model_type": "bert", "position_embedding_type": "relative_key"}),
            "positions are a table of vectors here",
        ),
        (
            json!({"model_type": "vit"}),
            "the model takes images of shape [3, 224, 224], by its `config.json`, and the data has tokens",
        ),
    ] {
        let found = built(values, &tokens, 1 << 40).expect_err(part);
        assert!(found.contains(part), "{found}\n{part}");
    }
    let images = Signal::numbers([3, 32, 32]);
    for (values, part) in [
        (
            json!({"model_type": "resnet", "depths": [1]}),
            "4 numbers from 1 to 10000, one for each stage",
        ),
        (
            json!({"model_type": "resnet", "num_channels": 1}),
            "the model takes images of 1 channels",
        ),
        (
            json!({"model_type": "resnet", "layer_type": "deep"}),
            "blocks are `basic` or `bottleneck`",
        ),
        (
            json!({"model_type": "convnext", "num_stages": 3}),
            "`num_stages`",
        ),
    ] {
        let found = built(values, &images, 1 << 40).expect_err(part);
        assert!(found.contains(part), "{found}\n{part}");
    }
}

#[test]
fn hostile_sizes_are_errors_before_memory_is_taken() {
    let tokens = Signal::tokens(8, 40);
    for values in [
        json!({"model_type": "gpt2", "n_embd": 4_000_000_000_000_u64, "n_head": 1}),
        json!({"model_type": "llama", "hidden_size": 1_u64 << 62, "intermediate_size": 1_u64 << 62}),
        json!({"model_type": "bert", "num_hidden_layers": 10_000, "vocab_size": u64::MAX >> 1}),
        json!({"model_type": "gpt2", "n_layer": 10_000}),
    ] {
        let found = built(values.clone(), &tokens, 1 << 30);
        assert!(found.is_err(), "{values}");
    }
}

#[test]
fn unknown_keys_are_warned_of_and_files_are_read_once() {
    let config = of(json!({"model_type": "gpt2", "n_layers": 3, "transformers_version": "5.24.0"}));
    let warnings = config.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("`n_layers`") && warnings[0].contains("is `n_layer` meant?"),
        "{warnings:?}"
    );
    let mut config: TransformersConfig =
        serde_json::from_value(json!({"config": "gpt2"})).expect("a config");
    assert!(
        config
            .layers(
                &Signal::tokens(8, 40),
                &Targets::ClassPerPosition(names(40))
            )
            .is_err()
    );
    config.read(&directory("")).expect("the file");
    assert!(matches!(config.config, ConfigSource::Object(_)));
    let layers = config.layers(
        &Signal::tokens(8, 40),
        &Targets::ClassPerPosition(names(40)),
    );
    let layers = serde_json::to_value(layers.expect("layers")).expect("JSON");
    assert_eq!(layers[2]["kind"], "repeat");
    assert_eq!(
        layers[4],
        json!({"kind": "linear", "name": "lm_head", "tied": "transformer.wte"})
    );
    let mut config: TransformersConfig =
        serde_json::from_value(json!({"config": "none"})).expect("a config");
    let error = config
        .read(&directory(""))
        .expect_err("no file")
        .to_string();
    assert!(error.contains("can't be read"), "{error}");
    let mut config: TransformersConfig =
        serde_json::from_value(json!({"config": "gpt2/model.safetensors"})).expect("a config");
    let error = config
        .read(&directory(""))
        .expect_err("no JSON")
        .to_string();
    assert!(error.contains("is not a `config.json`"), "{error}");
}

#[test]
fn names_of_other_versions_are_data() {
    let vit = of(json!({"model_type": "vit"})).names();
    let of_memory = "vit.layers.0.attention.q_proj.weight";
    let renamed = vit
        .spellings
        .iter()
        .fold(of_memory.to_owned(), |name, (from, to)| {
            name.replace(from, to)
        });
    assert_eq!(
        renamed,
        "vit.encoder.layer.0.attention.attention.query.weight"
    );
    let gpt2 = of(json!({"model_type": "gpt2"})).names();
    assert_eq!(gpt2.tied[0].parameter, "transformer.wte.weight");
    assert!(of(json!({"model_type": "llama"})).names().tied.is_empty());
}

/// As `GPT2PreTrainedModel._init_weights` of `transformers`: all `c_proj` by 1 / √(2 · blocks) of the others' deviation.
#[test]
fn gpt2_starts_its_projections_back_to_the_sum_smaller() {
    let config = json!({"model_type": "gpt2", "n_embd": 96, "n_head": 2, "n_layer": 8, "n_positions": 8, "vocab_size": 40,
        "initializer_range": 0.2});
    let mut parameters = Parameters::new(1, DType::F32, &ops::device::for_tests());
    let model = ModelConfig::Transformers(of(config));
    let targets = Targets::ClassPerPosition(names(40));
    let network = model.build(&mut parameters, &Signal::tokens(8, 40), &targets);
    network.expect("a network");
    let deviation = |name: &str| {
        let found = parameters.iter().find(|parameter| parameter.name() == name);
        let tensor = found.expect("a parameter").tensor();
        let mean = tensor.sqr().and_then(|squares| squares.mean_all());
        f64::from(
            mean.and_then(|mean| mean.to_scalar::<f32>())
                .expect("a mean"),
        )
        .sqrt()
    };
    for (layer, expected) in [
        ("attn.c_attn", 0.2),
        ("attn.c_proj", 0.05),
        ("mlp.c_fc", 0.2),
        ("mlp.c_proj", 0.05),
    ] {
        let found = deviation(&format!("transformer.h.3.{layer}.weight"));
        assert!((found / expected - 1.0).abs() < 0.05, "{layer}: {found}");
    }
}
