//! Files of models, tokenizers, adapters and tokens from somewhere: each lie is an error that names the file, nothing of it is run, and
//! nothing is allocated by what it says.

use std::fs;
use std::path::Path;

use sconce_tests::{Workplace, workspace};
use serde_json::{Value, json};

use super::large_models::limited;

/// A directory with a small model and its tokenizer, rows, an adapter and tokens.
fn place() -> Workplace {
    let place = Workplace::new(&[]);
    fs::create_dir(place.path("gpt2")).expect("made");
    let from = workspace().join("tests/reference/tutorials/gpt2");
    for file in fs::read_dir(from).expect("the model") {
        let file = file.expect("a file");
        let to = place.path("gpt2").join(file.file_name());
        fs::copy(file.path(), to).expect("copied");
    }
    place.write_text(
        "rows.jsonl",
        &format!("{}\n", json!({"prompt": "The", "completion": "film"})).repeat(8),
    );
    let conversation = json!({"messages": [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}]});
    place.write_text("chats.jsonl", &format!("{conversation}\n").repeat(8));
    place
}

fn manifest() -> Value {
    json!({
        "output": "out",
        "data": {"kind": "jsonl", "file": "rows.jsonl", "tokenizer": "gpt2", "context": 16},
        "model": {"kind": "transformers", "config": "gpt2"},
        "weights": {"file": "gpt2"},
        "optimizer": {"kind": "adamw", "learning_rate": 0.01},
        "train": {"epochs": 1, "batch_size": 4},
    })
}

/// The manifest is refused with these words, in little memory.
#[track_caller]
fn refused(place: &Workplace, manifest: &Value, words: &str) {
    place.write(manifest);
    limited(place, &["check", "manifest.json"]).expect(2, &[words]);
}

fn change(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON");
    change(&mut value);
    fs::write(path, value.to_string()).expect("written");
}

/// Opens a bracket more often than any parser may follow.
fn deep() -> String {
    format!("{{\"a\":{}", "[".repeat(1_000_000))
}

/// Writes a file, has the manifest refused, and puts back what was there.
#[track_caller]
fn with_file(
    place: &Workplace,
    name: &str,
    content: impl AsRef<[u8]>,
    manifest: &Value,
    words: &str,
) {
    let path = place.path(name);
    let before = fs::read(&path).ok();
    fs::write(&path, content).expect("written");
    refused(place, manifest, words);
    match before {
        Some(before) => fs::write(&path, before).expect("written"),
        None => fs::remove_file(&path).expect("removed"),
    }
}

#[test]
fn configurations_of_any_size_are_errors() {
    let place = place();
    let path = place.path("gpt2/config.json");
    let original = fs::read(&path).expect("a file");
    for (key, value, words) in [
        ("n_layer", json!(1_000_000_000), "at most 10000 layers"),
        ("n_layer", json!(1e300), "it must be a whole number"),
        (
            "n_embd",
            json!(1_000_000_000),
            "of shape [320, 1000000000] needs",
        ),
        ("n_embd", json!(1_u64 << 63), "needs"),
        (
            "n_inner",
            json!(1_000_000_000),
            "of shape [32, 1000000000] needs",
        ),
        ("n_positions", json!(u64::MAX), "needs"),
        ("vocab_size", json!(1_000_000_000), "needs 512.0 GB"),
        ("n_head", json!(1_000_000_000), "into 1000000000 heads"),
    ] {
        change(&path, |config| config[key] = value);
        refused(&place, &manifest(), words);
        fs::write(&path, &original).expect("written");
    }
    with_file(
        &place,
        "gpt2/config.json",
        deep(),
        &manifest(),
        "recursion limit",
    );
    let mut adapted = manifest();
    adapted["adapt"] = json!({"kind": "lora", "rank": 1_000_000_000});
    refused(
        &place,
        &adapted,
        "lora_A.weight` of shape [1000000000, 32] needs",
    );
}

