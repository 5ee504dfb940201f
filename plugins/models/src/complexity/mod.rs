//! The `model-complexity` hook: size and cost of a model, module by module, from the first batch.
//!
//! `{"hook": "model-complexity", "config": {"max_depth": 1}}`

mod count;
mod report;

use std::path::PathBuf;

use sconce_plugin_api::moment::HasBatch;
use sconce_plugin_api::prelude::*;

use count::{Run, elements, multiply_adds};
use report::{Report, Row};

/// Depth of the table and output files.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Maximum nesting depth of modules that get a row; the cost of deeper ones is included in the modules
    /// around them. 0: only the outermost. Default (null): all.
    max_depth: Option<usize>,
    /// Whether the table is logged. Default true.
    log: bool,
    /// JSON file inside the run directory; null: none. Default `complexity.json`.
    json: Option<PathBuf>,
    /// CSV file inside the run directory, a row per module; null: none. Default `complexity.csv`.
    csv: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            max_depth: None,
            log: true,
            json: Some("complexity.json".into()),
            csv: Some("complexity.csv".into()),
        }
    }
}

/// Cost of one module without those inside it, for the batch.
#[derive(Debug)]
struct Seen {
    name: String,
    kind: String,
    output: Vec<i64>,
    multiply_adds: Option<u64>,
    output_elements: u64,
    output_bytes: u64,
}

/// See the [module](self).
pub(crate) struct ModelComplexity {
    config: Config,
    json: Option<PathBuf>,
    csv: Option<PathBuf>,
    seen: Vec<Seen>,
    stage: Stage,
}

/// Progress of the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waiting for the first batch.
    Listening,
    /// The report is written; listening at modules is not yet switched off.
    Told,
    /// Done.
    Over,
}

/// Returns whether `name` is inside the module, or a parameter of it.
fn is_inside(name: &str, module: &str) -> bool {
    let rest = name.strip_prefix(module);
    rest.is_some_and(|rest| rest.starts_with('.'))
}

fn size(tensor: &Tensor<'_>) -> u64 {
    tensor.dtype().map_or(0, DType::size) as u64
}

impl ModelComplexity {
    /// Builds the report from the modules seen, per sample of the batch.
    fn report(&self, task: &At<'_, impl HasBatch>) -> Result<Report> {
        let batch = task.batch_size().max(1);
        let inputs = task.inputs()?;
        let mut report = Report {
            input: inputs.shape().get(1..).unwrap_or_default().to_vec(),
            ..Report::default()
        };
        for parameter in task.parameters() {
            let count = parameter.len() as u64;
            if parameter.is_buffer() {
                report.buffers += count;
            } else {
                report.parameters += count;
                report.parameter_bytes += count * size(&parameter);
            }
        }
        for seen in &self.seen {
            report.modules.push(self.row(seen, batch, task));
            if self.is_leaf(&seen.name) {
                report.activations += seen.output_elements / batch;
                report.activation_bytes += seen.output_bytes / batch;
            }
            report.multiply_adds += seen.multiply_adds.unwrap_or(0) / batch;
            if seen.multiply_adds.is_none() {
                report
                    .unknown
                    .push(format!("`{}` ({})", seen.name, seen.kind));
            }
        }
        report.flops = 2 * report.multiply_adds;
        in_order(&mut report.modules);
        Ok(report)
    }

    fn is_leaf(&self, name: &str) -> bool {
        !self.seen.iter().any(|other| is_inside(&other.name, name))
    }

    /// Returns the row of a module, including everything inside it.
    fn row(&self, seen: &Seen, batch: u64, task: &TaskView<'_>) -> Row {
        let mut row = Row {
            module: seen.name.clone(),
            kind: seen.kind.clone(),
            depth: (self.seen.iter())
                .filter(|other| is_inside(&seen.name, &other.name))
                .count(),
            output: seen.output.get(1..).unwrap_or_default().to_vec(),
            ..Row::default()
        };
        for parameter in task.parameters() {
            if is_inside(parameter.name(), &seen.name) {
                let count = parameter.len() as u64;
                if parameter.is_buffer() {
                    row.buffers += count;
                } else {
                    row.parameters += count;
                }
            }
        }
        let inside = |other: &&Seen| other.name == seen.name || is_inside(&other.name, &seen.name);
        let mut sum = Some(0);
        for other in self.seen.iter().filter(inside) {
            sum = sum.zip(other.multiply_adds).map(|(sum, count)| sum + count);
            if self.is_leaf(&other.name) {
                row.activations += other.output_elements / batch;
                row.activation_bytes += other.output_bytes / batch;
            }
        }
        row.multiply_adds = sum.map(|sum| sum / batch);
        row
    }

