//! Values of the environment variables that the host reads: a value without effect is an error, as in a manifest.

use std::env::VarError;

use sconce_ops::OPERATIONS_VARIABLE;

use crate::bridge::HOST_COPIES;
use crate::diagnostic::Diagnostic;
use crate::faults::CORE_VARIABLE;
use crate::kernels;
use crate::manifest::{ISOLATE, LOAD_LIMIT};
use crate::session::StartFailure;
use crate::session::reload::EVERY as RELOAD_EVERY;

/// What a variable can be set to.
enum Accepted {
    OneOf(&'static [&'static str]),
    /// A number of seconds above 0.
    Seconds,
    /// A whole number above 0.
    Count,
}

const VARIABLES: [(&str, Accepted); 7] = [
    (LOAD_LIMIT, Accepted::Seconds),
    (RELOAD_EVERY, Accepted::Count),
    (ISOLATE, Accepted::OneOf(&["all", "none"])),
    (HOST_COPIES, Accepted::OneOf(&["always"])),
    (CORE_VARIABLE, Accepted::OneOf(&["0", "1"])),
    (
        kernels::VARIABLE,
        Accepted::OneOf(&["baseline", "avx2", "avx512"]),
    ),
    (OPERATIONS_VARIABLE, Accepted::OneOf(&["composed"])),
];

impl Accepted {
    fn has(&self, value: &str) -> bool {
        match self {
            Accepted::OneOf(values) => values.contains(&value),
            Accepted::Seconds => value.parse().is_ok_and(|seconds: f64| seconds > 0.0),
            Accepted::Count => value.parse().is_ok_and(|count: u64| count > 0),
        }
    }

    fn words(&self) -> String {
        match self {
            Accepted::OneOf(values) => {
                let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
                values.join(" or ")
            }
            Accepted::Seconds => "a number of seconds above 0".to_owned(),
            Accepted::Count => "a whole number above 0".to_owned(),
        }
    }
}

/// Checks the variables that are set. An empty one counts as none.
pub(in crate::cli) fn check() -> Result<(), StartFailure> {
    let mut problems = Vec::new();
    for (name, accepted) in VARIABLES {
        let value = match std::env::var(name) {
            Ok(value) => value,
            Err(VarError::NotPresent) => continue,
            Err(VarError::NotUnicode(value)) => value.to_string_lossy().into_owned(),
        };
        let value = value.trim();
        if !value.is_empty() && !accepted.has(value) {
            problems.push(Diagnostic::new(format!(
                "the environment variable `{name}` can be {}, not `{value}`",
                accepted.words()
            )));
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(StartFailure::usage(problems))
}
