//! Adapters compared with PEFT's, by files and numbers that `tests/reference/peft_lora.py` has written.

use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use sconce_base::held_directory::HeldDirectory;
use serde_json::{Value, json};

use super::*;
use crate::gradients::Gradients;
use crate::loss::cross_entropy;
use crate::manifest::AdaptConfig;
use crate::nn::{ModelConfig, Network, Pass, Signal, Targets};
use crate::optim::OptimizerConfig;
use crate::parameters::{Parameter, ParameterRole, Parameters};
use crate::weights::{self, FamilyNames, Renames};
use sconce_nn::Model as _;
use sconce_ops::{backward, hold, record};

fn place() -> PathBuf {
    of_method("peft_lora")
}

/// Directory of PEFT's files and numbers of a method.
fn of_method(name: &str) -> PathBuf {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reference");
    all.join(name)
}

fn reference(place: &Path) -> Value {
    let text = fs_err::read_to_string(place.join("reference.json")).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

fn model() -> ModelConfig {
    let layers = json!([
        {"kind": "linear", "name": "fc1", "outputs": 8}, {"kind": "relu"},
        {"kind": "linear", "name": "fc2", "outputs": 8}, {"kind": "relu"},
        {"kind": "linear", "name": "head"},
    ]);
    serde_json::from_value(json!({"kind": "sequential", "layers": layers})).expect("a model")
}

fn config(of: Value) -> AdaptConfig {
    serde_json::from_value(of).expect("a configuration")
}

fn lora() -> AdaptConfig {
    config(json!({"kind": "lora", "rank": 2, "alpha": 6, "modules": ["fc?"], "train": ["head.*"]}))
}

fn dora() -> AdaptConfig {
    config(
        json!({"kind": "lora", "rank": 2, "alpha": 6, "dora": true, "modules": ["fc?"], "train": ["head.*"]}),
    )
}

/// The network with its base loaded, adapted as configured.
fn built(config: Option<&AdaptConfig>) -> (Parameters, Network) {
    let mut parameters = Parameters::new(1, DType::F64, &Device::Cpu);
    if let Some(config) = config {
        parameters.adapt(plan(config, &model()).expect("a plan"));
    }
    let targets = Targets::Class(["a", "b", "c"].map(str::to_owned).to_vec());
    let network = model().build(&mut parameters, &Signal::numbers([6]), &targets);
    check(&parameters).expect("a model that can have them");
    let base = place().join("model.safetensors");
    weights::load(&base, &parameters, true).expect("the base fits");
    begin_magnitudes(&parameters).expect("lengths");
    (parameters, network.expect("a network"))
}

fn tensor(value: &Value) -> Tensor {
    let rows: Vec<Vec<f64>> = serde_json::from_value(value.clone()).expect("rows");
    Tensor::new(rows, &Device::Cpu).expect("a tensor")
}

fn flat(tensor: &Tensor) -> Vec<f64> {
    let numbers = tensor.to_dtype(DType::F64).and_then(|t| t.flatten_all());
    numbers.and_then(|t| t.to_vec1()).expect("numbers")
}

#[track_caller]
fn close(found: &Tensor, expected: &[f64], tolerance: f64) {
    let found = flat(found);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance, "{found} {expected}");
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).expect("numbers")
}

fn outputs(network: &Network, inputs: &Tensor) -> Tensor {
    let outputs = network.forward(inputs, &mut Pass::evaluation());
    outputs.expect("a pass")
}

/// Trains for 20 steps; returns the losses.
fn train(parameters: &Parameters, network: &Network, reference: &Value) -> Vec<f64> {
    let targets: Vec<u32> = serde_json::from_value(reference["targets"].clone()).expect("classes");
    let targets = Tensor::new(targets, &Device::Cpu).expect("a tensor");
    let inputs = tensor(&reference["inputs"]);
    let adamw = json!({"kind": "adamw", "learning_rate": 0.01, "weight_decay": 0.1});
    let optimizer: OptimizerConfig = serde_json::from_value(adamw).expect("an optimizer");
    let mut optimizer = optimizer.build(parameters).expect("an optimizer");
    let mut losses = Vec::new();
    for _ in 0..20 {
        let _recording = record();
        let _held = hold(parameters.held());
        let outputs = network.forward(&inputs, &mut Pass::training());
        let loss = outputs.and_then(|outputs| cross_entropy(&outputs, &targets));
        let loss = loss.expect("a loss");
        let store = backward(&loss, 1.0).expect("gradients");
        let gradients = Gradients::from_store(parameters, &store);
        for (index, parameter) in parameters.iter().enumerate() {
            let has_gradient = gradients.at(index).is_some();
            assert_eq!(
                has_gradient,
                parameter.is_trainable(),
                "{}",
                parameter.name()
            );
        }
        optimizer.step(parameters, &gradients).expect("a step");
        losses.push(loss.to_scalar::<f64>().expect("a number"));
    }
    losses
}

