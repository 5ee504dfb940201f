// Max and mean pooling over the last two dimensions, with any windows, and their gradients: a thread an element of what is written.
//
// Tables say where windows begin and end along each dimension, (windows, 3) with their size with padding, and which windows a pixel is in,
// (pixels, 2). Windows overlap little: elements are read from memory once, and again from the cache. A gradient adds up what the windows of a
// pixel give it, in their order. Elements may be bf16; sums are float.

struct Tables {
    const unsigned *down, *across;
    unsigned height, width, rows, columns;
};

__device__ inline unsigned thread_of_grid() { return blockIdx.x * blockDim.x + threadIdx.x; }

// The largest element, or the first NaN, of each of `count` windows, and which pixel of its plane it is: the first of equal ones; the one after
// all where a window has none.
template <class T>
__device__ inline void max_pool(const T *__restrict__ x, T *__restrict__ y, unsigned *__restrict__ chosen, unsigned count, const Tables &of) {
    const unsigned n = thread_of_grid();
    if (n >= count) {
        return;
    }
    const unsigned *down = of.down + n / of.columns % of.rows * 3, *across = of.across + n % of.columns * 3;
    const unsigned pixels = of.height * of.width;
    const T *plane = x + static_cast<unsigned long long>(n / of.columns / of.rows) * pixels;
    float most = -infinity();
    unsigned at = pixels;
    for (unsigned row = down[0]; row < down[1]; row++) {
        for (unsigned column = across[0]; column < across[1]; column++) {
            const float element = widen(plane[row * of.width + column]);
            if (at == pixels || element > most || (element != element && most == most)) {
                most = element;
                at = row * of.width + column;
            }
        }
    }
    narrow(most, &y[n]);
    chosen[n] = at;
}

// The mean of each window, whose padding counts as zeros.
template <class T> __device__ inline void mean_pool(const T *__restrict__ x, T *__restrict__ y, unsigned count, const Tables &of) {
    const unsigned n = thread_of_grid();
    if (n >= count) {
        return;
    }
    const unsigned *down = of.down + n / of.columns % of.rows * 3, *across = of.across + n % of.columns * 3;
    const T *plane = x + static_cast<unsigned long long>(n / of.columns / of.rows) * of.height * of.width;
    float sum = 0.0f;
    for (unsigned row = down[0]; row < down[1]; row++) {
        for (unsigned column = across[0]; column < across[1]; column++) {
            sum += widen(plane[row * of.width + column]);
        }
    }
    narrow(sum * (1.0f / (down[2] * across[2])), &y[n]);
}

// The gradient of each of `count` pixels, whose windows `of` has. `chosen` is null for means, whose windows' sizes are in `sizes`: (rows), then
// (columns).
template <class T>
__device__ inline void pool_gradient(const T *__restrict__ g, const unsigned *__restrict__ chosen, const unsigned *__restrict__ sizes,
                                     T *__restrict__ gradients, unsigned count, const Tables &of) {
    const unsigned n = thread_of_grid();
    if (n >= count) {
        return;
    }
    const unsigned pixels = of.height * of.width, pixel = n % pixels;
    const unsigned *down = of.down + pixel / of.width * 2, *across = of.across + pixel % of.width * 2;
    const unsigned long long plane = static_cast<unsigned long long>(n / pixels) * of.rows * of.columns;
    float sum = 0.0f;
    for (unsigned row = down[0]; row < down[1]; row++) {
        for (unsigned column = across[0]; column < across[1]; column++) {
            const unsigned long long window = plane + row * of.columns + column;
            if (chosen == nullptr) {
                sum += widen(g[window]) * (1.0f / (sizes[row] * sizes[of.rows + column]));
            } else if (chosen[window] == pixel) {
                sum += widen(g[window]);
            }
        }
    }
    narrow(sum, &gradients[n]);
}

#define KERNELS(TYPE, NAME)                                                                                                                    \
    extern "C" __global__ void max_pool_##NAME(const TYPE *x, TYPE *y, unsigned *chosen, unsigned count, const unsigned *down,                 \
                                               const unsigned *across, unsigned height, unsigned width, unsigned rows, unsigned columns) {     \
        max_pool(x, y, chosen, count, {down, across, height, width, rows, columns});                                                           \
    }                                                                                                                                          \
    extern "C" __global__ void mean_pool_##NAME(const TYPE *x, TYPE *y, unsigned count, const unsigned *down, const unsigned *across,          \
                                                unsigned height, unsigned width, unsigned rows, unsigned columns) {                            \
        mean_pool(x, y, count, {down, across, height, width, rows, columns});                                                                  \
    }                                                                                                                                          \
    extern "C" __global__ void pool_gradient_##NAME(const TYPE *g, const unsigned *chosen, const unsigned *sizes, TYPE *gradients,             \
                                                    unsigned count, const unsigned *down, const unsigned *across, unsigned height,             \
                                                    unsigned width, unsigned rows, unsigned columns) {                                         \
        pool_gradient(g, chosen, sizes, gradients, count, {down, across, height, width, rows, columns});                                       \
    }

KERNELS(float, f32)
KERNELS(bf16, bf16)
