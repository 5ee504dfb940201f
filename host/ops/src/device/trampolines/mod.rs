//! The functions of NVIDIA's libraries, defined here: each jumps to the library's own, once that is open.
//!
//! Candle links these libraries (`cudarc`'s feature `dynamic-linking`), so that the program would not even start on a machine
//! that has none. As every function is defined here, the linker takes these definitions and names no library as needed.
//! [`super::libraries`] opens the libraries and writes the functions' addresses into the tables that the trampolines jump through.
//! Before that, and for functions that an older library doesn't have, they lead to a function that returns the library's
//! error code for it.
//!
//! - `driver`, `cublas`, `cublas_lt`, `curand`, `nvrtc`: the functions of these libraries that `cudarc` declares, in any of the
//!   CUDA versions it knows.
//! - `runtime`: the functions of `libcudart` that candle's kernels for quantised products call, which Sconce doesn't use.
#![expect(unsafe_code, reason = "functions of C's interface are defined")]

pub(super) mod cublas;
pub(super) mod cublas_lt;
pub(super) mod curand;
pub(super) mod driver;
pub(super) mod nvrtc;
mod runtime;

use std::ffi::{c_char, c_void};
use std::sync::atomic::AtomicPtr;

/// A function of a library: its name, and where its trampoline jumps to.
pub(super) type Entry = (&'static str, &'static AtomicPtr<c_void>);

/// What functions that return a text say while their library isn't open.
static UNAVAILABLE_TEXT: &std::ffi::CStr = c"the library is not open";

/// Stands for functions that return a text.
extern "C" fn unavailable_text() -> *const c_char {
    UNAVAILABLE_TEXT.as_ptr()
}

/// Defines a function of this name that jumps to the address in `TABLE[Index::name]`.
macro_rules! trampoline {
    ($name:ident) => {
        /// # Safety
        /// As the library's function of this name.
        #[unsafe(naked)]
        // SAFETY: the name is meant to be the library's, whose declarations elsewhere resolve to this definition.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            // All registers and the stack are left as they are, but for x16, which calls may overwrite.
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "jmp qword ptr [rip + {table} + {offset}]",
                table = sym TABLE,
                offset = const Index::$name as usize * size_of::<usize>(),
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "adrp x16, {table} + {offset}",
                "ldr x16, [x16, :lo12:{table} + {offset}]",
                "br x16",
                table = sym TABLE,
                offset = const Index::$name as usize * size_of::<usize>(),
            );
        }
    };
}

/// Defines the trampolines of one library, in a module of its own.
///
/// - `unavailable`: the value that functions return while the library is not open; it is one of the library's error codes.
/// - `codes`: functions that return such codes, or nothing; `texts`: functions that return a text.
macro_rules! library {
    (
        unavailable: $code:literal,
        codes: [$($name:ident),* $(,)?],
        texts: [$($text:ident),* $(,)?] $(,)?
    ) => {
        #[expect(non_camel_case_types, reason = "the functions' own names")]
        enum Index { $($name,)* $($text,)* Length }

        static TABLE: [std::sync::atomic::AtomicPtr<std::ffi::c_void>; Index::Length as usize] = [
            $({ let _ = Index::$name; std::sync::atomic::AtomicPtr::new(unavailable as *mut std::ffi::c_void) },)*
            $({ let _ = Index::$text; std::sync::atomic::AtomicPtr::new(super::unavailable_text as *mut std::ffi::c_void) },)*
        ];

        extern "C" fn unavailable() -> u32 {
            $code
        }

        mod functions {
            use super::{Index, TABLE};
            $(super::super::trampoline!($name);)*
            $(super::super::trampoline!($text);)*

            /// Makes linkers take this object file, before they see the library.
            #[used]
            static ALL: [unsafe extern "C" fn(); Index::Length as usize] = [$($name,)* $($text,)*];
        }

        /// The library's functions.
        pub(in crate::device) fn entries() -> impl Iterator<Item = super::Entry> {
            [$(stringify!($name),)* $(stringify!($text),)*].into_iter().zip(&TABLE)
        }
    };
}

use {library, trampoline};
