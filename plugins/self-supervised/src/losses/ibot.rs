//! The loss of `iBOT` (Zhou et al. 2021): that of `DINO` for class tokens, and cross-entropy of the teacher's and the student's distributions
//! for patches that the student has not seen.

use super::dino::{Dino, Sharpening};
use super::rows::{Rows, WrongShape};
use super::softmax::softmax;

/// `DINO` of class tokens between views, and of masked patches within each view.
pub struct Ibot {
    student_temperature: f64,
    class: Dino,
    /// Class tokens of the student and of the teacher, and the gradient of the former.
    student: Vec<f32>,
    teacher: Vec<f32>,
    gradient: Vec<f32>,
    /// One patch of the student and of the teacher.
    logits: Vec<f64>,
    target: Vec<f64>,
}

/// Outputs for views of a batch's samples, view-major: for each, `positions` rows, the first of which is the class token's.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    /// The rows.
    pub rows: Rows<'a>,
    /// Class token and patches, at least 2.
    pub positions: usize,
}

/// How the teacher's outputs become distributions.
#[derive(Clone, Copy, Debug)]
pub struct TokenSharpening<'a> {
    /// Those of class tokens.
    pub class: Sharpening<'a>,
    /// Those of patches.
    pub patches: Sharpening<'a>,
}

/// The two terms of the loss, which is their sum.
#[derive(Clone, Copy, Debug)]
pub struct IbotValue {
    /// That of class tokens.
    pub class: f64,
    /// That of masked patches.
    pub patches: f64,
}

impl Ibot {
    /// `student_temperature` (above 0) divides the student's outputs; 0.1 is usual.
    pub fn new(student_temperature: f64) -> Self {
        Ibot {
            student_temperature,
            class: Dino::new(student_temperature),
            student: Vec::new(),
            teacher: Vec::new(),
            gradient: Vec::new(),
            logits: Vec::new(),
            target: Vec::new(),
        }
    }

    /// Both terms, and the gradient of their sum of `student`. `teacher` has the first of the student's views, or all. `mask` has a number for
    /// each of the student's patches, above 0 where it is masked: their cross-entropies are averaged within each view of a sample, of
    /// which those that the teacher has are averaged.
    pub fn compute(
        &mut self,
        student: Tokens<'_>,
        teacher: Tokens<'_>,
        by: TokenSharpening<'_>,
        (samples, mask): (usize, &[f32]),
        gradient: &mut [f32],
    ) -> Result<IbotValue, WrongShape> {
        student.fits(&teacher, by.patches.centre, mask)?;
        student.rows.fits(gradient)?;
        let width = student.rows.width();
        student.class_rows(&mut self.student);
        teacher.class_rows(&mut self.teacher);
        self.gradient.clear();
        self.gradient.resize(self.student.len(), 0.0);
        let class = self.class.compute(
            Rows::new(&self.student, width)?,
            Rows::new(&self.teacher, width)?,
            by.class,
            samples,
            &mut self.gradient,
        )?;
        let patches = self.patches(student, teacher, by.patches, mask, gradient);
        let each = gradient.chunks_exact_mut(student.positions * width);
        for (to, of_class) in each.zip(self.gradient.chunks_exact(width)) {
            to.iter_mut()
                .zip(of_class)
                .for_each(|(to, from)| *to = *from);
        }
        Ok(IbotValue { class, patches })
    }

    /// The student's outputs for class tokens in the last call, one row after the other.
    pub fn class_rows(&self) -> &[f32] {
        &self.student
    }

    /// The term of masked patches, with its gradient, 0 elsewhere.
    fn patches(
        &mut self,
        student: Tokens<'_>,
        teacher: Tokens<'_>,
        by: Sharpening<'_>,
        mask: &[f32],
        gradient: &mut [f32],
    ) -> f64 {
        gradient.fill(0.0);
        let (width, views) = (student.rows.width(), teacher.count());
        let each = student.positions * width;
        let rows = student.rows.values().chunks_exact(each);
        let rows = rows.zip(teacher.rows.values().chunks_exact(each));
        let rows = rows.zip(gradient.chunks_exact_mut(each));
        let mut value = 0.0;
        for (((own, theirs), gradient), mask) in rows.zip(mask.chunks_exact(student.positions - 1))
        {
            let masked = mask.iter().filter(|&&at| at > 0.0).count();
            let scale = 1.0 / (masked.max(1) * views) as f64;
            let patches = own.chunks_exact(width).zip(theirs.chunks_exact(width));
            let patches = patches.zip(gradient.chunks_exact_mut(width)).skip(1);
            for (((own, theirs), gradient), _) in patches.zip(mask).filter(|(_, at)| **at > 0.0) {
                value += self.patch(own, theirs, by, scale, gradient);
            }
        }
        value
    }

