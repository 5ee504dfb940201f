//! Lists of hashes and paths, as `b3sum` writes and checks them.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{ContentHash, DataFile, FileContent, Member};

/// Lists files, and the files of directories, as `b3sum --check` reads them: a line with hash, two spaces and path each.
pub fn listing(files: &[DataFile]) -> String {
    let mut text = String::new();
    for file in files {
        if file.members.is_empty() {
            line(&mut text, file.hash, &file.name);
        }
        for member in file.members.iter() {
            line(
                &mut text,
                member.content.hash,
                &format!("{}/{}", file.name, member.name),
            );
        }
    }
    text
}

fn line(text: &mut String, hash: ContentHash, path: &str) {
    let escaped = path.replace('\\', "\\\\").replace('\n', "\\n");
    let mark = if escaped == path { "" } else { "\\" };
    // Writing to a string can't fail.
    let _ = writeln!(text, "{mark}{}  {escaped}", hash.digits());
}

/// Adds to directories the files that a [`listing`] has of them, as far as their hashes are those of the directories: to
/// name what has changed in them. A listing that is missing or damaged changes nothing.
pub fn with_listed_members(files: &[DataFile], listing: &str) -> Vec<DataFile> {
    let entries: BTreeMap<String, ContentHash> = listing.lines().filter_map(entry).collect();
    let with_members = |file: &DataFile| {
        let start = format!("{}/", file.name);
        let members = entries.range(start.clone()..);
        let members = members.map_while(|(path, &hash)| {
            let name = path.strip_prefix(&start)?.to_owned();
            let content = FileContent { bytes: 0, hash };
            Some(Member { name, content })
        });
        let known = DataFile::directory(file.name.clone(), members.collect());
        let members = match file.files {
            Some(_) if known.hash == file.hash => known.members,
            _ => file.members.clone(),
        };
        DataFile {
            members,
            ..file.clone()
        }
    };
    files.iter().map(with_members).collect()
}

fn entry(line: &str) -> Option<(String, ContentHash)> {
    let (escaped, line) = match line.strip_prefix('\\') {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (digits, path) = line.split_once("  ")?;
    let hash = ContentHash::from_digits(digits)?;
    if !escaped {
        return Some((path.to_owned(), hash));
    }
    let mut name = String::new();
    let mut characters = path.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => name.push(match characters.next()? {
                'n' => '\n',
                other => other,
            }),
            other => name.push(other),
        }
    }
    Some((name, hash))
}
