use sconce_plugin_api::prelude::*;

struct Mine;

impl Hook for Mine {
    type Config = NoConfig;

    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Mine)
    }
}

export_plugin!(Mine);

fn main() {}
