//! What is refused of a tokenizer's file, which comes from elsewhere: whatever could run for ever, fill the memory, or be
//! random. It is looked for in the JSON, before the library makes anything of it.

use fancy_regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

/// Steps back that a match may take: patterns in use take a few; beyond it a text of some kB would take seconds.
const MOST_STEPS_BACK: usize = 100_000;

/// Times that a text may grow by replacements: a sequence of them could make any number of bytes of one.
const MOST_GROWTH: usize = 1 << 12;

/// Longest word in characters that a WordPiece model may look at, in time by the cube of it; BERT's is 100.
const LONGEST_WORD: u64 = 1_000;

/// Checks a tokenizer, and returns the patterns in it.
pub(super) fn checked(tokenizer: &Value) -> Result<Vec<Regex>, String> {
    let Some(tokenizer) = tokenizer.as_object() else {
        return Err("it is not a JSON object".to_owned());
    };
    if let Some(model) = tokenizer.get("model").and_then(Value::as_object) {
        check_model(model)?;
    }
    let mut steps = Steps {
        patterns: Vec::new(),
        growth: 1,
    };
    for part in ["normalizer", "pre_tokenizer", "post_processor", "decoder"] {
        steps.growth = 1;
        if let Some(part) = tokenizer.get(part) {
            steps.visit(part)?;
        }
    }
    Ok(steps.patterns)
}

fn check_model(model: &Map<String, Value>) -> Result<(), String> {
    if model.get("dropout").and_then(Value::as_f64).unwrap_or(0.0) > 0.0 {
        return Err(
            "its model has a `dropout`, by which the same text has other tokens each time: set it to null"
                .to_owned(),
        );
    }
    let longest = model
        .get("max_input_chars_per_word")
        .and_then(Value::as_u64);
    if let Some(longest) = longest.filter(|longest| *longest > LONGEST_WORD) {
        return Err(format!(
            "its `max_input_chars_per_word` is {longest}, more than {LONGEST_WORD}"
        ));
    }
    Ok(())
}

struct Steps {
    patterns: Vec<Regex>,
    /// Product of what replacements of a part may make of a byte.
    growth: usize,
}

impl Steps {
    /// Looks at a value and all in it. Its depth is limited by the parser.
    fn visit(&mut self, value: &Value) -> Result<(), String> {
        match value {
            Value::Array(values) => values.iter().try_for_each(|value| self.visit(value)),
            Value::Object(step) => {
                self.look_at(step)?;
                step.values().try_for_each(|value| self.visit(value))
            }
            _ => Ok(()),
        }
    }

    fn look_at(&mut self, step: &Map<String, Value>) -> Result<(), String> {
        if let Some(pattern) = step.get("Regex").and_then(Value::as_str) {
            let pattern = RegexBuilder::new(pattern)
                .backtrack_limit(MOST_STEPS_BACK)
                .build()
                .map_err(|error| format!("its pattern `{pattern}` is not valid: {error}"))?;
            self.patterns.push(pattern);
        }
        if step.get("length").and_then(Value::as_u64) == Some(0) {
            return Err("it cuts texts in pieces of length 0".to_owned());
        }
        let content = step.get("content").or_else(|| step.get("prepend"));
        if let Some(content) = content.and_then(Value::as_str) {
            self.growth = self.growth.saturating_mul(content.len().max(1));
        }
        if self.growth > MOST_GROWTH {
            return Err(format!(
                "its replacements can make a text more than {MOST_GROWTH} times as long"
            ));
        }
        Ok(())
    }
}
