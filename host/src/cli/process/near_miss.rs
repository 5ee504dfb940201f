//! Advice on command lines of other programs' habit: `sconce train`, `--epochs 5`, a manifest where a command belongs.

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde_json::Value;

use crate::coming_from;
use crate::manifest::{TaskSource, json_schema};
use crate::shell_word::shell_word;
use sconce_base::nearest::ours;

/// Other programs' names of commands.
const COMMANDS: [(&str, &str); 19] = [
    ("create", "sconce new-run FILE"),
    ("evaluate", "sconce eval FILE"),
    ("finetune", "sconce run FILE"),
    ("fit", "sconce run FILE"),
    ("hooks", "sconce plugins"),
    ("infer", "sconce predict FILE"),
    ("inference", "sconce predict FILE"),
    ("init", "sconce new-run FILE"),
    ("install", "sconce install-plugins"),
    ("list", "sconce runs"),
    ("logs", "sconce runs"),
    ("ls", "sconce runs"),
    ("new", "sconce new-run FILE"),
    ("resume", "sconce run FILE --resume"),
    ("start", "sconce run FILE"),
    ("test", "sconce eval FILE"),
    ("torchrun", "sconce launch -n 2 FILE"),
    ("train", "sconce run FILE"),
    ("version", "sconce --version"),
];

/// Replaces the suggestion of an error of the command line where it is a habit from elsewhere. `words` are the arguments of
/// the process.
pub(in crate::cli) fn explain(error: &mut clap::Error, command: &clap::Command, words: &[String]) {
    let word = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    let advice = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            word(error, ContextKind::InvalidSubcommand).and_then(|word| of_command(&word))
        }
        ErrorKind::UnknownArgument => {
            let name = words.get(1).map_or("", String::as_str);
            let command = command.find_subcommand(name).unwrap_or(command);
            word(error, ContextKind::InvalidArg).and_then(|word| of_argument(&word, command, words))
        }
        _ => None,
    };
    if let Some(advice) = advice {
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedArg);
        let advice = ContextValue::StyledStrs(vec![advice.into()]);
        error.insert(ContextKind::Suggested, advice);
    }
}

/// Advice on a word that is not a command.
fn of_command(word: &str) -> Option<String> {
    if let Some((_, ours)) = COMMANDS.iter().find(|(theirs, _)| *theirs == word) {
        return Some(format!("here it is '{ours}'"));
    }
    let path = Path::new(word);
    let is_manifest = path
        .extension()
        .is_some_and(|ending| ending == "json" || ending == "jsonc");
    if is_manifest || path.is_file() {
        return Some(format!(
            "to train by a manifest: 'sconce run {}'",
            shell_word(word)
        ));
    }
    None
}

/// Advice on an argument that the command doesn't have.
fn of_argument(word: &str, command: &clap::Command, words: &[String]) -> Option<String> {
    let has = |long: &str| {
        command
            .get_arguments()
            .any(|arg| arg.get_long() == Some(long))
    };
    let Some(name) = word.strip_prefix("--") else {
        let is_assignment = word
            .split_once('=')
            .is_some_and(|(path, _)| !path.is_empty());
        return if is_assignment && has("set") {
            Some(format!(
                "a value of the manifest is set by '--set {}'",
                shell_word(word)
            ))
        } else if Path::new(word).exists() && has("input") {
            Some(format!(
                "samples are given by '--input {}'",
                shell_word(word)
            ))
        } else if Path::new(word).is_file() && has("layer") {
            Some(format!(
                "a second manifest is laid over the first by '--layer {}'",
                shell_word(word)
            ))
        } else {
            None
        };
    };
    if name == "config" || name == "config-file" || name == "manifest" {
        return Some("the manifest is given without an option: 'sconce run FILE'".to_owned());
    }
    if !has("set") {
        return None;
    }
    let key = name.replace('-', "_");
    let value = value_of(word, words).unwrap_or("VALUE");
    if let Some(path) = path_of(&key, &json_schema(TaskSource::Manifest)) {
        let assignment = shell_word(&format!("{path}={value}")).into_owned();
        return Some(format!("it is a key of the manifest: '--set {assignment}'"));
    }
    coming_from::hints(&key, None).into_iter().next()
}

