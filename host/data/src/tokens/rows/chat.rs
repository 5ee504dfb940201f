//! Conversations as text, by the chat template that a tokenizer comes with: a Jinja template, as `transformers` renders it.
//!
//! A template comes from elsewhere: it sees the messages alone, and has a number of steps.

use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value as Jinja, from_args};
use minijinja::{Environment, Error, ErrorKind, State, context};
use sconce_base::regular_file::read_at_most;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{DataError, TokensError, unreadable};
use crate::files::data_files::note;

/// Instructions that the rendering of one conversation may take.
const MOST_STEPS: u64 = 10_000_000;

/// Most messages of a conversation: it is rendered up to each answer.
const MOST_MESSAGES: usize = 1_000;

/// Largest file of a template.
const LARGEST: u64 = 1 << 24;

/// A chat template with the tokens that it may name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::tokens) struct ChatTemplate {
    pub(in crate::tokens) template: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::tokens) bos_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::tokens) eos_token: Option<String>,
}

/// A part of a conversation's text, and whether it is learnt.
pub(super) type Segment = (String, bool);

impl ChatTemplate {
    /// Reads the template in a `tokenizer_config.json`.
    pub(super) fn open(file: &Path) -> Result<ChatTemplate, DataError> {
        let bytes = read_at_most(file, LARGEST).map_err(|error| unreadable(file, error))?;
        note(file, &bytes);
        ChatTemplate::of(&bytes).map_err(|problem| {
            TokensError::Tokenizer {
                file: file.to_owned(),
                problem,
            }
            .into()
        })
    }

    fn of(bytes: &[u8]) -> Result<ChatTemplate, String> {
        let config: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let named = |templates: &Vec<Value>| {
            let default = templates.iter().find(|one| one["name"] == "default")?;
            default["template"].as_str().map(str::to_owned)
        };
        let template = match &config["chat_template"] {
            Value::String(template) => Some(template.clone()),
            Value::Array(templates) => named(templates),
            _ => None,
        };
        let token = |key: &str| {
            let token = &config[key];
            let text = token.as_str().or_else(|| token["content"].as_str());
            text.map(str::to_owned)
        };
        let found = ChatTemplate {
            template: template
                .ok_or("it has no `chat_template`, by which `messages` become text")?,
            bos_token: token("bos_token"),
            eos_token: token("eos_token"),
        };
        found.environment().map(drop)?;
        Ok(found)
    }

    /// The texts of a conversation, of which the assistant's answers are learnt.
    pub(super) fn segments(&self, messages: &[Value]) -> Result<Vec<Segment>, String> {
        if messages.len() > MOST_MESSAGES {
            return Err(format!(
                "it has {} messages, more than {MOST_MESSAGES}",
                messages.len()
            ));
        }
        let environment = self.environment()?;
        let mut segments = Vec::new();
        let mut done = String::new();
        for (place, message) in messages.iter().enumerate() {
            if message["role"] != "assistant" {
                continue;
            }
            let before = messages.get(..place).unwrap_or_default();
            let with = messages.get(..=place).unwrap_or_default();
            let given = self.render(&environment, before, true)?;
            let all = self.render(&environment, with, false)?;
            let new = |text: &str, start: &str| {
                let rest = text.strip_prefix(start).map(str::to_owned);
                rest.ok_or_else(|| {
                    format!(
                        "with its message {} the template changes the text before it",
                        place + 1
                    )
                })
            };
            segments.push((new(&given, &done)?, false));
            segments.push((new(&all, &given)?, true));
            done = all;
        }
        Ok(segments)
    }

    fn environment(&self) -> Result<Environment<'_>, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(|error| error.to_string())?;
        environment.set_syntax(syntax);
        environment.set_fuel(Some(MOST_STEPS));
        environment.set_unknown_method_callback(method);
        environment.add_function(
            "raise_exception",
            |message: String| -> Result<Jinja, Error> {
                Err(Error::new(ErrorKind::InvalidOperation, message))
            },
        );
        let added = environment.add_template("chat", &self.template);
        added.map_err(|error| format!("its `chat_template` is not valid: {error}"))?;
        Ok(environment)
    }

    fn render(
        &self,
        environment: &Environment<'_>,
        messages: &[Value],
        add_generation_prompt: bool,
    ) -> Result<String, String> {
        let values = context! {
            messages => Jinja::from(Serde(messages)),
            add_generation_prompt,
            bos_token => self.bos_token.as_deref().unwrap_or_default(),
            eos_token => self.eos_token.as_deref().unwrap_or_default(),
        };
        let template = environment.get_template("chat");
        let rendered = template.and_then(|template| template.render(values));
        rendered.map_err(|error| format!("the chat template fails: {error:#}"))
    }
}

/// Methods of Python's texts and dictionaries that templates call.
fn method(
    _state: &mut State<'_, '_>,
    value: &Jinja,
    name: &str,
    arguments: &[Jinja],
) -> Result<Jinja, Error> {
    let unknown = || Error::from(ErrorKind::UnknownMethod);
    if let Some(text) = value.as_str() {
        return of_text(text, name, arguments).unwrap_or_else(|| Err(unknown()));
    }
    match name {
        "items" => {
            let keys = value.try_iter()?;
            let pair = |key: Jinja| Ok(Jinja::from(vec![key.clone(), value.get_item(&key)?]));
            keys.map(pair)
                .collect::<Result<Vec<Jinja>, Error>>()
                .map(Jinja::from)
        }
        "keys" => Ok(value.try_iter()?.collect()),
        "get" => {
            let (key, default): (Jinja, Option<Jinja>) = from_args(arguments)?;
            let found = value.get_item(&key)?;
            Ok(if found.is_undefined() {
                default.unwrap_or(Jinja::from(()))
            } else {
                found
            })
        }
        _ => Err(unknown()),
    }
}

fn of_text(text: &str, name: &str, arguments: &[Jinja]) -> Option<Result<Jinja, Error>> {
    let one = || from_args::<(&str,)>(arguments).map(|(argument,)| argument);
    let set = || from_args::<(Option<&str>,)>(arguments).map(|(set,)| set);
    let is_in = |set: Option<&str>| {
        let set = set.map(str::to_owned);
        move |c: char| {
            set.as_ref()
                .map_or(c.is_whitespace(), |set| set.contains(c))
        }
    };
    Some(match name {
        "strip" => set().map(|set| text.trim_matches(is_in(set)).into()),
        "lstrip" => set().map(|set| text.trim_start_matches(is_in(set)).into()),
        "rstrip" => set().map(|set| text.trim_end_matches(is_in(set)).into()),
        "startswith" => one().map(|start| text.starts_with(start).into()),
        "endswith" => one().map(|end| text.ends_with(end).into()),
        "upper" => Ok(text.to_uppercase().into()),
        "lower" => Ok(text.to_lowercase().into()),
        "replace" => {
            from_args::<(&str, &str)>(arguments).map(|(from, to)| text.replace(from, to).into())
        }
        "split" => set().map(|separator| match separator {
            Some(separator) => text.split(separator).collect(),
            None => text.split_whitespace().collect(),
        }),
        _ => return None,
    })
}
