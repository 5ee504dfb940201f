use sconce_plugin_api::prelude::*;

struct Mine;

#[hook(name = "mine", about = "Runs somewhere.", ranks = "some")]
impl Hook for Mine {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Mine)
    }
}

fn main() {}
