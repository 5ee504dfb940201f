// Multi-head attention in float, softmax(Q · Kᵀ · scale) · V of each head, and its gradient, by tiles: nothing of length × length is kept
// (Dao et al., "FlashAttention", 2022, and Dao, "FlashAttention-2", 2023).
//
// Blocks of (16, 16) threads; each owns 64 rows of one head (queries, or keys with their values), which stay in shared memory, and goes
// through the other side in tiles of 32 rows, in order. A thread computes 4 × 2 scores of a tile and 4 × D / 16 elements of a product.
// The forward pass keeps log Σ exp of each row; the backward pass computes the scores again from it, once for the queries' gradient and
// once for the keys' and values', so that every sum is one block's and in one order. Tensors are read as often as the other side has
// tiles of 64 rows; that comes from the cache, and products are what takes time: 4 · length² · width multiplications forward, 14 backward,
// half of them if causal.
//
// Q, K and V come side by side, (batch, length, 3 · width), and so do their gradients; a head's width is at most D.

constexpr unsigned OWN = 64;
constexpr unsigned OTHER = 32;
constexpr unsigned SIDE = 16;
constexpr unsigned PER_THREAD = OWN / SIDE;
// Distance of rows in shared memory: 4 more than their width, so that reading 16 of them side by side has no conflicts.
constexpr unsigned SCORES_STEP = OTHER + 4;

struct Shape {
    unsigned length, heads, each, causal;
};

// One head's rows in memory.
template <class T> struct Rows {
    T *first;
    unsigned long long step;

    __device__ T *at(unsigned row) const { return first + row * step; }
};

// What a block computes; with causal attention tiles that have the most to do come first, which is what `tile` counts.
struct Place {
    unsigned tile, tiles;
    unsigned long long sample;
    unsigned head;

    __device__ Place(const Shape &shape) {
        tiles = (shape.length + OWN - 1) / OWN;
        const unsigned all = gridDim.x / tiles, index = blockIdx.x % all;
        tile = blockIdx.x / all;
        sample = index / shape.heads;
        head = index % shape.heads;
    }

    // Queries (0), keys (1) or values (2) of the head.
    template <class T> __device__ Rows<T> part(T *packed, unsigned which, const Shape &shape) const {
        const unsigned long long width = static_cast<unsigned long long>(shape.heads) * shape.each;
        return {packed + sample * shape.length * 3 * width + which * width + head * shape.each, 3 * width};
    }
    template <class T> __device__ Rows<T> output(T *y, const Shape &shape) const {
        const unsigned long long width = static_cast<unsigned long long>(shape.heads) * shape.each;
        return {y + sample * shape.length * width + head * shape.each, width};
    }
    // Of numbers that are kept for each row of each head, (batch, heads, length).
    template <class T> __device__ T *kept(T *numbers, const Shape &shape) const {
        return numbers + (sample * shape.heads + head) * shape.length;
    }
};

__device__ inline bool is_seen(unsigned query, unsigned key, const Shape &shape) {
    return key < shape.length && query < shape.length && (!shape.causal || key <= query);
}

// Copies ROWS rows from `start` on into shared memory; zeros where there are none.
template <unsigned ROWS, unsigned D> __device__ inline void load(const Rows<const float> &from, unsigned start, const Shape &shape, float *to) {
    for (unsigned i = threadIdx.y * SIDE + threadIdx.x; i < ROWS * D; i += SIDE * SIDE) {
        const unsigned row = i / D, column = i % D;
        const bool is_there = start + row < shape.length && column < shape.each;
        to[row * (D + 4) + column] = is_there ? from.at(start + row)[column] : 0.0f;
    }
}

// Writes this thread's elements of the block's rows, times `factor`, where there are any.
template <unsigned D>
__device__ inline void store(const float (&elements)[PER_THREAD][D / SIDE], const float (&factors)[PER_THREAD], unsigned first,
                             const Shape &shape, const Rows<float> &to) {
    for (unsigned i = 0; i < PER_THREAD; i++) {
        const unsigned row = first + threadIdx.y * PER_THREAD + i;
#pragma unroll
        for (unsigned j = 0; j < D / SIDE; j++) {
            const unsigned column = threadIdx.x + j * SIDE;
            if (row < shape.length && column < shape.each) {
                to.at(row)[column] = elements[i][j] * factors[i];
            }
        }
    }
}

__device__ inline float4 four(const float *at) { return *reinterpret_cast<const float4 *>(at); }

