//! Reading of safetensors files.

use std::path::Path;

use safetensors::{Dtype, SafeTensors};

use super::Error;
use super::array::{Array, Element};

/// Reads the tensors with these names.
pub(super) fn read<const N: usize>(
    file: &Path,
    names: [&str; N],
) -> Result<[Array; N], crate::Error> {
    let bytes = crate::file::contents(file)?;
    let tensors = SafeTensors::deserialize(&bytes).map_err(|error| Error::NotSafetensors {
        file: file.to_owned(),
        problem: error.to_string(),
    })?;
    let arrays: Vec<Array> = names
        .iter()
        .map(|name| tensor(file, &tensors, name))
        .collect::<Result<_, _>>()?;
    // There is one array per name.
    arrays.try_into().map_err(|_| {
        let problem = "its tensors can't be counted".to_owned();
        let file = file.to_owned();
        Error::NotSafetensors { file, problem }.into()
    })
}

fn tensor(file: &Path, tensors: &SafeTensors<'_>, name: &str) -> Result<Array, Error> {
    let Ok(view) = tensors.tensor(name) else {
        let mut known: Vec<String> = tensors.names().into_iter().map(str::to_owned).collect();
        known.sort_unstable();
        return Err(Error::UnknownTensor {
            file: file.to_owned(),
            name: name.to_owned(),
            known,
        });
    };
    let place = format!("`{name}` of `{}`", file.display());
    let Some(element) = element(view.dtype()) else {
        return Err(Error::ElementType {
            place,
            found: format!("{:?}", view.dtype()),
        });
    };
    let elements = element.read(view.data(), false);
    Array::new(place, view.shape().to_vec(), elements)
}

fn element(dtype: Dtype) -> Option<Element> {
    Some(match dtype {
        Dtype::F16 => Element::F16,
        Dtype::BF16 => Element::Bf16,
        Dtype::F32 => Element::F32,
        Dtype::F64 => Element::F64,
        Dtype::I8 => Element::I8,
        Dtype::I16 => Element::I16,
        Dtype::I32 => Element::I32,
        Dtype::I64 => Element::I64,
        Dtype::U8 => Element::U8,
        Dtype::U16 => Element::U16,
        Dtype::U32 => Element::U32,
        Dtype::U64 => Element::U64,
        Dtype::BOOL => Element::Bool,
        _ => return None,
    })
}