    /// `scale` times the cross-entropy of one patch, with its gradient.
    fn patch(
        &mut self,
        own: &[f32],
        theirs: &[f32],
        by: Sharpening<'_>,
        scale: f64,
        gradient: &mut [f32],
    ) -> f64 {
        let temperature = self.student_temperature;
        self.logits.clear();
        self.logits
            .extend(own.iter().map(|&value| f64::from(value) / temperature));
        self.target.clear();
        let theirs = theirs.iter().zip(by.centre);
        self.target.extend(
            theirs.map(|(&value, &centre)| (f64::from(value) - f64::from(centre)) / by.temperature),
        );
        softmax(&mut self.target);
        let agreement = self.target.iter().zip(&self.logits);
        let agreement: f64 = agreement.map(|(target, logit)| target * logit).sum();
        let total: f64 = self.target.iter().sum();
        let value = total * softmax(&mut self.logits) - agreement;
        for ((to, target), own) in gradient.iter_mut().zip(&self.target).zip(&self.logits) {
            *to = ((total * own - target) * scale / temperature) as f32;
        }
        value * scale
    }
}

impl Tokens<'_> {
    /// Views of samples.
    fn count(&self) -> usize {
        self.rows.count() / self.positions
    }

    /// Puts the class tokens' rows in place of what `to` holds.
    fn class_rows(&self, to: &mut Vec<f32>) {
        to.clear();
        for row in self.rows.iter().step_by(self.positions) {
            to.extend_from_slice(row);
        }
    }

    /// The mean of all class tokens, and that of all patches.
    pub fn means(&self) -> [Vec<f32>; 2] {
        let mut sums = [(); 2].map(|()| vec![0.0_f64; self.rows.width()]);
        for (at, row) in self.rows.iter().enumerate() {
            let [class, patches] = &mut sums;
            let is_class = at % self.positions == 0;
            let sums = if is_class { class } else { patches };
            sums.iter_mut()
                .zip(row)
                .for_each(|(sum, &value)| *sum += f64::from(value));
        }
        let counts = [self.count(), self.rows.count() - self.count()];
        let mut counts = counts.into_iter();
        sums.map(|sums| {
            let count = counts.next().unwrap_or_default().max(1) as f64;
            sums.into_iter().map(|sum| (sum / count) as f32).collect()
        })
    }

    /// An error unless the teacher's outputs, a centre of its patches and a mask are for these outputs of the student.
    fn fits(&self, teacher: &Tokens<'_>, centre: &[f32], mask: &[f32]) -> Result<(), WrongShape> {
        self.rows.as_wide_as(&teacher.rows, "teacher's outputs")?;
        let (ours, theirs) = (self.positions, teacher.positions);
        if ours < 2 || ours != theirs {
            return Err(WrongShape(format!(
                "the student's outputs have {ours} positions and the teacher's {theirs}: both need as many, a class token and patches"
            )));
        }
        for (what, tokens) in [("student's", self), ("teacher's", teacher)] {
            let rows = tokens.rows.count();
            if !rows.is_multiple_of(ours) {
                return Err(WrongShape(format!(
                    "the {what} outputs have {rows} rows, which are not views of {ours} positions"
                )));
            }
        }
        let (columns, of_centre) = (self.rows.width(), centre.len());
        if columns != of_centre {
            return Err(WrongShape(format!(
                "the patches' centre has {of_centre} elements for {columns} columns"
            )));
        }
        let (patches, of_mask) = (self.rows.count() - self.count(), mask.len());
        if patches != of_mask {
            return Err(WrongShape(format!(
                "the mask has {of_mask} elements for {patches} patches"
            )));
        }
        Ok(())
    }
}
