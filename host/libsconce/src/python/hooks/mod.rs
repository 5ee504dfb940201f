//! Hooks in a loop of Python's: `start` creates them, and gives the functions by which the package's `Hooks` calls them.
//!
//! **Parts.** `served` serves what hooks request by methods of a Python object, and hands it their messages. `fork` knows whether this
//! process is a copy of the one that has started the hooks.

mod fork;
mod served;

use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, TryLockError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyModule, PyTuple};
use sconce_hooks::bridge::{ForeignParameter, ForeignTensor};
use sconce_hooks::host::{HookHost, HostError, HostResult, LoopHooks, Needs, Offers};
use sconce_lifecycle::Stopping;
use sconce_plugin_api::{Phase, Point};

use super::failure;
use super::function::function;
use served::ServedByObject;

/// A tensor: address of its first element, shape, strides in elements, `DLPack`'s code and bits of its type.
type Address = (usize, Vec<i64>, Vec<i64>, u8, u8);

/// A parameter: its name, where it is, and whether it is a buffer.
type NamedAddress = (String, Address, bool);

pub(super) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let doc = c"Creates the hooks of a loop; returns the functions that call them.";
    let start = function(module.py(), c"start_hooks", doc, start)?;
    module.add("start_hooks", start)?;
    let doc = c"What a hook needs and a loop lacks: names and reasons.";
    module.add("misfits", function(module.py(), c"misfits", doc, misfits)?)
}

/// The hooks of a loop, which any thread may call that holds the mutex around this; and the generation of the process that has
/// started them.
struct Called {
    hooks: Option<LoopHooks<'static>>,
    generation: u64,
}

impl Drop for Called {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            // Files and processes belong to the one that has started them.
            std::mem::forget(self.hooks.take());
        }
    }
}

// SAFETY: hooks may move between threads (their trait asks for it), and the state that they refer to is used by the thread alone
// that holds the mutex around this.
unsafe impl Send for Called {}

/// The hooks, until the run has ended.
type Shared = Arc<Mutex<Called>>;

fn start(arguments: &Bound<'_, PyTuple>) -> PyResult<Py<PyDict>> {
    let py = arguments.py();
    let (document, path, description, directory): (String, PathBuf, String, Option<PathBuf>) =
        arguments.get_slice(0, 4).extract()?;
    let (parameters, states): (Vec<NamedAddress>, Option<Vec<u8>>) =
        arguments.get_slice(4, 6).extract()?;
    let object: Py<PyAny> = arguments.get_item(6)?.unbind();
    let threads: usize = arguments.get_item(7)?.extract()?;
    let mut foreign = Vec::with_capacity(parameters.len());
    for (name, address, is_buffer) in parameters {
        foreign.push(ForeignParameter {
            tensor: tensor(py, &name, address)?,
            name: name.into(),
            is_buffer,
        });
    }
    let begin = || -> HostResult<LoopHooks<'static>> {
        let mut setup = HookHost::from_text(&document, &path)?;
        setup = setup.described(&description)?.threads(threads);
        if let Some(directory) = directory {
            setup = setup.directory(directory);
        }
        if let Some(states) = states {
            setup = setup.resuming(states);
        }
        let setup = setup.foreign_parameters(foreign);
        let served = ServedByObject::new(object.clone_ref(py));
        let log = served.log();
        setup.serving(served).log(log).start_events()
    };
    let hooks = begin().map_err(|error| raised(py, &error))?;
    let called = Called {
        hooks: Some(hooks),
        generation: fork::generation(),
    };
    functions(py, &Arc::new(Mutex::new(called))).map(Bound::unbind)
}

/// Names and reasons of what a hook needs and a loop lacks, from what a plugin's metadata say of the hook.
fn misfits(arguments: &Bound<'_, PyTuple>) -> PyResult<Vec<(String, String)>> {
    let py = arguments.py();
    let (description, points): (String, Vec<String>) = arguments.get_slice(0, 2).extract()?;
    let (asks, reads, optional): (Vec<String>, Vec<String>, Vec<String>) =
        arguments.get_slice(2, 5).extract()?;
    let served = ServedByObject::new(arguments.get_item(5)?.unbind());
    let offers = Offers::described(&description)
        .map_err(|problem| failure::new(py, "HookError", &problem))?;
    let needs = Needs {
        points: points
            .iter()
            .filter_map(|name| Point::from_name(name))
            .collect(),
        asks: &asks,
        reads: &reads,
        optional: &optional,
    };
    let found = needs.misfits(&offers, &served);
    Ok(found
        .into_iter()
        .map(|one| (one.name, one.reason))
        .collect())
}

