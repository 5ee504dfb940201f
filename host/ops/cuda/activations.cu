// Activation functions with a bias before them, and their gradients: a thread a run of 16 bytes, whose elements are in one row. A width that
// is no multiple of a run has runs of one element.
//
// What cuBLAS leaves of a linear layer, x · Wᵀ, gets bias and function in one pass, in place of two: each element is read and written once.
// The backward pass computes the derivative again from the same product, so that nothing more is kept. Elements may be bf16; biases are float.

enum Function { NONE, RELU, GELU, SILU, GELU_TANH, QUICK_GELU, TANH, SIGMOID };

// (1 + tanh(u)) / 2 is the sigmoid of 2 · u = LINEAR · x + CUBIC · x³.
#define LINEAR 1.595769121605730711f
#define CUBIC (LINEAR * 0.044715f)

__device__ inline float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }

// The derivative of x · sigmoid(v), where that of v is `of_v`.
__device__ inline float gated_derivative(float x, float v, float of_v) {
    const float sigmoid = sigmoid_of(v);
    return sigmoid * (1.0f + x * of_v * (1.0f - sigmoid));
}

// As `Function` of host/ops/src/elementwise.rs: ReLU keeps NaN, and its derivative at 0 is 0; GELU is x · Φ(x).
__device__ inline float value_of(unsigned function, float x) {
    switch (function) {
    case RELU:
        return x < 0.0f ? 0.0f : x;
    case GELU:
        return x * normcdff(x);
    case SILU:
        return x / (1.0f + expf(-x));
    case GELU_TANH:
        return x * sigmoid_of(x * (LINEAR + CUBIC * x * x));
    case QUICK_GELU:
        return x * sigmoid_of(1.702f * x);
    case TANH:
        return tanhf(x);
    case SIGMOID:
        return sigmoid_of(x);
    default:
        return x;
    }
}

__device__ inline float derivative_of(unsigned function, float x) {
    switch (function) {
    case RELU:
        return x > 0.0f ? 1.0f : 0.0f;
    case GELU:
        return normcdff(x) + x * (0.398942280401432678f * expf(-0.5f * x * x));
    case SILU:
        return gated_derivative(x, x, 1.0f);
    case GELU_TANH:
        return gated_derivative(x, x * (LINEAR + CUBIC * x * x), LINEAR + 3.0f * CUBIC * x * x);
    case QUICK_GELU:
        return gated_derivative(x, 1.702f * x, 1.702f);
    case TANH: {
        const float y = tanhf(x);
        return 1.0f - y * y;
    }
    case SIGMOID: {
        const float y = sigmoid_of(x);
        return y - y * y;
    }
    default:
        return 1.0f;
    }
}

// A run of elements that are side by side, read and written at once.
template <class T, unsigned COUNT> struct alignas(sizeof(T) * COUNT) Run {
    T elements[COUNT];
};

// What an autocast product would have made of x + bias: rounded to the type before the function.
template <class T> __device__ inline float biased(T x, const float *bias, unsigned column) {
    if (bias == nullptr) {
        return widen(x);
    }
    T rounded;
    narrow(bias[column], &rounded);
    narrow(widen(x) + widen(rounded), &rounded);
    return widen(rounded);
}

// `count` runs of COUNT elements; `width` is a multiple of COUNT. Where there are fewer than 2³² runs, as on any device, dividing is cheap.
template <unsigned COUNT, class T>
__device__ inline void activate(const T *x, const float *bias, T *y, unsigned count, unsigned width, unsigned function) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    const unsigned column = bias == nullptr ? 0 : i % (width / COUNT) * COUNT;
    Run<T, COUNT> run = reinterpret_cast<const Run<T, COUNT> *>(x)[i];
#pragma unroll
    for (unsigned e = 0; e < COUNT; e++) {
        narrow(value_of(function, biased(run.elements[e], bias, column + e)), &run.elements[e]);
    }
    reinterpret_cast<Run<T, COUNT> *>(y)[i] = run;
}

template <unsigned COUNT, class T>
__device__ inline void activation_gradient(const T *x, const float *bias, const T *g, T *gradients, unsigned count, unsigned width,
                                           unsigned function) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    const unsigned column = bias == nullptr ? 0 : i % (width / COUNT) * COUNT;
    const Run<T, COUNT> run = reinterpret_cast<const Run<T, COUNT> *>(x)[i];
    Run<T, COUNT> of_output = reinterpret_cast<const Run<T, COUNT> *>(g)[i];
#pragma unroll
    for (unsigned e = 0; e < COUNT; e++) {
        // ReLU chooses, so that an infinite gradient where it is 0 doesn't become NaN.
        const float before = biased(run.elements[e], bias, column + e), gradient = widen(of_output.elements[e]);
        const float result = function == RELU ? (before > 0.0f ? gradient : 0.0f) : gradient * derivative_of(function, before);
        narrow(result, &of_output.elements[e]);
    }
    reinterpret_cast<Run<T, COUNT> *>(gradients)[i] = of_output;
}

#define KERNELS(TYPE, NAME, COUNT)                                                                                                             \
    extern "C" __global__ void activate_##NAME##_##COUNT(const TYPE *x, const float *bias, TYPE *y, unsigned count, unsigned width,            \
                                                         unsigned function) {                                                                  \
        activate<COUNT>(x, bias, y, count, width, function);                                                                                   \
    }                                                                                                                                          \
    extern "C" __global__ void activation_gradient_##NAME##_##COUNT(const TYPE *x, const float *bias, const TYPE *g, TYPE *gradients,          \
                                                                    unsigned count, unsigned width, unsigned function) {                       \
        activation_gradient<COUNT>(x, bias, g, gradients, count, width, function);                                                             \
    }

KERNELS(float, f32, 4)
KERNELS(float, f32, 1)
KERNELS(bf16, bf16, 8)
KERNELS(bf16, bf16, 1)

// Sums over rows of each column, for the bias: blocks of (32, 8) threads, (columns / 32, segments) of them, into parts (segments, width).
template <class T>
__device__ inline void column_sums(const T *g, float *parts, unsigned long long rows, unsigned width, unsigned rows_each) {
    const unsigned column = blockIdx.x * WARP + threadIdx.x;
    const unsigned long long first = static_cast<unsigned long long>(blockIdx.y) * rows_each;
    const unsigned long long end = first + rows_each < rows ? first + rows_each : rows;
    float sum = 0.0f;
    if (column < width) {
#pragma unroll 4
        for (unsigned long long row = first + threadIdx.y; row < end; row += blockDim.y) {
            sum += widen(g[row * width + column]);
        }
    }
    __shared__ float sums[8][WARP];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < width) {
        sum = 0.0f;
        for (unsigned y = 0; y < 8; y++) {
            sum += sums[y][threadIdx.x];
        }
        parts[static_cast<unsigned long long>(blockIdx.y) * width + column] = sum;
    }
}

extern "C" __global__ void column_sums_f32(const float *g, float *parts, unsigned long long rows, unsigned width, unsigned rows_each) {
    column_sums(g, parts, rows, width, rows_each);
}
extern "C" __global__ void column_sums_bf16(const bf16 *g, float *parts, unsigned long long rows, unsigned width, unsigned rows_each) {
    column_sums(g, parts, rows, width, rows_each);
}

extern "C" __global__ void join_columns(const float *parts, float *sums, unsigned segments, unsigned width) {
    const unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) {
        return;
    }
    float sum = 0.0f;
    for (unsigned segment = 0; segment < segments; segment++) {
        sum += parts[static_cast<unsigned long long>(segment) * width + column];
    }
    sums[column] = sum;
}
