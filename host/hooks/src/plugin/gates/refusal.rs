//! Reasons for refusing a plugin, with all their messages.

use std::path::{Path, PathBuf};

use super::structure::StructureFault;
use super::trial_fault::Fault;
use super::trust::{self, SignatureState};
use sconce_manifest::diagnostic::Diagnostic;
use sconce_manifest::printable;

/// A plugin's file and the reason for its refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginRefusal {
    /// Path of the file, as the user wrote it or as found in a directory.
    pub path: PathBuf,
    /// The reason.
    pub cause: Cause,
}

/// What is wrong with a plugin's file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// It can't be read.
    #[error("it can't be read: {0}")]
    Read(String),
    /// It is not a regular file.
    #[error("it is {0}, not a file")]
    NotAFile(&'static str),
    /// It is larger than any library.
    #[error("it has {size} bytes, and a plugin's library at most {largest} (1 GiB)")]
    TooLarge {
        /// Size of the file in bytes.
        size: u64,
        /// Maximum size in bytes.
        largest: u64,
    },
    /// It is not an intact shared library for this machine.
    #[error("{0}")]
    Structure(StructureFault),
    /// It has no metadata section.
    #[error("it is a shared library, but no Sconce plugin")]
    NoMetadata,
    /// Its metadata can't be read.
    #[error("its metadata is damaged: {0}")]
    Metadata(String),
    /// The text of its metadata is not the JSON that it must be.
    #[error("its metadata is damaged: {problem}, in `{excerpt}`")]
    MetadataText {
        /// What is wrong, with line and column.
        problem: String,
        /// The text around it.
        excerpt: String,
    },
    /// It has a different ABI epoch.
    #[error("it speaks another ABI: epoch {plugin}, this host speaks epoch {host}")]
    AbiEpoch {
        /// Epoch of the host.
        host: u32,
        /// Epoch of the plugin.
        plugin: u32,
    },
    /// It was built with another major version of the API.
    #[error(
        "it was built with sconce-plugin-api {plugin}, this host with {host}: another major version"
    )]
    ApiVersion {
        /// Version of the host's API.
        host: String,
        /// Version of the API that the plugin was built with.
        plugin: String,
    },
    /// It was compiled for processor features that this machine lacks.
    #[error("it needs the processor features {0}, which this machine lacks")]
    Features(String),
    /// One of its hooks requires an extension that this host lacks.
    #[error(
        "its hook `{hook}` requires the extension `{extension}`, which this host ({host}, built \
         with sconce-plugin-api {api}) lacks; the plugin was built with sconce-plugin-api {plugin}",
        api = sconce_plugin_api::abi::API_VERSION
    )]
    Extension {
        /// Name of the hook.
        hook: String,
        /// Name of the extension.
        extension: String,
        /// The version of the API that the plugin was built for.
        plugin: String,
        /// Name and version of the host.
        host: &'static str,
    },
    /// One of its hooks works on the device itself and is to run in a process of its own.
    #[error(
        "its hook `{0}` requires `sconce.device/1`, the addresses of a device's memory, which don't cross to a process of \
         its own: take `\"isolation\"` out of its entry"
    )]
    NotApart(String),
    /// It, or its signature, differs from what a trusted key signed.
    #[error("it is altered: {0}")]
    Altered(String),
    /// No trusted key has signed it, and the user wants one.
    #[error("it is {0}, and `trust.json` refuses what no trusted key has signed")]
    Untrusted(SignatureState),
    /// The key that the manifest names has not signed it.
    #[error("it is {found}, and the manifest wants it signed by `{wanted}`")]
    Signer {
        /// Name of the key in the manifest.
        wanted: String,
        /// Who has signed it.
        found: SignatureState,
    },
    /// It has libraries loaded that no signature covers, where one is demanded.
    #[error(
        "it has other libraries loaded from outside of the system's directories, by {}, where no signature covers them",
        listed(.0)
    )]
    Dependencies(Vec<String>),
    /// Libraries have come into this process with it that no signature covers, where one is demanded.
    #[error(
        "it has loaded what no signature covers: {}; its code has run in this process by now",
        listed(.0)
    )]
    Companions(Vec<String>),
    /// The trusted keys can't be read.
    #[error("the trusted keys can't be read: {0}")]
    TrustStore(String),
    /// Its bytes do not match the SHA-256 pinned in the manifest.
    #[error(
        "its bytes are not those that the manifest pins\n  pinned: {pinned}\n  found:  {found}"
    )]
    Fingerprint {
        /// SHA-256 in the manifest.
        pinned: String,
        /// SHA-256 of the file.
        found: String,
    },
    /// Its bytes have changed since they were inspected.
    #[error("it was changed while it was looked at")]
    Changed,
    /// Opening it in another process failed.
    #[error("{0}")]
    Trial(Fault),
    /// It was refused in a process of its own.
    #[error("{0}")]
    Isolated(String),
    /// The system can't open it.
    #[error("the system can't open it: {0}")]
    Open(String),
    /// It has metadata, but not the root module that goes with it.
    #[error("it has no root module: its metadata is there, but nothing behind it")]
    NoRoot,
    /// It was built with an incompatible version of `abi_stable`.
    #[error("it was built with abi_stable {plugin}, this host with 0.11")]
    AbiStable {
        /// Version of `abi_stable` in the plugin.
        plugin: String,
    },
    /// Its root module lacks a description of its types.
    #[error("its root module comes without a description of its types")]
    LayoutMissing,
    /// Its types have a different layout.
    #[error("its types are laid out in another way than this host's\n{details}")]
    Layout {
        /// Version of the host's API.
        host: String,
        /// Version of the plugin's API.
        plugin: String,
        /// Description of the difference.
        details: String,
    },
    /// Its root module failed to load.
    #[error("its root module failed: {0}")]
    Root(String),
    /// The entry function of a plugin in C returned none that this host can use.
    #[error("its function `{entry}` returned {0}", entry = sconce_plugin_api::ext::C_ENTRY)]
    Entry(&'static str),
    /// Its description failed.
    #[error("it failed to describe itself: {0}")]
    Describe(String),
}

