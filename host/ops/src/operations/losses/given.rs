//! A loss that was computed elsewhere, with its gradient.

use candle_core::{Result, Tensor, bail};

use crate::autograd::custom_gradient::custom_gradient;

/// A loss of the outputs `x` whose `value`, a scalar that is not shared, and `gradient` of x, of its shape and type, were computed
/// outside the graph.
///
/// # Errors
///
/// If the shapes or types are others, or one of candle's.
pub fn given_loss(x: &Tensor, value: &Tensor, gradient: &Tensor) -> Result<Tensor> {
    if value.elem_count() != 1 || x.dims() != gradient.dims() || x.dtype() != gradient.dtype() {
        bail!(
            "a given loss is a scalar, with a gradient of its outputs' shape and type: found {:?}, and {:?} of {} for outputs {:?} of {}",
            value.dims(),
            gradient.dims(),
            gradient.dtype().as_str(),
            x.dims(),
            x.dtype().as_str()
        )
    }
    let gradient = gradient.detach();
    custom_gradient([x], value.reshape(())?.copy()?, move |_, of_loss, _| {
        let factor = of_loss.to_dtype(gradient.dtype())?;
        Ok([Some(gradient.broadcast_mul(&factor)?)])
    })
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Var};

    use super::*;
    use crate::autograd::tape::record;
    use crate::normal_numbers;

    #[test]
    fn value_and_gradient_are_those_given_times_what_follows() {
        let _recording = record();
        let device = crate::device::for_tests();
        let x = normal_numbers(1, (3, 2)).and_then(|x| Var::from_tensor(&x));
        let x = x.expect("a variable");
        let gradient = normal_numbers(2, (3, 2)).expect("a gradient");
        let value = Tensor::new(0.75_f32, &device).expect("a number");
        let doubled = x.affine(2.0, 1.0).expect("outputs");
        let loss = given_loss(&doubled, &value, &gradient).expect("a loss");
        let number = loss.to_scalar::<f32>().expect("a number");
        assert_eq!(number.to_bits(), 0.75_f32.to_bits());
        let store = loss.affine(0.5, 0.0).and_then(|loss| loss.backward());
        let found = store.expect("gradients").get(&x).cloned().expect("it");
        // 2 · ½ = 1, without rounding.
        let both = [found, gradient.clone()].map(|g| g.to_vec2::<f32>().expect("numbers"));
        assert_eq!(both[0], both[1]);
        let other = gradient.to_dtype(DType::F64).expect("numbers");
        assert!(given_loss(&x, &value, &other).is_err());
        let transposed = gradient.t().expect("numbers");
        assert!(given_loss(&x, &value, &transposed).is_err());
        assert!(given_loss(&x, &gradient, &gradient).is_err());
    }
}
