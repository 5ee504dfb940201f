use sconce_plugin_api::prelude::*;

struct Mine;

#[hook(name = "mine", about = "Has a mistyped method.")]
impl Hook for Mine {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Mine)
    }

    fn after_epok(&mut self, _task: &mut AfterEpoch<'_>) -> Result<()> {
        Ok(())
    }

    fn helper(&self) {}
}

export_plugin!(Mine);

fn main() {}
