//! CUDA's run-time library, `libcudart`, as far as candle's kernels for quantised products call it: every call fails.
//!
//! Sconce doesn't multiply quantised matrices. The kernels' registration, which runs before `main`, does nothing.

use std::ffi::{c_char, c_void};

/// `cudaErrorInitializationError`.
const UNAVAILABLE: u32 = 3;

macro_rules! unavailable {
    ($($name:ident)*) => {
        $(
            // SAFETY: the name is meant to be the library's; callers read the code returned and nothing else.
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> u32 {
                UNAVAILABLE
            }
        )*

        #[used]
        static ALL: &[extern "C" fn() -> u32] = &[$($name,)*];
    };
}

mod functions {
    use super::UNAVAILABLE;

    unavailable! {
        __cudaGetKernel __cudaLaunchKernel __cudaLaunchKernel_ptsz __cudaPopCallConfiguration __cudaPushCallConfiguration
        __cudaRegisterFatBinaryEnd __cudaRegisterFunction __cudaRegisterVar __cudaUnregisterFatBinary
        cudaDeviceGetAttribute cudaFree cudaFreeAsync cudaFreeAsync_ptsz cudaFuncGetAttributes cudaFuncSetAttribute
        cudaGetDevice cudaGetDeviceCount cudaGetLastError cudaLaunchKernel cudaLaunchKernel_ptsz cudaMalloc cudaMallocAsync
        cudaMallocAsync_ptsz cudaMemsetAsync cudaMemsetAsync_ptsz cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
        cudaPeekAtLastError cudaSetDevice cudaStreamSynchronize cudaStreamSynchronize_ptsz
    }
}

/// A handle of registered kernels, which is given back to `__cudaRegisterFunction` and read by nobody.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFatBinary(_kernels: *const c_void) -> *const c_void {
    std::ptr::null()
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorName(_code: u32) -> *const c_char {
    super::unavailable_text()
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorString(_code: u32) -> *const c_char {
    super::unavailable_text()
}

/// Makes linkers take this object file, before they see the library.
#[used]
static REGISTRATION: extern "C" fn(*const c_void) -> *const c_void = __cudaRegisterFatBinary;
#[used]
static TEXTS: [extern "C" fn(u32) -> *const c_char; 2] = [cudaGetErrorName, cudaGetErrorString];