#[test]
fn outputs_steps_and_merged_weights_are_pefts() {
    for (place, config, trained) in [("peft_lora", lora(), 6), ("peft_dora", dora(), 8)] {
        are_pefts(&of_method(place), &config, trained);
    }
}

fn are_pefts(place: &Path, config: &AdaptConfig, trained: usize) {
    let reference = reference(place);
    let (parameters, network) = built(Some(config));
    let base = fingerprint(&parameters).expect("a fingerprint");
    let comparison = load(&place.join("adapter"), &parameters).expect("the adapter fits");
    assert_eq!(comparison.matched.len(), trained);
    let inputs = tensor(&reference["inputs"]);
    close(
        &outputs(&network, &inputs),
        &flat(&tensor(&reference["outputs"])),
        1e-12,
    );

    let losses = train(&parameters, &network, &reference);
    let expected = numbers(&reference["losses"]);
    for (found, expected) in losses.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-10, "{found} {expected}");
    }
    for (name, expected) in reference["trained"].as_object().expect("parameters") {
        let found = parameters.get(name).expect("it is there").tensor();
        close(found, &numbers(expected), 1e-10);
    }
    assert_eq!(fingerprint(&parameters).expect("a fingerprint"), base);

    let named: Vec<(&str, &Tensor)> = parameters.iter().map(|p| (p.name(), p.tensor())).collect();
    let adapters = parameters.adapters().expect("they are there");
    let merged = merged(adapters, &named).expect("merged");
    let expected = reference["merged"].as_object().expect("weights");
    assert_eq!(merged.len(), expected.len());
    let (plain, whole) = built(None);
    for (name, tensor) in &merged {
        close(tensor, &numbers(&expected[name]), 1e-10);
        plain
            .get(name)
            .expect("it is there")
            .assign(tensor)
            .expect("set");
    }
    let unmerged = flat(&outputs(&network, &inputs));
    close(&outputs(&whole, &inputs), &unmerged, 1e-12);
    close(
        &outputs(&network, &inputs),
        &flat(&tensor(&reference["trained_outputs"])),
        1e-10,
    );
}

#[test]
fn what_is_written_is_read_again_and_merged_into_files() {
    for (place, config) in [("peft_lora", lora()), ("peft_dora", dora())] {
        are_the_same_again(&of_method(place), &config);
    }
}

fn are_the_same_again(place: &Path, of_run: &AdaptConfig) {
    let (parameters, network) = built(Some(of_run));
    load(&place.join("adapter"), &parameters).expect("the adapter fits");
    let directory = tempfile::tempdir().expect("a directory");
    let run = HeldDirectory::hold(directory.path());
    let base = place.join("model.safetensors");
    save_results(&run, &parameters, None, (of_run, Some(&base))).expect("saved");

    let (again, _) = built(Some(of_run));
    let written = directory.path().join(ADAPTER);
    load(&written, &again).expect("what was written fits");
    for (one, other) in parameters.iter().zip(again.iter()) {
        assert_eq!(flat(one.tensor()), flat(other.tensor()), "{}", one.name());
    }
    let text = fs_err::read_to_string(written.join("adapter_config.json")).expect("a file");
    let config: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(config["target_modules"], json!(["fc1", "fc2"]));
    assert_eq!(config["modules_to_save"], json!(["head"]));
    assert_eq!(config["r"], 2);
    assert_eq!(config["use_dora"], place.ends_with("peft_dora"));

    // The whole model, from memory and from file to file.
    let inputs = tensor(&reference(place)["inputs"]);
    let expected = flat(&outputs(&network, &inputs));
    let names = (&Renames::new(), &FamilyNames::default());
    let output = directory.path().join("merged");
    let files = merge_files(&base, &place.join("adapter"), names, &output).expect("merged");
    assert_eq!(
        (files.adapted, files.replaced, files.files.len()),
        (2, 2, 1)
    );
    for path in [
        directory.path().join(weights::RESULTS),
        output.join("model.safetensors"),
    ] {
        let (plain, whole) = built(None);
        weights::load(&path, &plain, true).expect("it fits");
        close(&outputs(&whole, &inputs), &expected, 1e-6);
    }
}

#[test]
fn magnitudes_begin_as_the_lengths_of_rows() {
    let (parameters, network) = built(Some(&dora()));
    let (_, plain) = built(None);
    let inputs = tensor(&reference(&place())["inputs"]);
    close(
        &outputs(&network, &inputs),
        &flat(&outputs(&plain, &inputs)),
        1e-12,
    );
    let role = |name: &str| parameters.get(name).expect("it is there").role();
    assert_eq!(role("fc1.lora_magnitude_vector"), ParameterRole::Adapter);
    let error = load(&place().join("adapter"), &parameters).expect_err("another method");
    let error = error.to_string();
    assert!(error.contains("its `use_dora` is false"), "{error}");
}