// scores[i][j] += Σ of a[i of this thread's rows] · b[x + 16 · j], rows of width D.
template <unsigned D> __device__ inline void add_scores(const float *a, const float *b, float (&scores)[PER_THREAD][OTHER / SIDE]) {
#pragma unroll 2
    for (unsigned k = 0; k < D; k += 4) {
        float4 of_b[OTHER / SIDE];
#pragma unroll
        for (unsigned j = 0; j < OTHER / SIDE; j++) {
            of_b[j] = four(&b[(threadIdx.x + j * SIDE) * (D + 4) + k]);
        }
#pragma unroll
        for (unsigned i = 0; i < PER_THREAD; i++) {
            const float4 of_a = four(&a[(threadIdx.y * PER_THREAD + i) * (D + 4) + k]);
#pragma unroll
            for (unsigned j = 0; j < OTHER / SIDE; j++) {
                float sum = fmaf(of_a.x, of_b[j].x, scores[i][j]);
                sum = fmaf(of_a.y, of_b[j].y, sum);
                sum = fmaf(of_a.z, of_b[j].z, sum);
                scores[i][j] = fmaf(of_a.w, of_b[j].w, sum);
            }
        }
    }
}

// elements[i][j] += Σ over the tile's rows r of weights[i of this thread's rows][r] · b[r][x + 16 · j].
template <unsigned D> __device__ inline void add_product(const float *weights, const float *b, float (&elements)[PER_THREAD][D / SIDE]) {
#pragma unroll 2
    for (unsigned r = 0; r < OTHER; r += 4) {
        float4 of_row[PER_THREAD];
#pragma unroll
        for (unsigned i = 0; i < PER_THREAD; i++) {
            of_row[i] = four(&weights[(threadIdx.y * PER_THREAD + i) * SCORES_STEP + r]);
        }
#pragma unroll
        for (unsigned j = 0; j < D / SIDE; j++) {
            const float *column = &b[r * (D + 4) + threadIdx.x + j * SIDE];
            const float first = column[0], second = column[D + 4], third = column[2 * (D + 4)], fourth = column[3 * (D + 4)];
#pragma unroll
            for (unsigned i = 0; i < PER_THREAD; i++) {
                float sum = fmaf(of_row[i].x, first, elements[i][j]);
                sum = fmaf(of_row[i].y, second, sum);
                sum = fmaf(of_row[i].z, third, sum);
                elements[i][j] = fmaf(of_row[i].w, fourth, sum);
            }
        }
    }
}

// Folds a value of each of the 16 threads that share rows.
template <class Fold> __device__ inline float of_side(float value, Fold fold) {
    for (unsigned bits = SIDE / 2; bits > 0; bits /= 2) {
        value = fold(value, __shfl_xor_sync(ALL_LANES, value, bits));
    }
    return value;
}

// Shared memory of a block: a tile's scores, its rows, and the block's own rows, of which the forward pass has only the first.
template <unsigned D> struct Memory {
    float scores[OWN * SCORES_STEP];
    float other[2][OTHER * (D + 4)];
    float own[2][OWN * (D + 4)];
};

template <unsigned D> __device__ inline Memory<D> &memory() {
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    return *reinterpret_cast<Memory<D> *>(dynamic_shared);
}

// Rows are those of queries. The largest score so far and Σ exp relative to it follow the tiles; what was summed is rescaled.
template <unsigned D>
__device__ inline void attention(const float *qkv, float *y, float *log_sums, const Shape &shape, float scale) {
    Memory<D> &shared = memory<D>();
    const Place place(shape);
    const unsigned first = (place.tiles - 1 - place.tile) * OWN;
    const unsigned end = shape.causal && first + OWN < shape.length ? first + OWN : shape.length;
    load<OWN, D>(place.part(qkv, 0, shape), first, shape, shared.own[0]);
    float most[PER_THREAD], sums[PER_THREAD] = {}, mixed[PER_THREAD][D / SIDE] = {};
    for (unsigned i = 0; i < PER_THREAD; i++) {
        most[i] = -infinity();
    }
    for (unsigned start = 0; start < end; start += OTHER) {
        __syncthreads();
        load<OTHER, D>(place.part(qkv, 1, shape), start, shape, shared.other[0]);
        load<OTHER, D>(place.part(qkv, 2, shape), start, shape, shared.other[1]);
        __syncthreads();
        float scores[PER_THREAD][OTHER / SIDE] = {};
        add_scores<D>(shared.own[0], shared.other[0], scores);
#pragma unroll
        for (unsigned i = 0; i < PER_THREAD; i++) {
            const unsigned row = threadIdx.y * PER_THREAD + i;
            float largest = most[i];
#pragma unroll
            for (unsigned j = 0; j < OTHER / SIDE; j++) {
                // Rows beyond the length see every key, so that nothing of theirs is NaN.
                const unsigned key = start + threadIdx.x + j * SIDE;
                const bool seen = first + row >= shape.length || is_seen(first + row, key, shape);
                scores[i][j] = seen ? scores[i][j] * scale : -infinity();
                largest = Larger()(largest, scores[i][j]);
            }
            largest = of_side(largest, Larger());
            float sum = 0.0f;
#pragma unroll
            for (unsigned j = 0; j < OTHER / SIDE; j++) {
                const float power = expf(scores[i][j] - largest);
                shared.scores[row * SCORES_STEP + threadIdx.x + j * SIDE] = power;
                sum += power;
            }
            const float factor = expf(most[i] - largest);
            sums[i] = fmaf(sums[i], factor, of_side(sum, Add()));
            most[i] = largest;
#pragma unroll
            for (unsigned j = 0; j < D / SIDE; j++) {
                mixed[i][j] *= factor;
            }
        }
        // A row's scores are read by the half warp that wrote them.
        __syncwarp();
        add_product<D>(shared.scores, shared.other[1], mixed);
    }
    float factors[PER_THREAD];
    for (unsigned i = 0; i < PER_THREAD; i++) {
        const unsigned row = first + threadIdx.y * PER_THREAD + i;
        factors[i] = 1.0f / sums[i];
        if (threadIdx.x == 0 && row < shape.length) {
            place.kept(log_sums, shape)[row] = most[i] + logf(sums[i]);
        }
    }
    store<D>(mixed, factors, first, shape, place.output(y, shape));
}

