//! The environment of a sandboxed hook's process: what programs need to run, and no others' secrets.

use std::ffi::OsStr;
use std::process::Command;

/// Variables that say where and how a program runs.
const KEPT: [&str; 15] = [
    "COLUMNS",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LINES",
    "LOGNAME",
    "NO_COLOR",
    "PATH",
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
    "TERM",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
];

/// Beginnings of others: the locale, this program's own, Python's, and those of libraries that compute.
const KEPT_FAMILIES: [&str; 9] = [
    "BLIS_",
    "CANDLE_",
    "LC_",
    "MKL_",
    "OMP_",
    "OPENBLAS_",
    "PYTHON",
    "RAYON_",
    "SCONCE_",
];

/// Leaves out of a command's environment what is neither of these nor one of the `others`.
pub(super) fn restrict(command: &mut Command, others: &[String]) {
    for (name, _) in std::env::vars_os() {
        if !is_kept(&name, others) {
            command.env_remove(name);
        }
    }
}

/// Says what of the environment a sandboxed hook sees, and what not.
pub(super) fn tell(hook: &str, others: &[String]) {
    let names = std::env::vars_os().map(|(name, _)| name);
    let (seen, unseen): (Vec<_>, Vec<_>) = names.partition(|name| is_kept(name, others));
    for (names, are_seen) in [(seen, "are seen"), (unseen, "are not seen")] {
        let mut names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
        names.sort_unstable();
        let names = sconce_manifest::printable::one_line(&names.join(" ")).into_owned();
        sconce_manifest::screen::message(&format!(
            "{hook}: sandbox: these environment variables {are_seen}: {names}\n"
        ));
    }
}

fn is_kept(name: &OsStr, others: &[String]) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    KEPT.contains(&name)
        || KEPT_FAMILIES.iter().any(|start| name.starts_with(start))
        || others.iter().any(|other| other == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out_unless_they_are_named() {
        let named = ["WANDB_API_KEY".to_owned()];
        for (name, expected) in [
            ("PATH", true),
            ("LC_ALL", true),
            ("OMP_NUM_THREADS", true),
            ("WANDB_API_KEY", true),
            ("WANDB_API_KEY_2", false),
            ("AWS_SECRET_ACCESS_KEY", false),
            ("HF_TOKEN", false),
            ("LD_PRELOAD", false),
            ("path", false),
            ("", false),
        ] {
            assert_eq!(is_kept(OsStr::new(name), &named), expected, "{name}");
        }
    }
}
