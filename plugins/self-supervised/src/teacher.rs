//! A momentum teacher: an average of the parameters, with which the model computes what the student is to match.
//!
//! It is a set of published tensors, `SET/PARAMETER`, that checkpoints hold. Buffers are not part of it: its passes take the batch's
//! own statistics.

use std::f64::consts::PI;

use sconce_plugin_api::ext::Combination;
use sconce_plugin_api::moment::ChangesParameters;
use sconce_plugin_api::prelude::*;
use sconce_plugin_api::{Collection, ForwardMode, ForwardPass, Vectors};

use crate::losses::{Rows, Tokens};
use crate::outputs::{table, tokens};

/// How the teacher follows the student.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MomentumSchedule {
    /// By the same momentum in all updates.
    #[default]
    Constant,
    /// By a momentum that rises to 1 at the end of the run, along half a cosine.
    Cosine,
}

/// The teacher of one hook, if it has one.
#[derive(Default)]
pub(crate) struct Teacher {
    /// Name of the set.
    set: String,
    momentum: f64,
    schedule: MomentumSchedule,
    /// Updates of the run.
    updates: u64,
    /// Module whose output is used; empty: the last.
    module: String,
    /// Names under which its outputs are published, by view.
    names: Vec<String>,
    /// Its tensors and the parameters, once they are published.
    tensors: Option<(Vectors, Vectors)>,
    /// Its outputs for the batch, one view after the other.
    outputs: Vec<f32>,
    width: usize,
}

impl Teacher {
    /// A teacher of a hook that sees the first `views` of each sample.
    pub(crate) fn new(
        (momentum, schedule): (f64, MomentumSchedule),
        module: &str,
        views: u32,
        setup: &Setup<'_>,
    ) -> Result<Teacher> {
        if !(0.0..=1.0).contains(&momentum) {
            bail!("`momentum` is from 0 to 1, found {momentum}");
        }
        let plan = setup.plan()?;
        if let Some(plan) = &plan
            && !module.is_empty()
            && !plan.modules.iter().any(|known| known.name == module)
        {
            bail!("the model has no module `{module}`");
        }
        let set = format!("{}.teacher", setup.name());
        Ok(Teacher {
            names: (0..views)
                .map(|view| format!("{set}.outputs.{view}"))
                .collect(),
            set,
            momentum,
            schedule,
            updates: plan.map_or(0, |plan| plan.updates()),
            module: module.to_owned(),
            tensors: None,
            outputs: Vec::new(),
            width: 0,
        })
    }

    /// No teacher: it sees no views.
    pub(crate) fn none() -> Teacher {
        Teacher::default()
    }

    /// Whether there is none.
    pub(crate) fn is_none(&self) -> bool {
        self.names.is_empty()
    }

    /// Name of its tensor for a parameter.
    pub(crate) fn member(&self, parameter: &str) -> String {
        format!("{}/{parameter}", self.set)
    }

    /// Publishes a copy of the parameters, unless a checkpoint had the teacher.
    pub(crate) fn begin(&mut self, task: &mut At<'_, impl ChangesParameters>) -> Result<()> {
        if self.is_none() {
            return Ok(());
        }
        let parameters = task.parameters().filter(|parameter| !parameter.is_buffer());
        let names: Vec<String> = parameters.map(|one| one.name().to_owned()).collect();
        let members: Vec<String> = names.iter().map(|name| self.member(name)).collect();
        for (name, member) in names.iter().zip(&members) {
            if task.tensors(Collection::Published).has(member)? {
                continue;
            }
            let parameter = task.parameter(name)?;
            let shape: Vec<usize> = parameter
                .shape()
                .iter()
                .map(|&size| size as usize)
                .collect();
            if let Some(DType::F64) = parameter.dtype() {
                let elements = parameter.to_vec::<f64>()?;
                task.publish_tensor(member, &shape, &elements, Keep::Run)?;
            } else {
                let elements = parameter.to_vec::<f32>()?;
                task.publish_tensor(member, &shape, &elements, Keep::Run)?;
            }
        }
        self.tensors = Some((
            Vectors::named(Collection::Published, &members),
            Vectors::named(Collection::Parameters, &names),
        ));
        Ok(())
    }

    /// Has the model compute with the teacher's parameters.
    pub(crate) fn look(&self, task: &mut BeforeIter<'_>) -> Result<()> {
        if task.phase() != Phase::Train {
            return Ok(());
        }
        for (view, name) in (0..).zip(&self.names) {
            let pass = ForwardPass::of_set(&self.set)
                .view(view)
                .module(&self.module)
                .mode(ForwardMode::Training);
            task.forward_pass(&pass, name)?;
        }
        Ok(())
    }

    /// What it said of the batch, one view after the other.
    pub(crate) fn outputs(&mut self, task: &TaskView<'_>) -> Result<Rows<'_>> {
        self.outputs.clear();
        for name in &self.names {
            let outputs = task.tensors(Collection::Published).named(name)?;
            let (values, width) = table(&outputs)?;
            self.outputs.extend_from_slice(&values);
            self.width = width;
        }
        Ok(Rows::new(&self.outputs, self.width)?)
    }

    /// What it said of the batch's class tokens and patches, one view after the other.
    pub(crate) fn tokens(&mut self, task: &TaskView<'_>) -> Result<Tokens<'_>> {
        self.outputs.clear();
        let mut positions = 0;
        for name in &self.names {
            let outputs = task.tensors(Collection::Published).named(name)?;
            let (values, sizes) = tokens(&outputs)?;
            self.outputs.extend_from_slice(&values);
            [positions, self.width] = sizes;
        }
        let rows = Rows::new(&self.outputs, self.width)?;
        Ok(Tokens { rows, positions })
    }

    /// Positions of each of its outputs for the batch, class token and patches.
    pub(crate) fn positions(&self, task: &TaskView<'_>) -> Result<usize> {
        let Some(name) = self.names.first() else {
            return Ok(0);
        };
        Ok(tokens(&task.tensors(Collection::Published).named(name)?)?.1[0])
    }

    /// Columns of its outputs; 0 before the first.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Moves it towards the parameters, after an update.
    pub(crate) fn follow(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        let momentum = self.momentum_after(task.update());
        match &mut self.tensors {
            Some((teacher, parameters)) => {
                teacher.combine(task, parameters, Combination::Blend(1.0 - momentum))
            }
            None => self.begin(task),
        }
    }

    /// The momentum in the update before which `done` were finished, 1 being the first.
    fn momentum_after(&self, done: u64) -> f64 {
        match self.schedule {
            MomentumSchedule::Constant => self.momentum,
            MomentumSchedule::Cosine => {
                let part = done.saturating_sub(1) as f64 / self.updates.max(1) as f64;
                1.0 - (1.0 - self.momentum) * ((PI * part.min(1.0)).cos() + 1.0) / 2.0
            }
        }
    }
}
