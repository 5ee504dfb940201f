//! Tensors that are stored in files, and have not been read: names, shapes and types are known, elements are read where they
//! are wanted.
//!
//! **Parts.** [`StoredTensor`]; `fill`, which reads elements into the memory of a tensor that is there; `element`, their types in
//! files.

mod element;
mod fill;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use safetensors::View;
use safetensors::tensor::{Dtype, TensorInfo};
use sconce_data::safetensors_file::SafetensorsFile;

pub(crate) use element::name_of;
use fill::{fill, is_equal};

use super::WeightsError;
use crate::parameters::Parameter;

/// Size in bytes of the pieces in which tensors are copied from file to file.
const COPIED: usize = 1 << 20;

/// A tensor in a file, by its name there.
#[derive(Debug)]
pub(crate) struct StoredTensor {
    name: String,
    shape: Vec<usize>,
    dtype: Dtype,
    place: Place,
}

/// Where the elements of a stored tensor are.
#[derive(Debug)]
enum Place {
    Safetensors {
        path: PathBuf,
        file: Arc<SafetensorsFile>,
        info: TensorInfo,
    },
    /// In a file of PyTorch's.
    Torch {
        path: PathBuf,
        tensor: pytorch_reader::Tensor,
    },
    /// It has been read already, as from a checkpoint, whose files are verified as a whole.
    Memory(Tensor),
}

impl StoredTensor {
    /// A tensor of an open safetensors file.
    pub(crate) fn in_safetensors(
        path: &Path,
        file: &Arc<SafetensorsFile>,
        name: &str,
        info: &TensorInfo,
    ) -> StoredTensor {
        StoredTensor {
            name: name.to_owned(),
            shape: info.shape.clone(),
            dtype: info.dtype,
            place: Place::Safetensors {
                path: path.to_owned(),
                file: Arc::clone(file),
                info: info.clone(),
            },
        }
    }

    /// A tensor of an open file of PyTorch's.
    pub(crate) fn in_torch(
        path: &Path,
        name: String,
        tensor: pytorch_reader::Tensor,
    ) -> StoredTensor {
        StoredTensor {
            name,
            shape: tensor.shape().to_vec(),
            dtype: element::of_torch(tensor.dtype()),
            place: Place::Torch {
                path: path.to_owned(),
                tensor,
            },
        }
    }

