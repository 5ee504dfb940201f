//! Runs within another program, such as Python: as `sconce run`, without what belongs to a process of its own.
//!
//! No signal handlers are installed, nothing is printed, the environment and the working directory stay as they are, and nothing ends
//! the process. What the command line prints goes to [`Events`]; what ends its process with an exit code is returned.
//! A hook that crashes or hangs takes the program with it, unless it is isolated.
//!
//! **Parts.** [`TrainingRequest`] says what to train, [`train`] does it and [`check`] says whether it could (`training`), [`Events`] is what happens on the way (`events`, by the
//! run's `log` and `observer`). [`Predictor`] is a trained model (`predictor`).
//!
//! **What a process has once.** The number of threads is the first run's, and another is refused. Results of trials and opened libraries are
//! kept, by their hashes. The clock counts from the run's start. Breadcrumbs of crashes go nowhere. Streams and the terminal are the command line's
//! and unused.
//!
//! **States.** One training at a time: it has the process's threads for itself, and the data that the program provides are known by
//! their paths alone.

mod events;
mod log;
mod observer;
mod predictor;
mod request;
mod training;

pub use events::{Events, HistoryRow, Message, Taken};
pub use predictor::{Predicted, Predictor};
pub use request::TrainingRequest;
pub use training::{EmbeddedRun, RunFailure, check, train};

pub use crate::data::{Content, Provided, ProvidedArray, ProvidedFile};
pub use crate::diagnostic::Diagnostic;
pub use crate::diagnostic::render;
pub use crate::log::Level;
pub use crate::run::{Interrupt, StopSignal};
pub use crate::session::StartFailure;
