// What all kernels have in common; put before each source, as NVRTC compiles one text.
//
// The sources include nothing, so that NVRTC alone compiles them, without NVIDIA's headers. They are compiled with `--fmad=false`:
// a product is rounded before it is added to, as on the CPU, where the same sources are tested; where one rounding is wanted it is asked
// for by `fmaf`. Nearly all of them wait for memory, so that it costs nothing.
//
// None of them has been run on a GPU yet: they are tested on the emulated device (tests/cuda), and what their heads say of memory traffic was
// counted, not measured (docs/gpu.md).
//
// Sums are added in an order that depends on shapes alone, never on which block is done first: no atomics on floats.

// A bfloat16 as it is stored; arithmetic is in `float`.
struct bf16 {
    unsigned short bits;
};

__device__ inline float widen(float value) { return value; }
__device__ inline float widen(bf16 value) { return __uint_as_float(static_cast<unsigned>(value.bits) << 16); }

__device__ inline void narrow(float value, float *to) { *to = value; }
// To the nearest, ties to even.
__device__ inline void narrow(float value, bf16 *to) {
    const unsigned bits = __float_as_uint(value);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    to->bits = is_nan ? 0x7fff : static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

__device__ inline float infinity() { return __uint_as_float(0x7f800000u); }
__device__ inline float not_a_number() { return __uint_as_float(0x7fffffffu); }

struct Add {
    template <class T> __device__ T operator()(T a, T b) const { return a + b; }
};
// NaN if either is.
struct Larger {
    template <class T> __device__ T operator()(T a, T b) const { return a > b || a != a ? a : b; }
};

constexpr unsigned WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

// Folds a value of each lane of a warp; every lane gets the result.
template <class T, class Fold> __device__ inline T of_warp(T value, Fold fold) {
    for (unsigned bits = WARP / 2; bits > 0; bits /= 2) {
        value = fold(value, __shfl_xor_sync(ALL_LANES, value, bits));
    }
    return value;
}

// Folds a value of each thread in the row of threads `threadIdx.y`; every one gets the result. Rows are one warp, or the whole block,
// whose size is a multiple of a warp's.
template <class T, class Fold> __device__ inline T of_row(T value, Fold fold) {
    value = of_warp(value, fold);
    if (blockDim.x == WARP) {
        return value;
    }
    __shared__ T of_warps[WARP];
    __syncthreads();
    if (threadIdx.x % WARP == 0) {
        of_warps[threadIdx.x / WARP] = value;
    }
    __syncthreads();
    value = of_warps[0];
    for (unsigned warp = 1; warp < blockDim.x / WARP; warp++) {
        value = fold(value, of_warps[warp]);
    }
    return value;
}

// The row of a matrix that this row of threads computes.
__device__ inline unsigned long long row_of_threads() { return static_cast<unsigned long long>(blockIdx.x) * blockDim.y + threadIdx.y; }
