//! Memory that this process may use.

use std::fs;
use std::path::Path;

/// Most memory that this process may use, and what limits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Number of bytes.
    pub bytes: u64,
    /// What limits it, for messages.
    pub source: &'static str,
}

/// Returns the smallest of the limits that the system sets: the address space (`ulimit -v`), the control groups' memory, and
/// the machine's memory with its swap space. None where the system says nothing.
pub fn memory_limit() -> Option<MemoryLimit> {
    let limit = |bytes: Option<u64>, source| bytes.map(|bytes| MemoryLimit { bytes, source });
    let limits = [
        limit(
            address_space(),
            "the limit of the address space, `ulimit -v`",
        ),
        limit(
            control_groups(),
            "the limit of the control group or container",
        ),
        limit(machine("MemTotal:", "SwapTotal:"), "this machine's memory"),
    ];
    limits.into_iter().flatten().min_by_key(|limit| limit.bytes)
}

/// Returns the memory that is unused or can be freed at once, with the free swap space, if the system says.
pub fn available_memory() -> Option<u64> {
    machine("MemAvailable:", "SwapFree:")
}

fn address_space() -> Option<u64> {
    of_limits(&fs::read_to_string("/proc/self/limits").ok()?)
}

fn of_limits(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The smallest limit of this process's control groups, from its own to the outermost.
fn control_groups() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let limits = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        let inside = Path::new(path.trim_start_matches('/'));
        let limits = inside.ancestors().filter_map(|inside| {
            let text = fs::read_to_string(Path::new(root).join(inside).join(name));
            text.ok()?.trim().parse::<u64>().ok()
        });
        limits.min()
    });
    limits.min()
}

/// The sum of two entries of the kernel's table of memory, in bytes.
fn machine(first: &str, second: &str) -> Option<u64> {
    of_table(&fs::read_to_string("/proc/meminfo").ok()?, first, second)
}

fn of_table(text: &str, first: &str, second: &str) -> Option<u64> {
    let entry = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        kibibytes.checked_mul(1024)
    };
    Some(entry(first)?.saturating_add(entry(second).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_tables_are_understood() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max address space         1048576              unlimited            bytes\n";
        assert_eq!(of_limits(limits), Some(1 << 20));
        assert_eq!(of_limits(&limits.replace("1048576", "unlimited")), None);
        assert_eq!(of_limits(""), None);
        let table =
            "MemTotal:       100 kB\nMemFree: 3 kB\nMemAvailable:  50 kB\nSwapTotal:   7 kB\n";
        assert_eq!(of_table(table, "MemTotal:", "SwapTotal:"), Some(107 * 1024));
        assert_eq!(
            of_table(table, "MemAvailable:", "SwapFree:"),
            Some(50 * 1024)
        );
        assert_eq!(of_table("", "MemTotal:", "SwapTotal:"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_a_limit() {
        let limit = memory_limit().expect("a limit");
        assert!(limit.bytes > 1 << 20, "{limit:?}");
    }
}
