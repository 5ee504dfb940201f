//! Values that several kinds of layers have: sizes over images, initialisations, and defaults.

pub(super) mod defaults;
mod extent;
mod init;

pub use extent::Extent;
pub use init::InitConfig;
