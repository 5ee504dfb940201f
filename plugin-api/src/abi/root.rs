//! The root structure that a plugin's library exports.
#![expect(
    clippy::expl_impl_clone_on_copy,
    reason = "abi_stable's derive writes it for the reference to the prefix type"
)]

use std::ffi::c_void;

use abi_stable::StableAbi;
use abi_stable::library::RootModule;
use abi_stable::package_version_strings;
use abi_stable::sabi_types::VersionStrings;
use abi_stable::std_types::RString;

use super::{ErrorAbi, HookAbi, SetupAbi, TextAbi};

/// The root structure that a plugin's library exports. Frozen.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginRootRef, prefix_fields = PluginRootFields)))]
pub struct PluginRoot {
    /// [`ABI_EPOCH`](super::ABI_EPOCH) that the plugin was built with.
    pub abi_epoch: u32,
    /// Writes the plugin's description as JSON.
    ///
    /// It is the content of the metadata section with, for each hook kind, the JSON Schema of its
    /// configuration under `config_schema`.
    pub describe: unsafe extern "C" fn(description: *mut RString, error: *mut ErrorAbi) -> u32,
    /// Creates a hook of kind `kind` from its configuration (JSON text) in `hook`.
    pub create: unsafe extern "C" fn(
        kind: TextAbi,
        config: TextAbi,
        setup: *const SetupAbi,
        hook: *mut HookAbi,
        error: *mut ErrorAbi,
    ) -> u32,
    /// The plugin's table for an extension, or null if it has none.
    #[sabi(last_prefix_field)]
    pub query: unsafe extern "C" fn(extension: TextAbi) -> *const c_void,
}

impl RootModule for PluginRootRef {
    abi_stable::declare_root_module_statics! {PluginRootRef}
    const BASE_NAME: &'static str = "sconce_plugin";
    const NAME: &'static str = "sconce_plugin";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}
