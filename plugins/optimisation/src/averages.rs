//! A set of averages of the parameters, published under `SET/PARAMETER`. Every checkpoint holds it, and the
//! host can swap it in for the parameters.

use sconce_plugin_api::Vectors;
use sconce_plugin_api::ext::{Collection, Combination};
use sconce_plugin_api::moment::{BetweenIterations, ChangesParameters};
use sconce_plugin_api::prelude::*;
use sconce_plugin_api::tensor::{BrainHalf, Half};

/// How buffers, such as the means and variances of a batch norm, are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Buffers {
    /// Averaged like the parameters; integer buffers are copied nevertheless.
    Average,
    /// Copied from the model at each averaging.
    Copy,
}

/// A phase whose passes can use the averages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Evaluated {
    /// Validations.
    Val,
    /// The test.
    Test,
    /// A prediction.
    Predict,
}

impl Evaluated {
    fn phase(self) -> Phase {
        match self {
            Evaluated::Val => Phase::Val,
            Evaluated::Test => Phase::Test,
            Evaluated::Predict => Phase::Predict,
        }
    }
}

/// The averages, once published.
pub(crate) struct Averages {
    set: String,
    members: Vec<Member>,
    passes: Passes,
}

/// The averages and the parameters that they follow, for the host.
struct Passes {
    averaged: (Vectors, Vectors),
    /// `None` where all are averaged.
    copied: Option<(Vectors, Vectors)>,
}

impl Passes {
    fn over(members: &[Member]) -> Passes {
        let of = |is_averaged: bool| {
            let all = || {
                members
                    .iter()
                    .filter(move |one| one.is_averaged == is_averaged)
            };
            let averages = all().map(|one| &one.published);
            let parameters = all().map(|one| &one.parameter);
            (
                Vectors::named(Collection::Published, averages),
                Vectors::named(Collection::Parameters, parameters),
            )
        };
        Passes {
            averaged: of(true),
            copied: members
                .iter()
                .any(|one| !one.is_averaged)
                .then(|| of(false)),
        }
    }
}

struct Member {
    parameter: String,
    /// `SET/PARAMETER`.
    published: String,
    /// Neither a copied buffer nor an integer tensor.
    is_averaged: bool,
}

impl Averages {
    /// Claims the parameters' place in the `evaluated` phases and, if `replaces`, at the end of training.
    /// No two hooks can hold the same claim.
    pub(crate) fn claim(setup: &Setup<'_>, evaluated: &[Evaluated], replaces: bool) -> Result<()> {
        for wanted in evaluated {
            let phase = wanted.phase();
            let claimed = setup.claim(&format!("the parameters' place in the phase `{phase}`"));
            claimed.map_err(|error| {
                HookError::new(format_args!(
                    "{}; leave `{phase}` out of `evaluate` in one of them",
                    error.message()
                ))
            })?;
        }
        if !replaces {
            return Ok(());
        }
        let claimed = setup.claim("to replace the parameters at the training's end");
        claimed.map_err(|error| {
            let message = error.message();
            HookError::new(format_args!(
                "{message}; set `replace_at_end` to false in one of them"
            ))
        })
    }

    /// Publishes a copy of the parameters as they are now.
    pub(crate) fn begin(task: &mut TaskView<'_>, set: &str, buffers: Buffers) -> Result<Averages> {
        let averages = Averages::named(task, set, buffers)?;
        for member in &averages.members {
            let parameter = task.parameter(&member.parameter)?;
            let shape: Vec<usize> = parameter
                .shape()
                .iter()
                .map(|&size| size as usize)
                .collect();
            match parameter.dtype() {
                Some(DType::F32) => publish::<f32>(task, member, &shape),
                Some(DType::F64) => publish::<f64>(task, member, &shape),
                Some(DType::F16) => publish::<Half>(task, member, &shape),
                Some(DType::Bf16) => publish::<BrainHalf>(task, member, &shape),
                Some(DType::I64) => publish::<i64>(task, member, &shape),
                Some(DType::U32) => publish::<u32>(task, member, &shape),
                Some(DType::U8) => publish::<u8>(task, member, &shape),
                _ => Err(unknown(&member.parameter)),
            }?;
        }
        Ok(averages)
    }

    /// Averages restored by a checkpoint, if it had all of them.
    pub(crate) fn found(
        task: &TaskView<'_>,
        set: &str,
        buffers: Buffers,
    ) -> Result<Option<Averages>> {
        let averages = Averages::named(task, set, buffers)?;
        for member in &averages.members {
            let Ok(mean) = task.tensors(Collection::Published).named(&member.published) else {
                return Ok(None);
            };
            let parameter = task.parameter(&member.parameter)?;
            if (mean.shape(), mean.dtype()) != (parameter.shape(), parameter.dtype()) {
                bail!(
                    "`{}` of the checkpoint has the shape {:?}, the parameter {:?}, or elements of \
                     another type",
                    member.published,
                    mean.shape(),
                    parameter.shape()
                );
            }
        }
        Ok(Some(averages))
    }

