//! The `activation-stats` hook: mean, spread and dead units of module outputs, sampled during training.
//!
//! `{"hook": "activation-stats", "config": {"every": 200, "modules": ["act*"]}}`

mod numbers;

use std::path::PathBuf;

use globset::{Glob, GlobSet, GlobSetBuilder};
use sconce_plugin_api::ModuleFacts;
use sconce_plugin_api::moment::ChoosesModules;
use sconce_plugin_api::prelude::*;

use crate::table;
use numbers::Statistics;

/// Which modules are observed, when, and where the results go.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Interval of the training iterations that are observed, at least 1; in the others layers run
    /// unobserved, at full speed. Default 100.
    #[schemars(range(min = 1))]
    every: u64,
    /// Modules to observe, as name patterns: `fc*`, `layer1.*`. Default: all.
    modules: Vec<String>,
    /// Modules to exclude from these, as name patterns. Default: none.
    ignore: Vec<String>,
    /// Largest absolute value that counts as zero; not negative. Default 0.
    #[schemars(range(min = 0.0))]
    threshold: f64,
    /// Fraction of dead units from which a warning is printed, once per module, above 0 and at most 1;
    /// null: never. Default 0.9.
    #[schemars(extend("exclusiveMinimum" = 0.0), range(max = 1.0))]
    warn_above: Option<f64>,
    /// CSV file inside the run directory, with a row per observation of a module; null: none.
    /// Default `activations.csv`.
    file: Option<PathBuf>,
    /// Whether metrics are published: for each module, as `activation/fc1/mean`, `std`, `zeros` and `dead`,
    /// and the largest fraction of dead units as `dead_units`. Default true.
    publish: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            every: 100,
            modules: vec!["*".to_owned()],
            ignore: Vec::new(),
            threshold: 0.0,
            warn_above: Some(0.9),
            file: Some("activations.csv".into()),
            publish: true,
        }
    }
}

/// Statistics of a module's output in the current iteration.
#[derive(Debug)]
struct Seen {
    module: String,
    kind: String,
    statistics: Statistics,
}

/// See the [module](self).
pub(crate) struct ActivationStats {
    config: Config,
    chosen: GlobSet,
    ignored: GlobSet,
    log: Option<LogFile>,
    seen: Vec<Seen>,
    /// Modules that have been warned of.
    warned: Vec<String>,
    /// Last request to the host: whether to listen at modules.
    listens: Option<bool>,
}

impl ActivationStats {
    /// Starts or stops listening at modules for the iteration that comes next, or that has just begun.
    fn listen(&mut self, task: &mut At<'_, impl ChoosesModules>) -> Result<()> {
        let listens = (task.iteration() + 1).is_multiple_of(self.config.every);
        if self.listens.replace(listens) == Some(listens) {
            return Ok(());
        }
        task.listen_at_modules(listens)
    }

    fn write(&mut self, task: &TaskView<'_>) -> Result<()> {
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        if !log.is_begun() {
            log.write("epoch,iteration,module,kind,mean,std,min,max,zeros,dead\n")?;
        }
        let row = |seen: &Seen| {
            let Statistics {
                mean,
                std,
                least,
                most,
                zeros,
                dead,
            } = seen.statistics;
            let words = [task.epoch().to_string(), task.iteration().to_string()];
            let names = [seen.module.clone(), seen.kind.clone()];
            let numbers = [mean, std, least, most, zeros, dead].map(|number| number.to_string());
            words.into_iter().chain(names).chain(numbers)
        };
        log.write(table::rows(self.seen.iter().map(row))?)
    }

    fn publish(&self, task: &mut TaskView<'_>) -> Result<()> {
        let mut dead = 0.0_f64;
        for Seen {
            module, statistics, ..
        } in &self.seen
        {
            dead = dead.max(statistics.dead);
            for (what, value) in [
                ("mean", statistics.mean),
                ("std", statistics.std),
                ("zeros", statistics.zeros),
                ("dead", statistics.dead),
            ] {
                task.publish_metric(&format!("activation/{module}/{what}"), value)?;
            }
        }
        task.publish_metric("dead_units", dead)
    }

    fn warn(&mut self, task: &TaskView<'_>) {
        let Some(share) = self.config.warn_above else {
            return;
        };
        for Seen {
            module,
            kind,
            statistics,
        } in &self.seen
        {
            if statistics.dead >= share && !self.warned.contains(module) {
                task.warn(format_args!(
                    "of the units of `{module}` ({kind}) {:.0} % are dead in iteration {}: zero for \
                     all samples of the batch; a lower learning rate, or another activation or \
                     initialisation, may help",
                    100.0 * statistics.dead,
                    task.iteration()
                ));
                self.warned.push(module.clone());
            }
        }
    }
}

fn patterns(option: &str, patterns: &[String]) -> Result<GlobSet> {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = Glob::new(pattern);
        builder.add(glob.with_context(|| format!("`{option}` has no name pattern: `{pattern}`"))?);
    }
    builder
        .build()
        .with_context(|| format!("`{option}` can't be used"))
}

