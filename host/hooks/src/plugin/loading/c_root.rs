//! What a library in C or C++ exports: the plugin that its function [`C_ENTRY`] returns.
//!
//! A plugin in Rust checks the kind and the configuration of a hook before the author's code sees them; in C the host
//! does so, with the names and schemas of the metadata section.

use std::collections::BTreeMap;
use std::path::Path;

use sconce_plugin_api::abi::{ABI_EPOCH, ErrorAbi, HookAbi, HostRoot, SetupAbi, Status, TextAbi};
use sconce_plugin_api::ext::{C_ENTRY, CPlugin};
use sconce_plugin_api::metadata::PluginMetadata;
use serde_json::Value;

use super::entries::{CreateEntry, DescribeEntry, QueryEntry, open_now};
use super::entry_error::EntryError;
use crate::bridge;
use crate::plugin::gates::section;
use crate::plugin::refusal::Cause;
use sconce_base::nearest::nearest;
use sconce_manifest::schema_check::Checker;

/// A checked plugin in C.
pub(super) struct CRoot {
    pub(super) describe: Option<DescribeEntry>,
    pub(super) create: CreateEntry,
    pub(super) query: Option<QueryEntry>,
    /// The description for a plugin without `describe`: its metadata, with a schema for each hook.
    pub(super) description: Value,
    /// The checks of configurations, by hook kind.
    checks: BTreeMap<String, Checker>,
}

impl CRoot {
    /// The plugin of the open library at `path`; none if it does not export [`C_ENTRY`].
    pub(super) fn of(path: &Path) -> Option<Result<CRoot, Cause>> {
        type Entry = unsafe extern "C" fn(*const HostRoot) -> *const CPlugin;
        // SAFETY: the library is open, so that this runs no constructors.
        let library = unsafe { open_now(path) }.ok()?;
        // SAFETY: what is exported under this name is that function, by the contract of `sconce.h`.
        let entry = unsafe { library.get::<Entry>(C_ENTRY.as_bytes()) };
        let entry: Entry = *entry.ok()?;
        std::mem::forget(library);
        // SAFETY: as above; the host's root lives as long as the process, and so does the plugin.
        let plugin = unsafe { entry(bridge::root()).as_ref() };
        Some(CRoot::new(path, plugin))
    }

    fn new(path: &Path, plugin: Option<&CPlugin>) -> Result<CRoot, Cause> {
        let plugin = plugin.ok_or(Cause::Entry("null: it does not work with this host"))?;
        if plugin.abi_epoch != ABI_EPOCH {
            return Err(Cause::AbiEpoch {
                host: ABI_EPOCH,
                plugin: plugin.abi_epoch,
            });
        }
        let metadata = || {
            let bytes = std::fs::read(path).map_err(|error| Cause::Read(error.to_string()))?;
            section::read(&bytes)
        };
        let create = match plugin.create {
            Some(create) => create,
            None if metadata().is_ok_and(|metadata| metadata.hooks.is_empty()) => no_hooks,
            None => return Err(Cause::Entry("a plugin without `create`")),
        };
        let metadata = metadata()?;
        let description =
            described(&metadata).map_err(|error| Cause::Describe(error.to_string()))?;
        let checks = metadata.hooks.iter().map(|hook| {
            let check = Checker::new(&schema_or_true(&hook.config_schema));
            (hook.name.clone(), check)
        });
        Ok(CRoot {
            describe: plugin.describe,
            create,
            query: plugin.query,
            description,
            checks: checks.collect(),
        })
    }

