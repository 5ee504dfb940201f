//! Parameters selected by name patterns: `*` for any characters, `?` for one, `[ab]`, `{a,b}`. A leading
//! `!` excludes names from those that the other patterns select, or from all if there are no others.

use globset::{Glob, GlobMatcher};
use sconce_plugin_api::prelude::*;

/// Returns the parameters and buffers that the patterns select, in the model's order.
///
/// # Errors
///
/// If a pattern is invalid or selects nothing; the message names the nearest parameter.
pub(crate) fn chosen(
    task: &TaskView<'_>,
    option: &str,
    patterns: &[String],
) -> Result<Vec<String>> {
    let names = || task.parameters().map(|parameter| parameter.name());
    for pattern in patterns {
        let matcher = matcher(option, pattern)?;
        if names().any(|name| matcher.is_match(name)) {
            continue;
        }
        let text = pattern.strip_prefix('!').unwrap_or(pattern);
        let reason = task.parameter(text).err();
        let reason = reason.map_or_else(String::new, |error| format!(": {error}"));
        let does = if text.len() < pattern.len() {
            "takes nothing away"
        } else {
            "chooses nothing"
        };
        bail!("`{option}`: `{pattern}` {does}{reason}");
    }
    let left: Vec<String> = left(names(), option, patterns)?
        .into_iter()
        .map(str::to_owned)
        .collect();
    if left.is_empty() {
        bail!("{}", nothing_left(option));
    }
    Ok(left)
}

/// Like [`chosen`], but without buffers.
pub(crate) fn chosen_parameters(
    task: &TaskView<'_>,
    option: &str,
    patterns: &[String],
) -> Result<Vec<String>> {
    let mut names = chosen(task, option, patterns)?;
    names.retain(|name| {
        task.parameter(name)
            .is_ok_and(|parameter| !parameter.is_buffer())
    });
    if names.is_empty() {
        bail!("`{option}` chooses buffers alone, and no parameter");
    }
    Ok(names)
}

/// Checks patterns when a hook is created: there must be at least one, and each must select something if
/// the names in the model are already known.
pub(crate) fn check(setup: &Setup<'_>, option: &str, patterns: &[String]) -> Result<()> {
    // The schema does not see that the default is empty.
    if patterns.is_empty() {
        bail!("`{option}` must have a name pattern at least, as `\"*.weight\"`");
    }
    let names = setup
        .plan()?
        .map(|plan| plan.parameters)
        .unwrap_or_default();
    let names: Vec<&str> = names
        .iter()
        .map(|parameter| parameter.name.as_str())
        .collect();
    for pattern in patterns {
        let matcher = matcher(option, pattern)?;
        if !names.is_empty() && !names.iter().any(|name| matcher.is_match(name)) {
            let does = if pattern.starts_with('!') {
                "takes nothing away"
            } else {
                "chooses nothing"
            };
            let text = pattern.strip_prefix('!').unwrap_or(pattern);
            let hint = nearest(text, &names)
                .map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
            bail!(
                "`{option}`: `{pattern}` {does}; the model has {}{hint}",
                listed(&names)
            );
        }
    }
    if !names.is_empty() && left(names.iter().copied(), option, patterns)?.is_empty() {
        bail!("{}", nothing_left(option));
    }
    Ok(())
}

/// Returns the names that patterns choose and no pattern with `!` takes away.
fn left<'a>(
    names: impl Iterator<Item = &'a str>,
    option: &str,
    patterns: &[String],
) -> Result<Vec<&'a str>> {
    let (mut choosing, mut excluding) = (Vec::new(), Vec::new());
    for pattern in patterns {
        let matcher = matcher(option, pattern)?;
        if pattern.starts_with('!') {
            excluding.push(matcher);
        } else {
            choosing.push(matcher);
        }
    }
    let any = |matchers: &[GlobMatcher], name: &str| matchers.iter().any(|one| one.is_match(name));
    let is_left =
        |name: &&str| (choosing.is_empty() || any(&choosing, name)) && !any(&excluding, name);
    Ok(names.filter(is_left).collect())
}

fn nothing_left(option: &str) -> String {
    format!("`{option}`: the patterns with `!` take everything away that the others choose")
}

/// Returns the name nearest to a pattern, if at most a third of the characters differ.
fn nearest<'a>(pattern: &str, names: &[&'a str]) -> Option<&'a str> {
    // Longer than any name; the distance takes time and memory that grow with the length.
    const LONGEST: usize = 200;
    if pattern.len() > LONGEST {
        return None;
    }
    let distances = names
        .iter()
        .map(|name| (strsim::damerau_levenshtein(name, pattern), *name));
    let (distance, name) = distances.min()?;
    let length = pattern.chars().count().max(name.chars().count());
    (distance * 3 <= length).then_some(name)
}

/// Lists the first names and the number of those left out.
fn listed(names: &[&str]) -> String {
    const NAMED: usize = 12;
    let first: Vec<String> = names
        .iter()
        .take(NAMED)
        .map(|name| format!("`{name}`"))
        .collect();
    match names.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn matcher(option: &str, pattern: &str) -> Result<GlobMatcher> {
    let text = pattern.strip_prefix('!').unwrap_or(pattern);
    if text.is_empty() && !pattern.is_empty() {
        bail!("`{option}`: `!` is not a name pattern: what it takes away comes after it");
    }
    let glob = Glob::new(text);
    let glob = glob.with_context(|| format!("`{option}`: `{pattern}` is not a name pattern"))?;
    Ok(glob.compile_matcher())
}
