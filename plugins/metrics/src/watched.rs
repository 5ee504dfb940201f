//! Variables that a hook watches over a pass.

use std::collections::BTreeMap;

use sconce_plugin_api::prelude::*;
use serde::de::DeserializeOwned;

use crate::phases::ByPhase;
use crate::variables::Variable;

/// A variable, what is to be done with it, and what is known of it by phase.
pub(crate) struct Watched<W, T> {
    pub(crate) variable: Variable,
    pub(crate) wanted: W,
    pub(crate) phases: ByPhase<T>,
}

/// All of a hook, whose state has what is known of them, by the variables' names.
pub(crate) struct AllWatched<W, T>(pub(crate) Vec<Watched<W, T>>);

impl<W, T: Default + Serialize + DeserializeOwned> state::StateField for AllWatched<W, T> {
    type Saved = BTreeMap<String, ByPhase<T>>;

    fn save(&mut self) -> Result<impl Serialize> {
        let all = self.0.iter();
        let all = all.map(|watched| (&watched.variable.name, &watched.phases));
        Ok(all.collect::<BTreeMap<_, _>>())
    }

    fn restore(&mut self, mut saved: Self::Saved) -> Result<()> {
        for watched in &mut self.0 {
            watched.phases = saved.remove(&watched.variable.name).unwrap_or_default();
        }
        Ok(())
    }
}
