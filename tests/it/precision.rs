//! At the sizes of real tasks, what single precision computes is what double precision does: the loops for
//! many numbers at once and the threads are right there too.

use candle_core::{DType, Tensor};
use sconce_tests::steps::{Step, TASKS};

fn numbers(tensor: &Tensor) -> Vec<f64> {
    let tensor = tensor.to_dtype(DType::F64).expect("f64");
    let flat = tensor.flatten_all().expect("flat");
    flat.to_vec1().expect("numbers")
}

/// The relative error of all numbers together.
fn error(found: &[f64], exact: &[f64]) -> f64 {
    let square = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>();
    let differences = square(&mut found.iter().zip(exact).map(|(x, y)| x - y));
    (differences / square(&mut exact.iter().copied()).max(1e-30)).sqrt()
}

#[test]
fn losses_and_gradients_are_those_of_twice_the_digits() {
    for task in TASKS {
        // Of LeNet no more images than have no square to be pooled whose two largest numbers are equal to
        // seven digits: which of them gets the gradient is a matter of rounding then.
        let sizes = match task {
            "gpt" => [1, 5],
            "lenet" => [3, 7],
            _ => [3, 40],
        };
        for batch in sizes {
            let single = Step::with(task, Some(batch), DType::F32);
            let double = Step::with(task, Some(batch), DType::F64);
            for (one, other) in single.parameters().iter().zip(double.parameters().iter()) {
                let exact = one.tensor().to_dtype(DType::F64).expect("f64");
                other.var().set(&exact).expect("set");
            }
            let losses = [&single, &double].map(|step| step.forward().expect("a forward pass"));
            let loss = error(&numbers(&losses[0]), &numbers(&losses[1]));
            assert!(loss < 1e-6, "{task} at batch {batch}: loss {loss}");
            let [found, exact] = [(&single, &losses[0]), (&double, &losses[1])]
                .map(|(step, loss)| step.backward(loss).expect("a backward pass"));
            for (index, parameter) in single.parameters().iter().enumerate() {
                if !parameter.is_trainable() {
                    continue;
                }
                let gradient = |gradients: &sconce::gradients::Gradients| {
                    numbers(gradients.at(index).expect("a gradient"))
                };
                let error = error(&gradient(&found), &gradient(&exact));
                let name = parameter.name();
                assert!(error < 1e-5, "{task} at batch {batch}: `{name}` {error}");
            }
        }
    }
}
