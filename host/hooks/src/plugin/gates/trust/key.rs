//! Public keys of minisign, and their ids.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use minisign_verify::PublicKey;

/// Where the id is in keys and in signatures.
const ID: std::ops::Range<usize> = 2..10;

/// The id of a key, which signatures name. It is not a fingerprint: anyone can make a key with a given id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId([u8; 8]);

impl KeyId {
    /// The id in a decoded key or signature.
    fn of(bytes: &[u8]) -> Option<KeyId> {
        let id = bytes.get(ID)?.try_into().ok()?;
        Some(KeyId(id))
    }

    /// Whether the ids are equal but for two bytes, as one changed character of a signature leaves them. By chance two keys'
    /// ids are hardly ever so alike.
    pub(in crate::plugin) fn is_near(self, other: KeyId) -> bool {
        let bytes = self.0.iter().zip(&other.0);
        bytes.filter(|(one, other)| one != other).count() <= 2
    }

    /// The id in the second line of a signature; `None` if that is not one.
    pub(in crate::plugin) fn of_signature(line: &str) -> Option<KeyId> {
        KeyId::of(&BASE64.decode(line).ok()?)
    }
}

/// As minisign prints it: 16 hexadecimal digits.
impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", u64::from_le_bytes(self.0))
    }
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// As minisign writes it.
    text: String,
    id: KeyId,
    verifier: PublicKey,
}

impl Key {
    /// Reads a key as `minisign -G` prints it: 56 characters that begin with `RW`.
    ///
    /// # Errors
    ///
    /// If it is not one, in words.
    pub fn parse(text: &str) -> Result<Key, String> {
        let text = text.trim();
        let key = || {
            Some(Key {
                id: KeyId::of(&BASE64.decode(text).ok()?)?,
                verifier: PublicKey::from_base64(text).ok()?,
                text: text.to_owned(),
            })
        };
        key().ok_or_else(|| {
            "it is not a public key of minisign, which has 56 characters and begins with `RW`"
                .to_owned()
        })
    }

    /// Reads the content of a key file, such as `minisign.pub`: a comment, then the key.
    ///
    /// # Errors
    ///
    /// If there is no key, in words.
    pub fn parse_file(text: &str) -> Result<Key, String> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let key = lines.find(|line| !line.starts_with("untrusted comment:"));
        Key::parse(key.unwrap_or_default())
    }

    /// The id.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// What verifies signatures with this key.
    pub(in crate::plugin) fn verifier(&self) -> &PublicKey {
        &self.verifier
    }
}

/// The key as text.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of minisign's documentation.
    const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

    #[test]
    fn keys_are_read_from_text_and_files() {
        let key = Key::parse(KEY).expect("a key");
        assert_eq!(key.to_string(), KEY);
        assert_eq!(key.id().to_string(), "E7620F1842B4E81F");
        let file = format!("untrusted comment: minisign public key E7620F1842B4E81F\n{KEY}\n");
        assert_eq!(Key::parse_file(&file), Ok(key));
        for wrong in [
            "",
            "RWQ",
            &KEY[1..],
            &KEY.replace("RW", "AA"),
            &KEY.to_lowercase(),
        ] {
            assert!(Key::parse(wrong).is_err(), "{wrong}");
            assert!(Key::parse_file(wrong).is_err(), "{wrong}");
        }
    }
}
