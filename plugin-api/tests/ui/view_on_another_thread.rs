use sconce_plugin_api::prelude::*;

fn elsewhere(task: &TaskView<'_>) {
    std::thread::scope(|scope| {
        scope.spawn(|| task.epoch());
    });
}

fn main() {}
