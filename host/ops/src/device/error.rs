//! Why a device can't be had, and what to do.

use std::fmt;

/// Why a GPU can't be used. Its text says what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceError {
    /// This build has no CUDA: the feature `cuda` is off.
    NotBuilt,
    /// There is no NVIDIA driver, or it sees no GPU.
    NoDriver {
        /// What the search for the driver's library, or the driver, answered.
        reason: String,
    },
    /// One of the libraries that come with CUDA, not with the driver, can't be opened.
    LibraryMissing {
        /// File name of the library, such as `libcublas.so.13`.
        library: String,
        /// Package of the Python package index that contains it.
        package: String,
        /// What the last attempt to open it answered.
        reason: String,
    },
    /// The driver has no GPU of this index.
    NoSuchDevice {
        /// Index that was asked for.
        index: usize,
        /// Number of GPUs that the driver sees.
        count: usize,
    },
    /// The GPU is older than the one this build's kernels are compiled for.
    TooOld {
        /// Name of the GPU.
        name: String,
        /// Its compute capability.
        capability: (u32, u32),
        /// Lowest compute capability that the kernels run on.
        compiled: (u32, u32),
    },
    /// The kernels are compiled for exactly one compute capability (such as `sm_90a`), and the GPU has another.
    OtherCapability {
        /// Name of the GPU.
        name: String,
        /// Its compute capability.
        capability: (u32, u32),
        /// The compute capability that the kernels run on.
        compiled: (u32, u32),
    },
    /// The driver is older than the toolkit this build was made with, and can't compile its kernels.
    DriverTooOld {
        /// CUDA version of the driver.
        driver: (u32, u32),
        /// Lowest CUDA version that is sufficient.
        needed: (u32, u32),
    },
    /// The driver refused, for another reason.
    Driver {
        /// What was attempted.
        action: String,
        /// What the driver answered.
        reason: String,
    },
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt => f.write_str(
                "this build of Sconce has no CUDA; build it with `--features cuda` (docs/gpu.md), or use `\"device\": \"cpu\"`",
            ),
            Self::NoDriver { reason } => write!(
                f,
                "no CUDA driver: {reason}; install NVIDIA's driver (`nvidia-smi` shows whether it works), \
                 or use `\"device\": \"cpu\"`"
            ),
            Self::LibraryMissing {
                library,
                package,
                reason,
            } => write!(
                f,
                "`{library}` was not found ({reason}); install it with `pip install {package}` in the active Python \
                 environment, or name its directory in `{}`",
                super::LIBRARIES_VARIABLE
            ),
            Self::NoSuchDevice { index, count } => {
                write!(f, "there is no GPU {index}: the driver sees {count}")?;
                match count {
                    0 => f.write_str("; `CUDA_VISIBLE_DEVICES` may hide it"),
                    1 => f.write_str(", which is `cuda:0`"),
                    _ => write!(f, ", `cuda:0` to `cuda:{}`", count - 1),
                }
            }
            Self::TooOld {
                name,
                capability,
                compiled,
            } => write!(
                f,
                "{name} has compute capability {}.{}, but the kernels of this build need {}.{}; build it with \
                 `CUDA_COMPUTE_CAP={}{}`",
                capability.0, capability.1, compiled.0, compiled.1, capability.0, capability.1
            ),
            Self::OtherCapability {
                name,
                capability,
                compiled,
            } => write!(
                f,
                "{name} has compute capability {}.{}, but the kernels of this build run on {}.{} only; build it with \
                 `CUDA_COMPUTE_CAP=80`, whose kernels run on all GPUs from 8.0 on",
                capability.0, capability.1, compiled.0, compiled.1
            ),
            Self::DriverTooOld { driver, needed } => {
                let (major, minor) = *driver;
                write!(
                    f,
                    "the driver supports CUDA {major}.{minor}, but this build needs {}.{}; update the driver, or build with a \
                     toolkit of version {major}.{minor}",
                    needed.0, needed.1
                )?;
                // Older ones are not packaged with their compiler.
                match major {
                    13.. => write!(f, " (`tools/cuda-toolkit --version {major}.{minor} DIRECTORY`)"),
                    _ => Ok(()),
                }
            }
            Self::Driver { action, reason } => write!(f, "could not {action}: {reason}"),
        }
    }
}

impl std::error::Error for DeviceError {}