    /// Checks that there is a hook of this kind, and its configuration by its schema.
    pub(super) fn check_creation(&self, kind: &str, config: &str) -> Result<(), EntryError> {
        let refuse = |status: Status, message| EntryError {
            status: status.0,
            message,
            place: String::new(),
        };
        let Some(check) = self.checks.get(kind) else {
            let near = nearest(kind, self.checks.keys().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            let message = format!("the plugin has no hook `{kind}`{near}");
            return Err(refuse(Status::NO_SUCH_KIND, message));
        };
        let config: Value = serde_json::from_str(config)
            .map_err(|error| refuse(Status::CONFIG, format!(": it is not valid JSON: {error}")))?;
        if !config.is_object() {
            let message = ": it is not a JSON object".to_owned();
            return Err(refuse(Status::CONFIG, message));
        }
        // Errors of this status have the form "`path`: message", by the plugin API's contract.
        match check.check(&config).first() {
            None => Ok(()),
            Some(problem) => Err(refuse(
                Status::CONFIG,
                format!("`{}`: {}", problem.path, problem.message),
            )),
        }
    }
}

/// `create` of a plugin that has transports alone.
unsafe extern "C" fn no_hooks(
    _kind: TextAbi,
    _config: TextAbi,
    _setup: *const SetupAbi,
    _hook: *mut HookAbi,
    _error: *mut ErrorAbi,
) -> u32 {
    Status::NO_SUCH_KIND.0
}

/// The description made of a plugin's metadata, in which each hook has a schema.
fn described(metadata: &PluginMetadata) -> Result<Value, serde_json::Error> {
    let mut metadata = metadata.clone();
    for hook in &mut metadata.hooks {
        hook.config_schema = schema_or_true(&hook.config_schema);
    }
    serde_json::to_value(metadata)
}

/// The schema of a hook; where it has none, everything passes, and the hook checks its configuration itself.
fn schema_or_true(schema: &Value) -> Value {
    match schema {
        Value::Null => Value::Bool(true),
        schema => schema.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    unsafe extern "C" fn create(
        _kind: sconce_plugin_api::abi::TextAbi,
        _config: sconce_plugin_api::abi::TextAbi,
        _setup: *const sconce_plugin_api::abi::SetupAbi,
        _hook: *mut sconce_plugin_api::abi::HookAbi,
        _error: *mut sconce_plugin_api::abi::ErrorAbi,
    ) -> u32 {
        Status::ERROR.0
    }

    #[test]
    fn kinds_and_configurations_are_checked_before_the_plugin_sees_them() {
        let schema = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {"max_norm": {"type": "number", "exclusiveMinimum": 0}}
        });
        let root = CRoot {
            describe: None,
            create,
            query: None,
            description: Value::Null,
            checks: BTreeMap::from([
                ("clip".to_owned(), Checker::new(&schema)),
                (
                    "free".to_owned(),
                    Checker::new(&schema_or_true(&Value::Null)),
                ),
            ]),
        };
        assert_eq!(root.check_creation("clip", r#"{"max_norm": 2}"#), Ok(()));
        assert_eq!(root.check_creation("free", r#"{"any": []}"#), Ok(()));
        for (kind, config, status, words) in [
            ("clap", "{}", Status::NO_SUCH_KIND, "did you mean `clip`?"),
            ("clip", "{", Status::CONFIG, "not valid JSON"),
            ("free", "[]", Status::CONFIG, "not a JSON object"),
            ("clip", r#"{"max_norm": 0}"#, Status::CONFIG, "`max_norm`: "),
            ("clip", r#"{"max_nrm": 1}"#, Status::CONFIG, "`max_nrm`: "),
        ] {
            let error = root.check_creation(kind, config).expect_err(config);
            assert_eq!(error.status, status.0, "{config}");
            assert!(error.message.contains(words), "{}", error.message);
        }
    }

    #[test]
    fn what_is_not_a_plugin_is_refused() {
        let plugin = CPlugin {
            abi_epoch: ABI_EPOCH,
            describe: None,
            create: None,
            query: None,
        };
        let cause = |plugin| CRoot::new(Path::new("nowhere"), plugin).err();
        assert!(matches!(cause(None), Some(Cause::Entry(what)) if what.starts_with("null")));
        assert!(
            matches!(cause(Some(&plugin)), Some(Cause::Entry(what)) if what.contains("create"))
        );
        let other = CPlugin {
            abi_epoch: ABI_EPOCH + 1,
            ..plugin
        };
        assert!(matches!(cause(Some(&other)), Some(Cause::AbiEpoch { .. })));
    }
}
