//! The layers, functions and losses of `candle_nn`.

use std::collections::HashMap;

use candle_core::{D, Device, Module, ModuleT, Result, Tensor, Var};
use candle_nn::rnn::RNN;
use candle_nn::{Activation, VarBuilder, attention, loss, ops, rotary_emb};

use super::table::{Inputs, Operations, constant, indices, input, positive};

const ACTIVATION: &str = "`layers::Activation`";
const ATTENTION: &str = "`layers::Attention`";
const LAYER_NORM: &str = "`layers::LayerNorm`, `ops::layer_norm`";
const RMS_NORM: &str = "`layers::RmsNorm`, `ops::rms_norm`";
const ROTARY: &str = "`layers::Rotary`";

pub(super) fn add(to: &mut Operations) {
    functions(to);
    layers(to);
    norms(to);
    attention_and_positions(to);
    recurrent(to);
    losses(to);
}

fn functions(to: &mut Operations) {
    let x = || [input("x", &[2, 4])];
    let softmax = "`ops::softmax`, `ops::softmax` of candle";
    to.section("`candle_nn::ops` and `Activation`");
    to.add("`ops::sigmoid`", x(), |t| ops::sigmoid(&t[0]), "");
    to.add("`ops::hard_sigmoid`", x(), |t| ops::hard_sigmoid(&t[0]), "");
    to.add("`ops::silu`", x(), |t| ops::silu(&t[0]), "");
    to.add("`ops::swiglu`", x(), |t| ops::swiglu(&t[0]), "");
    to.add("`ops::mish`", x(), |t| ops::mish(&t[0]), "");
    to.add(
        "`ops::leaky_relu`",
        x(),
        |t| ops::leaky_relu(&t[0], 0.1),
        "",
    );
    to.add(
        "`ops::selu`",
        x(),
        |t| ops::selu(&t[0], 1.67, 1.05),
        "`elu` and `affine`",
    );
    to.add(
        "`ops::softmax`",
        x(),
        |t| ops::softmax(&t[0], D::Minus1),
        "",
    );
    to.add(
        "`ops::softmax` along 0",
        x(),
        |t| ops::softmax(&t[0], 0),
        "",
    );
    to.add(
        "`ops::softmax_last_dim`",
        x(),
        |t| ops::softmax_last_dim(&t[0]),
        softmax,
    );
    to.add(
        "`ops::log_softmax`",
        x(),
        |t| ops::log_softmax(&t[0], 1),
        "",
    );
    to.row(
        "`ops::dropout`, `Dropout`",
        dropout().expect("a verdict"),
        "`layers::Dropout`, whose mask can be repeated",
    );
    let image = || [input("x", &[1, 4, 2, 2])];
    to.add(
        "`ops::pixel_shuffle`",
        image(),
        |t| ops::pixel_shuffle(&t[0], 2),
        "",
    );
    to.add(
        "`ops::pixel_unshuffle`",
        image(),
        |t| ops::pixel_unshuffle(&t[0], 2),
        "",
    );
    to.add(
        "`ops::replication_pad2d`",
        image(),
        |t| ops::replication_pad2d(&t[0], 1),
        "",
    );
    for (name, activation, instead) in [
        ("`Activation::Gelu`", Activation::Gelu, ACTIVATION),
        (
            "`Activation::NewGelu`, `GeluPytorchTanh`",
            Activation::NewGelu,
            ACTIVATION,
        ),
        ("`Activation::Relu`", Activation::Relu, ""),
        ("`Activation::Relu2`", Activation::Relu2, ""),
        ("`Activation::Relu6`", Activation::Relu6, ""),
        ("`Activation::Silu`", Activation::Silu, ""),
        ("`Activation::Sigmoid`", Activation::Sigmoid, ""),
        ("`Activation::HardSigmoid`", Activation::HardSigmoid, ""),
        ("`Activation::Swiglu`", Activation::Swiglu, ""),
        ("`Activation::Swish`", Activation::Swish, ""),
        ("`Activation::HardSwish`", Activation::HardSwish, ""),
        ("`Activation::Mish`", Activation::Mish, ""),
        ("`Activation::Elu`", Activation::Elu(0.7), ""),
        ("`Activation::LeakyRelu`", Activation::LeakyRelu(0.1), ""),
    ] {
        to.add(name, x(), move |t| activation.forward(&t[0]), instead);
    }
    to.add(
        "`PReLU`, one slope",
        [input("x", &[2, 3]), input("weight", &[1])],
        |t| candle_nn::PReLU::new(t[1].clone(), true).forward(&t[0]),
        "",
    );
    to.add(
        "`PReLU`, a slope for each channel",
        [input("x", &[2, 3, 2]), input("weight", &[3])],
        |t| candle_nn::PReLU::new(t[1].clone(), false).forward(&t[0]),
        "",
    );
}

