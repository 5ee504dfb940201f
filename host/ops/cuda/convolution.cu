// What a convolution is made of beside its products, which are cuBLAS's: windows as columns (im2col) and back, and its outputs' order.
//
// Columns are (channels · taps, batch · windows), so that a whole batch is one product with the weight, (outputs, channels · taps), and so are
// both gradients. A thread has one window, or one pixel, of a channel; threads side by side have pixels side by side. Columns are written once,
// images come from the cache; on the way back columns are read once, in an order that is always the same: each pixel adds up the taps that it is.
// Elements may be bf16; sums are float.

struct Geometry {
    unsigned height, width, rows, columns;
    unsigned down, across; // taps of the kernel
    unsigned stride_down, stride_across, padding_down, padding_across, dilation_down, dilation_across;

    __device__ unsigned windows() const { return rows * columns; }
    __device__ unsigned pixels() const { return height * width; }
};

__device__ inline unsigned thread_of_grid() { return blockIdx.x * blockDim.x + threadIdx.x; }

// Element p of channel c of an image of several channels.
__device__ inline unsigned long long element_of(unsigned image, unsigned channels, unsigned channel, unsigned count, unsigned p) {
    return (static_cast<unsigned long long>(image) * channels + channel) * count + p;
}

// A thread a window, blockIdx.y the channel; `count` windows in all.
template <class T>
__device__ inline void unfold(const T *__restrict__ x, T *__restrict__ columns, unsigned count, unsigned channels, const Geometry &of) {
    const unsigned n = thread_of_grid(), channel = blockIdx.y;
    if (n >= count) {
        return;
    }
    const unsigned image = n / of.windows(), window = n % of.windows();
    const unsigned top = window / of.columns * of.stride_down, left = window % of.columns * of.stride_across;
    const T *plane = x + element_of(image, channels, channel, of.pixels(), 0);
    T *to = columns + static_cast<unsigned long long>(channel) * of.down * of.across * count + n;
    for (unsigned i = 0; i < of.down; i++) {
        // Beyond the image on either side: less than 0 is more than any height.
        const unsigned row = top + i * of.dilation_down - of.padding_down;
        for (unsigned j = 0; j < of.across; j++) {
            const unsigned column = left + j * of.dilation_across - of.padding_across;
            *to = row < of.height && column < of.width ? plane[row * of.width + column] : T();
            to += count;
        }
    }
}

// Of which window a pixel is at a tap, along one dimension; more than there are windows where of none.
__device__ inline unsigned window_at(unsigned pixel, unsigned tap, unsigned stride, unsigned padding, unsigned dilation) {
    const unsigned start = pixel + padding - tap * dilation;
    return pixel + padding < tap * dilation || start % stride != 0 ? ~0u : start / stride;
}

// A thread a pixel, blockIdx.y the channel; `count` windows and `pixels` pixels in all.
template <class T>
__device__ inline void fold(const T *__restrict__ columns, T *__restrict__ x, unsigned count, unsigned pixels, unsigned channels,
                            const Geometry &of) {
    const unsigned n = thread_of_grid(), channel = blockIdx.y;
    if (n >= pixels) {
        return;
    }
    const unsigned image = n / of.pixels(), pixel = n % of.pixels();
    const unsigned row = pixel / of.width, column = pixel % of.width;
    const T *from = columns + static_cast<unsigned long long>(channel) * of.down * of.across * count + image * of.windows();
    float sum = 0.0f;
    for (unsigned i = 0; i < of.down; i++) {
        const unsigned r = window_at(row, i, of.stride_down, of.padding_down, of.dilation_down);
        for (unsigned j = 0; j < of.across; j++) {
            const unsigned c = window_at(column, j, of.stride_across, of.padding_across, of.dilation_across);
            if (r < of.rows && c < of.columns) {
                sum += widen(from[static_cast<unsigned long long>(i * of.across + j) * count + r * of.columns + c]);
            }
        }
    }
    narrow(sum, &x[element_of(image, channels, channel, of.pixels(), pixel)]);
}