#[test]
fn a_transposed_weight_is_merged_as_one_that_is_not() {
    let random = |rows: usize, columns: usize| {
        let made = Tensor::randn(0_f64, 1.0, (rows, columns), &Device::Cpu);
        made.expect("numbers")
    };
    let (weight, down, up) = (random(5, 3), random(2, 3), random(5, 2));
    let magnitude = random(5, 1).flatten_all().expect("flat");
    let parts = super::merge::AdapterParts {
        down: &down,
        up: &up,
        magnitude: Some(&magnitude),
    };
    let merged = super::merge::with_adapter(&weight, &parts, 0.5, false).expect("merged");
    let turned = weight.t().and_then(|weight| weight.contiguous());
    let turned = super::merge::with_adapter(&turned.expect("turned"), &parts, 0.5, true);
    let turned = turned.and_then(|merged| merged.t()).expect("merged");
    close(&turned, &flat(&merged), 1e-12);
}

#[test]
fn a_module_that_is_trained_in_part_is_whole_in_the_file() {
    let partly = config(
        json!({"kind": "lora", "rank": 2, "alpha": 6, "modules": ["fc?"], "train": ["head.bias"]}),
    );
    let (parameters, _) = built(Some(&partly));
    let directory = tempfile::tempdir().expect("a directory");
    let run = HeldDirectory::hold(directory.path());
    save_results(&run, &parameters, None, (&partly, None)).expect("saved");
    let written = directory.path().join(ADAPTER);
    let file = written.join("adapter_model.safetensors");
    let names = weights::read(&file).expect("an adapter").into_iter();
    let names: Vec<String> = names.map(|(name, _)| name).collect();
    assert!(
        names.contains(&"base_model.model.head.weight".to_owned()),
        "{names:?}"
    );
    load(&written, &parameters).expect("the held weight is the same");
}

#[test]
fn shards_stay_shards_and_other_types_stay() {
    let directory = tempfile::tempdir().expect("a directory");
    let base = directory.path().join("base");
    fs_err::create_dir(&base).expect("created");
    let ones = |shape: &[usize], dtype| {
        let ones = Tensor::ones(shape, dtype, &Device::Cpu);
        ones.expect("a tensor")
    };
    let run = HeldDirectory::unheld(&base);
    // The first is transposed, as GPT-2's are; the adapter's product is 8 × 6.
    let (first, second) = (ones(&[6, 8], DType::BF16), ones(&[8, 8], DType::F32));
    let count = Tensor::new(7_i64, &Device::Cpu).expect("a tensor");
    for (file, named) in [
        (
            "one.safetensors",
            vec![("body.fc1.weight", &first), ("count", &count)],
        ),
        ("two.safetensors", vec![("fc2.weight", &second)]),
    ] {
        weights::save_named(&run, &base.join(file), named, None).expect("saved");
    }
    let index = json!({"weight_map": {
        "body.fc1.weight": "one.safetensors", "count": "one.safetensors", "fc2.weight": "two.safetensors"}});
    fs_err::write(base.join("model.safetensors.index.json"), index.to_string()).expect("written");
    fs_err::write(base.join("config.json"), "{}").expect("written");
    let renames = Renames::from([("body.".to_owned(), String::new())]);
    let output = directory.path().join("merged");
    let family = FamilyNames::default();
    let files = merge_files(
        &base,
        &place().join("adapter"),
        (&renames, &family),
        &output,
    );
    let files = files.expect("merged");
    assert_eq!(
        (files.adapted, files.replaced, files.files.len()),
        (2, 2, 4)
    );
    let found = weights::read(&output).expect("shards");
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let wanted = [
        "body.fc1.weight",
        "count",
        "fc2.weight",
        "head.bias",
        "head.weight",
    ];
    assert_eq!(names, wanted);
    let types: Vec<DType> = found.iter().map(|(_, tensor)| tensor.dtype()).collect();
    let (half, single) = (DType::BF16, DType::F32);
    assert_eq!(types, [half, DType::I64, single, single, single]);
    let read = |name: &str| {
        let all = weights::read(&place().join("adapter/adapter_model.safetensors"));
        let mut all = all.expect("an adapter").into_iter();
        let found = all.find(|(known, _)| known == &format!("base_model.model.{name}"));
        found.expect("it is there").1
    };
    let product = |module: &str| {
        let (down, up) = (
            read(&format!("{module}.lora_A.weight")),
            read(&format!("{module}.lora_B.weight")),
        );
        let product = up
            .to_dtype(DType::F64)
            .and_then(|up| up.matmul(&down.to_dtype(DType::F64)?));
        product
            .and_then(|product| (product * 3.0)? + 1.0)
            .expect("a product")
    };
    close(&found[2].1, &flat(&product("fc2")), 1e-6);
    let turned = product("fc1")
        .t()
        .and_then(|turned| turned.contiguous())
        .expect("turned");
    close(&found[0].1, &flat(&turned), 0.02);
    // A base of another shape is refused.
    let other = base.join("two.safetensors");
    weights::save_named(&run, &other, vec![("fc2.weight", &first)], None).expect("saved");
    let error = merge_files(
        &base,
        &place().join("adapter"),
        (&renames, &family),
        &output,
    );
    let error = error.expect_err("another shape").to_string();
    assert!(error.contains("the adapter wants [8, 8]"), "{error}");
}

