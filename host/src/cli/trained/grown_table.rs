//! A run's table that is not as it was, but still has all rows that it had, as where rows were appended.

use std::path::{Path, PathBuf};

use super::TrainedArgs;
use super::chosen_weights::trained_on;
use crate::data::csv::RowsOf;
use crate::data::{DataConfig, DataFile, Portion};
use crate::manifest::TaskSource;
use crate::session::{StartFailure, TaskBuilder};

impl TrainedArgs {
    /// Looks for the rows of a part, by default of the test or else the validation, in the run's own data. Returns the file
    /// with them and the part, if the data have changed since the training, but all rows of all parts are there.
    pub(super) fn grown_table(
        &self,
        part: Option<RowsOf>,
        tasks: &dyn TaskBuilder,
    ) -> Result<Option<(PathBuf, RowsOf)>, StartFailure> {
        let (_, assignments) = self.set()?;
        let is_own = self.file.is_dir() && self.layers.is_empty() && assignments.is_empty();
        if !is_own || self.allow_changes || tasks.source() == TaskSource::Program {
            return Ok(None);
        }
        let manifest = self.manifest(tasks, &assignments)?;
        let Some(DataConfig::Csv(table)) = &manifest.data else {
            return Ok(None);
        };
        let of_default = match table.held_out.test {
            Some(_) => RowsOf::Test,
            None => RowsOf::Val,
        };
        let part = part.unwrap_or(of_default);
        let own = |portion: &Option<Portion>| {
            let file = portion.as_ref().and_then(|portion| portion.file.as_ref());
            file.map(|file| manifest.base.join(file))
        };
        let (training, val, test) = (
            manifest.base.join(&table.file),
            own(&table.held_out.val),
            own(&table.held_out.test),
        );
        let place = self.checkpoint.as_deref().unwrap_or(&self.file);
        let was = trained_on(place).unwrap_or_default();
        let files = [Some(&training), val.as_ref(), test.as_ref()];
        if was.is_empty() || !files.into_iter().flatten().any(|file| differs(file, &was)) {
            return Ok(None);
        }
        let file_of = |part: RowsOf| {
            let own = match part {
                RowsOf::Val => &val,
                RowsOf::Test => &test,
                RowsOf::Train | RowsOf::New => &None,
            };
            own.as_ref().unwrap_or(&training)
        };
        let (_, _, model) = self.saved()?;
        let Some(model) = model else {
            return Ok(None);
        };
        // What is wrong with them is an error where the data are read as the manifest says.
        let Ok(Some(rows)) = model.rows() else {
            return Ok(None);
        };
        let are_all_there = [RowsOf::Train, RowsOf::Val, RowsOf::Test]
            .into_iter()
            .all(|part| {
                let absent = model
                    .preprocessing()
                    .absent_rows(file_of(part), &rows, part);
                absent.is_ok_and(|absent| absent == 0)
            });
        Ok(are_all_there.then(|| (file_of(part).clone(), part)))
    }
}

/// Whether a file is none of those that were read for the training.
fn differs(file: &Path, was: &[DataFile]) -> bool {
    let now = DataFile::of(file);
    !now.is_ok_and(|now| was.iter().any(|before| before.hash == now.hash))
}
