//! `README.md` of a saved model: how to predict, what goes in, how good it is.

use std::fmt::Write;

use crate::data::{Preprocessing, Targets};
use crate::run::FinalMetrics;

/// Most classes or values that are named.
const MOST_NAMES: usize = 30;

/// Returns the page for a run's model.
pub(super) fn page(name: &str, preprocessing: &Preprocessing, metrics: &FinalMetrics) -> String {
    let mut text = format!("# {}\n\n", plain(name));
    text.push_str(
        "A model trained by Sconce, with all that predictions need: no training data, no manifest and no plugins.\n\n\
         ```console\n$ sconce predict . --input FILE\n```\n\n## Inputs\n\n| name | kind | values |\n|---|---|---|\n",
    );
    for input in preprocessing.describe_inputs() {
        let cells = [input.name, input.kind, input.values].map(|cell| plain(&cell));
        // Writing to a string can't fail.
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push_str("\n## Outputs\n\n");
    let targets = preprocessing.targets();
    let what = match &targets {
        Targets::Class(_) => "One of the classes",
        Targets::ClassPerPosition(_) | Targets::TokenPerPosition(_) => "For each position one of",
        Targets::Numbers(_) => "The numbers",
        Targets::None => "Outputs without names",
    };
    let names = targets.names();
    let mut shown: Vec<String> = names
        .iter()
        .take(MOST_NAMES)
        .map(|name| plain(name))
        .collect();
    if names.len() > MOST_NAMES {
        shown.push(format!("and {} more", names.len() - MOST_NAMES));
    }
    if let Targets::TokenPerPosition(tokens) = targets {
        shown.push(format!("{} tokens", tokens.vocabulary));
    }
    let separator = if shown.is_empty() { "" } else { ": " };
    let _ = writeln!(text, "{what}{separator}{}.", shown.join(", "));
    if !metrics.metrics.is_empty() {
        text.push_str("\n## Metrics\n\n| phase | metric | value |\n|---|---|---|\n");
    }
    for (phase, values) in &metrics.metrics {
        for (name, value) in values {
            let _ = writeln!(text, "| {} | {} | {value} |", phase.name(), plain(name));
        }
    }
    text
}

/// A text of the data or the manifest without what Markdown would read in it.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '|' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '\\' | '#' | '!' => {
                plain.push('\\');
                plain.push(character);
            }
            character if character.is_control() => plain.push(' '),
            character => plain.push(character),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn nothing_of_a_name_is_read_as_markdown() {
        assert_eq!(plain("a|b\n<i>"), "a\\|b \\<i\\>");
        assert_eq!(plain("[x](y)"), "\\[x\\](y)");
    }
}
