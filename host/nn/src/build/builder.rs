//! Builds a model from a list of layers: names, shapes, and errors for everything that does not fit,
//! before any training.

use std::collections::{BTreeMap, HashSet};

use crate::parameters::{Parameters, ParametersError};
use crate::{Inputs, Targets};
use crate::{
    Layer, LayerConfig, LayerSummary, ModuleInfo, Network, Recomputed, Residual, Sequence, Signal,
    Summary,
};
use sconce_parameters::TooLarge;

/// A layer that does not fit, with its path in the manifest.
#[derive(Debug, thiserror::Error)]
#[error("the layer `{name}` ({kind}) {problem}")]
pub struct LayerError {
    /// Path inside the model's part of the manifest, e.g. `layers[2]`.
    pub path: String,
    /// Full name of the layer.
    pub name: String,
    /// Kind of the layer, as in the manifest.
    pub kind: &'static str,
    /// Rest of the message, after the layer's name and kind.
    pub problem: String,
    /// Whether it fits its input and not into memory.
    pub is_too_large: bool,
}

/// A built layer with its output.
pub(super) struct Made {
    pub(super) layer: Box<dyn Layer>,
    pub(super) output: Signal,
    /// See [`LayerSummary::flops`].
    pub(super) flops: u64,
}

/// Builds the layers of a model one after the other.
pub(super) struct Builder<'a> {
    pub(super) parameters: &'a mut Parameters,
    /// Number of outputs that the data's targets need.
    pub(super) outputs: usize,
    modules: Vec<ModuleInfo>,
    layers: Vec<LayerSummary>,
    /// Name of the enclosing module, which is in front of the names of layers built here.
    prefix: String,
    path: String,
    depth: usize,
    /// Names of the modules so far.
    names: HashSet<String>,
    /// Number of unnamed layers so far, by prefix and kind.
    unnamed: BTreeMap<(String, &'static str), usize>,
}

/// Builds a model of `layers` for samples like `input`, with outputs that fit `targets`. Registers its
/// parameters in `parameters`.
///
/// # Errors
///
/// The first layer that does not fit its input, or outputs that do not fit the targets.
pub fn build(
    layers: &[LayerConfig],
    parameters: &mut Parameters,
    input: &Signal,
    targets: &Targets,
) -> Result<Network, LayerError> {
    let mut builder = Builder {
        parameters,
        outputs: targets.outputs(),
        modules: Vec::new(),
        layers: Vec::new(),
        prefix: String::new(),
        path: String::new(),
        depth: 0,
        names: HashSet::new(),
        unnamed: BTreeMap::new(),
    };
    let (sequence, output, _) = builder.sequence("layers", layers, input)?;
    builder.expect_outputs(&output, input, targets, layers.len())?;
    Ok(Network {
        layers: sequence,
        modules: builder.modules,
        summary: Summary {
            input: input.shape.clone(),
            layers: builder.layers,
        },
        input: input.clone(),
        output,
    })
}

