//! What all methods do with a batch: they give the loss of its outputs, watch whether these collapse, and keep what an update's batches have
//! given until it is done. Those with a teacher have it look at the views before.

use sconce_plugin_api::prelude::*;

use crate::collapse::Watch;
use crate::losses::Rows;
use crate::outputs::{check_phase, table};
use crate::teacher::Teacher;
use crate::update_parts::UpdateParts;

/// The part of a hook that is the same in all methods. `Part` is what a batch gives for the end of its update.
pub(crate) struct Learner<Part = ()> {
    /// [`Teacher::none`] if the method has none.
    pub(crate) teacher: Teacher,
    pub(crate) parts: UpdateParts<Part>,
    pub(crate) watch: Watch,
    /// The last loss's, of all outputs.
    gradient: Vec<f32>,
}

/// A batch of training, for a method to compute its loss.
pub(crate) struct Batch<'a, 'task, Part> {
    pub(crate) task: &'a TaskView<'task>,
    /// Of all views.
    pub(crate) outputs: Rows<'a>,
    /// Number of samples.
    pub(crate) samples: usize,
    /// Where the loss's gradient of the outputs belongs.
    pub(crate) gradient: &'a mut [f32],
    pub(crate) teacher: &'a mut Teacher,
    pub(crate) parts: &'a mut UpdateParts<Part>,
}

impl<Part> Learner<Part> {
    /// Without a teacher.
    pub(crate) fn alone() -> Self {
        Learner::taught_by(Teacher::none())
    }

    /// With a teacher.
    pub(crate) fn taught_by(teacher: Teacher) -> Self {
        Learner {
            teacher,
            parts: UpdateParts::default(),
            watch: Watch::default(),
            gradient: Vec::new(),
        }
    }

    /// Gives the loss that `compute` returns, with the gradient that it writes.
    pub(crate) fn give(
        &mut self,
        task: &mut AfterForward<'_>,
        compute: impl FnOnce(Batch<'_, '_, Part>) -> Result<f64>,
    ) -> Result<()> {
        check_phase(task)?;
        let outputs = task.outputs()?;
        let (values, width) = table(&outputs)?;
        self.gradient.clear();
        self.gradient.resize(values.len(), 0.0);
        let value = compute(Batch {
            task,
            outputs: Rows::new(&values, width)?,
            samples: usize::try_from(task.batch_size()).unwrap_or(usize::MAX),
            gradient: &mut self.gradient,
            teacher: &mut self.teacher,
            parts: &mut self.parts,
        })?;
        if !task.ranks().is_repeated() {
            self.watch.note(&values, width, value);
        }
        task.set_loss(value, &self.gradient)
    }
}
