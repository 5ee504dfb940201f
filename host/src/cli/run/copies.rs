//! Copies of a device's tensors for hooks: which hooks of a manifest make some, and what they were in a run.
//!
//! What a hook reads is known only once it has run. Before, its mount points and the extensions that it requires say where it
//! could cause copies; [`measured`] says what a run, such as a dry run, really copied.

use std::fmt::Write;

use sconce_plugin_api::ext::{DeviceTable, VectorsTable};
use sconce_plugin_api::{Phase, Point};

use crate::data::ViewGroup;
use crate::manifest::{Every, Unit};
use crate::run::Profile;
use crate::session::HookPlan;
use crate::task::Task;

/// Points within an iteration of the training at which tensors can be read.
const OF_ITERATIONS: [Point; 9] = [
    Point::BeforeIter,
    Point::ModuleForward,
    Point::AfterForward,
    Point::AfterLoss,
    Point::ModuleBackward,
    Point::AfterBackward,
    Point::BeforeUpdate,
    Point::AfterUpdate,
    Point::AfterIter,
];

/// Rows of `sconce check`: the sizes of what hooks may read, and each hook with the copies that it may cause.
pub(in crate::cli) fn expected(
    hooks: &[HookPlan],
    task: &dyn Task,
    batch: usize,
) -> Vec<Vec<String>> {
    if hooks.is_empty() {
        return Vec::new();
    }
    let parameters = task.parameters();
    let trained = parameters.iter().filter(|one| one.is_trainable());
    let trained: usize = trained.map(|one| one.tensor().elem_count()).sum();
    let mut sizes = format!(
        "parameters {}, gradients {}",
        size(parameters.element_count() * size_of::<f32>()),
        size(trained * size_of::<f32>())
    );
    if let Some(data) = task.data(Phase::Train) {
        let of_size = |group: ViewGroup| group.count * group.shape.iter().product::<usize>();
        let elements: usize = data.view_groups().into_iter().map(of_size).sum();
        // Writing to a string can't fail.
        let _ = write!(
            sizes,
            ", a batch's inputs {}",
            size(batch * elements * size_of::<f32>())
        );
    }
    let about = format!(
        "each tensor when a hook reads it, once for all hooks of a mount point, and back if it is written: {sizes}"
    );
    let mut rows = vec![vec!["copies".to_owned(), about]];
    let each = hooks.iter().map(|hook| {
        let text = format!("{}: {}", hook.spec.name, expected_of(hook));
        vec![String::new(), text]
    });
    rows.extend(each);
    let how = "`sconce run --dry-run` measures them".to_owned();
    rows.push(vec![String::new(), how]);
    rows
}

/// The copies that a hook may cause, in words.
fn expected_of(hook: &HookPlan) -> String {
    let requires = |id: &str| hook.requires.iter().any(|known| known == id);
    if requires(DeviceTable::ID) {
        return "none, it works on the device".to_owned();
    }
    let spec = &hook.spec;
    let points = OF_ITERATIONS
        .iter()
        .filter(|&&point| spec.is_called_at(point, Phase::Train));
    let points: Vec<&str> = points.map(|point| point.name()).collect();
    if points.is_empty() {
        return "none in an iteration".to_owned();
    }
    let mut text = format!("what it reads at {}", points.join(", "));
    if let Some(every) = spec.every.filter(|every| every.count > 1) {
        let unit = match every.unit {
            Unit::Iterations => "iterations",
            Unit::Updates => "updates",
            Unit::Epochs => "epochs",
        };
        let Every { count, .. } = every;
        let _ = write!(text, ", once in {count} {unit}");
    }
    if requires(VectorsTable::ID) {
        text.push_str(
            "; its passes over all parameters or gradients are made on the device, without copies",
        );
    }
    text
}

/// What was copied for hooks in a training: each hook with its share of an iteration; none if nothing was.
pub(super) fn measured(profile: &Profile, iterations: u64) -> Option<String> {
    let hooks = profile.hooks.iter().filter_map(|hook| {
        let copies = hook.copies?;
        let each = copies.bytes as f64 / iterations.max(1) as f64;
        Some(format!("{} {}", hook.name, size(each.round() as usize)))
    });
    let hooks: Vec<String> = hooks.collect();
    (!hooks.is_empty()).then(|| format!("copies for hooks, an iteration: {}", hooks.join(", ")))
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{HookCopies, HookTiming};

    #[test]
    fn copies_are_told_by_hook_and_iteration() {
        let hook = |name: &str, bytes: u64| HookTiming {
            name: name.to_owned(),
            copies: (bytes > 0).then_some(HookCopies {
                count: 1,
                bytes,
                seconds: 0.0,
            }),
            ..HookTiming::default()
        };
        let profile = Profile {
            hooks: vec![hook("ema", 40_000), hook("csv", 0), hook("noise", 20)],
            ..Profile::default()
        };
        assert_eq!(
            measured(&profile, 10).as_deref(),
            Some("copies for hooks, an iteration: ema 4.0 kB, noise 2 B")
        );
        assert_eq!(measured(&Profile::default(), 10), None);
    }
}
