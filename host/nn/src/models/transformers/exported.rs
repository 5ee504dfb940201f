//! The `config.json` of a model that has been trained.

use serde_json::{Map, Value, json};

use super::config::TransformersConfig;
use super::families;
use super::family::Family;
use super::terms::{Head, TransformersError};
use crate::{LayerConfig, LayerKind, Signal, Targets};

/// What `transformers` builds a trained model by.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedConfig {
    /// `config.json`: that of the manifest, with what the data decided.
    pub config: Map<String, Value>,
    /// `generation_config.json`, of a model that continues texts.
    pub generation: Option<Map<String, Value>>,
}

/// Tokens of the data that have a role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenRoles {
    /// The one at the end of documents.
    pub end: Option<u32>,
    /// The one that the tokenizer fills texts up with.
    pub padding: Option<u32>,
}

/// Keys of tokens that have a role.
const ROLES: [&str; 3] = ["bos_token_id", "eos_token_id", "pad_token_id"];

/// Keys that would contradict what is written, or name what the model no longer is.
const DROPPED: [&str; 3] = ["_name_or_path", "num_labels", "torch_dtype"];

impl TransformersConfig {
    /// Returns the configuration of the model that was trained on samples like `input` and targets like `targets`: its class, the
    /// names of the classes, the size of the vocabulary, and the tokens that have a role in the data.
    ///
    /// # Errors
    ///
    /// If the model can't be built, or `transformers` has no such model: its head must have as many outputs as there are tokens.
    pub fn exported(
        &self,
        input: &Signal,
        targets: &Targets,
        roles: TokenRoles,
    ) -> Result<ExportedConfig, TransformersError> {
        let mut config = self.values()?.clone();
        let family = families::of(&config)?;
        let layers = self.layers(input, targets)?;
        let head = self.head.unwrap_or_else(|| Head::for_targets(targets));
        config.retain(|key, _| !DROPPED.contains(&key.as_str()));
        let class = class_of(family, head)?;
        config.insert("architectures".to_owned(), json!([class]));
        config.insert("dtype".to_owned(), json!("float32"));
        if let Some(vocabulary) = vocabulary(&layers) {
            if head == Head::Language && !is_tied(&layers) && targets.outputs() != vocabulary {
                return Err(TransformersError::Vocabulary {
                    outputs: targets.outputs(),
                    vocabulary,
                });
            }
            config.insert("vocab_size".to_owned(), json!(vocabulary));
            set_roles(&mut config, vocabulary, roles);
        }
        if head == Head::Classification {
            label(&mut config, targets);
        }
        let generates = head == Head::Language && family.classes.generates;
        Ok(ExportedConfig {
            generation: generates.then(|| generation(&config)),
            config,
        })
    }
}

fn class_of(family: &Family, head: Head) -> Result<&'static str, TransformersError> {
    match head {
        Head::Language => family.classes.language.ok_or(TransformersError::NoLanguage),
        Head::Classification => Ok(family.classes.classification),
        Head::None => Ok(family.classes.base),
    }
}

/// Number of tokens of the first table of embeddings.
fn vocabulary(layers: &[LayerConfig]) -> Option<usize> {
    layers.iter().find_map(|layer| match &layer.kind {
        LayerKind::Embedding(table) => table.tokens,
        LayerKind::Parallel(sum) => sum.branches.iter().find_map(|branch| vocabulary(branch)),
        _ => None,
    })
}

/// Whether the head, the last layer, uses the table of the tokens.
fn is_tied(layers: &[LayerConfig]) -> bool {
    let head = layers.last().map(|layer| &layer.kind);
    matches!(head, Some(LayerKind::Linear(linear)) if linear.tied.is_some())
}

/// Leaves out tokens that the vocabulary doesn't have, and notes those of the data.
fn set_roles(config: &mut Map<String, Value>, vocabulary: usize, roles: TokenRoles) {
    let is_known = |token: &Value| {
        token
            .as_u64()
            .is_some_and(|token| token < vocabulary as u64)
    };
    for role in ROLES {
        // A missing key would mean the token of the class's default.
        let token = config.entry(role).or_insert(Value::Null);
        match token {
            Value::Array(tokens) => tokens.retain(is_known),
            token if !is_known(token) => *token = Value::Null,
            _ => {}
        }
    }
    // By it classes of texts are read at the last token that is none: another would be wrong for every padded text.
    let padding = roles.padding.map(|padding| json!(padding));
    if let Some(padding) = padding.filter(is_known) {
        config.insert("pad_token_id".to_owned(), padding);
    }
    let Some(end) = roles.end.map(|end| json!(end)) else {
        return;
    };
    let eos = config.entry("eos_token_id").or_insert(Value::Null);
    let has_end = match &*eos {
        Value::Array(tokens) => tokens.contains(&end),
        token => *token == end,
    };
    if !has_end {
        *eos = end;
    }
}

/// Names the classes, or the numbers.
fn label(config: &mut Map<String, Value>, targets: &Targets) {
    let names = targets.names().iter().enumerate();
    let by_number = names
        .clone()
        .map(|(id, name)| (id.to_string(), json!(name)));
    config.insert("id2label".to_owned(), by_number.collect());
    let by_name = names.map(|(id, name)| (name.clone(), json!(id)));
    config.insert("label2id".to_owned(), by_name.collect());
    let problem = match targets {
        Targets::Numbers(_) => "regression",
        _ => "single_label_classification",
    };
    config.insert("problem_type".to_owned(), json!(problem));
}

/// What `transformers` would take from the configuration itself.
fn generation(config: &Map<String, Value>) -> Map<String, Value> {
    let copied = ROLES.iter().chain(&["transformers_version"]);
    let copied = copied.filter_map(|key| {
        let value = config.get(*key).filter(|value| !value.is_null())?;
        Some(((*key).to_owned(), value.clone()))
    });
    let mut generation: Map<String, Value> = copied.collect();
    generation.insert("_from_model_config".to_owned(), json!(true));
    generation
}
