//! What Python's `task` can do: a table of attributes and one of methods, both in terms of the task at any moment. The host
//! checks what is legal where.
//!
//! Names are those of `TaskView` and `At`. Methods whose name begins with `_` are wrapped in `sconce/_task.py`, which gives them
//! Python's arguments and documents them.

mod values;

use std::ffi::CStr;

use sconce_plugin_api::ext::{Collection, Level};
use sconce_plugin_api::moment::Any;
use sconce_plugin_api::tensor::{BrainHalf, Element, Half};
use sconce_plugin_api::{
    At, Context, ForwardMode, ForwardPass, Groups, HookError, Keep, Phase, Result, Setup,
};
use serde_json::json;
use serde_json::value::RawValue;

pub(crate) use values::{Answer, Argument, Arguments, MOST_ARGUMENTS};

/// An attribute of `task`.
pub(crate) struct Attribute {
    pub(crate) name: &'static CStr,
    pub(crate) get: fn(&At<'_, Any>) -> Answer,
}

/// What a method needs.
pub(crate) enum Run {
    /// A call at a mount point.
    Task(fn(&mut At<'_, Any>, &Arguments<'_>) -> Result<Answer>),
    /// The creation of the hook.
    Setup(fn(&Setup<'_>, &Arguments<'_>) -> Result<Answer>),
    /// Either, or neither: what the hook logs.
    Log,
}

/// A method of `task`.
pub(crate) struct Method {
    pub(crate) name: &'static CStr,
    /// A letter per argument: `t` text, `o` text or None, `y` bytes, `i` integer, `f` number, `b` boolean; those after
    /// `|` may be left out.
    pub(crate) signature: &'static str,
    pub(crate) run: Run,
}

macro_rules! attributes {
    ($($name:literal => $get:expr,)*) => {
        &[$(Attribute { name: $name, get: $get },)*]
    };
}

/// Attributes of `task`, read at each access.
pub(crate) static ATTRIBUTES: &[Attribute] = attributes! {
    c"epoch" => |task| Answer::Count(task.epoch()),
    c"epochs" => |task| Answer::Count(task.epochs()),
    c"iteration" => |task| Answer::Count(task.iteration()),
    c"update" => |task| Answer::Count(task.update()),
    c"batch" => |task| Answer::Count(task.batch()),
    c"batches" => |task| Answer::Count(task.batches()),
    c"batch_size" => |task| Answer::Count(task.batch_size()),
    c"samples" => |task| Answer::Count(task.samples()),
    c"ordinal" => |task| Answer::Count(task.ordinal()),
    c"loss" => |task| task.loss().into(),
    c"learning_rate" => |task| Answer::Number(task.learning_rate()),
    c"elapsed" => |task| Answer::Number(task.elapsed().as_secs_f64()),
    c"remaining" => |task| task.remaining().map(|time| time.as_secs_f64()).into(),
    c"point" => |task| task.point().map_or(Answer::None, |point| Answer::Name(point.name())),
    c"phase" => |task| Answer::Name(task.phase().name()),
    c"stream" => |task| Answer::Text(task.stream().to_owned()),
    c"is_whole" => |task| Answer::Bool(task.is_whole()),
    c"is_update_due" => |task| Answer::Bool(task.is_update_due()),
    c"is_initial_validation" => |task| Answer::Bool(task.is_initial_validation()),
    c"is_resumed" => |task| Answer::Bool(task.resumed().is_some()),
    c"is_new_to_run" => |task| Answer::Bool(task.resumed().is_some_and(|run| !run.knows_hook)),
    c"rank" => |task| Answer::Count(task.ranks().rank() as u64),
    c"world_size" => |task| Answer::Count(task.ranks().size() as u64),
    c"is_repeated" => |task| Answer::Bool(task.ranks().is_repeated()),
    c"screen_columns" => |task| match task.screen() {
        Some(screen) => Answer::Count(screen.columns() as u64),
        None => Answer::None,
    },
};

macro_rules! methods {
    ($($name:literal $signature:literal => $run:expr,)*) => {
        &[$(Method { name: $name, signature: $signature, run: Run::Task($run) },)*
          Method { name: c"_claim", signature: "t", run: Run::Setup(|setup, a| done(setup.claim(a.text(0)))) },
          Method { name: c"_publishes", signature: "t", run: Run::Setup(|setup, a| done(setup.publishes(a.text(0)))) },
          Method { name: c"_asks", signature: "t", run: Run::Setup(|setup, a| done(setup.asks(&names(a.text(0))))) },
          Method { name: c"_reads", signature: "t", run: Run::Setup(|setup, a| done(setup.reads(&names(a.text(0))))) },
          Method { name: c"_log", signature: "it", run: Run::Log }]
    };
}

/// The names between commas.
fn names(text: &str) -> Vec<&str> {
    text.split(',').filter(|name| !name.is_empty()).collect()
}

fn done(result: Result<()>) -> Result<Answer> {
    result.map(|()| Answer::None)
}

/// Methods of `task`.
pub(crate) static METHODS: &[Method] = methods! {
    // Messages.
    c"info" "t" => |task, a| { task.info(a.text(0)); Ok(Answer::None) },
    c"warn" "t" => |task, a| { task.warn(a.text(0)); Ok(Answer::None) },
    c"debug" "t" => |task, a| { task.log(Level::Debug, a.text(0)); Ok(Answer::None) },
    c"set_status" "t" => |task, a| {
        if let Some(screen) = task.screen() {
            screen.set_status(a.text(0));
        }
        Ok(Answer::None)
    },
    // Metrics and facts.
    c"metric" "t" => |task, a| Ok(task.metric(a.text(0)).into()),
    c"metric_of" "tt" => |task, a| Ok(task.metric_of(phase(a.text(0))?, a.text(1)).into()),
    c"metrics_of" "t" => |task, a| Ok(numbers(task.metrics_of(phase(a.text(0))?))),
    c"publish_metric" "tf" => |task, a| done(task.publish_metric(a.text(0), a.number(1))),
    c"learning_rates" "" => |task, _| Ok(numbers(task.groups().map(|group| (group.name, group.learning_rate)))),
    c"weight_decays" "" => |task, _| Ok(numbers(task.groups().map(|group| (group.name, group.weight_decay)))),
    c"_facts" "" => |task, _| facts(task),
    c"_gather" "t" => |task, a| gather(task, a.text(0)),
    // Tensors.
    c"_tensor" "itb" => |task, a| {
        let (mut storage, name) = (task.storage(collection(a.integer(0))?), a.text(1));
        let tensor = if a.is_true(2) { storage.retain_mut(name) } else { storage.retain(name) };
        tensor.map(Answer::Tensor)
    },
    c"_tensor_at" "iib" => |task, a| {
        let (mut storage, index) = (task.storage(collection(a.integer(0))?), a.integer(1) as usize);
        let tensor = if a.is_true(2) { storage.retain_at_mut(index)? } else { storage.retain_at(index)? };
        Ok(tensor.map_or(Answer::None, Answer::Tensor))
    },
    c"_tensor_count" "i" => |task, a| Ok(Answer::Count(task.storage(collection(a.integer(0))?).count() as u64)),
    // Published values.
    c"_publish" "ttt" => |task, a| {
        let value: &RawValue = serde_json::from_str(a.text(1))?;
        done(task.publish(a.text(0), value, keep(a.text(2))?))
    },
    c"_published" "t" => |task, a| Ok(raw(task.published(a.text(0))?)),
    c"_in_checkpoint" "t" => |task, a| Ok(raw(task.in_checkpoint(a.text(0))?)),
    c"_publish_tensor" "tttyt" => publish_tensor,
    c"retract" "t" => |task, a| done(task.retract(a.text(0))),
    // Requests.
    c"stop" "t" => |task, a| done(task.stop(a.text(0))),
    c"stop_after_epoch" "t" => |task, a| done(task.stop_after_epoch(a.text(0))),
    c"skip_batch" "" => |task, _| done(task.skip_batch()),
    c"skip_update" "" => |task, _| done(task.skip_update()),
    c"set_learning_rate" "f|o" => |task, a| done(task.set_learning_rate(groups(a, 1), a.number(0))),
    c"set_momentum" "f|o" => |task, a| done(task.set_momentum(groups(a, 1), a.number(0))),
    c"set_weight_decay" "f|o" => |task, a| done(task.set_weight_decay(groups(a, 1), a.number(0))),
    c"set_accumulation" "i" => |task, a| done(task.set_accumulation(count(a.integer(0))?)),
    c"scale_loss" "f" => |task, a| done(task.scale_loss(a.number(0))),
    c"freeze" "t" => |task, a| done(task.freeze(a.text(0))),
    c"unfreeze" "t|f" => |task, a| done(task.unfreeze(a.text(0), a.number_or(1, 1.0))),
    c"renew_statistics" "i" => |task, a| done(task.renew_statistics(count(a.integer(0))?)),
    c"_save_checkpoint" "tbb" => |task, a| {
        let mut checkpoint = task.checkpoint(a.text(0));
        if a.is_true(1) {
            checkpoint = checkpoint.parameters_only();
        }
        if a.is_true(2) {
            checkpoint = checkpoint.in_background();
        }
        done(checkpoint.save())
    },
    c"copy_checkpoint" "tt" => |task, a| done(task.checkpoint(a.text(0)).copy_to(a.text(1))),
    c"delete_checkpoint" "t" => |task, a| done(task.checkpoint(a.text(0)).delete()),
    c"publish_weights" "tt|o" => |task, a| done(task.checkpoint(a.text(0)).with_set(a.optional(2)).publish(a.text(1))),
    c"load_parameters" "t|o" => |task, a| done(task.checkpoint(a.text(0)).with_set(a.optional(1)).load_parameters()),
    c"roll_back" "t" => |task, a| done(task.checkpoint(a.text(0)).roll_back()),
    c"_generate" "t" => |task, a| {
        let written = task.generate(&serde_json::from_str(a.text(0))?)?;
        Ok(Answer::Text(serde_json::to_string(&written)?))
    },
    c"_forward_pass" "ttitt" => forward_pass,
    c"_set_loss" "fty" => |task, a| match a.text(1) {
        "f32" => done(task.set_loss(a.number(0), &elements(a.bytes(2), f32::from_ne_bytes))),
        "f64" => done(task.set_loss(a.number(0), &elements(a.bytes(2), f64::from_ne_bytes))),
        other => Err(HookError::new(format_args!(
            "the gradient of a loss is float32 or float64, not {other}: convert it with .astype()"
        ))),
    },
    c"validate_now" "" => |task, _| done(task.validate_now()),
    c"swap_parameters" "t" => |task, a| done(task.swap_parameters(a.text(0))),
    c"swap_back" "" => |task, _| done(task.swap_back()),
    c"listen_at_modules" "b" => |task, a| done(task.listen_at_modules(a.is_true(0))),
};

fn numbers<'task>(numbers: impl Iterator<Item = (&'task str, f64)>) -> Answer {
    Answer::Numbers(
        numbers
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

fn phase(name: &str) -> Result<Phase> {
    let known = Phase::ALL.into_iter().find(|phase| phase.name() == name);
    known.ok_or_else(|| {
        HookError::new(format_args!(
            "no phase `{name}`; there are: train, val, test, predict"
        ))
    })
}

fn keep(name: &str) -> Result<Keep> {
    Ok(match name {
        "batch" => Keep::Batch,
        "epoch" => Keep::Epoch,
        "run" => Keep::Run,
        "checkpoint" => Keep::Checkpoint,
        _ => {
            return Err(HookError::new(format_args!(
                "can't keep a value for `{name}`: use `batch`, `epoch` or `run`"
            )));
        }
    })
}

/// The group that an argument names; all if it names none.
fn groups<'call>(a: &Arguments<'call>, index: usize) -> Groups<'call> {
    a.optional(index).map_or(Groups::All, Groups::Named)
}

