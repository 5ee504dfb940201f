//! Checks of a document, and what is said of its problems.
//!
//! **Parts**
//! - `schema_check`: problems with a JSON Schema; of values with several forms (`forms`), and of integers (`whole_number`).
//! - `semantics`: what no schema can say of a manifest.
//! - `problem`, `wording`: a problem, and its words. `right_form`, `misplaced` and `coming_from` suggest what was meant: a value in
//!   its right form (by an `example`), a key in its place, a word of another framework's. `mentioned`: which value a message is about.
//!
//! **Flow.** `schema_check` and `semantics` each give their problems with the path of the value; `load` adds the places in the text.

pub mod coming_from;
pub mod example;
mod forms;
pub mod mentioned;
mod misplaced;
pub mod problem;
mod right_form;
pub mod schema_check;
pub(super) mod semantics;
mod whole_number;
pub(super) mod wording;
