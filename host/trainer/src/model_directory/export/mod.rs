//! A trained model as a directory of another library.
//!
//! **Parts.** `transformers`: the files that this library has for the model's family. `pytorch`: a module of `PyTorch`, generated from
//! the model's operations. `directory`: files that are at their place together or not at all. `error`: [`ModelExportError`].

mod directory;
mod error;
mod pytorch;
mod transformers;

pub use directory::ExportedDirectory;
pub use error::ModelExportError;
