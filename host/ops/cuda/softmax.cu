// Softmax over the rows of a matrix, causal on request, and softmax with cross entropy; with their gradients.
//
// A row of threads a row: a warp up to 1,024 columns, else a block. Exponentials are relative to the largest element, so that none
// overflows; both are found in one pass. A cross entropy reads its logits once, its gradient reads them and writes once. A softmax reads
// a row again, mostly from the cache. Inputs may be bf16, and so their gradients; outputs are float.

// The largest element of a row, and Σ exp of all relative to it.
struct Exponentials {
    float most, sum;
};

// One pass over the row: a thread looks at four elements at once, and rescales its sum where they are larger than those before.
template <class X> __device__ inline Exponentials exponentials_of_row(const X *__restrict__ x, unsigned width) {
    constexpr unsigned AT_ONCE = 4;
    float most = -infinity(), sum = 0.0f;
    for (unsigned start = threadIdx.x; start < width; start += AT_ONCE * blockDim.x) {
        float elements[AT_ONCE], largest = most;
#pragma unroll
        for (unsigned e = 0; e < AT_ONCE; e++) {
            const unsigned i = start + e * blockDim.x;
            elements[e] = i < width ? widen(x[i]) : -infinity();
            largest = Larger()(largest, elements[e]);
        }
        // Elements of −∞ alone have no largest to be relative to: they add nothing yet.
        if (largest > -infinity() || largest != largest) {
            sum *= expf(most - largest);
#pragma unroll
            for (unsigned e = 0; e < AT_ONCE; e++) {
                sum += expf(elements[e] - largest);
            }
            most = largest;
        }
    }
    const float largest = of_row(most, Larger());
    // A thread that saw nothing larger than −∞ adds nothing, unless all of the row is −∞: then the sum is NaN, as −∞ − −∞ is.
    const float factor = expf(most - largest);
    return {largest, of_row(most == -infinity() ? factor : sum * factor, Add())};
}

// How many keys the query of a row sees: with `queries` rows a matrix, all up to its own of the last `queries`; 0 queries: not causal.
__device__ inline unsigned seen(unsigned long long row, unsigned width, unsigned queries) {
    if (queries == 0) {
        return width;
    }
    const unsigned long long keys = row % queries + 1 + width;
    return keys <= queries ? 0 : static_cast<unsigned>(keys - queries < width ? keys - queries : width);
}

template <class X>
__device__ inline void softmax(const X *__restrict__ x, float *__restrict__ y, unsigned long long rows, unsigned width, unsigned queries) {
    const unsigned long long row = row_of_threads();
    if (row >= rows) {
        return;
    }
    x += row * width;
    y += row * width;
    const unsigned keys = seen(row, width, queries);
    const Exponentials exponentials = exponentials_of_row(x, keys);
    const float most = exponentials.most, size = 1.0f / exponentials.sum;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        y[i] = i < keys ? expf(widen(x[i]) - most) * size : 0.0f;
    }
}

extern "C" __global__ void softmax_f32(const float *__restrict__ x, float *__restrict__ y, unsigned long long rows, unsigned width,
                                       unsigned queries) {
    softmax(x, y, rows, width, queries);
}
extern "C" __global__ void softmax_bf16(const bf16 *__restrict__ x, float *__restrict__ y, unsigned long long rows, unsigned width,
                                        unsigned queries) {
    softmax(x, y, rows, width, queries);
}

// y · (g − Σ g · y): where y is 0 because it is masked, the gradient is.
template <class X>
__device__ inline void softmax_gradient(const float *__restrict__ y, const float *__restrict__ g, X *__restrict__ gradients,
                                        unsigned long long rows, unsigned width) {
    const unsigned long long row = row_of_threads();
    if (row >= rows) {
        return;
    }
    y += row * width;
    g += row * width;
    gradients += row * width;
    float sum = 0.0f;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        sum += y[i] * g[i];
    }
    const float mean = of_row(sum, Add());
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        narrow(y[i] * (g[i] - mean), &gradients[i]);
    }
}

extern "C" __global__ void softmax_gradient_f32(const float *__restrict__ y, const float *__restrict__ g, float *__restrict__ gradients,
                                                unsigned long long rows, unsigned width) {
    softmax_gradient(y, g, gradients, rows, width);
}
extern "C" __global__ void softmax_gradient_bf16(const float *__restrict__ y, const float *__restrict__ g, bf16 *__restrict__ gradients,
                                                 unsigned long long rows, unsigned width) {
    softmax_gradient(y, g, gradients, rows, width);
}

// What a loss is made of: targets, of which `ignored` counts as none; a weight for each class, or null; the smoothing, ε, and ε / classes.
struct Terms {
    const unsigned *targets;
    const float *weights;
    unsigned long long ignored; // 2³² where none is
    float own, even;
};

__device__ inline float weight_of(const Terms &terms, unsigned target) { return terms.weights == nullptr ? 1.0f : terms.weights[target]; }

