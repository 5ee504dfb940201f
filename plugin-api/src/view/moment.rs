//! The moments of a run as types, and what each allows: what is legal is what compiles.
//!
//! A mount point hands its hook an [`At`](super::At) of its own moment. What only some moments allow is bound to a trait of
//! this module, so that a call at a wrong one does not compile, and the error names the right ones. The host checks again,
//! by [`Request::is_legal_at`](crate::ext::Request::is_legal_at), as hooks in C and Python have that check alone; a test
//! holds the two against each other.

use std::marker::PhantomData;

use crate::Point;

/// A moment of a run, at which hooks are called. Sealed: the moments are the types of this module.
pub trait Moment: sealed::Sealed {
    /// Its mount point; `None` for [`Any`].
    const POINT: Option<Point>;
}

mod sealed {
    pub trait Sealed {}
}

/// A moment of the training, not of a validation or test: see [`At::in_training`](super::At::in_training).
#[derive(Debug)]
pub struct Training<M>(PhantomData<M>);

impl<M: Moment> sealed::Sealed for Training<M> {}

impl<M: Moment> Moment for Training<M> {
    const POINT: Option<Point> = M::POINT;
}

/// Any moment: all that some moment allows, checked by the host alone. For the runtimes of other languages; see
/// [`At::any`](super::At::any).
#[derive(Debug)]
pub struct Any;

impl sealed::Sealed for Any {}

impl Moment for Any {
    const POINT: Option<Point> = None;
}

macro_rules! moments {
    ($($moment:ident,)*) => {
        $(
            #[doc = concat!("The moment of the mount point [`", stringify!($moment), "`](Point::", stringify!($moment), ").")]
            #[derive(Debug)]
            pub struct $moment;

            impl sealed::Sealed for $moment {}

            impl Moment for $moment {
                const POINT: Option<Point> = Some(Point::$moment);
            }
        )*
    };
}

moments! {
    BeforeRun, AfterRun, BeforeLoop, AfterLoop, BeforeEpoch, AfterEpoch, AfterCycle, BeforeIter, AfterIter, AfterForward,
    AfterLoss, AfterBackward, BeforeUpdate, AfterUpdate, ModuleForward, ModuleBackward, BeforeSaveCheckpoint,
    AfterSaveCheckpoint, AfterLoadCheckpoint, OnException, EpochProfile,
}

