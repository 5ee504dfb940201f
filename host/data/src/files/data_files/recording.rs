//! The list of files that a load reads, and how it divides the samples.
//!
//! A list belongs to the thread that loads. Readers of files note what they have read where they open files, not in each kind of
//! data, so that no kind can leave it out; where nothing is recorded, as in predictions, nothing is hashed.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::hash::ContentHasher;
use super::{ContentHash, DataFile, FileContent, Member, SplitRecord};

thread_local! {
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

struct Recording {
    /// Directory that relative paths of the manifest start at.
    base: PathBuf,
    files: Vec<DataFile>,
    split: Option<SplitRecord>,
}

/// What was noted while data were loaded.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// The files that were read.
    pub(crate) files: Vec<DataFile>,
    /// How samples of them were drawn for validation and test, if they were.
    pub(crate) split: Option<SplitRecord>,
}

impl Recording {
    /// Path as in the manifest.
    fn name(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.base).ok();
        let inside = inside.filter(|inside| !inside.as_os_str().is_empty());
        inside.unwrap_or(path).display().to_string()
    }

    /// Adds a file. One that is read twice, as the same, is listed once.
    fn add(&mut self, file: DataFile) {
        if !self.files.contains(&file) {
            self.files.push(file);
        }
    }
}

/// Loads data, and returns what this thread has noted of it. Relative paths of the manifest start at `base`.
pub(crate) fn recorded<T, E>(
    base: &Path,
    load: impl FnOnce() -> Result<T, E>,
) -> Result<(T, Recorded), E> {
    RECORDING.set(Some(Recording {
        base: base.to_owned(),
        files: Vec::new(),
        split: None,
    }));
    let loaded = load();
    let recording = RECORDING.take();
    let recorded = recording.map(|Recording { files, split, .. }| Recorded { files, split });
    Ok((loaded?, recorded.unwrap_or_default()))
}

/// Whether this thread records what it reads.
pub(crate) fn is_recording() -> bool {
    RECORDING.with_borrow(Option::is_some)
}

/// Notes that a file was read whole, with this content.
pub(crate) fn note(path: &Path, bytes: &[u8]) {
    if is_recording() {
        note_hash(path, bytes.len() as u64, ContentHash::of(bytes));
    }
}

/// Notes that a file was read whole, or will be in parts, and its content.
pub(crate) fn note_hash(path: &Path, bytes: u64, hash: ContentHash) {
    with(|recording| {
        let name = recording.name(path);
        recording.add(DataFile::new(name, bytes, hash));
    });
}

/// Notes the files that were read in a directory: their names in it, with the contents in the same order.
pub(crate) fn note_directory(path: &Path, names: &[String], contents: &[FileContent]) {
    with(|recording| {
        let name = recording.name(path);
        let members = names.iter().zip(contents);
        let members = members.map(|(name, &content)| Member {
            name: name.replace(std::path::MAIN_SEPARATOR, "/"),
            content,
        });
        recording.add(DataFile::directory(name, members.collect()));
    });
}

/// Notes the rows of a table that was read.
pub(crate) fn note_rows(path: &Path, rows: ContentHash) {
    with(|recording| {
        let name = recording.name(path);
        let mut files = recording.files.iter_mut();
        if let Some(file) = files.find(|file| file.name == name) {
            file.rows = Some(rows);
        }
    });
}

/// Notes how samples were drawn for validation and test.
pub(crate) fn note_split(split: SplitRecord) {
    with(|recording| recording.split = Some(split));
}

fn with(change: impl FnOnce(&mut Recording)) {
    RECORDING.with_borrow_mut(|recording| {
        if let Some(recording) = recording {
            change(recording);
        }
    });
}

/// A file that is hashed while it is read.
pub(crate) struct HashingFile {
    file: File,
    /// None where nothing is recorded.
    hasher: Option<Box<ContentHasher>>,
}

impl HashingFile {
    /// Takes a file that has been opened and not read.
    pub(crate) fn new(file: File) -> HashingFile {
        HashingFile {
            file,
            hasher: is_recording().then(Box::default),
        }
    }

    /// Notes the file, all of which has been read: what is left of it is hashed too.
    pub(crate) fn note(&mut self, path: &Path) -> io::Result<()> {
        let Some(mut hasher) = self.hasher.take() else {
            return Ok(());
        };
        hasher.update_reader(&mut self.file)?;
        note_hash(path, hasher.count(), hasher.finish());
        Ok(())
    }
}

impl Read for HashingFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        if let (Some(hasher), Some(bytes)) = (&mut self.hasher, buffer.get(..count)) {
            hasher.update(bytes);
        }
        Ok(count)
    }
}

/// Hashes the fields of a table's rows, each after its length.
pub(crate) struct RowHasher {
    hasher: ContentHasher,
    /// Fields that are still to be hashed: long pieces are hashed faster than short ones.
    fields: Vec<u8>,
}

impl RowHasher {
    /// Size in bytes of the pieces that are hashed.
    const PIECE: usize = 1 << 16;

    /// Starts with the names of the columns.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>) -> RowHasher {
        let mut hasher = RowHasher {
            hasher: ContentHasher::default(),
            fields: Vec::with_capacity(RowHasher::PIECE),
        };
        names.for_each(|name| hasher.add(name));
        hasher
    }

    /// Adds a field.
    pub(crate) fn add(&mut self, field: &str) {
        self.fields.extend((field.len() as u64).to_le_bytes());
        self.fields.extend(field.as_bytes());
        if self.fields.len() >= RowHasher::PIECE {
            self.hasher.update(&self.fields);
            self.fields.clear();
        }
    }

    /// Returns the hash of all fields.
    pub(crate) fn finish(mut self) -> ContentHash {
        self.hasher.update(&self.fields);
        self.hasher.finish()
    }
}
