//! Numbers of Thrift's compact protocol, in which Parquet's headers are, read without trusting a size in them.

/// Deepest structure of a header; those of the format have six.
const DEEPEST: usize = 16;

/// What a header says that is none.
const DAMAGED: &str = "a header of the file is damaged";

const STRUCT: u8 = 12;

/// What is left of a header.
pub(super) struct Thrift<'a>(&'a [u8]);

impl<'a> Thrift<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Thrift<'a> {
        Thrift(bytes)
    }

    /// Number of bytes that are left.
    pub(super) fn left(&self) -> usize {
        self.0.len()
    }

    /// Reads the fields of a structure. `take` is asked for each, by its number and type: it reads it, or returns false.
    pub(super) fn structure(
        &mut self,
        take: &mut dyn FnMut(&mut Self, i64, u8) -> Result<bool, String>,
    ) -> Result<(), String> {
        let mut last = 0;
        while let Some((number, kind)) = self.field(last)? {
            last = number;
            if !take(self, number, kind)? {
                self.skip(kind, 0)?;
            }
        }
        Ok(())
    }

    /// The number and type of the next field; none at the end of its structure.
    fn field(&mut self, last: i64) -> Result<Option<(i64, u8)>, String> {
        let byte = self.byte()?;
        let (step, kind) = (byte >> 4, byte & 15);
        Ok(match (step, kind) {
            (_, 0) => None,
            (0, kind) => Some((self.zigzag()?, kind)),
            (step, kind) => Some((last.saturating_add(i64::from(step)), kind)),
        })
    }

    /// A number that is a field of this type.
    pub(super) fn number(&mut self, kind: u8) -> Result<i64, String> {
        match kind {
            4..=6 => self.zigzag(),
            _ => Err(DAMAGED.to_owned()),
        }
    }

    /// The number of a list's structures.
    pub(super) fn structures(&mut self) -> Result<u64, String> {
        match self.list()? {
            (count, STRUCT) => Ok(count),
            _ => Err(DAMAGED.to_owned()),
        }
    }

    fn list(&mut self) -> Result<(u64, u8), String> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.varint()?,
            few => u64::from(few),
        };
        Ok((count, byte & 15))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Result<(), String> {
        if depth > DEEPEST {
            return Err(DAMAGED.to_owned());
        }
        match kind {
            // Truth values of fields are their types.
            1 | 2 => Ok(()),
            3 => self.bytes(1),
            4..=6 => self.varint().map(drop),
            7 => self.bytes(8),
            8 => {
                let length = self.varint()?;
                self.bytes(length)
            }
            9 | 10 => {
                let (count, kind) = self.list()?;
                self.skip_all(count, &[kind], depth)
            }
            11 => match self.varint()? {
                0 => Ok(()),
                count => {
                    let kinds = self.byte()?;
                    self.skip_all(count, &[kinds >> 4, kinds & 15], depth)
                }
            },
            STRUCT => {
                let mut last = 0;
                while let Some((number, kind)) = self.field(last)? {
                    last = number;
                    self.skip(kind, depth + 1)?;
                }
                Ok(())
            }
            _ => Err(DAMAGED.to_owned()),
        }
    }

    /// Skips so many elements, each of these types, of which each has a byte at least.
    fn skip_all(&mut self, count: u64, kinds: &[u8], depth: usize) -> Result<(), String> {
        for _ in 0..count {
            for &kind in kinds {
                match kind {
                    1 | 2 => self.bytes(1)?,
                    kind => self.skip(kind, depth + 1)?,
                }
            }
        }
        Ok(())
    }

    fn bytes(&mut self, count: u64) -> Result<(), String> {
        let rest = usize::try_from(count)
            .ok()
            .and_then(|count| self.0.get(count..));
        self.0 = rest.ok_or(DAMAGED)?;
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, String> {
        let (first, rest) = self.0.split_first().ok_or(DAMAGED)?;
        self.0 = rest;
        Ok(*first)
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(number);
            }
        }
        Err(DAMAGED.to_owned())
    }

    fn zigzag(&mut self) -> Result<i64, String> {
        let number = self.varint()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}