fn tensor(py: Python<'_>, name: &str, address: Address) -> PyResult<ForeignTensor> {
    let (data, shape, strides, code, bits) = address;
    // SAFETY: the package gives addresses of tensors that it keeps while they are shown.
    let tensor = unsafe {
        ForeignTensor::new(
            std::ptr::with_exposed_provenance_mut(data),
            &shape,
            &strides,
            (code, bits),
        )
    };
    tensor.map_err(|problem| failure::new(py, "HookError", &format!("`{name}`: {problem}")))
}

/// The exception for an error of the hooks'.
fn raised(py: Python<'_>, error: &HostError) -> PyErr {
    let class = match error {
        HostError::Unusable(_) => "PluginError",
        HostError::Order(_) => "OrderError",
        _ => "HookError",
    };
    let text = error.to_string();
    failure::new(py, class, text.strip_prefix("error: ").unwrap_or(&text))
}

/// Runs `work` with the hooks.
fn with<R>(
    py: Python<'_>,
    shared: &Shared,
    work: impl FnOnce(&mut LoopHooks<'static>) -> HostResult<R>,
) -> PyResult<R> {
    let mut guard = match shared.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            let problem =
                "the hooks are being called: by another thread, or from within one of them";
            return Err(failure::new(py, "HookError", problem));
        }
    };
    if guard.generation != fork::generation() {
        let problem = "this process is a copy (a fork) of the one that has started the hooks: they are called there alone";
        return Err(failure::new(py, "HookError", problem));
    }
    match guard.hooks.as_mut() {
        Some(hooks) => work(hooks).map_err(|error| raised(py, &error)),
        None => Err(failure::new(py, "HookError", "the run has ended")),
    }
}

/// Takes the hooks out to end them.
fn take(shared: &Shared) -> Option<LoopHooks<'static>> {
    let mut guard = match shared.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    // Of a copy of the process they are left as they are.
    let is_own = guard.generation == fork::generation();
    guard.hooks.take_if(|_| is_own)
}

fn number(stopping: Stopping) -> u8 {
    match stopping {
        Stopping::No => 0,
        Stopping::AfterEpoch => 1,
        Stopping::Now => 2,
    }
}

/// Adds a function to those of the hooks.
fn add<R>(
    all: &Bound<'_, PyDict>,
    shared: &Shared,
    (name, doc): (&'static CStr, &'static CStr),
    work: impl Fn(&Bound<'_, PyTuple>, &Shared) -> PyResult<R> + Send + Sync + 'static,
) -> PyResult<()>
where
    R: for<'a> IntoPyObject<'a> + 'static,
{
    let shared = Arc::clone(shared);
    let made = function(all.py(), name, doc, move |arguments| {
        work(arguments, &shared)
    })?;
    all.set_item(name.to_str().unwrap_or_default(), made)
}

/// Adds a function whose work needs nothing but the hooks and its arguments.
macro_rules! add_all {
    ($all:expr, $shared:expr, $($name:literal, $doc:literal, |$hooks:ident, $arguments:ident| $body:expr;)*) => {
        $(add($all, $shared, ($name, $doc), |$arguments, shared| {
            with($arguments.py(), shared, |$hooks| $body)
        })?;)*
    };
}

/// A positional argument.
fn given<'py, T>(arguments: &Bound<'py, PyTuple>, index: usize) -> HostResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    let item = arguments.get_item(index);
    let given = item.and_then(|item| item.extract::<T>().map_err(Into::into));
    given.map_err(|error| HostError::Loop(error.to_string()))
}

fn functions<'py>(py: Python<'py>, shared: &Shared) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    add_steps(&all, shared)?;
    add_facts(&all, shared)?;
    add_tensors(&all, shared)?;
    add_ends(&all, shared)?;
    Ok(all)
}

