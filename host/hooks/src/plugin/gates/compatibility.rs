//! Checks from its metadata whether a plugin is compatible with this host and this machine.

use sconce_plugin_api::abi::{ABI_EPOCH, API_VERSION};
use sconce_plugin_api::metadata::{HookMetadata, PluginMetadata};

use super::refusal::Cause;
use crate::bridge::EXTENSIONS;
use crate::version::HOST_VERSION;

/// Checks what concerns the plugin as a whole: its ABI epoch, API version and processor features.
pub(in crate::plugin) fn check(metadata: &PluginMetadata) -> Result<(), Cause> {
    if metadata.abi_epoch != ABI_EPOCH {
        return Err(Cause::AbiEpoch {
            host: ABI_EPOCH,
            plugin: metadata.abi_epoch,
        });
    }
    if major(&metadata.api_version) != major(API_VERSION) {
        return Err(Cause::ApiVersion {
            host: API_VERSION.to_owned(),
            plugin: metadata.api_version.clone(),
        });
    }
    let missing: Vec<&str> = metadata
        .target_features
        .iter()
        .map(String::as_str)
        .filter(|feature| is_missing(feature))
        .collect();
    if !missing.is_empty() {
        return Err(Cause::Features(missing.join(", ")));
    }
    Ok(())
}

/// Checks that this host has the extensions that a hook requires. Its plugin was built for the API of
/// `api_version`.
pub fn check_hook(hook: &HookMetadata, api_version: &str) -> Result<(), Cause> {
    let lacking = hook
        .requires
        .iter()
        .find(|extension| !EXTENSIONS.contains(&extension.as_str()));
    match lacking {
        None => Ok(()),
        Some(extension) => Err(Cause::Extension {
            hook: hook.name.clone(),
            extension: extension.clone(),
            plugin: api_version.to_owned(),
            host: HOST_VERSION,
        }),
    }
}

fn major(version: &str) -> &str {
    version.split('.').next().unwrap_or_default()
}

/// Whether this processor is known to lack a feature. Unknown feature names are ignored.
#[cfg(target_arch = "x86_64")]
fn is_missing(feature: &str) -> bool {
    macro_rules! missing {
        ($($name:tt),*) => {
            match feature {
                $($name => !std::arch::is_x86_feature_detected!($name),)*
                _ => false,
            }
        };
    }
    missing!(
        "sse3",
        "ssse3",
        "sse4.1",
        "sse4.2",
        "popcnt",
        "avx",
        "avx2",
        "fma",
        "f16c",
        "bmi1",
        "bmi2",
        "lzcnt",
        "movbe",
        "aes",
        "sha",
        "avx512f",
        "avx512bw",
        "avx512cd",
        "avx512dq",
        "avx512vl",
        "avx512vnni",
        "avx512bf16"
    )
}

#[cfg(not(target_arch = "x86_64"))]
fn is_missing(_feature: &str) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> PluginMetadata {
        PluginMetadata {
            name: "p".to_owned(),
            version: "1".to_owned(),
            about: String::new(),
            abi_epoch: ABI_EPOCH,
            api_version: API_VERSION.to_owned(),
            rustc: String::new(),
            target: String::new(),
            language: None,
            panic: "unwind".to_owned(),
            target_features: vec!["sse2".to_owned(), "made-up".to_owned()],
            hooks: Vec::new(),
            transports: Vec::new(),
        }
    }

    #[test]
    fn newer_minors_fit_and_other_majors_and_epochs_do_not() {
        assert_eq!(check(&metadata()), Ok(()));
        let mut newer = metadata();
        newer.api_version = "1.99.0".to_owned();
        assert_eq!(check(&newer), Ok(()));
        newer.api_version = "2.0.0".to_owned();
        assert!(matches!(check(&newer), Err(Cause::ApiVersion { .. })));
        let mut epoch = metadata();
        epoch.abi_epoch += 1;
        assert!(matches!(check(&epoch), Err(Cause::AbiEpoch { .. })));
    }

    #[test]
    fn a_required_extension_must_be_there() {
        let mut hook = HookMetadata {
            name: "h".to_owned(),
            about: String::new(),
            priority: 30,
            points: Vec::new(),
            requires: vec!["sconce.metrics/1".to_owned()],
            asks: None,
            reads: None,
            optional: Vec::new(),
            config_schema: serde_json::Value::Null,
            publishes: Vec::new(),
            ranks: sconce_plugin_api::metadata::HookRanks::First,
        };
        assert_eq!(check_hook(&hook, "1.0.0"), Ok(()));
        hook.requires.push("sconce.time-travel/1".to_owned());
        assert!(matches!(
            check_hook(&hook, "1.0.0"),
            Err(Cause::Extension { .. })
        ));
    }
}
