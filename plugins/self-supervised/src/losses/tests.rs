//! Values and gradients beside PyTorch's (`tests/reference/self_supervised.py`), and beside finite differences.

use serde_json::Value;

use super::*;

/// A case of the reference.
struct Case(Value);

impl Case {
    fn all() -> Vec<Case> {
        let text = include_str!("../../../../tests/reference/self_supervised.json");
        serde_json::from_str::<Vec<Value>>(text)
            .unwrap()
            .into_iter()
            .map(Case)
            .collect()
    }

    fn numbers(&self, name: &str) -> Vec<f32> {
        let values = self.0[name].as_array().unwrap();
        values
            .iter()
            .map(|value| value.as_f64().unwrap() as f32)
            .collect()
    }

    fn number(&self, name: &str) -> f64 {
        self.0["config"][name].as_f64().unwrap()
    }

    fn count(&self, name: &str) -> usize {
        usize::try_from(self.0["config"][name].as_u64().unwrap()).unwrap()
    }

    fn width(&self) -> usize {
        usize::try_from(self.0["width"].as_u64().unwrap()).unwrap()
    }

    fn ibot(&self, student: Rows<'_>, gradient: &mut [f32]) -> Result<f64, WrongShape> {
        let [teacher, centre, patch_centre, mask] =
            ["teacher", "centre", "patch_centre", "mask"].map(|name| self.numbers(name));
        let tokens = |rows| Tokens {
            rows,
            positions: self.count("positions"),
        };
        let by = TokenSharpening {
            class: Sharpening {
                centre: &centre,
                temperature: self.number("teacher_temperature"),
            },
            patches: Sharpening {
                centre: &patch_centre,
                temperature: self.number("patch_temperature"),
            },
        };
        let teacher = tokens(Rows::new(&teacher, self.width())?);
        let masked = (self.count("samples"), mask.as_slice());
        let mut loss = Ibot::new(self.number("student_temperature"));
        let value = loss.compute(tokens(student), teacher, by, masked, gradient)?;
        Ok(value.class + value.patches)
    }

    /// The loss of these outputs of the student, and its gradient.
    fn compute(&self, student: &[f32]) -> (f64, Vec<f32>) {
        let rows = |values| Rows::new(values, self.width()).unwrap();
        let other = |name: &str| self.numbers(name);
        let (student, mut gradient) = (rows(student), vec![7.0; student.len()]);
        let value = match self.0["loss"].as_str().unwrap() {
            "nt-xent" => NtXent::new(self.number("temperature")).compute(student, &mut gradient),
            "info-nce" => InfoNce::new(self.number("temperature")).compute(
                student,
                rows(&other("keys")),
                rows(&other("queue")),
                &mut gradient,
            ),
            "byol" => Byol::default().compute(student, rows(&other("projections")), &mut gradient),
            "dino" => Dino::new(self.number("student_temperature")).compute(
                student,
                rows(&other("teacher")),
                Sharpening {
                    centre: &other("centre"),
                    temperature: self.number("teacher_temperature"),
                },
                self.count("samples"),
                &mut gradient,
            ),
            "swav" => {
                let config = SwavConfig {
                    temperature: self.number("temperature"),
                    epsilon: self.number("epsilon"),
                    iterations: self.count("iterations"),
                };
                let (samples, assigned) = (self.count("samples"), self.count("assigned"));
                let (first, _) = student.split(samples * assigned);
                let queue = other("queue");
                Swav::new(config).compute(student, (first, rows(&queue)), samples, &mut gradient)
            }
            "deep-cluster" => Clusters::new(self.number("temperature")).compute(
                student,
                rows(&other("targets")),
                &mut gradient,
            ),
            "ibot" => self.ibot(student, &mut gradient),
            "barlow-twins" => {
                BarlowTwins::new(self.number("redundancy")).compute(student, &mut gradient)
            }
            "vicreg" => VicReg::new(VicRegWeights {
                invariance: self.number("invariance"),
                variance: self.number("variance"),
                covariance: self.number("covariance"),
            })
            .compute(student, &mut gradient),
            other => panic!("no such loss: {other}"),
        };
        (value.unwrap(), gradient)
    }
}

fn close(got: f64, expected: f64, bound: f64) -> bool {
    (got - expected).abs() <= bound * expected.abs().max(1.0)
}

#[test]
fn losses_and_gradients_are_those_of_pytorch() {
    for case in Case::all() {
        let name = format!("{} {}", case.0["loss"], case.0["config"]);
        let (value, gradient) = case.compute(&case.numbers("student"));
        let expected = case.0["value"].as_f64().unwrap();
        assert!(
            close(value, expected, 1e-6),
            "{name}: {value}, PyTorch has {expected}"
        );
        for (got, expected) in gradient.iter().zip(case.numbers("gradient")) {
            let is_close = close(f64::from(*got), f64::from(expected), 1e-6);
            assert!(is_close, "{name}: gradient {got}, PyTorch has {expected}");
        }
    }
}

