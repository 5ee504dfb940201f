//! Data that the program has in memory already, read under the path of a file: a path of the manifest that names them is read as one
//! that names a file with the same content, with the same bits.
//!
//! Readers look here where they open files. A path is provided for the time of a load: whoever provides it keeps [`Provided`].

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory with the content of a file, owned by whoever provides it.
pub type Content = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// What stands for a file.
#[derive(Clone)]
pub enum ProvidedFile {
    /// Its bytes.
    Bytes(Content),
    /// The array of a `.npy` file, without copying it into one.
    Array(ProvidedArray),
}

/// An array in memory, in row-major order.
#[derive(Clone)]
pub struct ProvidedArray {
    /// NumPy's name of the element type with its byte order: `<f4`, `<i8`, `|b1`.
    pub element: String,
    /// Number of elements in each dimension.
    pub shape: Vec<usize>,
    /// Its elements.
    pub content: Content,
}

static FILES: Mutex<BTreeMap<PathBuf, ProvidedFile>> = Mutex::new(BTreeMap::new());

fn files() -> MutexGuard<'static, BTreeMap<PathBuf, ProvidedFile>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A path under which data are provided, until this is dropped.
#[must_use]
pub struct Provided {
    path: PathBuf,
}

impl Provided {
    /// Provides data under an absolute path, which need not exist.
    ///
    /// # Errors
    ///
    /// If something is provided under it already.
    pub fn new(path: &Path, file: ProvidedFile) -> io::Result<Provided> {
        let mut files = files();
        if files.contains_key(path) {
            let problem = format!("`{}` is provided already", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
        }
        files.insert(path.to_owned(), file);
        Ok(Provided {
            path: path.to_owned(),
        })
    }
}

impl Drop for Provided {
    fn drop(&mut self) {
        files().remove(&self.path);
    }
}

/// What is provided under a path.
pub(crate) fn at(path: &Path) -> Option<ProvidedFile> {
    files().get(path).cloned()
}

/// The bytes provided under a path; none if there are none, or an array.
pub(crate) fn bytes_at(path: &Path) -> Option<Content> {
    match at(path)? {
        ProvidedFile::Bytes(bytes) => Some(bytes),
        ProvidedFile::Array(_) => None,
    }
}
