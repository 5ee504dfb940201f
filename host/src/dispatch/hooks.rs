//! A hook as the host knows it: its manifest entry, its plugin, its instance.

use std::path::PathBuf;

use sconce_plugin_api::abi::ViewAbi;
use sconce_plugin_api::{Phase, Point, Priority};

use super::Every;
use super::points::{is_module, is_outside};
use crate::checkpoint::HookRecord;
use crate::patterns::Patterns;
use crate::plugin::instance::Instance;

/// What happens when a hook fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The run ends, through `on_exception` and `after_run`.
    #[default]
    Fail,
    /// The hook is off from then on.
    Disable,
    /// The fault is reported, and the hook goes on.
    Ignore,
}

/// A hook's place in the run.
#[derive(Clone, Debug, Default)]
pub struct HookSpec {
    /// The manifest entry's unique name.
    pub name: String,
    /// The hook kind.
    pub kind: String,
    /// The plugin's name.
    pub plugin: String,
    /// The plugin's version.
    pub version: String,
    /// The plugin's file.
    pub library: PathBuf,
    /// The SHA-256 of the plugin's file.
    pub sha256: String,
    /// The priority in force.
    pub priority: Priority,
    /// What happens when it fails.
    pub on_error: OnError,
    /// The mount points that it overrides, without those that this host doesn't know.
    pub points: Vec<Point>,
    /// The phases in which it is called; `None` for all.
    pub phases: Option<Vec<Phase>>,
    /// In which iterations, updates or epochs it is called; `None` for all.
    pub every: Option<Every>,
    /// The data sets over whose passes it is called; `None` for all.
    pub streams: Option<Vec<String>>,
    /// The modules at which it listens; `None` for all.
    pub modules: Option<Patterns>,
}

impl HookSpec {
    /// The hook as checkpoints know it, without a state.
    pub fn record(&self) -> HookRecord {
        HookRecord {
            name: self.name.clone(),
            kind: self.kind.clone(),
            plugin: self.plugin.clone(),
            version: self.version.clone(),
            sha256: self.sha256.clone(),
            ..HookRecord::default()
        }
    }

    /// Whether the hook is called at a point in a phase.
    ///
    /// Points outside every phase are always of interest, whatever the filter says.
    pub fn is_called_at(&self, point: Point, phase: Phase) -> bool {
        let in_phase = self
            .phases
            .as_ref()
            .is_none_or(|phases| phases.contains(&phase));
        self.points.contains(&point) && (is_outside(point) || in_phase)
    }

    /// Whether a call at a point has to be asked about.
    pub(super) fn is_filtered_at(&self, point: Point) -> bool {
        !is_outside(point)
            && (self.every.is_some()
                || self.streams.is_some()
                || is_module(point) && self.modules.is_some())
    }
}

/// A created hook.
#[derive(Debug)]
pub struct Hook {
    /// Its place in the run.
    pub spec: HookSpec,
    /// The object in the plugin.
    pub instance: Instance,
    /// Switched off after a fault.
    pub(super) disabled: bool,
    /// How often it has failed.
    pub(super) faults: u64,
    /// How often it has changed what belongs to the whole process.
    pub(super) changes: u64,
    /// At which of the task's modules it listens; empty for all.
    pub(super) modules: Vec<bool>,
    /// Whether it listens at modules now, as it has said; nothing where it has said nothing.
    pub(super) listens: Option<bool>,
}

impl Hook {
    /// A hook that nothing has happened to yet.
    pub fn new(spec: HookSpec, instance: Instance) -> Hook {
        Hook {
            spec,
            instance,
            disabled: false,
            faults: 0,
            changes: 0,
            modules: Vec::new(),
            listens: None,
        }
    }

    /// Whether a fault has switched it off.
    pub fn is_disabled(&self) -> bool {
        self.disabled
    }
}

/// When something happened, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At the creation of a hook.
    Create,
    /// At a mount point.
    Point {
        /// Which, if this host knows it.
        point: Option<Point>,
        /// The phase.
        phase: Phase,
        /// Training epochs finished.
        epoch: u64,
        /// Training iterations finished.
        iteration: u64,
    },
    /// While its state was saved.
    Save,
    /// While its state was restored.
    Load,
    /// When it was dropped.
    Drop,
}

impl Moment {
    /// The moment that a view shows.
    pub fn of(view: &ViewAbi) -> Moment {
        Moment::Point {
            point: Point::from_number(view.point),
            phase: Phase::from_number(view.phase).unwrap_or(Phase::Train),
            epoch: view.epoch,
            iteration: view.iteration,
        }
    }
}
