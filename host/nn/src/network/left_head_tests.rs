//! When a model leaves its last layer to the loss.

use candle_core::{DType, Device, Result, Tensor};
use serde_json::json;

use crate::ops;
use crate::parameters::Parameters;
use crate::{Model, ModelConfig, ModuleInfo, Network, Pass, Signal, Taps, Targets};

/// Of which 128 rows of logits are 64 MiB.
const CLASSES: usize = 1 << 17;

/// Listens at the module of this name.
struct Listener(&'static str);

impl Taps for Listener {
    fn listens(&mut self, module: &ModuleInfo) -> bool {
        module.name == self.0
    }

    fn enter(&mut self, module: &ModuleInfo, input: &Tensor) -> Result<Option<Tensor>> {
        Ok(self.listens(module).then(|| input.clone()))
    }

    fn leave(&mut self, _module: &ModuleInfo, _input: &Tensor, output: Tensor) -> Result<Tensor> {
        Ok(output)
    }
}

fn model() -> Network {
    let layers = json!({"kind": "sequential", "layers": [
        {"kind": "linear", "name": "below", "outputs": 16}, {"kind": "linear", "name": "head"}]});
    let config: ModelConfig = serde_json::from_value(layers).expect("a model");
    let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
    let classes = Targets::Class((0..CLASSES).map(|class| class.to_string()).collect());
    let model = config.build(&mut parameters, &Signal::numbers([8]), &classes);
    model.expect("a model")
}

#[test]
fn the_last_layer_is_left_where_nothing_else_reads_its_many_outputs() -> Result<()> {
    let model = model();
    let x = Tensor::zeros((128, 8), DType::F32, &Device::Cpu)?;
    let is_left = |x: &Tensor, pass: &mut Pass<'_>| -> Result<bool> {
        let outputs = model.forward(x, pass)?;
        let left = pass.left_head();
        let width = left.map_or(CLASSES, |_| 16);
        assert_eq!(outputs.dims(), [x.dim(0)?, width]);
        assert!(left.is_none_or(|left| left.weight.dims() == [CLASSES, 16] && left.bias.is_some()));
        Ok(left.is_some())
    };
    let leaving = |mut pass: Pass<'static>| {
        pass.leave_head();
        pass
    };
    // Where kernels for many rows are.
    let is_there = ops::is_in_parts(
        &Tensor::zeros((128, 16), DType::F32, &Device::Cpu)?,
        &ops::LinearParameters {
            weight: Tensor::zeros((CLASSES, 16), DType::F32, &Device::Cpu)?,
            order: ops::WeightOrder::default(),
            bias: None,
        },
    );
    assert_eq!(
        is_left(&x, &mut leaving(Pass::training().for_loss()))?,
        is_there
    );
    assert!(!is_left(&x, &mut Pass::training().for_loss())?, "unasked");
    assert!(
        !is_left(&x, &mut leaving(Pass::training()))?,
        "others read it"
    );
    let few = x.narrow(0, 0, 40)?;
    let pass = &mut leaving(Pass::evaluation().for_loss());
    assert!(!is_left(&few, pass)?, "few rows");
    for (at, expected) in [("below", is_there), ("head", false)] {
        let mut taps = Listener(at);
        let mut pass = Pass::training().for_loss().with_taps(&mut taps);
        pass.leave_head();
        model.forward(&x, &mut pass)?;
        assert_eq!(pass.left_head().is_some(), expected, "a hook at `{at}`");
    }
    Ok(())
}
