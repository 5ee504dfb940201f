// Batch norm of (batch, channels, inner), with ReLU after it on request, and its gradients.
//
// Blocks of 256 threads, (channels, segments) of them: each has a segment of the samples of one channel. Its threads are (lanes, rows), with
// as many lanes as `inner` fills of a warp, so that lanes read side by side and nothing is divided. Statistics read x once: each thread sums
// distances from its first element and their squares, which neither overflows nor cancels, and these are joined pair by pair (Chan, Golub and
// LeVeque, 1979); a second launch joins the segments in order. Normalising reads and writes once; the backward pass reads x and the output's
// gradient twice: for the two sums of each channel, and for the input's gradient. x, y and their gradients may be bf16, all else is float.

struct Moments {
    float count, mean, squares; // squares: of distances from the mean
};

__device__ inline Moments joined(const Moments &a, const Moments &b) {
    const float count = a.count + b.count;
    if (b.count == 0.0f || count == 0.0f) {
        return a;
    }
    const float distance = b.mean - a.mean, share = b.count / count;
    return {count, a.mean + distance * share, a.squares + b.squares + distance * distance * (a.count * share)};
}

__device__ inline unsigned thread_of_block() { return threadIdx.y * blockDim.x + threadIdx.x; }

// A segment of one channel.
struct Segment {
    unsigned channel;
    unsigned first, end; // samples
    unsigned long long channels, inner;

    __device__ Segment(unsigned batch, unsigned channels, unsigned inner, unsigned samples_each)
        : channel(blockIdx.x), first(blockIdx.y * samples_each), end(first + samples_each < batch ? first + samples_each : batch),
          channels(channels), inner(inner) {}

    // Calls `visit` with the index of each of this thread's elements.
    template <class Visit> __device__ void each(Visit visit) const {
        for (unsigned sample = first + threadIdx.y; sample < end; sample += blockDim.y) {
            const unsigned long long start = (sample * channels + channel) * inner;
#pragma unroll 4
            for (unsigned i = threadIdx.x; i < inner; i += blockDim.x) {
                visit(start + i);
            }
        }
    }
};

// Moments of each segment, (segments, 3, channels).
template <class X>
__device__ inline void channel_moments(const X *__restrict__ x, float *__restrict__ parts, unsigned batch, unsigned channels,
                                       unsigned inner, unsigned samples_each) {
    const Segment segment(batch, channels, inner, samples_each);
    float count = 0.0f, sum = 0.0f, squares = 0.0f, pivot = 0.0f;
    if (segment.first + threadIdx.y < segment.end && threadIdx.x < inner) {
        pivot = widen(x[((segment.first + threadIdx.y) * segment.channels + segment.channel) * segment.inner + threadIdx.x]);
    }
    segment.each([&](unsigned long long i) {
        const float distance = widen(x[i]) - pivot;
        count += 1.0f;
        sum += distance;
        squares += distance * distance;
    });
    Moments moments = {count, 0.0f, 0.0f};
    if (count > 0.0f) {
        const float mean = sum / count, rest = squares - sum * mean;
        // Rounding can't make it negative, and NaN stays.
        moments = {count, pivot + mean, rest < 0.0f ? 0.0f : rest};
    }
    for (unsigned distance = WARP / 2; distance > 0; distance /= 2) {
        const Moments other = {__shfl_down_sync(ALL_LANES, moments.count, distance), __shfl_down_sync(ALL_LANES, moments.mean, distance),
                               __shfl_down_sync(ALL_LANES, moments.squares, distance)};
        moments = joined(moments, other);
    }
    __shared__ float of_warps[3][WARP];
    const unsigned thread = thread_of_block();
    if (thread % WARP == 0) {
        of_warps[0][thread / WARP] = moments.count;
        of_warps[1][thread / WARP] = moments.mean;
        of_warps[2][thread / WARP] = moments.squares;
    }
    __syncthreads();
    if (thread == 0) {
        for (unsigned warp = 1; warp < blockDim.x * blockDim.y / WARP; warp++) {
            moments = joined(moments, {of_warps[0][warp], of_warps[1][warp], of_warps[2][warp]});
        }
        float *part = parts + static_cast<unsigned long long>(blockIdx.y) * 3 * channels + segment.channel;
        part[0] = moments.count;
        part[channels] = moments.mean;
        part[2 * channels] = moments.squares;
    }
}

extern "C" __global__ void channel_moments_f32(const float *__restrict__ x, float *__restrict__ parts, unsigned batch, unsigned channels,
                                               unsigned inner, unsigned samples_each) {
    channel_moments(x, parts, batch, channels, inner, samples_each);
}
extern "C" __global__ void channel_moments_bf16(const bf16 *__restrict__ x, float *__restrict__ parts, unsigned batch, unsigned channels,
                                                unsigned inner, unsigned samples_each) {
    channel_moments(x, parts, batch, channels, inner, samples_each);
}

