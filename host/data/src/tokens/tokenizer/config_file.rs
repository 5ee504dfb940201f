//! What `transformers` wants to know of a tokenizer, beside its `tokenizer.json`.

use serde_json::{Map, Value, json};

use super::Tokenizer;
use super::chat::ChatTemplate;

/// Names of tokens with a role, as tokenizers in use have them.
const ROLES: [(&str, &[&str]); 6] = [
    (
        "bos_token",
        &["<s>", "<|begin_of_text|>", "<|startoftext|>"],
    ),
    ("pad_token", PADDING),
    ("unk_token", &["[UNK]", "<unk>"]),
    ("cls_token", &["[CLS]"]),
    ("sep_token", &["[SEP]"]),
    ("mask_token", &["[MASK]", "<mask>"]),
];

/// Names of what texts are filled up with.
const PADDING: &[&str] = &["[PAD]", "<pad>", "<|pad|>"];

/// The object of a `tokenizer_config.json`: the class that takes `tokenizer.json` as it is, the tokens with a role, and the chat
/// template.
pub(in crate::tokens) fn tokenizer_config(
    tokenizer: &Tokenizer,
    end: Option<u32>,
    chat: Option<&ChatTemplate>,
) -> Value {
    let special = special_tokens(tokenizer.source());
    let mut config = Map::new();
    config.insert(
        "tokenizer_class".to_owned(),
        json!("PreTrainedTokenizerFast"),
    );
    config.insert("clean_up_tokenization_spaces".to_owned(), json!(false));
    for (role, names) in ROLES {
        if let Some((_, token)) = first_of(names, &special) {
            config.insert(role.to_owned(), json!(token));
        }
    }
    let at_end = special.iter().find(|(id, _)| Some(*id) == end);
    if let Some((_, token)) = at_end {
        config.insert("eos_token".to_owned(), json!(token));
    }
    if let Some(chat) = chat {
        config.insert("chat_template".to_owned(), json!(chat.template));
        let named = [
            ("bos_token", &chat.bos_token),
            ("eos_token", &chat.eos_token),
        ];
        for (role, token) in named {
            if let Some(token) = token {
                config.insert(role.to_owned(), json!(token));
            }
        }
    }
    Value::Object(config)
}

impl Tokenizer {
    /// Returns the token that texts are filled up with, if there is one.
    pub fn padding(&self) -> Option<u32> {
        let special = special_tokens(self.source());
        first_of(PADDING, &special).map(|(id, _)| *id)
    }
}

/// The special token that has the first of these names.
fn first_of<'s>(names: &[&str], special: &'s [(u32, String)]) -> Option<&'s (u32, String)> {
    let mut found = names
        .iter()
        .map(|name| special.iter().find(|(_, token)| token == name));
    found.find_map(|token| token)
}

/// Ids and texts of the special tokens in a `tokenizer.json`.
fn special_tokens(source: &[u8]) -> Vec<(u32, String)> {
    // It has been read as a tokenizer before.
    let file: Value = serde_json::from_slice(source).unwrap_or_default();
    let added = file["added_tokens"].as_array().into_iter().flatten();
    let special = added.filter(|token| token["special"] == true);
    let named = special.filter_map(|token| {
        let id = u32::try_from(token["id"].as_u64()?).ok()?;
        Some((id, token["content"].as_str()?.to_owned()))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenizer() -> Tokenizer {
        let token = |id: u32, content: &str| {
            json!({
                "id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false
            })
        };
        let file = json!({
            "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "pre_tokenizer": null,
            "post_processor": null, "decoder": null,
            "added_tokens": [token(0, "[UNK]"), token(1, "[PAD]"), token(2, "<|end|>")],
            "model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "[PAD]": 1, "<|end|>": 2, "a": 3}}
        });
        Tokenizer::from_bytes(file.to_string().into_bytes()).expect("a tokenizer")
    }

    #[test]
    fn tokens_with_a_role_are_named() {
        let config = tokenizer_config(&tokenizer(), Some(2), None);
        let expected = json!({
            "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false,
            "unk_token": "[UNK]", "pad_token": "[PAD]", "eos_token": "<|end|>"
        });
        assert_eq!(config, expected);
        assert_eq!(tokenizer().padding(), Some(1));
        // A token that is not special ends nothing.
        let config = tokenizer_config(&tokenizer(), Some(3), None);
        assert_eq!(config["eos_token"], Value::Null);
    }
}