#[test]
fn plans_that_don_t_fit_are_refused() {
    for (of, words) in [
        (json!({"kind": "lora", "rank": 0}), "`adapt.rank` is 0"),
        (
            json!({"kind": "lora", "dropout": 1.0}),
            "`adapt.dropout` is a fraction",
        ),
        (json!({"kind": "lora"}), "`adapt.modules` is missing"),
        (
            json!({"kind": "lora", "modules": ["["]}),
            "`adapt.modules`:",
        ),
    ] {
        let error = plan(&config(of), &model()).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
    let gpt: ModelConfig =
        serde_json::from_value(json!({"kind": "gpt", "layers": 1, "width": 8, "heads": 2}))
            .expect("a model");
    let tokens = Signal::tokens(4, 5);
    let targets = Targets::ClassPerPosition(vec!["a".to_owned(); 5]);
    let checked = |of: Value| {
        let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
        parameters.adapt(plan(&config(of), &gpt).expect("a plan"));
        (gpt.build(&mut parameters, &tokens, &targets)).expect("a model");
        (check(&parameters), parameters)
    };
    let (result, parameters) = checked(json!({"kind": "lora"}));
    result.expect("the usual modules");
    let of_adapters = parameters
        .iter()
        .filter(|one| one.role() == ParameterRole::Adapter);
    let names: Vec<&str> = of_adapters.map(Parameter::name).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[0].ends_with("qkv.lora_A.weight"), "{names:?}");
    let embedding = parameters.iter().next().expect("an embedding").name();
    let embedding = embedding.strip_suffix(".weight").expect("a weight");
    for (modules, words) in [
        (json!([embedding]), "can't have an adapter"),
        (
            json!(["*.qvk"]),
            "no linear layer of the model is called `*.qvk`",
        ),
    ] {
        let (result, _) = checked(json!({"kind": "lora", "modules": modules}));
        let error = result.expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
    let (result, _) = checked(json!({"kind": "lora", "train": ["haed.*"]}));
    let error = result.expect_err("mistyped").to_string();
    assert!(
        error.contains("`haed.*`, as `adapt.train` has it"),
        "{error}"
    );
}

#[test]
fn adapters_of_other_kinds_are_refused() {
    let (parameters, _) = built(Some(&lora()));
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let from = place().join("adapter/adapter_model.safetensors");
    fs_err::copy(from, path.join("adapter_model.safetensors")).expect("copied");
    let good = json!({"peft_type": "LORA", "r": 2, "lora_alpha": 6, "use_dora": false, "rank_pattern": {}, "bias": "none"});
    let load_with = |key: &str, value: Value| {
        let mut config = good.clone();
        config[key] = value;
        let text = config.to_string();
        fs_err::write(path.join("adapter_config.json"), text).expect("written");
        load(path, &parameters)
    };
    load_with("lora_bias", json!(false)).expect("it fits");
    for (key, value, words) in [
        ("use_dora", json!(true), "`\"dora\": true` under `adapt`"),
        ("use_qalora", json!(true), "`use_qalora` true"),
        ("rank_pattern", json!({"fc1": 4}), "`rank_pattern`"),
        ("layer_replication", json!([[0, 1]]), "`layer_replication`"),
        ("bias", json!("all"), "`bias` \"all\""),
        ("peft_type", json!("IA3"), "`peft_type` \"IA3\""),
        ("init_lora_weights", json!("pissa"), "\"pissa\""),
        ("r", json!(4), "its rank is 4 and its scale 1.5"),
        ("lora_alpha", json!(8), "its scale 4"),
        ("use_rslora", json!(true), "its scale 4.24"),
        ("r", json!(0), "is not a number"),
    ] {
        let error = load_with(key, value).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
    // An adapter of other modules.
    let other = config(json!({"kind": "lora", "rank": 2, "alpha": 6, "modules": ["fc1"]}));
    let (parameters, _) = built(Some(&other));
    let error = load(&place().join("adapter"), &parameters)
        .expect_err("more modules")
        .to_string();
    for words in ["unexpected", "fc2.lora_A.weight"] {
        assert!(error.contains(words), "{words}: {error}");
    }
}
