//! Keys of a hook's entry about the process that it runs in: `isolation`, `on_crash`, `sandbox`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::policies::{OnCrash, OnError};

/// Environment variable that isolates every hook, for tests: `all`.
pub const ISOLATE: &str = "SCONCE_ISOLATE";

/// The process that a hook runs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// The process of the run.
    #[default]
    None,
    /// A process of its own, which can crash without ending the run.
    Process,
}

impl Isolation {
    /// Whether the hook runs in a process of its own.
    pub fn is_process(self) -> bool {
        self == Isolation::Process || std::env::var_os(ISOLATE).is_some_and(|value| value == "all")
    }
}

/// What happens when the process of a hook crashes, or is killed at its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CrashPolicy {
    /// A policy by its name.
    Named(CrashPolicyName),
    /// Restarts, as often as the number says; the next crash disables the hook.
    Restart(RestartCount),
}

/// A policy by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CrashPolicyName {
    /// End the run.
    Fail,
    /// Disable the hook for the rest of the run, which continues.
    Disable,
    /// Restart the hook with its last state, at most 3 times.
    Restart,
}

/// Number of restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestartCount {
    /// Most restarts in a run.
    #[schemars(range(min = 1, max = 1000))]
    restart: u32,
}

/// Restarts of the policy `restart`, and of hooks whose faults are ignored.
const RESTARTS: u32 = 3;

impl CrashPolicy {
    /// The policy of a hook: what its entry says, or else what corresponds to its policy for faults.
    pub(crate) fn of(written: Option<CrashPolicy>, on_error: OnError) -> OnCrash {
        match (written, on_error) {
            (Some(CrashPolicy::Named(CrashPolicyName::Fail)), _) | (None, OnError::Fail) => {
                OnCrash::Fail
            }
            (Some(CrashPolicy::Named(CrashPolicyName::Disable)), _) | (None, OnError::Disable) => {
                OnCrash::Disable
            }
            (Some(CrashPolicy::Named(CrashPolicyName::Restart)), _) | (None, OnError::Ignore) => {
                OnCrash::Restart(RESTARTS)
            }
            (Some(CrashPolicy::Restart(count)), _) => OnCrash::Restart(count.restart),
        }
    }
}

/// What the process of a hook may use: `true` for the strictest rules, or an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SandboxConfig {
    /// Whether there is a sandbox, with the rules' defaults.
    IsOn(bool),
    /// Rules.
    Rules(Sandbox),
}

impl SandboxConfig {
    /// The rules, if there is a sandbox.
    pub fn rules(&self) -> Option<Sandbox> {
        match self {
            SandboxConfig::IsOn(false) => None,
            SandboxConfig::IsOn(true) => Some(Sandbox::default()),
            SandboxConfig::Rules(rules) => Some(rules.clone()),
        }
    }
}

/// Rules of a sandbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sandbox {
    /// Files and directories that may be read, besides the system's libraries and the run's directory.
    pub read: Vec<PathBuf>,
    /// Directories that may be written to, besides the run's.
    pub write: Vec<PathBuf>,
    /// Whether it may open sockets.
    pub network: bool,
    /// Whether it may start other programs.
    pub processes: bool,
    /// Environment variables that it may see, besides those that say where and how a program runs: `PATH`, `HOME`, the locale,
    /// numbers of threads.
    #[schemars(inner(regex(pattern = r"^[^=]+$")))]
    pub environment: Vec<String>,
    /// Most memory (address space) that library and hook may take, in bytes or as text: `512MiB`, `1GiB`. Default: no
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemorySize>,
    /// Whether it is an error if the system can't enforce all of it. Linux can from 6.2 on, unless Landlock is turned off.
    pub strict: bool,
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox {
            read: Vec::new(),
            write: Vec::new(),
            network: false,
            processes: false,
            environment: Vec::new(),
            memory: None,
            strict: true,
        }
    }
}

impl Sandbox {
    /// The rules for the hook's process.
    pub fn rules(&self) -> SandboxRules {
        SandboxRules {
            read: self.read.clone(),
            list: Vec::new(),
            write: self.write.clone(),
            network: self.network,
            processes: self.processes,
            environment: self.environment.clone(),
            memory: self.memory.as_ref().and_then(MemorySize::bytes),
            strict: self.strict,
        }
    }
}

/// Rules of a sandbox, as the hook's process gets them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SandboxRules {
    /// Files and directories that may be read.
    pub read: Vec<PathBuf>,
    /// Directories whose files' names may be read.
    pub list: Vec<PathBuf>,
    /// Directories in which everything is allowed.
    pub write: Vec<PathBuf>,
    /// Whether sockets may be opened.
    pub network: bool,
    /// Whether programs may be started.
    pub processes: bool,
    /// Environment variables that it may see, besides those of every process.
    pub environment: Vec<String>,
    /// The most address space in bytes, apart from what the process has at its start.
    pub memory: Option<u64>,
    /// Whether a system that can't restrict files is an error.
    pub strict: bool,
}

/// A number of bytes, as a number or as text with a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum MemorySize {
    /// Bytes.
    Bytes(#[schemars(range(min = 1_048_576))] u64),
    /// A whole number and `KiB`, `MiB` or `GiB`.
    Text(#[schemars(regex(pattern = r"^[0-9]{1,9} ?(KiB|MiB|GiB)$"))] String),
}

impl MemorySize {
    /// The number of bytes; none if the text is not in the form that the schema demands.
    pub fn bytes(&self) -> Option<u64> {
        let text = match self {
            MemorySize::Bytes(bytes) => return Some(*bytes),
            MemorySize::Text(text) => text,
        };
        let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
        let (number, shift) = units
            .iter()
            .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)))?;
        number.trim_end().parse::<u64>().ok()?.checked_shl(*shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_or_have_a_unit() {
        let bytes = |text: &str| MemorySize::Text(text.to_owned()).bytes();
        assert_eq!(bytes("1GiB"), Some(1 << 30));
        assert_eq!(bytes("512 MiB"), Some(512 << 20));
        assert_eq!(bytes("64KiB"), Some(64 << 10));
        assert_eq!(bytes("1 GB"), None);
        assert_eq!(MemorySize::Bytes(7).bytes(), Some(7));
    }

    #[test]
    fn a_crash_is_handled_as_a_fault_unless_the_entry_says_otherwise() {
        let of = |json: &str| serde_json::from_str::<CrashPolicy>(json).expect(json);
        assert_eq!(CrashPolicy::of(None, OnError::Fail), OnCrash::Fail);
        assert_eq!(CrashPolicy::of(None, OnError::Ignore), OnCrash::Restart(3));
        let disable = Some(of("\"disable\""));
        assert_eq!(CrashPolicy::of(disable, OnError::Fail), OnCrash::Disable);
        let restart = Some(of("{\"restart\": 7}"));
        assert_eq!(CrashPolicy::of(restart, OnError::Fail), OnCrash::Restart(7));
    }
}
