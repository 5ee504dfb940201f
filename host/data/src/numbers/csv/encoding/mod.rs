//! Encoding of records as inputs.
//!
//! **Parts**
//! - `encoder`: all columns of a record. `number_column`, `category_column`, `date_column`: each kind, fitted to the training rows.
//! - `encoding_problem`: why a text can't become a column's inputs. `far`: values far from the training's; `unknown`: categories that it
//!   doesn't have.

pub(super) mod category_column;
pub(super) mod date_column;
pub(super) mod encoder;
pub(super) mod encoding_problem;
mod far;
pub(super) mod number_column;
mod unknown;
