//! Positions that a hook masks: the learned vector in their place, its gradient, and passes without a mask.

use std::borrow::Cow;

use serde_json::json;

use super::*;
use crate::PassSurroundings;
use crate::layers::MaskTokens;

/// A hook has published this tensor as `ibot.mask`.
struct Masking(Tensor);

impl PassSurroundings for Masking {
    fn published(&self, name: &str) -> Result<Option<Tensor>> {
        Ok((name == "ibot.mask").then(|| self.0.clone()))
    }

    fn show(&self, _: Cow<'static, str>, _: &Tensor) {}
}

/// Two rows of three positions.
fn masking(shape: impl Into<candle_core::Shape>) -> Masking {
    let mask = vec![1.0_f32, 0.0, 0.0, 0.0, 1.0, 1.0];
    let mask = Tensor::from_vec(mask, shape, &sconce_ops::device::for_tests());
    Masking(mask.expect("a mask"))
}

fn layer() -> serde_json::Value {
    json!({"kind": "mask-tokens", "name": "mask"})
}

fn input() -> Signal {
    Signal::numbers([3, 4])
}

#[test]
fn gradients_of_masked_positions_are_the_tokens() {
    let inside = json!({"kind": "sequential", "name": "block", "recompute": true, "layers": [
        {"kind": "linear", "outputs": 4}, layer(), {"kind": "tanh"}
    ]});
    for config in [layer(), inside] {
        let (network, parameters) = single(&config, &input());
        let x = Var::from_tensor(&random("input", &[2, 3, 4])).expect("a variable");
        let mut variables: Vec<&Var> = parameters
            .trainable()
            .map(crate::parameters::Parameter::var)
            .collect();
        variables.push(&x);
        let masking = masking((2, 3));
        let checked = check(&variables, &|| {
            network.forward(&x, &mut Pass::training().within(&masking))
        });
        assert!(checked > 24, "{config}");
    }
}

/// The layer by itself, with this token.
fn alone(token: &Tensor) -> MaskTokens {
    let mut parameters = Parameters::new(3, DType::F64, &sconce_ops::device::for_tests());
    let layer = MaskTokens::new(&mut parameters, "mask", 4, "ibot.mask");
    for parameter in parameters.trainable() {
        assert_eq!(parameter.name(), "mask");
        parameter.var().set(token).expect("set");
    }
    layer.expect("a layer")
}

#[test]
fn masked_positions_are_the_token_and_all_others_as_they_were() {
    let (x, token) = (random("input", &[2, 3, 4]), random("token", &[4]));
    let (layer, masking) = (alone(&token), masking((2, 3)));
    let y = layer.forward(&x, &Pass::training().within(&masking));
    let (y, x, token) = (values(&y.expect("forward")), values(&x), values(&token));
    for (at, y) in y.chunks(4).enumerate() {
        let wanted = if [0, 4, 5].contains(&at) {
            &token
        } else {
            &x[at * 4..at * 4 + 4]
        };
        close(y, wanted);
    }
}

#[test]
fn without_a_mask_nothing_changes_and_one_of_another_shape_is_refused() {
    let (x, layer) = (random("input", &[2, 3, 4]), alone(&random("token", &[4])));
    let same = layer.forward(&x, &Pass::training()).expect("forward");
    close(&values(&same), &values(&x));
    let masking = masking((3, 2));
    let told = layer.forward(&x, &Pass::training().within(&masking));
    let told = told.expect_err("another shape").to_string();
    assert!(
        told.contains("the layer `mask` has 2 rows of 3 positions")
            && told.contains("`ibot.mask`")
            && told.contains("the shape [3, 2]: [2, 3] is wanted"),
        "{told}"
    );
}
