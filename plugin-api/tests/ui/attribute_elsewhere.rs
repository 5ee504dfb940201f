use sconce_plugin_api::prelude::*;

struct Mine;

#[hook(name = "mine", about = "Stands on the wrong block.")]
impl Mine {
    fn after_epoch(&mut self) {}
}

fn main() {}
