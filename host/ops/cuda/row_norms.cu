// Layer and RMS norm over the rows of a matrix, and their gradients.
//
// Forward and the input's gradient: a row of threads a row (a warp up to 1,024 columns, else a block), which reads it once from memory and
// again from the cache for the variance and for the output. The gradients of weight and bias are sums over rows: blocks of 32 columns and a
// segment of rows, then a second launch that adds the segments in order. x may be bf16; outputs, weights and their gradients are float.

// `kept`: mean and 1 / √(variance + ε) of each row. Without `centred` the mean is 0; `bias` may be null.
template <class X>
__device__ inline void row_norm(const X *__restrict__ x, const float *__restrict__ weight, const float *__restrict__ bias,
                                float *__restrict__ y, float *__restrict__ kept, unsigned long long rows, unsigned width, float epsilon,
                                unsigned centred) {
    const unsigned long long row = row_of_threads();
    if (row >= rows) {
        return;
    }
    x += row * width;
    y += row * width;
    float mean = 0.0f;
    if (centred) {
        float sum = 0.0f;
#pragma unroll 4
        for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
            sum += widen(x[i]);
        }
        mean = of_row(sum, Add()) / width;
    }
    float squares = 0.0f;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        const float distance = widen(x[i]) - mean;
        squares += distance * distance;
    }
    const float scale = 1.0f / sqrtf(of_row(squares, Add()) / width + epsilon);
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        const float normed = (widen(x[i]) - mean) * scale * weight[i];
        y[i] = bias == nullptr ? normed : normed + bias[i];
    }
    if (threadIdx.x == 0) {
        kept[2 * row] = mean;
        kept[2 * row + 1] = scale;
    }
}

extern "C" __global__ void row_norm_f32(const float *__restrict__ x, const float *__restrict__ weight, const float *__restrict__ bias,
                                        float *__restrict__ y, float *__restrict__ kept, unsigned long long rows, unsigned width,
                                        float epsilon, unsigned centred) {
    row_norm(x, weight, bias, y, kept, rows, width, epsilon, centred);
}
extern "C" __global__ void row_norm_bf16(const bf16 *__restrict__ x, const float *__restrict__ weight, const float *__restrict__ bias,
                                         float *__restrict__ y, float *__restrict__ kept, unsigned long long rows, unsigned width,
                                         float epsilon, unsigned centred) {
    row_norm(x, weight, bias, y, kept, rows, width, epsilon, centred);
}

// With s the row's scale, n = (x − mean) · s and h = g · weight: s · (h − mean of h − n · mean of h · n); without centring the mean of h
// is left out.
template <class X>
__device__ inline void row_norm_gradient(const X *__restrict__ x, const float *__restrict__ kept, const float *__restrict__ weight,
                                         const float *__restrict__ g, X *__restrict__ gradients, unsigned long long rows, unsigned width,
                                         unsigned centred) {
    const unsigned long long row = row_of_threads();
    if (row >= rows) {
        return;
    }
    x += row * width;
    g += row * width;
    gradients += row * width;
    const float mean = kept[2 * row], scale = kept[2 * row + 1];
    float sum = 0.0f, product = 0.0f;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        const float h = g[i] * weight[i];
        sum += h;
        product += h * ((widen(x[i]) - mean) * scale);
    }
    const float of_mean = centred ? of_row(sum, Add()) / width : 0.0f;
    const float of_scale = of_row(product, Add()) / width;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        const float normed = (widen(x[i]) - mean) * scale;
        narrow(scale * (g[i] * weight[i] - of_mean - normed * of_scale), &gradients[i]);
    }
}

extern "C" __global__ void row_norm_gradient_f32(const float *__restrict__ x, const float *__restrict__ kept,
                                                 const float *__restrict__ weight, const float *__restrict__ g,
                                                 float *__restrict__ gradients, unsigned long long rows, unsigned width, unsigned centred) {
    row_norm_gradient(x, kept, weight, g, gradients, rows, width, centred);
}
extern "C" __global__ void row_norm_gradient_bf16(const bf16 *__restrict__ x, const float *__restrict__ kept,
                                                  const float *__restrict__ weight, const float *__restrict__ g,
                                                  bf16 *__restrict__ gradients, unsigned long long rows, unsigned width, unsigned centred) {
    row_norm_gradient(x, kept, weight, g, gradients, rows, width, centred);
}

// Blocks of (32, 8) threads, (columns / 32, segments) of them: for each column of a segment of `rows_each` rows Σ g · n and Σ g, into
// parts (segments, 2, width).
template <class X>
__device__ inline void weight_sums(const X *__restrict__ x, const float *__restrict__ kept, const float *__restrict__ g,
                                   float *__restrict__ parts, unsigned long long rows, unsigned width, unsigned rows_each) {
    const unsigned column = blockIdx.x * WARP + threadIdx.x;
    const unsigned long long first = static_cast<unsigned long long>(blockIdx.y) * rows_each;
    const unsigned long long end = first + rows_each < rows ? first + rows_each : rows;
    float of_weight = 0.0f, of_bias = 0.0f;
    if (column < width) {
#pragma unroll 4
        for (unsigned long long row = first + threadIdx.y; row < end; row += blockDim.y) {
            const float gradient = g[row * width + column];
            of_weight += gradient * ((widen(x[row * width + column]) - kept[2 * row]) * kept[2 * row + 1]);
            of_bias += gradient;
        }
    }
    __shared__ float sums[2][8][WARP];
    sums[0][threadIdx.y][threadIdx.x] = of_weight;
    sums[1][threadIdx.y][threadIdx.x] = of_bias;
    __syncthreads();
    if (threadIdx.y < 2 && column < width) {
        float sum = 0.0f;
        for (unsigned y = 0; y < 8; y++) {
            sum += sums[threadIdx.y][y][threadIdx.x];
        }
        parts[(static_cast<unsigned long long>(blockIdx.y) * 2 + threadIdx.y) * width + column] = sum;
    }
}

extern "C" __global__ void weight_sums_f32(const float *__restrict__ x, const float *__restrict__ kept, const float *__restrict__ g,
                                           float *__restrict__ parts, unsigned long long rows, unsigned width, unsigned rows_each) {
    weight_sums(x, kept, g, parts, rows, width, rows_each);
}
extern "C" __global__ void weight_sums_bf16(const bf16 *__restrict__ x, const float *__restrict__ kept, const float *__restrict__ g,
                                            float *__restrict__ parts, unsigned long long rows, unsigned width, unsigned rows_each) {
    weight_sums(x, kept, g, parts, rows, width, rows_each);
}

// One thread an element: the sum of the segments' parts, in their order.
extern "C" __global__ void join_segments(const float *__restrict__ parts, float *__restrict__ sums, unsigned segments,
                                         unsigned long long count) {
    const unsigned long long i = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    float sum = 0.0f;
    for (unsigned segment = 0; segment < segments; segment++) {
        sum += parts[segment * count + i];
    }
    sums[i] = sum;
}
