//! Opens NVIDIA's libraries at run time and connects the trampolines with them.
//!
//! They are looked for in this order: the directory of [`LIBRARIES_VARIABLE`]; where the system's loader looks; in a CUDA
//! toolkit; in packages of Python. An open library is never closed: candle's objects live as long as the process.
#![expect(unsafe_code, reason = "libraries are opened at run time")]

use std::env;
use std::error::Error;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use libloading::Library;

use super::trampolines::{Entry, cublas, cublas_lt, curand, driver, nvrtc};
use super::{DeviceError, LIBRARIES_VARIABLE};

/// Directories of drivers that the loader doesn't search everywhere: WSL's and NixOS's.
const DRIVERS: [&str; 2] = ["/usr/lib/wsl/lib", "/run/opengl-driver/lib"];

/// Variables that name a CUDA toolkit, the first of them first.
const TOOLKIT_VARIABLES: [&str; 3] = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"];

/// Opens all libraries, once per process.
///
/// `cuda` is the major CUDA version that candle was compiled for: libraries of another don't have the functions it calls.
pub(super) fn open(cuda: u32) -> Result<(), DeviceError> {
    static OPENED: OnceLock<Result<(), DeviceError>> = OnceLock::new();
    OPENED.get_or_init(|| open_all(cuda)).clone()
}

/// NVIDIA's library of figures (NVML), which is in the same places as the driver's; `None` if it isn't installed.
pub(super) fn figures() -> Option<Library> {
    let found = find("libnvidia-ml.so.1", &searched(DRIVERS.map(PathBuf::from)));
    found.ok().map(|(library, _)| library)
}

/// NCCL, which moves bytes between GPUs; why it can't be opened, if so.
pub(super) fn nccl() -> Result<Library, String> {
    let directories = searched(toolkits().into_iter().chain(python_packages()));
    find("libnccl.so.2", &directories).map(|(library, _)| library)
}

/// The Python package that contains NCCL: it carries the number of the major CUDA version that this build is for.
pub(super) fn nccl_package() -> String {
    format!("nvidia-nccl-cu{}", super::target::major_version())
}

fn open_all(cuda: u32) -> Result<(), DeviceError> {
    let drivers = searched(DRIVERS.map(PathBuf::from));
    let (driver, _) =
        find("libcuda.so.1", &drivers).map_err(|reason| DeviceError::NoDriver { reason })?;
    connect(&driver, driver::entries());
    std::mem::forget(driver);

    let directories = searched(toolkits().into_iter().chain(python_packages()));
    let open = |file: String, package: &str| {
        find(&file, &directories).map_err(|reason| DeviceError::LibraryMissing {
            library: file,
            // Packages of CUDA 12 carry its number.
            package: match cuda {
                12 => format!("{package}-cu12"),
                _ => package.to_owned(),
            },
            reason,
        })
    };
    // cuBLAS needs cuBLASLt, which the loader then finds open.
    let (library, _) = open(format!("libcublasLt.so.{cuda}"), "nvidia-cublas")?;
    connect(&library, cublas_lt::entries());
    std::mem::forget(library);
    let (library, _) = open(format!("libcublas.so.{cuda}"), "nvidia-cublas")?;
    connect(&library, cublas::entries());
    std::mem::forget(library);
    let (library, _) = open("libcurand.so.10".to_owned(), "nvidia-curand")?;
    connect(&library, curand::entries());
    std::mem::forget(library);
    let (library, directory) = open(format!("libnvrtc.so.{cuda}"), "nvidia-cuda-nvrtc")?;
    connect(&library, nvrtc::entries());
    std::mem::forget(library);
    if let Some(directory) = directory {
        open_builtins(&directory, cuda);
    }
    Ok(())
}