/// candle's mask can't be repeated; but what it does to the input it must do to the gradient too.
fn dropout() -> Result<String> {
    let (_, x) = input("x", &[8, 8]);
    let y = ops::dropout(&x, 0.5)?;
    let weights = constant("weights", &[8, 8]);
    let store = y.mul(&weights)?.sum_all()?.backward()?;
    let Some(gradient) = store.get(&x) else {
        return Ok("**cut silently**".to_owned());
    };
    let error = gradient.mul(&x)?.sub(&y.mul(&weights)?)?.abs()?.max_all()?;
    let is_right = error.to_scalar::<f64>()? < 1e-6;
    Ok(if is_right { "trains" } else { "**wrong**" }.to_owned())
}

fn layers(to: &mut Operations) {
    to.section("Layers of `candle_nn`");
    let linear = |x: &[usize]| [input("x", x), input("weight", &[2, 3]), input("bias", &[2])];
    let linear_forward =
        |t: &[Tensor]| candle_nn::Linear::new(t[1].clone(), Some(t[2].clone())).forward(&t[0]);
    to.add("`Linear`", linear(&[4, 3]), linear_forward, "");
    to.add(
        "`Linear`, three dimensions",
        linear(&[2, 2, 3]),
        linear_forward,
        "",
    );
    to.add(
        "`Linear`, a transposed input",
        linear(&[3, 4]),
        move |t| linear_forward(&[t[0].t()?, t[1].clone(), t[2].clone()]),
        "",
    );
    to.add(
        "`Embedding`",
        [input("weight", &[4, 3])],
        |t| candle_nn::Embedding::new(t[0].clone(), 3).forward(&indices(&[1, 3, 1, 0], &[2, 2])),
        "",
    );
    to.add(
        "`Conv1d`",
        [
            input("x", &[2, 2, 5]),
            input("weight", &[3, 2, 2]),
            input("bias", &[3]),
        ],
        |t| {
            let config = candle_nn::Conv1dConfig::default();
            candle_nn::Conv1d::new(t[1].clone(), Some(t[2].clone()), config).forward(&t[0])
        },
        "`layers::Conv1d`",
    );
    to.add(
        "`Conv2d`",
        [
            input("x", &[1, 2, 4, 4]),
            input("weight", &[2, 2, 3, 3]),
            input("bias", &[2]),
        ],
        |t| {
            let config = candle_nn::Conv2dConfig::default();
            candle_nn::Conv2d::new(t[1].clone(), Some(t[2].clone()), config).forward(&t[0])
        },
        "",
    );
    let transposed = "upsample, then a convolution";
    to.add(
        "`ConvTranspose1d`",
        [
            input("x", &[1, 2, 3]),
            input("weight", &[2, 3, 2]),
            input("bias", &[3]),
        ],
        |t| {
            let config = candle_nn::ConvTranspose1dConfig::default();
            candle_nn::ConvTranspose1d::new(t[1].clone(), Some(t[2].clone()), config).forward(&t[0])
        },
        transposed,
    );
    to.add(
        "`ConvTranspose2d`",
        [
            input("x", &[1, 2, 3, 3]),
            input("weight", &[2, 3, 2, 2]),
            input("bias", &[3]),
        ],
        |t| {
            let config = candle_nn::ConvTranspose2dConfig::default();
            candle_nn::ConvTranspose2d::new(t[1].clone(), Some(t[2].clone()), config).forward(&t[0])
        },
        transposed,
    );
}

