//! The operations of `candle_core::Tensor`.

use candle_core::{D, DType, Device, IndexOp, Tensor, Var};

use super::table::{Operations, constant, indices, input, positive};

const POOL: &str = "`ops::pool2d`, `layers::Pool2d`";
const CONV: &str = "`layers::Conv2d`";
const TRANSPOSED: &str = "upsample, then `layers::Conv2d`";
const UPSAMPLE: &str = "a whole factor; `broadcast_as` and `reshape`";

pub(super) fn add(to: &mut Operations) {
    element_by_element(to);
    two_tensors(to);
    reductions(to);
    products(to);
    shapes(to);
    indexing(to);
    convolutions(to);
    pooling(to);
    resizing(to);
}

fn element_by_element(to: &mut Operations) {
    let x = || [input("x", &[2, 3])];
    let p = || [positive("x", &[2, 3])];
    let gelu = "`ops::gelu`, `layers::Activation`";
    to.section("Element by element");
    to.add("`neg`", x(), |t| t[0].neg(), "");
    to.add("`exp`", x(), |t| t[0].exp(), "");
    to.add("`log`", p(), |t| t[0].log(), "");
    to.add("`sin`", x(), |t| t[0].sin(), "");
    to.add("`cos`", x(), |t| t[0].cos(), "");
    to.add("`tanh`", x(), |t| t[0].tanh(), "");
    to.add("`abs`", x(), |t| t[0].abs(), "");
    to.add("`sqr`", x(), |t| t[0].sqr(), "");
    to.add("`sqrt`", p(), |t| t[0].sqrt(), "");
    to.add("`recip`", p(), |t| t[0].recip(), "");
    to.add("`erf`", x(), |t| t[0].erf(), "");
    to.add("`gelu` (by tanh)", x(), |t| t[0].gelu(), gelu);
    to.add("`gelu_erf`", x(), |t| t[0].gelu_erf(), gelu);
    to.add("`relu`", x(), |t| t[0].relu(), "");
    to.add("`silu`", x(), |t| t[0].silu(), "");
    to.add("`elu`", x(), |t| t[0].elu(0.7), "");
    to.add("`powf`, exponent 2.5", p(), |t| t[0].powf(2.5), "");
    to.add(
        "`powf`, exponent 3, negative numbers too",
        x(),
        |t| t[0].powf(3.0),
        "",
    );
    to.add("`affine`", x(), |t| t[0].affine(-1.7, 0.4), "");
    to.add("`affine` by 0", x(), |t| t[0].affine(0.0, 0.4), "");
    to.add("`clamp`", x(), |t| t[0].clamp(-0.5, 0.7), "");
    to.add("`floor`", x(), |t| t[0].floor(), "");
    to.add("`ceil`", x(), |t| t[0].ceil(), "`detach` before it");
    to.add("`round`", x(), |t| t[0].round(), "");
    to.add("`round_to`", x(), |t| t[0].round_to(1), "");
    to.add("`sign`", x(), |t| t[0].sign(), "");
    to.add(
        "`eq`, `ne`, `lt`, `le`, `gt`, `ge`",
        x(),
        |t| t[0].lt(0.21),
        "",
    );
    let single = constant("x", &[2, 3]).to_dtype(DType::F32).expect("f32");
    let single = ("x", Var::from_tensor(&single).expect("a variable"));
    to.add(
        "`to_dtype`, `f32` to `f64`",
        [single],
        |t| t[0].to_dtype(DType::F64),
        "",
    );
    to.add(
        "`to_dtype` to whole numbers",
        x(),
        |t| t[0].to_dtype(DType::I64),
        "",
    );
    to.add("`to_device`", x(), |t| t[0].to_device(&Device::Cpu), "");
    to.add(
        "`copy`, `contiguous`, `force_contiguous`",
        x(),
        |t| t[0].t()?.contiguous()?.copy()?.force_contiguous(),
        "",
    );
    to.add(
        "`detach`",
        x(),
        |t| Ok(t[0].detach()),
        "nothing, where that is what is wanted",
    );
}

