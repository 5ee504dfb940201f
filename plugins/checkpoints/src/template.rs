//! Tag templates with names in braces: `epoch-{epoch:3}`.

use std::borrow::Cow;
use std::fmt::{self, Write};

use schemars::{Schema, SchemaGenerator, json_schema};
use sconce_plugin_api::ext::check_tag;
use sconce_plugin_api::prelude::*;

/// A tag template.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Template(String);

/// Values substituted for the names.
pub(crate) struct Values<'a> {
    pub(crate) epoch: u64,
    pub(crate) iteration: u64,
    pub(crate) update: u64,
    /// Name and value of a metric.
    pub(crate) metric: Option<(&'a str, f64)>,
}

/// A part of a template: literal text, or a name with a width.
enum Part<'a> {
    Text(&'a str),
    Name(&'a str, usize),
}

/// A pattern for the characters of an expanded template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TemplatePart {
    /// This character.
    Char(char),
    /// One or more digits.
    Digits,
    /// One or more arbitrary characters.
    Any,
}

impl TemplatePart {
    /// Returns whether both can match the same character.
    fn shares_with(self, other: TemplatePart) -> bool {
        match (self, other) {
            (TemplatePart::Char(one), TemplatePart::Char(other)) => one == other,
            (TemplatePart::Char(c), TemplatePart::Digits)
            | (TemplatePart::Digits, TemplatePart::Char(c)) => c.is_ascii_digit(),
            _ => true,
        }
    }
}

/// Returns whether some text matches both patterns. Searches pairs of positions: each step takes a
/// character that both pieces match, after which each advances or, if it can match more characters, stays.
fn meet(one: &[TemplatePart], other: &[TemplatePart]) -> bool {
    let width = other.len() + 1;
    let mut reached = vec![false; (one.len() + 1) * width];
    let mut open = vec![(0, 0)];
    while let Some((i, j)) = open.pop() {
        let Some(place) = reached.get_mut(i * width + j).filter(|place| !**place) else {
            continue;
        };
        *place = true;
        let (Some(a), Some(b)) = (one.get(i), other.get(j)) else {
            continue;
        };
        if !a.shares_with(*b) {
            continue;
        }
        open.push((i + 1, j + 1));
        if !matches!(a, TemplatePart::Char(_)) {
            open.push((i, j + 1));
        }
        if !matches!(b, TemplatePart::Char(_)) {
            open.push((i + 1, j));
        }
    }
    reached.last() == Some(&true)
}

/// Converts a metric's name into a part of a tag: `-` replaces characters that tags cannot contain.
fn in_tag(name: &str) -> impl Iterator<Item = char> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars().map(move |c| if plain(c) { c } else { '-' })
}

impl Template {
    pub(crate) fn new(text: &str) -> Template {
        Template(text.to_owned())
    }

