//! The process's memory usage.

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Resident set now.
    pub(crate) resident: u64,
    /// Peak resident set: since the process began if the system reports that, otherwise since the
    /// first measurement.
    pub(crate) peak: u64,
}

/// Converts bytes to mebibytes.
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;
    use std::io::{Read, Seek};

    use sconce_plugin_api::prelude::*;

    use super::Usage;

    /// Linux: reads `/proc/self/status`, which stays open.
    #[derive(Debug)]
    pub(crate) struct Resident {
        file: File,
        text: String,
    }

    impl Resident {
        pub(crate) fn new() -> Result<Resident> {
            let file = File::open("/proc/self/status").context("can't open `/proc/self/status`")?;
            let text = String::new();
            Ok(Resident { file, text })
        }

        pub(crate) fn read(&mut self) -> Result<Usage> {
            self.text.clear();
            let read = self
                .file
                .rewind()
                .and_then(|()| self.file.read_to_string(&mut self.text));
            read.context("can't read `/proc/self/status`")?;
            super::parse(&self.text).context("`/proc/self/status` says nothing of memory")
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use sconce_plugin_api::prelude::*;

    use super::Usage;

    /// Other systems: as reported by the crate `memory-stats`.
    #[derive(Debug)]
    pub(crate) struct Resident {
        peak: u64,
    }

    impl Resident {
        pub(crate) fn new() -> Result<Resident> {
            Ok(Resident { peak: 0 })
        }

        pub(crate) fn read(&mut self) -> Result<Usage> {
            let Some(stats) = memory_stats::memory_stats() else {
                bail!("the system does not say how much memory the process has");
            };
            let resident = stats.physical_mem as u64;
            self.peak = self.peak.max(resident);
            Ok(Usage {
                resident,
                peak: self.peak,
            })
        }
    }
}

pub(crate) use system::Resident;

/// Parses `/proc/self/status`, which is in kibibytes (`man 5 proc_pid_status`).
#[cfg(any(target_os = "linux", test))]
fn parse(status: &str) -> Result<Usage, std::fmt::Error> {
    let number = |key: &str| {
        let mut lines = status.lines();
        let rest = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes * 1024)
    };
    let resident = number("VmRSS").ok_or(std::fmt::Error)?;
    let peak = number("VmHWM").unwrap_or(resident).max(resident);
    Ok(Usage { resident, peak })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_file_is_read() {
        let status = "Name:\tsconce\nVmPeak:\t  900 kB\nVmHWM:\t     512 kB\nVmRSS:\t     256 kB\n";
        let usage = parse(status).expect("memory");
        assert_eq!((usage.resident, usage.peak), (256 * 1024, 512 * 1024));
        assert!(parse("Name:\tsconce\n").is_err());
        let mut resident = Resident::new().expect("opened");
        let first = resident.read().expect("read");
        assert!(first.resident > 0 && first.peak >= first.resident);
        assert!(resident.read().expect("read again").resident > 0);
    }
}
