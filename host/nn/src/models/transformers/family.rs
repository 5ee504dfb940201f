//! What is known of a family of models.

use serde_json::{Map, Value};

use super::keys::Keys;
use super::terms::{Shapes, TransformersError};
use crate::LayerConfig;

/// A family of models: those of one `model_type`.
pub(super) struct Family {
    /// `model_type` in `config.json`.
    pub(super) model_type: &'static str,
    /// Its classes in `transformers`.
    pub(super) classes: Classes,
    /// Keys whose values the layers depend on.
    pub(super) used: &'static [&'static str],
    /// Keys that have no effect on the layers, beside [`NO_EFFECT`].
    pub(super) no_effect: &'static [&'static str],
    /// Keys with the only value that is understood, as JSON, and what another would mean; beside [`REFUSED`].
    pub(super) refused: &'static [(&'static str, &'static str, &'static str)],
    /// The layers, of samples and targets of these shapes.
    pub(super) layers: fn(&Keys<'_>, &Shapes<'_>) -> Result<Vec<LayerConfig>, TransformersError>,
    /// The names in files of its weights.
    pub(super) names: fn(&Keys<'_>) -> FamilyNames,
}

/// The classes of a family in `transformers`, by what they end with.
pub(super) struct Classes {
    /// With nothing after the blocks.
    pub(super) base: &'static str,
    /// With a number for each token; none if the family is not one of texts.
    pub(super) language: Option<&'static str>,
    /// With a number for each class.
    pub(super) classification: &'static str,
    /// Whether that of language continues texts.
    pub(super) generates: bool,
}

/// Keys of every `config.json` that have no effect on the layers: names, versions, tokens that the tokenizer knows, and settings of
/// generation.
const NO_EFFECT: &[&str] = &[
    "_attn_implementation",
    "_commit_hash",
    "_name_or_path",
    "architectures",
    "attn_implementation",
    "auto_map",
    "bos_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "eos_token_id",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "prefix",
    "problem_type",
    "repetition_penalty",
    "return_dict",
    "sep_token_id",
    "task_specific_params",
    "temperature",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "use_bfloat16",
    "use_cache",
];

/// Keys of every `config.json` with the only value that is understood.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "is_encoder_decoder",
        "false",
        "there is no second stack of layers here",
    ),
    (
        "is_decoder",
        "false",
        "the family's attention is that of an encoder",
    ),
    (
        "add_cross_attention",
        "false",
        "there is no attention to other sequences here",
    ),
    (
        "cross_attention_hidden_size",
        "null",
        "there is no attention to other sequences here",
    ),
    (
        "chunk_size_feed_forward",
        "0",
        "it changes what is computed at once",
    ),
    ("pruned_heads", "{}", "all heads of a layer are there"),
    (
        "quantization_config",
        "null",
        "weights are whole numbers of a format of its own; take the files that are not quantised",
    ),
];

impl Family {
    /// Refuses values that mean something that is not here.
    pub(super) fn check(&self, values: &Map<String, Value>) -> Result<(), TransformersError> {
        for (key, value) in values {
            let Some((_, only, reason)) = self.refusal(key) else {
                continue;
            };
            let only: Value = serde_json::from_str(only).unwrap_or(Value::Null);
            if !value.is_null() && *value != only {
                return Err(Keys::new(self.used, values).refused(key, reason));
            }
        }
        Ok(())
    }

    fn refusal(&self, key: &str) -> Option<&'static (&'static str, &'static str, &'static str)> {
        let mut all = self.refused.iter().chain(REFUSED);
        all.find(|(name, ..)| *name == key)
    }

    /// The keys that nothing is known of.
    pub(super) fn unknown<'a>(
        &'a self,
        values: &'a Map<String, Value>,
    ) -> impl Iterator<Item = &'a str> {
        let is_known = |key: &str| {
            let lists = [self.used, self.no_effect, NO_EFFECT];
            lists.iter().any(|list| list.contains(&key)) || self.refusal(key).is_some()
        };
        values
            .keys()
            .map(String::as_str)
            .filter(move |key| !is_known(key))
    }

    /// For messages.
    pub(super) fn used_and_refused(&self) -> impl Iterator<Item = &'static str> {
        let refused = self.refused.iter().map(|(key, ..)| *key);
        self.used.iter().copied().chain(refused)
    }
}

/// Names in files of a family's weights, which differ by the version of `transformers`. Those of the model come first: what is said here
/// concerns the other ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FamilyNames {
    /// Prefixes that files may lack, or have where the model has none, such as `transformer.`: files of a model without a head lack it.
    pub prefixes: Vec<String>,
    /// Parts of names in some files, each with the model's: `.gamma` and `.weight`.
    pub spellings: Vec<(String, String)>,
    /// Patterns of what files have and no such model uses: buffers, and heads of other tasks.
    pub ignored: Vec<String>,
    /// Names in files that are parameters of the model's of another name.
    pub tied: Vec<TiedName>,
    /// Patterns of the parameters of a head, which a file need not have.
    pub head: Vec<String>,
}

/// A name in files whose weight is another one of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TiedName {
    /// Name in the file.
    pub name: String,
    /// The model's parameter.
    pub parameter: String,
    /// The setting that unties them, as a message says it.
    pub setting: String,
}

impl TiedName {
    /// The head of a language model, tied to the table of its tokens.
    pub(super) fn head(name: &str, parameter: &str) -> TiedName {
        TiedName {
            name: name.to_owned(),
            parameter: parameter.to_owned(),
            setting: "`\"tie_word_embeddings\": false` in `config.json`".to_owned(),
        }
    }
}

/// Texts of lists in [`FamilyNames`].
pub(super) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Pairs of texts in [`FamilyNames`].
pub(super) fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(from, to)| ((*from).to_owned(), (*to).to_owned()))
        .collect()
}