/// The value that follows an option on the command line.
fn value_of<'a>(option: &str, words: &'a [String]) -> Option<&'a str> {
    let at = words.iter().position(|word| {
        word.strip_prefix(option)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    })?;
    match words.get(at)?.split_once('=') {
        Some((_, value)) => Some(value),
        None => words
            .get(at + 1)
            .map(String::as_str)
            .filter(|value| !value.starts_with("--")),
    }
}

/// The path of the manifest's key with this name: its own, or one of `train`, `optimizer` or another object.
fn path_of(name: &str, schema: &Value) -> Option<String> {
    let name = ours(name).unwrap_or(name);
    let has = |schema: &Value| {
        schema
            .get("properties")
            .is_some_and(|keys| keys.get(name).is_some())
    };
    let is_section = |part: &Value| {
        let forms = part.get("oneOf").or_else(|| part.get("anyOf"));
        has(part)
            || forms
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .any(has)
    };
    let sections = schema.get("properties")?.as_object()?;
    if sections.contains_key(name) {
        return Some(name.to_owned());
    }
    // Numbers of the training are meant more often than those of the data.
    let first = ["train", "optimizer", "model"].into_iter();
    let rest = sections.keys().map(String::as_str);
    let mut all = first.chain(rest);
    all.find(|key| sections.get(*key).is_some_and(is_section))
        .map(|section| format!("{section}.{name}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn advice(line: &str) -> String {
        let words: Vec<String> = format!("sconce {line}")
            .split(' ')
            .map(str::to_owned)
            .collect();
        let mut command = Cli::command();
        command.build();
        let mut error = command
            .clone()
            .try_get_matches_from(&words)
            .expect_err(line);
        explain(&mut error, &command, &words);
        error.to_string()
    }

    #[test]
    fn habits_from_elsewhere_are_answered_with_what_to_write() {
        for (line, expected) in [
            ("train run.json", "here it is 'sconce run FILE'"),
            ("evaluate run.json", "here it is 'sconce eval FILE'"),
            ("run.json", "to train by a manifest: 'sconce run run.json'"),
            ("run run.json --epochs 5", "'--set train.epochs=5'"),
            ("run run.json --epochs=5", "'--set train.epochs=5'"),
            ("run run.json --epochs", "'--set train.epochs=VALUE'"),
            ("run run.json --max-epochs 5", "'--set train.epochs=5'"),
            (
                "run run.json --lr 0.1",
                "'--set optimizer.learning_rate=0.1'",
            ),
            ("run run.json --batch-size 8", "'--set train.batch_size=8'"),
            ("run run.json --seed 3", "'--set seed=3'"),
            ("check run.json --device cuda", "'--set device=cuda'"),
            (
                "run run.json --gpus 1",
                "`gpus` of Lightning: `\"device\": \"cuda\"`",
            ),
            (
                "run --config run.json",
                "the manifest is given without an option",
            ),
            ("run run.json train.epochs=3", "'--set train.epochs=3'"),
        ] {
            let found = advice(line);
            assert!(found.contains(expected), "{line}: {found}");
            assert!(!found.contains("as a value"), "{line}: {found}");
        }
    }

    #[test]
    fn commands_that_are_advised_exist() {
        let command = Cli::command();
        for (theirs, ours) in COMMANDS {
            assert!(command.find_subcommand(theirs).is_none(), "{theirs}");
            let name = ours.split(' ').nth(1).unwrap_or_default();
            assert!(
                name.starts_with("--") || command.find_subcommand(name).is_some(),
                "{ours}"
            );
        }
    }
}
