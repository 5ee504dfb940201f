//! Samples of the grammar, and a model that learns them.

use candle_core::{DType, Device};
use serde_json::json;

use super::*;
use crate::order;
use sconce_nn::gradients::Gradients;
use sconce_nn::loss::cross_entropy;
use sconce_nn::optim::OptimizerConfig;
use sconce_nn::parameters::Parameters;
use sconce_nn::{Model, ModelConfig, Pass, Signal};

fn config(train: usize, val: usize, context: usize) -> GrammarConfig {
    GrammarConfig {
        train,
        val,
        test: 0,
        context,
    }
}

/// Returns the text of a sample and of its targets.
fn text(dataset: &dyn Dataset, index: u32) -> [String; 2] {
    let vocabulary = dataset.vocabulary().expect("a vocabulary");
    let batch = dataset.gather(&[index], 0).expect("a batch");
    [batch.inputs, batch.targets].map(|tensor| {
        let tokens: Vec<Vec<u32>> = tensor.to_vec2().expect("tokens");
        vocabulary.decode(&tokens[0])
    })
}

#[test]
fn samples_begin_with_a_sentence_and_share_nothing() {
    let splits = load(&config(20, 5, 40), 1).expect("data");
    let train = splits.train.as_ref();
    assert_eq!((train.len(), splits.test.is_none()), (20, true));
    let val = splits.val.expect("a validation");
    let mut starts = Vec::new();
    for index in 0..20 {
        let [inputs, targets] = text(train, index);
        assert_eq!((inputs.len(), targets.len()), (40, 40));
        assert_eq!(inputs[1..], targets[..39]);
        let first = inputs.split(' ').next().expect("a word");
        assert!(["the", "a", "some", "this", "these"].contains(&first));
        starts.push(inputs);
    }
    // A sample does not depend on the number of samples.
    let more = load(&config(30, 5, 40), 1).expect("data");
    assert_eq!(text(more.train.as_ref(), 7), text(train, 7));
    assert_ne!(text(train, 0), text(val.as_ref(), 0));
    starts.sort();
    starts.dedup();
    assert!(starts.len() > 10, "they are not all alike");
    let error = load(&config(0, 5, 40), 1)
        .err()
        .expect("nothing to train on");
    assert!(
        error
            .to_string()
            .contains("`data.train` must be at least 1")
    );
}

/// Returns the mean loss per character on the validation data before and after some updates.
#[test]
fn a_small_transformer_learns_it() {
    let splits = load(&config(256, 32, 32), 1).expect("data");
    let val = splits.val.expect("a validation");
    let model: ModelConfig = serde_json::from_value(
        json!({"kind": "gpt", "layers": 1, "heads": 2, "width": 32, "expansion": 2}),
    )
    .expect("a model");
    let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
    let signal = Signal::new(val.sample_shape().to_vec(), val.inputs());
    let model = model
        .build(&mut parameters, &signal, val.targets())
        .expect("a model");
    let optimizer: OptimizerConfig =
        serde_json::from_value(json!({"kind": "adamw", "learning_rate": 0.01})).expect("numbers");
    let mut optimizer = optimizer.build(&parameters).expect("an optimizer");
    let loss = |dataset: &dyn Dataset, indices: &[u32], training| {
        let batch = dataset.gather(indices, 0).expect("a batch");
        let outputs = model
            .forward(&batch.inputs, &mut Pass::new(training))
            .expect("outputs");
        let rows = outputs.flatten_to(1).expect("rows");
        cross_entropy(&rows, &batch.targets.flatten_all().expect("targets")).expect("a loss")
    };
    let of_val = || {
        let indices = order::natural(val.len());
        let loss = loss(val.as_ref(), &indices, false);
        loss.to_scalar::<f32>().expect("a number")
    };
    let before = of_val();
    for epoch in 0..6 {
        for indices in order::training(1, epoch, splits.train.len()).chunks(16) {
            let store = loss(splits.train.as_ref(), indices, true).backward();
            let gradients = Gradients::from_store(&parameters, &store.expect("gradients"));
            optimizer.step(&parameters, &gradients).expect("a step");
        }
    }
    let after = of_val();
    // 28 characters; a model that only knows their frequencies has a loss of about 2.8.
    assert!(before > 3.0 && after < 1.5, "{before} {after}");
}
