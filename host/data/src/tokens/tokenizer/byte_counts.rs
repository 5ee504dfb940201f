//! The number of bytes of text that each token stands for.

use std::sync::Arc;

use serde_json::Value;

/// How a tokenizer writes text in its tokens, without loss.
#[derive(Clone, Copy)]
enum Spelling {
    /// A character for each byte, as GPT-2's.
    ByteLevel,
    /// Characters, `▁` for a space, and `<0x0A>` for a byte, as SentencePiece's.
    Metaspace,
}

/// The mark of SentencePiece for a space.
const SPACE: char = '\u{2581}';

/// Returns the bytes of each id; none where tokens don't have all of a text, as BERT's, which have no spaces.
pub(super) fn of(
    json: &Value,
    tokenizer: &tokenizers::Tokenizer,
    vocabulary: usize,
) -> Option<Arc<[u32]>> {
    let spelling = spelling(json)?;
    let added = tokenizer.get_added_tokens_decoder();
    let bytes = (0..vocabulary as u32).map(|id| match added.get(&id) {
        Some(token) if token.special => 0,
        Some(token) => length(token.content.len()),
        None => tokenizer
            .id_to_token(id)
            .map_or(0, |token| count_of(&token, spelling)),
    });
    Some(bytes.collect())
}

fn count_of(token: &str, spelling: Spelling) -> u32 {
    match spelling {
        Spelling::ByteLevel => length(token.chars().count()),
        Spelling::Metaspace if is_byte(token) => 1,
        Spelling::Metaspace => {
            let spaces = token.chars().filter(|&c| c == SPACE).count();
            length(token.len() - spaces * (SPACE.len_utf8() - 1))
        }
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Whether a token is written as a byte's number.
fn is_byte(token: &str) -> bool {
    let digits = token
        .strip_prefix("<0x")
        .and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok())
}

fn spelling(json: &Value) -> Option<Spelling> {
    let parts = ["pre_tokenizer", "decoder", "normalizer"];
    let mut parts = parts.iter().filter_map(|part| json.get(part));
    if parts.clone().any(|part| has(part, "type", "ByteLevel")) {
        return Some(Spelling::ByteLevel);
    }
    let space = SPACE.to_string();
    let is_metaspace = |part| has(part, "type", "Metaspace") || has(part, "content", &space);
    parts.any(is_metaspace).then_some(Spelling::Metaspace)
}

/// Whether a key has this text anywhere in a value.
fn has(value: &Value, key: &str, text: &str) -> bool {
    match value {
        Value::Array(values) => values.iter().any(|value| has(value, key, text)),
        Value::Object(object) => {
            object.get(key).and_then(Value::as_str) == Some(text)
                || object.values().any(|value| has(value, key, text))
        }
        _ => false,
    }
}
