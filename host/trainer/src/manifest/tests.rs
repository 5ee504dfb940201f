//! The schema of a whole manifest: its hooks, and an example of each of its parts.

use sconce_manifest::example;
use serde_json::{Value, json};

use super::{KnownHook, TaskSource, add_hooks, json_schema};

fn schema() -> Value {
    let mut schema = json_schema(TaskSource::Manifest);
    let config = json!({
        "type": "object",
        "properties": {"rule": {"$ref": "#/$defs/Rule"}},
        "additionalProperties": false,
        "$defs": {"Rule": {"enum": ["less", "greater"]}},
    });
    let hook = |name: &str, config| KnownHook {
        name: name.to_owned(),
        about: "Tries.".to_owned(),
        config,
    };
    let hooks = [hook("a/stop", Some(config)), hook("plain", None)];
    add_hooks(&mut schema, &hooks);
    schema
}

fn accepts(hooks: &Value) -> bool {
    let manifest = json!({
        "model": {"kind": "mlp"},
        "data": {"kind": "two-moons"},
        "optimizer": {"kind": "sgd", "learning_rate": 0.1},
        "train": {"epochs": 1},
        "hooks": hooks,
    });
    sconce_schema::CompiledSchema::new(&schema())
        .expect("the schema is one")
        .accepts(&manifest)
}

#[test]
fn configurations_are_checked_by_their_hooks_schemas() {
    let config = |config: Value| json!([{"hook": "a/stop", "config": config}]);
    assert!(accepts(&config(json!({"rule": "less"}))));
    assert!(!accepts(&config(json!({"rule": "fewer"}))));
    assert!(!accepts(&config(json!({"rules": "less"}))));
}

#[test]
fn names_are_offered_and_others_allowed() {
    assert!(accepts(
        &json!(["plain", "later", {"hook": "later", "config": {"x": 1}}])
    ));
    assert!(!accepts(&json!([{"hook": ""}])));
    let text = schema().to_string();
    assert!(
        text.contains(r#"{"const":"plain","description":"Tries."}"#),
        "{text}"
    );
}

#[test]
fn every_object_and_list_of_a_manifest_has_an_example() {
    let mut open = vec![(String::new(), json_schema(TaskSource::Manifest))];
    let mut count = 0;
    while let Some((path, schema)) = open.pop() {
        let is_nested = ["object", "array"]
            .iter()
            .any(|kind| schema["type"].to_string().contains(kind));
        // A free object, as a hook's `config`, is described by its text alone.
        let is_free = schema.get("properties").is_none() && schema.get("items").is_none();
        // Nor has a layer around layers an example: it would have no end.
        let is_free = is_free || schema.to_string().contains("$ref");
        if !path.is_empty() && is_nested && !is_free {
            count += 1;
            let hint = example::hint(&schema, Some("key"));
            assert!(hint.is_some(), "{path}: {schema}");
        }
        for (key, member) in schema["properties"].as_object().into_iter().flatten() {
            open.push((format!("{path}/{key}"), member.clone()));
        }
        for branches in ["anyOf", "oneOf"] {
            for branch in schema[branches].as_array().into_iter().flatten() {
                open.push((format!("{path}?"), branch.clone()));
            }
        }
        open.extend(
            schema
                .get("items")
                .map(|items| (format!("{path}[]"), items.clone())),
        );
    }
    assert!(count > 100, "{count}");
}