    /// Splits the template into parts; an error describes what is wrong with the braces.
    fn parts(&self) -> Result<Vec<Part<'_>>> {
        let mut parts = Vec::new();
        let mut rest = self.0.as_str();
        while let Some((text, behind)) = rest.split_once('{') {
            let Some((name, behind)) = behind.split_once('}') else {
                bail!("the tag `{self}` has a brace that is not closed");
            };
            let (name, width) = name.split_once(':').unwrap_or((name, "0"));
            let Some(width) = width.parse().ok().filter(|width| *width <= 20) else {
                bail!("in the tag `{self}` a width is a number up to 20, found `{width}`");
            };
            parts.extend([Part::Text(text), Part::Name(name, width)]);
            rest = behind;
        }
        parts.push(Part::Text(rest));
        Ok(parts)
    }

    /// Rejects a template with names other than these.
    pub(crate) fn expect(&self, known: &[&str]) -> Result<()> {
        if self.0.is_empty() {
            bail!("a tag can't be empty");
        }
        for part in self.parts()? {
            if let Part::Name(name, _) = part
                && !known.contains(&name)
            {
                bail!(
                    "the tag `{self}` has `{{{name}}}`; there are {}",
                    list(known)
                );
            }
        }
        // What is filled in are digits and parts of tags: what is wrong otherwise is wrong in the text.
        let tag: String = (self.parts()?.iter())
            .map(|part| match part {
                Part::Text(text) => text,
                Part::Name(..) => "1",
            })
            .collect();
        check_tag(&tag).map_err(|reason| HookError::new(format_args!("the tag `{self}`: {reason}")))
    }

    /// Returns the template with this metric's name filled in.
    pub(crate) fn with_metric(&self, name: &str) -> Template {
        Template(
            self.0
                .replace("{metric}", &in_tag(name).collect::<String>()),
        )
    }

    /// Returns whether both templates can expand to the same text; true in case of doubt.
    pub(crate) fn may_equal(&self, other: &Template) -> bool {
        match (self.template_parts(), other.template_parts()) {
            (Ok(one), Ok(other)) => meet(&one, &other),
            _ => true,
        }
    }

    /// Returns the pattern of the expanded template.
    fn template_parts(&self) -> Result<Vec<TemplatePart>> {
        let mut pieces = Vec::new();
        for part in self.parts()? {
            match part {
                Part::Text(text) => pieces.extend(text.chars().map(TemplatePart::Char)),
                Part::Name("epoch" | "iteration" | "update", _) => {
                    pieces.push(TemplatePart::Digits);
                }
                Part::Name(..) => pieces.push(TemplatePart::Any),
            }
        }
        Ok(pieces)
    }

    /// Returns whether the text changes over a run.
    pub(crate) fn varies(&self) -> bool {
        let counters = ["{epoch", "{iteration", "{update"];
        counters.iter().any(|counter| self.0.contains(counter))
    }

    /// Expands the template. `-` replaces characters of a metric's name that tags cannot contain.
    pub(crate) fn tag(&self, values: &Values<'_>) -> Result<String> {
        let mut text = String::new();
        for part in self.parts()? {
            let written = match part {
                Part::Text(part) => write!(text, "{part}"),
                Part::Name("epoch", width) => write!(text, "{:0width$}", values.epoch),
                Part::Name("iteration", width) => write!(text, "{:0width$}", values.iteration),
                Part::Name("update", width) => write!(text, "{:0width$}", values.update),
                Part::Name("metric", _) => {
                    let name = values.metric.map_or("", |(name, _)| name);
                    text.extend(in_tag(name));
                    Ok(())
                }
                Part::Name(_, width) => {
                    let value = values.metric.map_or(f64::NAN, |(_, value)| value);
                    write!(text, "{value:0width$.4}")
                }
            };
            written.context("a tag can't be written")?;
        }
        Ok(text)
    }
}

fn list(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{{{name}}}`")).collect();
    names.join(", ")
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for Template {
    fn schema_name() -> Cow<'static, str> {
        "Template".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": 1, "maxLength": 128})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_numbers_padded() {
        let values = Values {
            epoch: 7,
            iteration: 1234,
            update: 617,
            metric: Some(("val/f1 macro", 0.912_345)),
        };
        let tag = |text: &str| Template::new(text).tag(&values).ok();
        assert_eq!(tag("epoch-{epoch}").as_deref(), Some("epoch-7"));
        let padded = "e{epoch:3}_i{iteration:2}_u{update}";
        assert_eq!(tag(padded).as_deref(), Some("e007_i1234_u617"));
        let best = "best-{metric}-{value}";
        assert_eq!(tag(best).as_deref(), Some("best-val-f1-macro-0.9123"));
        assert_eq!(tag("plain").as_deref(), Some("plain"));
    }

    #[test]
    fn templates_that_may_give_one_text_are_found() {
        for (one, other, expected) in [
            ("epoch-{epoch}", "epoch-{epoch}", true),
            ("epoch-{epoch}", "epoch-{iteration:4}", true),
            ("epoch-{epoch}", "epoch-12", true),
            ("{epoch}{update}", "7", false),
            ("{epoch}{update}", "77", true),
            ("epoch-{epoch}", "iteration-{iteration}", false),
            ("epoch-{epoch}", "epoch-{epoch}-x", false),
            ("a-{epoch}", "b-{epoch}", false),
            ("best-{value}", "best-0.5", true),
            ("best-{value}", "last", false),
            ("last", "last", true),
            ("last", "lasts", false),
        ] {
            let found = [(one, other), (other, one)]
                .map(|(one, other)| Template::new(one).may_equal(&Template::new(other)));
            assert_eq!(found, [expected; 2], "{one} {other}");
        }
    }

    #[test]
    fn what_is_no_template_is_refused_by_what_is_wrong() {
        for (text, words) in [
            ("a-{epoch", "not closed"),
            ("a-{epcoh}", "has `{epcoh}`; there are `{epoch}`"),
            ("a-{epoch:x}", "a width is a number"),
            ("a-{epoch:21}", "a width is a number"),
            ("", "empty"),
        ] {
            let error = Template::new(text)
                .expect(&["epoch"])
                .map_err(|e| e.to_string());
            assert!(error.is_err_and(|error| error.contains(words)), "{text}");
        }
        assert!(Template::new("a-{iteration:5}").varies() && !Template::new("a-{metric}").varies());
    }
}