// The gradient of the queries: with weights p and h = g · Vᵀ it is p · (h − Σ g · y) · K · scale. `products` is Σ g · y of each row.
template <unsigned D>
__device__ inline void query_gradient(const float *qkv, const float *g, const float *log_sums, const float *products, float *gradients,
                                      const Shape &shape, float scale) {
    Memory<D> &shared = memory<D>();
    const Place place(shape);
    const unsigned first = (place.tiles - 1 - place.tile) * OWN;
    const unsigned end = shape.causal && first + OWN < shape.length ? first + OWN : shape.length;
    load<OWN, D>(place.part(qkv, 0, shape), first, shape, shared.own[0]);
    load<OWN, D>(place.output(g, shape), first, shape, shared.own[1]);
    float log_sum[PER_THREAD], product[PER_THREAD], sums[PER_THREAD][D / SIDE] = {};
    for (unsigned i = 0; i < PER_THREAD; i++) {
        const unsigned row = first + threadIdx.y * PER_THREAD + i;
        log_sum[i] = row < shape.length ? place.kept(log_sums, shape)[row] : 0.0f;
        product[i] = row < shape.length ? place.kept(products, shape)[row] : 0.0f;
    }
    for (unsigned start = 0; start < end; start += OTHER) {
        __syncthreads();
        load<OTHER, D>(place.part(qkv, 1, shape), start, shape, shared.other[0]);
        load<OTHER, D>(place.part(qkv, 2, shape), start, shape, shared.other[1]);
        __syncthreads();
        float scores[PER_THREAD][OTHER / SIDE] = {}, of_weights[PER_THREAD][OTHER / SIDE] = {};
        add_scores<D>(shared.own[0], shared.other[0], scores);
        add_scores<D>(shared.own[1], shared.other[1], of_weights);
#pragma unroll
        for (unsigned i = 0; i < PER_THREAD; i++) {
            const unsigned row = threadIdx.y * PER_THREAD + i;
#pragma unroll
            for (unsigned j = 0; j < OTHER / SIDE; j++) {
                const unsigned key = start + threadIdx.x + j * SIDE;
                const float weight = expf(fmaf(scores[i][j], scale, -log_sum[i]));
                const float gradient = is_seen(first + row, key, shape) ? weight * (of_weights[i][j] - product[i]) : 0.0f;
                shared.scores[row * SCORES_STEP + threadIdx.x + j * SIDE] = gradient;
            }
        }
        __syncwarp();
        add_product<D>(shared.scores, shared.other[0], sums);
    }
    const float factors[PER_THREAD] = {scale, scale, scale, scale};
    store<D>(sums, factors, first, shape, place.part(gradients, 0, shape));
}