fn two_tensors(to: &mut Operations) {
    let both = || [input("a", &[2, 3]), input("b", &[2, 3])];
    let powers = || [positive("a", &[2, 3]), input("b", &[2, 3])];
    let wide = || [positive("a", &[2, 1, 3]), positive("b", &[4, 1])];
    to.section("Two tensors");
    to.add("`add`", both(), |t| t[0].add(&t[1]), "");
    to.add("`sub`", both(), |t| t[0].sub(&t[1]), "");
    to.add("`mul`", both(), |t| t[0].mul(&t[1]), "");
    to.add("`div`", both(), |t| t[0].div(&t[1]), "");
    to.add("`maximum`", both(), |t| t[0].maximum(&t[1]), "");
    to.add("`minimum`", both(), |t| t[0].minimum(&t[1]), "");
    to.add("`pow`", powers(), |t| t[0].pow(&t[1]), "");
    to.add(
        "`add`, a tensor with itself",
        [input("x", &[2, 3])],
        |t| t[0].add(&t[0]),
        "",
    );
    to.add(
        "`mul`, a tensor with itself",
        [input("x", &[2, 3])],
        |t| t[0].mul(&t[0]),
        "",
    );
    to.add(
        "`mul`, one transposed",
        [input("a", &[2, 3]), input("b", &[3, 2])],
        |t| t[0].mul(&t[1].t()?),
        "",
    );
    to.add("`broadcast_add`", wide(), |t| t[0].broadcast_add(&t[1]), "");
    to.add("`broadcast_sub`", wide(), |t| t[0].broadcast_sub(&t[1]), "");
    to.add("`broadcast_mul`", wide(), |t| t[0].broadcast_mul(&t[1]), "");
    to.add("`broadcast_div`", wide(), |t| t[0].broadcast_div(&t[1]), "");
    to.add(
        "`broadcast_maximum`",
        wide(),
        |t| t[0].broadcast_maximum(&t[1]),
        "",
    );
    to.add(
        "`broadcast_minimum`",
        wide(),
        |t| t[0].broadcast_minimum(&t[1]),
        "",
    );
    to.add("`broadcast_pow`", wide(), |t| t[0].broadcast_pow(&t[1]), "");
    to.add(
        "`where_cond`",
        both(),
        |t| constant("mask", &[2, 3]).gt(0.0)?.where_cond(&t[0], &t[1]),
        "",
    );
    to.add(
        "`where_cond`, the condition from an input",
        both(),
        |t| t[0].gt(&t[1])?.where_cond(&t[0].sqr()?, &t[1]),
        "",
    );
}

fn reductions(to: &mut Operations) {
    let x = || [input("x", &[2, 3, 2])];
    to.section("Reductions");
    to.add("`sum`", x(), |t| t[0].sum(1), "");
    to.add("`sum` over two dimensions", x(), |t| t[0].sum((0, 2)), "");
    to.add("`sum_keepdim`", x(), |t| t[0].sum_keepdim(D::Minus1), "");
    to.add("`sum_all`", x(), |t| t[0].sum_all(), "");
    to.add("`mean`", x(), |t| t[0].mean(1), "");
    to.add("`mean_keepdim`", x(), |t| t[0].mean_keepdim((0, 1)), "");
    to.add("`mean_all`", x(), |t| t[0].mean_all(), "");
    to.add("`var`", x(), |t| t[0].var(1), "");
    to.add("`var_keepdim`", x(), |t| t[0].var_keepdim(0), "");
    to.add("`max`", x(), |t| t[0].max(1), "");
    to.add("`max_keepdim`", x(), |t| t[0].max_keepdim(0), "");
    to.add("`max_all`", x(), |t| t[0].max_all(), "");
    to.add("`min`", x(), |t| t[0].min(1), "");
    to.add("`min_keepdim`", x(), |t| t[0].min_keepdim(D::Minus1), "");
    to.add("`min_all`", x(), |t| t[0].min_all(), "");
    to.add("`argmax`, `argmin`", x(), |t| t[0].argmax(1), "");
    to.add("`log_sum_exp`", x(), |t| t[0].log_sum_exp(1), "");
    to.add(
        "`log_sum_exp` over two dimensions",
        x(),
        |t| t[0].log_sum_exp((0, 2)),
        "",
    );
    to.add("`norm`", x(), |t| t[0].norm(), "");
    to.add("`cumsum`", x(), |t| t[0].cumsum(1), "");
    to.add(
        "`cumsum` of a vector",
        [input("x", &[5])],
        |t| t[0].cumsum(0),
        "",
    );
}

