//! The gate for signatures.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use minisign_verify::{Error, Signature};

use super::refusal::Cause;
use super::trust::{KeyId, SignatureState, TrustStore, UnsignedPolicy, current};
use sconce_manifest::document;

/// Largest signature that is read, in bytes; they have some 300.
const LARGEST: u64 = 64 << 10;

/// The file of a library's signature: its own name with `.minisig` after it.
pub(in crate::plugin) fn file_of(library: &Path) -> PathBuf {
    let mut name = OsString::from(library);
    name.push(".minisig");
    PathBuf::from(name)
}

/// The text of a library's signature; `None` if it has none.
///
/// # Errors
///
/// If it can't be read, or is too large for one.
pub(in crate::plugin) fn read(library: &Path) -> io::Result<Option<String>> {
    match document::read_text(&file_of(library), LARGEST) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The gate: the signature of the library at `path`, verified over its bytes.
///
/// # Errors
///
/// If it is altered; if it must be signed and is not; if the trusted keys can't be read.
pub(in crate::plugin) fn check(path: &Path, bytes: &[u8]) -> Result<SignatureState, Cause> {
    let store = current().map_err(|problems| {
        let first = problems.first().map(|problem| problem.message.clone());
        Cause::TrustStore(first.unwrap_or_default())
    })?;
    let state = match read(path) {
        Ok(Some(signature)) => verify(bytes, &signature, store).map_err(Cause::Altered)?,
        Ok(None) => SignatureState::Unsigned,
        Err(error) => {
            return Err(Cause::Altered(format!(
                "its signature can't be read: {error}"
            )));
        }
    };
    if store.unsigned == UnsignedPolicy::Refuse && !state.is_trusted() && !store.excepts(path) {
        return Err(Cause::Untrusted(state));
    }
    Ok(state)
}

/// The gate for what a library has loaded with it from `outside` of the system's directories.
///
/// # Errors
///
/// If only what is signed may be loaded, and this is something else.
pub(in crate::plugin) fn check_dependencies(path: &Path, outside: &[String]) -> Result<(), Cause> {
    if outside.is_empty() {
        return Ok(());
    }
    if is_demanded(path) {
        Err(Cause::Dependencies(outside.to_vec()))
    } else {
        Ok(())
    }
}

/// Whether the library at `path` must be signed. Where the keys can't be read, an earlier gate says so.
pub(in crate::plugin) fn is_demanded(path: &Path) -> bool {
    current().is_ok_and(|store| store.unsigned == UnsignedPolicy::Refuse && !store.excepts(path))
}

/// Whether plugins must be signed, but for exceptions. Where the keys can't be read, the gates say so.
pub fn are_demanded() -> bool {
    current().is_ok_and(|store| store.unsigned == UnsignedPolicy::Refuse)
}

/// Who has signed these bytes; the error says in what they, or the signature, differ from what was signed.
fn verify(bytes: &[u8], text: &str, store: &TrustStore) -> Result<SignatureState, String> {
    let unreadable = "its signature is damaged, or not one of minisign";
    let signature = Signature::decode(text).map_err(|_| unreadable.to_owned())?;
    let line = text.lines().nth(1).unwrap_or_default();
    let id = KeyId::of_signature(line).ok_or(unreadable)?;
    let mut failure = None;
    for trusted in store.keys.iter().filter(|trusted| trusted.key.id() == id) {
        match trusted.key.verifier().verify(bytes, &signature, false) {
            Ok(()) => {
                return Ok(SignatureState::Trusted {
                    name: trusted.name.clone(),
                    comment: signature.trusted_comment().to_owned(),
                });
            }
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(Error::UnexpectedAlgorithm) => Err(
            "its signature is of minisign's old kind: sign it again, with `minisign -S -H` if need be".to_owned(),
        ),
        Some(_) => Err("its bytes or its signature were changed after it was signed".to_owned()),
        // A damaged id does not make an altered signature one of an unknown key.
        None if store.keys.iter().any(|trusted| trusted.key.id().is_near(id)) => {
            Err("its signature names a key that is nearly a trusted one: it was changed".to_owned())
        }
        None => Ok(SignatureState::UnknownKey { id: id.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use minisign::KeyPair;

    use super::super::trust::{Key, TrustedKey};
    use super::*;

    fn signer() -> (KeyPair, TrustStore) {
        let pair = KeyPair::generate_unencrypted_keypair().expect("a pair of keys");
        let key = Key::parse(&pair.pk.to_base64()).expect("a key");
        let name = "lab".to_owned();
        let store = TrustStore {
            keys: vec![TrustedKey { name, key }],
            ..TrustStore::default()
        };
        (pair, store)
    }

    fn sign(pair: &KeyPair, bytes: &[u8]) -> String {
        let signed = minisign::sign(
            Some(&pair.pk),
            &pair.sk,
            Cursor::new(bytes),
            Some("note"),
            None,
        );
        signed.expect("signed").into_string()
    }

    #[test]
    fn signatures_are_by_trusted_or_by_unknown_keys() {
        let (pair, store) = signer();
        let text = sign(&pair, b"library");
        let expected = SignatureState::Trusted {
            name: "lab".to_owned(),
            comment: "note".to_owned(),
        };
        assert_eq!(verify(b"library", &text, &store), Ok(expected));
        let unknown = verify(b"library", &text, &TrustStore::default()).expect("a signature");
        assert!(matches!(&unknown, SignatureState::UnknownKey { id } if id.len() == 16));
        // Another key whose id was made the same.
        let (other, _) = signer();
        let forged = sign(&other, b"library");
        let second = |text: &str| {
            let line = text.lines().nth(1).expect("a line").to_owned();
            (BASE64.decode(&line).expect("a signature"), line)
        };
        let (mine, _) = second(&text);
        let (mut theirs, line) = second(&forged);
        theirs[..10].copy_from_slice(&mine[..10]);
        let forged = forged.replace(&line, &BASE64.encode(&theirs));
        let refused = verify(b"library", &forged, &store).expect_err("forged");
        assert!(
            refused.contains("were changed after it was signed"),
            "{refused}"
        );
    }

    #[test]
    fn every_changed_byte_is_found() {
        let (pair, store) = signer();
        let text = sign(&pair, b"a library");
        for at in 0..9 {
            let mut bytes = *b"a library";
            bytes[at] ^= 1;
            assert!(verify(&bytes, &text, &store).is_err(), "byte {at}");
        }
        // Nobody has signed the comment in the first line.
        let first = text.find('\n').expect("lines") + 1;
        for at in first..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            let Ok(changed) = String::from_utf8(changed) else {
                continue;
            };
            // The last line's end may be any.
            if changed.trim_end() != text.trim_end() && at < text.trim_end().len() {
                assert!(verify(b"a library", &changed, &store).is_err(), "byte {at}");
            }
        }
    }
}