// The gradients of keys and values: rows are those of keys, tiles those of queries. That of V is pᵀ · g; that of K is the transpose of
// p · (h − Σ g · y), times Q · scale.
template <unsigned D>
__device__ inline void key_value_gradient(const float *qkv, const float *g, const float *log_sums, const float *products, float *gradients,
                                          const Shape &shape, float scale) {
    Memory<D> &shared = memory<D>();
    const Place place(shape);
    const unsigned first = place.tile * OWN;
    load<OWN, D>(place.part(qkv, 1, shape), first, shape, shared.own[0]);
    load<OWN, D>(place.part(qkv, 2, shape), first, shape, shared.own[1]);
    float of_keys[PER_THREAD][D / SIDE] = {}, of_values[PER_THREAD][D / SIDE] = {};
    for (unsigned start = shape.causal ? first : 0; start < shape.length; start += OTHER) {
        __syncthreads();
        load<OTHER, D>(place.part(qkv, 0, shape), start, shape, shared.other[0]);
        load<OTHER, D>(place.output(g, shape), start, shape, shared.other[1]);
        __syncthreads();
        float scores[PER_THREAD][OTHER / SIDE] = {}, of_weights[PER_THREAD][OTHER / SIDE] = {};
        add_scores<D>(shared.own[0], shared.other[0], scores);
        add_scores<D>(shared.own[1], shared.other[1], of_weights);
#pragma unroll
        for (unsigned j = 0; j < OTHER / SIDE; j++) {
            const unsigned query = start + threadIdx.x + j * SIDE;
            const float log_sum = query < shape.length ? place.kept(log_sums, shape)[query] : 0.0f;
            const float product = query < shape.length ? place.kept(products, shape)[query] : 0.0f;
#pragma unroll
            for (unsigned i = 0; i < PER_THREAD; i++) {
                const unsigned row = threadIdx.y * PER_THREAD + i;
                const float weight = is_seen(query, first + row, shape) ? expf(fmaf(scores[i][j], scale, -log_sum)) : 0.0f;
                shared.scores[row * SCORES_STEP + threadIdx.x + j * SIDE] = weight;
                of_weights[i][j] = weight * (of_weights[i][j] - product);
            }
        }
        __syncwarp();
        add_product<D>(shared.scores, shared.other[1], of_values);
        __syncwarp();
#pragma unroll
        for (unsigned i = 0; i < PER_THREAD; i++) {
#pragma unroll
            for (unsigned j = 0; j < OTHER / SIDE; j++) {
                shared.scores[(threadIdx.y * PER_THREAD + i) * SCORES_STEP + threadIdx.x + j * SIDE] = of_weights[i][j];
            }
        }
        __syncwarp();
        add_product<D>(shared.scores, shared.other[0], of_keys);
    }
    const float scales[PER_THREAD] = {scale, scale, scale, scale}, ones[PER_THREAD] = {1.0f, 1.0f, 1.0f, 1.0f};
    store<D>(of_keys, scales, first, shape, place.part(gradients, 1, shape));
    store<D>(of_values, ones, first, shape, place.part(gradients, 2, shape));
}

// Σ g · y of each row of each head, (batch, heads, length): a warp a row.
extern "C" __global__ void output_products(const float *y, const float *g, float *products, unsigned long long rows, unsigned length,
                                           unsigned heads, unsigned each) {
    const unsigned long long row = row_of_threads();
    if (row >= rows) {
        return;
    }
    const unsigned long long of_heads = row / length, sample = of_heads / heads, head = of_heads % heads;
    const unsigned long long start = ((sample * length + row % length) * heads + head) * each;
    float sum = 0.0f;
    for (unsigned i = threadIdx.x; i < each; i += WARP) {
        sum = fmaf(y[start + i], g[start + i], sum);
    }
    sum = of_warp(sum, Add());
    if (threadIdx.x == 0) {
        products[row] = sum;
    }
}

// A minimum of one block a multiprocessor: left to choose, the assembler spills some bytes to have more of them.
#define KERNELS(D)                                                                                                                             \
    extern "C" __global__ void __launch_bounds__(256, 1)                                                                                       \
        attention_##D(const float *qkv, float *y, float *log_sums, unsigned length, unsigned heads, unsigned each, unsigned causal,            \
                      float scale) {                                                                                                           \
        attention<D>(qkv, y, log_sums, {length, heads, each, causal}, scale);                                                                  \
    }                                                                                                                                          \
    extern "C" __global__ void __launch_bounds__(256, 1)                                                                                       \
        query_gradient_##D(const float *qkv, const float *g, const float *log_sums, const float *products, float *gradients, unsigned length,  \
                           unsigned heads, unsigned each, unsigned causal, float scale) {                                                      \
        query_gradient<D>(qkv, g, log_sums, products, gradients, {length, heads, each, causal}, scale);                                        \
    }                                                                                                                                          \
    extern "C" __global__ void __launch_bounds__(256, 1)                                                                                       \
        key_value_gradient_##D(const float *qkv, const float *g, const float *log_sums, const float *products, float *gradients,               \
                               unsigned length, unsigned heads, unsigned each, unsigned causal, float scale) {                                 \
        key_value_gradient<D>(qkv, g, log_sums, products, gradients, {length, heads, each, causal}, scale);                                    \
    }

KERNELS(32)
KERNELS(64)
KERNELS(128)