#[test]
fn weights_that_lie_are_errors() {
    let place = place();
    let header = [&(1_u64 << 63).to_le_bytes()[..], b"{}"].concat();
    let weights = "gpt2/model.safetensors";
    with_file(&place, weights, header, &manifest(), "header too large");
    let text = deep();
    let nested = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    with_file(&place, weights, nested, &manifest(), "recursion limit");
    fs::remove_file(place.path(weights)).expect("removed");
    let index = "gpt2/model.safetensors.index.json";
    let map = |file: &str| json!({"weight_map": {"transformer.wte.weight": file}}).to_string();
    for (content, words) in [
        (
            map("../rows.jsonl"),
            "`../rows.jsonl` is not the name of a file beside it",
        ),
        (map("/etc/passwd"), "is not the name of a file beside it"),
        (deep(), "that can't be used"),
    ] {
        with_file(&place, index, content, &manifest(), words);
    }
    let code = fs::read(workspace().join("tests/reference/torch_files/code.pt"));
    let code = code.expect("a pickle");
    let words = "it would call `posix.system`. Nothing of it was run here";
    with_file(&place, "gpt2/pytorch_model.bin", code, &manifest(), words);
    assert!(!place.path("sconce-ran-a-pickle").exists());
}

#[test]
fn tokenizers_and_templates_that_explode_are_errors() {
    let place = place();
    with_file(
        &place,
        "gpt2/tokenizer.json",
        deep(),
        &manifest(),
        "recursion limit",
    );
    let tokenizer = fs::read(place.path("gpt2/tokenizer.json")).expect("a file");
    let mut explodes: Value = serde_json::from_slice(&tokenizer).expect("JSON");
    explodes["pre_tokenizer"] = json!({"type": "Split", "pattern": {"Regex": r"(?:(?=a)(?:a|aa))+$"},
                                       "behavior": "Isolated", "invert": false});
    let row = json!({"prompt": format!("{}b", "a".repeat(60)), "completion": "c"});
    place.write_text("rows.jsonl", &format!("{row}\n"));
    let pattern = explodes.to_string();
    with_file(
        &place,
        "gpt2/tokenizer.json",
        pattern,
        &manifest(),
        "fails here",
    );
    place.write_text("rows.jsonl", &deep());
    refused(
        &place,
        &manifest(),
        "`rows.jsonl`, line 1: this is not JSON",
    );

    let mut chats = manifest();
    chats["data"]["file"] = json!("chats.jsonl");
    for (template, words) in [
        (format!("{{{{ {}1", "(".repeat(100_000)), "recursion limits"),
        ("{{ 'a' * 1000000000 }}".to_owned(), "out of fuel"),
        ("{{ (['a' * 100000] * 100000) | join('b') }}".to_owned(), "out of fuel"),
        (
            "{{ ('a' * 10000) | replace('a', 'a' * 10000) | replace('a', 'a' * 10000) }}".to_owned(),
            "out of fuel",
        ),
        ("{{ ('a' * 10000).replace('a', 'a' * 10000) }}".to_owned(), "more than 16 MiB"),
        (
            "{% set ns = namespace(a='aaaa') %}{% for i in range(40) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}{{ ns.a }}".to_owned(),
            "out of fuel",
        ),
        ("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}".to_owned(), "recursion limit"),
        ("{% include '/etc/passwd' %}".to_owned(), "unknown statement"),
        ("{{ ''.__class__.__mro__ }}".to_owned(), "undefined"),
    ] {
        with_file(&place, "gpt2/chat_template.jinja", template, &chats, words);
    }
    let config = "gpt2/tokenizer_config.json";
    with_file(&place, config, deep(), &chats, "recursion limit");
}

