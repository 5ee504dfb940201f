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
    /// A loop as other languages describe it, by the JSON of [`HookSetup::described`](super::HookSetup::described).
    ///
    /// # Errors
    ///
    /// If it is not such a description, or names something that this host does not know, with the nearest name.
    pub fn described(description: &str) -> Result<Offers, String> {
        let read: LoopDescription =
            serde_json::from_str(description).map_err(|error| error.to_string())?;
        read.offers()
    }

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
        if !self.plan.modules.is_empty() {
            offers.absent.retain(|point| *point != Point::ModuleForward);
        }
        for name in &self.absent {
            let names = Point::ALL.iter().map(|point| point.name());
            let point =
                Point::from_name(name).ok_or_else(|| unknown("mount point", name, names))?;
            if !offers.absent.contains(&point) {
                offers.absent.push(point);
            }
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
        let needs = Needs::of(spec);
        let lacking = needs.misfits(offers, served);
        let mut reasons: Vec<String> = lacking.into_iter().map(|misfit| misfit.reason).collect();
        reasons.extend(unfit_policies(spec));
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

/// What a hook needs of a loop: as one that was created says of itself, or as its metadata do for any configuration.
#[derive(Clone, Debug, Default)]
pub struct Needs<'a> {
    /// Mount points that it is called at.
    pub points: Vec<Point>,
    /// Requests that it may make, by name.
    pub asks: &'a [String],
    /// What it may read, by name.
    pub reads: &'a [String],
    /// What of points and readable things it does without if the loop lacks it.
    pub optional: &'a [String],
}

/// Something that a hook needs and a loop lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Name of the mount point, the request or the thing to read.
    pub name: String,
    /// Why it can't be had.
    pub reason: String,
}

impl<'a> Needs<'a> {
    fn of(spec: &'a HookSpec) -> Needs<'a> {
        let mut phases = spec.points.clone();
        phases.retain(|point| {
            Phase::ALL
                .iter()
                .any(|phase| spec.is_called_at(*point, *phase))
        });
        Needs {
            points: phases,
            asks: spec.asks.as_deref().unwrap_or_default(),
            reads: spec.reads.as_deref().unwrap_or_default(),
            optional: &spec.optional,
        }
    }

    /// Everything of it that a loop lacks: mount points, then requests, then what it reads.
    pub fn misfits(&self, offers: &Offers, served: &dyn Loop) -> Vec<Misfit> {
        let is_needed = |name: &str| !self.optional.iter().any(|optional| optional == name);
        let absent = offers
            .absent
            .iter()
            .filter(|point| self.points.contains(point));
        let absent = absent.filter(|point| is_needed(point.name()));
        let mut misfits: Vec<Misfit> = absent
            .map(|point| Misfit {
                name: point.name().to_owned(),
                reason: format!("it is called at `{point}`, which this loop does not come by"),
            })
            .collect();
        for name in self.asks {
            misfits.extend(refusal(name, offers, served));
        }
        let reads = self.reads.iter().filter(|name| is_needed(name));
        let hidden = reads.filter(|name| !offers.readable.contains(name.as_str()));
        misfits.extend(hidden.map(|name| Misfit {
            name: name.clone(),
            reason: format!("it reads `{name}`, which this loop does not show"),
        }));
        misfits
    }
}

/// Policies of a hook's entry that only Sconce's own trainer follows.
fn unfit_policies(spec: &HookSpec) -> Vec<String> {
    let mut reasons = Vec::new();
    let restarts = |policy: OnCrash| matches!(policy, OnCrash::Restart(_));
    if restarts(spec.on_panic) || restarts(spec.on_crash) {
        reasons
            .push("its policy is to be restarted, which only Sconce's own trainer does, from its last checkpoint".to_owned());
    }
    if !matches!(spec.reload, ReloadPolicy::Never) && spec.reload != ReloadPolicy::default() {
        reasons
            .push("its library is to be reloaded, which only Sconce's own trainer does, from its last checkpoint".to_owned());
    }
    reasons
}

/// Why a request can't be served; none if it can.
fn refusal(name: &str, offers: &Offers, served: &dyn Loop) -> Option<Misfit> {
    let Some(request) = Request::from_name(name) else {
        return Some(Misfit {
            name: name.to_owned(),
            reason: format!("it may ask for `{name}`, which this host does not know"),
        });
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
    Some(Misfit {
        name: request.name().to_owned(),
        reason: format!("it may ask for `{name}`: {reason}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::NoRequests;

    #[test]
    fn what_a_loop_lacks_is_named_once() {
        let described = |description| Offers::described(description).expect("a description");
        let offers =
            described(r#"{"absent": ["after_forward"], "shows": ["loss"], "follows": ["stop"]}"#);
        let texts = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let asks = texts(&["stop", "save_in_background", "roll_back"]);
        let (reads, optional) = (texts(&["loss", "outputs", "inputs"]), texts(&["inputs"]));
        let needs = Needs {
            points: vec![Point::AfterForward, Point::ModuleForward, Point::AfterLoss],
            asks: &asks,
            reads: &reads,
            optional: &optional,
        };
        let found = needs.misfits(&offers, &NoRequests);
        let names: Vec<&str> = found.iter().map(|misfit| misfit.name.as_str()).collect();
        let expected = [
            "module_forward",
            "after_forward",
            "save_checkpoint",
            "roll_back",
            "outputs",
        ];
        assert_eq!(names, expected);
        // A loop that names its modules comes by them.
        let modules = described(r#"{"plan": {"modules": [{"name": "fc", "kind": "linear"}]}}"#);
        let left = Needs {
            asks: &[],
            reads: &[],
            ..needs
        };
        assert_eq!(left.misfits(&modules, &NoRequests), []);
        assert!(
            Offers::described(r#"{"follows": ["stopp"]}"#)
                .is_err_and(|error| error.contains("`stop`"))
        );
    }
}
