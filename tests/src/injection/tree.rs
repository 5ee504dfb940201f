//! Contents of a directory, kept in memory and made again on disk.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, FileTimes, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

/// A file's or a directory's identity. Inode numbers are used again; the time of birth tells such files apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Id(u64, Option<Duration>);

impl Id {
    pub(super) fn of(metadata: &Metadata) -> Id {
        let birth = metadata.created().ok();
        let birth = birth.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Id(metadata.ino(), birth)
    }
}

/// Bytes of a file.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) digest: Vec<u8>,
}

impl Content {
    pub(super) fn of(bytes: Vec<u8>) -> Arc<Content> {
        let digest = Sha256::digest(&bytes).to_vec();
        Arc::new(Content { bytes, digest })
    }
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Directory,
    File {
        id: Id,
        content: Arc<Content>,
        /// Checkpoints are ordered by it.
        modified: SystemTime,
    },
    Link(PathBuf),
}

/// A directory's contents by relative path.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree(pub(super) BTreeMap<PathBuf, Node>);

/// Contents that were read before.
#[derive(Default)]
pub(super) struct Read(HashMap<(Id, u64, SystemTime, i64), Arc<Content>>);

impl Read {
    /// A file's contents.
    pub(super) fn file(&mut self, path: &Path, metadata: &Metadata) -> io::Result<Arc<Content>> {
        let modified = metadata.modified()?;
        let key = (
            Id::of(metadata),
            metadata.size(),
            modified,
            metadata.ctime_nsec(),
        );
        // Two changes within a tick of the clock look like one.
        let age = SystemTime::now().duration_since(modified);
        let is_settled = age.is_ok_and(|age| age > Duration::from_millis(50));
        if is_settled && let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let content = Content::of(fs::read(path)?);
        if is_settled {
            self.0.insert(key, content.clone());
        }
        Ok(content)
    }
}

impl Tree {
    /// Reads a directory; what other threads remove meanwhile is left out.
    pub(super) fn of(directory: &Path, read: &mut Read) -> io::Result<Tree> {
        let mut tree = Tree::default();
        match tree.add(directory, Path::new(""), read) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(tree),
        }
    }

    fn add(&mut self, root: &Path, at: &Path, read: &mut Read) -> io::Result<()> {
        for entry in fs::read_dir(root.join(at))? {
            let entry = entry?;
            let (path, name) = (entry.path(), at.join(entry.file_name()));
            let added: io::Result<()> = (|| {
                let metadata = path.symlink_metadata()?;
                let kind = metadata.file_type();
                let node = if kind.is_dir() {
                    self.add(root, &name, read)?;
                    Node::Directory
                } else if kind.is_symlink() {
                    Node::Link(fs::read_link(&path)?)
                } else {
                    Node::File {
                        id: Id::of(&metadata),
                        content: read.file(&path, &metadata)?,
                        modified: metadata.modified()?,
                    }
                };
                self.0.insert(name, node);
                Ok(())
            })();
            match added {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Writes it to an empty directory, with hard links where there were some.
    pub(super) fn make(&self, directory: &Path) -> io::Result<()> {
        let mut made: HashMap<Id, PathBuf> = HashMap::new();
        fs::create_dir_all(directory)?;
        // A directory's path comes before those of its entries.
        for (name, node) in &self.0 {
            let path = directory.join(name);
            match node {
                Node::Directory => fs::create_dir(&path)?,
                Node::Link(target) => std::os::unix::fs::symlink(target, &path)?,
                Node::File {
                    id,
                    content,
                    modified,
                } => {
                    if let Some(first) = made.get(id) {
                        fs::hard_link(first, &path)?;
                        continue;
                    }
                    fs::write(&path, &content.bytes)?;
                    let times = FileTimes::new().set_modified(*modified);
                    File::options().append(true).open(&path)?.set_times(times)?;
                    made.insert(*id, path);
                }
            }
        }
        Ok(())
    }

    /// Digest of names and contents.
    pub(super) fn digest(&self) -> Vec<u8> {
        let mut hasher = Sha256::new();
        for (name, node) in &self.0 {
            hasher.update(name.as_os_str().as_encoded_bytes());
            match node {
                Node::Directory => hasher.update(b"\0directory\0"),
                Node::Link(target) => {
                    hasher.update(b"\0link\0");
                    hasher.update(target.as_os_str().as_encoded_bytes());
                }
                Node::File { content, .. } => {
                    hasher.update(b"\0file\0");
                    hasher.update(&content.digest);
                }
            }
        }
        hasher.finalize().to_vec()
    }
}
