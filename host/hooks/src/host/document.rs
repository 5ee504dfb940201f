//! The document that lists a loop's hooks.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use sconce_manifest::diagnostic::Diagnostic;
use sconce_manifest::{HookEntry, JsonSource, LimitsConfig, Overlay, complete_hooks, load};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::planning::HookList;

/// The hooks of a loop, as a JSON document lists them; its keys mean what they mean in a run's manifest.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HooksDocument {
    /// Reference to the JSON Schema, for editors; ignored.
    #[serde(rename = "$schema", default, skip_serializing)]
    pub schema: Option<String>,
    /// Name of the run, for hooks that write it down. Default: the file's name without its extension.
    #[serde(default)]
    pub name: String,
    /// Seed of what hooks draw.
    #[serde(default)]
    pub seed: u64,
    /// Directory in which hooks write files. Default: `runs/` and the name.
    #[serde(default)]
    pub output: PathBuf,
    /// Directories with plugins, in search order; the directories of installed plugins come after them.
    #[serde(default)]
    pub plugins: Vec<PathBuf>,
    /// The hooks. At each mount point they run by priority; those of equal priority in this order.
    #[schemars(length(max = 10_000))]
    pub hooks: Vec<HookEntry>,
    /// Time limits for plugins.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// The text, with the position of each value.
    #[serde(skip)]
    pub source: JsonSource,
}

impl HooksDocument {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// All its problems, with their places.
    pub fn from_file(path: &Path) -> Result<HooksDocument, Vec<Diagnostic>> {
        let read = load(path, &Overlay::default(), &json_schema())?;
        Ok(HooksDocument::complete(read, path))
    }

    /// Reads a text; `path` is the file that it stands for, in whose directory relative paths start.
    ///
    /// # Errors
    ///
    /// All its problems, with their places.
    pub fn from_text(text: &str, path: &Path) -> Result<HooksDocument, Vec<Diagnostic>> {
        let overlay = Overlay {
            text: Some(text.to_owned()),
            ..Overlay::default()
        };
        let read = load(path, &overlay, &json_schema())?;
        Ok(HooksDocument::complete(read, path))
    }

    fn complete((mut document, source): (HooksDocument, JsonSource), path: &Path) -> HooksDocument {
        document.source = source;
        let base = path.parent().unwrap_or(Path::new(""));
        if document.name.is_empty() {
            let stem = path.file_stem().map(|stem| stem.to_string_lossy());
            document.name = stem.map_or_else(|| "run".to_owned(), std::borrow::Cow::into_owned);
        }
        if document.output.as_os_str().is_empty() {
            document.output = Path::new("runs").join(&document.name);
        }
        document.output = base.join(&document.output);
        for directory in &mut document.plugins {
            *directory = base.join(&*directory);
        }
        complete_hooks(&mut document.hooks, base);
        document
    }

    /// What planning the hooks takes.
    pub(super) fn hook_list(&self) -> HookList<'_> {
        HookList {
            entries: &self.hooks,
            plugins: &self.plugins,
            limits: &self.limits,
            source: &self.source,
        }
    }
}

/// The document's JSON Schema.
pub fn json_schema() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let generator = settings.into_generator();
    generator.into_root_schema_for::<HooksDocument>().to_value()
}
