//! Mount points: the points in a run at which hooks are called.
//!
//! A mount point crosses the boundary as a number from an open set, so a host may know more points than a
//! plugin, or fewer.

use std::fmt;

macro_rules! points {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// A point in a run at which hooks are called.
        ///
        /// New points may be added: match with a wildcard arm.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u32)]
        pub enum Point {
            $($(#[$doc])* $variant = $number,)*
        }

        impl Point {
            /// All points of this version of the API, in the order of their numbers.
            pub const ALL: &'static [Point] = &[$(Point::$variant,)*];

            /// Name used in manifests, messages and the [`Hook`](crate::Hook) trait.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Point::$variant => $name,)*
                }
            }

            /// The point with this number; `None` if this version of the API doesn't know it.
            pub const fn from_number(number: u32) -> Option<Point> {
                match number {
                    $($number => Some(Point::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

points! {
    /// Once, first: nothing has been trained yet.
    BeforeRun = 0, "before_run";
    /// Once, last, for every hook if `before_run` was called; carries the outcome.
    AfterRun = 1, "after_run";
    /// Before the whole training, each validation, the test and a prediction.
    BeforeLoop = 2, "before_loop";
    /// After the whole training, each validation, the test and a prediction.
    AfterLoop = 3, "after_loop";
    /// Before each pass over a phase's data.
    BeforeEpoch = 4, "before_epoch";
    /// After each pass over a phase's data; for training, before that epoch's validation.
    AfterEpoch = 5, "after_epoch";
    /// After a training epoch and, if one was due, its validation.
    AfterCycle = 6, "after_cycle";
    /// Before each batch.
    BeforeIter = 7, "before_iter";
    /// After each batch; the counters include it.
    AfterIter = 8, "after_iter";
    /// After the batch's forward pass: its outputs are available.
    AfterForward = 9, "after_forward";
    /// After the batch's loss and metrics are computed.
    AfterLoss = 10, "after_loss";
    /// After the batch's backward pass; parameters are unchanged.
    AfterBackward = 11, "after_backward";
    /// Before the optimizer steps; the accumulated gradients are complete.
    BeforeUpdate = 12, "before_update";
    /// After the optimizer step.
    AfterUpdate = 13, "after_update";
    /// After a named module's forward pass.
    ModuleForward = 14, "module_forward";
    /// After the backward pass, for each named module.
    ModuleBackward = 15, "module_backward";
    /// Before a checkpoint is written.
    BeforeSaveCheckpoint = 16, "before_save_checkpoint";
    /// After a checkpoint was written, or failed to be written.
    AfterSaveCheckpoint = 17, "after_save_checkpoint";
    /// After parameters, optimizer and hook states are restored from a checkpoint.
    AfterLoadCheckpoint = 18, "after_load_checkpoint";
    /// After `after_epoch`: timings of the pass.
    EpochProfile = 19, "epoch_profile";
    /// An error ends the run; comes before `after_run`.
    OnException = 20, "on_exception";
}

impl Point {
    /// The number that represents the point across the boundary.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The point with this name; `None` if there is none.
    ///
    /// ```
    /// use sconce_plugin_api::Point;
    ///
    /// assert_eq!(Point::from_name("after_epoch"), Some(Point::AfterEpoch));
    /// assert_eq!(Point::from_name("after_epok"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Point> {
        Point::ALL
            .iter()
            .copied()
            .find(|point| point.name() == name)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back_to_the_point() {
        for &point in Point::ALL {
            assert_eq!(Point::from_number(point.number()), Some(point));
            assert_eq!(Point::from_name(point.name()), Some(point));
        }
        assert_eq!(Point::from_number(u32::MAX), None);
    }
}
