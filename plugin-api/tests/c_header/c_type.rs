//! How the types of the interface are written in C.

use std::ffi::c_void;

use abi_stable::std_types::{RString, RVec};
use sconce_plugin_api::abi::*;
use sconce_plugin_api::ext::*;

/// A type that has a counterpart in `sconce.h`.
pub(crate) trait CType {
    /// A declaration of `name` with this type.
    fn declare(name: &str) -> String;
}

macro_rules! named {
    ($($rust:ty => $c:literal,)*) => {
        $(impl CType for $rust {
            fn declare(name: &str) -> String {
                format!("{} {name}", $c)
            }
        })*
    };
}

named! {
    () => "void",
    c_void => "void",
    u8 => "uint8_t",
    u16 => "uint16_t",
    u32 => "uint32_t",
    u64 => "uint64_t",
    usize => "size_t",
    i32 => "int32_t",
    i64 => "int64_t",
    f64 => "double",
    ErrorAbi => "sconce_error",
    RVec<u8> => "sconce_bytes",
    RString => "sconce_string",
    TextAbi => "sconce_text",
    ViewAbi => "sconce_view",
    HookTimeAbi => "sconce_hook_time",
    HostRoot => "sconce_host",
    SetupAbi => "sconce_setup",
    HookTable => "sconce_hook_table",
    HookAbi => "sconce_hook",
    MetricAbi => "sconce_metric",
    TensorAbi => "sconce_tensor",
    VectorsAbi => "sconce_vectors",
    DeviceAbi => "sconce_device",
    GpuFiguresAbi => "sconce_gpu_figures",
    GpuSpanAbi => "sconce_gpu_span",
    GroupAbi => "sconce_group",
    RetainedAbi => "sconce_retained",
}

// All pointers here lead to named types, which `const` stands before.
impl<T: CType> CType for *const T {
    fn declare(name: &str) -> String {
        format!("const {}", T::declare(&format!("*{name}")))
    }
}

impl<T: CType> CType for *mut T {
    fn declare(name: &str) -> String {
        T::declare(&format!("*{name}"))
    }
}

/// A function pointer that may be null.
impl<F: CType> CType for Option<F> {
    fn declare(name: &str) -> String {
        F::declare(name)
    }
}

macro_rules! functions {
    ($(($($argument:ident),*),)*) => {
        $(impl<R: CType, $($argument: CType),*> CType for unsafe extern "C" fn($($argument),*) -> R {
            fn declare(name: &str) -> String {
                let arguments = [$($argument::declare("")),*];
                R::declare(&format!("(*{name})({})", arguments.join(", ")))
            }
        })*
    };
}

functions! {
    (A),
    (A, B),
    (A, B, C),
    (A, B, C, D),
    (A, B, C, D, E),
    (A, B, C, D, E, F),
    (A, B, C, D, E, F, G),
    (A, B, C, D, E, F, G, H),
}
