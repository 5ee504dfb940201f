//! New memory that is written before it is read: by the threads of a region ([`fill`]), or by one (`fresh`).

pub mod fill;
mod fresh;

pub(crate) use fresh::{Cursor, UninitBuffer, write_all, write_rows, written, zeros};
