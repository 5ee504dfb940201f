//! Weights of the families of `transformers`, written by `tests/reference/transformers_models.py`, under the names of all its versions.

use std::path::PathBuf;

use sconce_nn::{ModelConfig, Signal, Targets};
use serde_json::{Value, json};

use super::*;

/// Directory of a model as `transformers` wrote it.
pub(crate) fn directory(name: &str) -> PathBuf {
    let all = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/reference/transformers"
    );
    PathBuf::from(all).join(name)
}

/// A model of a family, with what it was built for.
pub(crate) struct Built {
    pub(crate) parameters: Parameters,
    pub(crate) config: ModelConfig,
    pub(crate) input: Signal,
    pub(crate) targets: Targets,
}

/// The model of a directory, with initial values.
pub(crate) fn built(name: &str) -> Built {
    let config = json!({"kind": "transformers", "config": directory(name)});
    let mut config: ModelConfig = serde_json::from_value(config).expect("a model");
    config.read_files(Path::new("")).expect("its config.json");
    let text = fs_err::read(directory(name).join("reference.json")).expect("a file");
    let reference: Value = serde_json::from_slice(&text).expect("JSON");
    let shape = |of: &Value| -> Vec<usize> {
        serde_json::from_value(of["shape"].clone()).expect("a shape")
    };
    let case = &reference["cases"][0];
    let outputs = shape(&case["outputs"]);
    let classes = outputs
        .last()
        .map(|count| (0..*count).map(|class| class.to_string()));
    let classes: Vec<String> = classes.expect("classes").collect();
    let targets = match outputs.len() {
        3 => Targets::ClassPerPosition(classes),
        _ => Targets::Class(classes),
    };
    let input = match &case["inputs"]["pixel_values"] {
        Value::Null => {
            let length = shape(&case["inputs"]["input_ids"])[1];
            let tokens = Signal::tokens(length, 40).up_to();
            if name.starts_with("bert") {
                tokens.with("token_types", Signal::tokens(length, 2).up_to())
            } else {
                tokens
            }
        }
        images => Signal::numbers(&shape(images)[1..]),
    };
    let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
    let model = config.build(&mut parameters, &input, &targets);
    model.expect("a model");
    Built {
        parameters,
        config,
        input,
        targets,
    }
}

fn loaded(path: &Path, name: &str) -> (Parameters, Comparison) {
    let Built {
        parameters: own,
        config,
        ..
    } = built(name);
    let family = config.family_names();
    let comparison = load_as(path, &own, true, &Renames::new(), &family);
    let comparison = comparison.unwrap_or_else(|error| panic!("{name}: {error}"));
    (own, comparison)
}

/// A model, pairs of names, and a buffer that files have beside the weights.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<&'a str>);

#[test]
fn what_transformers_writes_is_loaded_under_every_name_it_had() {
    let place = tempfile::tempdir().expect("a directory");
    let ones = Tensor::ones(3, DType::F32, &Device::Cpu).expect("a tensor");
    // Pairs of this version's names and those of another one.
    let bert = [
        ("LayerNorm.weight", "LayerNorm.gamma"),
        ("LayerNorm.bias", "LayerNorm.beta"),
    ];
    let vit = [
        ("vit.encoder.layer.", "vit.layers."),
        (".attention.attention.query.", ".attention.q_proj."),
        (".attention.output.dense.", ".attention.o_proj."),
    ];
    let cases: [Case<'_>; 9] = [
        ("gpt2", &[("transformer.", "")], Some("h.0.attn.bias")),
        (
            "llama",
            &[],
            Some("model.layers.0.self_attn.rotary_emb.inv_freq"),
        ),
        ("llama-tied", &[], None),
        ("qwen2", &[], None),
        ("qwen3", &[], None),
        ("bert", &bert, Some("cls.predictions.bias")),
        ("vit", &vit, None),
        ("resnet", &[("resnet.", "")], None),
        ("convnext", &[], None),
    ];
    for (name, renamed, ignored) in cases {
        let (own, comparison) = loaded(&directory(name), name);
        assert!(comparison.new.is_empty(), "{name}: {:?}", comparison.new);
        let counted = own
            .iter()
            .filter(|one| one.name().ends_with(".num_batches_tracked"));
        let fit = own.len() - counted.count();
        assert!(comparison.matched.len() >= fit, "{name}: {comparison}");

        let mut tensors = read(&directory(name)).expect(name);
        for (new, old) in renamed {
            for (name, _) in &mut tensors {
                *name = name.replace(new, old);
            }
        }
        tensors.extend(ignored.map(|name| (name.to_owned(), ones.clone())));
        let path = place.path().join(format!("{name}.safetensors"));
        let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
        let written = prepared(&path, named, None).expect("a header");
        files::write_atomically_by(&path, |file| written.write(file)).expect("written");
        let (again, comparison) = loaded(&path, name);
        assert_eq!(comparison.ignored, Vec::from_iter(ignored), "{name}");
        for (one, other) in own.iter().zip(again.iter()) {
            let [one_bytes, other_bytes] = [one, other].map(|parameter| {
                let numbers = parameter.tensor().flatten_all().expect("flat");
                numbers.to_vec1::<f32>().expect("numbers")
            });
            assert_eq!(one_bytes, other_bytes, "{name}: {}", one.name());
        }
    }
}

#[test]
fn a_tied_head_is_compared_and_untying_is_said() {
    let (_, comparison) = loaded(&directory("gpt2"), "gpt2");
    assert_eq!(
        comparison.tied,
        [(
            "lm_head.weight".to_owned(),
            "transformer.wte.weight".to_owned()
        )]
    );
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("model.safetensors");
    let mut tensors = read(&directory("gpt2")).expect("weights");
    let table = tensors
        .iter()
        .find(|(name, _)| name.ends_with("wte.weight"));
    let head = table
        .map(|(_, table)| (table * 2.0).expect("a tensor"))
        .expect("a table");
    tensors.push(("lm_head.weight".to_owned(), head));
    let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    let written = prepared(&path, named, None).expect("a header");
    files::write_atomically_by(&path, |file| written.write(file)).expect("written");
    let Built {
        parameters: own,
        config,
        ..
    } = built("gpt2");
    let family = config.family_names();
    let error = load_as(&path, &own, true, &Renames::new(), &family);
    let error = error.expect_err("another head").to_string();
    for words in ["`lm_head.weight` in", "tie_word_embeddings"] {
        assert!(error.contains(words), "{words}: {error}");
    }
}
