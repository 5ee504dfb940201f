//! Families loaded into devices, and their kernels by name.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::Result;
use candle_core::cuda_backend::WrapErr;
use candle_core::cuda_backend::cudarc::driver::{CudaContext, CudaFunction, CudaModule};
use candle_core::cuda_backend::cudarc::nvrtc::Ptx;

use super::compiler;
use super::sources::Family;

/// A family in a device.
struct Loaded {
    module: Arc<CudaModule>,
    kernels: HashMap<String, CudaFunction>,
}

/// By the address of the device's context, which a loaded module keeps, so that no other has it.
static LOADED: Mutex<Option<HashMap<(usize, Family), Loaded>>> = Mutex::new(None);

/// A kernel of a family, which is compiled and loaded where it isn't yet.
pub(in crate::cuda) fn kernel(
    context: &Arc<CudaContext>,
    family: Family,
    name: &str,
) -> Result<CudaFunction> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let loaded = loaded.get_or_insert_default();
    let key = (Arc::as_ptr(context).addr(), family);
    let family = match loaded.entry(key) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => entry.insert(load(context, family)?),
    };
    if let Some(kernel) = family.kernels.get(name) {
        return Ok(kernel.clone());
    }
    let kernel = family.module.load_function(name).w()?;
    family.kernels.insert(name.to_owned(), kernel.clone());
    Ok(kernel)
}

fn load(context: &Arc<CudaContext>, family: Family) -> Result<Loaded> {
    let (major, minor) = context.compute_capability().w()?;
    let image = compiler::image(family, (major.unsigned_abs(), minor.unsigned_abs()))?;
    Ok(Loaded {
        module: context.load_module(Ptx::from_binary(image.to_vec())).w()?,
        kernels: HashMap::new(),
    })
}
