//! The `ibot` hook: as `dino` for class tokens, and patches that the student does not see are to have the distributions that a momentum
//! teacher has for them, which does.
//!
//! Zhou et al., "iBOT: Image BERT Pre-Training with Online Tokenizer", 2021. The model has a layer `mask-tokens`, to which `masks` says which
//! patches are masked.

mod masks;

use sconce_plugin_api::prelude::*;

use crate::centre::Centre;
use crate::distillation::Distillation;
use crate::learner::Learner;
use crate::losses::{self, Rows, Sharpening, TokenSharpening, Tokens};
use crate::outputs::{check_phase, check_temperature, tokens};
use masks::Masks;

/// What is masked, how outputs become distributions, and how teacher and centres follow.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Those of class tokens.
    #[serde(flatten)]
    distillation: Distillation,
    /// Divides the teacher's outputs for patches less their centre, above 0; smaller than the student's. Default 0.04.
    #[schemars(extend("exclusiveMinimum" = 0))]
    patch_temperature: f64,
    /// Probability that a view which the teacher sees is masked, from 0 to 1. Default 0.5.
    #[schemars(range(min = 0.0, max = 1.0))]
    masked_views: f64,
    /// Least and largest share of a masked view's patches that are masked, from 0 to 1; at least one patch is. Default [0.1, 0.5].
    share: [f64; 2],
}

impl Default for Config {
    fn default() -> Self {
        Config {
            distillation: Distillation::default(),
            patch_temperature: 0.04,
            masked_views: 0.5,
            share: [0.1, 0.5],
        }
    }
}

impl Config {
    /// Checks what is not checked elsewhere.
    fn check(&self, setup: &Setup<'_>) -> Result<()> {
        self.distillation.check(setup)?;
        check_temperature("patch_temperature", self.patch_temperature)?;
        let [least, largest] = self.share;
        if !(least >= 0.0 && least <= largest && largest <= 1.0) {
            bail!(
                "`share` has the least and the largest share, from 0 to 1, found [{least}, {largest}]"
            );
        }
        Ok(())
    }
}

/// Refuses a model that would show the student all patches.
fn check_layer(setup: &Setup<'_>) -> Result<()> {
    let plan = setup.plan()?;
    if plan.is_some_and(|plan| {
        plan.modules
            .iter()
            .all(|module| module.kind != "mask-tokens")
    }) {
        bail!(
            "the model has no layer `mask-tokens`, which puts a learned vector in the place of masked patches: add it behind `positions`"
        );
    }
    Ok(())
}

/// See the [module](self).
pub(crate) struct Ibot {
    loss: losses::Ibot,
    teacher_temperature: f64,
    patch_temperature: f64,
    centre: Centre,
    patch_centre: Centre,
    masks: Masks,
    /// Name of the masks, which the model's layer reads.
    mask: String,
    /// The loss's, of all outputs.
    gradient: Vec<f32>,
    /// With means of the teacher's outputs for class tokens, and for patches.
    learner: Learner<[Vec<f32>; 2]>,
}

impl Ibot {
    /// The loss of a batch's outputs; writes its gradient.
    fn compute(&mut self, task: &TaskView<'_>, student: Tokens<'_>, samples: usize) -> Result<f64> {
        let teacher = self.learner.teacher.tokens(task)?;
        let width = teacher.rows.width();
        let centre = self.centre.values(task, width)?;
        let patch_centre = self.patch_centre.values(task, width)?;
        let by = TokenSharpening {
            class: Sharpening {
                centre: &centre,
                temperature: self.teacher_temperature,
            },
            patches: Sharpening {
                centre: &patch_centre,
                temperature: self.patch_temperature,
            },
        };
        self.gradient.clear();
        self.gradient.resize(student.rows.count() * width, 0.0);
        let masked = (samples, self.masks.mask());
        let value = self
            .loss
            .compute(student, teacher, by, masked, &mut self.gradient)?;
        self.learner.parts.add(task, teacher.means());
        if !task.ranks().is_repeated() {
            (self.learner.watch).note(self.loss.class_rows(), width, value.class);
        }
        Ok(value.class + value.patches)
    }
}

