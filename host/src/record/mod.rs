//! What a run leaves in its directory beside checkpoints and the files of hooks, and what is said at its start: the same for the
//! command line and for a run in another program ([`embedded`](crate::embedded)).
//!
//! **Parts.** `origin`: what the results came from. `begin`: the manifest, the list of the data's files and the `source` of relative
//! paths, written at the start. `results`: weights, model and record, written at the end. `opening`: the first lines of the log.
//!
//! Problems are returned, never printed.

mod begin;
mod opening;
mod origin;
mod results;
pub(crate) mod source;

pub(crate) use begin::begin;
pub(crate) use opening::opening_lines;
pub(crate) use origin::{Origin, resolved};
pub(crate) use results::{write_record, write_results};