/// Defines what some moments allow: a trait with the message of a wrong moment, the moments at which it holds in every phase,
/// and those at which it holds in training alone.
macro_rules! capabilities {
    ($(
        $(#[$doc:meta])*
        $name:ident($message:literal, $note:literal) $(implies $super:ident $(+ $supers:ident)*)?: [$($moment:ident),*] $(, training [$($in_training:ident),*])?;
    )*) => {
        $(
            $(#[$doc])*
            #[diagnostic::on_unimplemented(message = $message, label = "not at this moment", note = $note)]
            pub trait $name: Moment $(+ $super $(+ $supers)*)? {}

            impl $name for Any {}
            $(
                impl $name for $moment {}
                impl $name for Training<$moment> {}
            )*
            $($(impl $name for Training<$in_training> {})*)?
        )*

        /// Name, points at any phase, points in training alone, and the note of each capability.
        #[cfg(test)]
        const CAPABILITIES: &[(&str, &[Point], &[Point], &str)] = &[$((
            stringify!($name),
            &[$(Point::$moment),*],
            &[$($(Point::$in_training),*)?],
            $note,
        )),*];
    };
}

capabilities! {
    /// Between iterations no forward or backward pass is in progress: checkpoints may be saved and loaded, parameters
    /// swapped and frozen, and the accumulation changed.
    BetweenIterations(
        "this can be asked for between iterations alone",
        "between iterations are before_run, before_loop, after_loop, before_epoch, after_epoch, after_cycle, before_iter and after_iter"
    ) implies ChangesSettings + ManagesCheckpoints + PublishesWeights + ChoosesModules + Stops: [BeforeRun, BeforeLoop, AfterLoop, BeforeEpoch, AfterEpoch, AfterCycle, BeforeIter, AfterIter];

    /// Learning rates, momentum and weight decay may be set.
    ChangesSettings(
        "the optimizer's settings can't be changed at this moment",
        "they can at before_run, before_loop, after_loop, before_epoch, after_epoch, after_cycle, before_iter, after_iter, before_update and after_load_checkpoint"
    ): [BeforeRun, BeforeLoop, AfterLoop, BeforeEpoch, AfterEpoch, AfterCycle, BeforeIter, AfterIter, BeforeUpdate, AfterLoadCheckpoint];

    /// Checkpoints may be deleted and copied.
    ManagesCheckpoints(
        "checkpoints can't be deleted or copied at this moment",
        "they can at before_run, before_loop, after_loop, before_epoch, after_epoch, after_cycle, before_iter, after_iter, after_save_checkpoint and after_load_checkpoint"
    ): [BeforeRun, BeforeLoop, AfterLoop, BeforeEpoch, AfterEpoch, AfterCycle, BeforeIter, AfterIter, AfterSaveCheckpoint, AfterLoadCheckpoint];

    /// Weights may be exported.
    PublishesWeights(
        "weights can't be published at this moment",
        "they can at before_run, before_loop, after_loop, before_epoch, after_epoch, after_cycle, before_iter, after_iter and after_save_checkpoint"
    ): [BeforeRun, BeforeLoop, AfterLoop, BeforeEpoch, AfterEpoch, AfterCycle, BeforeIter, AfterIter, AfterSaveCheckpoint];

    /// It may be chosen whether the hook is called at the module points.
    ChoosesModules(
        "it can't be chosen at this moment whether modules are listened to",
        "it can at before_run, before_loop, after_loop, before_epoch, after_epoch, after_cycle, before_iter, after_iter and after_load_checkpoint"
    ): [BeforeRun, BeforeLoop, AfterLoop, BeforeEpoch, AfterEpoch, AfterCycle, BeforeIter, AfterIter, AfterLoadCheckpoint];

    /// A validation may be asked for.
    Validates(
        "a validation can't be asked for at this moment",
        "it can at after_cycle, and in training (`task.in_training()`) at before_loop, after_loop, before_epoch, after_epoch and after_iter"
    ) implies BetweenIterations: [AfterCycle], training [BeforeLoop, AfterLoop, BeforeEpoch, AfterEpoch, AfterIter];

    /// Statistics of batch norms may be recomputed.
    RenewsStatistics(
        "statistics of batch norms can't be recomputed at this moment",
        "they can at before_loop, after_loop, before_epoch, after_epoch and after_cycle, and in training (`task.in_training()`) at after_iter"
    ) implies BetweenIterations: [BeforeLoop, AfterLoop, BeforeEpoch, AfterEpoch, AfterCycle], training [AfterIter];

    /// A rollback to a checkpoint may be asked for.
    RollsBack(
        "a rollback can't be asked for at this moment",
        "it can at after_cycle, and in training (`task.in_training()`) at before_epoch, after_epoch and after_iter"
    ) implies BetweenIterations: [AfterCycle], training [BeforeEpoch, AfterEpoch, AfterIter];

    /// The update that the batch belongs to may be skipped.
    SkipsUpdate(
        "the update can't be skipped at this moment",
        "it can at after_backward and before_update, and in training (`task.in_training()`) at after_loss"
    ) implies HasOutputs: [AfterBackward, BeforeUpdate], training [AfterLoss];

    /// The run may be stopped.
    Stops(
        "the run can't be stopped at this moment: it is at its end",
        "it can at every mount point but after_run and on_exception"
    ): [
        BeforeRun, BeforeLoop, AfterLoop, BeforeEpoch, AfterEpoch, AfterCycle, BeforeIter, AfterIter, AfterForward, AfterLoss,
        AfterBackward, BeforeUpdate, AfterUpdate, ModuleForward, ModuleBackward, BeforeSaveCheckpoint, AfterSaveCheckpoint,
        AfterLoadCheckpoint, EpochProfile
    ];

    /// Parameters may be changed in place.
    ChangesParameters(
        "parameters can't be changed at this moment",
        "they can at before_run, before_loop, after_loop, before_epoch, after_epoch, after_cycle, after_iter, after_update and after_load_checkpoint"
    ): [BeforeRun, BeforeLoop, AfterLoop, BeforeEpoch, AfterEpoch, AfterCycle, AfterIter, AfterUpdate, AfterLoadCheckpoint];

    /// There are gradients, and they may be changed in place.
    ChangesGradients(
        "there are no gradients at this moment",
        "there are at after_backward and before_update"
    ) implies SkipsUpdate + Stops + HasOutputs: [AfterBackward, BeforeUpdate];

    /// There is a batch: its inputs and targets can be read.
    HasBatch(
        "there is no batch at this moment",
        "there is one at before_iter, after_forward, after_loss, module_forward, module_backward, after_backward, before_update, after_update and after_iter"
    ) implies Stops: [BeforeIter, AfterForward, AfterLoss, ModuleForward, ModuleBackward, AfterBackward, BeforeUpdate, AfterUpdate, AfterIter];

    /// The batch's outputs can be read.
    HasOutputs(
        "the batch has no outputs at this moment",
        "it has them at after_forward, after_loss, module_backward, after_backward, before_update, after_update and after_iter"
    ) implies HasBatch + Stops: [AfterForward, AfterLoss, ModuleBackward, AfterBackward, BeforeUpdate, AfterUpdate, AfterIter];

    /// The batch may be skipped.
    SkipsBatch("a batch can't be skipped at this moment", "it can at before_iter"): [BeforeIter];

    /// The batch's loss may be scaled.
    ScalesLoss(
        "the loss can't be scaled at this moment",
        "it can in training (`task.in_training()`) at after_loss"
    ): [], training [AfterLoss];

    /// The batch's inputs may be changed in place.
    ChangesInputs("the inputs can't be changed at this moment", "they can at before_iter"): [BeforeIter];

    /// The batch's outputs may be changed in place.
    ChangesOutputs("the outputs can't be changed at this moment", "they can at after_forward"): [AfterForward];

    /// The model may be run on the batch with other parameters.
    RunsForward("the model can't be run at this moment", "it can at before_iter"): [BeforeIter];

    /// The batch's loss may be given.
    GivesLoss("the loss can't be given at this moment", "it can at after_forward"): [AfterForward];

    /// Entries may be added to the checkpoint that is about to be saved.
    AddsToCheckpoint(
        "nothing can be added to a checkpoint at this moment",
        "it can at before_save_checkpoint"
    ): [BeforeSaveCheckpoint];

    /// The checkpoint's extra entries can be read.
    ReadsCheckpoint(
        "there is no checkpoint to read from at this moment",
        "there is one at before_save_checkpoint and after_load_checkpoint"
    ): [BeforeSaveCheckpoint, AfterLoadCheckpoint];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Phase;
    use crate::ext::{Collection, Request};

    /// Whether a capability holds at a point in a phase.
    fn allows(name: &str, point: Point, phase: Phase) -> bool {
        let (_, points, in_training, _) = CAPABILITIES
            .iter()
            .find(|(known, ..)| *known == name)
            .expect("it is in the table");
        points.contains(&point) || (phase == Phase::Train && in_training.contains(&point))
    }

    /// Whether a phase has a mount point: some are the training's alone.
    fn exists(point: Point, phase: Phase) -> bool {
        use Point as P;
        let is_of_training = matches!(
            point,
            P::AfterCycle | P::ModuleBackward | P::AfterBackward | P::BeforeUpdate | P::AfterUpdate
        );
        phase == Phase::Train || !is_of_training
    }

    #[test]
    fn what_compiles_is_what_the_host_allows() {
        let requests = Request::ALL.into_iter().filter_map(|request| {
            Some((
                request,
                match request {
                    Request::Stop | Request::StopAfterEpoch => "Stops",
                    Request::SkipBatch => "SkipsBatch",
                    Request::SkipUpdate => "SkipsUpdate",
                    Request::SetLearningRate | Request::SetMomentum | Request::SetWeightDecay => {
                        "ChangesSettings"
                    }
                    Request::ScaleLoss => "ScalesLoss",
                    Request::Validate => "Validates",
                    Request::RollBack => "RollsBack",
                    Request::DeleteCheckpoint | Request::CopyCheckpoint => "ManagesCheckpoints",
                    Request::PublishWeights => "PublishesWeights",
                    Request::ListenAtModules => "ChoosesModules",
                    Request::RenewStatistics => "RenewsStatistics",
                    request if request.is_of_creation() => return None,
                    _ => "BetweenIterations",
                },
            ))
        });
        for (request, capability) in requests {
            for &point in Point::ALL {
                for phase in Phase::ALL.into_iter().filter(|phase| exists(point, *phase)) {
                    let compiles = allows(capability, point, phase);
                    assert_eq!(
                        compiles,
                        request.is_legal_at(point, phase),
                        "{} at {point} ({phase})",
                        request.name()
                    );
                }
            }
        }
    }

    #[test]
    fn what_can_be_changed_is_what_the_host_lets_be_changed() {
        for (collection, name, capability) in [
            (Collection::Parameters, "w", "ChangesParameters"),
            (Collection::Gradients, "w", "ChangesGradients"),
            (Collection::Batch, "inputs", "ChangesInputs"),
            (Collection::Batch, "outputs", "ChangesOutputs"),
        ] {
            for &point in Point::ALL {
                let refused = collection.why_not_changed_at(name, Some(point));
                assert_eq!(
                    allows(capability, point, Phase::Train),
                    refused.is_none(),
                    "{capability} at {point}"
                );
            }
        }
    }

    #[test]
    fn messages_name_the_moments_that_are_right() {
        for (name, points, in_training, note) in
            CAPABILITIES.iter().filter(|(name, ..)| *name != "Stops")
        {
            for point in Point::ALL {
                let is_named = note.split([' ', ',']).any(|word| word == point.name());
                let is_right = points.contains(point) || in_training.contains(point);
                assert_eq!(is_named, is_right, "{name} and {point}: {note}");
            }
        }
    }
}
