//! Detects the kind of a file from its first bytes.

use super::{Format, StructureFault};

impl Format {
    /// The format of a file with these bytes.
    ///
    /// # Errors
    ///
    /// If the file is not a library, with what it is.
    pub fn of(bytes: &[u8]) -> Result<Format, StructureFault> {
        match bytes {
            [] => Err(StructureFault::Empty),
            [0x7f, b'E', b'L', b'F', ..] => Ok(Format::Elf),
            [0x7f, rest @ ..] if b"ELF".starts_with(rest) => Err(StructureFault::Truncated {
                part: "the ELF header".to_owned(),
                end: 64,
                length: bytes.len() as u64,
            }),
            [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] => Ok(Format::MachO),
            // Java class files start the same way, with a version of 45 or more in place of the count.
            [0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 0..=32, ..] => Err(StructureFault::Universal),
            [b'M', b'Z', ..] => Ok(Format::Pe),
            [b'!', b'<', b'a', b'r', b'c', b'h', b'>', ..] => Err(StructureFault::StaticLibrary),
            _ => Err(StructureFault::NotALibrary(beginning(bytes))),
        }
    }
}

/// How a file starts: the first line if it is text, else the first bytes.
fn beginning(bytes: &[u8]) -> String {
    const SHOWN: usize = 40;
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let start = line.get(..SHOWN).unwrap_or(line);
    let is_text = !start.is_empty() && start.iter().all(|byte| (b' '..=b'~').contains(byte));
    if is_text {
        return format!("`{}`", String::from_utf8_lossy(start));
    }
    let hex: Vec<String> = bytes
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("the bytes {}", hex.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_reported_by_their_beginning() {
        let cases: [(&[u8], &str); 9] = [
            (b"", "is empty"),
            (b"#!/bin/sh\necho\n", "starts with `#!/bin/sh`"),
            (b"version https://git-lfs\r\n", "`version https://git-lfs`"),
            (b"\x00\x01\x02", "starts with the bytes 00 01 02"),
            (b"\n\n", "starts with the bytes 0a 0a"),
            (b"!<arch>\nlib.rmeta/", "is a static library"),
            (b"\x7fEL", "truncated: the ELF header"),
            (b"\xca\xfe\xba\xbe\0\0\0\x02", "universal"),
            (b"\xca\xfe\xba\xbe\0\0\0\x34", "is not a shared library"),
        ];
        for (bytes, expected) in cases {
            let fault = Format::of(bytes).unwrap_err().to_string();
            assert!(fault.contains(expected), "{fault}");
        }
    }
}
