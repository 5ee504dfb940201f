//! Driving hooks through scripted runs.

use serde_json::{Value, json};

use super::drive::Drive;
use super::failed::Failed;
use super::script::ScriptedRun;
use super::seen::Seen;
use sconce_plugin_api::HookKind;
use sconce_plugin_api::export::kind;

impl ScriptedRun {
    /// Drives a hook through the run.
    ///
    /// `config` is the content of `config` in the manifest; `Value::Null` for an entry without it.
    ///
    /// # Errors
    ///
    /// If the hook fails: its configuration is rejected, a method returns an error or panics, or one of its
    /// requests cannot be served.
    pub fn drive<H: HookKind>(&self, config: Value) -> Result<Seen, Failed> {
        Drive::new(self, kind::<H>(), &filled(config), self.interrupt)?.run()
    }

    /// Checks that an interruption changes nothing, to the bit.
    ///
    /// Drives the hook through the uninterrupted run, and then through one that is interrupted after each
    /// training iteration in turn and resumed. Parameters, learning rates, the hook's state, its metrics,
    /// published values and requests must be the same.
    ///
    /// # Errors
    ///
    /// If the hook fails, and at the first difference: what differs, and after which iteration the run was
    /// interrupted.
    pub fn check_resume<H: HookKind>(&self, config: Value) -> Result<(), Failed> {
        let config = filled(config);
        let whole = Drive::new(self, kind::<H>(), &config, None)?.run()?;
        for iterations in 1..self.schedule.epochs * self.schedule.iterations {
            let drive = Drive::new(self, kind::<H>(), &config, Some(iterations))?;
            let seen = drive.run()?;
            if seen.calls_before_interruption.is_none() {
                break;
            }
            if let Some(what) = super::same::difference(&whole, &seen) {
                let message = format!(
                    "a run that is interrupted behind iteration {iterations} and resumed is \
                     another: {what}"
                );
                return Err(Failed {
                    seen: Box::new(seen),
                    ..Failed::new(whole.calls.last().copied(), message)
                });
            }
        }
        Ok(())
    }
}

fn filled(config: Value) -> Value {
    if config.is_null() { json!({}) } else { config }
}
