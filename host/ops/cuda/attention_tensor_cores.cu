// Multi-head attention in bf16 by tensor cores, softmax(Q · Kᵀ · scale) · V of each head, and its gradient, by tiles: nothing of
// length × length is kept (Dao, "FlashAttention-2", 2023). For devices of capability 8.0 and newer.
//
// Blocks of four warps. Each warp owns 16 rows of one head (32 in the forward pass of narrow heads): queries, or keys with their values.
// The block goes through the other side in tiles of rows, in order; while a tile is computed, the next one is copied to shared memory,
// past registers. Products are `mma` of 16 × 8 × 16, whose operands come from shared memory by `ldmatrix`; a product of scores is an operand
// of the next one as it lies in registers. Scores, sums and accumulators are float; weights are rounded to bf16 for the second product.
//
// The forward pass keeps log₂ Σ exp of each row. The backward pass computes the scores again, once for the queries' gradient and once for
// the keys' and values', so that every sum is one warp's and in one order. 4 · length² · width multiplications forward, 14 backward, half of
// them if causal; what is read again comes from the cache.
//
// Q, K and V come side by side, (batch, length, 3 · width), and so do their gradients; a head's width is a multiple of 8 and at most D.

constexpr unsigned WARPS = 4;
constexpr unsigned THREADS = WARPS * WARP;

#ifndef SCONCE_CUDA_SHIM // tests/cuda/shim/tensor_cores.h has these for the processor.

// c += a · b for tiles of 16 × 16 by 16 × 8, as they are spread over a warp: a lane has rows lane / 4 and 8 more of a and c, and column
// lane / 4 of b; of those, pairs of elements from 2 · (lane % 4) on.
__device__ inline void multiply_tiles(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four tiles of 8 × 8 from shared memory: lane i gives the address of row i % 8 of tile i / 8, and gets of each tile the pair of elements
// lane % 4 of row lane / 4.
__device__ inline void load_tiles(unsigned (&tiles)[4], const bf16 *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
                 : "memory");
}
// The same of the tiles' transposes.
__device__ inline void load_tiles_transposed(unsigned (&tiles)[4], const bf16 *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
                 : "memory");
}

// Begins to copy eight elements to shared memory, or to write eight zeros there.
__device__ inline void begin_copy(bf16 *to, const bf16 *from, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from),
                 "r"(is_there ? 16 : 0)
                 : "memory");
}
// Ends a group of this thread's copies.
__device__ inline void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for this thread's copies, but for those of its last group.
__device__ inline void wait_but_for_last_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// Two elements, the first in the lower half.
__device__ inline unsigned pair_of(float first, float second) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

#endif

struct Shape {
    unsigned length, heads, each, causal;
};

// One head's rows in memory.
template <class T> struct Rows {
    T *first;
    unsigned long long step;

    __device__ T *at(unsigned row) const { return first + row * step; }
};

