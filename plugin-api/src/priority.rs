//! Priorities: the order of hooks at a mount point, lowest number first.

use std::fmt;

/// Position of a hook among the hooks at the same mount point: 0 runs first, 100 last.
///
/// Hooks of equal priority run in the order of the manifest.
///
/// ```
/// use sconce_plugin_api::Priority;
///
/// assert!(Priority::HIGH < Priority::LOW);
/// assert_eq!(Priority::new(35).unwrap().to_string(), "35");
/// assert_eq!(Priority::from_name("LOWER"), Some(Priority::LOWER));
/// assert!(Priority::new(101).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// 0: before all other hooks.
    pub const HIGHEST: Priority = Priority(0);
    /// 10: hooks that compute statistics for others.
    pub const HIGHER: Priority = Priority(10);
    /// 20: timers.
    pub const HIGH: Priority = Priority(20);
    /// 30: metrics and control; the default.
    pub const NORMAL: Priority = Priority(30);
    /// 40: loggers.
    pub const LOW: Priority = Priority(40);
    /// 50: checkpoints.
    pub const LOWER: Priority = Priority(50);
    /// 60: early stopping.
    pub const LOWEST: Priority = Priority(60);

    /// The named priorities, in order of execution.
    pub const NAMED: [(&'static str, Priority); 7] = [
        ("HIGHEST", Priority::HIGHEST),
        ("HIGHER", Priority::HIGHER),
        ("HIGH", Priority::HIGH),
        ("NORMAL", Priority::NORMAL),
        ("LOW", Priority::LOW),
        ("LOWER", Priority::LOWER),
        ("LOWEST", Priority::LOWEST),
    ];

    /// The largest value, 100.
    pub const MAX: u8 = 100;

    /// The priority with this number; `None` above 100.
    pub const fn new(value: u8) -> Option<Priority> {
        if value <= Priority::MAX {
            Some(Priority(value))
        } else {
            None
        }
    }

    /// The number, 0 to 100.
    pub const fn value(self) -> u8 {
        self.0
    }

    /// The priority with this name, as in `Priority::NAMED`.
    pub fn from_name(name: &str) -> Option<Priority> {
        Priority::NAMED
            .iter()
            .find(|(known, _)| *known == name)
            .map(|&(_, priority)| priority)
    }
}

impl Default for Priority {
    fn default() -> Self {
        Priority::NORMAL
    }
}

impl fmt::Display for Priority {
    /// Writes the name if there is one, otherwise the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Priority::NAMED.iter().find(|(_, named)| named == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}
