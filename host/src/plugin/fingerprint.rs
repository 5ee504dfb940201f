//! The fingerprint of a plugin's file: the SHA-256 that `sha256sum` prints.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::Cause;

/// The SHA-256 of `bytes` in lower-case hexadecimal digits.
pub(crate) fn fingerprint(bytes: &[u8]) -> String {
    digits(&Sha256::digest(bytes))
}

/// A hash in lower-case hexadecimal digits.
pub(super) fn digits(hash: &[u8]) -> String {
    hash.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether a file's fingerprint is the pinned one.
pub(super) fn check(found: &str, pinned: &str) -> Result<(), Cause> {
    if found.eq_ignore_ascii_case(pinned) {
        return Ok(());
    }
    Err(Cause::Fingerprint {
        pinned: pinned.to_owned(),
        found: found.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_is_the_known_one() {
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(fingerprint(b"abc"), of_abc);
        assert!(check(of_abc, &of_abc.to_uppercase()).is_ok());
        assert!(check(of_abc, &fingerprint(b"abd")).is_err());
    }
}
