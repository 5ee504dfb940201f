use sconce_plugin_api::prelude::*;

struct Mine {
    kept: Option<&'static [f32]>,
}

#[hook(name = "mine", about = "Keeps what is only lent.")]
impl Hook for Mine {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Mine { kept: None })
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.kept = Some(task.parameter("fc1.weight")?.as_slice()?);
        Ok(())
    }
}

fn main() {}
