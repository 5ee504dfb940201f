//! Layers in the manifest, and what they are given there.

mod extent;
mod init;
mod layer;

pub use extent::Extent;
pub use init::InitConfig;
pub use layer::LayerConfig;
