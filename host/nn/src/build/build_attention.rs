//! Builds attention: what fits together, its parameters and its cost.

use super::builder::Builder;
use super::made::{Made, flops};
use super::problem::{LayerProblem, rows};
use crate::init::Init;
use crate::layers::{
    Attention, AttentionOptions, AttentionProjections, ProjectionOptions, QueryNormOptions, Rotary,
};
use crate::ops::WeightOrder;
use crate::{AttentionConfig, ProjectionNames, RotaryAngles, Signal};

impl Builder<'_> {
    pub(super) fn attention(
        &mut self,
        config: &AttentionConfig,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        let (length, width) = rows(input)?;
        let mut options = options(config)?;
        let sizes = options.sizes(width);
        if config.head_width.is_none() && !width.is_multiple_of(sizes.heads) {
            return Err(LayerProblem::new(format!(
                "divides vectors of {width} into {} heads; the width must be a multiple of the heads, or `head_width` given",
                sizes.heads
            )));
        }
        if !sizes.heads.is_multiple_of(sizes.kv_heads) {
            return Err(LayerProblem::new(format!(
                "has {} heads of keys for {} heads; `kv_heads` must divide `heads`",
                sizes.kv_heads, sizes.heads
            )));
        }
        if config.window.is_some() && !config.causal {
            let problem = "has a `window`, which is for causal attention; set `causal`";
            return Err(LayerProblem::new(problem));
        }
        if let Some(angles) = config.rotary.angles() {
            options.rotary = Some(rotary(angles, length, sizes.each)?);
        }
        let layer = Attention::new(&mut self.parameters.scope(name), width, name, options)?;
        // The projections, and two matrix multiplications over pairs of positions.
        let (of_queries, of_keys) = sizes.widths();
        let projected = of_queries.saturating_add(of_keys).saturating_mul(2);
        Ok(Made {
            layer: Box::new(layer),
            output: input.clone(),
            flops: flops([length, width, projected])
                .saturating_add(flops([2, length, length, of_queries])),
        })
    }
}

/// The layer's options, but for the angles of its positions.
fn options(config: &AttentionConfig) -> Result<AttentionOptions, LayerProblem> {
    let bias = config.bias.each();
    let (projections, output) = match &config.projections {
        ProjectionNames::Packed(names) => (
            AttentionProjections::Packed(ProjectionOptions::new(&names.packed, bias.packed)),
            &names.output,
        ),
        ProjectionNames::Separate(names) => {
            let separate = [
                ProjectionOptions::new(&names.query, bias.query),
                ProjectionOptions::new(&names.key, bias.key),
                ProjectionOptions::new(&names.value, bias.value),
            ];
            (AttentionProjections::Separate(separate), &names.output)
        }
    };
    let query_norm = config.query_norm.as_ref();
    let options = AttentionOptions {
        kv_heads: config.kv_heads,
        head_width: config.head_width,
        causal: config.causal,
        window: config.window,
        query_norm: query_norm.map(|norm| QueryNormOptions {
            names: [norm.query.clone(), norm.key.clone()],
            epsilon: norm.epsilon,
        }),
        scale: config.scale,
        dropout: config.dropout,
        projections,
        output: ProjectionOptions {
            init: config.output_init.map(Init::from),
            ..ProjectionOptions::new(output, bias.output)
        },
        order: if config.transposed {
            WeightOrder::InputsOutputs
        } else {
            WeightOrder::OutputsInputs
        },
        init: config.init.map(Init::from),
        ..AttentionOptions::new(config.heads)
    };
    check_names(&options)?;
    Ok(options)
}

/// Checks that the names of projections and norms are such, and differ.
fn check_names(options: &AttentionOptions) -> Result<(), LayerProblem> {
    let mut names: Vec<&str> = match &options.projections {
        AttentionProjections::Packed(packed) => vec![&packed.name],
        AttentionProjections::Separate(all) => all.iter().map(|one| one.name.as_str()).collect(),
    };
    names.push(&options.output.name);
    let norms = options.query_norm.iter().flat_map(|norm| &norm.names);
    names.extend(norms.map(String::as_str));
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    for (index, name) in names.iter().enumerate() {
        if name.is_empty() || !name.chars().all(is_legal) {
            return Err(LayerProblem::new(format!(
                "has a projection or norm of the name `{name}`; names are of letters, digits, `_`, `-` and `.`"
            )));
        }
        if names.iter().take(index).any(|other| other == name) {
            return Err(LayerProblem::new(format!(
                "has two projections or norms of the name `{name}`"
            )));
        }
    }
    Ok(())
}

/// The angles of as many positions, for heads of this width.
fn rotary(angles: RotaryAngles, positions: usize, each: usize) -> Result<Rotary, LayerProblem> {
    let turned = (each as f64 * angles.share) as usize;
    if turned < 2 || !turned.is_multiple_of(2) {
        return Err(LayerProblem::new(format!(
            "rotates {turned} of the {each} elements of a head; there must be an even number of them, for their halves"
        )));
    }
    let steps = (0..turned / 2).map(|pair| {
        let step = 1.0 / angles.base.powf(2.0 * pair as f64 / turned as f64);
        angles.scaling.map_or(step, |scaling| scaling.scaled(step))
    });
    Ok(Rotary::of_steps(positions, steps.collect()))
}
