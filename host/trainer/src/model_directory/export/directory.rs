//! A new directory for another library, whose files are there together or not at all.

use std::io;
use std::path::{Path, PathBuf};

use sconce_base::held_directory::{HeldDirectory, aside};

use super::ModelExportError;

/// A directory that was written.
#[derive(Debug)]
pub struct ExportedDirectory {
    /// Its files, with their sizes in bytes.
    pub files: Vec<(PathBuf, u64)>,
    /// What a user of the model has to know beside it, as messages.
    pub notes: Vec<String>,
}

/// A directory that is filled.
pub(super) struct NewDirectory<'a> {
    /// Where it is until it is complete.
    pub(super) path: &'a Path,
    holder: &'a HeldDirectory,
    names: Vec<PathBuf>,
}

impl NewDirectory<'_> {
    /// Writes a file.
    pub(super) fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.holder.write_synced(&self.path.join(name), bytes)?;
        self.names.push(PathBuf::from(name));
        Ok(())
    }

    /// Adds files that were written into it.
    pub(super) fn add(&mut self, paths: &[PathBuf]) {
        let names = paths.iter().filter_map(|path| path.file_name());
        self.names.extend(names.map(PathBuf::from));
    }
}

/// Writes all files, which are at the place together or not at all: it must be new or empty.
pub(super) fn write(
    place: &Path,
    fill: impl FnOnce(&mut NewDirectory<'_>) -> Result<(), ModelExportError>,
) -> Result<ExportedDirectory, ModelExportError> {
    if !is_free(place)? {
        return Err(ModelExportError::Exists(place.to_owned()));
    }
    let parent = match place.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs_err::create_dir_all(parent)?;
    let holder = HeldDirectory::unheld(parent);
    let beside = aside(place, "new");
    // A killed process with the same process ID may have left one.
    drop(holder.remove(&beside));
    let written = filled(&beside, &holder, fill).and_then(|names| {
        if place.is_dir() {
            holder.remove_empty(place)?;
        }
        holder.rename(&beside, place)?;
        listed(place, &names)
    });
    if written.is_err() {
        // The partial directory is useless, and so is the reason why it can't be removed.
        drop(holder.remove(&beside));
    }
    Ok(ExportedDirectory {
        files: written?,
        notes: Vec::new(),
    })
}

/// Fills the directory; returns the names of its files.
fn filled(
    beside: &Path,
    holder: &HeldDirectory,
    fill: impl FnOnce(&mut NewDirectory<'_>) -> Result<(), ModelExportError>,
) -> Result<Vec<PathBuf>, ModelExportError> {
    holder.create_directory(beside)?;
    let mut directory = NewDirectory {
        path: beside,
        holder,
        names: Vec::new(),
    };
    fill(&mut directory)?;
    holder.sync(beside)?;
    Ok(directory.names)
}

/// Whether there is nothing at the place, or an empty directory.
fn is_free(place: &Path) -> io::Result<bool> {
    match fs_err::read_dir(place) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        Err(error) => Err(error),
    }
}

fn listed(place: &Path, names: &[PathBuf]) -> Result<Vec<(PathBuf, u64)>, ModelExportError> {
    let paths = names.iter().map(|name| place.join(name));
    let sized = paths.map(|path| {
        let size = fs_err::metadata(&path)?.len();
        Ok((path, size))
    });
    sized.collect()
}