#[test]
fn gradients_are_those_of_finite_differences() {
    for case in Case::all() {
        // Its targets depend on the scores that are changed, but no gradient goes through them: only a view that is
        // not assigned has finite differences.
        let first = if case.0["loss"] == "swav" {
            case.count("samples") * case.count("assigned") * case.width()
        } else {
            0
        };
        let student = case.numbers("student");
        let (_, gradient) = case.compute(&student);
        for at in first..student.len() {
            let along = |step: f32| {
                let mut changed = student.clone();
                changed[at] += step;
                let mut back = student.clone();
                back[at] -= step;
                let between = f64::from(changed[at]) - f64::from(back[at]);
                (case.compute(&changed).0 - case.compute(&back).0) / between
            };
            // The error of a central difference grows with the step's square.
            let (fine, coarse) = (along(1.0 / 1024.0), along(1.0 / 512.0));
            let expected = (4.0 * fine - coarse) / 3.0;
            let is_close = close(f64::from(gradient[at]), expected, 1e-5);
            assert!(
                is_close,
                "{}: gradient {}, differences have {expected}",
                case.0["loss"], gradient[at]
            );
        }
    }
}

#[test]
fn a_loss_used_before_computes_what_a_new_one_does() {
    let (large, small) = (
        [0.3, -1.0, 0.5, 0.25, 2.0, 1.0, -0.75, 0.125],
        [1.0, 0.5, -0.5, 0.25],
    );
    let mut used = NtXent::new(0.5);
    used.compute(Rows::new(&large, 2).unwrap(), &mut [0.0; 8])
        .unwrap();
    let (mut again, mut first) = ([0.0; 4], [0.0; 4]);
    let rows = Rows::new(&small, 2).unwrap();
    assert_eq!(
        used.compute(rows, &mut again),
        NtXent::new(0.5).compute(rows, &mut first)
    );
    assert_eq!(again.map(f32::to_bits), first.map(f32::to_bits));
}

#[test]
fn a_row_of_zeros_has_no_gradient() {
    let mut gradient = [7.0; 8];
    let outputs = [0.0, 0.0, 1.0, 2.0, 3.0, 1.0, -1.0, 2.0];
    let value = NtXent::new(0.5)
        .compute(Rows::new(&outputs, 2).unwrap(), &mut gradient)
        .unwrap();
    assert!(value.is_finite());
    assert_eq!(gradient[..2], [0.0, 0.0]);
    assert!(gradient[2..].iter().all(|by| by.is_finite() && *by != 0.0));
}

#[test]
fn a_centre_moves_towards_the_mean() {
    let mut centre = [1.0, 0.0];
    move_centre(
        &mut centre,
        Rows::new(&[2.0, 4.0, 4.0, 8.0], 2).unwrap(),
        0.75,
    );
    assert_eq!(centre.map(f32::to_bits), [1.5_f32; 2].map(f32::to_bits));
}

#[test]
fn wrong_shapes_are_errors_that_say_what_is_wrong() {
    let message = |result: Result<f64, WrongShape>| result.unwrap_err().to_string();
    let three = Rows::new(&[1.0; 6], 2).unwrap();
    let two = Rows::new(&[1.0; 4], 2).unwrap();
    let wide = Rows::new(&[1.0; 6], 3).unwrap();
    let none = Rows::new(&[], 2).unwrap();
    assert_eq!(
        Rows::new(&[1.0; 5], 2).unwrap_err().to_string(),
        "5 elements are not rows of 2"
    );
    assert_eq!(
        message(NtXent::new(0.5).compute(three, &mut [0.0; 6])),
        "the outputs have 3 rows, which are not 2 views of the same samples"
    );
    assert_eq!(
        message(NtXent::new(0.5).compute(two, &mut [0.0; 6])),
        "the gradient has 6 elements, but the outputs 4"
    );
    assert_eq!(
        message(Byol::default().compute(two, wide, &mut [0.0; 4])),
        "the projections have 3 columns, but the outputs 2"
    );
    assert_eq!(
        message(InfoNce::new(0.5).compute(two, three, none, &mut [0.0; 4])),
        "there are 3 keys for 2 queries"
    );
    let sharpening = Sharpening {
        centre: &[0.0],
        temperature: 0.04,
    };
    assert_eq!(
        message(Dino::new(0.1).compute(two, two, sharpening, 1, &mut [0.0; 4])),
        "the centre has 1 elements for 2 columns"
    );
    let config = SwavConfig {
        temperature: 0.1,
        epsilon: 0.05,
        iterations: 3,
    };
    assert!(
        message(Swav::new(config).compute(two, (three, none), 1, &mut [0.0; 4]))
            .contains("3 of 2 views")
    );
}