// One thread a channel: mean and biased variance of the segments together, in their order, in double.
extern "C" __global__ void join_moments(const float *__restrict__ parts, float *__restrict__ means, float *__restrict__ variances,
                                        unsigned segments, unsigned channels) {
    const unsigned channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels) {
        return;
    }
    double count = 0.0, mean = 0.0, squares = 0.0;
    for (unsigned segment = 0; segment < segments; segment++) {
        const float *part = parts + static_cast<unsigned long long>(segment) * 3 * channels + channel;
        const double own = part[0], all = count + own, distance = part[channels] - mean;
        mean += distance * (own / all);
        squares += part[2 * channels] + distance * distance * (count * own / all);
        count = all;
    }
    means[channel] = static_cast<float>(mean);
    variances[channel] = static_cast<float>(squares / count);
}

// The running statistics of a batch norm, and a batch to merge into them.
struct Running {
    float *mean, *variance, *batches;
    const float *found_mean, *found_variance;
    unsigned channels;
    float kept, of_mean, of_variance; // factors
};

// As candle's `affine`, which makes a zero positive.
__device__ inline float scaled(float x, float factor) { return x * factor + 0.0f; }

// Blocks: (channels, batch norms), a thread for each channel: all running statistics of a training step in one launch. Each is read and written
// once.
extern "C" __global__ void update_running(const Running *norms) {
    const Running norm = norms[blockIdx.y];
    const unsigned channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel < norm.channels) {
        norm.mean[channel] = scaled(norm.mean[channel], norm.kept) + scaled(norm.found_mean[channel], norm.of_mean);
        norm.variance[channel] = scaled(norm.variance[channel], norm.kept) + scaled(norm.found_variance[channel], norm.of_variance);
    }
    if (channel == 0) {
        *norm.batches = *norm.batches + 1.0f;
    }
}

// What an element of a channel becomes.
struct Channel {
    float mean, scale, weight, bias;

    __device__ Channel(const float *means, const float *variances, const float *weights, const float *biases, float epsilon, unsigned channel)
        : mean(means[channel]), scale(1.0f / sqrtf(variances[channel] + epsilon)), weight(weights[channel]), bias(biases[channel]) {}

    __device__ float normed(float x) const { return (x - mean) * scale; }
    __device__ float output(float normed) const { return normed * weight + bias; }
};

template <class X>
__device__ inline void normalise(const X *__restrict__ x, const Channel &channel, X *__restrict__ y, const Segment &segment,
                                 unsigned with_relu) {
    segment.each([&](unsigned long long i) {
        const float output = channel.output(channel.normed(widen(x[i])));
        narrow(with_relu && output < 0.0f ? 0.0f : output, &y[i]);
    });
}

extern "C" __global__ void normalise_f32(const float *__restrict__ x, const float *__restrict__ means, const float *__restrict__ variances,
                                         const float *__restrict__ weights, const float *__restrict__ biases, float *__restrict__ y,
                                         unsigned batch, unsigned channels, unsigned inner, unsigned samples_each, float epsilon,
                                         unsigned with_relu) {
    normalise(x, Channel(means, variances, weights, biases, epsilon, blockIdx.x), y, Segment(batch, channels, inner, samples_each), with_relu);
}
extern "C" __global__ void normalise_bf16(const bf16 *__restrict__ x, const float *__restrict__ means, const float *__restrict__ variances,
                                          const float *__restrict__ weights, const float *__restrict__ biases, bf16 *__restrict__ y,
                                          unsigned batch, unsigned channels, unsigned inner, unsigned samples_each, float epsilon,
                                          unsigned with_relu) {
    normalise(x, Channel(means, variances, weights, biases, epsilon, blockIdx.x), y, Segment(batch, channels, inner, samples_each), with_relu);
}

// The output's gradient before ReLU: 0 where ReLU's output is.
__device__ inline float before_relu(const Channel &channel, float normed, float gradient, unsigned with_relu) {
    return with_relu && !(channel.output(normed) > 0.0f) ? 0.0f : gradient;
}