/// Names in a list, for messages; they come from the file.
fn listed(names: &[String]) -> String {
    let names = names
        .iter()
        .map(|name| format!("`{}`", printable::one_line(name)));
    names.collect::<Vec<_>>().join(", ")
}

impl Cause {
    /// The gate that refuses it.
    fn gate(&self) -> &'static str {
        match self {
            Cause::Read(_) | Cause::NotAFile(_) | Cause::TooLarge { .. } => "path",
            Cause::Structure(_) => "structure",
            Cause::NoMetadata | Cause::Metadata(_) | Cause::MetadataText { .. } => "metadata",
            Cause::AbiEpoch { .. }
            | Cause::ApiVersion { .. }
            | Cause::Features(_)
            | Cause::Extension { .. }
            | Cause::NotApart(_) => "compatibility",
            Cause::Altered(_)
            | Cause::Untrusted(_)
            | Cause::Dependencies(_)
            | Cause::Companions(_)
            | Cause::Signer { .. }
            | Cause::TrustStore(_) => "signature",
            Cause::Fingerprint { .. } | Cause::Changed => "fingerprint",
            Cause::Trial(_) | Cause::Isolated(_) => "trial load",
            Cause::Open(_) => "open",
            Cause::NoRoot
            | Cause::AbiStable { .. }
            | Cause::LayoutMissing
            | Cause::Layout { .. }
            | Cause::Root(_)
            | Cause::Entry(_)
            | Cause::Describe(_) => "layout",
        }
    }

    /// A remedy, if there is one.
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Cause::Structure(fault) => fault.hint(),
            Cause::TooLarge { .. } => {
                "build or copy the file again; data as large as that belongs in files of its own"
            }
            Cause::NoMetadata => {
                "a plugin calls `export_plugin!(…)` of sconce-plugin-api in its crate, or in C the macro \
                 `SCONCE_PLUGIN(…)` of sconce.h"
            }
            Cause::MetadataText { .. } => {
                "in C, points, metrics and hooks are separated by \",\", and a SCONCE_ name that sconce.h does not \
                 define stays in the text as it is"
            }
            Cause::NoRoot => {
                "in Rust, `export_plugin!(…)` exports it; in C, define `sconce_c_plugin_v1`, and keep it visible in \
                 the library"
            }
            Cause::AbiEpoch { host, plugin } if plugin > host => "update this host",
            Cause::AbiEpoch { .. } | Cause::ApiVersion { .. } | Cause::Layout { .. } => {
                "rebuild the plugin with this host's version of sconce-plugin-api, or in C with the header that \
                 `sconce header` prints"
            }
            Cause::AbiStable { .. } => "rebuild the plugin with abi_stable 0.11",
            Cause::Extension { .. } => "update this host",
            Cause::Changed => "start again, once nothing writes to the file any more",
            Cause::Trial(fault) => return Some(fault.hint()),
            Cause::Altered(_) => {
                "get library and signature again from who made them; do not load this one"
            }
            Cause::Untrusted(_) => {
                "if you trust who made it, add the key by `sconce trust add NAME KEY`; for plugins of your own, name \
                 their directory under `except` in trust.json"
            }
            Cause::Dependencies(_) | Cause::Companions(_) => {
                "link them into the plugin, install them where the system looks for libraries, or, if they are your own, name \
                 the plugin's directory under `except` in trust.json"
            }
            Cause::Signer { wanted, .. } => return Some(trust::how_to_trust(wanted)),
            Cause::TrustStore(_) => {
                "`sconce trust list` shows where the file is and what is wrong in it"
            }
            Cause::Features(_) => "rebuild it without `-C target-cpu=native`",
            Cause::Fingerprint { found, .. } => {
                return Some(format!(
                    "if you trust the new file, write `\"sha256\": \"{found}\"`"
                ));
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl PluginRefusal {
    /// The refusal of the file at `path`.
    pub fn new(path: &Path, cause: Cause) -> PluginRefusal {
        PluginRefusal {
            path: path.to_owned(),
            cause,
        }
    }

    /// Formats the refusal in one line, for lists.
    pub fn line(&self) -> String {
        let cause = self.cause.to_string();
        let first = cause.lines().next().unwrap_or_default();
        format!("`{}`: {first}", self.path.display())
    }

    /// What to do where the signature was the reason.
    pub(in crate::plugin) fn signature_hint(&self) -> Option<String> {
        let is_signature = self.cause.gate() == "signature";
        is_signature.then(|| self.cause.hint()).flatten()
    }

    /// The refusal as an error message.
    pub fn diagnostic(&self) -> Diagnostic {
        let mut diagnostic = Diagnostic::new(format!(
            "the plugin `{}` is refused: {}",
            self.path.display(),
            self.cause
        ))
        .note(format!("gate: {}", self.cause.gate()));
        if let Ok(absolute) = std::path::absolute(&self.path)
            && absolute != self.path
        {
            diagnostic = diagnostic.note(format!("file: {}", absolute.display()));
        }
        if let Cause::Layout { host, plugin, .. } = &self.cause {
            diagnostic = diagnostic.note(format!("API: host {host}, plugin {plugin}"));
        }
        match self.cause.hint() {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        }
    }
}
