//! Rows of a tensor collected over batches, in the tensor's own type.

use sconce_plugin_api::prelude::*;
use sconce_plugin_api::tensor::{BrainHalf, Half};
use serde::Serializer;

/// Elements of one type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Elements {
    F32(Vec<f32>),
    F64(Vec<f64>),
    F16(Vec<Half>),
    Bf16(Vec<BrainHalf>),
    I64(Vec<i64>),
    U32(Vec<u32>),
    U8(Vec<u8>),
}

/// Evaluates the same expression for elements of any type.
macro_rules! each {
    ($elements:expr, $name:ident => $what:expr) => {
        match $elements {
            Elements::F32($name) => $what,
            Elements::F64($name) => $what,
            Elements::F16($name) => $what,
            Elements::Bf16($name) => $what,
            Elements::I64($name) => $what,
            Elements::U32($name) => $what,
            Elements::U8($name) => $what,
        }
    };
}

/// A variable's values over a pass: (rows, …).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Saved")]
pub(crate) struct Collected {
    /// Shape of a row.
    shape: Vec<usize>,
    rows: usize,
    elements: Elements,
}

/// Serialised form in a checkpoint.
#[derive(Serialize, Deserialize)]
struct Saved {
    shape: Vec<usize>,
    rows: usize,
    dtype: String,
    /// The elements, little-endian, as hexadecimal digits.
    bytes: String,
}

/// Returns the shape of a tensor's rows and their number. A scalar is one row.
fn rows_of(shape: &[i64]) -> (Vec<usize>, usize) {
    match shape.split_first() {
        None => (Vec::new(), 1),
        Some((&rows, row)) => (
            row.iter().map(|&size| size as usize).collect(),
            rows as usize,
        ),
    }
}

#[track_caller]
fn add<T: Element>(all: &mut Vec<T>, tensor: &Tensor<'_>, count: usize) -> Result<()> {
    let elements = tensor.to_contiguous::<T>()?;
    all.extend_from_slice(elements.get(..count).unwrap_or(&elements));
    Ok(())
}

impl Collected {
    /// Creates an empty collection with a tensor's type and shape.
    #[track_caller]
    fn like(tensor: &Tensor<'_>) -> Result<Collected> {
        let elements = tensor.dtype().and_then(Elements::empty);
        let Some(elements) = elements else {
            bail!(
                "`{}` has elements of a type that is not known here",
                tensor.name()
            );
        };
        Ok(Collected {
            shape: rows_of(tensor.shape()).0,
            rows: 0,
            elements,
        })
    }

    /// Adds at most the first `most` rows of a tensor.
    ///
    /// # Errors
    ///
    /// If its type or the shape of its rows differs from earlier batches.
    #[track_caller]
    pub(crate) fn add(
        place: &mut Option<Collected>,
        tensor: &Tensor<'_>,
        most: usize,
    ) -> Result<()> {
        let (shape, rows) = rows_of(tensor.shape());
        let collected = match place {
            Some(collected) => collected,
            None => place.insert(Collected::like(tensor)?),
        };
        if collected.shape != shape {
            bail!(
                "`{}` has rows of the shape {shape:?}, and had {:?} in the batches before: they make \
                 no one tensor",
                tensor.name(),
                collected.shape
            );
        }
        let rows = rows.min(most);
        let count = rows * shape.iter().product::<usize>();
        each!(&mut collected.elements, all => {
            add(all, tensor, count)?;
        });
        collected.rows += rows;
        Ok(())
    }

    /// Adds a row of values that are not a tensor.
    #[track_caller]
    pub(crate) fn add_numbers(
        place: &mut Option<Collected>,
        name: &str,
        row: &[f64],
    ) -> Result<()> {
        let collected = place.get_or_insert_with(|| Collected {
            shape: if row.len() == 1 {
                Vec::new()
            } else {
                vec![row.len()]
            },
            rows: 0,
            elements: Elements::F64(Vec::new()),
        });
        match &mut collected.elements {
            Elements::F64(all) if collected.shape.iter().product::<usize>() == row.len() => {
                all.extend_from_slice(row);
            }
            _ => bail!(
                "`{name}` has {} numbers now, another count than before",
                row.len()
            ),
        }
        collected.rows += 1;
        Ok(())
    }

