//! Mutations of JSON that keep it valid: other types, huge numbers, other names, more or fewer
//! items.

use sconce::random::Stream;
use serde_json::{Map, Value, json};

/// Strings that look like paths, and other unexpected ones.
const TEXTS: [&str; 9] = [
    "../outside/file",
    "../../outside/file",
    "/tmp/sconce-outside",
    "..",
    "",
    "a\u{0}b",
    "\u{1b}[2J",
    "~/x",
    "latest",
];

/// Mutates JSON bytes once or twice; `None` if they are not JSON.
pub(super) fn damaged(bytes: &[u8], stream: &mut Stream) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(bytes).ok()?;
    for _ in 0..=stream.below(2) {
        let count = nodes(&value);
        let mut at = stream.below(count);
        damage(find(&mut value, &mut at)?, stream);
    }
    serde_json::to_vec(&value).ok()
}

/// Number of values, including nested ones.
fn nodes(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(members) => members.values().map(nodes).sum(),
        _ => 0,
    }
}

/// The value with this number, counted from the outside in.
fn find<'a>(value: &'a mut Value, at: &mut u64) -> Option<&'a mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    let children: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(members) => members.values_mut().collect(),
        _ => Vec::new(),
    };
    for child in children {
        let count = nodes(child);
        if *at < count {
            return find(child, at);
        }
        *at -= count;
    }
    None
}

fn damage(value: &mut Value, stream: &mut Stream) {
    match value {
        Value::Array(items) if stream.below(3) > 0 => damage_array(items, stream),
        Value::Object(members) if stream.below(3) > 0 => damage_object(members, stream),
        _ => *value = other(stream),
    }
}

fn damage_array(items: &mut Vec<Value>, stream: &mut Stream) {
    let place = stream.below(items.len() as u64 + 1) as usize;
    match stream.below(4) {
        0 => items.truncate(place),
        1 => items.insert(place, other(stream)),
        2 => {
            let one = items.get(place).cloned().unwrap_or_else(|| other(stream));
            items.extend(std::iter::repeat_n(one, 3000));
        }
        _ => items.reverse(),
    }
}

fn damage_object(members: &mut Map<String, Value>, stream: &mut Stream) {
    let keys: Vec<String> = members.keys().cloned().collect();
    let name = text(stream);
    let key = keys.get(stream.below(keys.len().max(1) as u64) as usize);
    let Some(key) = key else {
        members.insert(name, other(stream));
        return;
    };
    match stream.below(3) {
        0 => drop(members.remove(key)),
        1 => drop(members.insert(name, members[key].clone())),
        _ => {
            if let Some(moved) = members.remove(key) {
                members.insert(name, moved);
            }
        }
    }
}

/// A replacement for a value, of a random kind.
fn other(stream: &mut Stream) -> Value {
    match stream.below(20) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(0),
        4 => json!(1_u64 << 53),
        5 => json!((1_u64 << 53) + 1),
        6 => json!((1_u64 << 63) - 1),
        7 => json!(1_u64 << 63),
        8 => json!(u64::MAX),
        9 => json!(f64::MAX),
        10 => json!(-f64::MAX),
        11 => json!(5e-324),
        12 => json!("NaN"),
        13 => json!("-inf"),
        14 => json!([]),
        15 => json!({}),
        16 => (0..100).fold(json!(1), |inner, _| json!([inner])),
        17 => json!(stream.below(100)),
        _ => json!(text(stream)),
    }
}

fn text(stream: &mut Stream) -> String {
    TEXTS[stream.below(TEXTS.len() as u64) as usize].to_owned()
}
