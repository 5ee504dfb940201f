//! Differences between the files that data were read from, for people.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write;

use super::{ContentHash, DataFile};

/// How many files of a directory a message names.
const NAMED: usize = 5;

/// Describes how files differ from those that were read before, by name. A file that was only renamed is not mentioned.
pub fn file_changes(was: &[DataFile], is: &[DataFile]) -> Vec<String> {
    let named = |name: &str, files: &[DataFile]| files.iter().any(|file| file.name == name);
    let mut found = Vec::new();
    for before in was {
        let mut now = is.iter().filter(|now| now.name == before.name);
        match now.next() {
            Some(now) if now.hash != before.hash => found.push(change(before, now)),
            Some(_) => {}
            None if is.iter().any(|now| now.hash == before.hash) => {}
            None => found.push(format!("`{}` is not read any more", before.name)),
        }
    }
    let known: HashSet<ContentHash> = was.iter().map(|before| before.hash).collect();
    for now in is {
        if !named(&now.name, was) && !known.contains(&now.hash) {
            found.push(format!("`{}` was not read before", now.name));
        }
    }
    found
}

fn change(was: &DataFile, is: &DataFile) -> String {
    let name = &is.name;
    let (before, now) = (size(was), size(is));
    if was.rows.is_some() && was.rows == is.rows {
        return format!(
            "`{name}` has the same rows, written in other bytes (line ends, quotes, a byte-order mark or unused columns): it \
             was {before}, now {now}"
        );
    }
    let mut text = format!("`{name}` has changed: it was {before}, now {now}");
    if !was.members.is_empty() && !is.members.is_empty() {
        members(was, is, &mut text);
    }
    text
}

fn size(file: &DataFile) -> String {
    let DataFile { bytes, hash, .. } = file;
    let hash = hash.short();
    match file.files {
        Some(files) => format!("{files} files of {bytes} bytes ({hash})"),
        None => format!("{bytes} bytes ({hash})"),
    }
}

/// Names the files of a directory that differ.
fn members(was: &DataFile, is: &DataFile, text: &mut String) {
    let by_name = |file: &DataFile| -> BTreeMap<String, ContentHash> {
        let members = file.members.iter();
        members
            .map(|member| (member.name.clone(), member.content.hash))
            .collect()
    };
    let (before, now) = (by_name(was), by_name(is));
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let mut changes = names.into_iter().filter_map(|name| {
        let what = match (before.get(name), now.get(name)) {
            (Some(before), Some(now)) if before == now => return None,
            (Some(_), Some(_)) => "has changed",
            (Some(_), None) => "is gone",
            _ => "is new",
        };
        Some(format!("`{name}` {what}"))
    });
    let first: Vec<String> = changes.by_ref().take(NAMED).collect();
    // Writing to a string can't fail.
    let _ = write!(text, "; {}", first.join(", "));
    let more = changes.count();
    if more > 0 {
        let _ = write!(text, ", and {more} more");
    }
}
