//! The lock of an output directory. It is a file that the system keeps locked for the lifetime of the
//! process, and whose text identifies the holder.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Name of the lock file.
const NAME: &str = "run.lock";

/// A held lock.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// The reason why a lock can't be taken.
#[derive(Debug)]
pub(super) enum LockRefusal {
    /// Another process holds it.
    Held(Holder),
    /// A system error.
    System(io::Error),
}

/// The process that holds a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Holder {
    pid: u32,
    host: String,
    /// Boot ID of the machine: process IDs are meaningless across boots.
    boot: String,
    /// Time in UTC.
    started: String,
}

impl Lock {
    /// Whether another process holds a directory's lock; neither takes nor creates it.
    pub(super) fn is_held(directory: &Path) -> bool {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(directory.join(NAME));
        let Ok(mut file) = file else {
            return false;
        };
        match file.try_lock() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(_)) => {
                Holder::read(&mut file).is_alive_beside(&Holder::present())
            }
        }
    }

    /// Takes the lock of a directory. The lock of a dead process is taken over silently.
    pub(super) fn take(directory: &Path) -> Result<Lock, LockRefusal> {
        let path = directory.join(NAME);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(|error| {
            let text = format!("{}: {error}", path.display());
            LockRefusal::System(io::Error::new(error.kind(), text))
        })?;
        let me = Holder::present();
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockRefusal::Held(Holder::read(&mut file)));
            }
            // On a file system without locks, the text has to decide.
            Err(TryLockError::Error(_)) => {
                let holder = Holder::read(&mut file);
                if holder.is_alive_beside(&me) {
                    return Err(LockRefusal::Held(holder));
                }
            }
        }
        me.write(&mut file).map_err(LockRefusal::System)?;
        Ok(Lock { _file: file })
    }
}

impl Holder {
    fn present() -> Holder {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        Holder {
            pid: std::process::id(),
            host: host_name(),
            boot: boot.unwrap_or_default().trim().to_owned(),
            started: utc(SystemTime::now()),
        }
    }

    fn read(file: &mut File) -> Holder {
        let mut text = String::new();
        drop(file.rewind().and_then(|()| file.read_to_string(&mut text)));
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn write(&self, file: &mut File) -> io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&text)
    }

    /// Whether the holder is a different, live process on this machine.
    fn is_alive_beside(&self, me: &Holder) -> bool {
        let is_here = self.host == me.host && self.boot == me.boot && self.pid != me.pid;
        is_here && Path::new("/proc").join(self.pid.to_string()).exists()
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == 0 {
            // The holder has taken the lock, but not yet written the text.
            return f.write_str("it has just begun");
        }
        let Holder {
            pid, host, started, ..
        } = self;
        write!(f, "process {pid} on {host}, since {started}")
    }
}

#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// Formats a time as `2026-11-21 10:50:44 UTC`.
fn utc(moment: SystemTime) -> String {
    let seconds = moment
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Converts days since 1970-01-01 to year, month and day in the Gregorian calendar. It counts in eras of 400
/// years that begin in March.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970: u64 = 719_468;
    const DAYS_OF_ERA: u64 = 146_097;
    let days = days + DAYS_TO_1970;
    let (era, day) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_are_reported_in_the_calendar() {
        // Values from `date -u -d @SECONDS`.
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_795_258_244, "2026-11-21 10:50:44 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn the_text_of_a_dead_process_holds_nothing() {
        let me = Holder::present();
        let other = |pid: u32, boot: &str| Holder {
            pid,
            boot: boot.to_owned(),
            ..me.clone()
        };
        // The first process lives as long as the machine runs.
        assert!(other(1, &me.boot).is_alive_beside(&me) || !Path::new("/proc/1").exists());
        assert!(!other(1, "another boot").is_alive_beside(&me));
        assert!(!other(u32::MAX, &me.boot).is_alive_beside(&me));
        assert!(!me.is_alive_beside(&me));
    }
}
