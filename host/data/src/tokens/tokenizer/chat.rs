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
use serde_json::{Value, json};

use crate::error::{DataError, TokensError, unreadable};
use crate::files::data_files::note;

/// Steps that the rendering of one conversation may take: instructions, and what they write. Those of the families take some hundred a
/// message.
const MOST_STEPS: u64 = 1_000_000;

/// Most bytes of a conversation's text, and of one that a method makes.
const LONGEST: usize = 1 << 24;

/// Most messages of a conversation: it is rendered up to each answer.
const MOST_MESSAGES: usize = 1_000;

/// Largest file of a template.
const LARGEST: u64 = 1 << 24;

/// Where `transformers` keeps a template since its version 4.50, and where it did before, with the tokens that templates name.
const TEMPLATE: &str = "chat_template.jinja";
const CONFIG: &str = "tokenizer_config.json";

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

/// Stands for an answer whose end is looked for.
const ANSWER: &str = "answer";

/// A message of a user as a model of conversations has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatQuestion {
    /// The text up to where the answer begins.
    pub text: String,
    /// What the template writes after an answer, without space around it, if it writes anything.
    pub end: Option<String>,
}

/// A part of a conversation's text, and whether it is learnt.
pub(in crate::tokens) type Segment = (String, bool);

impl ChatTemplate {
    /// Reads a template: of a `tokenizer_config.json`, the `chat_template.jinja` beside it or the one in it; or a file of
    /// Jinja, whose tokens are in the `tokenizer_config.json` beside it.
    pub(in crate::tokens) fn open(file: &Path) -> Result<ChatTemplate, DataError> {
        let is_jinja = file
            .extension()
            .is_some_and(|extension| extension == "jinja");
        let (config, template) = if is_jinja {
            (read_beside(file, CONFIG)?, Some(read(file)?))
        } else {
            (Some(read(file)?), read_beside(file, TEMPLATE)?)
        };
        // The one with the template, if that has a file of its own.
        let own = match &template {
            Some(_) if !is_jinja => file.with_file_name(TEMPLATE),
            _ => file.to_owned(),
        };
        let config = config.unwrap_or_else(|| b"{}".to_vec());
        let unfit = |file: &Path, problem| TokensError::Tokenizer {
            file: file.to_owned(),
            problem,
        };
        let found = ChatTemplate::of(&config, template).map_err(|problem| unfit(file, problem))?;
        found
            .environment()
            .map_err(|problem| unfit(&own, problem))?;
        Ok(found)
    }

    /// Takes the content of a `tokenizer_config.json`, and of a file of Jinja, which counts instead of the template there.
    fn of(config: &[u8], file: Option<Vec<u8>>) -> Result<ChatTemplate, String> {
        let config: Value = serde_json::from_slice(config).map_err(|error| error.to_string())?;
        let named = |templates: &Vec<Value>| {
            let default = templates.iter().find(|one| one["name"] == "default")?;
            default["template"].as_str().map(str::to_owned)
        };
        let file = file.map(|text| String::from_utf8(text).map_err(|error| error.to_string()));
        let in_config = || match &config["chat_template"] {
            Value::String(template) => Some(template.clone()),
            Value::Array(templates) => named(templates),
            _ => None,
        };
        let token = |key: &str| {
            let token = &config[key];
            let text = token.as_str().or_else(|| token["content"].as_str());
            text.map(str::to_owned)
        };
        Ok(ChatTemplate {
            template: (file.transpose()?.or_else(in_config)).ok_or(
                "it has no `chat_template`, by which `messages` become text, and no `chat_template.jinja` is beside it",
            )?,
            bos_token: token("bos_token"),
            eos_token: token("eos_token"),
        })
    }

    /// The text of a user's message, up to where its answer begins.
    pub(in crate::tokens) fn question(&self, message: &str) -> Result<ChatQuestion, String> {
        let environment = self.environment()?;
        let asked = json!({"role": "user", "content": message});
        let text = self.render(&environment, std::slice::from_ref(&asked), true)?;
        let answer = json!({"role": "assistant", "content": ANSWER});
        let answered = self.render(&environment, &[asked, answer], false)?;
        let rest = answered.strip_prefix(text.as_str());
        let end = rest.and_then(|rest| rest.split_once(ANSWER));
        let end = end.map(|(_, end)| end.trim().to_owned());
        Ok(ChatQuestion {
            text,
            end: end.filter(|end| !end.is_empty()),
        })
    }