fn count(number: i64) -> Result<u64> {
    u64::try_from(number).with_context(|| format!("{number} is negative"))
}

fn collection(number: i64) -> Result<Collection> {
    let known = u32::try_from(number).ok().and_then(Collection::from_number);
    known
        .ok_or_else(|| HookError::new(format_args!("no collection of tensors has number {number}")))
}

fn raw(value: Option<Box<RawValue>>) -> Answer {
    value.map_or(Answer::None, |value| Answer::Text(value.get().to_owned()))
}

fn facts(task: &At<'_, Any>) -> Result<Answer> {
    let facts = task.facts()?;
    Ok(Answer::Text(
        json!({
            "run": facts.run,
            "run_directory": facts.run_directory,
            "seed": facts.seed,
            "rank": facts.rank,
            "world_size": facts.world_size,
            "classes": facts.classes,
            "sample_shape": facts.sample_shape,
            "metrics": facts.metrics,
            "modules": facts.modules,
            "parameter_count": facts.parameter_count,
        })
        .to_string(),
    ))
}

/// The JSON texts of all ranks, as those of a list.
fn gather(task: &At<'_, Any>, own: &str) -> Result<Answer> {
    let all = task.ranks().gather(own.as_bytes())?;
    let all: Vec<_> = all
        .iter()
        .map(|text| String::from_utf8_lossy(text))
        .collect();
    Ok(Answer::Text(format!("[{}]", all.join(","))))
}

