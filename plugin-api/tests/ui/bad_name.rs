use sconce_plugin_api::prelude::*;

struct Mine;

#[hook(name = "My Hook", about = "Has a name that is none.")]
impl Hook for Mine {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Mine)
    }
}

fn main() {}
