//! Why a plugin is refused: every sentence of this part.

use std::path::{Path, PathBuf};

use super::structure::StructureFault;
use super::trial_fault::Fault;
use crate::diagnostic::Diagnostic;

/// A plugin's file and why it is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The file, as the user wrote its path or as a directory was searched.
    pub path: PathBuf,
    /// Why.
    pub cause: Cause,
}

/// What is wrong with a plugin's file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// It can't be read.
    #[error("it can't be read: {0}")]
    Read(String),
    /// It is no regular file.
    #[error("it is {0}, not a file")]
    NotAFile(&'static str),
    /// It is larger than any library.
    #[error("it has {size} bytes, and a plugin's library at most {largest} (1 GiB)")]
    TooLarge {
        /// Its size.
        size: u64,
        /// The size of the largest that is taken.
        largest: u64,
    },
    /// It is no whole shared library for this machine.
    #[error("{0}")]
    Structure(StructureFault),
    /// It has no metadata section.
    #[error("it is a shared library, but no Sconce plugin")]
    NoMetadata,
    /// Its metadata can't be read.
    #[error("its metadata is damaged: {0}")]
    Metadata(String),
    /// It has another ABI epoch.
    #[error("it speaks another ABI: epoch {plugin}, this host speaks epoch {host}")]
    AbiEpoch {
        /// The host's.
        host: u32,
        /// The plugin's.
        plugin: u32,
    },
    /// It was built with another major version of the API.
    #[error(
        "it was built with sconce-plugin-api {plugin}, this host with {host}: another major version"
    )]
    ApiVersion {
        /// The host's.
        host: String,
        /// The plugin's.
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
        /// The hook.
        hook: String,
        /// The extension.
        extension: String,
        /// The version of the API that the plugin was built for.
        plugin: String,
        /// The host's name and version.
        host: &'static str,
    },
    /// Its bytes are not those that the manifest pins.
    #[error(
        "its bytes are not those that the manifest pins\n  pinned: {pinned}\n  found:  {found}"
    )]
    Fingerprint {
        /// The manifest's.
        pinned: String,
        /// The file's.
        found: String,
    },
    /// Its bytes are no more those that were looked at.
    #[error("it was changed while it was looked at")]
    Changed,
    /// Opening it in another process did not go well.
    #[error("{0}")]
    Trial(Fault),
    /// The system can't open it.
    #[error("the system can't open it: {0}")]
    Open(String),
    /// It has metadata, but not what they promise.
    #[error("it has no root module: its metadata is there, but nothing behind it")]
    NoRoot,
    /// It was built with an incompatible version of `abi_stable`.
    #[error("it was built with abi_stable {plugin}, this host with 0.11")]
    AbiStable {
        /// The plugin's version.
        plugin: String,
    },
    /// Its root module comes without a description of its types.
    #[error("its root module comes without a description of its types")]
    LayoutMissing,
    /// Its types have another layout.
    #[error("its types are laid out in another way than this host's\n{details}")]
    Layout {
        /// The host's version of the API.
        host: String,
        /// The plugin's.
        plugin: String,
        /// What differs.
        details: String,
    },
    /// Its root module failed.
    #[error("its root module failed: {0}")]
    Root(String),
    /// It failed to describe itself.
    #[error("it failed to describe itself: {0}")]
    Describe(String),
}

impl Cause {
    /// The gate that refuses it.
    fn gate(&self) -> &'static str {
        match self {
            Cause::Read(_) | Cause::NotAFile(_) | Cause::TooLarge { .. } => "path",
            Cause::Structure(_) => "structure",
            Cause::NoMetadata | Cause::Metadata(_) => "metadata",
            Cause::AbiEpoch { .. }
            | Cause::ApiVersion { .. }
            | Cause::Features(_)
            | Cause::Extension { .. } => "compatibility",
            Cause::Fingerprint { .. } | Cause::Changed => "fingerprint",
            Cause::Trial(_) => "trial load",
            Cause::Open(_) => "open",
            Cause::NoRoot
            | Cause::AbiStable { .. }
            | Cause::LayoutMissing
            | Cause::Layout { .. }
            | Cause::Root(_)
            | Cause::Describe(_) => "layout",
        }
    }

    /// What to do about it.
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Cause::Structure(fault) => fault.hint(),
            Cause::TooLarge { .. } => {
                "build or copy the file again; data as large as that belongs into files of its own"
            }
            Cause::NoMetadata => {
                "a plugin calls `export_plugin!(…)` of sconce-plugin-api in its crate"
            }
            Cause::AbiEpoch { host, plugin } if plugin > host => "update this host",
            Cause::AbiEpoch { .. } | Cause::ApiVersion { .. } | Cause::Layout { .. } => {
                "rebuild the plugin with this host's version of sconce-plugin-api"
            }
            Cause::AbiStable { .. } => "rebuild the plugin with abi_stable 0.11",
            Cause::Extension { .. } => "update this host",
            Cause::Changed => "start again, once nobody writes to the file any more",
            Cause::Trial(fault) => return Some(fault.hint()),
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

impl Refusal {
    /// A refusal of the file at `path`.
    pub fn new(path: &Path, cause: Cause) -> Refusal {
        Refusal {
            path: path.to_owned(),
            cause,
        }
    }

    /// In one line, for lists.
    pub fn line(&self) -> String {
        let cause = self.cause.to_string();
        let first = cause.lines().next().unwrap_or_default();
        format!("`{}`: {first}", self.path.display())
    }

    /// As a message for people.
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
