//! Compiles a family by NVRTC, for the device at hand, once per process; see `cache` for once per machine.
//!
//! The result is machine code for the device, which drivers older than NVRTC load too, if they are of the same major version; for devices
//! newer than NVRTC knows it is PTX, which the driver translates.
#![expect(unsafe_code, reason = "calls of NVRTC that cudarc has no safe form of")]

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int};
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::cuda_backend::cudarc::nvrtc::{result, sys};
use candle_core::{Error, Result, bail};

use super::cache;
use super::sources::{Family, Target};

/// What was compiled in this process.
static COMPILED: Mutex<BTreeMap<Key, Arc<[u8]>>> = Mutex::new(BTreeMap::new());

/// A family, and the capability that it was compiled for.
type Key = (Family, (u32, u32));

/// The family for a device of this capability, as the driver loads it: from memory, from disk, or compiled now.
pub(in crate::cuda) fn image(family: Family, capability: (u32, u32)) -> Result<Arc<[u8]>> {
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(image) = compiled.get(&(family, capability)) {
        return Ok(Arc::clone(image));
    }
    let image: Arc<[u8]> = from_disk_or_compiler(family, capability)?.into();
    compiled.insert((family, capability), Arc::clone(&image));
    Ok(image)
}

fn from_disk_or_compiler(family: Family, capability: (u32, u32)) -> Result<Vec<u8>> {
    let text = family.text();
    let target = target(capability)?;
    let options = Family::options(target);
    let key = key(&text, &options, version()?);
    let path = cache::path(family.name(), &key);
    if let Some(image) = path.as_deref().and_then(cache::read) {
        return Ok(image);
    }
    let image = compile(family, &text, &options, target)?;
    if let Some(path) = &path {
        // A cache that can't be written costs a second at the next start.
        drop(cache::write(path, &image));
    }
    Ok(image)
}

/// A program of NVRTC's.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program was created, and is destroyed only here.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

fn compile(family: Family, text: &str, options: &[String], target: Target) -> Result<Vec<u8>> {
    let name = format!("{}.cu", family.name());
    let (source, file) = (CString::new(text), CString::new(name.as_str()));
    let (source, file) = (source.map_err(Error::wrap)?, file.map_err(Error::wrap)?);
    let created = result::create_program(&source, Some(&file));
    let program = Program(created.map_err(Error::wrap)?);
    // SAFETY: the program was created and is not destroyed yet; the options contain no zero bytes.
    if let Err(error) = unsafe { result::compile_program(program.0, options) } {
        // SAFETY: as above.
        let log = unsafe { result::get_program_log(program.0) }.unwrap_or_default();
        let log: Vec<u8> = log.into_iter().map(c_char::cast_unsigned).collect();
        bail!(
            "NVRTC refuses the kernels `{name}` ({}): {error}\n{}",
            options.join(" "),
            String::from_utf8_lossy(&log).trim_end_matches(['\0', '\n'])
        )
    }
    let mut size = 0;
    // SAFETY: the functions write the result's size, then as many bytes to where they are told.
    unsafe {
        let status = match target {
            Target::Device(_) => sys::nvrtcGetCUBINSize(program.0, &raw mut size),
            Target::Older(_) => sys::nvrtcGetPTXSize(program.0, &raw mut size),
        };
        status.result().map_err(Error::wrap)?;
        let mut image = vec![0_u8; size];
        let status = match target {
            Target::Device(_) => sys::nvrtcGetCUBIN(program.0, image.as_mut_ptr().cast()),
            Target::Older(_) => sys::nvrtcGetPTX(program.0, image.as_mut_ptr().cast()),
        };
        status.result().map_err(Error::wrap)?;
        Ok(image)
    }
}

/// The digest of everything that the result depends on.
fn key(text: &str, options: &[String], version: (u32, u32)) -> String {
    let options = options.join(" ");
    let all = format!(
        "sconce.kernels/1\nNVRTC {}.{}\n{options}\n{text}",
        version.0, version.1
    );
    cache::digest(all.as_bytes())
}

/// NVRTC's version.
fn version() -> Result<(u32, u32)> {
    let (mut major, mut minor): (c_int, c_int) = (0, 0);
    // SAFETY: the function writes two integers to where the pointers point.
    let status = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    if status.result().is_err() {
        bail!("NVRTC, the compiler of kernels, does not answer: {status:?}")
    }
    Ok((major.unsigned_abs(), minor.unsigned_abs()))
}

/// What to compile for: the newest capability up to the device's that NVRTC knows. Machine code runs on newer devices of the same major
/// version, PTX on all newer ones.
fn target(device: (u32, u32)) -> Result<Target> {
    let mut count: c_int = 0;
    // SAFETY: the function writes one integer.
    let status = unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) };
    if status.result().is_err() {
        bail!("NVRTC, the compiler of kernels, does not answer: {status:?}")
    }
    let mut known: Vec<c_int> = vec![0; count.unsigned_abs() as usize];
    // SAFETY: the function writes as many integers as it said, which is the vector's length.
    let status = unsafe { sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) };
    if status.result().is_err() {
        bail!("NVRTC, the compiler of kernels, does not answer: {status:?}")
    }
    let wanted = device.0 * 10 + device.1;
    let known = known.into_iter().map(c_int::unsigned_abs);
    match known.filter(|&known| known <= wanted).max() {
        Some(found) if found / 10 == device.0 => Ok(Target::Device((found / 10, found % 10))),
        Some(found) => Ok(Target::Older((found / 10, found % 10))),
        None => bail!(
            "NVRTC compiles no kernels for devices as old as this one, of compute capability {}.{}",
            device.0,
            device.1
        ),
    }
}
