//! The manifest's JSON Schema extended with the available hooks. With it, editors complete their names and
//! check their configurations.

use serde_json::{Map, Value, json};

/// A hook that a manifest can list.
#[derive(Clone, Debug)]
pub struct KnownHook {
    /// The name to use in a manifest: `csv`, or `plugin/csv` if two plugins provide it.
    pub name: String,
    /// A one-line description.
    pub about: String,
    /// The JSON Schema of its configuration.
    pub config: Option<Value>,
}

/// Adds hooks to the manifest's schema: their names, and each one's configuration. Other names remain
/// allowed, for plugins installed later.
pub fn add_hooks(schema: &mut Value, hooks: &[KnownHook]) {
    let mut definitions = Map::new();
    let mut conditions = Vec::new();
    for hook in hooks {
        let Some(config) = &hook.config else {
            continue;
        };
        let key = format!("config of {}", hook.name);
        let root = format!("#/$defs/{}", escaped(&key));
        let mut config = config.clone();
        move_references(&mut config, &root);
        if let Some(members) = config.as_object_mut() {
            members.remove("$schema");
        }
        definitions.insert(key, config);
        conditions.push(json!({
            "if": {"properties": {"hook": {"const": hook.name}}, "required": ["hook"]},
            "then": {"properties": {"config": {"$ref": root}}},
        }));
    }
    let named: Vec<Value> = hooks
        .iter()
        .map(|hook| json!({"const": hook.name, "description": hook.about}))
        .collect();
    let Some(forms) = schema
        .pointer_mut("/properties/hooks/items/anyOf")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    for form in forms {
        if form["type"] == "string" {
            suggest(form, &named);
        } else {
            suggest(&mut form["properties"]["hook"], &named);
            form["allOf"] = Value::Array(conditions.clone());
        }
    }
    if let Some(root) = schema.as_object_mut() {
        let all = root.entry("$defs").or_insert_with(|| json!({}));
        if let Some(all) = all.as_object_mut() {
            all.extend(definitions);
        }
    }
}

/// Suggests names where any string is allowed.
fn suggest(text: &mut Value, named: &[Value]) {
    let any = json!({"type": "string", "minLength": 1});
    let all: Vec<Value> = named.iter().cloned().chain([any]).collect();
    text["anyOf"] = Value::Array(all);
}

/// Escapes a key for a JSON pointer in a URI fragment.
fn escaped(key: &str) -> String {
    let pointer = key.replace('~', "~0").replace('/', "~1");
    pointer.replace(' ', "%20")
}

/// Rewrites a schema's references to its own parts to their new location under `root`.
fn move_references(schema: &mut Value, root: &str) {
    match schema {
        Value::Object(members) => {
            for (key, member) in members {
                match member {
                    Value::String(target) if key == "$ref" => {
                        if let Some(inner) = target.strip_prefix('#') {
                            *target = format!("{root}{inner}");
                        }
                    }
                    other => move_references(other, root),
                }
            }
        }
        Value::Array(elements) => {
            for element in elements {
                move_references(element, root);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TaskSource, json_schema};

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
}