#[hook(
    name = "ibot",
    about = "Learns without labels: as DINO, and masked patches are those of a momentum teacher that sees them (iBOT).",
    requires = ["sconce.forward/1", "sconce.given-loss/1", "sconce.vectors/1"],
    ranks = "all",
    publishes = ["output_spread"],
    state = [learner.watch, learner.parts],
    reads = [forward, given_loss, outputs, parameters, ranks, sample_indices]
)]
impl Hook for Ibot {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        config.check(setup)?;
        check_layer(setup)?;
        let distillation = &config.distillation;
        let views = setup.plan()?.map_or(0, |plan| plan.views);
        let global = usize::try_from(distillation.global_views)?;
        let views = [usize::try_from(views)?.max(global), global];
        Ok(Ibot {
            loss: losses::Ibot::new(distillation.student_temperature),
            teacher_temperature: distillation.teacher_temperature,
            patch_temperature: config.patch_temperature,
            centre: distillation.centre("centre", setup),
            patch_centre: distillation.centre("patch_centre", setup),
            learner: Learner::taught_by(distillation.teacher(setup)?),
            masks: Masks::new(setup.seed(), views, config.masked_views, config.share),
            mask: format!("{}.mask", setup.name()),
            gradient: Vec::new(),
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.learner.teacher.begin(task)
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        if task.phase() != Phase::Train {
            return Ok(());
        }
        self.learner.teacher.look(task)?;
        let patches = self.learner.teacher.positions(task)?.saturating_sub(1);
        if patches == 0 {
            bail!(
                "the outputs have a single position: there are no patches to mask after the class token"
            );
        }
        let samples: Vec<u64> = {
            let indices = task.sample_indices()?;
            indices.values()?.map(|index| index as u64).collect()
        };
        let mask = self.masks.draw(task.epoch(), &samples, patches);
        let shape = [mask.len() / patches, patches];
        task.publish_tensor(&self.mask, &shape, mask, Keep::Batch)
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        check_phase(task)?;
        let samples = usize::try_from(task.batch_size()).unwrap_or(usize::MAX);
        let value = {
            let outputs = task.outputs()?;
            let (values, [positions, width]) = tokens(&outputs)?;
            let rows = Rows::new(&values, width)?;
            self.compute(task, Tokens { rows, positions }, samples)?
        };
        task.set_loss(value, &self.gradient)
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        self.learner.teacher.follow(task)?;
        let parts = self.learner.parts.gather(task)?;
        let [class, patches] = [0, 1].map(|of| {
            parts
                .iter()
                .flat_map(move |means| means[of].iter().copied())
        });
        let (class, patches): (Vec<f32>, Vec<f32>) = (class.collect(), patches.collect());
        let width = self.learner.teacher.width();
        self.centre.follow(task, &class, width)?;
        self.patch_centre.follow(task, &patches, width)
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        self.learner.parts.end_batch(task);
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.learner.watch.end_epoch(task, Some(f64::ln))
    }

    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        _checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        self.learner.teacher.begin(task)
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    /// Two samples in three views, of which each has a class token and four patches, with three outputs.
    fn run() -> ScriptedRun {
        ScriptedRun::new()
            .validation(0)
            .views(3)
            .batch_size(2)
            .module("mask", "mask-tokens", 8)
            .module("head", "linear", 15)
            .positions(5)
    }

    #[test]
    fn masks_are_published_centres_follow_and_runs_resume() -> std::result::Result<(), Failed> {
        let config = json!({"centre_momentum": 0.5, "momentum": 0.5, "masked_views": 1.0});
        let seen = run().drive::<Ibot>(config.clone())?;
        assert_eq!(seen.losses().len(), 12);
        for centre in ["ibot.centre", "ibot.patch_centre"] {
            let moved = seen.changes().iter().filter(|one| one.name == centre);
            assert_eq!(moved.count(), 12);
        }
        let masks = seen
            .published()
            .iter()
            .filter(|one| one.name == "ibot.mask");
        let masks: Vec<_> = masks.filter_map(|one| one.tensor.as_ref()).collect();
        assert_eq!(masks.len(), 12);
        for ((shape, mask), loss) in masks.iter().zip(seen.losses()) {
            assert_eq!(shape[..], [6, 4]);
            // All of the first two views have something masked, the third has not; the gradient of patches says the same.
            let rows = mask.chunks(4).zip(loss.gradient.chunks(15));
            for (row, (mask, gradient)) in rows.enumerate() {
                assert_eq!(mask.contains(&1.0), row < 4);
                assert!(gradient[..3].iter().any(|at| *at != 0.0));
                for (is_masked, gradient) in mask.iter().zip(gradient[3..].chunks(3)) {
                    assert_eq!(*is_masked > 0.0, gradient.iter().any(|at| *at != 0.0));
                }
            }
        }
        run().check_resume::<Ibot>(config.clone())?;
        run().accumulate(2).check_resume::<Ibot>(config)
    }

    #[test]
    fn what_is_not_right_is_refused() {
        for (config, message) in [
            (json!({"share": [0.5, 0.1]}), "`share` has the least and"),
            (json!({"masked_views": 1.5}), "masked_views"),
            (json!({"patch_temperature": 0.0}), "patch_temperature"),
        ] {
            let told = run().drive::<Ibot>(config).expect_err("a wrong option");
            assert!(told.message.contains(message), "{told}");
        }
        let plain = ScriptedRun::new().validation(0).views(2);
        let told = plain.drive::<Ibot>(json!({})).expect_err("no layer");
        assert!(told.message.contains("no layer `mask-tokens`"), "{told}");
        let flat = ScriptedRun::new().validation(0).views(2);
        let flat = flat.module("mask", "mask-tokens", 8);
        let told = flat.drive::<Ibot>(json!({})).expect_err("no patches");
        assert!(
            told.message.contains("rows of a class token and patches"),
            "{told}"
        );
        let told = run().positions(1).drive::<Ibot>(json!({}));
        let told = told.expect_err("a single position");
        assert!(told.message.contains("no patches to mask"), "{told}");
    }
}
