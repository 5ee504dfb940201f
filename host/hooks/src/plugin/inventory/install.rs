//! Installs plugins where they are found by default: complete copies, one build of each.

use std::path::{Path, PathBuf};

use super::search;
use crate::plugin::gates::file;
use crate::plugin::{Cause, Inspected, PluginRefusal, inspect, signature};
use sconce_base::files;
use sconce_manifest::diagnostic::Diagnostic;

/// The installation of one plugin.
#[derive(Clone, Debug)]
pub struct PluginInstallation {
    /// The plugin at its source.
    pub plugin: Inspected,
    /// Destination of its file.
    pub target: PathBuf,
    /// Builds of the plugin that are already installed.
    pub previous: Vec<Inspected>,
    /// Whether the same bytes are already at the target.
    pub is_there: bool,
}

/// An installation, planned but not carried out.
#[derive(Clone, Debug, Default)]
pub struct InstallPlan {
    /// The plugins to install.
    pub steps: Vec<PluginInstallation>,
    /// The files that are not installed.
    pub refused: Vec<Diagnostic>,
    /// Warnings for the user.
    pub warnings: Vec<Diagnostic>,
}

impl InstallPlan {
    /// Inspects library files that are to be installed into a directory. No plugin code runs, and nothing is
    /// written. Libraries that are not plugins are skipped.
    pub fn new(libraries: &[PathBuf], to: &Path) -> InstallPlan {
        let mut plan = InstallPlan::default();
        let installed = installed(to);
        for library in libraries {
            match inspect(library) {
                Ok(plugin) => plan.add(plugin, to, &installed),
                Err(refusal) if refusal.cause == Cause::NoMetadata => {}
                Err(refusal) => plan.refused.push(refusal.diagnostic()),
            }
        }
        plan
    }

    fn add(&mut self, plugin: Inspected, to: &Path, installed: &[Inspected]) {
        let name = &plugin.metadata.name;
        let mut earlier = self.steps.iter().map(|step| &step.plugin);
        if let Some(earlier) = earlier.find(|earlier| earlier.metadata.name == *name) {
            let problem = format!(
                "`{}` is the plugin `{name}` as `{}` is, which is installed",
                plugin.path.display(),
                earlier.path.display()
            );
            let hint = "say which one: `--from FILE`";
            self.refused.push(Diagnostic::new(problem).hint(hint));
            return;
        }
        let Some(file) = plugin.path.file_name() else {
            return;
        };
        let target = to.join(file);
        let previous: Vec<Inspected> = installed
            .iter()
            .filter(|other| other.metadata.name == *name)
            .cloned()
            .collect();
        let is_there = match previous.as_slice() {
            [only] => {
                only.path == target
                    && only.sha256() == plugin.sha256()
                    && signature::read(&target).ok() == signature::read(&plugin.path).ok()
            }
            _ => false,
        };
        for library in leftover_drafts(&plugin) {
            self.warnings.push(Diagnostic::warning(format!(
                "`{}` needs `{library}`, which lies beside it and is not installed: copy it to `{}`",
                plugin.path.display(),
                to.display()
            )));
        }
        self.steps.push(PluginInstallation {
            plugin,
            target,
            previous,
            is_there,
        });
    }
}

impl PluginInstallation {
    /// Copies the library, completely or not at all, and removes the plugin's other builds.
    ///
    /// # Errors
    ///
    /// If something can't be read or written, or has changed since it was inspected.
    pub fn carry_out(&self) -> Result<(), Diagnostic> {
        if self.is_there {
            return Ok(());
        }
        let refused = |cause| PluginRefusal::new(&self.plugin.path, cause).diagnostic();
        let bytes = file::read(&self.plugin.path).map_err(refused)?;
        if !self.plugin.has(&bytes) {
            return Err(refused(Cause::Changed));
        }
        let failed = |error: std::io::Error| {
            Diagnostic::new(format!(
                "the plugin `{}` can't be installed: {error}",
                self.plugin.metadata.name
            ))
        };
        if let Some(directory) = self.target.parent() {
            fs_err::create_dir_all(directory).map_err(failed)?;
        }
        let signature = signature::read(&self.plugin.path).map_err(failed)?;
        // An older build's signature would make the new one an altered plugin.
        remove_signature(&self.target).map_err(failed)?;
        files::write_atomically(&self.target, &bytes).map_err(failed)?;
        if let Some(signature) = signature {
            let target = signature::file_of(&self.target);
            files::write_atomically(&target, signature.as_bytes()).map_err(failed)?;
        }
        let others = self.previous.iter().map(|other| &other.path);
        for other in others.filter(|path| **path != self.target) {
            remove(other).map_err(failed)?;
        }
        Ok(())
    }
}

/// Removes an installed plugin with its signature.
///
/// # Errors
///
/// If one of the files can't be removed.
pub fn remove(library: &Path) -> std::io::Result<()> {
    fs_err::remove_file(library)?;
    remove_signature(library)
}

fn remove_signature(library: &Path) -> std::io::Result<()> {
    match fs_err::remove_file(signature::file_of(library)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The plugins in a directory; none if it does not exist.
pub fn installed(directory: &Path) -> Vec<Inspected> {
    let libraries = search::libraries(directory).unwrap_or_default();
    libraries
        .iter()
        .filter_map(|library| inspect(library).ok())
        .collect()
}

/// Libraries next to the plugin's file that it looks for relative to that file.
fn leftover_drafts(plugin: &Inspected) -> Vec<&String> {
    let beside = plugin.path.parent().unwrap_or(Path::new(""));
    plugin
        .needed
        .iter()
        .filter(|needed| plugin.looks_beside && beside.join(needed).is_file())
        .collect()
}
