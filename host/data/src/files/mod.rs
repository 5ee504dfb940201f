//! Files that data are read from.
//!
//! **Parts**
//! - `file`: a complete file, plain or compressed; `safetensors_file`: one of that format. `signature`: the format that a file's first
//!   bytes say.
//! - `memory`: whether samples stay in files and are read on demand; `watched_file`: one of these, which must stay the same.
//! - `provided`: data in memory under the path of a file.
//! - `data_files`: which files were read, by the hashes of their contents.

pub(super) mod data_files;
pub(super) mod file;
pub(super) mod memory;
pub(super) mod provided;
pub mod safetensors_file;
pub mod signature;
pub(super) mod watched_file;
