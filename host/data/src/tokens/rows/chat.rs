//! Conversations as text, by the chat template that a tokenizer comes with: a Jinja template, as `transformers` renders it.
//!
//! A template comes from elsewhere: it sees the messages alone, has a number of steps, and writes a number of bytes.

use std::io::{self, Write};
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

/// Longest text of a conversation, in bytes.
const LONGEST_TEXT: usize = 1 << 24;

/// Most messages of a conversation: it is rendered up to each answer.
const MOST_MESSAGES: usize = 1_000;

/// Largest file of a template.
const LARGEST: u64 = 1 << 24;

/// A chat template with the tokens that it may name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::tokens) struct ChatTemplate {
    template: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bos_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    eos_token: Option<String>,
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
        let failed = |error: Error| format!("the chat template fails: {error:#}");
        let template = environment.get_template("chat").map_err(failed)?;
        let mut text = BoundedText::default();
        let rendered = template.render_captured_to(values, &mut text);
        if text.is_full {
            let line = rendered.err().and_then(|error| error.line());
            let place = line.map_or_else(String::new, |line| format!(", in its line {line}"));
            return Err(format!(
                "the chat template writes more than {LONGEST_TEXT} bytes for one conversation{place}"
            ));
        }
        rendered.map_err(failed)?;
        String::from_utf8(text.bytes).map_err(|error| error.to_string())
    }
}

/// What a template writes, up to [`LONGEST_TEXT`].
#[derive(Default)]
struct BoundedText {
    bytes: Vec<u8>,
    is_full: bool,
}

impl Write for BoundedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > LONGEST_TEXT {
            self.is_full = true;
            return Err(io::Error::other("the text is too long"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn segments(template: &str) -> Result<Vec<Segment>, String> {
        let config = json!({"chat_template": template}).to_string();
        let messages = [
            json!({"role": "user", "content": "hi"}),
            json!({"role": "assistant", "content": "hello"}),
        ];
        ChatTemplate::of(config.as_bytes())?.segments(&messages)
    }

    #[test]
    fn a_template_that_never_ends_or_writes_without_end_is_an_error() {
        let long = "x".repeat(4096);
        for (template, words) in [
            (
                "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
                "ran out of fuel",
            ),
            (
                &format!("\n{{% for a in range(99999) %}}{long}{{% endfor %}}")[..],
                "more than 16777216 bytes for one conversation, in its line 2",
            ),
            (
                "{{ 'abcdefgh' * 4000000 }}",
                "more than 16777216 bytes for one conversation, in its line 1",
            ),
            ("{{ 'abcdefgh' * 1000000000000 }}", "too large"),
            (
                "{% macro f(a) %}{{ f(a) }}{% endmacro %}{{ f(1) }}",
                "recursion",
            ),
        ] {
            let told = segments(template).expect_err(words);
            assert!(told.contains(words), "{words}: {told}");
        }
    }

    #[test]
    fn a_template_is_rendered_up_to_each_answer() {
        let template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
        let expected = vec![
            ("<user>hi<assistant>".to_owned(), false),
            ("hello".to_owned(), true),
        ];
        assert_eq!(segments(template), Ok(expected));
    }
}
