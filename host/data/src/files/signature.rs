//! Detection of file formats by their first bytes, for messages about files of the wrong format.

/// A format that can be recognised by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Description of the file, e.g. "a zip archive".
    pub what: &'static str,
    /// What the user can do about it.
    pub advice: &'static str,
    /// Whether it contains other files and has to be unpacked.
    pub is_packed: bool,
}

/// Magic bytes of gzipped files.
pub const GZIP: &[u8] = &[0x1f, 0x8b];

/// Magic bytes of zip archives.
pub const ZIP: &[u8] = b"PK\x03\x04";

/// Number of bytes at the start of a file that tell all known formats apart.
pub(crate) const LENGTH: usize = TAR + 5;

/// Offset of the magic bytes in a tar archive.
const TAR: usize = 257;

const fn packed(what: &'static str, advice: &'static str) -> Signature {
    Signature {
        what,
        advice,
        is_packed: true,
    }
}

const fn binary(what: &'static str, advice: &'static str) -> Signature {
    Signature {
        what,
        advice,
        is_packed: false,
    }
}

const KNOWN: &[(&[u8], Signature)] = &[
    (GZIP, packed("gzipped", "unpack it: `gzip -dk FILE`")),
    (ZIP, packed("a zip archive", "unpack it: `unzip FILE`")),
    (
        b"\xfd7zXZ\0",
        packed("compressed by xz", "unpack it: `xz -dk FILE`"),
    ),
    (
        b"\x28\xb5\x2f\xfd",
        packed("compressed by Zstandard", "unpack it: `zstd -d FILE`"),
    ),
    (
        b"BZh",
        packed("compressed by bzip2", "unpack it: `bzip2 -dk FILE`"),
    ),
    (
        b"\x04\x22\x4d\x18",
        packed("compressed by LZ4", "unpack it: `lz4 -d FILE`"),
    ),
    (
        b"\x1f\x9d",
        packed("compressed by compress", "unpack it: `uncompress FILE`"),
    ),
    (
        b"7z\xbc\xaf\x27\x1c",
        packed("a 7-Zip archive", "unpack it: `7z x FILE`"),
    ),
    (
        b"Rar!\x1a\x07",
        packed("a RAR archive", "unpack it: `unrar x FILE`"),
    ),
    (
        b"PAR1",
        binary(
            "a Parquet file",
            "convert it to CSV: `pandas.read_parquet(\"FILE\").to_csv(\"FILE.csv\", index=False)`",
        ),
    ),
    (
        b"ARROW1",
        binary(
            "an Arrow file",
            "convert it to CSV: `pandas.read_feather(\"FILE\").to_csv(\"FILE.csv\", index=False)`",
        ),
    ),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        binary("a file of Microsoft Office", "save it as CSV or plain text"),
    ),
    (
        b"SQLite format 3\0",
        binary("an SQLite database", "export the table as CSV"),
    ),
    (
        b"\x89HDF\r\n\x1a\n",
        binary(
            "an HDF5 file",
            "convert its arrays by `h5py` and `numpy.save` or `safetensors`",
        ),
    ),
    (
        b"\x93NUMPY",
        binary("an array of NumPy", "its data has the kind `npy`"),
    ),
    (
        b"\x89PNG\r\n\x1a\n",
        binary(
            "a PNG image",
            "images have the kind `image-folder`, a directory for each class",
        ),
    ),
    (
        b"\xff\xd8\xff",
        binary(
            "a JPEG image",
            "images have the kind `image-folder`, a directory for each class",
        ),
    ),
    (b"%PDF-", binary("a PDF", "extract its text first")),
    (
        b"GGUF",
        binary("a GGUF file", "take the weights as safetensors"),
    ),
    (
        b"\x7fELF",
        binary("a program or library", "take a file of data"),
    ),
    (
        b"\xff\xfe",
        binary("UTF-16", "convert it: `iconv -f UTF-16 -t UTF-8 FILE`"),
    ),
    (
        b"\xfe\xff",
        binary("UTF-16", "convert it: `iconv -f UTF-16 -t UTF-8 FILE`"),
    ),
];

/// Returns the format of a file that starts with these bytes, if it is a known one.
pub fn of(start: &[u8]) -> Option<Signature> {
    let known = KNOWN.iter().find(|(magic, _)| start.starts_with(magic));
    if let Some((_, signature)) = known {
        return Some(*signature);
    }
    let is_tar = start
        .get(TAR..)
        .is_some_and(|rest| rest.starts_with(b"ustar"));
    is_tar.then_some(packed("a tar archive", "unpack it: `tar xf FILE`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_first_bytes() {
        let mut tar = vec![0; TAR];
        tar.extend(b"ustar");
        for (bytes, what) in [
            (&b"PK\x03\x04rest"[..], "a zip archive"),
            (b"\xfd7zXZ\0\0\x04", "compressed by xz"),
            (b"BZh91AY", "compressed by bzip2"),
            (b"PAR1", "a Parquet file"),
            (&tar, "a tar archive"),
        ] {
            assert_eq!(of(bytes).map(|known| known.what), Some(what));
        }
        assert_eq!(of(b"a,b\n1,2\n"), None);
        assert_eq!(of(b""), None);
    }
}
