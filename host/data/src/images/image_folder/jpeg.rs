//! Detection of truncated JPEG files: the decoder silently fills missing parts with grey.

/// Whether the end-of-image marker is where it must be: after the last segment (ITU-T T.81, annex
/// B), not in a thumbnail.
pub(super) fn is_complete(bytes: &[u8]) -> bool {
    let mut rest = bytes.get(2..).unwrap_or_default();
    while let Some((marker, after)) = next_marker(rest) {
        if marker == 0xd9 {
            return true;
        }
        let Some(length) = after.first_chunk() else {
            return false;
        };
        let length = usize::from(u16::from_be_bytes(*length));
        rest = after.get(length..).unwrap_or_default();
    }
    false
}

/// Returns the next marker and the bytes after it. Skips compressed data with its restart markers (0xd0
/// to 0xd7), fill bytes (0xff) and stuffed bytes (0xff followed by 0x00).
fn next_marker(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let mut pairs = bytes.windows(2).enumerate();
    pairs.find_map(|(at, pair)| match *pair {
        [0xff, 0x00 | 0x01 | 0xd0..=0xd7 | 0xff] => None,
        [0xff, marker] => Some((marker, bytes.get(at + 2..)?)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_end_counts() {
        let whole = [
            0xff, 0xd8, // Start.
            0xff, 0xe1, 0, 4, 0xff, 0xd9, // A segment with a thumbnail's end in it.
            0xff, 0xda, 0, 2, 1, 0xff, 0x00, 0xff, 0xd0, 2, // Data with a restart.
            0xff, 0xff, 0xd9, // A fill byte and the end.
        ];
        assert!(is_complete(&whole));
        assert!(is_complete(&[&whole[..], &[1, 2, 3]].concat()));
        for length in 0..whole.len() {
            assert!(!is_complete(&whole[..length]), "{length}");
        }
    }
}
