//! Tokenizers beside those of Python, and hostile ones.

use serde_json::{Value, json};

use super::{gpt2, json_of, reference, tokenizer_of, write};
use crate::train_tokenizer;

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).expect("ids")
}

#[test]
fn ids_and_texts_are_those_of_python() {
    let reference = reference();
    for (kind, expected) in reference["kinds"].as_object().expect("kinds") {
        let tokenizer = tokenizer_of(&expected["json"]).expect(kind);
        for case in expected["texts"].as_array().expect("texts") {
            let text = case["text"].as_str().expect("a text");
            let plain = tokenizer.encode(text, false).expect(text);
            assert_eq!(plain, ids(&case["ids"]), "{kind}: {text:?}");
            let wrapped = tokenizer.encode(text, true).expect(text);
            assert_eq!(wrapped, ids(&case["wrapped"]), "{kind}: {text:?}");
            let decoded = tokenizer.decode(&plain, false).expect(text);
            assert_eq!(decoded, case["decoded"], "{kind}: {text:?}");
            let decoded = tokenizer.decode(&wrapped, true).expect(text);
            assert_eq!(decoded, case["plain"], "{kind}: {text:?}");
        }
    }
}

#[test]
fn bytes_of_tokens_add_up_to_those_of_the_text() {
    let text = "Before we  speak, 東京🙂 é\n\n  All";
    for (kind, before) in [("gpt2", 0), ("llama", 0), ("sentencepiece", 1)] {
        let tokenizer = tokenizer_of(&json_of(kind)).expect(kind);
        let bytes = tokenizer.bytes().expect("known");
        let sum: u32 = (tokenizer.encode(text, true).expect(text).iter())
            .map(|&id| bytes[id as usize])
            .sum();
        // SentencePiece's has a space before the text; special tokens are no text.
        assert_eq!(sum as usize, text.len() + before, "{kind}");
    }
    let bert = tokenizer_of(&json_of("bert")).expect("a tokenizer");
    assert!(bert.bytes().is_none(), "spaces are lost");
}

#[test]
fn learnt_tokenizers_are_those_of_python() {
    let directory = tempfile::tempdir().expect("a directory");
    let corpus = reference()["corpus"].clone();
    let corpus: Vec<String> = serde_json::from_value(corpus).expect("texts");
    let (first, rest) = corpus.split_at(2);
    let lines = first
        .iter()
        .map(|text| format!("{}\n", json!({"text": text})));
    let files = [
        write(directory.path(), "a.jsonl", lines.collect::<String>()),
        write(directory.path(), "b.txt", rest.concat()),
    ];
    let learnt = train_tokenizer(320, &files, "text").expect("learnt");
    let learnt: Value = serde_json::from_slice(learnt.source()).expect("JSON");
    let expected = json_of("gpt2");
    assert_eq!(learnt["model"]["vocab"], expected["model"]["vocab"]);
    assert_eq!(learnt["model"]["merges"], expected["model"]["merges"]);
    assert_eq!(learnt["added_tokens"], expected["added_tokens"]);

    let all = train_tokenizer(100_000, &files, "text").expect("as many as there are");
    assert!((320..2_000).contains(&all.vocabulary()));
    for (size, words) in [(256, "257 or more"), (1 << 30, "257 or more")] {
        let error = train_tokenizer(size, &files, "text").expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn tokenizers_that_explode_are_errors() {
    let with = |part: &str, value: Value| {
        let mut json = json_of("gpt2");
        json[part] = value;
        json
    };
    let replaces = |count: usize| {
        let step = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaa"});
        json!({"type": "Sequence", "normalizers": vec![step; count]})
    };
    let mut dropout = json_of("gpt2");
    dropout["model"]["dropout"] = json!(0.1);
    let mut long_words = json_of("bert");
    long_words["model"]["max_input_chars_per_word"] = json!(1_000_000_000);
    let mut far = json_of("gpt2");
    far["model"]["vocab"]["far"] = json!(4_000_000_000_u32);
    for (json, words) in [
        (json!([]), "not a JSON object"),
        (json!({"model": 5}), "data did not match"),
        (with("normalizer", replaces(9)), "more than 4096 times"),
        (dropout, "`dropout`"),
        (long_words, "max_input_chars_per_word"),
        (far, "4000000001 tokens"),
        (
            with("pre_tokenizer", json!({"type": "FixedLength", "length": 0})),
            "length 0",
        ),
        (
            with(
                "pre_tokenizer",
                json!({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated", "invert": false}),
            ),
            "`(a` is not valid",
        ),
    ] {
        let error = tokenizer_of(&json).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
    assert!(tokenizer_of(&with("normalizer", replaces(3))).is_ok());

    let pattern = r"(?:(?=a)(?:a|aa))+$";
    let split = json!({
        "type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false,
    });
    let tokenizer = tokenizer_of(&with("pre_tokenizer", split)).expect("a valid pattern");
    let error = tokenizer
        .encode(&format!("{}b", "a".repeat(60)), false)
        .expect_err("it explodes");
    assert!(
        error.contains(pattern) && error.contains("fails here"),
        "{error}"
    );
}

#[test]
fn padding_and_truncation_are_left_to_samples() {
    let mut json = json_of("gpt2");
    json["truncation"] = json!({
        "direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0,
    });
    json["padding"] = json!({
        "strategy": {"Fixed": 1_000_000_000}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
        "pad_type_id": 0, "pad_token": "x",
    });
    let text = "Before we proceed any further";
    let plain = tokenizer_of(&json).expect("a tokenizer").encode(text, true);
    assert_eq!(plain, gpt2().encode(text, true));
}
