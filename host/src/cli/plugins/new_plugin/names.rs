//! Names of crates, hooks and types.

use crate::diagnostic::Diagnostic;

/// Names that no crate can have: keywords of Rust, and crates that every program has.
const TAKEN: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "use", "where", "while", "core", "std", "test",
];

/// Names used by the template's own code.
const IN_USE: [&str; 31] = [
    "Checkpoint",
    "Config",
    "Context",
    "Default",
    "Deserialize",
    "EpochProfile",
    "Err",
    "Error",
    "Failed",
    "Failure",
    "Hook",
    "JsonSchema",
    "Keep",
    "LogFile",
    "LogFileState",
    "Module",
    "Monitor",
    "NoConfig",
    "None",
    "Ok",
    "Option",
    "Origin",
    "Outcome",
    "Phase",
    "Point",
    "Priority",
    "Result",
    "ScriptedRun",
    "Self",
    "Serialize",
    "Setup",
];

/// More names used by the template's code.
const IN_USE_TOO: [&str; 6] = ["Some", "State", "String", "TaskView", "Vec", "Restored"];

/// Checks the name of a crate.
pub(super) fn check_crate(name: &str) -> Result<(), Diagnostic> {
    let why = if TAKEN.contains(&name) {
        Some("it is one of Rust's own words")
    } else if name == "sconce-plugin-api" || name == "sconce_plugin_api" {
        Some("it is what plugins are built on")
    } else {
        why_no_file(name)
    };
    refused(name, "crate", why)
}

/// Checks the name of a plugin in C or C++, after which its files are named.
pub(super) fn check_library(name: &str) -> Result<(), Diagnostic> {
    refused(name, "plugin", why_no_file(name))
}

/// The reason why files should not be named so.
fn why_no_file(name: &str) -> Option<&'static str> {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.len() > 64 {
        return Some("it is longer than 64 characters");
    }
    let is_right = begins && name.chars().all(is_plain);
    (!is_right).then_some("it has letters, digits, `-` and `_`, and begins with a letter")
}

fn refused(name: &str, what: &str, why: Option<&str>) -> Result<(), Diagnostic> {
    let Some(why) = why else {
        return Ok(());
    };
    let problem = Diagnostic::new(format!("{name:?} is not a name for a {what}: {why}"));
    Err(with_proposal(problem, name))
}

/// Checks the name of a hook.
pub(super) fn check_hook(name: &str) -> Result<(), Diagnostic> {
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if begins && name.len() <= 64 && name.chars().all(is_plain) {
        return Ok(());
    }
    let problem = Diagnostic::new(format!(
        "{name:?} is not a name for a hook: it has small letters, digits and `-`, and begins with a letter"
    ));
    Err(with_proposal(problem, name))
}

/// Adds a hint with a valid name derived from the invalid one.
fn with_proposal(problem: Diagnostic, name: &str) -> Diagnostic {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let words: String = name.chars().map(plain).collect();
    let words = words.trim_matches(|c: char| c == '-' || c.is_ascii_digit());
    let mut proposal: String = words.chars().take(48).collect();
    while proposal.contains("--") {
        proposal = proposal.replace("--", "-");
    }
    if TAKEN.contains(&proposal.as_str()) {
        proposal.push_str("-hook");
    }
    if proposal.is_empty() {
        proposal.push_str("my-hook");
    }
    problem.hint(format!("try `{}`", proposal.trim_matches('-')))
}

/// Name of the hook's type.
pub(super) fn type_of(hook: &str) -> String {
    let mut name = String::new();
    for word in hook.split('-') {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    // Longer names would change where rustfmt breaks lines.
    if name.len() > 20 {
        return "MyHook".to_owned();
    }
    if IN_USE.contains(&name.as_str()) || IN_USE_TOO.contains(&name.as_str()) {
        name.push_str("Hook");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str) -> String {
        let problem = check_crate(name).expect_err("no name");
        crate::diagnostic::render::text(&[problem], false)
    }

    #[test]
    fn names_that_are_none_come_with_one_that_is() {
        for right in ["a", "best-epoch", "Best_Epoch2"] {
            assert!(check_crate(right).is_ok(), "{right}");
        }
        for (wrong, proposal) in [
            ("", "my-hook"),
            ("2nd best", "nd-best"),
            ("été", "t"),
            ("type", "type-hook"),
            ("a/b", "a-b"),
            ("sconce-plugin-api", "sconce-plugin-api"),
        ] {
            let text = told(wrong);
            assert!(text.contains(&format!("try `{proposal}")), "{text}");
        }
        assert!(check_library("match").is_ok() && check_library("a b").is_err());
        assert!(check_hook("Best").is_err() && check_hook("best-2").is_ok());
    }

    #[test]
    fn types_are_called_like_their_hooks() {
        assert_eq!(type_of("best-epoch"), "BestEpoch");
        assert_eq!(type_of("phase"), "PhaseHook");
        assert_eq!(type_of("a-very-long-name-for-a-hook"), "MyHook");
    }
}
