// The gradient of an embedding's table: each row is the sum of the gradients at its token's positions, in their order.
//
// No atomics: a block owns ROWS rows of the table and 128 columns of them, looks through a segment of the positions, and adds what is its
// own in shared memory, a column a thread. All blocks of a segment read the same tokens, which stay in the cache; gradients are read once, the
// table's gradient is written once. Segments, where there are several, are added in order by a second launch.

constexpr unsigned ROWS = 32;
constexpr unsigned COLUMNS = 128;
constexpr unsigned WARPS = COLUMNS / WARP;
// Positions that a thread looks at together, so that it waits once for all of them.
constexpr unsigned AT_ONCE = 4;

// Blocks of COLUMNS threads: (rows / ROWS, columns / COLUMNS, segments). `parts` is (segments, rows, width).
template <class G>
__device__ inline void table_gradient(const long long *__restrict__ tokens, const G *__restrict__ g, float *__restrict__ parts,
                                      unsigned long long positions, unsigned rows, unsigned width, unsigned long long positions_each) {
    const unsigned first_row = blockIdx.x * ROWS;
    const unsigned column = blockIdx.y * COLUMNS + threadIdx.x;
    const unsigned long long first = blockIdx.z * positions_each;
    const unsigned long long end = first + positions_each < positions ? first + positions_each : positions;
    __shared__ float sums[ROWS][COLUMNS];
    for (unsigned row = 0; row < ROWS; row++) {
        sums[row][threadIdx.x] = 0.0f;
    }
    // Of the positions looked at together: which are this block's, in order, with their rows, and how many each warp found.
    __shared__ unsigned found[AT_ONCE * COLUMNS];
    __shared__ unsigned counts[AT_ONCE][WARPS];
    for (unsigned long long start = first; start < end; start += AT_ONCE * COLUMNS) {
        long long row[AT_ONCE];
        unsigned lanes[AT_ONCE];
#pragma unroll
        for (unsigned part = 0; part < AT_ONCE; part++) {
            const unsigned long long position = start + part * COLUMNS + threadIdx.x;
            row[part] = position < end ? tokens[position] - first_row : -1;
        }
#pragma unroll
        for (unsigned part = 0; part < AT_ONCE; part++) {
            const bool is_own = row[part] >= 0 && row[part] < ROWS && first_row + row[part] < rows;
            lanes[part] = __ballot_sync(ALL_LANES, is_own);
            if (threadIdx.x % WARP == 0) {
                counts[part][threadIdx.x / WARP] = __popc(lanes[part]);
            }
        }
        __syncthreads();
        unsigned all = 0;
#pragma unroll
        for (unsigned part = 0; part < AT_ONCE; part++) {
            unsigned at = all + __popc(lanes[part] & ((1u << threadIdx.x % WARP) - 1));
            for (unsigned warp = 0; warp < WARPS; warp++) {
                at += warp < threadIdx.x / WARP ? counts[part][warp] : 0;
                all += counts[part][warp];
            }
            if (lanes[part] >> threadIdx.x % WARP & 1) {
                found[at] = (part * COLUMNS + threadIdx.x) * ROWS + static_cast<unsigned>(row[part]);
            }
        }
        __syncthreads();
        if (column < width) {
            for (unsigned i = 0; i < all; i++) {
                sums[found[i] % ROWS][threadIdx.x] += widen(g[(start + found[i] / ROWS) * width + column]);
            }
        }
        __syncthreads();
    }
    if (column < width) {
        for (unsigned row = 0; row < ROWS && first_row + row < rows; row++) {
            parts[(static_cast<unsigned long long>(blockIdx.z) * rows + first_row + row) * width + column] = sums[row][threadIdx.x];
        }
    }
}

extern "C" __global__ void table_gradient_f32(const long long *tokens, const float *g, float *parts, unsigned long long positions,
                                              unsigned rows, unsigned width, unsigned long long positions_each) {
    table_gradient(tokens, g, parts, positions, rows, width, positions_each);
}
extern "C" __global__ void table_gradient_bf16(const long long *tokens, const bf16 *g, float *parts, unsigned long long positions,
                                               unsigned rows, unsigned width, unsigned long long positions_each) {
    table_gradient(tokens, g, parts, positions, rows, width, positions_each);
}

// One thread an element: the sum of the segments' parts, in their order.
extern "C" __global__ void join_tables(const float *parts, float *sums, unsigned segments, unsigned long long count) {
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
