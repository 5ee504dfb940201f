//! SHA-256 fingerprints of files, as printed by `sha256sum`.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// SHA-256 of `bytes` in lower-case hexadecimal.
pub fn fingerprint(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Formats a hash in lower-case hexadecimal.
pub fn hexadecimal(hash: &[u8]) -> String {
    hash.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_is_the_known_one() {
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(fingerprint(b"abc"), of_abc);
    }
}
