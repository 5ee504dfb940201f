//! Names of other frameworks and their counterparts here, for messages about unknown keys, hooks and options.
//!
//! The only list of them is the documentation's: the tables of `docs/coming-from.md`, and those in the last section of
//! `docs/hooks.md`. The first column of a table has the names, the second one what takes their place.

const TRAINERS: &str = include_str!(concat!(env!("SCONCE_CARRIED"), "/docs/coming-from.md"));
const HOOKS: &str = include_str!(concat!(env!("SCONCE_CARRIED"), "/docs/hooks.md"));

/// The heading in `docs/hooks.md` below which its tables of other frameworks are.
const OTHER_SYSTEMS: &str = "\n## Coming from another system\n";

/// Number of frameworks named in answer to one name, as several have an `EarlyStopping`.
const MOST_HINTS: usize = 2;

/// Returns what takes the place of another framework's name, as hints: from the tables of a hook's options, or, without a
/// hook, from all others.
pub fn hints(name: &str, hook: Option<&str>) -> Vec<String> {
    let chosen = rows().filter(|row| row.hook == hook && row.has(name));
    let name = crate::diagnostic::shortened(name);
    let hints = chosen.take(MOST_HINTS).map(|row| {
        let counterpart = without_links(row.counterpart);
        format!("`{name}` of {}: {counterpart}", row.framework)
    });
    hints.collect()
}

/// A row of one of the tables.
struct Row<'a> {
    framework: &'a str,
    /// The hook whose options the table is about, if it is about one.
    hook: Option<&'a str>,
    /// The first column: names, with remarks.
    theirs: &'a str,
    /// The second column, in Markdown.
    counterpart: &'a str,
}

impl Row<'_> {
    /// Whether the row is about this name, however it is spelt: `early_stopping` is `EarlyStopping`.
    fn has(&self, wanted: &str) -> bool {
        let wanted = spelling(wanted);
        !wanted.is_empty()
            && names(self.theirs).any(|name| match name.strip_suffix('…') {
                Some(start) => wanted.starts_with(&spelling(start)),
                None => spelling(name) == wanted,
            })
    }
}

/// The rows of all tables, in the pages' order.
fn rows() -> impl Iterator<Item = Row<'static>> {
    let systems = HOOKS.split_once(OTHER_SYSTEMS).map_or("", |(_, rest)| rest);
    [("## ", TRAINERS), ("### ", systems)]
        .into_iter()
        .flat_map(|(heading, page)| rows_of(page, heading))
}

/// The rows of a page on which a framework's tables are below a heading with its name.
fn rows_of<'a>(page: &'a str, heading: &'static str) -> impl Iterator<Item = Row<'a>> {
    let mut framework = "";
    let mut hook = None;
    page.lines().filter_map(move |line| {
        if let Some(name) = line.strip_prefix(heading) {
            framework = name.strip_prefix("Hugging Face ").unwrap_or(name);
            return None;
        }
        let (theirs, counterpart) = cells(line)?;
        if let Some(rest) = counterpart.strip_prefix("option of `") {
            hook = rest.strip_suffix('`');
            return None;
        }
        // The first row of a table, its header, is followed by one of dashes.
        if theirs == framework || theirs == "there" {
            hook = None;
            return None;
        }
        (!theirs.starts_with("--")).then_some(Row {
            framework,
            hook,
            theirs,
            counterpart,
        })
    })
}

/// The two cells of a table's line.
fn cells(line: &str) -> Option<(&str, &str)> {
    let (theirs, counterpart) = line
        .strip_prefix('|')?
        .trim_end()
        .strip_suffix('|')?
        .split_once('|')?;
    Some((theirs.trim(), counterpart.trim()))
}

/// The names in a first column: the words in backticks, or, without backticks, all words in upper and lower case.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    // What follows describes where the names are from: "`ckpt_path` of `fit`".
    let cell = cell.split_once("` of ").map_or(cell, |(names, _)| names);
    let quoted = cell.contains('`');
    let is_name = |word: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '…';
        !word.is_empty() && word.chars().all(is_part)
    };
    let words = cell.split('`').enumerate().flat_map(move |(index, part)| {
        let part = if quoted && index % 2 == 0 { "" } else { part };
        part.split([',', ' '])
    });
    words.filter(move |word| {
        is_name(word) && (quoted || word.contains(|c: char| c.is_ascii_uppercase()))
    })
}

/// A name without what frameworks write in different ways.
fn spelling(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '_' | '-'));
    letters.flat_map(char::to_lowercase).collect()
}

/// Markdown without its links: `[device](gpu.md)` is `device`.
fn without_links(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, link, after)) = next_link(rest) {
        shown.push_str(before);
        shown.push_str(link);
        rest = after;
    }
    shown + rest
}

/// The text before the first link, the link's own, and the text after it.
fn next_link(text: &str) -> Option<(&str, &str, &str)> {
    let (before_target, after) = text.split_once("](")?;
    let (before, link) = before_target.rsplit_once('[')?;
    let (_, after) = after.split_once(')')?;
    Some((before, link, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_pages_has_a_hint() {
        let mut count = 0;
        for row in rows() {
            assert!(!row.framework.is_empty(), "{}", row.theirs);
            assert!(!row.counterpart.is_empty(), "{}", row.theirs);
            let mut named = false;
            for name in names(row.theirs) {
                named = true;
                count += 1;
                let name = name.replace('…', "any");
                let found = hints(&name, row.hook);
                let is_answered = found
                    .iter()
                    .any(|hint| hint.starts_with(&format!("`{name}` of ")));
                assert!(
                    is_answered && found.len() <= MOST_HINTS,
                    "{name}: {found:?}"
                );
            }
            // Code and prose can't be written as a key.
            let is_prose = row.theirs.contains([' ', '(', '.']);
            assert!(named || is_prose, "no name in `{}`", row.theirs);
        }
        assert!(count > 200, "only {count} names");
    }

    #[test]
    fn names_are_found_however_they_are_spelt() {
        for (name, hook, words) in [
            (
                "gradient_clip_val",
                None,
                "`gradient_clip_val` of Lightning: ",
            ),
            ("early-stopping", None, "`early-stopping` of Lightning: "),
            ("ddp_timeout", None, "`ddp_timeout` of Transformers: "),
            ("ckpt_path", None, "--resume"),
            ("monitor", Some("checkpoint"), "`\"best\": ["),
            (
                "LRSchedulerHook",
                None,
                "`LRSchedulerHook` of iMIX: `lr-schedule`",
            ),
        ] {
            let found = hints(name, hook);
            assert!(
                found.iter().any(|hint| hint.contains(words)),
                "{name}: {found:?}"
            );
        }
        for (name, hook) in [("fit", None), ("monitor", None), ("", None), ("and", None)] {
            assert!(hints(name, hook).is_empty(), "{name}");
        }
    }

    #[test]
    fn hints_have_no_links() {
        assert_eq!(
            without_links("[`device`](gpu.md), [b](c) d"),
            "`device`, b d"
        );
        assert_eq!(without_links("`best[].tag` [x"), "`best[].tag` [x");
        for row in rows() {
            assert!(
                !without_links(row.counterpart).contains("]("),
                "{}",
                row.theirs
            );
        }
    }
}
