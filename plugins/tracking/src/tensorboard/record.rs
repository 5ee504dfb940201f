//! The `TFRecord` format: messages in a file, each with its length and two checksums.

/// Appends a record: length (u64, little-endian), its masked checksum, the message, its masked
/// checksum.
pub(crate) fn add(file: &mut Vec<u8>, message: &[u8]) {
    let length = (message.len() as u64).to_le_bytes();
    file.extend_from_slice(&length);
    file.extend_from_slice(&masked_crc(&length).to_le_bytes());
    file.extend_from_slice(message);
    file.extend_from_slice(&masked_crc(message).to_le_bytes());
}

/// CRC-32C, rotated by 15 bits plus a constant, so that the checksum of data that contain checksums
/// is not trivial (TensorFlow, `lib/hash/crc32c.h`).
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_the_one_that_tensorboards_own_writer_makes() {
        // `RecordWriter(file).write(b"sconce")` of the `tensorboard` package, in hexadecimal.
        let mut file = Vec::new();
        add(&mut file, b"sconce");
        let expected: Vec<u8> = include_str!("record.hex")
            .split_whitespace()
            .map(|byte| u8::from_str_radix(byte, 16).expect("a byte"))
            .collect();
        assert_eq!(file, expected);
    }
}