// What a block of OWN rows computes; with causal attention tiles that have the most to do come first, which is what `tile` counts.
template <unsigned OWN> struct Place {
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

// Distance of rows in shared memory: 8 more than their width, so that eight of them begin at different banks.
template <unsigned D> constexpr unsigned STEP = D + 8;

// Begins to copy ROWS rows from `start` on into shared memory; zeros where there are none.
template <unsigned ROWS, unsigned D> __device__ inline void begin_rows(const Rows<const bf16> &from, unsigned start, const Shape &shape, bf16 *to) {
    constexpr unsigned RUNS = D / 8;
#pragma unroll
    for (unsigned i = threadIdx.x; i < ROWS * RUNS; i += THREADS) {
        const unsigned row = i / RUNS, column = i % RUNS * 8;
        const bool is_there = start + row < shape.length && column < shape.each;
        begin_copy(&to[row * STEP<D> + column], is_there ? from.at(start + row) + column : from.first, is_there);
    }
}

__device__ inline unsigned lane() { return threadIdx.x % WARP; }
__device__ inline unsigned warp() { return threadIdx.x / WARP; }

// The left operand of 16 rows and 16 columns.
template <unsigned D> __device__ inline void load_left(unsigned (&tile)[4], const bf16 *rows, unsigned column) {
    load_tiles(tile, &rows[lane() % 16 * STEP<D> + column + lane() / 16 * 8]);
}
// Right operands of two products whose columns are 16 rows in memory: b0 and b1 of the first, then of the second.
template <unsigned D> __device__ inline void load_right(unsigned (&tiles)[4], const bf16 *rows, unsigned column) {
    load_tiles(tiles, &rows[(lane() / 16 * 8 + lane() % 8) * STEP<D> + column + lane() / 8 % 2 * 8]);
}
// Right operands of two products whose rows are 16 rows in memory.
template <unsigned D> __device__ inline void load_right_transposed(unsigned (&tiles)[4], const bf16 *rows, unsigned column) {
    load_tiles_transposed(tiles, &rows[lane() % 16 * STEP<D> + column + lane() / 16 * 8]);
}

// A warp's own 16 rows as left operands: in registers, or read again each time where registers are scarce.
template <unsigned D, bool KEPT> struct Own {
    const bf16 *rows;
    unsigned kept[KEPT ? D / 16 : 1][4];

    __device__ void load(const bf16 *from) {
        rows = from;
        if constexpr (KEPT) {
#pragma unroll
            for (unsigned k = 0; k < D / 16; k++) {
                load_left<D>(kept[k], rows, 16 * k);
            }
        }
    }
    __device__ void tile(unsigned k, unsigned (&to)[4]) const {
        if constexpr (KEPT) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                to[i] = kept[k][i];
            }
        } else {
            load_left<D>(to, rows, 16 * k);
        }
    }
};

// scores += own rows · (the tile's rows)ᵀ.
template <unsigned D, unsigned TILE, bool KEPT>
__device__ inline void add_scores(const Own<D, KEPT> &own, const bf16 *rows, float (&scores)[TILE / 8][4]) {
#pragma unroll
    for (unsigned k = 0; k < D / 16; k++) {
        unsigned left[4];
        own.tile(k, left);
#pragma unroll
        for (unsigned n = 0; n < TILE / 16; n++) {
            unsigned right[4];
            load_right<D>(right, &rows[16 * n * STEP<D>], 16 * k);
            multiply_tiles(scores[2 * n], left, right[0], right[1]);
            multiply_tiles(scores[2 * n + 1], left, right[2], right[3]);
        }
    }
}

// 16 columns of scores, from column 16 · n on, as a left operand.
template <unsigned TILE> __device__ inline void as_left(const float (&scores)[TILE / 8][4], unsigned n, unsigned (&left)[4]) {
    left[0] = pair_of(scores[2 * n][0], scores[2 * n][1]);
    left[1] = pair_of(scores[2 * n][2], scores[2 * n][3]);
    left[2] = pair_of(scores[2 * n + 1][0], scores[2 * n + 1][1]);
    left[3] = pair_of(scores[2 * n + 1][2], scores[2 * n + 1][3]);
}

// sums += scores · the tile's rows.
template <unsigned D, unsigned TILE>
__device__ inline void add_product(const float (&scores)[TILE / 8][4], const bf16 *rows, float (&sums)[D / 8][4]) {
#pragma unroll
    for (unsigned k = 0; k < TILE / 16; k++) {
        unsigned left[4];
        as_left<TILE>(scores, k, left);
#pragma unroll
        for (unsigned n = 0; n < D / 16; n++) {
            unsigned right[4];
            load_right_transposed<D>(right, &rows[16 * k * STEP<D>], 16 * n);
            multiply_tiles(sums[2 * n], left, right[0], right[1]);
            multiply_tiles(sums[2 * n + 1], left, right[2], right[3]);
        }
    }
}

// Writes a warp's 16 rows from `first` on, times a factor for this lane's first row and its second.
template <unsigned D>
__device__ inline void store(const float (&sums)[D / 8][4], float upper, float lower, unsigned first, const Shape &shape, const Rows<bf16> &to) {
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        const unsigned row = first + lane() / 4 + 8 * half;
        const float factor = half == 0 ? upper : lower;
#pragma unroll
        for (unsigned n = 0; n < D / 8; n++) {
            const unsigned column = 8 * n + 2 * (lane() % 4);
            if (row < shape.length && column < shape.each) {
                *reinterpret_cast<unsigned *>(to.at(row) + column) = pair_of(sums[n][2 * half] * factor, sums[n][2 * half + 1] * factor);
            }
        }
    }
}

