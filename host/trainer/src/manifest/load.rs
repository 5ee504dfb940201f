//! Loads a run's manifest, and fills in what is left out.

use std::path::Path;

use sconce_manifest::{complete_hooks, diagnostic::Diagnostic};

use super::{AdaptConfig, Manifest, Overlay, TaskSource, json_schema};

/// Reads and checks a manifest with its overlay applied. Relative paths are resolved against the manifest's
/// own directory, wherever they were written.
///
/// # Errors
///
/// For invalid JSON, the first syntax error; otherwise all problems at once.
pub fn load(
    path: &Path,
    overlay: &Overlay,
    tasks: TaskSource,
) -> Result<Manifest, Vec<Diagnostic>> {
    let (mut manifest, source): (Manifest, _) =
        sconce_manifest::load(path, overlay, &json_schema(tasks))?;
    manifest.source = source;
    complete(&mut manifest, path);
    read_model(&mut manifest)?;
    Ok(manifest)
}

/// Fills in what depends on the file's name and on all hooks.
fn complete(manifest: &mut Manifest, path: &Path) {
    let parent = path.parent().unwrap_or(Path::new(""));
    parent.clone_into(&mut manifest.base);
    if manifest.name.is_empty() {
        let stem = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        manifest.name = stem.unwrap_or_else(|| "run".to_owned());
    }
    if manifest.output.as_os_str().is_empty() {
        manifest.output = Path::new("runs").join(&manifest.name);
    }
    // Relative paths start at the manifest's directory.
    manifest.output = parent.join(&manifest.output);
    for directory in &mut manifest.plugins {
        *directory = parent.join(&*directory);
    }
    if let Some(weights) = &mut manifest.weights {
        weights.file = parent.join(&weights.file);
    }
    if let Some(AdaptConfig::Lora {
        file: Some(file), ..
    }) = &mut manifest.adapt
    {
        *file = parent.join(&*file);
    }
    complete_hooks(&mut manifest.hooks, parent);
}

/// Reads the files that the description of the model names into it, so that a run's record has all of it.
fn read_model(manifest: &mut Manifest) -> Result<(), Vec<Diagnostic>> {
    let Some(model) = &mut manifest.model else {
        return Ok(());
    };
    model.read_files(&manifest.base).map_err(|error| {
        let place = manifest.place("model.config");
        vec![Diagnostic::new(error.to_string()).at(place)]
    })
}
