//! The loss of `DINO` (Caron et al. 2021): cross-entropy of the teacher's and the student's distributions.

use super::rows::{Rows, WrongShape};
use super::softmax::{OtherViews, softmax};

/// Cross-entropy of a teacher, centred and sharpened, and a student over the outputs' dimensions, for all pairs of
/// views but those of a view with itself.
pub struct Dino {
    student_temperature: f64,
    teacher: Vec<f64>,
    others: OtherViews,
}

/// How the teacher's outputs become distributions.
#[derive(Clone, Copy, Debug)]
pub struct Sharpening<'a> {
    /// Subtracted from each of the teacher's rows.
    pub centre: &'a [f32],
    /// Divides the difference; above 0, smaller than the student's. 0.04 is usual.
    pub temperature: f64,
}

impl Dino {
    /// `student_temperature` (above 0) divides the student's outputs; 0.1 is usual.
    pub fn new(student_temperature: f64) -> Self {
        Dino {
            student_temperature,
            teacher: Vec::new(),
            others: OtherViews::default(),
        }
    }

    /// The mean over pairs of views and over samples, and its gradient of `student`, (views · samples, dimensions),
    /// with at least two views. `teacher` has the first of these views, or all.
    pub fn compute(
        &mut self,
        student: Rows<'_>,
        teacher: Rows<'_>,
        sharpening: Sharpening<'_>,
        samples: usize,
        gradient: &mut [f32],
    ) -> Result<f64, WrongShape> {
        let views = student.views(samples, "student's outputs")?;
        let teacher_views = teacher.views(samples, "teacher's outputs")?;
        student.as_wide_as(&teacher, "teacher's outputs")?;
        student.fits(gradient)?;
        if views < 2 || teacher_views > views {
            return Err(WrongShape(format!(
                "the student's outputs have {views} views and the teacher's {teacher_views}; \
                 the student needs at least 2, and all of the teacher's"
            )));
        }
        self.sharpen(teacher, sharpening)?;
        let temperature = self.student_temperature;
        Ok(self
            .others
            .compute(student, &self.teacher, samples, temperature, gradient))
    }

    /// The teacher's outputs as distributions.
    fn sharpen(&mut self, teacher: Rows<'_>, by: Sharpening<'_>) -> Result<(), WrongShape> {
        let (columns, of_centre) = (teacher.width(), by.centre.len());
        if columns != of_centre {
            let message = format!("the centre has {of_centre} elements for {columns} columns");
            return Err(WrongShape(message));
        }
        teacher.widen(&mut self.teacher);
        for row in self.teacher.chunks_exact_mut(columns) {
            for (value, &centre) in row.iter_mut().zip(by.centre) {
                *value = (*value - f64::from(centre)) / by.temperature;
            }
            softmax(row);
        }
        Ok(())
    }
}

/// Moves `centre` towards the mean of the teacher's rows: the fraction `momentum` of it is kept.
pub fn move_centre(centre: &mut [f32], teacher: Rows<'_>, momentum: f64) {
    let count = teacher.count() as f64;
    for (column, centre) in centre.iter_mut().enumerate() {
        let values = teacher.iter().filter_map(|row| row.get(column));
        let mean = values.map(|&value| f64::from(value)).sum::<f64>() / count;
        *centre = (f64::from(*centre) * momentum + mean * (1.0 - momentum)) as f32;
    }
}