// Folds a value of each of the four lanes that share rows.
template <class Fold> __device__ inline float of_four(float value, Fold fold) {
    value = fold(value, __shfl_xor_sync(ALL_LANES, value, 1));
    return fold(value, __shfl_xor_sync(ALL_LANES, value, 2));
}

struct Largest {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

constexpr float LOG2_E = 1.44269504088896340736f;

__device__ inline bf16 *memory() {
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    return reinterpret_cast<bf16 *>(dynamic_shared);
}

// Two tensors' tiles of rows, twice: one pair is computed with while the other is copied.
template <unsigned D, unsigned TILE> struct Stages {
    bf16 *memory;
    Rows<const bf16> first, second;

    __device__ bf16 *rows(unsigned stage, unsigned which) const { return memory + (stage * 2 + which) * TILE * STEP<D>; }
    __device__ void begin(unsigned stage, unsigned start, const Shape &shape) const {
        begin_rows<TILE, D>(first, start, shape, rows(stage, 0));
        begin_rows<TILE, D>(second, start, shape, rows(stage, 1));
    }
};

// Rows are those of queries, 16 · GROUPS a warp.
template <unsigned D, unsigned GROUPS, unsigned TILE>
__device__ inline void attention(const bf16 *qkv, bf16 *y, float *log_sums, const Shape &shape, float scale) {
    constexpr unsigned OWN = WARPS * GROUPS * 16;
    const Place<OWN> place(shape);
    const unsigned first = (place.tiles - 1 - place.tile) * OWN, own_first = first + warp() * GROUPS * 16;
    const unsigned end = shape.causal && first + OWN < shape.length ? first + OWN : shape.length;
    bf16 *queries = memory();
    const Stages<D, TILE> stages{queries + OWN * STEP<D>, place.part(qkv, 1, shape), place.part(qkv, 2, shape)};
    begin_rows<OWN, D>(place.part(qkv, 0, shape), first, shape, queries);
    end_group();
    stages.begin(0, 0, shape);
    end_group();
    wait_but_for_last_group();
    __syncthreads();
    Own<D, true> own[GROUPS];
    float most[GROUPS][2], sums[GROUPS][2] = {}, mixed[GROUPS][D / 8][4] = {};
#pragma unroll
    for (unsigned group = 0; group < GROUPS; group++) {
        own[group].load(queries + (warp() * GROUPS + group) * 16 * STEP<D>);
        most[group][0] = most[group][1] = -infinity();
    }
    const float scale2 = scale * LOG2_E;
    for (unsigned start = 0, stage = 0; start < end; start += TILE, stage ^= 1) {
        if (start + TILE < end) {
            stages.begin(stage ^ 1, start + TILE, shape);
        }
        end_group();
        wait_but_for_last_group();
        __syncthreads();
        const bf16 *keys = stages.rows(stage, 0), *values = stages.rows(stage, 1);
        float scores[GROUPS][TILE / 8][4] = {};
#pragma unroll
        for (unsigned k = 0; k < D / 16; k++) {
#pragma unroll
            for (unsigned n = 0; n < TILE / 16; n++) {
                unsigned right[4];
                load_right<D>(right, &keys[16 * n * STEP<D>], 16 * k);
#pragma unroll
                for (unsigned group = 0; group < GROUPS; group++) {
                    multiply_tiles(scores[group][2 * n], own[group].kept[k], right[0], right[1]);
                    multiply_tiles(scores[group][2 * n + 1], own[group].kept[k], right[2], right[3]);
                }
            }
        }
        // A tile across the diagonal, or across the length.
        const bool is_cut = start + TILE > shape.length || (shape.causal && start + TILE > own_first);
#pragma unroll
        for (unsigned group = 0; group < GROUPS; group++) {
#pragma unroll
            for (unsigned half = 0; half < 2; half++) {
                const unsigned row = own_first + group * 16 + lane() / 4 + 8 * half;
                float largest = most[group][half];
#pragma unroll
                for (unsigned n = 0; n < TILE / 8; n++) {
#pragma unroll
                    for (unsigned e = 0; e < 2; e++) {
                        float &score = scores[group][n][2 * half + e];
                        const unsigned key = start + 8 * n + 2 * (lane() % 4) + e;
                        if (is_cut && (key >= shape.length || (shape.causal && key > row))) {
                            score = -infinity();
                        }
                        largest = fmaxf(largest, score);
                    }
                }
                largest = of_four(largest, Largest());
                const float factor = exp2f((most[group][half] - largest) * scale2), shift = largest * scale2;
                most[group][half] = largest;
                float sum = sums[group][half] * factor;
#pragma unroll
                for (unsigned n = 0; n < TILE / 8; n++) {
#pragma unroll
                    for (unsigned e = 0; e < 2; e++) {
                        float &score = scores[group][n][2 * half + e];
                        score = exp2f(fmaf(score, scale2, -shift));
                        sum += score;
                    }
                }
                sums[group][half] = sum;
#pragma unroll
                for (unsigned n = 0; n < D / 8; n++) {
                    mixed[group][n][2 * half] *= factor;
                    mixed[group][n][2 * half + 1] *= factor;
                }
            }
        }
#pragma unroll
        for (unsigned k = 0; k < TILE / 16; k++) {
            unsigned left[GROUPS][4];
#pragma unroll
            for (unsigned group = 0; group < GROUPS; group++) {
                as_left<TILE>(scores[group], k, left[group]);
            }
#pragma unroll
            for (unsigned n = 0; n < D / 16; n++) {
                unsigned right[4];
                load_right_transposed<D>(right, &values[16 * k * STEP<D>], 16 * n);
#pragma unroll
                for (unsigned group = 0; group < GROUPS; group++) {
                    multiply_tiles(mixed[group][2 * n], left[group], right[0], right[1]);
                    multiply_tiles(mixed[group][2 * n + 1], left[group], right[2], right[3]);
                }
            }
        }
        // The next tile but one is copied to where this one is.
        __syncthreads();
    }
#pragma unroll
    for (unsigned group = 0; group < GROUPS; group++) {
        float factors[2];
#pragma unroll
        for (unsigned half = 0; half < 2; half++) {
            const unsigned row = own_first + group * 16 + lane() / 4 + 8 * half;
            const float sum = of_four(sums[group][half], Add());
            factors[half] = 1.0f / sum;
            if (lane() % 4 == 0 && row < shape.length) {
                place.kept(log_sums, shape)[row] = fmaf(most[group][half], scale2, log2f(sum));
            }
        }
        store<D>(mixed[group], factors[0], factors[1], own_first + group * 16, shape, place.output(y, shape));
    }
}

// The gradient of the queries: with weights p and h = g · Vᵀ it is p · (h − Σ g · y) · K · scale. `products` is Σ g · y of each row.
template <unsigned D, unsigned TILE, bool KEPT>
__device__ inline void query_gradient(const bf16 *qkv, const bf16 *g, const float *log_sums, const float *products, bf16 *gradients,
                                      const Shape &shape, float scale) {
    constexpr unsigned OWN = WARPS * 16;
    const Place<OWN> place(shape);
    const unsigned first = (place.tiles - 1 - place.tile) * OWN, own_first = first + warp() * 16;
    const unsigned end = shape.causal && first + OWN < shape.length ? first + OWN : shape.length;
    bf16 *queries = memory(), *of_output = queries + OWN * STEP<D>;
    const Stages<D, TILE> stages{of_output + OWN * STEP<D>, place.part(qkv, 1, shape), place.part(qkv, 2, shape)};
    begin_rows<OWN, D>(place.part(qkv, 0, shape), first, shape, queries);
    begin_rows<OWN, D>(place.output(g, shape), first, shape, of_output);
    end_group();
    stages.begin(0, 0, shape);
    end_group();
    wait_but_for_last_group();
    __syncthreads();
    Own<D, KEPT> own_queries, own_gradients;
    own_queries.load(queries + warp() * 16 * STEP<D>);
    own_gradients.load(of_output + warp() * 16 * STEP<D>);
    float log_sum[2], product[2], sums[D / 8][4] = {};
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        const unsigned row = own_first + lane() / 4 + 8 * half;
        log_sum[half] = row < shape.length ? place.kept(log_sums, shape)[row] : 0.0f;
        product[half] = row < shape.length ? place.kept(products, shape)[row] : 0.0f;
    }
    const float scale2 = scale * LOG2_E;
    for (unsigned start = 0, stage = 0; start < end; start += TILE, stage ^= 1) {
        if (start + TILE < end) {
            stages.begin(stage ^ 1, start + TILE, shape);
        }
        end_group();
        wait_but_for_last_group();
        __syncthreads();
        float scores[TILE / 8][4] = {}, of_weights[TILE / 8][4] = {};
        add_scores<D, TILE, KEPT>(own_queries, stages.rows(stage, 0), scores);
        add_scores<D, TILE, KEPT>(own_gradients, stages.rows(stage, 1), of_weights);
        const bool is_cut = start + TILE > shape.length || (shape.causal && start + TILE > own_first);
#pragma unroll
        for (unsigned n = 0; n < TILE / 8; n++) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                const unsigned key = start + 8 * n + 2 * (lane() % 4) + i % 2, row = own_first + lane() / 4 + i / 2 * 8;
                const float weight = exp2f(fmaf(scores[n][i], scale2, -log_sum[i / 2]));
                scores[n][i] = weight * (of_weights[n][i] - product[i / 2]);
                if (is_cut && (key >= shape.length || (shape.causal && key > row))) {
                    scores[n][i] = 0.0f;
                }
            }
        }
        add_product<D, TILE>(scores, stages.rows(stage, 0), sums);
        __syncthreads();
    }
    store<D>(sums, scale, scale, own_first, shape, place.part(gradients, 0, shape));
}

