//! The hook `exhibit` in Rust: writes what `../exhibit.c` writes.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};

use sconce_plugin_api::ext::{Change, Collection, Reduction};
use sconce_plugin_api::prelude::*;
use sconce_plugin_api::{Groups, Vectors};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    name: String,
}

struct Exhibit {
    file: File,
    epochs: u64,
}

const fn word(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

#[hook(
    name = "exhibit",
    about = "Calls every function, and writes what it was told.",
    publishes = ["exhibit"],
    ranks = "all",
    state = epochs,
)]
impl Hook for Exhibit {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        setup.claim("the exhibit")?;
        let path = setup.run_directory().join("exhibit.txt");
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        writeln!(file, "{}, seed {}", config.name, setup.seed())?;
        let epochs = setup.plan()?.map_or(0, |plan| plan.epochs);
        writeln!(file, "plan: {epochs} epochs")?;
        Ok(Exhibit { file, epochs: 0 })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        writeln!(self.file, "seed {}", task.facts()?.seed)?;
        for group in task.groups() {
            let (rate, decay) = (group.learning_rate, group.weight_decay);
            writeln!(self.file, "group {}: {rate}, {decay}", group.name)?;
        }
        let is_cpu = task.storage(Collection::Parameters).device()?.is_cpu();
        writeln!(self.file, "device {}", if is_cpu { 1 } else { 2 })?;
        writeln!(self.file, "a GPU: {}", word(task.gpu().is_some()))?;
        writeln!(self.file, "a screen: {}", word(task.screen().is_some()))?;
        let parts = [9, 9, 9].map(AtomicU32::new);
        task.threads()
            .run(3, |part| parts[part].store(part as u32, Ordering::Relaxed));
        let [a, b, c] = parts.map(AtomicU32::into_inner);
        writeln!(self.file, "parts {a} {b} {c}")?;
        let ranks = task.ranks();
        let all = ranks.gather(&[7])?;
        let is_repeated = u8::from(ranks.is_repeated());
        let (rank, size) = (ranks.rank(), ranks.size());
        writeln!(
            self.file,
            "rank {rank} of {size} gathered {}, repeated: {is_repeated}",
            all[0][0]
        )?;
        writeln!(self.file, "resumed: {}", word(task.resumed().is_some()))?;
        Ok(())
    }

    fn after_backward(&mut self, task: &mut AfterBackward<'_>) -> Result<()> {
        let Some(mut task) = task.in_training().filter(|task| task.iteration() == 0) else {
            return Ok(());
        };
        let task = &mut task;
        let count = task.storage(Collection::Gradients).count();
        let index = task.parameters().position(|one| one.name() == "fc1.weight");
        let mut gradient = task.gradient_mut("fc1.weight")?;
        let shape = gradient.view().shape().to_vec();
        let (code, bits) = gradient
            .view()
            .dtype()
            .map_or((9, 9), |dtype| dtype.codes());
        gradient.as_mut_slice::<f32>()?.fill(0.0);
        writeln!(
            self.file,
            "gradient {} of {count}: {} by {}, type {code} of {bits} bits",
            index.unwrap_or(99),
            shape[0],
            shape[1]
        )?;
        let mut one = Vectors::named(Collection::Gradients, ["fc1.weight"]);
        let sum = one.reduce(task, Reduction::Powers(2.0))?[0];
        writeln!(self.file, "its sum of squares: {sum}")?;
        one.change(task, Change::Scale(0.5))?;
        let kept = task.storage(Collection::Parameters).retain("fc1.weight")?;
        writeln!(self.file, "kept {}", kept.name())?;
        drop(kept);
        let recent = task.losses().recent(0).len();
        writeln!(
            self.file,
            "a loss: {}, of the last batches: {recent}",
            word(task.loss().is_some())
        )?;
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        if task.phase() != Phase::Train {
            return Ok(());
        }
        self.epochs += 1;
        task.set_learning_rate(Groups::All, 0.01)?;
        task.publish_metric("exhibit", self.epochs as f64)?;
        let value = task.metric("exhibit").unwrap_or(f64::NAN);
        let first = task
            .metrics_of(Phase::Train)
            .next()
            .map_or("none", |(name, _)| name);
        writeln!(self.file, "epoch {}: {value}, first {first}", self.epochs)?;
        task.publish("exhibit", &[1], Keep::Run)?;
        let value: Vec<u32> = task.published("exhibit")?.unwrap_or_default();
        writeln!(self.file, "value {value:?}")?;
        task.publish_tensor("pair", &[2], &[1.0_f32, 2.0], Keep::Run)?;
        task.retract("exhibit")?;
        let published = task.tensors(Collection::Published).count();
        writeln!(self.file, "published tensors: {}", u8::from(published > 0))?;
        writeln!(
            self.file,
            "time goes: {}",
            word(task.elapsed().as_secs_f64() >= 0.0)
        )?;
        task.info("an exhibit speaks");
        Ok(())
    }

    fn before_save_checkpoint(
        &mut self,
        task: &mut BeforeSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let _ = task;
        writeln!(self.file, "checkpoint {}", checkpoint.tag)?;
        Ok(())
    }
}

export_plugin!(Exhibit);
