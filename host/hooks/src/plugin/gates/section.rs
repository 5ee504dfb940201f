//! The metadata section: a plugin's description of itself, read without running its code.

use std::collections::BTreeSet;

use object::{Object, ObjectSection};
use sconce_manifest::printable;
use sconce_plugin_api::Priority;
use sconce_plugin_api::metadata::{MAGIC, PluginMetadata, SECTION, SECTION_MACHO};

use super::refusal::Cause;

/// Maximum length of the metadata text, in bytes.
const LONGEST: usize = 4 << 20;

/// Reads the metadata from a library's bytes, whose structure has been checked.
pub(in crate::plugin) fn read(bytes: &[u8]) -> Result<PluginMetadata, Cause> {
    let file = object::File::parse(bytes).map_err(|error| Cause::Metadata(error.to_string()))?;
    let section = [SECTION, SECTION_MACHO]
        .iter()
        .find_map(|name| file.section_by_name(name))
        .ok_or(Cause::NoMetadata)?;
    let data = section
        .data()
        .map_err(|error| Cause::Metadata(error.to_string()))?;
    let metadata = parse(data)?;
    check(&metadata).map_err(Cause::Metadata)?;
    Ok(metadata)
}

/// Parses magic number, length and text. Bytes after the text are padding.
pub(in crate::plugin) fn parse(section: &[u8]) -> Result<PluginMetadata, Cause> {
    let damaged = |problem: &str| Cause::Metadata(problem.to_owned());
    let rest = section
        .strip_prefix(&MAGIC)
        .ok_or_else(|| damaged("the section does not begin as it must"))?;
    let (length, rest) = rest
        .split_first_chunk::<4>()
        .ok_or_else(|| damaged("the section has no length"))?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > LONGEST {
        return Err(Cause::Metadata(format!(
            "{length} bytes are announced, more than the {LONGEST} that are read"
        )));
    }
    let text = rest.get(..length).ok_or_else(|| {
        Cause::Metadata(format!(
            "{length} bytes are announced, {} are there",
            rest.len()
        ))
    })?;
    serde_json::from_slice(text).map_err(|error| Cause::MetadataText {
        excerpt: excerpt(text, &error),
        problem: error.to_string(),
    })
}

/// About 40 characters of the text around the place of an error.
fn excerpt(text: &[u8], error: &serde_json::Error) -> String {
    let mut lines = text.split(|byte| *byte == b'\n');
    let line = lines
        .nth(error.line().saturating_sub(1))
        .unwrap_or_default();
    let at = error.column().min(line.len());
    let (begin, end) = (at.saturating_sub(20), line.len().min(at + 20));
    let part = String::from_utf8_lossy(line.get(begin..end).unwrap_or_default());
    // Characters that are cut in two.
    let part = part.trim_matches(char::REPLACEMENT_CHARACTER);
    let before = if begin > 0 { "…" } else { "" };
    let after = if end < line.len() { "…" } else { "" };
    printable::one_line(&format!("{before}{part}{after}")).into_owned()
}

/// Checks what the type can't express.
fn check(metadata: &PluginMetadata) -> Result<(), String> {
    if metadata.name.is_empty() {
        return Err("the plugin has no name".to_owned());
    }
    if metadata.hooks.is_empty() && metadata.transports.is_empty() {
        return Err("the plugin has no hooks".to_owned());
    }
    let mut names = BTreeSet::new();
    for hook in &metadata.hooks {
        let name = &hook.name;
        if name.is_empty() {
            return Err("a hook has no name".to_owned());
        }
        if hook.priority > Priority::MAX {
            return Err(format!(
                "the hook `{name}` has the priority {}",
                hook.priority
            ));
        }
        if !names.insert(name) {
            return Err(format!("two hooks are called `{name}`"));
        }
    }
    let mut names = BTreeSet::new();
    for transport in &metadata.transports {
        let name = &transport.name;
        if name.is_empty() {
            return Err("a transport has no name".to_owned());
        }
        if !names.insert(name) {
            return Err(format!("two transports are called `{name}`"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes
    }

    fn metadata(hooks: &str) -> String {
        format!(
            r#"{{"name": "p", "version": "1", "abi_epoch": 1, "api_version": "1.0.0",
            "rustc": "r", "target": "t", "panic": "unwind", "from_the_future": 1, "hooks": [{hooks}]}}"#
        )
    }

    #[test]
    fn a_plugin_may_have_transports_alone() {
        let with = |transports: &str| {
            let text = metadata("").replace(
                "\"hooks\"",
                &format!("\"transports\": [{transports}], \"hooks\""),
            );
            let metadata = parse(&section(&text)).map_err(|cause| cause.to_string())?;
            check(&metadata)
        };
        let one = r#"{"name": "post"}"#;
        assert_eq!(with(one), Ok(()));
        let two = with(&format!("{one}, {one}"));
        assert_eq!(two, Err("two transports are called `post`".to_owned()));
        let unnamed = with(r#"{"name": ""}"#);
        assert_eq!(unnamed, Err("a transport has no name".to_owned()));
    }

    fn problem(bytes: &[u8]) -> String {
        match parse(bytes) {
            Ok(metadata) => check(&metadata).expect_err("it is wrong"),
            Err(cause) => cause.to_string(),
        }
    }

    #[test]
    fn metadata_comes_back_with_padding_and_unknown_fields() {
        let hook = r#"{"name": "h", "priority": 30, "points": [{"number": 99, "name": "later"}]}"#;
        let mut bytes = section(&metadata(hook));
        bytes.extend([0; 7]);
        let read = parse(&bytes).expect("metadata");
        assert_eq!(check(&read), Ok(()));
        assert_eq!(read.hooks[0].points[0].number, 99);
    }

    #[test]
    fn every_damage_is_reported() {
        let hook = |name: &str, priority: u8| {
            format!(r#"{{"name": "{name}", "priority": {priority}, "points": []}}"#)
        };
        let two = format!("{},{}", hook("h", 1), hook("h", 2));
        let mut short = section(&metadata(&hook("h", 1)));
        short.pop();
        for (bytes, words) in [
            (b"nonsense and more".to_vec(), "does not begin as it must"),
            (MAGIC.to_vec(), "has no length"),
            (short, "are announced"),
            (
                [&MAGIC[..], &u32::MAX.to_le_bytes()].concat(),
                "more than the 4194304",
            ),
            (section("{"), "EOF"),
            (section("{}"), "missing field"),
            (
                section(&metadata(
                    r#"{"name": "h", "points": [{"number": SCONCE_AFTER_TEA}]}"#,
                )),
                r#"line 2 column 129, in `…ints": [{"number": SCONCE_AFTER_TEA}]}]}`"#,
            ),
            (section(&metadata("")), "has no hooks"),
            (section(&metadata(&hook("", 1))), "a hook has no name"),
            (section(&metadata(&hook("h", 101))), "the priority 101"),
            (section(&metadata(&two)), "two hooks are called `h`"),
        ] {
            let text = problem(&bytes);
            assert!(text.contains(words), "{text}");
        }
    }
}
