//! Tests of the library file, and of opening it.

use std::time::Instant;

use sconce_plugin_api::metadata::PluginMetadata;
use serde_json::Value;

use crate::bridge::BridgeState;
use crate::log::MemoryLog;
use crate::plugin::instance::HookInstance;
use crate::plugin::library::Library;
use crate::plugin::{compatibility, inspect};
use crate::validate::finding::{Checked, Verdict, failed, passed, skipped, unless, warning};
use crate::validate::subject::Subject;
use crate::validate::test::{Test, TestGroup, TestScope};

pub(super) const GROUP: TestGroup = TestGroup {
    name: "file",
    about: "the library as a file, and what opening it does",
    tests: &[
        Test {
            name: "file.structure",
            about: "The file is a whole shared library of this machine, with a plugin's metadata \
                    section and the API of this host.",
            advice: "Build it as a `cdylib` for this machine, call `export_plugin!` (in C write \
                     `SCONCE_PLUGIN(…)`), and copy it whole.",
            level: 1,
            scope: TestScope::Library,
            check: structure,
        },
        Test {
            name: "file.compatible",
            about: "This host has every extension that the hooks require.",
            advice: "Build it with an older sconce-plugin-api, or update the host.",
            level: 1,
            scope: TestScope::Library,
            check: compatible,
        },
        Test {
            name: "file.panics",
            about: "It was built to unwind: with `panic = \"abort\"` a panic ends the whole process.",
            advice: "Take `panic = \"abort\"` out of the profile in `Cargo.toml`.",
            level: 1,
            scope: TestScope::Library,
            check: panics,
        },
        Test {
            name: "file.opens",
            about: "It opens within a second, changes nothing of the process, starts no thread and \
                    prints nothing.",
            advice: "Leave constructors out; do such things in `Hook::new`.",
            level: 1,
            scope: TestScope::Library,
            check: opens,
        },
        Test {
            name: "file.description",
            about: "What the library says once it is open is what its metadata section says.",
            advice: "List each hook once in one `export_plugin!`.",
            level: 1,
            scope: TestScope::Library,
            check: description,
        },
        Test {
            name: "file.names",
            about: "Plugin and hooks have names of small letters, digits and hyphens, and a sentence \
                    that says what they are for.",
            advice: "Write `name = \"…\"` and `about = \"…\"` in `#[hook(…)]`, and a `description` in \
                     `Cargo.toml`.",
            level: 2,
            scope: TestScope::Library,
            check: names,
        },
        Test {
            name: "file.file-name",
            about: "The file is named after its plugin, as cargo does, so that two plugins don't overwrite \
                    each other.",
            advice: "Keep the name that cargo gave the library.",
            level: 4,
            scope: TestScope::Library,
            check: file_name,
        },
        Test {
            name: "file.dependencies",
            about: "It needs no library but the system's C library and its companions.",
            advice: "Link others statically, or tell users to install them.",
            level: 4,
            scope: TestScope::Library,
            check: dependencies,
        },
        Test {
            name: "file.processor",
            about: "It runs on every processor of its target, not only on the one it was built on.",
            advice: "Build without `-C target-cpu=native`.",
            level: 4,
            scope: TestScope::Library,
            check: processor,
        },
        Test {
            name: "file.unknown-hook",
            about: "It refuses to create hooks that it does not have.",
            advice: "Leave creation to `export_plugin!`.",
            level: 3,
            scope: TestScope::Library,
            check: unknown_hook,
        },
    ],
};

fn structure(subject: &Subject) -> Checked {
    // A refusal is the result here; other tests are skipped for it.
    let plugin = inspect(&subject.file).map_err(|refusal| failed(refusal.cause.to_string()))?;
    let PluginMetadata {
        name,
        version,
        api_version,
        ..
    } = &plugin.metadata;
    Ok(passed(format!(
        "{name} {version}, API {api_version}, {} bytes",
        plugin.size
    )))
}

fn compatible(subject: &Subject) -> Checked {
    let plugin = subject.inspected()?;
    let version = &plugin.metadata.api_version;
    let hooks = plugin.metadata.hooks.iter();
    let problems: Vec<String> = hooks
        .filter_map(|hook| compatibility::check_hook(hook, version).err())
        .map(|cause| cause.to_string())
        .collect();
    Ok(unless(&problems, Verdict::Failed, ""))
}

fn panics(subject: &Subject) -> Checked {
    let panic = subject.inspected()?.metadata.panic;
    if panic == "unwind" {
        return Ok(passed(""));
    }
    if panic == "none" {
        return Ok(passed("its language has no panics"));
    }
    Ok(failed(format!("it was built with `panic = \"{panic}\"`")))
}

