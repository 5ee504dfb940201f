// What a moment does not allow does not compile, and the message says where it is allowed.
use sconce_plugin_api::prelude::*;

struct Mine;

#[hook(name = "mine", about = "Asks at wrong moments.")]
impl Hook for Mine {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Mine)
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        task.checkpoint("best").save()
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        task.for_each_gradient(|mut gradient| gradient.map::<f32>(|value| -value))?;
        task.checkpoint("best").roll_back()
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        task.scale_loss(2.0)?;
        task.set_learning_rate(Groups::All, 0.1)
    }

    fn after_run(&mut self, task: &mut AfterRun<'_>, _outcome: &Outcome<'_>) -> Result<()> {
        task.stop("too late")
    }

    fn before_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        task.parameter("w").map(drop)
    }
}

export_plugin!(Mine);

fn main() {}
