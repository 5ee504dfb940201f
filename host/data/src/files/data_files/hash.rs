//! Hashes of content, as `b3sum` prints them.

use std::fmt;
use std::io::{self, Read};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Marks a hash as one of BLAKE3, in text.
const PREFIX: &str = "b3:";

/// Number of digits that messages show.
const SHORT: usize = 12;

/// BLAKE3 hash of some content; as text `b3:` and the 64 hexadecimal digits that `b3sum` prints.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash(pub(super) [u8; 32]);

impl ContentHash {
    /// Hashes bytes.
    pub fn of(bytes: &[u8]) -> ContentHash {
        ContentHash(*blake3::hash(bytes).as_bytes())
    }

    /// Hashes everything that a reader has left, and counts it.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    pub fn of_reader(reader: impl Read) -> io::Result<(ContentHash, u64)> {
        let mut hasher = ContentHasher::default();
        hasher.update_reader(reader)?;
        Ok((hasher.finish(), hasher.count()))
    }

    /// Hashes a directory by its files, whose paths are relative to it and separated by `/`: the hash of all paths, each
    /// after its length, and contents' hashes, in the order of the paths' bytes.
    pub fn of_directory<'a>(
        files: impl IntoIterator<Item = (&'a str, ContentHash)>,
    ) -> ContentHash {
        let mut files: Vec<_> = files.into_iter().collect();
        files.sort_unstable_by_key(|(path, _)| *path);
        let mut hasher = ContentHasher::default();
        for (path, content) in files {
            hasher.update(&(path.len() as u64).to_le_bytes());
            hasher.update(path.as_bytes());
            hasher.update(&content.0);
        }
        hasher.finish()
    }

    /// The first digits, which tell hashes apart in a message.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(PREFIX.len() + SHORT);
        text.push('…');
        text
    }

    /// The hexadecimal digits alone.
    pub fn digits(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// Parses the hexadecimal digits of a hash.
    pub fn from_digits(digits: &str) -> Option<ContentHash> {
        let hash = blake3::Hash::from_hex(digits).ok()?;
        Some(ContentHash(*hash.as_bytes()))
    }
}

/// Hashes content that comes in pieces.
#[derive(Clone, Default)]
pub(crate) struct ContentHasher(blake3::Hasher);

impl ContentHasher {
    /// Adds bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds everything that a reader has left.
    pub(crate) fn update_reader(&mut self, reader: impl Read) -> io::Result<()> {
        self.0.update_reader(reader).map(drop)
    }

    /// Returns the number of bytes so far.
    pub(crate) fn count(&self) -> u64 {
        self.0.count()
    }

    /// Returns the hash of all bytes so far.
    pub(crate) fn finish(&self) -> ContentHash {
        ContentHash(*self.0.finalize().as_bytes())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.digits())
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let hash = text.strip_prefix(PREFIX).and_then(ContentHash::from_digits);
        hash.ok_or_else(|| {
            let expected = "`b3:` and 64 hexadecimal digits";
            serde::de::Error::custom(format_args!("a hash is {expected}, not {text:?}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_b3sum_and_survives_json() {
        let hash = ContentHash::of(b"abc");
        let digits = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
        assert_eq!(hash.to_string(), format!("b3:{digits}"));
        assert_eq!(hash.short(), "b3:6437b3ac3846…");
        let (read, count) = ContentHash::of_reader(&b"abc"[..]).expect("read");
        assert_eq!((read, count), (hash, 3));
        let json = serde_json::to_string(&hash).expect("JSON");
        assert_eq!(serde_json::from_str::<ContentHash>(&json).ok(), Some(hash));
        for wrong in ["", "b3:", "b3:zz", digits, "sha256:00"] {
            let json = serde_json::to_string(wrong).expect("JSON");
            assert!(
                serde_json::from_str::<ContentHash>(&json).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_directory_is_its_paths_and_contents_in_any_order() {
        let (one, two) = (ContentHash::of(b"1"), ContentHash::of(b"2"));
        let hash = ContentHash::of_directory([("a/x", one), ("b/y", two)]);
        assert_eq!(
            hash,
            ContentHash::of_directory([("b/y", two), ("a/x", one)])
        );
        for other in [
            [("a/x", two), ("b/y", one)],
            [("a/x", one), ("c/y", two)],
            [("a", one), ("/xb/y", two)],
        ] {
            assert_ne!(hash, ContentHash::of_directory(other));
        }
    }
}
