//! Options that `dino` and `ibot` have in common: how outputs become distributions, and how teacher and centres follow.

use sconce_plugin_api::prelude::*;

use crate::centre::Centre;
use crate::outputs::{check_plan, check_temperature};
use crate::teacher::{MomentumSchedule, Teacher};

/// How outputs become distributions, and how teacher and centres follow.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Distillation {
    /// Divides the student's outputs, above 0. Default 0.1.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(crate) student_temperature: f64,
    /// Divides the teacher's outputs less their centre, above 0; smaller than the student's. Default 0.04.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(crate) teacher_temperature: f64,
    /// Fraction of a centre that each update keeps, from 0 to 1. Default 0.9.
    #[schemars(range(min = 0.0, max = 1.0))]
    centre_momentum: f64,
    /// Fraction of the teacher that each update keeps, from 0 to 1. Default 0.996.
    #[schemars(range(min = 0.0, max = 1.0))]
    momentum: f64,
    /// How the teacher's momentum changes. Default `cosine`.
    schedule: MomentumSchedule,
    /// Number of views that the teacher sees, at least 1: the first. Default 2.
    #[schemars(range(min = 1))]
    pub(crate) global_views: u32,
}

impl Default for Distillation {
    fn default() -> Self {
        Distillation {
            student_temperature: 0.1,
            teacher_temperature: 0.04,
            centre_momentum: 0.9,
            momentum: 0.996,
            schedule: MomentumSchedule::Cosine,
            global_views: 2,
        }
    }
}

impl Distillation {
    /// Refuses what no distributions are made by, and data with too few views.
    pub(crate) fn check(&self, setup: &Setup<'_>) -> Result<()> {
        check_temperature("student_temperature", self.student_temperature)?;
        check_temperature("teacher_temperature", self.teacher_temperature)?;
        if self.global_views == 0 {
            bail!("`global_views` is at least 1");
        }
        check_plan(setup, u64::from(self.global_views).max(2))
    }

    /// The teacher, which sees the first views.
    pub(crate) fn teacher(&self, setup: &Setup<'_>) -> Result<Teacher> {
        let momentum = (self.momentum, self.schedule);
        Teacher::new(momentum, "", self.global_views, setup)
    }

    /// A centre of its outputs, of this name.
    pub(crate) fn centre(&self, name: &str, setup: &Setup<'_>) -> Centre {
        Centre::new(name, self.centre_momentum, setup)
    }
}
