// A published tensor that is borrowed can't be replaced.
use sconce_plugin_api::prelude::*;

fn replace(task: &mut AfterUpdate<'_>) -> Result<()> {
    let numbers = task.tensors(Collection::Published).named("numbers")?;
    task.publish_tensor("numbers", &[1], &[0.0_f32], Keep::Run)?;
    let _ = numbers.len();
    Ok(())
}

fn main() {}
