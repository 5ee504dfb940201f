// Kernels for the test of the shim itself (self_test.cpp): each uses what the shim has to get right.

// Sums of rows of 256 by a tree in shared memory, 256 threads a block: barriers in a loop.
extern "C" __global__ void row_sums(const float *rows, float *sums) {
    __shared__ float tree[256];
    tree[threadIdx.x] = rows[blockIdx.x * 256 + threadIdx.x];
    for (unsigned half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            tree[threadIdx.x] += tree[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = tree[0];
    }
}

// The same by shuffles within warps and memory of a size given at the launch; threads from 96 on end at once.
extern "C" __global__ void __launch_bounds__(256) warp_sums(const int *values, int *sums, int scale) {
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    int *of_warps = reinterpret_cast<int *>(dynamic_shared);
    if (threadIdx.x >= 96) {
        return;
    }
    int sum = values[blockIdx.x * 96 + threadIdx.x] * scale;
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, distance);
    }
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        int of_block = threadIdx.x < 3 ? of_warps[threadIdx.x] : 0;
        for (int bits = 2; bits > 0; bits /= 2) {
            of_block += __shfl_xor_sync(0xffffffffu, of_block, bits);
        }
        if (threadIdx.x == 0) {
            sums[blockIdx.x] = of_block;
        }
    }
}

// Halves of a warp that go different ways, each with exchanges of its own.
extern "C" __global__ void votes(unsigned *ballots) {
    const unsigned lane = threadIdx.x;
    if (lane < 16) {
        ballots[lane] = __ballot_sync(0x0000ffffu, lane % 2);
    } else {
        const unsigned first = __ballot_sync(0xffff0000u, lane % 4 == 0);
        ballots[lane] = first + __shfl_sync(0xffff0000u, lane, 31);
    }
}

// Reads what another thread writes without a barrier: the two orders differ.
extern "C" __global__ void race(int *out) {
    __shared__ int values[64];
    values[threadIdx.x] = static_cast<int>(threadIdx.x);
    out[threadIdx.x] = values[63 - threadIdx.x];
}

extern "C" __global__ void half_the_threads_wait() {
    if (threadIdx.x < 7) {
        __syncwarp(0xffu);
    } else if (threadIdx.x == 7) {
        __syncthreads();
    }
}

extern "C" __global__ void asserts(int limit) {
    assert(static_cast<int>(threadIdx.x) < limit);
    __syncthreads();
}

extern "C" __global__ void writes_beyond() {
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    dynamic_shared[threadIdx.x] = 1;
}

// Threads of three dimensions, and the small types there and back.
extern "C" __global__ void conversions(const float *values, float *out) {
    const unsigned i = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[3 * i] = static_cast<float>(static_cast<__nv_bfloat16>(values[i]));
    out[3 * i + 1] = static_cast<float>(static_cast<__half>(values[i]));
    out[3 * i + 2] = static_cast<float>(static_cast<__nv_fp8_e4m3>(values[i]));
}
