//! The `python` hook: hooks written in Python, in the process of the run.
//!
//! `{"hook": "hooks/roc.py", "config": {"bins": 50}}` in the manifest, for which the host writes
//! `{"hook": "python", "name": "roc", "config": {"file": "hooks/roc.py", "config": {"bins": 50}}}`.
//!
//! A hook is a subclass of `sconce.Hook` with methods named after the mount points; those that it lacks are left out at
//! its creation and cost nothing. Tensors are NumPy arrays and `DLPack` tensors in the run's own memory.
//!
//! **Parts.** `config` is the manifest's entry, the crate `sconce-python-interpreter` finds a Python and asks it what it is, `embed` runs it,
//! `task` is what hooks can do. The package `sconce`, which hooks import, is in `sconce/` beside `src/`.
//!
//! Nothing here is linked to Python: a libpython is opened when the first hook is created, and without one everything
//! else (`sconce plugins`, `inspect`, `validate`) works.

#![deny(unsafe_code)]

mod config;
#[expect(
    unsafe_code,
    reason = "calls libpython, which is found at run time: the module's head says why it is sound"
)]
mod embed;
mod output;
mod task;

use sconce_plugin_api::HookError;
use sconce_plugin_api::prelude::*;
use sconce_python_interpreter::NoInterpreter;
use serde_json::json;

use config::Config;
use embed::{Instance, Payload, Source};

struct Python {
    instance: Instance,
}

fn no_python(why: NoInterpreter) -> HookError {
    let error = HookError::new(why.message).at("");
    if why.is_configured {
        return error.in_config("python");
    }
    error
}

#[hook(
    name = "python",
    about = "Runs a hook that is written in Python.",
    publishes = ["*"],
    requires = ["sconce.retain/1"],
    asks = unknown,
    reads = unknown
)]
impl Hook for Python {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let (file, module) = config.source()?;
        let is_guest = embed::join(config.switch_interval).map_err(|error| error.at(""))?;
        if !is_guest || config.python.is_some() {
            // Which line here found no Python is of no interest to the user.
            let interpreter =
                sconce_python_interpreter::find(config.python.as_deref()).map_err(no_python)?;
            embed::start(&interpreter, config.switch_interval).map_err(|error| error.at(""))?;
        }
        let source = Source {
            file: &file,
            module,
            class: config.class.as_deref().unwrap_or_default(),
            object: config.object,
            config: &serde_json::to_string(&config.config)?,
            facts: &facts(setup)?,
        };
        let instance = Instance::create(&source, setup)?;
        for &point in Point::ALL.iter().filter(|point| !instance.has(**point)) {
            setup.leave_out(point);
        }
        Ok(Python { instance })
    }

    fn save_state(&mut self) -> Result<Vec<u8>> {
        self.instance.save_state()
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        self.instance.load_state(state)
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.instance.call(Point::BeforeRun, task, &Payload::None)
    }

    fn before_loop(&mut self, task: &mut BeforeLoop<'_>) -> Result<()> {
        self.instance.call(Point::BeforeLoop, task, &Payload::None)
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        self.instance.call(Point::BeforeEpoch, task, &Payload::None)
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        self.instance.call(Point::BeforeIter, task, &Payload::None)
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        self.instance
            .call(Point::AfterForward, task, &Payload::None)
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        self.instance.call(Point::AfterLoss, task, &Payload::None)
    }

    fn module_forward(&mut self, task: &mut ModuleForward<'_>, module: &Module<'_>) -> Result<()> {
        self.instance
            .call(Point::ModuleForward, task, &Payload::Module(module))
    }

    fn module_backward(
        &mut self,
        task: &mut ModuleBackward<'_>,
        module: &Module<'_>,
    ) -> Result<()> {
        self.instance
            .call(Point::ModuleBackward, task, &Payload::Module(module))
    }

    fn after_backward(&mut self, task: &mut AfterBackward<'_>) -> Result<()> {
        self.instance
            .call(Point::AfterBackward, task, &Payload::None)
    }

    fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
        self.instance
            .call(Point::BeforeUpdate, task, &Payload::None)
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        self.instance.call(Point::AfterUpdate, task, &Payload::None)
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        self.instance.call(Point::AfterIter, task, &Payload::None)
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.instance.call(Point::AfterEpoch, task, &Payload::None)
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        self.instance.call(Point::AfterCycle, task, &Payload::None)
    }

    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        self.instance.call(Point::AfterLoop, task, &Payload::None)
    }

    fn epoch_profile(
        &mut self,
        task: &mut AtEpochProfile<'_>,
        profile: &EpochProfile<'_>,
    ) -> Result<()> {
        self.instance
            .call(Point::EpochProfile, task, &Payload::Profile(profile))
    }

    fn before_save_checkpoint(
        &mut self,
        task: &mut BeforeSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let payload = Payload::Checkpoint(checkpoint);
        self.instance
            .call(Point::BeforeSaveCheckpoint, task, &payload)
    }

    fn after_save_checkpoint(
        &mut self,
        task: &mut AfterSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let payload = Payload::Checkpoint(checkpoint);
        self.instance
            .call(Point::AfterSaveCheckpoint, task, &payload)
    }

    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let payload = Payload::Checkpoint(checkpoint);
        self.instance
            .call(Point::AfterLoadCheckpoint, task, &payload)
    }

    fn on_exception(&mut self, task: &mut OnException<'_>, failure: &Failure<'_>) -> Result<()> {
        self.instance
            .call(Point::OnException, task, &Payload::Failure(failure))
    }

    fn after_run(&mut self, task: &mut AfterRun<'_>, outcome: &Outcome<'_>) -> Result<()> {
        self.instance
            .call(Point::AfterRun, task, &Payload::Outcome(outcome))
    }
}

/// What Python's `setup` knows, as JSON; manifest and plan are texts in it, parsed when asked for.
fn facts(setup: &Setup<'_>) -> Result<String> {
    let plan = setup
        .plan()?
        .map(|plan| serde_json::to_string(&plan))
        .transpose()?;
    let facts = json!({
        "name": setup.name(),
        "run_directory": setup.run_directory(),
        "seed": setup.seed(),
        "is_resumed": setup.is_resumed(),
        "host_version": setup.host_version(),
        "manifest": setup.manifest()?.to_string(),
        "plan": plan,
    });
    Ok(facts.to_string())
}

export_plugin!(Python);

#[cfg(test)]
mod tests;
#[cfg(test)]
mod timing;