fn products(to: &mut Operations) {
    to.section("Products");
    let pair = |a: &[usize], b: &[usize]| [input("a", a), input("b", b)];
    to.add(
        "`matmul`",
        pair(&[2, 3], &[3, 4]),
        |t| t[0].matmul(&t[1]),
        "",
    );
    to.add(
        "`matmul` of batches",
        pair(&[2, 2, 3], &[2, 3, 2]),
        |t| t[0].matmul(&t[1]),
        "",
    );
    to.add(
        "`matmul`, one transposed",
        pair(&[2, 3], &[4, 3]),
        |t| t[0].matmul(&t[1].t()?),
        "",
    );
    to.add(
        "`broadcast_matmul`",
        pair(&[2, 2, 3], &[3, 2]),
        |t| t[0].broadcast_matmul(&t[1]),
        "",
    );
    to.add("`mv`", pair(&[2, 3], &[3]), |t| t[0].mv(&t[1]), "");
    to.add("`dot`", pair(&[4], &[4]), |t| t[0].dot(&t[1]), "");
}

fn shapes(to: &mut Operations) {
    let x = || [input("x", &[2, 3, 2])];
    let pair = || [input("a", &[2, 3]), input("b", &[2, 3])];
    to.section("Shapes");
    to.add("`reshape`, `flatten`", x(), |t| t[0].reshape((3, 4)), "");
    to.add(
        "`reshape` of a transposed tensor",
        x(),
        |t| t[0].transpose(0, 1)?.reshape((4, 3)),
        "",
    );
    to.add("`transpose`, `t`", x(), |t| t[0].transpose(0, 2), "");
    to.add("`permute`", x(), |t| t[0].permute((2, 0, 1)), "");
    to.add("`narrow`", x(), |t| t[0].narrow(1, 1, 1), "");
    to.add("`chunk`", x(), |t| t[0].chunk(2, 1)?[0].sqr(), "");
    to.add("`get`", x(), |t| t[0].get(1), "");
    to.add("`get_on_dim`", x(), |t| t[0].get_on_dim(1, 2), "");
    to.add(
        "`i`, ranges and numbers",
        x(),
        |t| t[0].i((.., 1..3, 0)),
        "",
    );
    to.add(
        "`squeeze`, `unsqueeze`",
        x(),
        |t| t[0].unsqueeze(1)?.squeeze(1),
        "",
    );
    to.add("`cat`", pair(), |t| Tensor::cat(&[&t[0], &t[1]], 0), "");
    to.add(
        "`cat` of transposed tensors along 1",
        pair(),
        |t| Tensor::cat(&[t[0].t()?, t[1].t()?], 1),
        "",
    );
    to.add("`stack`", pair(), |t| Tensor::stack(&[&t[0], &t[1]], 1), "");
    to.add(
        "`pad_with_zeros`",
        x(),
        |t| t[0].pad_with_zeros(1, 1, 2),
        "",
    );
    to.add("`pad_with_same`", x(), |t| t[0].pad_with_same(1, 2, 1), "");
    to.add("`repeat`", x(), |t| t[0].repeat((1, 2, 3)), "");
    to.add(
        "`broadcast_as`, `expand`, `broadcast_left`",
        [input("x", &[2, 1, 2])],
        |t| t[0].broadcast_as((3, 2, 4, 2)),
        "",
    );
    to.add("`flip`", x(), |t| t[0].flip(&[0, 1]), "");
    to.add("`roll`", x(), |t| t[0].roll(1, 1), "");
    to.add(
        "`meshgrid`",
        [input("a", &[3]), input("b", &[2])],
        |t| {
            let grids = Tensor::meshgrid(&[&t[0], &t[1]], false)?;
            grids[0].mul(&grids[1])
        },
        "",
    );
    let windows = "`ops::unfold2d`; `narrow` and `stack`";
    to.add(
        "`unfold`, windows that touch",
        [input("x", &[4, 2])],
        |t| t[0].unfold(0, 2, 2),
        windows,
    );
    to.add(
        "`unfold`, windows that overlap",
        [input("x", &[4])],
        |t| t[0].unfold(0, 2, 1),
        windows,
    );
}

