//! Checks references in hook entries to metrics, modules and data sets of the task.

use sconce_plugin_api::{METRIC_FORMAT, Monitor, Phase};

use crate::diagnostic::Diagnostic;
use crate::manifest::{Manifest, schema_check};
use crate::session::{HookPlan, StartFailure};
use crate::task::Task;
use sconce_base::nearest::nearest;
use sconce_base::patterns::Patterns;

/// Checks that the metrics, modules and data sets named in hook entries exist, and returns the references that can't be
/// checked before all hooks have been created.
///
/// # Errors
///
/// All unresolved references, with the nearest valid name.
pub fn check_references(
    hooks: &[HookPlan],
    task: &dyn Task,
    manifest: &Manifest,
) -> Result<OpenReferences, StartFailure> {
    let known = KnownNames::of(hooks, task);
    let mut problems = Vec::new();
    let mut open = Vec::new();
    let declares = hooks.iter().any(HookPlan::declares_metrics);
    for hook in hooks {
        for reference in metrics(hook) {
            match known.problem(&reference.metric) {
                Some(_) if declares && known.has_phase_of(&reference.metric) => {
                    open.push(reference);
                }
                Some(problem) => problems.push(reference.told(problem, manifest)),
                None => {}
            }
        }
        modules(hook, task, manifest, &mut problems);
        streams(hook, &known, manifest, &mut problems);
    }
    if problems.is_empty() {
        Ok(OpenReferences { known, open })
    } else {
        Err(StartFailure::usage(problems))
    }
}

/// References to metrics that only a hook can publish that says so at its creation.
pub struct OpenReferences {
    known: KnownNames,
    open: Vec<MetricReference>,
}

impl OpenReferences {
    /// Checks the references, with the metrics that the hooks have declared at their creation.
    ///
    /// # Errors
    ///
    /// All unresolved references, with the nearest valid name.
    pub fn check(
        &self,
        declared: impl IntoIterator<Item = String>,
        manifest: &Manifest,
    ) -> Result<(), StartFailure> {
        if self.open.is_empty() {
            return Ok(());
        }
        let mut known = self.known.clone();
        known.add(declared);
        let problems = self.open.iter().filter_map(|reference| {
            let (message, hint) = known.problem(&reference.metric)?;
            let hint = hint.unwrap_or_else(|| how_to_declare(&reference.metric));
            Some(reference.told((message, Some(hint)), manifest))
        });
        let problems: Vec<Diagnostic> = problems.collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(StartFailure::usage(problems))
        }
    }
}

fn how_to_declare(reference: &str) -> String {
    let metric = Monitor::new(reference).name().to_owned();
    format!("a hook in Python that publishes it says so: `publishes = [\"{metric}\"]` in its class")
}

/// What is wrong with a reference, and a suggestion.
type Problem = (String, Option<String>);

/// A metric named in the configuration of a hook.
struct MetricReference {
    metric: String,
    /// Its place in the manifest.
    json_path: String,
}