    fn named(task: &TaskView<'_>, set: &str, buffers: Buffers) -> Result<Averages> {
        let mut members = Vec::new();
        for parameter in task.parameters() {
            let name = parameter.name();
            let is_float = match parameter.dtype() {
                Some(DType::F32 | DType::F64) => true,
                Some(DType::F16 | DType::Bf16) if !parameter.is_buffer() => bail!(
                    "`{name}` has 16-bit elements, in which an average would stand still; \
                     averages need f32 or f64"
                ),
                _ => false,
            };
            members.push(Member {
                parameter: name.to_owned(),
                published: format!("{set}/{name}"),
                is_averaged: is_float && (buffers == Buffers::Average || !parameter.is_buffer()),
            });
        }
        let set = set.to_owned();
        let passes = Passes::over(&members);
        Ok(Averages {
            set,
            members,
            passes,
        })
    }

    /// Moves every average towards its parameter by the fraction `weight`, in one pass over both, in place.
    pub(crate) fn update(&mut self, task: &mut TaskView<'_>, weight: f64) -> Result<()> {
        let Passes { averaged, copied } = &mut self.passes;
        averaged
            .0
            .combine(task, &mut averaged.1, Combination::Blend(weight))?;
        match copied {
            Some((onto, from)) => onto.combine(task, from, Combination::Copy),
            None => Ok(()),
        }
    }

    /// Swaps the averages in for the parameters if the current phase is one of `evaluated`; returns whether
    /// it did.
    pub(crate) fn swap_in(
        &self,
        task: &mut At<'_, impl BetweenIterations>,
        evaluated: &[Evaluated],
    ) -> Result<bool> {
        let phase = task.phase();
        let is_wanted = evaluated.iter().any(|wanted| wanted.phase() == phase);
        if is_wanted {
            task.swap_parameters(&self.set)?;
        }
        Ok(is_wanted)
    }

    /// Handles the end of a loop: swaps parameters back, or, after training and if `replaces`, replaces
    /// them permanently by the averages.
    pub(crate) fn after_loop(
        averages: Option<&Averages>,
        is_swapped: &mut bool,
        replaces: bool,
        task: &mut At<'_, impl BetweenIterations + ChangesParameters>,
    ) -> Result<()> {
        if std::mem::take(is_swapped) {
            return task.swap_back();
        }
        match averages {
            Some(averages) if replaces && task.phase() == Phase::Train => {
                averages.replace_parameters(task)
            }
            _ => Ok(()),
        }
    }

    /// Overwrites the parameters with the averages.
    fn replace_parameters(&self, task: &mut At<'_, impl ChangesParameters>) -> Result<()> {
        for Member {
            parameter,
            published,
            ..
        } in &self.members
        {
            match task
                .tensors(Collection::Published)
                .named(published)?
                .dtype()
            {
                Some(DType::F32) => replace::<f32>(task, parameter, published),
                Some(DType::F64) => replace::<f64>(task, parameter, published),
                Some(DType::F16) => replace::<Half>(task, parameter, published),
                Some(DType::Bf16) => replace::<BrainHalf>(task, parameter, published),
                Some(DType::I64) => replace::<i64>(task, parameter, published),
                Some(DType::U32) => replace::<u32>(task, parameter, published),
                Some(DType::U8) => replace::<u8>(task, parameter, published),
                _ => Err(unknown(parameter)),
            }?;
        }
        Ok(())
    }
}

fn publish<T: Element>(task: &mut TaskView<'_>, member: &Member, shape: &[usize]) -> Result<()> {
    let elements = task.parameter(&member.parameter)?.to_vec::<T>()?;
    task.publish_tensor(&member.published, shape, &elements, Keep::Run)
}

fn replace<T: Element>(
    task: &mut At<'_, impl ChangesParameters>,
    parameter: &str,
    published: &str,
) -> Result<()> {
    let elements = task
        .tensors(Collection::Published)
        .named(published)?
        .to_vec::<T>()?;
    let mut target = task.parameter_mut(parameter)?;
    for (place, element) in target.as_mut_slice::<T>()?.iter_mut().zip(elements) {
        *place = element;
    }
    Ok(())
}

fn unknown(name: &str) -> HookError {
    HookError::new(format_args!(
        "the elements of `{name}` are of a type that this plugin does not know; update it"
    ))
}

/// Name of a set, the first part of its published tensors' names. Default: the hook entry's name.
pub(crate) fn set_name(given: Option<String>, setup: &Setup<'_>) -> Result<String> {
    let name = given.unwrap_or_else(|| setup.name().to_owned());
    if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
        bail!("`set` must have 1 to 64 bytes and no control characters, found {name:?}");
    }
    Ok(name)
}
