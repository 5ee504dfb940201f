//! Sentences of a small grammar, drawn from the seed: text that needs no download and that a small
//! model can learn.

mod config;
mod sentence;

use std::sync::Arc;

pub use config::GrammarConfig;

use crate::dataset::fitted::Fitted;
use crate::text::{TextDataset, TextTransform, Tokens};
use crate::{DataError, Dataset, Vocabulary};
use sconce_ops::random;

/// Generates the sentences. Sample i of a phase depends only on (seed, phase, i).
///
/// # Errors
///
/// If there is nothing to train on.
pub(crate) fn load(config: &GrammarConfig, seed: u64) -> Result<Fitted<TextTransform>, DataError> {
    for (key, number) in [("train", config.train), ("context", config.context)] {
        if number == 0 {
            return Err(DataError::Range {
                key,
                range: "at least 1",
                found: 0.0,
            });
        }
    }
    let vocabulary = Arc::new(Vocabulary::of_characters(&sentence::characters()));
    let dataset = |phase: &str, count: usize| -> Arc<dyn Dataset> {
        // The context, and the target of its last position.
        let length = config.context + 1;
        let purpose = format!("grammar/{phase}");
        let samples = (0..count).flat_map(|index| {
            let mut stream = random::stream(seed, &purpose, 0, index as u64);
            let mut text = String::new();
            while text.len() < length {
                sentence::write(&mut stream, &mut text);
            }
            text.truncate(length);
            // The vocabulary has all characters of the grammar.
            vocabulary.encode(&text).unwrap_or_default()
        });
        let tokens = Tokens::new(samples.collect(), vocabulary.len());
        let vocabulary = Arc::clone(&vocabulary);
        Arc::new(TextDataset::new(tokens, vocabulary, config.context, length))
    };
    let phase = |name: &str, count: usize| (count > 0).then(|| dataset(name, count));
    Ok(Fitted {
        train: dataset("train", config.train),
        val: phase("val", config.val),
        test: phase("test", config.test),
        learnt: TextTransform::new(Arc::clone(&vocabulary), config.context),
    })
}

#[cfg(test)]
mod tests;
