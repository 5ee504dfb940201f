//! Tokens: made, read, and what is wrong with them.

mod loading;
mod rows;
mod tokenizers;
mod writing;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::tokenizer::Tokenizer;

/// Written by tests/reference/tokenizers.py.
fn reference() -> Value {
    let text = include_str!("../../../../../tests/reference/tokenizers.json");
    serde_json::from_str(text).expect("JSON")
}

/// The content of a kind of tokenizer in the reference.
fn json_of(kind: &str) -> Value {
    reference()["kinds"][kind]["json"].clone()
}

fn tokenizer_of(json: &Value) -> Result<Tokenizer, String> {
    Tokenizer::from_bytes(serde_json::to_vec(json).expect("JSON"))
}

/// The tokenizer like GPT-2's, of 320 tokens.
fn gpt2() -> Tokenizer {
    tokenizer_of(&json_of("gpt2")).expect("a tokenizer")
}

fn write(directory: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, content).expect("written");
    path
}
