//! What `transformers` wrote is written again as it was, for every family.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::Tensor;
use serde_json::{Value, json};

use super::*;
use crate::nn::Targets;
use crate::weights::tests::transformers::{Built, built, directory as fixture};
use crate::weights::{self, Renames};

fn write(place: &Path, files: &Files<'_>) -> Result<ExportedDirectory, ModelExportError> {
    directory::write(place, |directory| fill(directory, files))
}

fn weights_in(directory: &Path) -> BTreeMap<String, Tensor> {
    let read = weights::read(&directory.join("model.safetensors"));
    read.expect("weights").into_iter().collect()
}

fn object(file: &Path) -> Value {
    let text = fs_err::read(file).expect("a file");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn what_transformers_wrote_is_written_as_it_was() {
    let place = tempfile::tempdir().expect("a directory");
    for name in [
        "gpt2",
        "llama",
        "llama-tied",
        "mistral",
        "qwen2",
        "qwen3",
        "bert",
        "bert-language",
        "vit",
        "resnet",
        "resnet-basic",
        "convnext",
    ] {
        let Built {
            parameters,
            config,
            input,
            targets,
        } = built(name);
        let family = config.family_names();
        let read = weights::load_as(&fixture(name), &parameters, true, &Renames::new(), &family);
        read.expect(name);
        let ModelConfig::Transformers(config) = config else {
            panic!("{name} is of another kind");
        };
        let files = Files {
            config: config
                .exported(&input, &targets, TokenRoles::default())
                .expect(name),
            parameters: &parameters,
            tokenizer: None,
            tokenizer_config: None,
        };
        let output = place.path().join(name);
        write(&output, &files).expect(name);
        let (ours, theirs) = (weights_in(&output), weights_in(&fixture(name)));
        let names = |of: &BTreeMap<String, Tensor>| of.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&ours), names(&theirs), "{name}");
        for (weight, theirs) in theirs {
            let ours = &ours[&weight];
            assert_eq!(ours.dtype(), theirs.dtype(), "{name}: {weight}");
            assert_eq!(ours.dims(), theirs.dims(), "{name}: {weight}");
            if weight.ends_with(".num_batches_tracked") {
                continue;
            }
            let numbers = |tensor: &Tensor| {
                let flat = tensor.flatten_all().expect("flat");
                flat.to_vec1::<f32>().expect("numbers")
            };
            assert_eq!(numbers(ours), numbers(&theirs), "{name}: {weight}");
        }
        let ours = object(&output.join("config.json"));
        let theirs = object(&fixture(name).join("config.json"));
        for key in ["architectures", "model_type", "vocab_size", "dtype"] {
            assert_eq!(ours[key], theirs[key], "{name}: {key}");
        }
        let generates = matches!(
            name,
            "gpt2" | "llama" | "llama-tied" | "mistral" | "qwen2" | "qwen3"
        );
        let generation = output.join("generation_config.json");
        assert_eq!(generation.is_file(), generates, "{name}");
    }
}

#[test]
fn classes_and_tokens_of_the_data_are_in_the_configuration() {
    let none = TokenRoles::default();
    let of = |name: &str, targets: &Targets, roles: TokenRoles| {
        let Built { config, input, .. } = built(name);
        let ModelConfig::Transformers(config) = config else {
            panic!("{name} is of another kind");
        };
        config.exported(&input, targets, roles)
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let two = Targets::Class(names(&["bad", "good"]));
    let config = of("bert", &two, none).expect("a model").config;
    assert_eq!(config["id2label"], json!({"0": "bad", "1": "good"}));
    assert_eq!(config["label2id"], json!({"bad": 0, "good": 1}));
    assert_eq!(config["problem_type"], "single_label_classification");
    let padded = |id: u32| TokenRoles {
        end: None,
        padding: Some(id),
    };
    let config = of("gpt2", &two, padded(3)).expect("a model").config;
    assert_eq!(
        config["architectures"],
        json!(["GPT2ForSequenceClassification"])
    );
    assert_eq!(config["pad_token_id"], 3);
    let config = of("gpt2", &two, padded(40)).expect("a model").config;
    assert_eq!(config["pad_token_id"], Value::Null, "none of the 40 tokens");
    let number = Targets::Numbers(names(&["age"]));
    let config = of("vit", &number, none).expect("a model").config;
    assert_eq!(config["problem_type"], "regression");

    // The class's own token, 50256, is none of the 40.
    let tokens =
        |count: usize| Targets::ClassPerPosition((0..count).map(|id| id.to_string()).collect());
    let exported = of("gpt2", &tokens(40), none).expect("a model");
    assert_eq!(exported.config["eos_token_id"], Value::Null);
    let seven = TokenRoles {
        end: Some(7),
        padding: None,
    };
    let exported = of("gpt2", &tokens(40), seven).expect("a model");
    assert_eq!(exported.config["eos_token_id"], 7);
    let generation = exported.generation.expect("of a language model");
    assert_eq!(generation["eos_token_id"], 7);

    let refused = of("llama", &tokens(39), none).expect_err("another number of outputs");
    assert!(refused.to_string().contains("39 outputs"), "{refused}");
}

#[test]
fn a_directory_that_is_not_empty_is_left_alone() {
    let place = tempfile::tempdir().expect("a directory");
    let Built {
        parameters,
        config,
        input,
        targets,
    } = built("gpt2");
    let ModelConfig::Transformers(config) = config else {
        panic!("of another kind");
    };
    let files = Files {
        config: config
            .exported(&input, &targets, TokenRoles::default())
            .expect("a model"),
        parameters: &parameters,
        tokenizer: None,
        tokenizer_config: None,
    };
    let empty = place.path().join("empty");
    fs_err::create_dir(&empty).expect("a directory");
    write(&empty, &files).expect("written");
    let error = write(&empty, &files).expect_err("there is one");
    assert!(matches!(error, ModelExportError::Exists(_)), "{error}");
    let file = empty.join("config.json");
    write(&file, &files).expect_err("a file");
    let left = fs_err::read_dir(place.path()).expect("a directory");
    assert_eq!(left.count(), 1, "something is left beside it");
}