// The gradients of keys and values: rows are those of keys, tiles those of queries. That of V is pᵀ · g; that of K is the transpose of
// p · (h − Σ g · y), times Q · scale.
template <unsigned D, unsigned TILE, bool KEPT>
__device__ inline void key_value_gradient(const bf16 *qkv, const bf16 *g, const float *log_sums, const float *products, bf16 *gradients,
                                          const Shape &shape, float scale) {
    constexpr unsigned OWN = WARPS * 16;
    const Place<OWN> place(shape);
    const unsigned first = place.tile * OWN, own_first = first + warp() * 16;
    bf16 *keys = memory(), *values = keys + OWN * STEP<D>;
    const Stages<D, TILE> stages{values + OWN * STEP<D>, place.part(qkv, 0, shape), place.output(g, shape)};
    // Of each stage's queries: log₂ Σ exp, and the products.
    float *of_queries = reinterpret_cast<float *>(stages.rows(2, 0));
    const auto begin = [&](unsigned stage, unsigned start) {
        stages.begin(stage, start, shape);
        for (unsigned i = threadIdx.x; i < TILE; i += THREADS) {
            const unsigned query = start + i;
            // A query that isn't there has the weight 0 everywhere.
            of_queries[(2 * stage) * TILE + i] = query < shape.length ? place.kept(log_sums, shape)[query] : infinity();
            of_queries[(2 * stage + 1) * TILE + i] = query < shape.length ? place.kept(products, shape)[query] : 0.0f;
        }
    };
    const unsigned begins_at = shape.causal ? first : 0;
    begin_rows<OWN, D>(place.part(qkv, 1, shape), first, shape, keys);
    begin_rows<OWN, D>(place.part(qkv, 2, shape), first, shape, values);
    end_group();
    begin(0, begins_at);
    end_group();
    wait_but_for_last_group();
    __syncthreads();
    Own<D, KEPT> own_keys, own_values;
    own_keys.load(keys + warp() * 16 * STEP<D>);
    own_values.load(values + warp() * 16 * STEP<D>);
    float key_sums[D / 8][4] = {}, value_sums[D / 8][4] = {};
    const float scale2 = scale * LOG2_E;
    for (unsigned start = begins_at, stage = 0; start < shape.length; start += TILE, stage ^= 1) {
        if (start + TILE < shape.length) {
            begin(stage ^ 1, start + TILE);
        }
        end_group();
        wait_but_for_last_group();
        __syncthreads();
        float scores[TILE / 8][4] = {}, of_weights[TILE / 8][4] = {};
        add_scores<D, TILE, KEPT>(own_keys, stages.rows(stage, 0), scores);
        add_scores<D, TILE, KEPT>(own_values, stages.rows(stage, 1), of_weights);
        const float *log_sum = of_queries + 2 * stage * TILE, *product = log_sum + TILE;
        const bool is_cut = shape.causal && start < own_first + 16;
#pragma unroll
        for (unsigned n = 0; n < TILE / 8; n++) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                const unsigned column = 8 * n + 2 * (lane() % 4) + i % 2, row = own_first + lane() / 4 + i / 2 * 8;
                scores[n][i] = exp2f(fmaf(scores[n][i], scale2, -log_sum[column]));
                if (is_cut && row > start + column) {
                    scores[n][i] = 0.0f;
                }
                of_weights[n][i] = scores[n][i] * (of_weights[n][i] - product[column]);
            }
        }
        add_product<D, TILE>(scores, stages.rows(stage, 1), value_sums);
        add_product<D, TILE>(of_weights, stages.rows(stage, 0), key_sums);
        __syncthreads();
    }
    store<D>(key_sums, scale, scale, own_first, shape, place.part(gradients, 1, shape));
    store<D>(value_sums, 1.0f, 1.0f, own_first, shape, place.part(gradients, 2, shape));
}

