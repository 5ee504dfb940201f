//! Mount points: the moments of a run at which hooks are called.
//!
//! Across the boundary a mount point is a number in an open set: a host that knows more points
//! than a plugin breaks nothing, and neither does the reverse.

use std::fmt;

macro_rules! points {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// A moment of a run at which hooks are called.
        ///
        /// The set grows: match with a wildcard arm.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u32)]
        pub enum Point {
            $($(#[$doc])* $variant = $number,)*
        }

        impl Point {
            /// All points of this version of the API, in the order of their numbers.
            pub const ALL: &'static [Point] = &[$(Point::$variant,)*];

            /// The name that manifests, messages and the [`Hook`](crate::Hook) trait use.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Point::$variant => $name,)*
                }
            }

            /// The point with this number, if this version of the API knows it.
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
    /// Once, last, for every hook once `before_run` has been called; carries the outcome.
    AfterRun = 1, "after_run";
    /// Before the whole training, each validation, the test, a prediction.
    BeforeLoop = 2, "before_loop";
    /// After the whole training, each validation, the test, a prediction.
    AfterLoop = 3, "after_loop";
    /// Before each pass over a phase's data.
    BeforeEpoch = 4, "before_epoch";
    /// After each pass over a phase's data; for training: before that epoch's validation.
    AfterEpoch = 5, "after_epoch";
    /// A training epoch and, where due, its validation are both over.
    AfterCycle = 6, "after_cycle";
    /// Before each batch.
    BeforeIter = 7, "before_iter";
    /// After each batch; the counters already count it.
    AfterIter = 8, "after_iter";
    /// The batch's outputs exist.
    AfterForward = 9, "after_forward";
    /// The batch's loss and metrics exist.
    AfterLoss = 10, "after_loss";
    /// The batch's gradients exist, parameters are unchanged.
    AfterBackward = 11, "after_backward";
    /// The accumulated gradients are complete, the optimizer is about to step.
    BeforeUpdate = 12, "before_update";
    /// The parameters have been stepped.
    AfterUpdate = 13, "after_update";
    /// A named module ran forward.
    ModuleForward = 14, "module_forward";
    /// A named module's gradients exist.
    ModuleBackward = 15, "module_backward";
    /// A checkpoint is about to be written.
    BeforeSaveCheckpoint = 16, "before_save_checkpoint";
    /// A checkpoint was written, or failed to be.
    AfterSaveCheckpoint = 17, "after_save_checkpoint";
    /// Parameters, optimizer and hook states are back.
    AfterLoadCheckpoint = 18, "after_load_checkpoint";
    /// After `after_epoch`: where the epoch's time went.
    EpochProfile = 19, "epoch_profile";
    /// An error ends the run; before `after_run`.
    OnException = 20, "on_exception";
}

impl Point {
    /// The number that crosses the boundary.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The point of this name.
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
