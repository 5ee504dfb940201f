//! What a hook's process gives up before its library is opened: `sandbox` in a manifest entry.
//!
//! **Parts.** `privileges` are what the user who runs it may do beyond files, `files` what of the file system it may use
//! (Landlock), `calls` which system calls it may make (seccomp), `refused` names those that it made nevertheless.
//!
//! **Flow.** Address space is limited first; then privileges go, files, and calls last, since each step needs calls that the
//! next takes away. Nothing of this can be taken back by the process, or by what it starts.

mod calls;
mod files;
mod privileges;
mod refused;

use std::path::Path;

use rustix::process::{Resource, Rlimit, setrlimit};

use sconce_manifest::SandboxRules;

pub use files::landlock_version;

/// The rules for [`enter`].
///
/// # Errors
///
/// If a path is not valid Unicode.
pub(super) fn text_of(rules: &SandboxRules) -> Result<String, String> {
    serde_json::to_string(rules).map_err(|error| format!("its sandbox can't be described: {error}"))
}

/// Enters the sandbox of these rules (the JSON of [`SandboxRules`], or nothing). `shared` is the size of the memory shared
/// with the host.
///
/// # Errors
///
/// Why it can't be entered, for the user.
pub(super) fn enter(rules: &str, shared: u64, library: &Path) -> Result<(), String> {
    if rules.is_empty() {
        return Ok(());
    }
    let rules: SandboxRules =
        serde_json::from_str(rules).map_err(|error| format!("its sandbox is damaged: {error}"))?;
    limit_memory(&rules, shared)?;
    privileges::drop_all(rules.network)?;
    let keeps_signals_in = files::restrict(&rules, library)?;
    calls::restrict(&rules, keeps_signals_in)
}

fn limit_memory(rules: &SandboxRules, shared: u64) -> Result<(), String> {
    let Some(memory) = rules.memory else {
        return Ok(());
    };
    // What this program itself has reserved is not the hook's; what it shares with the host is.
    let reserved = address_space().unwrap_or(shared).saturating_sub(shared);
    let most = Some(reserved.saturating_add(memory));
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::As, limit).map_err(|error| format!("its memory can't be limited: {error}"))
}

/// Size of this process's address space in bytes.
fn address_space() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split_whitespace().next()?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}