fn norms(to: &mut Operations) {
    to.section("Norms of `candle_nn`");
    let all = |x: &[usize]| [input("x", x), positive("weight", &[4]), input("bias", &[4])];
    let two = |x: &[usize]| [input("x", x), positive("weight", &[4])];
    let layer_norm =
        |t: &[Tensor]| candle_nn::LayerNorm::new(t[1].clone(), t[2].clone(), 1e-5).forward(&t[0]);
    to.add(
        "`LayerNorm`, a contiguous input",
        all(&[2, 4]),
        layer_norm,
        LAYER_NORM,
    );
    to.add(
        "`LayerNorm`, any other input",
        all(&[4, 2]),
        move |t| layer_norm(&[t[0].t()?, t[1].clone(), t[2].clone()]),
        LAYER_NORM,
    );
    to.add(
        "`LayerNorm::new_no_bias`",
        two(&[2, 4]),
        |t| candle_nn::LayerNorm::new_no_bias(t[1].clone(), 1e-5).forward(&t[0]),
        "",
    );
    to.add(
        "`LayerNorm::rms_norm`",
        two(&[2, 4]),
        |t| candle_nn::LayerNorm::rms_norm(t[1].clone(), 1e-5).forward(&t[0]),
        "",
    );
    to.add(
        "`ops::layer_norm`",
        all(&[2, 4]),
        |t| ops::layer_norm(&t[0], &t[1], &t[2], 1e-5),
        LAYER_NORM,
    );
    to.add(
        "`ops::layer_norm_slow`",
        all(&[2, 4]),
        |t| ops::layer_norm_slow(&t[0], &t[1], &t[2], 1e-5),
        "",
    );
    let rms_norm = |t: &[Tensor]| candle_nn::RmsNorm::new(t[1].clone(), 1e-5).forward(&t[0]);
    to.add(
        "`RmsNorm`, a contiguous input",
        two(&[2, 4]),
        rms_norm,
        RMS_NORM,
    );
    to.add(
        "`RmsNorm`, any other input",
        two(&[4, 2]),
        move |t| rms_norm(&[t[0].t()?, t[1].clone()]),
        RMS_NORM,
    );
    to.add(
        "`RmsNorm::forward_diff`",
        two(&[2, 4]),
        |t| candle_nn::RmsNorm::new(t[1].clone(), 1e-5).forward_diff(&t[0]),
        "",
    );
    to.add(
        "`ops::rms_norm`",
        two(&[2, 4]),
        |t| ops::rms_norm(&t[0], &t[1], 1e-5),
        RMS_NORM,
    );
    to.add(
        "`ops::rms_norm_slow`",
        two(&[2, 4]),
        |t| ops::rms_norm_slow(&t[0], &t[1], 1e-5),
        "",
    );
    let channels = || {
        [
            input("x", &[3, 2, 2]),
            positive("weight", &[2]),
            input("bias", &[2]),
        ]
    };
    let batch_norm = |t: &[Tensor], train: bool| {
        let (mean, variance) = (constant("mean", &[2]), constant("mean", &[2]).sqr()?);
        let (mean, variance) = (
            mean.to_dtype(t[0].dtype())?,
            variance.to_dtype(t[0].dtype())?,
        );
        let (weight, bias) = (t[1].clone(), t[2].clone());
        let norm = candle_nn::BatchNorm::new(2, mean, variance, weight, bias, 1e-5)?;
        norm.forward_t(&t[0], train)
    };
    to.add(
        "`BatchNorm`, training",
        channels(),
        move |t| batch_norm(t, true),
        "",
    );
    to.add(
        "`BatchNorm`, evaluation",
        channels(),
        move |t| batch_norm(t, false),
        "",
    );
    to.add(
        "`GroupNorm`",
        all(&[2, 4, 3]),
        |t| candle_nn::GroupNorm::new(t[1].clone(), t[2].clone(), 4, 2, 1e-5)?.forward(&t[0]),
        "",
    );
}

