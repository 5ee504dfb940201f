//! Checks fingerprints pinned by a manifest.

use super::refusal::Cause;

/// Checks that a file's fingerprint is the pinned one.
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
    fn a_fingerprint_in_capitals_is_the_same_one() {
        assert!(check("ab12", "AB12").is_ok());
        assert!(check("ab12", "ab13").is_err());
    }
}