// Σ g · n and Σ g of each segment, with n the normalised elements: (segments, 2, channels).
template <class X>
__device__ inline void channel_sums(const X *__restrict__ x, const Channel &channel, const X *__restrict__ g, float *__restrict__ parts,
                                    const Segment &segment, unsigned with_relu) {
    float products = 0.0f, sum = 0.0f;
    segment.each([&](unsigned long long i) {
        const float normed = channel.normed(widen(x[i])), gradient = before_relu(channel, normed, widen(g[i]), with_relu);
        products += gradient * normed;
        sum += gradient;
    });
    products = of_warp(products, Add());
    sum = of_warp(sum, Add());
    __shared__ float of_warps[2][WARP];
    const unsigned thread = thread_of_block();
    if (thread % WARP == 0) {
        of_warps[0][thread / WARP] = products;
        of_warps[1][thread / WARP] = sum;
    }
    __syncthreads();
    if (thread < 2) {
        float all = 0.0f;
        for (unsigned warp = 0; warp < blockDim.x * blockDim.y / WARP; warp++) {
            all += of_warps[thread][warp];
        }
        parts[(static_cast<unsigned long long>(blockIdx.y) * 2 + thread) * segment.channels + segment.channel] = all;
    }
}

extern "C" __global__ void channel_sums_f32(const float *__restrict__ x, const float *__restrict__ means,
                                            const float *__restrict__ variances, const float *__restrict__ weights,
                                            const float *__restrict__ biases, const float *__restrict__ g, float *__restrict__ parts,
                                            unsigned batch, unsigned channels, unsigned inner, unsigned samples_each, float epsilon,
                                            unsigned with_relu) {
    channel_sums(x, Channel(means, variances, weights, biases, epsilon, blockIdx.x), g, parts, Segment(batch, channels, inner, samples_each),
                 with_relu);
}
extern "C" __global__ void channel_sums_bf16(const bf16 *__restrict__ x, const float *__restrict__ means,
                                             const float *__restrict__ variances, const float *__restrict__ weights,
                                             const float *__restrict__ biases, const bf16 *__restrict__ g, float *__restrict__ parts,
                                             unsigned batch, unsigned channels, unsigned inner, unsigned samples_each, float epsilon,
                                             unsigned with_relu) {
    channel_sums(x, Channel(means, variances, weights, biases, epsilon, blockIdx.x), g, parts, Segment(batch, channels, inner, samples_each),
                 with_relu);
}

// One thread a sum: the segments' parts, in their order.
extern "C" __global__ void join_channels(const float *__restrict__ parts, float *__restrict__ sums, unsigned segments, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    float sum = 0.0f;
    for (unsigned segment = 0; segment < segments; segment++) {
        sum += parts[static_cast<unsigned long long>(segment) * count + i];
    }
    sums[i] = sum;
}

// weight · scale · (g − mean of g − n · mean of g · n); `sums` is Σ g · n and Σ g, (2, channels), of `all` elements a channel, and null where
// the statistics are constants: then nothing is taken away.
template <class X>
__device__ inline void normalise_gradient(const X *__restrict__ x, const Channel &channel, const X *__restrict__ g,
                                          const float *__restrict__ sums, X *__restrict__ gradients, float all, const Segment &segment,
                                          unsigned with_relu) {
    const float factor = channel.weight * channel.scale;
    float of_products = 0.0f, of_gradients = 0.0f;
    if (sums != nullptr) {
        of_products = sums[segment.channel] / all;
        of_gradients = sums[segment.channels + segment.channel] / all;
    }
    segment.each([&](unsigned long long i) {
        const float normed = channel.normed(widen(x[i])), gradient = before_relu(channel, normed, widen(g[i]), with_relu);
        narrow(sums == nullptr ? factor * gradient : factor * (gradient - of_gradients - normed * of_products), &gradients[i]);
    });
}

extern "C" __global__ void normalise_gradient_f32(const float *__restrict__ x, const float *__restrict__ means,
                                                  const float *__restrict__ variances, const float *__restrict__ weights,
                                                  const float *__restrict__ biases, const float *__restrict__ g,
                                                  const float *__restrict__ sums, float *__restrict__ gradients, float all, unsigned batch,
                                                  unsigned channels, unsigned inner, unsigned samples_each, float epsilon,
                                                  unsigned with_relu) {
    normalise_gradient(x, Channel(means, variances, weights, biases, epsilon, blockIdx.x), g, sums, gradients, all,
                       Segment(batch, channels, inner, samples_each), with_relu);
}
extern "C" __global__ void normalise_gradient_bf16(const bf16 *__restrict__ x, const float *__restrict__ means,
                                                   const float *__restrict__ variances, const float *__restrict__ weights,
                                                   const float *__restrict__ biases, const bf16 *__restrict__ g,
                                                   const float *__restrict__ sums, bf16 *__restrict__ gradients, float all, unsigned batch,
                                                   unsigned channels, unsigned inner, unsigned samples_each, float epsilon,
                                                   unsigned with_relu) {
    normalise_gradient(x, Channel(means, variances, weights, biases, epsilon, blockIdx.x), g, sums, gradients, all,
                       Segment(batch, channels, inner, samples_each), with_relu);
}