fn indexing(to: &mut Operations) {
    let x = || [input("x", &[3, 4])];
    let table = |shape: &[usize]| [input("self", &[3, 4]), input("source", shape)];
    let add = "`index_add`; a product with a one-hot matrix";
    let set = "`slice_scatter`, `cat`";
    to.section("Indexing");
    to.add(
        "`index_select`, indices twice",
        x(),
        |t| t[0].index_select(&indices(&[2, 0, 2], &[3]), 0),
        "",
    );
    to.add(
        "`index_select` along 1",
        x(),
        |t| t[0].index_select(&indices(&[3, 1], &[2]), 1),
        "",
    );
    to.add(
        "`embedding`",
        x(),
        |t| t[0].embedding(&indices(&[1, 1, 2], &[3])),
        "",
    );
    to.add(
        "`gather`, indices twice",
        x(),
        |t| t[0].gather(&indices(&[0, 0, 3, 1, 2, 2], &[3, 2]), 1),
        "",
    );
    to.add(
        "`index_add`",
        table(&[2, 4]),
        |t| t[0].index_add(&indices(&[2, 0], &[2]), &t[1], 0),
        "",
    );
    let places = || indices(&[0, 1, 3, 1, 2, 0], &[3, 2]);
    to.add(
        "`scatter_add`",
        table(&[3, 2]),
        move |t| t[0].scatter_add(&places(), &t[1], 1),
        add,
    );
    to.add(
        "`scatter_add` onto zeros",
        [input("source", &[3, 2])],
        move |t| {
            Tensor::zeros((3, 4), t[0].dtype(), &Device::Cpu)?.scatter_add(&places(), &t[0], 1)
        },
        add,
    );
    to.add(
        "`scatter`",
        table(&[3, 2]),
        move |t| t[0].scatter(&places(), &t[1], 1),
        "`where_cond`; `scatter` onto zeros",
    );
    to.add(
        "`scatter_set`, `scatter_add_set`",
        [input("source", &[3, 2])],
        move |t| {
            let to = Tensor::zeros((3, 4), t[0].dtype(), &Device::Cpu)?;
            to.scatter_set(&places(), &t[0], 1)?;
            Ok(to)
        },
        "`scatter` onto zeros",
    );
    to.add(
        "`slice_scatter`",
        table(&[3, 2]),
        |t| t[0].slice_scatter(&t[1], 1, 1),
        "",
    );
    to.add(
        "`slice_scatter0`",
        table(&[2, 4]),
        |t| t[0].slice_scatter0(&t[1], 1),
        "",
    );
    to.add(
        "`slice_assign`",
        table(&[2, 2]),
        |t| t[0].slice_assign(&[0..2, 1..3], &t[1]),
        "",
    );
    to.add(
        "`slice_set`",
        [input("source", &[2, 4])],
        |t| {
            let to = Tensor::zeros((3, 4), t[0].dtype(), &Device::Cpu)?;
            to.slice_set(&t[0], 0, 1)?;
            Ok(to)
        },
        set,
    );
    to.add(
        "`sort_last_dim`",
        x(),
        |t| Ok(t[0].sort_last_dim(true)?.0),
        "",
    );
    to.add(
        "`arg_sort_last_dim`",
        x(),
        |t| t[0].arg_sort_last_dim(true),
        "",
    );
}

