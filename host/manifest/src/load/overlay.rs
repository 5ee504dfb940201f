//! Overlays on a manifest: other manifests, and assignments from the environment and the command line.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::read;
use crate::diagnostic::Diagnostic;
use crate::json::origin::AssignmentOrigin;
use crate::json::syntax;
use crate::{JsonSource, json_path};

/// Environment variables with assignments: this one, and those whose names begin with it and `_`.
pub const VARIABLE: &str = "SCONCE_SET";

/// What is applied on top of a manifest, in this order.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    /// The manifest itself, where a program has it as a text: it is read in place of the file, whose path is then only where
    /// relative paths start, and its name in messages.
    pub text: Option<String>,
    /// Manifest files, each with any subset of a manifest's keys. Objects are merged, everything else is
    /// replaced.
    pub layers: Vec<PathBuf>,
    /// Values set individually.
    pub assignments: Vec<Assignment>,
}

/// A single assignment, such as `train.epochs=3`.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// Where it was written.
    pub origin: AssignmentOrigin,
    /// A path, `=` and a value.
    pub text: String,
}

impl Overlay {
    /// Collects the layers and the assignments. Those from the environment come first, in the order of their
    /// variables' names, then those of the command line.
    pub fn new(layers: &[PathBuf], set: &[String]) -> Overlay {
        let prefix = format!("{VARIABLE}_");
        let mut from_environment: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name == VARIABLE || name.starts_with(&prefix))
            .collect();
        from_environment.sort();
        let environment = from_environment.into_iter().map(|(name, text)| Assignment {
            origin: AssignmentOrigin::Environment(name),
            text,
        });
        let command_line = set.iter().map(|text| Assignment {
            origin: AssignmentOrigin::CommandLine,
            text: text.clone(),
        });
        Overlay {
            text: None,
            layers: layers.to_vec(),
            assignments: environment.chain(command_line).collect(),
        }
    }
}

/// Merges a manifest file into a document, and records in `source` which values came from it.
pub(crate) fn lay(
    document: &mut Value,
    source: &mut JsonSource,
    path: &Path,
) -> Result<Vec<Diagnostic>, Diagnostic> {
    let text = read::text(path)?;
    let layer = syntax::parse(path, &text)?;
    let from = JsonSource::new(path, &text);
    let problems = from.doubled_keys();
    merge(document, layer, "", source, &from);
    Ok(problems)
}

fn merge(
    document: &mut Value,
    layer: Value,
    path: &str,
    source: &mut JsonSource,
    from: &JsonSource,
) {
    match (document, layer) {
        (Value::Object(members), Value::Object(layer)) => {
            for (key, value) in layer {
                let path = json_path::member(path, &key);
                if let Some(member) = members.get_mut(&key) {
                    merge(member, value, &path, source, from);
                } else {
                    members.insert(key, value);
                    source.take_over(&path, from);
                }
            }
        }
        (document, layer) => {
            *document = layer;
            source.take_over(path, from);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_merged_and_the_rest_replaced() {
        let first = r#"{"train": {"epochs": 1, "batch_size": 8}, "hooks": ["a", "b"], "seed": 1}"#;
        let over = "{\"train\": {\"epochs\": 2},\n \"hooks\": [{\"hook\": \"c\"}], \"threads\": 1}";
        let mut document: Value = serde_json::from_str(first).expect("JSON");
        let mut source = JsonSource::new(Path::new("first.json"), first);
        let from = JsonSource::new(Path::new("over.json"), over);
        merge(
            &mut document,
            serde_json::from_str(over).expect("JSON"),
            "",
            &mut source,
            &from,
        );
        let expected = json!({
            "train": {"epochs": 2, "batch_size": 8}, "hooks": [{"hook": "c"}], "seed": 1, "threads": 1
        });
        assert_eq!(document, expected);
        for (path, file, excerpt) in [
            ("train.epochs", "over.json", "2"),
            ("train.batch_size", "first.json", "8"),
            ("hooks[0].hook", "over.json", "\"c\""),
            ("threads", "over.json", "1"),
            ("seed", "first.json", "1"),
        ] {
            let place = source.location(path);
            assert_eq!(place.file, Path::new(file), "{path}");
            assert_eq!(&place.text[place.span.expect("a span")], excerpt, "{path}");
        }
    }
}