fn attention_and_positions(to: &mut Operations) {
    to.section("Attention and positions of `candle_nn`");
    let angle = |t: &[Tensor]| constant("angles", &[3, 2]).to_dtype(t[0].dtype());
    let x = || [input("x", &[1, 2, 3, 4])];
    to.add(
        "`rotary_emb::rope`",
        x(),
        move |t| rotary_emb::rope(&t[0], &angle(t)?.cos()?, &angle(t)?.sin()?),
        ROTARY,
    );
    to.add(
        "`rotary_emb::rope_i`",
        x(),
        move |t| rotary_emb::rope_i(&t[0], &angle(t)?.cos()?, &angle(t)?.sin()?),
        ROTARY,
    );
    to.add(
        "`rotary_emb::rope_thd`",
        [input("x", &[1, 3, 2, 4])],
        move |t| rotary_emb::rope_thd(&t[0], &angle(t)?.cos()?, &angle(t)?.sin()?),
        ROTARY,
    );
    to.add(
        "`rotary_emb::rope_slow`",
        x(),
        move |t| rotary_emb::rope_slow(&t[0], &angle(t)?.cos()?, &angle(t)?.sin()?),
        "",
    );
    to.add(
        "`rotary_emb::rope_i_slow`",
        x(),
        move |t| rotary_emb::rope_i_slow(&t[0], &angle(t)?.cos()?, &angle(t)?.sin()?),
        "",
    );
    let qkv = || -> Inputs {
        ["q", "k", "v"]
            .map(|name| input(name, &[1, 3, 2, 4]))
            .into()
    };
    to.add(
        "`ops::sdpa`",
        qkv(),
        |t| ops::sdpa(&t[0], &t[1], &t[2], None, false, 0.5, 1.0),
        ATTENTION,
    );
    to.add(
        "`attention::flash_attn`",
        qkv(),
        |t| {
            attention::flash_attn::<f64>(
                &t[0],
                &t[1],
                &t[2],
                0.5,
                attention::AttnMask::None,
                None,
                None,
            )
        },
        ATTENTION,
    );
    to.add(
        "`attention::flash_attn`, causal",
        qkv(),
        |t| {
            attention::flash_attn::<f64>(
                &t[0],
                &t[1],
                &t[2],
                0.5,
                attention::AttnMask::causal(),
                None,
                None,
            )
        },
        ATTENTION,
    );
    let packed = || -> Inputs { ["q", "k", "v"].map(|name| input(name, &[3, 2, 4])).into() };
    to.add(
        "`attention::flash_attn_varlen_unfused`",
        packed(),
        |t| {
            let lengths = indices(&[3], &[1]);
            attention::flash_attn_varlen_unfused(
                &t[0], &t[1], &t[2], None, &lengths, &lengths, 3, 3, 0.5, true, None, None,
            )
        },
        ATTENTION,
    );
    to.add(
        "`attention::flash_attn_varlen_cpu`",
        packed(),
        |t| {
            let lengths = indices(&[3], &[1]);
            attention::flash_attn_varlen_cpu(
                &t[0], &t[1], &t[2], None, &lengths, &lengths, 3, 3, 0.5, true, None, None,
            )
        },
        ATTENTION,
    );
}

/// The parameters of a recurrent layer with so many gates, 2 inputs and 2 hidden numbers.
fn gates(count: usize) -> [(&'static str, Var); 5] {
    [
        input("x", &[1, 3, 2]),
        input("weight_ih_l0", &[2 * count, 2]),
        input("weight_hh_l0", &[2 * count, 2]),
        input("bias_ih_l0", &[2 * count]),
        input("bias_hh_l0", &[2 * count]),
    ]
}

fn builder(t: &[Tensor]) -> VarBuilder<'static> {
    let weights = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"];
    let pairs = weights.iter().zip(&t[1..]);
    let tensors: HashMap<String, Tensor> = pairs
        .map(|(name, tensor)| ((*name).to_owned(), tensor.clone()))
        .collect();
    VarBuilder::from_tensors(tensors, t[0].dtype(), &Device::Cpu)
}

fn recurrent(to: &mut Operations) {
    to.section("Recurrent layers of `candle_nn`");
    to.add(
        "`LSTM`",
        gates(4),
        |t| {
            let layer = candle_nn::lstm(2, 2, candle_nn::LSTMConfig::default(), builder(t))?;
            layer.states_to_tensor(&layer.seq(&t[0])?)
        },
        "",
    );
    to.add(
        "`GRU`",
        gates(3),
        |t| {
            let layer = candle_nn::gru(2, 2, candle_nn::GRUConfig::default(), builder(t))?;
            layer.states_to_tensor(&layer.seq(&t[0])?)
        },
        "",
    );
}

fn losses(to: &mut Operations) {
    to.section("Losses of `candle_nn`");
    let x = || [input("x", &[3, 4])];
    let pair = || [input("x", &[3, 4]), input("target", &[3, 4])];
    let classes = || indices(&[1, 3, 0], &[3]);
    to.add(
        "`loss::nll`",
        x(),
        move |t| loss::nll(&t[0], &classes()),
        "",
    );
    to.add(
        "`loss::cross_entropy`",
        x(),
        move |t| loss::cross_entropy(&t[0], &classes()),
        "",
    );
    to.add("`loss::mse`", pair(), |t| loss::mse(&t[0], &t[1]), "");
    to.add(
        "`loss::huber`",
        pair(),
        |t| loss::huber(&t[0], &t[1], 0.7),
        "",
    );
    to.add(
        "`loss::binary_cross_entropy_with_logit`",
        pair(),
        |t| loss::binary_cross_entropy_with_logit(&t[0], &t[1]),
        "",
    );
    to.add(
        "`loss::binary_cross_entropy_with_logit` of a logit of 40",
        x(),
        |t| {
            let target = constant("target", &[3, 4]).to_dtype(t[0].dtype())?.abs()?;
            loss::binary_cross_entropy_with_logit(&t[0].affine(1.0, 40.0)?, &target)
        },
        "`relu(x) - x * y + log(1 + exp(-abs(x)))`",
    );
}