// Σ g · y of each row of each head, (batch, heads, length): a warp a row.
extern "C" __global__ void output_products(const bf16 *y, const bf16 *g, float *products, unsigned long long rows, unsigned length,
                                           unsigned heads, unsigned each) {
    const unsigned long long row = row_of_threads();
    if (row >= rows) {
        return;
    }
    const unsigned long long of_heads = row / length, sample = of_heads / heads, head = of_heads % heads;
    const unsigned long long start = ((sample * length + row % length) * heads + head) * each;
    float sum = 0.0f;
    for (unsigned i = threadIdx.x; i < each; i += WARP) {
        sum = fmaf(widen(y[start + i]), widen(g[start + i]), sum);
    }
    sum = of_warp(sum, Add());
    if (threadIdx.x == 0) {
        products[row] = sum;
    }
}

#define KERNELS(D, GROUPS, TILE, KEPT)                                                                                                         \
    extern "C" __global__ void __launch_bounds__(128)                                                                                          \
        attention_##D(const bf16 *qkv, bf16 *y, float *log_sums, unsigned length, unsigned heads, unsigned each, unsigned causal,              \
                      float scale) {                                                                                                           \
        attention<D, GROUPS, 64>(qkv, y, log_sums, {length, heads, each, causal}, scale);                                                      \
    }                                                                                                                                          \
    extern "C" __global__ void __launch_bounds__(128)                                                                                          \
        query_gradient_##D(const bf16 *qkv, const bf16 *g, const float *log_sums, const float *products, bf16 *gradients, unsigned length,     \
                           unsigned heads, unsigned each, unsigned causal, float scale) {                                                      \
        query_gradient<D, TILE, KEPT>(qkv, g, log_sums, products, gradients, {length, heads, each, causal}, scale);                            \
    }                                                                                                                                          \
    extern "C" __global__ void __launch_bounds__(128)                                                                                          \
        key_value_gradient_##D(const bf16 *qkv, const bf16 *g, const float *log_sums, const float *products, bf16 *gradients,                  \
                               unsigned length, unsigned heads, unsigned each, unsigned causal, float scale) {                                 \
        key_value_gradient<D, TILE, KEPT>(qkv, g, log_sums, products, gradients, {length, heads, each, causal}, scale);                        \
    }

KERNELS(32, 2, 64, true)
KERNELS(64, 2, 64, true)
KERNELS(128, 1, 32, false)