    /// Adds at most the first `most` rows of a later batch.
    ///
    /// # Errors
    ///
    /// If its type or the shape of its rows differs from earlier batches.
    #[track_caller]
    pub(crate) fn append(
        place: &mut Option<Collected>,
        name: &str,
        batch: Collected,
        most: usize,
    ) -> Result<()> {
        let Some(collected) = place else {
            *place = Some(batch);
            return Ok(());
        };
        if (&collected.shape, collected.dtype()) != (&batch.shape, batch.dtype()) {
            bail!(
                "`{name}` has rows of the shape {:?}, and had {:?} in the batches before, or of another type: they \
                 make no one tensor",
                batch.shape,
                collected.shape
            );
        }
        let rows = batch.rows.min(most);
        let size = rows * batch.shape.iter().product::<usize>() * batch.dtype().size();
        let bytes = batch.bytes();
        collected
            .elements
            .extend(bytes.get(..size).unwrap_or(&bytes));
        collected.rows += rows;
        Ok(())
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Removes the rows and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.rows = 0;
        each!(&mut self.elements, all => all.clear());
    }

    /// Returns the shape (rows, …).
    pub(crate) fn shape(&self) -> Vec<usize> {
        let mut shape = vec![self.rows];
        shape.extend(&self.shape);
        shape
    }

    pub(crate) fn dtype(&self) -> DType {
        self.elements.dtype()
    }

    /// Returns all elements, little-endian.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.elements.bytes()
    }

    /// Returns a copy with an element type that NumPy supports.
    pub(crate) fn for_numpy(&self) -> Collected {
        let mut collected = self.clone();
        if let Elements::Bf16(all) = &self.elements {
            collected.elements = Elements::F32(all.iter().map(|half| f32::from(*half)).collect());
        }
        collected
    }

    #[track_caller]
    pub(crate) fn publish(&self, task: &mut TaskView<'_>, name: &str, keep: Keep) -> Result<()> {
        let shape = self.shape();
        each!(&self.elements, all => task.publish_tensor(name, &shape, all, keep))
    }

    fn saved(&self) -> Saved {
        let bytes = self.bytes();
        let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16);
        Saved {
            shape: self.shape.clone(),
            rows: self.rows,
            dtype: self.dtype().name().to_owned(),
            bytes: bytes
                .iter()
                .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
                .flatten()
                .collect(),
        }
    }
}

impl Serialize for Collected {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.saved().serialize(serializer)
    }
}

impl TryFrom<Saved> for Collected {
    type Error = HookError;

    fn try_from(saved: Saved) -> Result<Collected> {
        let digits: Option<Vec<u8>> = saved
            .bytes
            .chars()
            .map(|c| c.to_digit(16).map(|digit| digit as u8))
            .collect();
        let digits = digits.ok_or_else(|| HookError::new("the state's elements can't be read"))?;
        if digits.len() % 2 != 0 {
            bail!("the state's elements are cut off");
        }
        let bytes: Vec<u8> = digits
            .chunks_exact(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect();
        let mut elements = (Elements::all().into_iter())
            .find(|elements| elements.dtype().name() == saved.dtype)
            .ok_or_else(|| HookError::new("the state's elements are of an unknown type"))?;
        let row = saved
            .shape
            .iter()
            .try_fold(elements.dtype().size(), |all, &size| all.checked_mul(size));
        if row.and_then(|row| row.checked_mul(saved.rows)) != Some(bytes.len()) {
            bail!(
                "the state has {} bytes for {} rows of the shape {:?}, which do not fit",
                bytes.len(),
                saved.rows,
                saved.shape
            );
        }
        elements.extend(&bytes);
        Ok(Collected {
            shape: saved.shape,
            rows: saved.rows,
            elements,
        })
    }
}

impl Elements {
    fn all() -> [Elements; 7] {
        [
            Elements::F32(Vec::new()),
            Elements::F64(Vec::new()),
            Elements::F16(Vec::new()),
            Elements::Bf16(Vec::new()),
            Elements::I64(Vec::new()),
            Elements::U32(Vec::new()),
            Elements::U8(Vec::new()),
        ]
    }