/// Checks that each pattern matches a module.
fn check_modules(wanted: &[String], modules: &[ModuleFacts]) -> Result<()> {
    for pattern in wanted {
        let only = patterns("modules", std::slice::from_ref(pattern))?;
        if !modules.iter().any(|module| only.is_match(&module.name)) {
            let names: Vec<_> = modules.iter().map(|module| module.name.as_str()).collect();
            bail!(
                "`modules` has `{pattern}`, which no module is called: {}",
                names.join(", ")
            );
        }
    }
    Ok(())
}

#[hook(
    name = "activation-stats",
    about = "Reports mean, spread and dead units of modules' outputs every n iterations.",
    priority = HIGHER,
    publishes = ["dead_units"],
    state = [warned, log]
)]
impl Hook for ActivationStats {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let path = config
            .file
            .as_deref()
            .map(|file| setup.path_below("file", file));
        if let Some(plan) = setup.plan()? {
            check_modules(&config.modules, &plan.modules)?;
        }
        Ok(ActivationStats {
            chosen: patterns("modules", &config.modules)?,
            ignored: patterns("ignore", &config.ignore)?,
            log: path.transpose()?.map(LogFile::new),
            config,
            seen: Vec::new(),
            warned: Vec::new(),
            listens: None,
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        check_modules(&self.config.modules, &task.facts()?.modules)?;
        self.listens = Some(false);
        task.listen_at_modules(false)
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        if task.phase() == Phase::Train {
            self.seen.clear();
            self.listen(task)?;
        }
        Ok(())
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        if task.phase() == Phase::Train {
            // After a resume `before_epoch` has shown the counters of the epoch's start.
            self.listen(task)?;
        }
        Ok(())
    }

    fn module_forward(&mut self, task: &mut ModuleForward<'_>, module: &Module<'_>) -> Result<()> {
        let name = module.name();
        // A validation during training may fall into an observed iteration.
        if task.phase() != Phase::Train
            || !self.chosen.is_match(name)
            || self.ignored.is_match(name)
        {
            return Ok(());
        }
        if let Some(statistics) = Statistics::of(&module.output()?, self.config.threshold)? {
            self.seen.push(Seen {
                module: name.to_owned(),
                kind: module.kind().to_owned(),
                statistics,
            });
        }
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        if task.phase() != Phase::Train {
            return Ok(());
        }
        if !self.seen.is_empty() {
            self.write(task)?;
            self.warn(task);
            if self.config.publish {
                self.publish(task)?;
            }
            self.seen.clear();
        }
        self.listen(task)
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Request, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn chosen_modules_are_observed_in_due_iterations_and_warned_of_once()
    -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new().epochs(1);
        // All outputs are below the threshold, and so count as zeros.
        let config = json!({"every": 2, "modules": ["fc*"], "ignore": ["fc2"], "threshold": 1.0});
        let seen = run.drive::<ActivationStats>(config)?;
        let asked = seen.asked_for(Request::ListenAtModules).into_iter();
        let asked: Vec<_> = asked
            .map(|asked| (asked.at.iteration, asked.number))
            .collect();
        assert_eq!(asked, [(0, 0.0), (1, 1.0), (2, 0.0), (3, 1.0), (4, 0.0)]);
        for name in ["activation/fc1/zeros", "activation/fc1/dead", "dead_units"] {
            assert_eq!(seen.metric(Phase::Train, name), [1.0, 1.0], "{name}");
        }
        // Four metrics of the one module, and the largest of all, twice.
        assert_eq!(seen.metrics().len(), 10);
        assert_eq!(
            seen.warnings(),
            [
                "of the units of `fc1` (linear) 100 % are dead in iteration 2: zero for all samples of the \
             batch; a lower learning rate, or another activation or initialisation, may help",
            ]
        );
        let text = seen.file("activations.csv").unwrap();
        let rows: Vec<_> = text
            .lines()
            .map(|row| row.split(',').collect::<Vec<_>>())
            .collect();
        assert_eq!(
            rows[0].join(","),
            "epoch,iteration,module,kind,mean,std,min,max,zeros,dead"
        );
        assert_eq!(rows[1][..4], ["0", "2", "fc1", "linear"]);
        assert_eq!(rows[2][..4], ["0", "4", "fc1", "linear"]);
        assert_eq!((rows.len(), &rows[2][8..]), (3, &["1", "1"][..]));
        let config = json!({"every": 1, "warn_above": null, "file": null, "publish": false});
        let seen = run.drive::<ActivationStats>(config)?;
        assert_eq!((seen.warnings().len(), seen.metrics()), (0, &[][..]));
        assert!(seen.file("activations.csv").is_err(), "no file is written");
        let failed = run.drive::<ActivationStats>(json!({"modules": ["fc1", "conv*"]}));
        assert_eq!(
            failed.unwrap_err().message,
            "`modules` has `conv*`, which no module is called: fc1, act, fc2"
        );
        Ok(())
    }
}
