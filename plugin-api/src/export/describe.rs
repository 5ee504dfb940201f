//! Describing a plugin in full: its metadata with each hook's configuration schema.

use abi_stable::std_types::RString;
use serde_json::Value;

use super::Kind;
use super::fence::fence;
use crate::abi::ErrorAbi;
use crate::metadata::PluginMetadata;
use crate::{Context, Result};

/// The body of a plugin's `describe` entry.
///
/// # Safety
///
/// All pointers must be valid for the call, as [`PluginRoot::describe`](crate::abi::PluginRoot)
/// says.
#[doc(hidden)]
pub unsafe fn describe(
    metadata: &str,
    kinds: &[Kind],
    description: *mut RString,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the caller's promise.
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
    // Read as the type first: what the section holds must be what hosts can read.
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