impl Builder<'_> {
    /// Builds a list of layers under a key of the configuration; returns them with their output for
    /// one sample and its FLOPs.
    fn sequence(
        &mut self,
        key: &str,
        layers: &[LayerConfig],
        input: &Signal,
    ) -> Result<(Sequence, Signal, u64), LayerError> {
        let mut sequence = Sequence::default();
        let mut signal = input.clone();
        let mut flops = 0;
        let outer = self.path.clone();
        for (index, layer) in layers.iter().enumerate() {
            let dot = if outer.is_empty() { "" } else { "." };
            self.path = format!("{outer}{dot}{key}[{index}]");
            let (module, made) = self.layer(layer, &signal)?;
            self.check_output(layer, module.as_ref(), &made.output)?;
            sequence.push(module, made.layer);
            signal = made.output;
            flops = made.flops.saturating_add(flops);
        }
        self.path = outer;
        Ok((sequence, signal, flops))
    }

    /// Checks that a layer's output fits into the memory budget, if there is one.
    fn check_output(
        &self,
        config: &LayerConfig,
        module: Option<&ModuleInfo>,
        output: &Signal,
    ) -> Result<(), LayerError> {
        let Some(budget) = self.parameters.budget() else {
            return Ok(());
        };
        let size = self.parameters.dtype().size_in_bytes();
        let fits = budget.check_output(&output.shape, size);
        fits.map_err(|TooLarge(problem)| LayerError {
            is_too_large: true,
            ..self.error(config, module, problem)
        })
    }

    /// Builds one layer. It is listed before the layers inside it in the summary, and after them among
    /// the modules, since it finishes after them.
    fn layer(
        &mut self,
        config: &LayerConfig,
        input: &Signal,
    ) -> Result<(Option<ModuleInfo>, Made), LayerError> {
        let module = self.module(config)?;
        let line = self.layers.len();
        let before = self.parameters.element_count();
        let made = self.within(module.as_ref(), |builder| {
            builder.make(config, module.as_ref(), input)
        })?;
        if let Some(module) = &module {
            let summary = LayerSummary {
                name: module.name.clone(),
                kind: module.kind,
                output: made.output.shape.clone(),
                parameters: self.parameters.element_count() - before,
                flops: made.flops,
                depth: self.depth,
            };
            self.layers.insert(line, summary);
            self.names.insert(module.name.clone());
            self.modules.push(module.clone());
        }
        Ok((module, made))
    }

    fn make(
        &mut self,
        config: &LayerConfig,
        module: Option<&ModuleInfo>,
        input: &Signal,
    ) -> Result<Made, LayerError> {
        match config {
            LayerConfig::Sequential {
                layers, recompute, ..
            } => {
                let inside = self.inside();
                let (sequence, output, flops) = self.sequence("layers", layers, input)?;
                Ok(Made {
                    layer: self.block(sequence, *recompute, inside),
                    output,
                    flops,
                })
            }
            LayerConfig::Residual {
                layers,
                shortcut,
                activation,
                recompute,
                ..
            } => {
                let contents = self.inside();
                let (layers, output, inside) = self.sequence("layers", layers, input)?;
                let (shortcut, past, outside) = self.sequence("shortcut", shortcut, input)?;
                if past != output {
                    let problem = format!(
                        "adds {output}, what its layers make, to {past}, what its shortcut leaves; \
                         both must have the same shape"
                    );
                    return Err(self.error(config, module, problem));
                }
                let residual = Residual {
                    layers,
                    shortcut,
                    activation: *activation,
                };
                Ok(Made {
                    layer: self.block(residual, *recompute, contents),
                    output,
                    flops: inside.saturating_add(outside),
                })
            }
            leaf => self
                .leaf(leaf, module.map_or("", |module| &module.name), input)
                .map_err(|LayerProblem { text, is_too_large }| LayerError {
                    is_too_large,
                    ..self.error(config, module, text)
                }),
        }
    }

    /// Returns the positions after the modules and parameters so far, where those of a block begin.
    fn inside(&self) -> (usize, usize) {
        (self.modules.len(), self.parameters.len())
    }

    /// Returns a block whose modules and parameters begin at `inside`, recomputed on request.
    fn block(
        &self,
        layer: impl Layer + 'static,
        is_recomputed: bool,
        (modules, parameters): (usize, usize),
    ) -> Box<dyn Layer> {
        if !is_recomputed {
            return Box::new(layer);
        }
        let modules = self.modules.iter().skip(modules).cloned().collect();
        let parameters = self.parameters.iter().skip(parameters);
        let tensors = parameters.map(|parameter| parameter.tensor().clone());
        Box::new(Recomputed::new(layer, modules, tensors.collect()))
    }

    /// Runs `make` with the module's name as prefix for the names inside it.
    fn within<T>(&mut self, module: Option<&ModuleInfo>, make: impl FnOnce(&mut Self) -> T) -> T {
        let Some(module) = module else {
            return make(self);
        };
        let outer = std::mem::replace(&mut self.prefix, module.name.clone());
        self.depth += 1;
        let result = make(self);
        self.depth -= 1;
        self.prefix = outer;
        result
    }

    /// Returns the layer as a module; none for unnamed layers that only rearrange
    /// elements, and unnamed residual ones.
    fn module(&mut self, config: &LayerConfig) -> Result<Option<ModuleInfo>, LayerError> {
        let kind = config.kind();
        let own = match (config.name(), config) {
            (Some(name), _) => name.to_owned(),
            (
                None,
                LayerConfig::Residual { .. }
                | LayerConfig::Flatten { .. }
                | LayerConfig::Reshape { .. }
                | LayerConfig::Positions { .. },
            ) => return Ok(None),
            (None, _) => {
                let count = self.unnamed.entry((self.prefix.clone(), kind)).or_default();
                *count += 1;
                format!("{}_{count}", kind.replace('-', "_"))
            }
        };
        let dot = if self.prefix.is_empty() { "" } else { "." };
        let module = ModuleInfo::new(format!("{}{dot}{own}", self.prefix), kind);
        let is_legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if own.is_empty() || !own.chars().all(is_legal) {
            let problem = "has a name of other characters than letters, digits, `_`, `-` and `.`";
            return Err(self.error(config, Some(&module), problem.to_owned()));
        }
        if self.names.contains(&module.name) {
            let problem = "has the name of another layer; give it one of its own".to_owned();
            return Err(self.error(config, Some(&module), problem));
        }
        Ok(Some(module))
    }

    fn error(
        &self,
        config: &LayerConfig,
        module: Option<&ModuleInfo>,
        problem: String,
    ) -> LayerError {
        LayerError {
            path: self.path.clone(),
            name: module.map_or_else(|| self.prefix.clone(), |module| module.name.clone()),
            kind: config.kind(),
            problem,
            is_too_large: false,
        }
    }

    /// Checks that the model's outputs have the shape that the targets need.
    fn expect_outputs(
        &self,
        output: &Signal,
        input: &Signal,
        targets: &Targets,
        count: usize,
    ) -> Result<(), LayerError> {
        let wanted = match targets {
            Targets::Class(_) | Targets::Numbers(_) => vec![self.outputs],
            Targets::ClassPerPosition(_) => {
                let positions = input.shape.first().copied().unwrap_or(0);
                vec![positions, self.outputs]
            }
        };
        if output.shape == wanted && output.content == Inputs::Numbers {
            return Ok(());
        }
        let last = self.layers.iter().rev().find(|layer| layer.depth == 0);
        let what = match targets {
            Targets::Class(_) => "a number for each class",
            Targets::Numbers(_) => "a number for each target",
            Targets::ClassPerPosition(_) => "a number for each class at each position",
        };
        Err(LayerError {
            path: format!("layers[{}]", count.saturating_sub(1)),
            name: last.map_or_else(String::new, |layer| layer.name.clone()),
            kind: last.map_or("the input", |layer| layer.kind),
            problem: format!(
                "is the last and gives {output}; the data's targets want numbers of shape \
                 {wanted:?}, {what}"
            ),
            is_too_large: false,
        })
    }
}

/// Text after the layer's name and kind in a [`LayerError`].
pub(super) struct LayerProblem {
    pub(super) text: String,
    /// See [`LayerError::is_too_large`].
    pub(super) is_too_large: bool,
}

impl LayerProblem {
    pub(super) fn new(text: impl Into<String>) -> LayerProblem {
        LayerProblem {
            text: text.into(),
            is_too_large: false,
        }
    }
}

impl From<ParametersError> for LayerProblem {
    fn from(error: ParametersError) -> LayerProblem {
        LayerProblem {
            is_too_large: matches!(error, ParametersError::TooLarge { .. }),
            text: format!("can't be made: {error}"),
        }
    }
}

impl From<candle_core::Error> for LayerProblem {
    fn from(error: candle_core::Error) -> LayerProblem {
        LayerProblem::new(format!("can't be made: {error}"))
    }
}
