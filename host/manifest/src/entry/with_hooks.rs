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
