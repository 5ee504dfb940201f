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

#[hook(name = "fourth", about = "Has two fields of one name.", state = [inner.best, best])]
impl Hook for Fourth {}

struct Fifth;

#[hook(name = "fifth", about = "Checks a state that it has not.")]
impl Hook for Fifth {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Fifth)
    }

    fn state_restored(&mut self) -> Result<()> {
        Ok(())
    }
}

struct Timer {
    since: std::time::Instant,
}

#[hook(name = "timer", about = "Has a state that can't be written.", state = since)]
impl Hook for Timer {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Timer { since: std::time::Instant::now() })
    }
}

fn main() {}
