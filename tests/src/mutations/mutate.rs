//! Mutations of bytes.

use sconce::random::Stream;

/// Byte sequences likely to confuse parsers.
const PIECES: [&[u8]; 16] = [
    b"null",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"NaN",
    b"\"\"",
    b"\"\\ud800\"",
    b"{}",
    b"[",
    b"}",
    b",",
    b"\0",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x00\x00\x00\x80",
    b"\xef\xbb\xbf",
    "ü".as_bytes(),
];

/// Mutates the bytes one to four times.
pub fn mutated(original: &[u8], stream: &mut Stream) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..=stream.below(4) {
        damage(&mut bytes, stream);
    }
    bytes
}

fn damage(bytes: &mut Vec<u8>, stream: &mut Stream) {
    let place = |stream: &mut Stream, length: usize| stream.below(length as u64 + 1) as usize;
    let at = place(stream, bytes.len());
    // Mostly short ranges, now and then a long one.
    let reach = if stream.below(8) == 0 {
        bytes.len()
    } else {
        16
    };
    let end = (at + place(stream, reach)).min(bytes.len());
    match stream.below(10) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << stream.below(8);
            }
        }
        1 => {
            for byte in &mut bytes[at..end] {
                *byte = stream.below(256) as u8;
            }
        }
        2 => bytes[at..end].fill(0),
        3 => bytes[at..end].fill(0xff),
        4 => bytes.truncate(at),
        5 => drop(bytes.drain(at..end)),
        6 => {
            let stretch = bytes[at..end].to_vec();
            let to = place(stream, bytes.len());
            bytes.splice(to..to, stretch);
        }
        7 => {
            let other = place(stream, bytes.len().saturating_sub(end - at));
            for offset in 0..end - at {
                bytes.swap(at + offset, other + offset);
            }
        }
        8 => {
            let piece = PIECES[stream.below(PIECES.len() as u64) as usize];
            let count = if stream.below(50) == 0 { 5000 } else { 1 };
            bytes.splice(at..at, piece.repeat(count));
        }
        _ => {
            let piece = PIECES[stream.below(PIECES.len() as u64) as usize];
            bytes.splice(at..end, piece.iter().copied());
        }
    }
}