    fn tell(&self, task: &At<'_, impl HasBatch>) -> Result<()> {
        let report = self.report(task)?;
        if self.config.log {
            task.info(report.text(self.config.max_depth));
        }
        if let Some(path) = &self.json {
            write_atomically(path, report.json(self.config.max_depth)?)?;
        }
        if let Some(path) = &self.csv {
            write_atomically(path, report.csv(self.config.max_depth)?)?;
        }
        Ok(())
    }
}

/// Moves outer modules before those inside them, which finish first.
fn in_order(rows: &mut Vec<Row>) {
    let mut ordered: Vec<Row> = Vec::with_capacity(rows.len());
    for row in rows.drain(..) {
        let first = ordered
            .iter()
            .position(|other| is_inside(&other.module, &row.module));
        ordered.insert(first.unwrap_or(ordered.len()), row);
    }
    *rows = ordered;
}

#[hook(
    name = "model-complexity",
    about = "Tells parameters, multiply-adds and activations of a model, module by module.",
    reads = inputs
)]
impl Hook for ModelComplexity {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let below = |option: &str, path: &Option<PathBuf>| {
            let path = path.as_deref();
            path.map(|path| setup.path_below(option, path)).transpose()
        };
        Ok(ModelComplexity {
            json: below("json", &config.json)?,
            csv: below("csv", &config.csv)?,
            config,
            seen: Vec::new(),
            stage: Stage::Listening,
        })
    }

    fn module_forward(&mut self, _task: &mut ModuleForward<'_>, module: &Module<'_>) -> Result<()> {
        if self.stage != Stage::Listening {
            return Ok(());
        }
        let (input, output) = (module.input()?, module.output()?);
        // Parameters of inner modules, which finished earlier, are not its own.
        let is_own = |name: &str| {
            let mut inside = self
                .seen
                .iter()
                .filter(|other| is_inside(&other.name, module.name()));
            !inside.any(|other| is_inside(name, &other.name))
        };
        let parameters: Vec<(&str, &[i64])> = module
            .parameters()
            .filter(|parameter| !parameter.is_buffer() && is_own(parameter.name()))
            .map(|parameter| {
                let name = parameter.name().rsplit('.').next().unwrap_or_default();
                (name, parameter.shape())
            })
            .collect();
        let multiply_adds = multiply_adds(Run {
            kind: module.kind(),
            input: input.shape(),
            output: output.shape(),
            parameters: &parameters,
        });
        let output_elements = elements(output.shape());
        let output_bytes = output_elements * size(&output);
        match self.seen.iter_mut().find(|seen| seen.name == module.name()) {
            // It has already run in this pass.
            Some(seen) => {
                seen.multiply_adds = seen.multiply_adds.zip(multiply_adds).map(|(a, b)| a + b);
                seen.output_elements += output_elements;
                seen.output_bytes += output_bytes;
            }
            None => self.seen.push(Seen {
                name: module.name().to_owned(),
                kind: module.kind().to_owned(),
                output: output.shape().to_vec(),
                multiply_adds,
                output_elements,
                output_bytes,
            }),
        }
        Ok(())
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        if self.stage == Stage::Listening {
            self.stage = Stage::Told;
            self.tell(task)?;
        }
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        if self.stage == Stage::Told {
            self.stage = Stage::Over;
            return task.listen_at_modules(false);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Request, ScriptedRun};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_first_batch_tells_size_and_cost_of_the_model() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new().buffer("act.slope", &[5], &[0.0; 5]);
        let seen = run.drive::<ModelComplexity>(json!({}))?;
        assert_eq!(
            seen.file("complexity.csv").unwrap(),
            "module,kind,depth,output,parameters,buffers,multiply_adds,activations,activation_bytes\n\
         fc1,linear,0,4,16,0,12,4,16\nact,relu,0,4,0,5,0,4,16\nfc2,linear,0,2,10,0,8,2,8\n"
        );
        let report: Value = serde_json::from_str(&seen.file("complexity.json").unwrap()).unwrap();
        assert_eq!(
            (&report["flops"], &report["input"]),
            (&json!(40), &json!([3]))
        );
        assert_eq!(seen.messages().len(), 1);
        let text = &seen.messages()[0].text;
        assert_eq!(
            text.lines().next(),
            Some(
                "26 parameters (104 bytes), 5 buffers; a sample of 3: 20 multiply-adds (40 FLOPs), 10 \
             activations (40 bytes)"
            )
        );
        // Afterwards modules run as without the hook.
        let asked = seen.asked().iter();
        let asked: Vec<_> = asked
            .map(|asked| (asked.request, asked.at.iteration, asked.number))
            .collect();
        assert_eq!(asked, [(Request::ListenAtModules, 1, 0.0)]);
        assert_eq!(seen.called(Point::ModuleForward), 3);
        let seen =
            run.drive::<ModelComplexity>(json!({"log": false, "json": null, "csv": null}))?;
        assert_eq!(seen.messages(), []);
        assert!(seen.file("complexity.csv").is_err(), "no file is written");
        Ok(())
    }
}