// Outputs (outputs, batch · windows) as images (batch, outputs, windows), plus a bias for each output, and ReLU, where they are wanted. A
// thread an element of an output, blockIdx.y the output.
template <class T>
__device__ inline void as_images(const T *__restrict__ rows, const float *__restrict__ bias, T *__restrict__ y, unsigned count,
                                 unsigned windows, unsigned with_relu) {
    const unsigned n = thread_of_grid(), output = blockIdx.y;
    if (n >= count) {
        return;
    }
    T value = rows[static_cast<unsigned long long>(output) * count + n];
    if (bias != nullptr) {
        // As a sum of two tensors of this type.
        T of_bias;
        narrow(bias[output], &of_bias);
        narrow(widen(value) + widen(of_bias), &value);
    }
    y[element_of(n / windows, gridDim.y, output, windows, n % windows)] = with_relu && widen(value) < 0.0f ? T() : value;
}

// The images' gradient as rows; with `y`, which ReLU has made, 0 where that is.
template <class T>
__device__ inline void as_rows(const T *__restrict__ g, const T *__restrict__ y, T *__restrict__ rows, unsigned count, unsigned windows) {
    const unsigned n = thread_of_grid(), output = blockIdx.y;
    if (n >= count) {
        return;
    }
    const unsigned long long i = element_of(n / windows, gridDim.y, output, windows, n % windows);
    rows[static_cast<unsigned long long>(output) * count + n] = y != nullptr && !(widen(y[i]) > 0.0f) ? T() : g[i];
}

// Sums of rows (gridDim.y, count), of which a block adds a segment: parts (segments, rows).
template <class T> __device__ inline void row_sums(const T *__restrict__ rows, float *__restrict__ parts, unsigned count, unsigned each) {
    const unsigned first = blockIdx.x * each, end = first + each < count ? first + each : count;
    const T *row = rows + static_cast<unsigned long long>(blockIdx.y) * count;
    float sum = 0.0f;
#pragma unroll 4
    for (unsigned n = first + threadIdx.x; n < end; n += blockDim.x) {
        sum += widen(row[n]);
    }
    sum = of_row(sum, Add());
    if (threadIdx.x == 0) {
        parts[blockIdx.x * gridDim.y + blockIdx.y] = sum;
    }
}

#define GEOMETRY                                                                                                                               \
    unsigned height, unsigned width, unsigned rows, unsigned columns, unsigned down, unsigned across, unsigned stride_down,                    \
        unsigned stride_across, unsigned padding_down, unsigned padding_across, unsigned dilation_down, unsigned dilation_across
#define GIVEN_GEOMETRY                                                                                                                         \
    {height,         width,        rows,           columns,       down,           across, stride_down, stride_across, padding_down,            \
     padding_across, dilation_down, dilation_across}

#define KERNELS(TYPE, NAME)                                                                                                                    \
    extern "C" __global__ void unfold_##NAME(const TYPE *x, TYPE *to, unsigned count, unsigned channels, GEOMETRY) {                           \
        unfold(x, to, count, channels, GIVEN_GEOMETRY);                                                                                        \
    }                                                                                                                                          \
    extern "C" __global__ void fold_##NAME(const TYPE *from, TYPE *x, unsigned count, unsigned pixels, unsigned channels, GEOMETRY) {          \
        fold(from, x, count, pixels, channels, GIVEN_GEOMETRY);                                                                                \
    }                                                                                                                                          \
    extern "C" __global__ void as_images_##NAME(const TYPE *rows, const float *bias, TYPE *y, unsigned count, unsigned windows,                \
                                                unsigned with_relu) {                                                                          \
        as_images(rows, bias, y, count, windows, with_relu);                                                                                   \
    }                                                                                                                                          \
    extern "C" __global__ void as_rows_##NAME(const TYPE *g, const TYPE *y, TYPE *rows, unsigned count, unsigned windows) {                    \
        as_rows(g, y, rows, count, windows);                                                                                                   \
    }                                                                                                                                          \
    extern "C" __global__ void row_sums_##NAME(const TYPE *rows, float *parts, unsigned count, unsigned each) {                                \
        row_sums(rows, parts, count, each);                                                                                                    \
    }

KERNELS(float, f32)
KERNELS(bf16, bf16)

// One thread a row: the sum of the segments' parts, in their order.
extern "C" __global__ void join_rows(const float *parts, float *sums, unsigned segments, unsigned rows) {
    const unsigned row = thread_of_grid();
    if (row >= rows) {
        return;
    }
    float sum = 0.0f;
    for (unsigned segment = 0; segment < segments; segment++) {
        sum += parts[segment * rows + row];
    }
    sums[row] = sum;
}
