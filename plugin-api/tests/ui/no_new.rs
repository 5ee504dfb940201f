use sconce_plugin_api::prelude::*;

struct Mine;

#[hook(name = "mine", about = "Can't be created.")]
impl Hook for Mine {
    fn after_epoch(&mut self, _task: &mut AfterEpoch<'_>) -> Result<()> {
        Ok(())
    }
}

fn main() {}