/// Opens the library of NVRTC's built-in functions. NVRTC opens it when it compiles, by its name alone: without this the loader
/// would not find it beside NVRTC, outside the directories that it searches.
fn open_builtins(directory: &Path, cuda: u32) {
    let beginning = format!("libnvrtc-builtins.so.{cuda}.");
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for file in files.filter(|file| file.file_name().to_string_lossy().starts_with(&beginning)) {
        // SAFETY: as in `find`. If it can't be opened, NVRTC says so when it compiles.
        if let Ok(library) = unsafe { Library::new(file.path()) } {
            std::mem::forget(library);
        }
    }
}

/// Writes the addresses of a library's functions into the trampolines' table.
fn connect(library: &Library, entries: impl Iterator<Item = Entry>) {
    for (name, target) in entries {
        // SAFETY: the address is not used as a reference; what calls it declares the library's own type.
        let symbol = unsafe { library.get::<*mut c_void>(name) };
        if let Ok(address) = symbol {
            target.store(*address, Ordering::Release);
        }
    }
}

/// Opens a library in one of these directories, and says in which; `None` among them is where the loader looks.
fn find(file: &str, directories: &[Option<PathBuf>]) -> Result<(Library, Option<PathBuf>), String> {
    let mut reason = None;
    for directory in directories {
        let path = match directory {
            Some(directory) => directory.join(file),
            None => PathBuf::from(file),
        };
        if directory.is_some() && !path.exists() {
            continue;
        }
        // SAFETY: the library's initialisers are NVIDIA's, which the user asked to be run.
        match unsafe { Library::new(&path) } {
            Ok(library) => return Ok((library, directory.clone())),
            // A file that exists and can't be opened says more than a search that found none.
            Err(error) if directory.is_some() || reason.is_none() => {
                reason = Some(match error.source() {
                    // The loader's words.
                    Some(loader) => loader.to_string(),
                    None => error.to_string(),
                });
            }
            Err(_) => {}
        }
    }
    Err(reason.unwrap_or_else(|| format!("`{file}` is nowhere")))
}

/// The directories to search, in order.
fn searched(others: impl IntoIterator<Item = PathBuf>) -> Vec<Option<PathBuf>> {
    let first = env::var_os(LIBRARIES_VARIABLE).filter(|it| !it.is_empty());
    let first = first.map(|directory| Some(PathBuf::from(directory)));
    let others = others.into_iter().map(Some);
    first.into_iter().chain([None]).chain(others).collect()
}

/// Libraries' directories of CUDA toolkits.
fn toolkits() -> Vec<PathBuf> {
    let named = TOOLKIT_VARIABLES.iter().filter_map(env::var_os);
    let named = named.filter(|it| !it.is_empty()).map(PathBuf::from);
    let all = named.chain([PathBuf::from("/usr/local/cuda")]);
    all.flat_map(|home| [home.join("lib64"), home.join("lib")])
        .collect()
}

/// The folders `nvidia/*/lib` of Python environments: the active one, that of the `python3` on the path, the user's.
fn python_packages() -> Vec<PathBuf> {
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].iter();
    let active = active.filter_map(env::var_os).map(PathBuf::from);
    let user = env::var_os("HOME").map(|home| Path::new(&home).join(".local"));
    active
        .chain(python_prefix())
        .chain(user)
        .chain([PathBuf::from("/usr/local"), PathBuf::from("/usr")])
        .flat_map(|prefix| {
            let pythons = folders(&prefix.join("lib"), "python3");
            let packages = pythons
                .into_iter()
                .flat_map(|python| [python.join("site-packages"), python.join("dist-packages")]);
            let libraries = packages.flat_map(|packages| folders(&packages.join("nvidia"), ""));
            // Conda's packages have theirs in the environment's own folder.
            [prefix.join("lib")]
                .into_iter()
                .chain(libraries.map(|folder| folder.join("lib")))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Where the `python3` on the path is installed.
fn python_prefix() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let python = env::split_paths(&path)
        .map(|directory| directory.join("python3"))
        .find(|python| python.exists())?;
    // A link in a virtual environment is not followed: its packages are the environment's.
    Some(python.parent()?.parent()?.to_owned())
}

/// The folders in a directory whose names begin so, in order.
fn folders(directory: &Path, beginning: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(beginning))
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}