    fn empty(dtype: DType) -> Option<Elements> {
        Elements::all()
            .into_iter()
            .find(|elements| elements.dtype() == dtype)
    }

    fn dtype(&self) -> DType {
        match self {
            Elements::F32(_) => DType::F32,
            Elements::F64(_) => DType::F64,
            Elements::F16(_) => DType::F16,
            Elements::Bf16(_) => DType::Bf16,
            Elements::I64(_) => DType::I64,
            Elements::U32(_) => DType::U32,
            Elements::U8(_) => DType::U8,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Elements::F32(all) => all.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Elements::F64(all) => all.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Elements::F16(all) => all.iter().flat_map(|x| x.0.to_le_bytes()).collect(),
            Elements::Bf16(all) => all.iter().flat_map(|x| x.0.to_le_bytes()).collect(),
            Elements::I64(all) => all.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Elements::U32(all) => all.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Elements::U8(all) => all.clone(),
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        match self {
            Elements::F32(all) => read(bytes, all, f32::from_le_bytes),
            Elements::F64(all) => read(bytes, all, f64::from_le_bytes),
            Elements::F16(all) => read(bytes, all, |half| Half(u16::from_le_bytes(half))),
            Elements::Bf16(all) => read(bytes, all, |half| BrainHalf(u16::from_le_bytes(half))),
            Elements::I64(all) => read(bytes, all, i64::from_le_bytes),
            Elements::U32(all) => read(bytes, all, u32::from_le_bytes),
            Elements::U8(all) => all.extend_from_slice(bytes),
        }
    }
}

/// Appends elements that take `BYTES` bytes each.
fn read<T, const BYTES: usize>(bytes: &[u8], all: &mut Vec<T>, element: impl Fn([u8; BYTES]) -> T) {
    let (elements, _) = bytes.as_chunks::<BYTES>();
    all.extend(elements.iter().map(|bytes| element(*bytes)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_added_saved_and_restored_as_they_were() {
        let mut place = None;
        Collected::add_numbers(&mut place, "x", &[1.0, f64::NAN]).expect("a row");
        Collected::add_numbers(&mut place, "x", &[-0.0, 3.0]).expect("a row");
        let error = Collected::add_numbers(&mut place, "x", &[1.0]).expect_err("too short");
        assert!(error.message().contains("`x` has 1 numbers now"), "{error}");
        let collected = place.expect("rows");
        assert_eq!((collected.shape(), collected.rows()), (vec![2, 2], 2));
        let restored = Collected::try_from(collected.saved()).expect("restored");
        assert_eq!(restored.bytes(), collected.bytes());
        assert_eq!(
            (restored.shape(), restored.dtype()),
            (vec![2, 2], DType::F64)
        );
    }

    #[test]
    fn elements_of_every_type_go_to_bytes_and_back() {
        for mut elements in Elements::all() {
            let bytes: Vec<u8> = (0..16).collect();
            elements.extend(&bytes);
            assert_eq!(elements.bytes(), bytes);
            assert_eq!(
                Elements::empty(elements.dtype()).map(|empty| empty.dtype()),
                Some(elements.dtype())
            );
        }
    }

    #[test]
    fn numpy_gets_halves_of_the_other_kind_as_floats() {
        let collected = Collected {
            shape: Vec::new(),
            rows: 1,
            elements: Elements::Bf16(vec![BrainHalf(0x3fc0)]),
        };
        assert_eq!(collected.for_numpy().elements, Elements::F32(vec![1.5]));
    }
}
