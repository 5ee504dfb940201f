//! Opens a plugin's library in this process.
//!
//! **Parts**
//! - [`library`] opens it and checks the layout of its types, or in C what it returned (`c_root`); `entries`: the functions that roots
//!   have in every language; [`entry_error`]: the errors that these return.
//! - `surroundings`, `settings` and `float_state` restore process-wide state that its code changed, and say so (`change`).
//! - `companions`: other libraries that come into the process with it.
//!
//! **Flow.** Record the surroundings → open the library, whose constructors run → restore them → check its root.

mod c_root;
mod change;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "asks the loader what is loaded")]
pub mod companions;
mod entries;
pub mod entry_error;
pub(crate) mod float_state;
pub mod library;
#[cfg(target_os = "linux")]
mod settings;
mod surroundings;
