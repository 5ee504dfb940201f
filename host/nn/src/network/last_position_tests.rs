//! Outputs of the last position alone are those that it has among all.

use candle_core::{DType, Device, Tensor};
use serde_json::json;

use crate::parameters::Parameters;
use crate::{Model, ModelConfig, Pass, Signal, Targets};

#[test]
fn the_last_position_has_the_same_outputs_alone_and_among_all() {
    let block = json!({"kind": "residual", "layers": [{"kind": "attention", "heads": 2, "causal": true},
        {"kind": "linear", "outputs": 8}]});
    // A linear layer at the end, and one that is not: then all positions are there.
    for (end, length) in [(json!({"kind": "linear"}), 1), (json!({"kind": "relu"}), 5)] {
        let layers = json!({"kind": "sequential", "layers": [
            {"kind": "embedding", "width": 8}, block, {"kind": "linear", "outputs": 7}, end]});
        let config: ModelConfig = serde_json::from_value(layers).expect("a model");
        let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
        let classes = (0..7).map(|class| class.to_string()).collect();
        let targets = Targets::ClassPerPosition(classes);
        let model = config.build(&mut parameters, &Signal::tokens(5, 7), &targets);
        let model = model.expect("a model");
        let tokens = Tensor::new(&[[1_u32, 4, 2, 0, 6], [3, 3, 0, 5, 1]], &Device::Cpu);
        let tokens = tokens.expect("tokens");
        let all = model.forward(&tokens, &mut Pass::evaluation());
        let last = model.forward(&tokens, &mut Pass::evaluation().for_last_position());
        let (all, last) = (all.expect("outputs"), last.expect("outputs"));
        assert_eq!(last.dims(), [2, length, 7]);
        let end = |outputs: &Tensor| -> Vec<f32> {
            let position = outputs.dims()[1] - 1;
            let end = outputs.narrow(1, position, 1).expect("a position");
            end.flatten_all()
                .and_then(|end| end.to_vec1())
                .expect("numbers")
        };
        for (all, last) in end(&all).iter().zip(end(&last)) {
            assert!((all - last).abs() < 1e-5, "{all} {last}");
        }
    }
}