/// The elements of an array's bytes.
fn elements<T, const N: usize>(bytes: &[u8], read: fn([u8; N]) -> T) -> Vec<T> {
    let each = bytes.chunks_exact(N);
    each.filter_map(|one| Some(read(one.try_into().ok()?)))
        .collect()
}

/// `_forward_pass(name, set, view or -1, module, mode)`.
fn forward_pass(task: &mut At<'_, Any>, a: &Arguments<'_>) -> Result<Answer> {
    let mode = match a.text(4) {
        "evaluation" => ForwardMode::Evaluation,
        "training" => ForwardMode::Training,
        other => {
            return Err(HookError::new(format_args!(
                "no forward pass has the mode `{other}`: use `evaluation` or `training`"
            )));
        }
    };
    let mut pass = ForwardPass::of_set(a.text(1)).module(a.text(3)).mode(mode);
    if let Ok(view) = u32::try_from(a.integer(2)) {
        pass = pass.view(view);
    }
    done(task.forward_pass(&pass, a.text(0)))
}

/// `_publish_tensor(name, type, shape as JSON, elements, keep)`.
fn publish_tensor(task: &mut At<'_, Any>, a: &Arguments<'_>) -> Result<Answer> {
    fn publish<T: Element, const N: usize>(
        task: &mut At<'_, Any>,
        a: &Arguments<'_>,
        read: fn([u8; N]) -> T,
    ) -> Result<Answer> {
        let shape: Vec<usize> = serde_json::from_str(a.text(2))?;
        let elements = elements(a.bytes(3), read);
        done(task.publish_tensor(a.text(0), &shape, &elements, keep(a.text(4))?))
    }
    match a.text(1) {
        "f32" => publish(task, a, f32::from_ne_bytes),
        "f64" => publish(task, a, f64::from_ne_bytes),
        "f16" => publish(task, a, |bytes| Half(u16::from_ne_bytes(bytes))),
        "bf16" => publish(task, a, |bytes| BrainHalf(u16::from_ne_bytes(bytes))),
        "i64" => publish(task, a, i64::from_ne_bytes),
        "u32" => publish(task, a, u32::from_ne_bytes),
        "u8" => publish(task, a, |[byte]: [u8; 1]| byte),
        other => Err(HookError::new(format_args!(
            "no tensor has the type `{other}`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_checkers_know_all_that_a_task_has() {
        let stubs = include_str!("../../sconce/__init__.pyi");
        let of_task = stubs.split("class Task:").nth(1).expect("the class");
        let of_task = of_task.split("\nclass ").next().expect("its body");
        let methods = METHODS.iter().map(|method| (method.name, "(self"));
        let attributes = ATTRIBUTES.iter().map(|attribute| (attribute.name, ": "));
        for (name, end) in methods.chain(attributes) {
            let name = name.to_str().expect("a name");
            let is_known = of_task.contains(&format!(" {name}{end}"));
            assert!(is_known || name.starts_with('_'), "`{name}` is missing");
        }
    }
}
