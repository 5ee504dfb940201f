//! Forward passes that hooks ask for, on the batch in progress (`sconce.forward/1`).

use std::cell::RefCell;
use std::rc::Rc;

use candle_core::{DType, Tensor};
use sconce_base::nearest::nearest;
use sconce_plugin_api::ext::ForwardMode;

use crate::bridge::{AskedPass, ForwardModel};
use crate::data::Batch;
use crate::nn::{
    ModuleInfo, ModuleOutput, NamedInputs, Pass, PassPart, PassPosition, StatisticsLog, Visibility,
};
use crate::task::{Task, TaskModel};

/// The model of a task, and the batch that hooks see.
pub(in crate::run) struct HookPasses {
    /// None if the task has no model that can be used apart.
    model: Option<TaskModel>,
    modules: Vec<ModuleInfo>,
    batch: RefCell<Option<ShownBatch>>,
}

/// What a pass needs of a batch.
struct ShownBatch {
    /// Of each size of views.
    inputs: Vec<Tensor>,
    named: NamedInputs,
    visibility: Option<Visibility>,
    samples: usize,
    position: PassPosition,
}

impl HookPasses {
    /// Of a task; no batch is shown yet.
    pub(in crate::run) fn of(task: &dyn Task) -> Rc<HookPasses> {
        Rc::new(HookPasses {
            model: task.model(),
            modules: task.modules(),
            batch: RefCell::default(),
        })
    }

    /// Begins a batch, at a position that its random numbers depend on.
    pub(in crate::run) fn show(&self, batch: &Batch, position: PassPosition) {
        self.batch.replace(Some(ShownBatch {
            inputs: batch.all_inputs().cloned().collect(),
            named: NamedInputs::clone(&batch.named),
            visibility: batch.visibility.clone(),
            samples: batch.len(),
            position,
        }));
    }

    /// Ends the batch.
    pub(in crate::run) fn hide(&self) {
        self.batch.take();
    }

    /// A module's name, which there must be.
    fn module(&self, name: &str) -> Result<(), String> {
        let mut names = self.modules.iter().map(|module| &*module.name);
        if names.clone().any(|known| known == name) {
            return Ok(());
        }
        let near = nearest(name, &mut names);
        let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        Err(format!("the model has no module `{name}`{hint}"))
    }
}

impl ShownBatch {
    /// The inputs of a view, or of all, each with the number of its size.
    fn view(&self, view: Option<u32>) -> Result<Vec<(u32, Tensor)>, String> {
        let Some(view) = view else {
            return Ok((0..).zip(self.inputs.iter().cloned()).collect());
        };
        let mut views = 0;
        for (size, inputs) in (0..).zip(&self.inputs) {
            let of_size = inputs.dims().first().copied().unwrap_or_default() / self.samples.max(1);
            let place = (view as usize).checked_sub(views);
            if let Some(place) = place.filter(|place| *place < of_size) {
                let narrowed = inputs.narrow(0, place * self.samples, self.samples);
                let narrowed = narrowed.map_err(|error| error.to_string())?;
                return Ok(vec![(size, narrowed)]);
            }
            views += of_size;
        }
        Err(format!(
            "the batch has no view {view}: its samples have {views} (`views` of the data makes more)"
        ))
    }

    /// Whether these are inputs of the whole batch, so that what else it has goes with them.
    fn is_all(&self, inputs: &Tensor) -> bool {
        (self.inputs.first()).is_some_and(|first| first.dims() == inputs.dims())
    }
}

impl ForwardModel for HookPasses {
    fn run(&self, asked: &AskedPass<'_>) -> Result<Tensor, String> {
        let model = self.model.as_ref().ok_or_else(|| {
            "the task is a program's own, which gives no model that can be run for hooks".to_owned()
        })?;
        if let Some(name) = asked.module {
            self.module(name)?;
        }
        let batch = self.batch.borrow();
        let batch = batch
            .as_ref()
            .ok_or_else(|| "there is no batch".to_owned())?;
        let each: candle_core::Result<Vec<Tensor>> = (batch.view(asked.view)?.iter())
            .map(|inputs| outputs(model, batch, inputs, asked))
            .collect();
        let joined = each.and_then(|each| match &each[..] {
            [only] => Ok(only.clone()),
            all => Tensor::cat(all, 0),
        });
        joined.map_err(|error| error.to_string())
    }
}

/// The output of the module that is asked for, for inputs of one size.
fn outputs(
    model: &TaskModel,
    batch: &ShownBatch,
    (size, inputs): &(u32, Tensor),
    asked: &AskedPass<'_>,
) -> candle_core::Result<Tensor> {
    // What the batch norms record goes nowhere.
    let statistics = RefCell::new(StatisticsLog::default());
    let mut pass = Pass::new(asked.mode == ForwardMode::Training)
        .at(batch.position)
        .collecting(&statistics);
    let rows = inputs.dims().first().copied().unwrap_or_default();
    pass.begin_part(Some(PassPart {
        index: *size,
        before: 0,
        rows,
        all: rows,
    }));
    if batch.is_all(inputs) {
        pass.set_named_inputs(NamedInputs::clone(&batch.named));
        pass.set_visibility(batch.visibility.clone());
    }
    let output = if let Some(name) = asked.module {
        let mut of_module = ModuleOutput::of(name);
        model.outputs(inputs, &mut pass.with_taps(&mut of_module))?;
        of_module.take()?
    } else {
        model.outputs(inputs, &mut pass)?.detach()
    };
    let wide = match output.dtype() {
        DType::F16 | DType::BF16 => output.to_dtype(DType::F32)?,
        _ => output,
    };
    // An output may share its memory with what comes next.
    wide.contiguous()?.copy()
}
