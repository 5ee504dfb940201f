use sconce_plugin_api::prelude::*;

fn both(task: &mut AfterUpdate<'_>) -> Result<()> {
    let read = task.parameter("fc1.weight")?;
    let mut written = task.parameter_mut("fc1.weight")?;
    written.map::<f32>(|value| value + 1.0)?;
    drop(read.to_vec::<f32>()?);
    Ok(())
}

fn kept(task: &mut AfterUpdate<'_>) -> Result<()> {
    let mut written = task.parameter_mut("fc1.weight")?;
    let old = written.view().as_slice::<f32>()?;
    written.as_mut_slice::<f32>()?[0] = 1.0;
    drop(old.len());
    Ok(())
}

fn main() {}
