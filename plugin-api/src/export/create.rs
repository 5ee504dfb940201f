//! Creating hooks: from a kind's name and a JSON configuration to an instance.

use std::ffi::c_void;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::fence::{Refused, fence_with, keep_panics_of_this_thread};
use super::table::{Instance, TableOf};
use crate::abi::{ErrorAbi, HookAbi, SetupAbi, Status, TextAbi};
use crate::ext::Tables;
use crate::{Error, HookKind, Setup};

/// A hook kind with its type erased: an entry of a plugin's list.
#[doc(hidden)]
pub struct Kind {
    pub(super) name: &'static str,
    pub(super) metadata: &'static str,
    pub(super) schema: fn() -> Value,
    create: Create,
}

#[cfg(feature = "testing")]
impl Kind {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn metadata(&self) -> &'static str {
        self.metadata
    }

    pub(crate) fn schema(&self) -> Value {
        (self.schema)()
    }
}

/// Creates a hook of one type.
type Create = fn(config: &str, setup: &SetupAbi) -> Result<HookAbi, Refused>;

/// The list's entry for a hook type.
#[doc(hidden)]
pub const fn kind<H: HookKind>() -> Kind {
    Kind {
        name: H::NAME,
        metadata: H::METADATA,
        schema: schema::<H>,
        create: create::<H>,
    }
}

/// The JSON Schema of a configuration, without references, so that hosts find each key's place.
fn schema<H: HookKind>() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings
        .into_generator()
        .into_root_schema_for::<H::Config>()
        .to_value()
}

/// The body of a plugin's `create` entry.
///
/// # Safety
///
/// All pointers must be valid for the call, as [`PluginRoot::create`](crate::abi::PluginRoot)
/// says.
#[doc(hidden)]
pub unsafe fn create_from(
    kinds: &[Kind],
    name: TextAbi,
    config: TextAbi,
    setup: *const SetupAbi,
    hook: *mut HookAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        fence_with(error, || {
            keep_panics_of_this_thread();
            let (Some(name), Some(config), Some(setup), Some(hook)) =
                (name.read(), config.read(), setup.as_ref(), hook.as_mut())
            else {
                return Err(Error::new("the host's arguments are not valid").into());
            };
            let kind = kinds
                .iter()
                .find(|kind| kind.name == name)
                .ok_or_else(|| no_such_kind(kinds, name))?;
            *hook = (kind.create)(config, setup)?;
            Ok(())
        })
    }
}

fn no_such_kind(kinds: &[Kind], name: &str) -> Refused {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
    Refused {
        status: Status::NO_SUCH_KIND,
        error: Error::new(format_args!(
            "no hook `{name}` here, this plugin has: {}",
            names.join(", ")
        )),
    }
}

fn create<H: HookKind>(config: &str, setup: &SetupAbi) -> Result<HookAbi, Refused> {
    // SAFETY: the host lends a setup whose root lives as long as the process.
    let host = unsafe { setup.host.as_ref() }
        .ok_or_else(|| Error::new("the host gave no table of its own"))?;
    let tables = Tables::query(host);
    let config = read_config::<H>(config)?;
    let hook = H::new(config, &Setup::new(setup, &tables))?;
    let instance = Box::into_raw(Box::new(Instance { hook, tables }));
    Ok(HookAbi {
        instance: instance.cast::<c_void>(),
        table: TableOf::<H>::TABLE,
    })
}

/// Reads the configuration; the error begins with its path inside the configuration, in backticks,
/// and a colon, or with the colon alone where it concerns the whole.
fn read_config<H: HookKind>(config: &str) -> Result<H::Config, Refused> {
    let mut json = serde_json::Deserializer::from_str(config);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        // The text is the host's: its lines and columns mean nothing to the user.
        let message = message
            .rsplit_once(" at line ")
            .map_or(message.as_str(), |(message, _)| message);
        let path = if path == "." {
            String::new()
        } else {
            format!("`{path}`")
        };
        Refused {
            status: Status::CONFIG,
            error: Error::new(format_args!("{path}: {message}")),
        }
    })
}
