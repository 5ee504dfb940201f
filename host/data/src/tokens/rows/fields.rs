//! The texts of a row, by their keys.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::JsonlConfig;

/// Keys of a row's texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::tokens) enum Fields {
    /// A text, and its class.
    Labelled {
        /// Key of the text.
        text: String,
        /// Key of the class.
        label: String,
    },
    /// A text that is given, and one that is learnt.
    Completed {
        /// Key of the given text.
        prompt: String,
        /// Key of the learnt text.
        completion: String,
    },
    /// A conversation.
    Chat {
        /// Key of its messages.
        messages: String,
    },
}

/// A row's texts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RowText {
    /// With the class, if the row has one.
    Labelled(String, Option<String>),
    /// Given and learnt.
    Completed(String, String),
    /// Messages.
    Chat(Vec<Value>),
}

impl Fields {
    /// The keys of the manifest, or those that the first row has.
    pub(super) fn of(config: &JsonlConfig, first: &Map<String, Value>) -> Result<Fields, String> {
        let or =
            |key: &Option<String>, default: &str| key.clone().unwrap_or_else(|| default.to_owned());
        let labelled = Fields::Labelled {
            text: or(&config.text, "text"),
            label: or(&config.label, "label"),
        };
        let completed = Fields::Completed {
            prompt: or(&config.prompt, "prompt"),
            completion: or(&config.completion, "completion"),
        };
        let chat = Fields::Chat {
            messages: or(&config.messages, "messages"),
        };
        let says = [
            config.text.is_some() || config.label.is_some(),
            config.prompt.is_some() || config.completion.is_some(),
            config.messages.is_some(),
        ];
        match says {
            [true, false, false] => Ok(labelled),
            [false, true, false] => Ok(completed),
            [false, false, true] => Ok(chat),
            [false, false, false] => [chat, completed, labelled]
                .into_iter()
                .find(|fields| fields.keys().iter().all(|key| first.contains_key(*key)))
                .ok_or_else(|| {
                    format!(
                        "the first row has {}, neither `messages` nor `prompt` with `completion` nor `text` with `label`: name its keys by \
                         `data.messages`, `data.prompt` and `data.completion`, or `data.text` and `data.label`",
                        listed(first)
                    )
                }),
            _ => Err(
                "rows have `messages`, `prompt` with `completion`, or `text` with `label`: name the keys of one of these"
                    .to_owned(),
            ),
        }
    }

    /// All keys.
    pub(super) fn keys(&self) -> Vec<&str> {
        match self {
            Fields::Labelled { text, label } => vec![text, label],
            Fields::Completed { prompt, completion } => vec![prompt, completion],
            Fields::Chat { messages } => vec![messages],
        }
    }

    /// Takes the texts of a row; the class may be missing if `needs_label` is false.
    pub(super) fn take(
        &self,
        mut row: Map<String, Value>,
        needs_label: bool,
    ) -> Result<RowText, String> {
        match self {
            Fields::Labelled { text, label } => {
                let class = match row.get(label) {
                    None | Some(Value::Null) if !needs_label => None,
                    None => return Err(missing(&row, label)),
                    Some(value) => Some(class(value, label)?),
                };
                Ok(RowText::Labelled(text_of(&mut row, text)?, class))
            }
            Fields::Completed { prompt, completion } => Ok(RowText::Completed(
                text_of(&mut row, prompt)?,
                text_of(&mut row, completion)?,
            )),
            Fields::Chat { messages } => match row.remove(messages) {
                Some(Value::Array(messages)) => Ok(RowText::Chat(messages)),
                Some(_) => Err(format!("`{messages}` is not a list")),
                None => Err(missing(&row, messages)),
            },
        }
    }
}

fn text_of(row: &mut Map<String, Value>, key: &str) -> Result<String, String> {
    match row.get_mut(key) {
        Some(Value::String(text)) => Ok(std::mem::take(text)),
        Some(_) => Err(format!("`{key}` is not a text")),
        None => Err(missing(row, key)),
    }
}

fn class(value: &Value, key: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(truth) => Ok(truth.to_string()),
        Value::Number(number) if !number.is_f64() => Ok(number.to_string()),
        _ => Err(format!("`{key}` is neither a text nor a whole number")),
    }
}

fn missing(row: &Map<String, Value>, key: &str) -> String {
    format!("there is no `{key}`, but {}", listed(row))
}

/// The first keys of a row.
fn listed(row: &Map<String, Value>) -> String {
    let keys: Vec<String> = row.keys().take(8).map(|key| format!("`{key}`")).collect();
    if keys.is_empty() {
        "nothing".to_owned()
    } else {
        keys.join(", ")
    }
}