/// The steps of the lifecycle.
fn add_steps(all: &Bound<'_, PyDict>, shared: &Shared) -> PyResult<()> {
    add_all! { all, shared,
        c"listens", c"Whether a hook is called at a mount point in the phase of now.", |hooks, arguments| {
            let point: u32 = given(arguments, 0)?;
            Ok(Point::from_number(point).is_some_and(|point| hooks.listens(point)))
        };
        c"listens_ever", c"Whether a hook is called at a mount point in any phase.", |hooks, arguments| {
            let point: u32 = given(arguments, 0)?;
            Ok(Point::from_number(point).is_some_and(|point| hooks.listens_ever(point)))
        };
        c"begin_training", c"The training begins, unless it has: states that it resumes from are restored.", |hooks, _arguments| {
            hooks.begin_training()
        };
        c"begin_epoch", c"A training epoch begins, of this many batches or None.", |hooks, arguments| {
            hooks.begin_epoch(given(arguments, 0)?)
        };
        c"begin_evaluation", c"A pass of another phase begins, of this many batches or None.", |hooks, arguments| {
            let phase = Phase::from_number(given(arguments, 0)?).unwrap_or(Phase::Val);
            hooks.begin_evaluation(phase, given(arguments, 1)?)
        };
        c"begin_batch", c"A batch of this many samples begins; whether an update follows, or None. Whether hooks skip it.", |hooks, arguments| {
            hooks.begin_batch(given(arguments, 0)?, given(arguments, 1)?)
        };
        c"listens_at_module", c"Whether hooks are called after the forward pass of the module of this index.", |hooks, arguments| {
            Ok(hooks.listens_at_module(given(arguments, 0)?))
        };
        c"after_forward", c"The outputs are there.", |hooks, _arguments| hooks.after_forward();
        c"after_loss", c"The loss is there; the factor to multiply it by.", |hooks, arguments| {
            hooks.after_loss(given(arguments, 0)?)
        };
        c"after_backward", c"The batch's gradients are there.", |hooks, arguments| {
            lend(hooks, &given::<Vec<usize>>(arguments, 0)?);
            let called = hooks.after_backward();
            hooks.shared().tensors.foreign.clear_gradients();
            called
        };
        c"before_update", c"The update's gradients are there. Whether hooks skip it.", |hooks, arguments| {
            lend(hooks, &given::<Vec<usize>>(arguments, 0)?);
            let called = hooks.before_update();
            hooks.shared().tensors.foreign.clear_gradients();
            called
        };
        c"after_update", c"The optimizer has stepped.", |hooks, _arguments| hooks.after_update();
        c"end_batch", c"The batch is over, after mount points that no hook uses. 0: go on, 1: end after the epoch, 2: end now.", |hooks, arguments| {
            hooks.pass_by(given(arguments, 0)?, given(arguments, 1)?)?;
            hooks.end_batch().map(number)
        };
        c"end_epoch", c"The epoch is over; whether it was complete, or None.", |hooks, arguments| {
            hooks.end_epoch(given(arguments, 0)?)?;
            Ok(number(hooks.stopping()))
        };
        c"end_evaluation", c"The pass of another phase is over.", |hooks, _arguments| {
            hooks.end_evaluation()?;
            Ok(number(hooks.stopping()))
        };
        c"end_cycle", c"The epoch and its validation are over.", |hooks, _arguments| {
            hooks.end_cycle()?;
            Ok(number(hooks.stopping()))
        };
        c"end_training", c"The training is over.", |hooks, _arguments| hooks.end_training();
    }
    Ok(())
}

/// What hooks have asked, set and found.
fn add_facts(all: &Bound<'_, PyDict>, shared: &Shared) -> PyResult<()> {
    add_all! { all, shared,
        c"stopping", c"0: go on, 1: end after the epoch, 2: end now.", |hooks, _arguments| Ok(number(hooks.stopping()));
        c"updates", c"Whether an update follows the batch in progress.", |hooks, _arguments| Ok(hooks.position().pass.updates);
        c"is_in_epoch", c"Whether a pass over the training data is in progress.", |hooks, _arguments| Ok(hooks.is_in_epoch());
        c"stop_reason", c"The hook that wants the end and why, or None.", |hooks, _arguments| Ok(hooks.stop_reason());
        c"metric", c"Sets a metric of the pass in progress.", |hooks, arguments| {
            let name: String = given(arguments, 0)?;
            hooks.metric(&name, given(arguments, 1)?);
            Ok(())
        };
        c"metrics", c"The metrics of a phase's pass in progress, or of its last one.", |hooks, arguments| {
            let phase = Phase::from_number(given(arguments, 0)?).unwrap_or(Phase::Train);
            let metrics = hooks.shared().read_metrics();
            let found: Vec<(String, f64)> =
                metrics.of(phase).iter().map(|(name, value)| (name.to_owned(), value)).collect();
            Ok(found)
        };
        c"groups", c"Name, learning rate, weight decay, and momentum if it was set, of each group.", |hooks, _arguments| {
            let groups = hooks.shared().optimizer.groups.borrow();
            let of = |group: &sconce_parameters::groups::ParameterGroup| {
                (group.name.to_string(), group.learning_rate, group.weight_decay, group.momentum)
            };
            Ok(groups.iter().map(of).collect::<Vec<_>>())
        };
        c"accumulation", c"Batches per update that a hook has set, or None.", |hooks, _arguments| {
            Ok(hooks.shared().optimizer.accumulation.get())
        };
        c"frozen", c"Names of the parameters that hooks have frozen.", |hooks, _arguments| Ok(hooks.frozen());
        c"reads", c"What the hooks may read of the loop; None if one does not say.", |hooks, _arguments| Ok(hooks.reads());
        c"asks", c"What the hooks may ask of the loop; None if one does not say.", |hooks, _arguments| Ok(hooks.asks());
        c"pass_by", c"The loop has come by mount points that no hook uses, with this loss.", |hooks, arguments| {
            hooks.pass_by(given(arguments, 0)?, given(arguments, 1)?)
        };
        c"took_writes", c"Whether parameters have been lent for writing since this was last asked.", |hooks, _arguments| {
            Ok(hooks.shared().tensors.foreign.take_written())
        };
        c"position", c"Epoch, iteration, update, batches trained in the epoch.", |hooks, _arguments| {
            let position = hooks.position();
            Ok((position.epoch, position.iteration, position.update, position.trained))
        };
        c"saved", c"The checkpoint is at this path, or could not be written for this reason.", |hooks, arguments| {
            let path: PathBuf = given(arguments, 0)?;
            let error: Option<String> = given(arguments, 1)?;
            hooks.saved(&path, &error.map_or(Ok(()), Err))
        };
        c"restore", c"Goes back to states.", |hooks, arguments| hooks.restore(&given::<Vec<u8>>(arguments, 0)?);
    }
    Ok(())
}

