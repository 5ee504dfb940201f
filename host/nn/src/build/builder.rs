//! Builds a model from a list of layers: names, shapes, and errors for everything that does not fit,
//! before any training.

use std::collections::{BTreeMap, HashMap, HashSet};

use candle_core::Tensor;
use sconce_base::nearest::nearest;
use sconce_parameters::TooLarge;

use super::made::Made;
use super::problem::{LayerError, LayerProblem};
use crate::parameters::Parameters;
use crate::{
    LayerConfig, LayerKind, LayerSummary, ModuleInfo, Network, Sequence, Signal, Summary, Targets,
};

/// Most layers of a model, those inside others included: a list that repeats lists of repeated layers can ask for any number.
const MOST_LAYERS: usize = 100_000;

/// Builds the layers of a model one after the other.
pub(super) struct Builder<'a> {
    pub(super) parameters: &'a mut Parameters,
    /// Number of outputs that the data's targets need.
    pub(super) outputs: usize,
    /// Inputs that layers can read by their names.
    pub(super) named: Vec<(String, Signal)>,
    pub(super) modules: Vec<ModuleInfo>,
    pub(super) layers: Vec<LayerSummary>,
    /// Weights that other layers can be tied to, by the names of their layers.
    weights: HashMap<String, Tensor>,
    /// Weights of other layers that layers so far use.
    pub(super) borrowed: Vec<Tensor>,
    /// Name of the enclosing module, which is in front of the names of layers built here.
    pub(super) prefix: String,
    pub(super) path: String,
    depth: usize,
    /// Number of layers so far, those without a name included.
    count: usize,
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
    let (mut builder, sequence, output) = chain(layers, parameters, input, targets.outputs())?;
    builder.expect_outputs(&output, input, targets, layers.len())?;
    Ok(builder.network(sequence, input, output))
}

/// As [`build`], of layers with any outputs.
#[cfg(test)]
pub(crate) fn untargeted(
    layers: &[LayerConfig],
    parameters: &mut Parameters,
    input: &Signal,
) -> Result<Network, LayerError> {
    let (mut builder, sequence, output) = chain(layers, parameters, input, 1)?;
    Ok(builder.network(sequence, input, output))
}

fn chain<'a>(
    layers: &[LayerConfig],
    parameters: &'a mut Parameters,
    input: &Signal,
    outputs: usize,
) -> Result<(Builder<'a>, Sequence, Signal), LayerError> {
    let first = Signal {
        named: Vec::new(),
        ..input.clone()
    };
    let mut builder = Builder {
        parameters,
        outputs,
        named: input.named.clone(),
        modules: Vec::new(),
        layers: Vec::new(),
        weights: HashMap::new(),
        borrowed: Vec::new(),
        prefix: String::new(),
        path: String::new(),
        depth: 0,
        count: 0,
        names: HashSet::new(),
        unnamed: BTreeMap::new(),
    };
    let (sequence, output, _) = builder.sequence("layers", layers, &first)?;
    Ok((builder, sequence, output))
}

impl Builder<'_> {
    fn network(&mut self, layers: Sequence, input: &Signal, output: Signal) -> Network {
        Network {
            layers,
            modules: std::mem::take(&mut self.modules),
            summary: Summary {
                input: input.shape.clone(),
                layers: std::mem::take(&mut self.layers),
            },
            input: input.clone(),
            further: Vec::new(),
            output,
        }
    }

    /// Builds a list of layers under a key of the configuration; returns them with their output for
    /// one sample and its FLOPs.
    pub(super) fn sequence(
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
            // The lists of branches have no key of their own.
            let dot = if outer.is_empty() || key.is_empty() {
                ""
            } else {
                "."
            };
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
    pub(super) fn layer(
        &mut self,
        config: &LayerConfig,
        input: &Signal,
    ) -> Result<(Option<ModuleInfo>, Made), LayerError> {
        let module = self.module(config)?;
        self.count += 1;
        if self.count > MOST_LAYERS {
            let problem = format!("is one too many: a model has at most {MOST_LAYERS} layers");
            return Err(self.error(config, module.as_ref(), problem));
        }
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
        let problem = match &config.kind {
            LayerKind::Sequential(block) => return self.sequential(block, input),
            LayerKind::Repeat(block) => return self.repeat(block, input),
            LayerKind::Residual(block) => match self.residual(block, input)? {
                Ok(made) => return Ok(made),
                Err(problem) => problem,
            },
            LayerKind::Parallel(block) => match self.parallel(block, input)? {
                Ok(made) => return Ok(made),
                Err(problem) => problem,
            },
            leaf => match self.leaf(leaf, module.map_or("", |module| &module.name), input) {
                Ok(made) => return Ok(made),
                Err(problem) => problem,
            },
        };
        let LayerProblem { text, is_too_large } = problem;
        Err(LayerError {
            is_too_large,
            ..self.error(config, module, text)
        })
    }

    /// Lets later layers use the weight of this one.
    pub(super) fn lend(&mut self, name: &str, weight: &Tensor) {
        self.weights.insert(name.to_owned(), weight.clone());
    }

    /// Returns the weight of another layer, for one that is tied to it.
    pub(super) fn weight_of(&mut self, name: &str) -> Result<Tensor, LayerProblem> {
        if let Some(weight) = self.weights.get(name) {
            self.borrowed.push(weight.clone());
            return Ok(weight.clone());
        }
        let mut names: Vec<&str> = self.weights.keys().map(String::as_str).collect();
        names.sort_unstable();
        let hint = match nearest(name, names.iter().copied()) {
            Some(near) => format!("; did you mean `{near}`?"),
            None if names.is_empty() => String::new(),
            None => format!(", only of `{}`", names.join("`, `")),
        };
        Err(LayerProblem::new(format!(
            "is tied to `{name}`, and no `embedding` or `linear` layer before it has that full name{hint}"
        )))
    }

    /// Runs `make` with the module's name as prefix for the names inside it.
    pub(super) fn within<T>(
        &mut self,
        module: Option<&ModuleInfo>,
        make: impl FnOnce(&mut Self) -> T,
    ) -> T {
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
    /// elements, and unnamed ones around branches.
    fn module(&mut self, config: &LayerConfig) -> Result<Option<ModuleInfo>, LayerError> {
        let kind = config.kind();
        let own = match (config.name(), &config.kind) {
            (Some(name), _) => name.to_owned(),
            (
                None,
                LayerKind::Residual(_)
                | LayerKind::Parallel(_)
                | LayerKind::Flatten(_)
                | LayerKind::Reshape(_)
                | LayerKind::Transpose(_)
                | LayerKind::Select(_)
                | LayerKind::Positions(_),
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
}
