use sconce_plugin_api::prelude::*;

struct Both(u8);

#[hook(name = "both", about = "Has its state twice.", state = [count])]
impl Hook for Both {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Both(0))
    }

    fn save_state(&mut self) -> Result<Vec<u8>> {
        state::to_bytes(&self.0)
    }
}

#[hook(name = "third", about = "Has a text in place of fields.", state = "count")]
impl Hook for Third {}

fn main() {}
