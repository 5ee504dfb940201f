//! What is not shown of a manifest: a page is looked at with others, and exported ones are passed on.

use serde_json::Value;

/// Words of keys whose values are secret.
const SECRET: [&str; 9] = [
    "password",
    "passwd",
    "token",
    "secret",
    "credential",
    "credentials",
    "apikey",
    "authorization",
    "passphrase",
];

/// Shown in place of a secret.
const HIDDEN: &str = "(not shown)";

/// A manifest's value at a path, without what is secret in it: texts of keys that name a secret, and user names and passwords
/// in addresses.
pub(super) fn shown(path: &str, value: Value) -> Value {
    match value {
        Value::String(_) if is_secret(path) => HIDDEN.into(),
        Value::String(text) => without_user(text).into(),
        Value::Array(items) => {
            let items = items.into_iter().map(|item| shown(path, item));
            items.collect()
        }
        other => other,
    }
}

fn is_secret(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let mut words = path.split(|c: char| !c.is_alphanumeric());
    words.any(|word| SECRET.contains(&word)) || path.replace('-', "_").contains("api_key")
}

/// Turns `https://user:password@host/` into `https://host/`.
fn without_user(text: String) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text;
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{host}{path}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_hidden_and_tokenizers_are_not() {
        for (path, value, expected) in [
            ("hooks[0].config.token", json!("abc"), json!(HIDDEN)),
            (
                "hooks[0].config.headers.Authorization",
                json!("x"),
                json!(HIDDEN),
            ),
            ("a.api-key", json!(["x"]), json!([HIDDEN])),
            ("a.secret.value", json!("x"), json!(HIDDEN)),
            ("data.tokenizer", json!("t.json"), json!("t.json")),
            ("data.tokens", json!(3), json!(3)),
            (
                "a.url",
                json!("http://me:pw@host/x"),
                json!("http://host/x"),
            ),
            ("a.url", json!("http://host/x@y"), json!("http://host/x@y")),
        ] {
            assert_eq!(shown(path, value), expected, "{path}");
        }
    }
}
