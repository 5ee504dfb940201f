//! From the families' sources to kernels in a device.
//!
//! - `sources`: the families and their texts; `compiler`: NVRTC, which compiles them when first needed; `cache`: what it made, on disk
//! - `modules`: families loaded into devices, and their kernels by name

mod cache;
pub(in crate::cuda) mod compiler;
pub(in crate::cuda) mod modules;
pub(in crate::cuda) mod sources;
