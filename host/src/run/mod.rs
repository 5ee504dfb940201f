//! A run: the loop over a task, with the mount points around its moments.

mod background;
mod costs;
mod evaluate;
mod failure;
mod finite;
mod interrupt;
mod iteration;
mod keep;
mod modules;
mod observer;
mod plan;
mod profile;
mod remote;
mod renew;
mod reopen;
mod report;
mod restore;
mod resume;
mod save;
mod serve;
mod swap;
mod train;
mod trainer;

pub use failure::{Origin, RunError};
pub use interrupt::{Interrupt, Meaning, Signal};
pub use observer::{Now, Observer};
pub use plan::Plan;
pub use profile::{HookTime, Profile};
pub use remote::{Remote, Wish};
pub use report::{Divergence, Outcome, Report};
pub use resume::Resume;
pub use trainer::Trainer;
