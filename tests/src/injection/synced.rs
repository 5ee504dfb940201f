//! What a power failure leaves: what was made durable by `fsync`, of files their bytes, of directories their names.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::tree::{Content, Id, Node, Read, Tree};

/// What has been made durable in a directory so far.
pub(super) struct Synced {
    root: Id,
    files: HashMap<Id, (Arc<Content>, SystemTime)>,
    directories: HashMap<Id, BTreeMap<OsString, Entry>>,
}

/// An entry of a directory, whose contents are durable or not apart from it.
enum Entry {
    Directory(Id),
    File(Id),
    Link(PathBuf),
}

impl Synced {
    /// Nothing of the directory `root` is durable but itself.
    pub(super) fn new(root: &Path) -> io::Result<Synced> {
        Ok(Synced {
            root: Id::of(&root.metadata()?),
            files: HashMap::new(),
            directories: HashMap::new(),
        })
    }

    /// The file or directory that can be opened at `path` is made durable.
    pub(super) fn add(&mut self, path: &Path, read: &mut Read) -> io::Result<()> {
        let metadata = path.metadata()?;
        let id = Id::of(&metadata);
        if metadata.is_file() {
            let content = read.file(path, &metadata)?;
            self.files.insert(id, (content, metadata.modified()?));
        } else if metadata.is_dir() {
            let mut entries = BTreeMap::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                let metadata = entry.path().symlink_metadata()?;
                let node = if metadata.is_dir() {
                    Entry::Directory(Id::of(&metadata))
                } else if metadata.is_symlink() {
                    Entry::Link(fs::read_link(entry.path())?)
                } else {
                    Entry::File(Id::of(&metadata))
                };
                entries.insert(entry.file_name(), node);
            }
            self.directories.insert(id, entries);
        }
        Ok(())
    }

    /// The least that can be left: names and bytes only as they were last made durable.
    pub(super) fn least(&self) -> Tree {
        let mut tree = Tree::default();
        self.list(self.root, Path::new(""), &mut tree);
        tree
    }

    fn list(&self, directory: Id, at: &Path, tree: &mut Tree) {
        for (name, entry) in self.directories.get(&directory).into_iter().flatten() {
            let name = at.join(name);
            let node = match entry {
                Entry::Directory(id) => {
                    self.list(*id, &name, tree);
                    Node::Directory
                }
                Entry::File(id) => self.file(*id),
                Entry::Link(target) => Node::Link(target.clone()),
            };
            tree.0.insert(name, node);
        }
    }

    /// What a file system leaves that orders changes of names, but not bytes: all names as they are in `tree`, files
    /// with the bytes that were made durable.
    pub(super) fn names_of(&self, tree: &Tree) -> Tree {
        let nodes = tree.0.iter().map(|(name, node)| {
            let node = match node {
                Node::File { id, .. } => self.file(*id),
                other => other.clone(),
            };
            (name.clone(), node)
        });
        Tree(nodes.collect())
    }

    fn file(&self, id: Id) -> Node {
        let (content, modified) = match self.files.get(&id) {
            Some((content, modified)) => (content.clone(), *modified),
            None => (Content::of(Vec::new()), UNIX_EPOCH),
        };
        Node::File {
            id,
            content,
            modified,
        }
    }
}