    /// The texts of a conversation, of which the assistant's answers are learnt.
    pub(in crate::tokens) fn segments(&self, messages: &[Value]) -> Result<Vec<Segment>, String> {
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
        environment.add_filter("tojson", |value: Jinja| -> Result<String, Error> {
            let value = serde_json::to_value(&value);
            let value = value
                .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
            Ok(as_python_writes(&value))
        });
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
            return Err(format!(
                "the chat template writes more than {LONGEST} bytes for one conversation"
            ));
        }
        rendered.map_err(failed)?;
        String::from_utf8(text.bytes).map_err(|error| error.to_string())
    }
}

/// What a template writes, up to [`LONGEST`].
#[derive(Default)]
struct BoundedText {
    bytes: Vec<u8>,
    is_full: bool,
}

impl Write for BoundedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > LONGEST {
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

fn read(file: &Path) -> Result<Vec<u8>, DataError> {
    let bytes = read_at_most(file, LARGEST).map_err(|error| unreadable(file, error))?;
    note(file, &bytes);
    Ok(bytes)
}

/// Reads a file beside another one, if it is there.
fn read_beside(file: &Path, name: &str) -> Result<Option<Vec<u8>>, DataError> {
    let beside = file.with_file_name(name);
    let is_there = beside.exists();
    is_there.then(|| read(&beside)).transpose()
}

/// JSON with Python's spaces, as `transformers` has templates write it; Jinja's own is escaped for HTML.
fn as_python_writes(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(as_python_writes).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let members = members.iter();
            let pairs = members.map(|(key, value)| {
                let key = Value::from(key.as_str());
                format!("{key}: {}", as_python_writes(value))
            });
            format!("{{{}}}", pairs.collect::<Vec<String>>().join(", "))
        }
        other => other.to_string(),
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
        "replace" => from_args::<(&str, &str)>(arguments).and_then(|(from, to)| {
            let added = text.matches(from).count().saturating_mul(to.len());
            if text.len().saturating_add(added) > LONGEST {
                let long = "a text of more than 16 MiB";
                return Err(Error::new(ErrorKind::InvalidOperation, long));
            }
            Ok(text.replace(from, to).into())
        }),
        "split" => set().map(|separator| match separator {
            Some(separator) => text.split(separator).collect(),
            None => text.split_whitespace().collect(),
        }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    /// What `tests/reference/tutorials.py` has written by `transformers`.
    #[derive(Deserialize)]
    struct Reference {
        bos: String,
        chats: Vec<Chat>,
    }

    #[derive(Deserialize)]
    struct Chat {
        name: String,
        template: String,
        messages: Vec<Value>,
        text: String,
    }

    #[test]
    fn conversations_are_those_of_transformers() {
        let text = include_str!("../../../../../tests/reference/tutorials/expected.json");
        let Reference { bos, chats } = serde_json::from_str(text).expect("JSON");
        assert_eq!(chats.len(), 10);
        for chat in chats {
            let config = json!({"chat_template": chat.template, "bos_token": bos, "eos_token": {"content": bos}});
            let template = ChatTemplate::of(config.to_string().as_bytes(), None).expect(&chat.name);
            let environment = template.environment().expect(&chat.name);
            let found = template.render(&environment, &chat.messages, false);
            assert_eq!(found.as_ref(), Ok(&chat.text), "{}", chat.name);
        }
    }

    #[test]
    fn a_file_of_its_own_counts_instead_of_the_one_in_the_configuration() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let config = json!({"chat_template": "old", "eos_token": "</s>"});
        std::fs::write(path(CONFIG), config.to_string()).expect("written");
        let text = |name: &str| {
            let template = ChatTemplate::open(&path(name)).expect("a template");
            let environment = template.environment().expect("an environment");
            template.render(&environment, &[], false).expect("a text")
        };
        assert_eq!(text(CONFIG), "old");
        std::fs::write(path(TEMPLATE), "new{{ eos_token }}").expect("written");
        assert_eq!([text(CONFIG), text(TEMPLATE)], ["new</s>"; 2]);
        std::fs::write(path("mine.jinja"), "mine{{ eos_token }}").expect("written");
        assert_eq!(text("mine.jinja"), "mine</s>");
    }

    fn segments(template: &str) -> Result<Vec<Segment>, String> {
        let config = json!({"chat_template": template}).to_string();
        let messages = [
            json!({"role": "user", "content": "hi"}),
            json!({"role": "assistant", "content": "hello"}),
        ];
        ChatTemplate::of(config.as_bytes(), None)?.segments(&messages)
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
                "more than 16777216 bytes for one conversation",
            ),
            (
                "{{ 'abcdefgh' * 4000000 }}",
                "more than 16777216 bytes for one conversation",
            ),
            (
                "{{ 'abcdefgh' * 1000000000000 }}",
                "the chat template fails",
            ),
            (
                "{% macro f(a) %}{{ f(a) }}{% endmacro %}{{ f(1) }}",
                "the chat template fails",
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
