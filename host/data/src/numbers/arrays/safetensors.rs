//! Reading of safetensors files.

use std::path::Path;

use safetensors::{Dtype, SafeTensors};

use super::ArrayError;
use super::array::{Array, ArrayElements};
use super::element::ArrayElement;
use crate::error::unreadable;
use crate::files::data_files;
use crate::safetensors_file::{self, SafetensorsProblem};

/// Reads the tensors with these names.
pub(super) fn read<const N: usize>(
    file: &Path,
    names: [&str; N],
) -> Result<[Array; N], crate::DataError> {
    let bytes = contents(file)?;
    let tensors = parse(&bytes, file)?;
    let arrays: Vec<Array> = names
        .iter()
        .map(|name| tensor(file, &tensors, name))
        .collect::<Result<_, _>>()?;
    // There is one array per name.
    arrays.try_into().map_err(|_| {
        let problem = "its tensors can't be counted".to_owned();
        let file = file.to_owned();
        ArrayError::NotSafetensors { file, problem }.into()
    })
}

/// Reads all tensors that can be used, with their names.
pub(super) fn read_all(file: &Path) -> Result<Vec<(String, Array)>, crate::DataError> {
    let bytes = contents(file)?;
    let tensors = parse(&bytes, file)?;
    let names = tensors.names().into_iter();
    let arrays = names.map(|name| Some((name.to_owned(), tensor(file, &tensors, name).ok()?)));
    Ok(arrays.flatten().collect())
}

fn contents(file: &Path) -> Result<Vec<u8>, crate::DataError> {
    let bytes = safetensors_file::read(file).map_err(|problem| match problem {
        SafetensorsProblem::System(error) => unreadable(file, error),
        SafetensorsProblem::Format { reason, .. } => ArrayError::NotSafetensors {
            file: file.to_owned(),
            problem: reason.to_string(),
        }
        .into(),
    })?;
    data_files::note(file, &bytes);
    Ok(bytes)
}

fn parse<'a>(bytes: &'a [u8], file: &Path) -> Result<SafeTensors<'a>, ArrayError> {
    SafeTensors::deserialize(bytes).map_err(|error| ArrayError::NotSafetensors {
        file: file.to_owned(),
        problem: error.to_string(),
    })
}

fn tensor(file: &Path, tensors: &SafeTensors<'_>, name: &str) -> Result<Array, ArrayError> {
    let Ok(view) = tensors.tensor(name) else {
        let mut known: Vec<String> = tensors.names().into_iter().map(str::to_owned).collect();
        known.sort_unstable();
        return Err(ArrayError::UnknownTensor {
            file: file.to_owned(),
            name: name.to_owned(),
            known,
        });
    };
    let place = format!("`{name}` of `{}`", file.display());
    let Some(element) = element(view.dtype()) else {
        return Err(ArrayError::ElementType {
            place,
            found: format!("{:?}", view.dtype()),
        });
    };
    let elements = ArrayElements::read(element, view.data(), false);
    Array::new(place, view.shape().to_vec(), elements)
}

fn element(dtype: Dtype) -> Option<ArrayElement> {
    Some(match dtype {
        Dtype::F16 => ArrayElement::F16,
        Dtype::BF16 => ArrayElement::Bf16,
        Dtype::F32 => ArrayElement::F32,
        Dtype::F64 => ArrayElement::F64,
        Dtype::I8 => ArrayElement::I8,
        Dtype::I16 => ArrayElement::I16,
        Dtype::I32 => ArrayElement::I32,
        Dtype::I64 => ArrayElement::I64,
        Dtype::U8 => ArrayElement::U8,
        Dtype::U16 => ArrayElement::U16,
        Dtype::U32 => ArrayElement::U32,
        Dtype::U64 => ArrayElement::U64,
        Dtype::BOOL => ArrayElement::Bool,
        _ => return None,
    })
}
