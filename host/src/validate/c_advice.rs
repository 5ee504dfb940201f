//! Advice for authors of plugins in C and C++, where that for Rust names things that they don't have.

/// The advice for a failure of the test of this name; `None` where the one for Rust fits.
pub(super) fn c_advice(test: &str) -> Option<&'static str> {
    let (_, advice) = ADVICE.iter().find(|(name, _)| *name == test)?;
    Some(advice)
}

const ADVICE: &[(&str, &str)] = &[
    (
        "file.structure",
        "Build it with `-shared -fPIC` for this machine, write `SCONCE_PLUGIN(…)` once, with \",\" between points, \
         metrics and hooks and no SCONCE_ name that sconce.h lacks, and copy the file complete.",
    ),
    (
        "file.compatible",
        "Take the header of an older host, or update the host.",
    ),
    (
        "file.panics",
        "Write `SCONCE_PLUGIN(…)`, which states that C has no panics.",
    ),
    (
        "file.opens",
        "Leave constructors and global objects with constructors out; do such things in `create`.",
    ),
    (
        "file.description",
        "Leave `describe` null: the host then reads the metadata section.",
    ),
    (
        "file.names",
        "Give names of small letters, digits and hyphens and a sentence each to `SCONCE_PLUGIN` and `SCONCE_HOOK`.",
    ),
    (
        "file.file-name",
        "Call the library `lib` and the plugin's name, with the system's suffix.",
    ),
    (
        "file.dependencies",
        "Link others statically (in C++ `-static-libstdc++ -static-libgcc`), or tell users to install them.",
    ),
    ("file.processor", "Build without `-march=native`."),
    (
        "file.unknown-hook",
        "Compare `kind` with sconce_is(), and return SCONCE_NO_SUCH_KIND for others.",
    ),
    (
        "config.schema",
        "Write the schema of an object in `SCONCE_HOOK`, by `SCONCE_JSON({\"type\": \"object\", …})`.",
    ),
    (
        "config.unknown-keys",
        "Write `\"additionalProperties\": false` in the schema: the host then refuses mistyped options.",
    ),
    (
        "config.described",
        "Write a `\"description\"` for every property of the schema.",
    ),
    (
        "config.wrong-types",
        "Write the `\"type\"` of every property in the schema, and return SCONCE_CONFIG for what it can't say.",
    ),
    (
        "config.ranges",
        "Write `\"minimum\"` and `\"maximum\"` of numbers in the schema, and return SCONCE_CONFIG for what it can't say.",
    ),
    (
        "config.not-json",
        "Write `\"additionalProperties\": false` in the schema, and read options by the functions of `sconce.c/1`.",
    ),
    (
        "config.random",
        "Return SCONCE_CONFIG with a message from `create` for what can't be done.",
    ),
    (
        "config.random-runs",
        "Return SCONCE_CONFIG with a message from `create` for a configuration that can't work.",
    ),
    (
        "lifecycle.points",
        "List in `SCONCE_HOOK` the points that the `switch` in `call` has a case for, and end it with \
         `default: return SCONCE_UNSUPPORTED;`.",
    ),
    (
        "lifecycle.asks",
        "Add it to `SCONCE_ASKS`, behind the hook's schema.",
    ),
    (
        "lifecycle.ranks",
        "Declare it by `SCONCE_HOOK_ON_ALL_RANKS`.",
    ),
    (
        "lifecycle.create-drop",
        "Open files and start threads at `before_run`; close, end and free everything in `drop`.",
    ),
    (
        "lifecycle.two-instances",
        "Keep everything in the instance: no global or static variables.",
    ),
    (
        "lifecycle.two-in-a-run",
        "Derive names of files and of published values from `sconce_setup.name` where two can meet.",
    ),
    (
        "lifecycle.exception",
        "Expect at `after_run` and in `drop` that the epoch is not finished.",
    ),
    (
        "lifecycle.leaves-nothing",
        "Join threads in `drop`; write messages by `sconce_log_table.log`, never by `printf`.",
    ),
    (
        "state.damaged",
        "Check the length first, then every number's range, and return SCONCE_ERROR with a message.",
    ),
    (
        "faults.refusals",
        "Return the status of a function of the host's that is not SCONCE_OK.",
    ),
    (
        "faults.directory",
        "Check what `fopen` and `fwrite` return, and fail with the file's name and `strerror(errno)`.",
    ),
    (
        "faults.full-disk",
        "Check what `fflush` and `fclose` return: errors of the last bytes appear there.",
    ),
    (
        "purity.repeatable",
        "Draw random numbers from `sconce_setup.seed`; no clocks and no addresses in what steers the training.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::tests;

    #[test]
    fn advice_is_for_tests_that_exist() {
        for (name, advice) in ADVICE {
            assert!(tests().any(|test| test.name == *name), "{name}");
            assert!(advice.ends_with('.'), "{advice}");
        }
    }

    #[test]
    fn authors_in_c_read_nothing_of_rust() {
        for test in tests() {
            let advice = c_advice(test.name).unwrap_or(test.advice);
            for word in [
                "cargo",
                "Cargo",
                "panic =",
                "#[",
                "export_plugin",
                "serde",
                "Hook::",
                "`?`",
                "cdylib",
                "::",
                "JsonSchema",
                "`Drop`",
                "println",
            ] {
                assert!(!advice.contains(word), "{}: {advice}", test.name);
            }
        }
    }
}
