//! Whether hooks fit a loop: what they may need is compared with what it has, before it begins.

use std::collections::BTreeSet;

use sconce_base::nearest::nearest;
use sconce_manifest::diagnostic::Diagnostic;
use sconce_manifest::{OnCrash, ReloadPolicy};
use sconce_plugin_api::ext::{Readable, Request};
use sconce_plugin_api::{Phase, Point};
use serde::Deserialize;

use super::plan::LoopPlan;
use super::requests::{Follows, Loop};
use crate::dispatch::{HookSpec, LoadedHook};
use crate::planning::HookList;

/// What a loop has for its hooks.
#[derive(Clone, Debug)]
pub struct Offers {
    /// Mount points that the loop never comes by.
    pub absent: Vec<Point>,
    /// What hooks can see of it, by [`Readable::name`].
    pub readable: BTreeSet<&'static str>,
    /// Requests that it follows by itself, and those that the host serves in it.
    pub follows: Follows,
}

/// Mount points within the model, which only the trainer's own models have.
const OF_MODULES: [Point; 2] = [Point::ModuleForward, Point::ModuleBackward];

impl Offers {
    /// A loop that comes by everything but modules, shows its parameters, gradients, batches and losses, and can skip, scale, stop
    /// and swap.
    pub fn of_a_whole_loop() -> Offers {
        let readable = [
            Readable::Parameters,
            Readable::Gradients,
            Readable::Batch,
            Readable::Inputs,
            Readable::Targets,
            Readable::Outputs,
            Readable::Loss,
            Readable::Groups,
            // Of one process, which is the first of one.
            Readable::Ranks,
        ];
        let follows = [
            Request::Stop,
            Request::StopAfterEpoch,
            Request::SkipBatch,
            Request::SkipUpdate,
            Request::ScaleLoss,
            Request::SwapParameters,
        ];
        Offers {
            absent: OF_MODULES.to_vec(),
            readable: readable.map(Readable::name).into(),
            follows: Follows::these(follows),
        }
    }
}

/// A loop as other languages describe it: its plan, and what it has for hooks. Keys that are left out are as of
/// [`Offers::of_a_whole_loop`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LoopDescription {
    /// Its plan.
    pub(super) plan: LoopPlan,
    /// Mount points that it never comes by.
    absent: Vec<String>,
    /// What hooks can see of it.
    shows: Option<Vec<String>>,
    /// Requests that it follows.
    follows: Option<Vec<String>>,
}

impl LoopDescription {
    /// What it has for hooks.
    ///
    /// # Errors
    ///
    /// If it names something that this host does not know, with the nearest name.
    pub(super) fn offers(&self) -> Result<Offers, String> {
        let mut offers = Offers::of_a_whole_loop();
        for name in &self.absent {
            let names = Point::ALL.iter().map(|point| point.name());
            let point = Point::from_name(name);
            offers
                .absent
                .push(point.ok_or_else(|| unknown("mount point", name, names))?);
        }
        if let Some(shown) = &self.shows {
            let names = Readable::ALL.map(Readable::name);
            let known = |name: &String| {
                let known = Readable::from_name(name).map(Readable::name);
                known.ok_or_else(|| unknown("thing to show", name, names.into_iter()))
            };
            offers.readable = shown.iter().map(known).collect::<Result<_, _>>()?;
        }
        if let Some(follows) = &self.follows {
            let names = Request::ALL.map(Request::name);
            let known = |name: &String| {
                Request::from_name(name).ok_or_else(|| unknown("request", name, names.into_iter()))
            };
            let known: Vec<Request> = follows.iter().map(known).collect::<Result<_, _>>()?;
            offers.follows = Follows::these(known);
        }
        Ok(offers)
    }
}

fn unknown<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let hint = nearest(name, names).map(|near| format!("; did you mean `{near}`?"));
    format!("no {what} is called `{name}`{}", hint.unwrap_or_default())
}

/// The hooks' problems with a loop, all of them, at their entries; and warnings about those that don't say what they need.
pub(super) fn misfits(
    hooks: &[LoadedHook],
    list: &HookList<'_>,
    offers: &Offers,
    served: &dyn Loop,
) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    for hook in hooks {
        let spec = &hook.spec;
        let entry = list.entries.iter().find(|entry| entry.name == spec.name);
        let place = entry.map(|entry| list.place(&format!("hooks[{}]", entry.index)));
        let placed = |diagnostic: Diagnostic| match &place {
            Some(place) => diagnostic.at(place.clone()),
            None => diagnostic,
        };
        let reasons = reasons(spec, offers, served);
        if !reasons.is_empty() {
            problems.push(placed(Diagnostic::new(format!(
                "the hook `{}` can't run in this loop: {}",
                spec.name,
                reasons.join("; ")
            ))));
        } else if spec.asks.is_none() || spec.reads.is_none() {
            warnings.push(placed(Diagnostic::warning(format!(
                "the hook `{}` does not say what it may ask of a loop and read of it: what this one can't do is refused when it \
                 is asked for",
                spec.name
            ))));
        }
    }
    (problems, warnings)
}

/// Why a hook can't run in a loop.
fn reasons(spec: &HookSpec, offers: &Offers, served: &dyn Loop) -> Vec<String> {
    let mut reasons = Vec::new();
    let is_called = |point: &&Point| {
        Phase::ALL
            .iter()
            .any(|phase| spec.is_called_at(**point, *phase))
    };
    let is_needed = |name: &str| !spec.optional.iter().any(|optional| optional == name);
    let absent = offers.absent.iter().filter(is_called);
    for point in absent.filter(|point| is_needed(point.name())) {
        reasons.push(format!(
            "it is called at `{point}`, which this loop does not come by"
        ));
    }
    for name in spec.asks.iter().flatten() {
        reasons.extend(refusal(name, offers, served));
    }
    let reads = spec.reads.iter().flatten();
    for name in reads.filter(|name| is_needed(name)) {
        if !offers.readable.contains(name.as_str()) {
            reasons.push(format!("it reads `{name}`, which this loop does not show"));
        }
    }
    let restarts = |policy: OnCrash| matches!(policy, OnCrash::Restart(_));
    if restarts(spec.on_panic) || restarts(spec.on_crash) {
        reasons
            .push("its policy is to be restarted, which only Sconce's own trainer does".to_owned());
    }
    if !matches!(spec.reload, ReloadPolicy::Never) && spec.reload != ReloadPolicy::default() {
        reasons
            .push("its library is to be reloaded, which only Sconce's own trainer does".to_owned());
    }
    reasons
}

/// Why a request can't be served; none if it can.
fn refusal(name: &str, offers: &Offers, served: &dyn Loop) -> Option<String> {
    let Some(request) = Request::from_name(name) else {
        return Some(format!(
            "it may ask for `{name}`, which this host does not know"
        ));
    };
    // Where it is written is the loop's affair.
    let request = match request {
        Request::SaveInBackground => Request::SaveCheckpoint,
        other => other,
    };
    if offers.follows.has(request) {
        return None;
    }
    let reason = served.can(request).err()?;
    Some(format!("it may ask for `{name}`: {reason}"))
}
