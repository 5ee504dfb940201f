//! The metadata section's bytes, assembled at compile time.

use crate::metadata::MAGIC;

/// Text that grows during constant evaluation, up to `N` bytes.
#[doc(hidden)]
pub struct Bytes<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Bytes<N> {
    const fn new() -> Self {
        Bytes {
            bytes: [0; N],
            length: 0,
        }
    }

    const fn push(mut self, byte: u8) -> Self {
        if self.length < N {
            self.bytes[self.length] = byte;
        }
        self.length += 1;
        self
    }

    const fn raw(mut self, text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut index = 0;
        while index < bytes.len() {
            self = self.push(bytes[index]);
            index += 1;
        }
        self
    }

    /// Appends the content of a JSON string: quotes and backslashes escaped, control characters as blanks.
    const fn escaped(mut self, text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut index = 0;
        while index < bytes.len() {
            let byte = bytes[index];
            if byte == b'"' || byte == b'\\' {
                self = self.push(b'\\');
            }
            self = self.push(if byte < 0x20 { b' ' } else { byte });
            index += 1;
        }
        self
    }

    const fn member(self, key: &str, value: &str) -> Self {
        self.raw("\"")
            .raw(key)
            .raw("\":\"")
            .escaped(value)
            .raw("\",")
    }

    /// Appends a comma-separated text as an array of strings.
    const fn array_member(mut self, key: &str, commas: &str) -> Self {
        self = self.raw("\"").raw(key).raw("\":[");
        let bytes = commas.as_bytes();
        let mut index = 0;
        while index < bytes.len() {
            if index == 0 {
                self = self.push(b'"');
            }
            if bytes[index] == b',' {
                self = self.raw("\",\"");
            } else {
                self = self.push(bytes[index]);
            }
            index += 1;
        }
        if !bytes.is_empty() {
            self = self.push(b'"');
        }
        self.raw("],")
    }

    /// Number of bytes written, or that would have been written if `N` were large enough.
    pub const fn length(&self) -> usize {
        self.length
    }

    /// The text; `N` must equal its length.
    pub const fn text(&self) -> &str {
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => text,
            Err(_) => panic!("plugin metadata must be UTF-8"),
        }
    }
}

/// The metadata as JSON; transports are given by name and description. Evaluated twice: with `N = 0` to get its length, then for the text.
#[doc(hidden)]
pub const fn metadata<const N: usize>(
    name: &str,
    version: &str,
    about: &str,
    panic: &str,
    hooks: &[&str],
    transports: &[(&str, &str)],
) -> Bytes<N> {
    let mut json = Bytes::<N>::new()
        .raw("{")
        .member("name", name)
        .member("version", version)
        .member("about", about)
        .raw("\"abi_epoch\":1,")
        .member("api_version", env!("CARGO_PKG_VERSION"))
        .member("rustc", env!("SCONCE_RUSTC"))
        .member("target", env!("SCONCE_TARGET"))
        .array_member("target_features", env!("SCONCE_TARGET_FEATURES"))
        .member("panic", panic)
        .raw("\"hooks\":[");
    let mut index = 0;
    while index < hooks.len() {
        if index > 0 {
            json = json.raw(",");
        }
        json = json.raw(hooks[index]);
        index += 1;
    }
    json = json.raw("]");
    if !transports.is_empty() {
        json = json.raw(",\"transports\":[");
        let mut index = 0;
        while index < transports.len() {
            let (name, about) = transports[index];
            json = json.raw(if index > 0 { ",{" } else { "{" });
            json = json.raw("\"about\":\"").escaped(about);
            json = json.raw("\",\"name\":\"").escaped(name).raw("\"}");
            index += 1;
        }
        json = json.raw("]");
    }
    json.raw("}")
}

/// The section's bytes: magic, length, text. `N` must equal the text's length plus 12.
#[doc(hidden)]
pub const fn section<const N: usize>(text: &str) -> [u8; N] {
    let mut section = [0; N];
    let mut index = 0;
    while index < MAGIC.len() {
        section[index] = MAGIC[index];
        index += 1;
    }
    let length = (text.len() as u32).to_le_bytes();
    let mut offset = 0;
    while offset < 4 {
        section[index + offset] = length[offset];
        offset += 1;
    }
    index += 4;
    let bytes = text.as_bytes();
    let mut offset = 0;
    while offset < bytes.len() {
        section[index + offset] = bytes[offset];
        offset += 1;
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::PluginMetadata;

    #[test]
    fn the_section_holds_readable_metadata() {
        const HOOKS: &[&str] = &[r#"{"name":"a","about":"x \"y\"","priority":30,"points":[]}"#];
        const TRANSPORTS: &[(&str, &str)] = &[("pigeon", "By \"air\"."), ("post", "")];
        const fn build<const N: usize>() -> Bytes<N> {
            metadata::<N>(
                "na\"me",
                "1.2.3",
                "back\\slash",
                "unwind",
                HOOKS,
                TRANSPORTS,
            )
        }
        const LENGTH: usize = build::<0>().length();
        const TEXT: Bytes<LENGTH> = build();
        let bytes = section::<{ LENGTH + 12 }>(TEXT.text());
        assert_eq!(bytes[..8], MAGIC);
        assert_eq!(bytes[8..12], (LENGTH as u32).to_le_bytes());
        let read: PluginMetadata = serde_json::from_slice(&bytes[12..]).expect("it is JSON");
        assert_eq!(read.name, "na\"me");
        assert_eq!(read.about, "back\\slash");
        assert_eq!(read.abi_epoch, crate::abi::ABI_EPOCH);
        assert_eq!(read.hooks.len(), 1);
        assert_eq!(read.hooks[0].about, "x \"y\"");
        let transports = read.transports.iter().map(|one| (&*one.name, &*one.about));
        assert_eq!(transports.collect::<Vec<_>>(), TRANSPORTS);
        assert!(read.rustc.starts_with("rustc "), "{}", read.rustc);
        assert!(!read.target.is_empty());
    }
}