fn opens(subject: &Subject) -> Checked {
    let plugin = subject.inspected()?;
    subject.doing("the opening of the library");
    let begin = Instant::now();
    let library = Library::open(&plugin.path).map_err(|r| failed(r.cause.to_string()))?;
    let time = begin.elapsed();
    if !library.warnings().is_empty() {
        return Ok(failed(library.warnings().join("\n")));
    }
    // While it is opened, standard output leads to standard error; both belong to this test.
    let printed = std::fs::metadata(subject.place.join("stderr.txt"));
    if printed.is_ok_and(|file| file.len() > 0) {
        return Ok(warning("it prints when it is opened"));
    }
    let facts = format!("{:.1} ms", time.as_secs_f64() * 1e3);
    if time.as_secs_f64() > 1.0 {
        return Ok(warning(facts));
    }
    Ok(passed(facts))
}

fn description(subject: &Subject) -> Checked {
    let plugin = subject.inspected()?;
    let described = subject.library()?.describe();
    let described = described.map_err(|refusal| failed(refusal.cause.to_string()))?;
    let mut known: PluginMetadata = serde_json::from_value(described)
        .map_err(|error| failed(format!("not a plugin's metadata: {error}")))?;
    // Schemas are only in the section where the plugin can't compute them.
    for (hook, in_section) in known.hooks.iter_mut().zip(&plugin.metadata.hooks) {
        if in_section.config_schema.is_null() {
            hook.config_schema = Value::Null;
        }
    }
    if known != plugin.metadata {
        return Ok(failed("the description differs from the metadata section"));
    }
    Ok(passed(format!("{} hooks", known.hooks.len())))
}

fn names(subject: &Subject) -> Checked {
    let metadata = subject.inspected()?.metadata;
    let mut problems = Vec::new();
    let hooks = metadata.hooks.iter();
    let all = [("plugin", &metadata.name, &metadata.about)].into_iter();
    for (what, name, about) in all.chain(hooks.map(|hook| ("hook", &hook.name, &hook.about))) {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let allowed = |c: char| is_plain(c) || what == "plugin" && c == '_';
        if !name.chars().all(allowed) {
            problems.push(format!("the {what} name {name:?} has other characters"));
        }
        if about.trim().is_empty() {
            problems.push(format!("the {what} `{name}` does not say what it is for"));
        }
    }
    Ok(unless(&problems, Verdict::Warning, ""))
}

fn file_name(subject: &Subject) -> Checked {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};

    let plugin = subject.inspected()?;
    let name = plugin.metadata.name.replace('-', "_");
    let expected = format!("{DLL_PREFIX}{name}{DLL_SUFFIX}");
    let found = plugin.path.file_name().unwrap_or_default();
    let found = found.to_string_lossy();
    let is_in_c = plugin.metadata.is_c();
    // Libraries in C keep the hyphens of their names.
    if found == expected || is_in_c && found.replace('-', "_") == expected {
        return Ok(passed(""));
    }
    Ok(warning(if is_in_c {
        format!("it is called `{found}`, not `{expected}` after its plugin")
    } else {
        format!("it is called `{found}`, cargo calls it `{expected}`")
    }))
}

/// Prefixes of the names of libraries available wherever Rust programs run.
const COMPANIONS: &[&str] = &[
    "libc.so",
    "libm.so",
    "libgcc_s.so",
    "ld-linux",
    "libdl.so",
    "libpthread.so",
    "librt.so",
    "libc.musl",
    "libSystem",
    "kernel32",
    "ntdll",
    "msvcrt",
    "ucrtbase",
    "vcruntime",
];

fn dependencies(subject: &Subject) -> Checked {
    let plugin = subject.inspected()?;
    let is_usual = |name: &str| COMPANIONS.iter().any(|usual| name.starts_with(usual));
    let needed = plugin.needed.iter();
    let others: Vec<String> = needed
        .filter(|name| !is_usual(name))
        .map(|name| format!("it needs `{name}`"))
        .collect();
    Ok(unless(&others, Verdict::Warning, plugin.needed.join(", ")))
}

/// Features of every processor of a 64-bit target.
const BASELINE: &[&str] = &["fxsr", "sse", "sse2", "x87", "neon", "fp", "pmuv3"];

fn processor(subject: &Subject) -> Checked {
    let mut features = subject.inspected()?.metadata.target_features;
    features.retain(|feature| !BASELINE.contains(&feature.as_str()));
    if features.is_empty() {
        return Ok(passed(""));
    }
    Ok(warning(format!("it needs {}", features.join(", "))))
}

fn unknown_hook(subject: &Subject) -> Checked {
    let plugin = subject.inspected()?;
    let Some(hook) = plugin.metadata.hooks.first() else {
        return Ok(skipped("it has no hook"));
    };
    let library = subject.library()?;
    let log = MemoryLog::default();
    let shared = BridgeState::new(&log);
    shared.register("subject-0");
    let setup = crate::validate::stage::setup("subject-0", ".", &shared);
    let mut problems = Vec::new();
    let garbage = ["", " ", "no-such-hook", &format!("{}x", hook.name)].map(str::to_owned);
    for name in garbage {
        subject.doing(format_args!("the creation of the hook {name:?}"));
        match HookInstance::create(&library, &name, "{}", &setup) {
            Ok(_) => problems.push(format!("it created a hook {name:?}")),
            Err(error) if error.is_panic() => problems.push(error.message),
            Err(_) => {}
        }
    }
    Ok(unless(&problems, Verdict::Failed, ""))
}