/// What is shown to hooks, and what they give.
fn add_tensors(all: &Bound<'_, PyDict>, shared: &Shared) -> PyResult<()> {
    add(
        all,
        shared,
        (c"states", c"The hooks' states, as bytes."),
        |arguments, shared| {
            let py = arguments.py();
            let states = with(py, shared, LoopHooks::states)?;
            Ok(PyBytes::new(py, &states).unbind())
        },
    )?;
    add(
        all,
        shared,
        (
            c"module_forward",
            c"The module of this index has computed its output from its input: their addresses, or None.",
        ),
        |arguments, shared| {
            let py = arguments.py();
            let index: usize = arguments.get_item(0)?.extract()?;
            let (input, output): (Option<Address>, Option<Address>) =
                arguments.get_slice(1, 3).extract()?;
            let shown = |name, address: Option<Address>| {
                address.map(|address| tensor(py, name, address)).transpose()
            };
            let (input, output) = (shown("input", input)?, shown("output", output)?);
            with(py, shared, |hooks| hooks.module_forward(index, input, output))
        },
    )?;
    add(
        all,
        shared,
        (c"show", c"Shows a tensor of the batch until it ends."),
        |arguments, shared| {
            let py = arguments.py();
            let name: String = arguments.get_item(0)?.extract()?;
            let shown = tensor(py, &name, arguments.get_item(1)?.extract()?)?;
            with(py, shared, |hooks| {
                hooks.shared().tensors.foreign.show(name.into(), shown);
                Ok(())
            })
        },
    )?;
    add(
        all,
        shared,
        (
            c"move_parameters",
            c"Shows the parameters where they are now.",
        ),
        |arguments, shared| {
            let py = arguments.py();
            let entries: Vec<NamedAddress> = arguments.get_item(0)?.extract()?;
            let mut parameters = Vec::with_capacity(entries.len());
            for (name, address, is_buffer) in entries {
                let tensor = tensor(py, &name, address)?;
                parameters.push(ForeignParameter {
                    name: name.into(),
                    tensor,
                    is_buffer,
                });
            }
            with(py, shared, |hooks| {
                hooks.shared().tensors.foreign.set_parameters(parameters);
                Ok(())
            })
        },
    )?;
    add(
        all,
        shared,
        (
            c"set_rates",
            c"Sets the groups' learning rates as the loop has them.",
        ),
        |arguments, shared| {
            let rates: Vec<(String, f64)> = arguments.get_item(0)?.extract()?;
            with(arguments.py(), shared, |hooks| {
                hooks.set_learning_rates(&rates);
                Ok(())
            })
        },
    )?;
    Ok(())
}

/// The ends of a run.
fn add_ends(all: &Bound<'_, PyDict>, shared: &Shared) -> PyResult<()> {
    add(
        all,
        shared,
        (c"finish", c"The run ends."),
        |arguments, shared| {
            let ended = take(shared).map_or(Ok(()), LoopHooks::finish);
            ended.map_err(|error| raised(arguments.py(), &error))
        },
    )?;
    add(
        all,
        shared,
        (c"fail", c"The loop has failed for this reason."),
        |arguments, shared| {
            let message: String = arguments.get_item(0)?.extract()?;
            let ended = take(shared).map_or(Ok(()), |hooks| hooks.fail(&message));
            ended.map_err(|error| raised(arguments.py(), &error))
        },
    )?;
    Ok(())
}

/// Shows gradients by their addresses, 0 for none.
fn lend(hooks: &LoopHooks<'static>, addresses: &[usize]) {
    let gradients: Vec<_> = addresses
        .iter()
        .map(|address| std::ptr::with_exposed_provenance_mut(*address))
        .collect();
    // SAFETY: the package keeps the gradients until this call is over.
    unsafe { hooks.shared().tensors.foreign.set_gradients(&gradients) };
}