impl MetricReference {
    fn told(&self, (message, hint): Problem, manifest: &Manifest) -> Diagnostic {
        let problem = Diagnostic::new(message).at(manifest.place(&self.json_path));
        match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

/// The names that references can resolve to.
#[derive(Clone)]
struct KnownNames {
    metrics: Vec<String>,
    /// The same metrics as patterns: a hook may publish a family of metrics, such as `norm/*`.
    patterns: Option<Patterns>,
    phases: Vec<Phase>,
}

impl KnownNames {
    fn of(hooks: &[HookPlan], task: &dyn Task) -> KnownNames {
        let phases = Phase::ALL.into_iter();
        let mut known = KnownNames {
            metrics: vec!["loss".to_owned()],
            patterns: None,
            phases: phases.filter(|&phase| task.data(phase).is_some()).collect(),
        };
        known.add(task.metrics().iter().cloned());
        known.add(hooks.iter().flat_map(HookPlan::known_metrics).cloned());
        known
    }

    fn add(&mut self, metrics: impl IntoIterator<Item = String>) {
        self.metrics.extend(metrics);
        self.patterns = Patterns::new(&self.metrics).ok();
    }

    /// Whether the task has data for the reference's phase, or it names none.
    fn has_phase_of(&self, reference: &str) -> bool {
        let phase = Monitor::new(reference).phase();
        phase.is_none_or(|phase| self.phases.contains(&phase))
    }

    /// The problem of a reference to a metric, and a suggestion.
    fn problem(&self, reference: &str) -> Option<Problem> {
        let monitor = Monitor::new(reference);
        if let Some(phase) = monitor.phase()
            && !self.has_phase_of(reference)
        {
            let message = format!("`{reference}`: the task has no data for the phase `{phase}`");
            return Some((message, None));
        }
        let name = monitor.name();
        let published = (self.patterns.as_ref()).is_some_and(|known| known.matches(name));
        if published || self.metrics.iter().any(|known| known == name) {
            return None;
        }
        let names: Vec<String> = self
            .metrics
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let message = format!(
            "no metric is called `{name}`; task and hooks of this run publish {}",
            names.join(", ")
        );
        if let Some(meant) = self.written_elsewhere(reference) {
            let hint = format!(
                "did you mean `{meant}`? a metric of one phase has the phase's name and a slash in front"
            );
            return Some((message, Some(hint)));
        }
        let near = nearest(name, self.metrics.iter().map(String::as_str));
        Some((message, near.map(|near| format!("did you mean `{near}`?"))))
    }

    /// Translates other frameworks' names of metrics, such as `val_loss` or `eval/acc`.
    fn written_elsewhere(&self, reference: &str) -> Option<String> {
        let lower = reference.to_lowercase();
        let (phase, name) = PREFIXES
            .iter()
            .find_map(|(prefix, phase)| {
                let rest = lower
                    .strip_prefix(prefix)?
                    .strip_prefix(['_', '/', '-', '.', ' '])?;
                Some((Some(*phase), rest))
            })
            .or_else(|| {
                let (name, prefix) = lower.rsplit_once(['_', '/', '-', '.'])?;
                let (_, phase) = PREFIXES.iter().find(|(known, _)| *known == prefix)?;
                Some((Some(*phase), name))
            })
            .unwrap_or((None, &lower));
        let synonym = SYNONYMS.iter().find(|(theirs, _)| *theirs == name);
        let name = synonym.map_or(name, |(_, ours)| ours);
        let known = self.metrics.iter().find(|known| known.as_str() == name)?;
        match phase {
            Some(phase) => Some(format!("{}/{known}", phase.name())),
            None => synonym.map(|_| format!("val/{known}")),
        }
    }
}

/// Words by which other frameworks mark a metric's phase.
const PREFIXES: [(&str, Phase); 10] = [
    ("train", Phase::Train),
    ("training", Phase::Train),
    ("tr", Phase::Train),
    ("val", Phase::Val),
    ("valid", Phase::Val),
    ("validation", Phase::Val),
    ("eval", Phase::Val),
    ("evaluation", Phase::Val),
    ("dev", Phase::Val),
    ("test", Phase::Test),
];

/// Other frameworks' names for metrics.
const SYNONYMS: [(&str, &str); 9] = [
    ("acc", "accuracy"),
    ("categorical_accuracy", "accuracy"),
    ("sparse_categorical_accuracy", "accuracy"),
    ("top1", "accuracy"),
    ("top1_acc", "accuracy"),
    ("cost", "loss"),
    ("cross_entropy", "loss"),
    ("mean_absolute_error", "mae"),
    ("ppl", "perplexity"),
];

/// The metrics named in a hook's configuration.
fn metrics(hook: &HookPlan) -> Vec<MetricReference> {
    let Some(schema) = &hook.schema else {
        return Vec::new();
    };
    let paths = schema_check::of_format(&hook.config, schema, METRIC_FORMAT).into_iter();
    let references = paths.filter_map(|path| {
        let metric = hook.config.pointer(&path.pointer)?.as_str()?.to_owned();
        Some(MetricReference {
            metric,
            json_path: hook.place_in_config(&path.pretty),
        })
    });
    references.collect()
}

fn modules(hook: &HookPlan, task: &dyn Task, manifest: &Manifest, problems: &mut Vec<Diagnostic>) {
    let Some(patterns) = &hook.spec.modules else {
        return;
    };
    let modules = task.modules();
    let names = || modules.iter().map(|module| module.name.as_str());
    if let Some(idle) = patterns.idle(names()) {
        let all: Vec<String> = names().map(|name| format!("`{name}`")).collect();
        let message = format!(
            "`{idle}` matches no module of the model, which has {}",
            all.join(", ")
        );
        let place = manifest.place(&format!("{}.modules", hook.json_path));
        problems.push(Diagnostic::new(message).at(place));
    }
}

fn streams(
    hook: &HookPlan,
    known: &KnownNames,
    manifest: &Manifest,
    problems: &mut Vec<Diagnostic>,
) {
    let names: Vec<&str> = known.phases.iter().map(|phase| phase.name()).collect();
    for (index, stream) in hook.spec.streams.iter().flatten().enumerate() {
        if names.contains(&stream.as_str()) {
            continue;
        }
        let message = format!(
            "no data set is called `{stream}`; the task has {}",
            names.join(", ")
        );
        let place = manifest.place(&format!("{}.streams[{index}]", hook.json_path));
        problems.push(Diagnostic::new(message).at(place));
    }
}