// The loss of each row that counts, in double, 0 of others and NaN where the target is none of the classes; log Σ exp of each; and its
// target's weight, 0 where it doesn't count and NaN where the target is none of the classes.
template <class X>
__device__ inline void row_losses(const X *__restrict__ x, const Terms &terms, double *__restrict__ losses, float *__restrict__ log_sums,
                                  double *__restrict__ weights, unsigned long long rows, unsigned classes) {
    const unsigned long long row = row_of_threads();
    if (row >= rows) {
        return;
    }
    x += row * classes;
    const unsigned target = terms.targets[row];
    if (target == terms.ignored || target >= classes) {
        if (threadIdx.x == 0) {
            losses[row] = weights[row] = target == terms.ignored ? 0.0 : not_a_number();
            log_sums[row] = 0.0f;
        }
        return;
    }
    const Exponentials exponentials = exponentials_of_row(x, classes);
    const float log_sum = exponentials.most + logf(exponentials.sum);
    float spread = 0.0f;
    if (terms.even > 0.0f) {
#pragma unroll 4
        for (unsigned i = threadIdx.x; i < classes; i += blockDim.x) {
            spread += weight_of(terms, i) * (log_sum - widen(x[i]));
        }
        spread = of_row(spread, Add());
    }
    if (threadIdx.x == 0) {
        const double weight = weight_of(terms, target);
        losses[row] = terms.own * weight * static_cast<double>(log_sum - widen(x[target])) + static_cast<double>(terms.even) * spread;
        log_sums[row] = log_sum;
        weights[row] = weight;
    }
}

extern "C" __global__ void row_losses_f32(const float *__restrict__ x, const unsigned *__restrict__ targets,
                                          const float *__restrict__ class_weights, unsigned long long ignored, float own, float even,
                                          double *__restrict__ losses, float *__restrict__ log_sums, double *__restrict__ weights,
                                          unsigned long long rows, unsigned classes) {
    row_losses(x, {targets, class_weights, ignored, own, even}, losses, log_sums, weights, rows, classes);
}
extern "C" __global__ void row_losses_bf16(const bf16 *__restrict__ x, const unsigned *__restrict__ targets,
                                           const float *__restrict__ class_weights, unsigned long long ignored, float own, float even,
                                           double *__restrict__ losses, float *__restrict__ log_sums, double *__restrict__ weights,
                                           unsigned long long rows, unsigned classes) {
    row_losses(x, {targets, class_weights, ignored, own, even}, losses, log_sums, weights, rows, classes);
}

// One block: the sum of the rows' losses over the divisor, and 1 / divisor for the gradient. A `divisor` of 0 stands for the sum of the
// weights; where these are all 0, the loss and its gradient are 0, whatever the logits are.
extern "C" __global__ void mean_loss(const double *__restrict__ losses, const double *__restrict__ weights, unsigned long long rows,
                                     double divisor, float *__restrict__ loss, float *__restrict__ inverse) {
    double sum = 0.0, of_weights = 0.0;
    for (unsigned long long row = threadIdx.x; row < rows; row += blockDim.x) {
        sum += losses[row];
        of_weights += weights[row];
    }
    sum = of_row(sum, Add());
    of_weights = of_row(of_weights, Add());
    if (threadIdx.x == 0) {
        const double by = divisor != 0.0 ? divisor : of_weights;
        *loss = by != 0.0 ? static_cast<float>(sum / by) : 0.0f;
        *inverse = by != 0.0 ? static_cast<float>(1.0 / by) : 0.0f;
    }
}

// (own · w + even · Σ weights) · exp(x − log sum) − even · weight of i − [i is the target] · own · w, times the loss's gradient and
// 1 / divisor; `all` is Σ weights. A row that doesn't count gets zeros.
template <class X>
__device__ inline void loss_gradient(const X *__restrict__ x, const Terms &terms, const float *__restrict__ log_sums,
                                     const float *__restrict__ g, const float *__restrict__ inverse, float all, X *__restrict__ gradients,
                                     unsigned long long rows, unsigned classes) {
    const unsigned long long row = row_of_threads();
    if (row >= rows) {
        return;
    }
    x += row * classes;
    gradients += row * classes;
    const unsigned target = terms.targets[row];
    const bool counts = target != terms.ignored && target < classes && *inverse != 0.0f;
    const float own = counts ? terms.own * weight_of(terms, target) : 0.0f;
    const float factor = own + terms.even * all, scale = *g * *inverse, log_sum = log_sums[row];
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < classes; i += blockDim.x) {
        float gradient = 0.0f;
        if (counts) {
            gradient = factor * expf(widen(x[i]) - log_sum);
            if (terms.even > 0.0f) {
                gradient -= terms.even * weight_of(terms, i);
            }
            if (i == target) {
                gradient -= own;
            }
        }
        narrow(gradient * scale, &gradients[i]);
    }
}

extern "C" __global__ void loss_gradient_f32(const float *__restrict__ x, const unsigned *__restrict__ targets,
                                             const float *__restrict__ class_weights, unsigned long long ignored, float own, float even,
                                             const float *__restrict__ log_sums, const float *__restrict__ g,
                                             const float *__restrict__ inverse, float all, float *__restrict__ gradients,
                                             unsigned long long rows, unsigned classes) {
    loss_gradient(x, {targets, class_weights, ignored, own, even}, log_sums, g, inverse, all, gradients, rows, classes);
}
extern "C" __global__ void loss_gradient_bf16(const bf16 *__restrict__ x, const unsigned *__restrict__ targets,
                                              const float *__restrict__ class_weights, unsigned long long ignored, float own, float even,
                                              const float *__restrict__ log_sums, const float *__restrict__ g,
                                              const float *__restrict__ inverse, float all, bf16 *__restrict__ gradients,
                                              unsigned long long rows, unsigned classes) {
    loss_gradient(x, {targets, class_weights, ignored, own, even}, log_sums, g, inverse, all, gradients, rows, classes);
}