    /// A tensor in memory.
    pub(crate) fn in_memory(name: String, tensor: Tensor) -> StoredTensor {
        StoredTensor {
            name,
            shape: tensor.dims().to_vec(),
            dtype: tensor.dtype().into(),
            place: Place::Memory(tensor),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn rename(&mut self, name: String) {
        self.name = name;
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Type of its elements in the file.
    pub(crate) fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Whether its elements can be read as numbers, or why not.
    pub(crate) fn check(&self) -> Result<(), WeightsError> {
        match &self.place {
            Place::Safetensors { path, .. } if !element::is_number(self.dtype) => {
                Err(WeightsError::Element {
                    path: path.clone(),
                    name: self.name.clone(),
                    found: format!("{:?}", self.dtype),
                })
            }
            _ => Ok(()),
        }
    }

    /// Reads the elements into a parameter's own memory, converted to its type.
    pub(crate) fn read_into(&self, parameter: &Parameter) -> Result<(), WeightsError> {
        let own = parameter.tensor();
        let is_in_place = own.device().is_cpu() && fill::is_filled(own.dtype());
        if !is_in_place {
            return Ok(parameter.assign(&self.to_tensor()?)?);
        }
        self.with_bytes(|place| match place {
            Bytes::At(read) => fill(own, self.dtype, read),
            Bytes::Tensor(tensor) => parameter.assign(tensor),
        })
    }

    /// Whether all elements, converted to a parameter's type, are its own.
    pub(crate) fn is_equal_to(&self, parameter: &Parameter) -> Result<bool, WeightsError> {
        let own = parameter.tensor();
        if self.shape != own.dims() {
            return Ok(false);
        }
        if !fill::is_filled(own.dtype()) {
            let found = self.to_tensor()?.to_dtype(own.dtype())?;
            let same = found.eq(&own.to_device(&Device::Cpu)?)?;
            return Ok(same.to_dtype(DType::F64)?.min_all()?.to_scalar::<f64>()? > 0.0);
        }
        let own = own.to_device(&Device::Cpu)?.contiguous()?;
        self.with_bytes(|place| match place {
            Bytes::At(read) => is_equal(&own, self.dtype, read),
            Bytes::Tensor(tensor) => {
                let same = tensor.to_dtype(own.dtype())?.eq(&own)?;
                Ok(same.to_dtype(DType::F64)?.min_all()?.to_scalar::<f64>()? > 0.0)
            }
        })
    }

    /// Reads it as a tensor of its own, in host memory, of the type that it has in the file.
    pub(crate) fn to_tensor(&self) -> Result<Tensor, WeightsError> {
        self.check()?;
        let dtype = element::in_memory(self.dtype);
        self.with_bytes(|place| match place {
            Bytes::Tensor(tensor) => Ok(tensor.clone()),
            Bytes::At(read) if fill::is_filled(dtype) => {
                let tensor = Tensor::zeros(self.shape.as_slice(), dtype, &Device::Cpu)?;
                fill(&tensor, self.dtype, read)?;
                Ok(tensor)
            }
            Bytes::At(read) => {
                let mut bytes = vec![0; self.byte_count()];
                read(0, &mut bytes)?;
                Tensor::from_raw_buffer(&bytes, dtype, &self.shape, &Device::Cpu)
            }
        })
    }

    /// Writes its bytes as they are in the file.
    pub(crate) fn copy_bytes(&self, into: &mut dyn Write) -> Result<(), WeightsError> {
        let size = self.byte_count();
        self.with_bytes(|place| match place {
            Bytes::Tensor(tensor) => Ok(into.write_all(&View::data(&tensor))?),
            Bytes::At(read) => {
                let mut piece = vec![0; COPIED.min(size)];
                let mut from = 0;
                while from < size {
                    let count = piece.len().min(size - from);
                    let piece = piece.get_mut(..count).unwrap_or_default();
                    read(from as u64, piece)?;
                    into.write_all(piece)?;
                    from += count;
                }
                Ok(())
            }
        })
    }

    /// Number of bytes of its elements in the file.
    pub(crate) fn byte_count(&self) -> usize {
        let count: usize = self.shape.iter().product();
        count * self.dtype.bitsize() / 8
    }

    /// Calls `work` with what reads its bytes.
    fn with_bytes<T>(
        &self,
        work: impl FnOnce(Bytes<'_>) -> candle_core::Result<T>,
    ) -> Result<T, WeightsError> {
        let unreadable = |path: &Path, source| WeightsError::Unreadable {
            path: path.to_owned(),
            name: self.name.clone(),
            source,
        };
        let done = |path: &Path, result: candle_core::Result<T>| {
            result.map_err(|error| match error {
                candle_core::Error::Io(source) => unreadable(path, source),
                other => other.into(),
            })
        };
        match &self.place {
            Place::Memory(tensor) => Ok(work(Bytes::Tensor(tensor))?),
            Place::Safetensors { path, file, info } => {
                let read = |from: u64, buffer: &mut [u8]| file.read_at(info, from, buffer);
                done(path, work(Bytes::At(&read)))
            }
            Place::Torch { path, tensor } => {
                let bytes = tensor.read().map_err(|source| unreadable(path, source))?;
                let read = |from: u64, buffer: &mut [u8]| {
                    let found = usize::try_from(from)
                        .ok()
                        .and_then(|from| bytes.get(from..)?.get(..buffer.len()));
                    buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                    Ok(())
                };
                done(path, work(Bytes::At(&read)))
            }
        }
    }
}

/// How the elements of a tensor are had.
enum Bytes<'a> {
    At(fill::ReadAt<'a>),
    Tensor(&'a Tensor),
}