#[test]
fn adapters_that_do_not_fit_are_errors() {
    let place = place();
    let mut adapted = manifest();
    adapted["adapt"] = json!({"kind": "lora", "rank": 2, "alpha": 4});
    place.run(&adapted).expect(0, &[]);
    fs::rename(place.path("out/adapter"), place.path("adapter")).expect("moved");
    adapted["adapt"]["file"] = json!("adapter");
    place.write(&adapted);
    limited(&place, &["check", "manifest.json"]).expect(0, &[]);
    let config = "adapter/adapter_config.json";
    let original: Value = serde_json::from_str(&place.read(config)).expect("JSON");
    let with = |key: &str, value: Value| {
        let mut config = original.clone();
        config[key] = value;
        config.to_string()
    };
    for (content, words) in [
        (with("r", json!(1_000_000_000)), "its rank is 1000000000"),
        (with("r", json!(-1)), "invalid value"),
        (with("peft_type", json!("IA3")), "LORA is known here"),
        (with("rank_pattern", json!({"a": 3})), "`rank_pattern`"),
        (deep(), "recursion limit"),
    ] {
        with_file(&place, config, content, &adapted, words);
    }
    let tensor = |name: &str| {
        let header =
            json!({name: {"dtype": "F32", "shape": [3, 3], "data_offsets": [0, 36]}}).to_string();
        [
            &(header.len() as u64).to_le_bytes()[..],
            header.as_bytes(),
            &[0; 36],
        ]
        .concat()
    };
    let weights = "adapter/adapter_model.safetensors";
    let shape = tensor("base_model.model.transformer.h.0.attn.c_attn.lora_A.weight");
    for (content, words) in [
        (
            [&(1_u64 << 63).to_le_bytes()[..], b"{}"].concat(),
            "header too large",
        ),
        (shape.clone(), "of another shape"),
        (
            tensor("base_model.model.elsewhere.lora_A.weight"),
            "none of the weights",
        ),
        (
            tensor("elsewhere"),
            "no name of a weight begins with `base_model.model.`",
        ),
    ] {
        with_file(&place, weights, content, &adapted, words);
    }
    // What is merged is not what the configuration scales.
    fs::write(place.path(config), with("r", json!(1_000_000_000))).expect("written");
    let merge = ["merge", "adapter", "--base", "gpt2", "--output", "merged"];
    limited(&place, &merge).expect(
        2,
        &["its rank is 1000000000, and that of `transformer.h.0.attn.c_attn`"],
    );
    assert!(!place.path("merged").exists());
}

#[test]
fn an_index_of_tokens_that_lies_is_an_error() {
    let place = place();
    place.write_text("text.txt", &"The film was moving. ".repeat(100));
    let tokenize = [
        "tokenize",
        "text.txt",
        "--tokenizer",
        "gpt2",
        "--output",
        "tokens",
    ];
    place.sconce(&tokenize).expect(0, &[]);
    let mut tokens = manifest();
    tokens["data"] = json!({"kind": "tokens", "files": ["tokens"], "context": 16});
    place.write(&tokens);
    limited(&place, &["check", "manifest.json"]).expect(0, &[]);
    let original: Value = serde_json::from_str(&place.read("tokens/tokens.json")).expect("JSON");
    for (pointer, value, words) in [
        (
            "/files/0/file",
            json!("../text.txt"),
            "`../text.txt` is not the name of a file in it",
        ),
        (
            "/files/0/file",
            json!("/etc/passwd"),
            "is not the name of a file in it",
        ),
        (
            "/files/0/tokens",
            json!(1_u64 << 63),
            "tokens, not 9223372036854775808",
        ),
        ("/vocabulary", json!(1_u64 << 63), "of another tokenizer"),
        (
            "/end",
            json!(1_000_000_000),
            "its `end`, 1000000000, is not one of 320 tokens",
        ),
        ("/dtype", json!("u32"), "not a whole number of tokens of 4"),
        ("/format", json!(1_000_000_000), "newer than this program's"),
        (
            "/tokenizer",
            json!(format!("b3:{}", "0".repeat(64))),
            "of another tokenizer",
        ),
    ] {
        let mut index = original.clone();
        *index.pointer_mut(pointer).expect("a value") = value;
        with_file(
            &place,
            "tokens/tokens.json",
            index.to_string(),
            &tokens,
            words,
        );
    }
    with_file(
        &place,
        "tokens/tokens.json",
        deep(),
        &tokens,
        "not an index of tokens",
    );
}
