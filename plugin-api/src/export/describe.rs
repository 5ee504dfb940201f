//! Describing a plugin: its metadata with the configuration schema of each hook.

use abi_stable::std_types::RString;
use serde_json::Value;

use super::Kind;
use crate::abi::ErrorAbi;
use crate::fence::fence;
use crate::metadata::PluginMetadata;
use crate::{Context, Result};

/// Implementation of a plugin's `describe` entry point.
///
/// # Safety
///
/// All pointers must be valid for the call, as documented at
/// [`PluginRoot::describe`](crate::abi::PluginRoot).
#[doc(hidden)]
pub unsafe fn describe(
    metadata: &str,
    kinds: &[Kind],
    description: *mut RString,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the caller guarantees that all pointers are valid for the call.
    unsafe {
        fence(error, || {
            let text = description_of(metadata, kinds)?;
            if let Some(description) = description.as_mut() {
                *description = RString::from(text);
            }
            Ok(())
        })
    }
}

fn description_of(metadata: &str, kinds: &[Kind]) -> Result<String> {
    // Deserialised only as a check: hosts must be able to read the section's content.
    serde_json::from_str::<PluginMetadata>(metadata).context("the metadata is damaged")?;
    let mut plugin: Value = serde_json::from_str(metadata)?;
    let mut hooks = Vec::new();
    for kind in kinds {
        let mut hook: Value = serde_json::from_str(kind.metadata)?;
        if let Some(hook) = hook.as_object_mut() {
            hook.insert("config_schema".to_owned(), (kind.schema)());
        }
        hooks.push(hook);
    }
    if let Some(plugin) = plugin.as_object_mut() {
        plugin.insert("hooks".to_owned(), Value::Array(hooks));
    }
    Ok(serde_json::to_string(&plugin)?)
}
