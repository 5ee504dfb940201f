//! A centre of the teacher's outputs: a published tensor that checkpoints hold, which follows their mean.

use std::borrow::Cow;

use sconce_plugin_api::Collection;
use sconce_plugin_api::prelude::*;

use crate::losses::{Rows, move_centre};
use crate::outputs::table;

/// A centre of one hook.
pub(crate) struct Centre {
    name: String,
    /// Fraction that each update keeps.
    momentum: f64,
}

impl Centre {
    /// Of a name and a momentum from 0 to 1.
    pub(crate) fn new(name: &str, momentum: f64, setup: &Setup<'_>) -> Centre {
        Centre {
            name: format!("{}.{name}", setup.name()),
            momentum,
        }
    }

    /// Its elements: zeros before the first update.
    pub(crate) fn values<'view>(
        &self,
        task: &'view TaskView<'_>,
        width: usize,
    ) -> Result<Cow<'view, [f32]>> {
        let published = task.tensors(Collection::Published);
        if !published.has(&self.name)? {
            return Ok(vec![0.0; width].into());
        }
        Ok(table(&published.named(&self.name)?)?.0)
    }

    /// Moves it towards the mean of `means`, rows of `width` elements: one for each batch of the update.
    pub(crate) fn follow(
        &self,
        task: &mut AfterUpdate<'_>,
        means: &[f32],
        width: usize,
    ) -> Result<()> {
        if means.is_empty() {
            return Ok(());
        }
        if !task.tensors(Collection::Published).has(&self.name)? {
            let none = vec![0.0_f32; width];
            task.publish_tensor(&self.name, &[1, width], &none, Keep::Run)?;
        }
        let mut centre = task.published_tensor_mut(&self.name)?;
        let rows = Rows::new(means, width)?;
        move_centre(centre.as_mut_slice::<f32>()?, rows, self.momentum);
        Ok(())
    }
}