fn convolutions(to: &mut Operations) {
    let one =
        |length: usize, kernel: &[usize]| [input("x", &[2, 2, length]), input("kernel", kernel)];
    let two = |size: &[usize], kernel: &[usize]| [input("x", size), input("kernel", kernel)];
    let line = "`layers::Conv1d`";
    to.section("Convolutions");
    to.add(
        "`conv1d`",
        one(5, &[3, 2, 2]),
        |t| t[0].conv1d(&t[1], 0, 1, 1, 1),
        line,
    );
    to.add(
        "`conv1d`, padding 1",
        one(5, &[3, 2, 3]),
        |t| t[0].conv1d(&t[1], 1, 1, 1, 1),
        line,
    );
    to.add(
        "`conv1d`, stride 2 with a rest",
        one(6, &[3, 2, 3]),
        |t| t[0].conv1d(&t[1], 0, 2, 1, 1),
        line,
    );
    to.add(
        "`conv1d`, dilation 2",
        one(6, &[3, 2, 2]),
        |t| t[0].conv1d(&t[1], 1, 1, 2, 1),
        line,
    );
    to.add(
        "`conv1d`, groups 2",
        one(5, &[2, 1, 2]),
        |t| t[0].conv1d(&t[1], 0, 1, 1, 2),
        line,
    );
    to.add(
        "`conv_transpose1d`",
        one(4, &[2, 3, 2]),
        |t| t[0].conv_transpose1d(&t[1], 0, 0, 1, 1, 1),
        "upsample, then `layers::Conv1d`",
    );
    let square = || two(&[2, 2, 5, 5], &[2, 2, 3, 3]);
    to.add(
        "`conv2d`",
        square(),
        |t| t[0].conv2d(&t[1], 0, 1, 1, 1),
        CONV,
    );
    to.add(
        "`conv2d`, padding 1",
        square(),
        |t| t[0].conv2d(&t[1], 1, 1, 1, 1),
        CONV,
    );
    to.add(
        "`conv2d`, stride 2",
        square(),
        |t| t[0].conv2d(&t[1], 0, 2, 1, 1),
        CONV,
    );
    to.add(
        "`conv2d`, stride 2 with a rest",
        two(&[1, 2, 6, 6], &[2, 2, 3, 3]),
        |t| t[0].conv2d(&t[1], 0, 2, 1, 1),
        CONV,
    );
    to.add(
        "`conv2d`, dilation 2",
        square(),
        |t| t[0].conv2d(&t[1], 1, 1, 2, 1),
        CONV,
    );
    to.add(
        "`conv2d`, groups 2",
        two(&[2, 2, 4, 4], &[4, 1, 2, 2]),
        |t| t[0].conv2d(&t[1], 0, 1, 1, 2),
        CONV,
    );
    to.add(
        "`conv2d`, a kernel of 1 x 3",
        two(&[2, 2, 4, 5], &[2, 2, 1, 3]),
        |t| t[0].conv2d(&t[1], 0, 1, 1, 1),
        CONV,
    );
    to.add(
        "`conv2d`, stride 2 with a rest on one side",
        two(&[1, 2, 5, 6], &[2, 2, 3, 3]),
        |t| t[0].conv2d(&t[1], 0, 2, 1, 1),
        CONV,
    );
    let transposed = || two(&[1, 2, 3, 3], &[2, 3, 2, 2]);
    to.add(
        "`conv_transpose2d`",
        transposed(),
        |t| t[0].conv_transpose2d(&t[1], 0, 0, 1, 1),
        TRANSPOSED,
    );
    to.add(
        "`conv_transpose2d`, stride 2",
        transposed(),
        |t| t[0].conv_transpose2d(&t[1], 0, 0, 2, 1),
        TRANSPOSED,
    );
    to.add(
        "`conv_transpose2d`, stride 2, padding 1, output padding 1",
        two(&[1, 2, 3, 3], &[2, 2, 3, 3]),
        |t| t[0].conv_transpose2d(&t[1], 1, 1, 2, 1),
        TRANSPOSED,
    );
    to.add(
        "`conv_transpose2d`, dilation 2",
        transposed(),
        |t| t[0].conv_transpose2d(&t[1], 0, 0, 1, 2),
        TRANSPOSED,
    );
}

