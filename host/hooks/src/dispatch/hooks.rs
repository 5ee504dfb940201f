//! A hook as the host knows it: manifest entry, plugin and instance.

use std::path::PathBuf;

use sconce_lifecycle::Position;
use sconce_plugin_api::ext::Readable;
use sconce_plugin_api::metadata::HookRanks;
use sconce_plugin_api::{Phase, Point, Priority};

use super::points::{is_module, is_outside};
use crate::plugin::blueprint::HookBlueprint;
use crate::plugin::instance::HookInstance;
use crate::record::HookRecord;
use sconce_base::patterns::Patterns;
use sconce_manifest::{Every, OnCrash, OnError, ReloadPolicy};

/// Everything about a hook except its instance: manifest entry, plugin, mount points and filters.
#[derive(Clone, Debug, Default)]
pub struct HookSpec {
    /// Unique name of the manifest entry.
    pub name: String,
    /// Hook kind.
    pub kind: String,
    /// Name of the plugin.
    pub plugin: String,
    /// Version of the plugin.
    pub version: String,
    /// File of the plugin.
    pub library: PathBuf,
    /// SHA-256 of the plugin's file.
    pub sha256: String,
    /// Effective priority.
    pub priority: Priority,
    /// Policy when it returns an error.
    pub on_error: OnError,
    /// Policy when it panics.
    pub on_panic: OnCrash,
    /// Policy when its process crashes, if it has one of its own.
    pub on_crash: OnCrash,
    /// When its library is loaded again in mid-run.
    pub reload: ReloadPolicy,
    /// Where it runs when several processes train together.
    pub ranks: HookRanks,
    /// Mount points that it overrides, except those unknown to this host.
    pub points: Vec<Point>,
    /// Phases in which it is called; `None` for all.
    pub phases: Option<Vec<Phase>>,
    /// Iterations, updates or epochs in which it is called; `None` for all.
    pub every: Option<Every>,
    /// Data sets during whose passes it is called; `None` for all.
    pub streams: Option<Vec<String>>,
    /// Modules whose points it is called at; `None` for all.
    pub modules: Option<Patterns>,
    /// The requests that it may make, by name; `None` if that is not known.
    pub asks: Option<Vec<String>>,
    /// What it may read of a loop, by name; `None` if that is not known.
    pub reads: Option<Vec<String>>,
    /// What of that it does without if the loop lacks it.
    pub optional: Vec<String>,
}

impl HookSpec {
    /// Returns the hook's record for checkpoints, without a state.
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

    /// Whether the hook is called at a point in a phase, `every`, `streams` and `modules` aside.
    ///
    /// At points outside every phase it is called regardless of the filter on phases.
    pub fn is_called_at(&self, point: Point, phase: Phase) -> bool {
        let in_phase = self
            .phases
            .as_ref()
            .is_none_or(|phases| phases.contains(&phase));
        self.points.contains(&point) && (is_outside(point) || in_phase)
    }

    /// Whether it may read a batch's outputs, by their name or among all tensors of the batch, or give a loss that is computed from
    /// them: it says so, or doesn't say what it reads.
    pub(super) fn may_read_outputs(&self) -> bool {
        let parts = [Readable::Outputs, Readable::Batch, Readable::GivenLoss].map(Readable::name);
        let is_one = |name: &String| parts.contains(&name.as_str());
        self.reads
            .as_ref()
            .is_none_or(|reads| reads.iter().any(is_one))
    }

    /// Whether a filter must be evaluated before each call at a point.
    pub(super) fn is_filtered_at(&self, point: Point) -> bool {
        !is_outside(point)
            && (self.every.is_some()
                || self.streams.is_some()
                || is_module(point) && self.modules.is_some())
    }
}

/// A created hook.
#[derive(Debug)]
pub struct LoadedHook {
    /// Manifest entry, plugin, mount points and filters.
    pub spec: HookSpec,
    /// The plugin's object.
    pub instance: HookInstance,
    /// How it is created again; none for hooks that are linked into this program.
    pub(super) blueprint: Option<HookBlueprint>,
    /// Whether it was switched off after a fault.
    pub(super) disabled: bool,
    /// Number of its faults.
    pub(super) faults: u64,
    /// How often its process has ended.
    pub(super) endings: u32,
    /// How often it has panicked.
    pub(super) panics: u32,
    /// Whether it has panicked and is recreated between two iterations; nothing of it is called until then.
    pub(super) awaits_restart: bool,
    /// The state that it was given or has saved last, if it is restarted after a panic.
    pub(super) last_state: Option<Vec<u8>>,
    /// How often it has changed process-wide state.
    pub(super) changes: u64,
    /// Whether it is called at each of the task's modules; empty for all.
    pub(super) modules: Vec<bool>,
    /// Whether it wants calls at modules, as it has set itself; `None` if it never has.
    pub(super) listens: Option<bool>,
}

impl LoadedHook {
    /// Returns a hook without faults.
    pub fn new(spec: HookSpec, instance: HookInstance) -> LoadedHook {
        LoadedHook {
            spec,
            instance,
            blueprint: None,
            disabled: false,
            faults: 0,
            endings: 0,
            panics: 0,
            awaits_restart: false,
            last_state: None,
            changes: 0,
            modules: Vec::new(),
            listens: None,
        }
    }

    /// Sets how it is created again.
    #[must_use]
    pub fn with_blueprint(mut self, blueprint: HookBlueprint) -> LoadedHook {
        self.blueprint = Some(blueprint);
        self
    }

    /// Whether nothing of it is called: it was switched off, or is about to be recreated.
    pub(super) fn is_out(&self) -> bool {
        self.disabled || self.awaits_restart
    }

    /// Keeps a state for a restart after a panic, if there can be one.
    pub(super) fn keep_state(&mut self, state: &[u8]) {
        if matches!(self.spec.on_panic, OnCrash::Restart(_)) {
            self.last_state = Some(state.to_vec());
        }
    }

    /// Whether it was switched off.
    pub fn is_disabled(&self) -> bool {
        self.disabled
    }
}

/// Event in a hook's life, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeEvent {
    /// Its creation.
    Create,
    /// A call at a mount point.
    Point {
        /// The point, if this host knows it.
        point: Option<Point>,
        /// Phase of the call.
        phase: Phase,
        /// Training epochs finished.
        epoch: u64,
        /// Training iterations finished.
        iteration: u64,
    },
    /// Saving its state.
    Save,
    /// Restoring its state.
    Load,
    /// Dropping it.
    Drop,
}

impl LifeEvent {
    /// Returns a call at a mount point.
    pub fn at(point: Option<Point>, position: &Position) -> LifeEvent {
        LifeEvent::Point {
            point,
            phase: position.phase,
            epoch: position.epoch,
            iteration: position.iteration,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_say_what_it_reads_may_read_outputs() {
        let reads = |parts: Option<&[&str]>| HookSpec {
            reads: parts.map(|parts| parts.iter().map(|&part| part.to_owned()).collect()),
            ..HookSpec::default()
        };
        assert!(reads(None).may_read_outputs());
        for (part, expected) in [
            ("outputs", true),
            ("batch", true),
            ("given_loss", true),
            ("loss", false),
            ("inputs", false),
        ] {
            let spec = reads(Some(&["groups", part]));
            assert_eq!(spec.may_read_outputs(), expected, "{part}");
        }
        assert!(!reads(Some(&[])).may_read_outputs());
    }
}
