//! One line: a JSON object under construction.

use std::collections::HashSet;

use serde::Serialize;

use super::config::{Config, NotFinite};

/// An object whose keys keep their insertion order. Its memory is reused from line to line.
pub(crate) struct Object {
    text: Vec<u8>,
    /// The keys so far, to skip duplicates.
    keys: HashSet<String>,
    digits: Option<u8>,
    not_finite: NotFinite,
}

impl Object {
    /// Creates an empty object that formats numbers according to the config.
    pub(crate) fn new(config: &Config) -> Self {
        Object {
            text: Vec::with_capacity(256),
            keys: HashSet::new(),
            digits: config.digits,
            not_finite: config.not_finite,
        }
    }

    /// Starts a new object.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.keys.clear();
    }

    /// Adds a key, unless it is there already.
    pub(crate) fn add(&mut self, key: &str, value: &impl Serialize) {
        if self.keys.contains(key) {
            return;
        }
        self.keys.insert(key.to_owned());
        self.text
            .push(if self.text.is_empty() { b'{' } else { b',' });
        json(&mut self.text, &key);
        self.text.push(b':');
        json(&mut self.text, value);
    }

    /// Adds a number, unless its key is there already.
    pub(crate) fn number(&mut self, key: &str, value: f64) {
        if value.is_finite() || self.not_finite == NotFinite::Null {
            self.add(key, &self.rounded(value));
        } else {
            self.add(key, &value.to_string());
        }
    }

    /// Rounds a number to the configured digits.
    pub(crate) fn rounded(&self, value: f64) -> f64 {
        let Some(digits) = self.digits else {
            return value;
        };
        let digits = usize::from(digits).saturating_sub(1);
        format!("{value:.digits$e}").parse().unwrap_or(value)
    }

    /// Closes the object and returns the line.
    pub(crate) fn line(&mut self) -> &[u8] {
        self.text.extend_from_slice(b"}\n");
        &self.text
    }
}

/// Appends a value as JSON. Writing numbers and strings to memory can't fail.
fn json(text: &mut Vec<u8>, value: &impl Serialize) {
    drop(serde_json::to_writer(text, value));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(config: &Config) -> String {
        let mut object = Object::new(config);
        object.add("a \"b\"", &1);
        object.number("third", 1.0 / 3.0);
        object.number("whole", 123_456.0);
        object.number("none", f64::NAN);
        object.number("less", f64::NEG_INFINITY);
        object.add("third", &"twice");
        String::from_utf8_lossy(object.line()).into_owned()
    }

    #[test]
    fn keys_stay_in_order_and_numbers_lead_back() {
        let plain = line(&Config::default());
        let expected = "{\"a \\\"b\\\"\":1,\"third\":0.3333333333333333,\"whole\":123456.0,\"none\":null,\"less\":null}\n";
        assert_eq!(plain, expected);
        let config = Config {
            digits: Some(3),
            not_finite: NotFinite::Text,
            ..Config::default()
        };
        let expected = "{\"a \\\"b\\\"\":1,\"third\":0.333,\"whole\":123000.0,\"none\":\"NaN\",\"less\":\"-inf\"}\n";
        assert_eq!(line(&config), expected);
    }
}