fn pooling(to: &mut Operations) {
    let x = |size: usize| [input("x", &[1, 2, size, size])];
    to.section("Pooling");
    to.add("`avg_pool2d(2)`", x(4), |t| t[0].avg_pool2d(2), POOL);
    to.add("`avg_pool2d(3)`", x(6), |t| t[0].avg_pool2d(3), POOL);
    to.add(
        "`avg_pool2d((2, 1))`",
        x(4),
        |t| t[0].avg_pool2d((2, 1)),
        POOL,
    );
    to.add(
        "`avg_pool2d(2)`, 5 x 5 numbers",
        x(5),
        |t| t[0].avg_pool2d(2),
        POOL,
    );
    to.add(
        "`avg_pool2d_with_stride(3, 2)`",
        x(5),
        |t| t[0].avg_pool2d_with_stride(3, 2),
        POOL,
    );
    to.add(
        "`avg_pool2d_with_stride(2, 1)`",
        x(4),
        |t| t[0].avg_pool2d_with_stride(2, 1),
        POOL,
    );
    to.add("`max_pool2d(1)`", x(3), |t| t[0].max_pool2d(1), POOL);
    to.add("`max_pool2d(2)`", x(4), |t| t[0].max_pool2d(2), POOL);
    to.add("`max_pool2d(3)`", x(6), |t| t[0].max_pool2d(3), POOL);
    to.add(
        "`max_pool2d((2, 1))`",
        x(4),
        |t| t[0].max_pool2d((2, 1)),
        POOL,
    );
    to.add(
        "`max_pool2d(2)`, 5 x 5 numbers",
        x(5),
        |t| t[0].max_pool2d(2),
        POOL,
    );
    to.add(
        "`max_pool2d_with_stride(3, 2)`",
        x(5),
        |t| t[0].max_pool2d_with_stride(3, 2),
        POOL,
    );
    to.add(
        "`max_pool2d_with_stride(2, 1)`",
        x(4),
        |t| t[0].max_pool2d_with_stride(2, 1),
        POOL,
    );
}

fn resizing(to: &mut Operations) {
    let line = || [input("x", &[2, 2, 3])];
    let image = || [input("x", &[1, 2, 2, 3])];
    to.section("Resizing");
    to.add(
        "`upsample_nearest1d`, twice as long",
        line(),
        |t| t[0].upsample_nearest1d(6),
        UPSAMPLE,
    );
    to.add(
        "`upsample_nearest1d`, 3 to 4",
        line(),
        |t| t[0].upsample_nearest1d(4),
        UPSAMPLE,
    );
    to.add(
        "`interpolate1d`, twice as long",
        line(),
        |t| t[0].interpolate1d(6),
        UPSAMPLE,
    );
    to.add(
        "`upsample_nearest2d`, twice as large",
        image(),
        |t| t[0].upsample_nearest2d(4, 6),
        UPSAMPLE,
    );
    to.add(
        "`upsample_nearest2d`, twice as high",
        image(),
        |t| t[0].upsample_nearest2d(4, 3),
        UPSAMPLE,
    );
    to.add(
        "`upsample_nearest2d`, half as large again",
        image(),
        |t| t[0].upsample_nearest2d(3, 4),
        UPSAMPLE,
    );
    to.add(
        "`interpolate2d`, twice as large",
        image(),
        |t| t[0].interpolate2d(4, 6),
        UPSAMPLE,
    );
    to.add(
        "`upsample_bilinear2d`",
        image(),
        |t| t[0].upsample_bilinear2d(4, 6, false),
        "two `matmul`s with a constant matrix",
    );
}
