// Matrix products of cuBLAS (libcublas.so.13): what candle and our code call. Matrices are stored by columns.
//
// Sums are in f32, or f64 for f64 inputs, in the order of the inner dimension: the same bits each time. With TF32 the inputs are
// rounded to its 10 bits of fraction, as tensor cores do.

#include "streams.h"

#include <cmath>
#include <cstring>

namespace {

// `cublasStatus_t`.
enum Status : int { OK = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID = 7, EXECUTION_FAILED = 13, UNSUPPORTED = 15 };
// `cudaDataType_t`.
enum Type : int { F32 = 0, F64 = 1, F16 = 2, BF16 = 14 };
// `cublasComputeType_t`.
enum Compute : int { COMPUTE_16F = 64, COMPUTE_32F = 68, COMPUTE_64F = 70, FAST_16F = 74, FAST_16BF = 75, FAST_TF32 = 77 };

struct Handle {
    void *stream = nullptr;
    bool scalars_are_on_device = false;
    int math_mode = 0;
};

std::size_t size_of(int type) {
    switch (type) {
    case F32: return 4;
    case F64: return 8;
    case F16: case BF16: return 2;
    default: return 0;
    }
}

float from_bits(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

std::uint32_t to_bits(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}

float from_bf16(std::uint16_t bits) { return from_bits(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t to_bf16(float value) {
    const std::uint32_t bits = to_bits(value);
    if (std::isnan(value)) {
        return 0x7fff;
    }
    return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The compiler's own type for halves, on processors that have it.
float from_f16(std::uint16_t bits) {
    _Float16 value;
    std::memcpy(&value, &bits, 2);
    return static_cast<float>(value);
}

std::uint16_t to_f16(float value) {
    const auto half = static_cast<_Float16>(value);
    std::uint16_t bits;
    std::memcpy(&bits, &half, 2);
    return bits;
}

// Rounded to nearest, with 10 bits of fraction.
float to_tf32(float value) {
    const std::uint32_t bits = to_bits(value);
    return std::isfinite(value) ? from_bits((bits + 0xfff + (bits >> 13 & 1)) & ~std::uint32_t{0x1fff}) : value;
}

double load(const void *matrix, int type, std::size_t at) {
    switch (type) {
    case F64: return static_cast<const double *>(matrix)[at];
    case F16: return from_f16(static_cast<const std::uint16_t *>(matrix)[at]);
    case BF16: return from_bf16(static_cast<const std::uint16_t *>(matrix)[at]);
    default: return static_cast<const float *>(matrix)[at];
    }
}

void store(void *matrix, int type, std::size_t at, double value) {
    switch (type) {
    case F64: static_cast<double *>(matrix)[at] = value; break;
    case F16: static_cast<std::uint16_t *>(matrix)[at] = to_f16(static_cast<float>(value)); break;
    case BF16: static_cast<std::uint16_t *>(matrix)[at] = to_bf16(static_cast<float>(value)); break;
    default: static_cast<float *>(matrix)[at] = static_cast<float>(value); break;
    }
}

struct Matrix {
    Address address;
    int type;
    long long columns; // the leading dimension: elements from one column to the next
    long long stride;  // elements from one matrix of the batch to the next
    // Bytes that so many rows, columns and matrices extend over.
    std::size_t extent(long long rows, long long count, int batch) const {
        return rows == 0 || count == 0 || batch == 0
                   ? 0
                   : static_cast<std::size_t>((batch - 1) * stride + (count - 1) * columns + rows) * size_of(type);
    }
};

struct Product {
    bool transposes_a, transposes_b;
    long long m, n, k;
    double alpha, beta;
    Matrix a, b, c;
    int batch;
    bool is_double, is_tf32;
};

#if defined(__x86_64__)
#define FOR_THIS_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define FOR_THIS_PROCESSOR
#endif

// Adds the products of k columns of `a` with k numbers of each of these four columns of `b`, in order.
FOR_THIS_PROCESSOR void add_columns(const float *a, const float *b, float *sums, long long m, long long k, long long columns) {
    for (long long p = 0; p < k; p++) {
        for (long long j = 0; j < columns; j++) {
            const float factor = b[j * k + p];
            for (long long i = 0; i < m; i++) {
                sums[j * m + i] += a[p * m + i] * factor;
            }
        }
    }
}

FOR_THIS_PROCESSOR void add_columns(const double *a, const double *b, double *sums, long long m, long long k, long long columns) {
    for (long long p = 0; p < k; p++) {
        for (long long j = 0; j < columns; j++) {
            const double factor = b[j * k + p];
            for (long long i = 0; i < m; i++) {
                sums[j * m + i] += a[p * m + i] * factor;
            }
        }
    }
}

template <class T> void multiply(const Product &it) {
    const auto packed = [&](const Matrix &matrix, int index, bool by_row, long long rows, long long columns) {
        std::vector<T> to(static_cast<std::size_t>(rows * columns));
        const auto *from = reinterpret_cast<const char *>(matrix.address) + static_cast<std::size_t>(index * matrix.stride) * size_of(matrix.type);
        for (long long column = 0; column < columns; column++) {
            for (long long row = 0; row < rows; row++) {
                const long long at = by_row ? row * matrix.columns + column : column * matrix.columns + row;
                const double value = load(from, matrix.type, static_cast<std::size_t>(at));
                to[static_cast<std::size_t>(column * rows + row)] = it.is_tf32 ? static_cast<T>(to_tf32(static_cast<float>(value))) : static_cast<T>(value);
            }
        }
        return to;
    };
    constexpr long long COLUMNS = 4, ROWS = 256;
    for (int index = 0; index < it.batch; index++) {
        const std::vector<T> a = packed(it.a, index, it.transposes_a, it.m, it.k), b = packed(it.b, index, it.transposes_b, it.k, it.n);
        auto *c = reinterpret_cast<char *>(it.c.address) + static_cast<std::size_t>(index * it.c.stride) * size_of(it.c.type);
        std::vector<T> panel(static_cast<std::size_t>(ROWS * it.k));
        T sums[COLUMNS * ROWS];
        for (long long row = 0; row < it.m; row += ROWS) {
            const long long rows = std::min(ROWS, it.m - row);
            for (long long p = 0; p < it.k; p++) {
                std::memcpy(&panel[static_cast<std::size_t>(p * rows)], &a[static_cast<std::size_t>(p * it.m + row)], static_cast<std::size_t>(rows) * sizeof(T));
            }
            for (long long column = 0; column < it.n; column += COLUMNS) {
                const long long columns = std::min(COLUMNS, it.n - column);
                std::memset(sums, 0, sizeof(sums));
                add_columns(panel.data(), b.data() + column * it.k, sums, rows, it.k, columns);
                for (long long j = 0; j < columns; j++) {
                    for (long long i = 0; i < rows; i++) {
                        const auto at = static_cast<std::size_t>((column + j) * it.c.columns + row + i);
                        // Not read if nothing of it is kept: it may hold anything.
                        const double before = it.beta == 0 ? 0 : it.beta * load(c, it.c.type, at);
                        store(c, it.c.type, at, it.alpha * static_cast<double>(sums[j * rows + i]) + before);
                    }
                }
            }
        }
    }
}

Status enqueue(const Handle *handle, const Product &product) {
    const auto belongs = [&](const char *name, const Matrix &matrix, long long rows, long long columns) {
        if (sconce_emulated_is_device_memory(matrix.address, matrix.extent(rows, columns, product.batch))) {
            return true;
        }
        std::fprintf(stderr, "emulated device: cuBLAS: matrix %s (%lld × %lld, leading dimension %lld, batch of %d) is not of one allocation\n",
                     name, rows, columns, matrix.columns, product.batch);
        return false;
    };
    if (product.m < 0 || product.n < 0 || product.k < 0 || product.batch < 0) {
        return INVALID;
    }
    const bool a = product.transposes_a, b = product.transposes_b;
    if (!belongs("A", product.a, a ? product.k : product.m, a ? product.m : product.k) ||
        !belongs("B", product.b, b ? product.n : product.k, b ? product.k : product.n) || !belongs("C", product.c, product.m, product.n)) {
        return EXECUTION_FAILED;
    }
    const int result = sconce_emulated_enqueue(
        handle->stream, "a matrix product",
        [](void *argument) {
            const auto *it = static_cast<Product *>(argument);
            it->is_double ? multiply<double>(*it) : multiply<float>(*it);
            delete it;
        },
        new Product(product));
    return result == 0 ? OK : EXECUTION_FAILED;
}

double scalar(const void *address, int compute) {
    switch (compute) {
    case COMPUTE_64F: return *static_cast<const double *>(address);
    case COMPUTE_16F: return load(address, F16, 0);
    default: return *static_cast<const float *>(address);
    }
}

} // namespace

extern "C" {

Status cublasCreate_v2(Handle **handle) {
    *handle = new Handle;
    return OK;
}
Status cublasDestroy_v2(Handle *handle) {
    delete handle;
    return OK;
}
Status cublasSetStream_v2(Handle *handle, void *stream) {
    handle->stream = stream;
    return OK;
}
Status cublasGetStream_v2(Handle *handle, void **stream) {
    *stream = handle->stream;
    return OK;
}
Status cublasSetWorkspace_v2(Handle *, void *, std::size_t) { return OK; }
Status cublasSetMathMode(Handle *handle, int mode) {
    handle->math_mode = mode;
    return OK;
}
Status cublasGetMathMode(Handle *handle, int *mode) {
    *mode = handle->math_mode;
    return OK;
}
Status cublasSetAtomicsMode(Handle *, int) { return OK; }
Status cublasSetPointerMode_v2(Handle *, int mode) { return mode == 0 ? OK : UNSUPPORTED; }
Status cublasGetVersion_v2(Handle *, int *version) {
    *version = 130'000;
    return OK;
}
const char *cublasGetStatusName(Status status) {
    switch (status) {
    case OK: return "CUBLAS_STATUS_SUCCESS";
    case ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case INVALID: return "CUBLAS_STATUS_INVALID_VALUE";
    case UNSUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_EXECUTION_FAILED";
    }
}
const char *cublasGetStatusString(Status status) { return cublasGetStatusName(status); }

Status cublasGemmStridedBatchedEx(Handle *handle, int a_operation, int b_operation, int m, int n, int k, const void *alpha, Address a, int a_type, int a_columns,
                                  long long a_stride, Address b, int b_type, int b_columns, long long b_stride, const void *beta, Address c, int c_type,
                                  int c_columns, long long c_stride, int batch, int compute, int) {
    if (size_of(a_type) == 0 || size_of(b_type) == 0 || size_of(c_type) == 0) {
        return UNSUPPORTED;
    }
    // The mode is `CUBLAS_TF32_TENSOR_OP_MATH`.
    const bool is_tf32 = a_type == F32 && (compute == FAST_TF32 || (compute == COMPUTE_32F && handle->math_mode == 3));
    return enqueue(handle, Product{a_operation != 0, b_operation != 0, m, n, k, scalar(alpha, compute), scalar(beta, compute),
                                   Matrix{a, a_type, a_columns, a_stride}, Matrix{b, b_type, b_columns, b_stride},
                                   Matrix{c, c_type, c_columns, c_stride}, batch, compute == COMPUTE_64F, is_tf32});
}
Status cublasGemmEx(Handle *handle, int a_operation, int b_operation, int m, int n, int k, const void *alpha, Address a, int a_type, int a_columns, Address b,
                    int b_type, int b_columns, const void *beta, Address c, int c_type, int c_columns, int compute, int algorithm) {
    return cublasGemmStridedBatchedEx(handle, a_operation, b_operation, m, n, k, alpha, a, a_type, a_columns, 0, b, b_type, b_columns, 0, beta, c, c_type,
                                      c_columns, 0, 1, compute, algorithm);
}
Status cublasSgemmStridedBatched(Handle *handle, int a_operation, int b_operation, int m, int n, int k, const float *alpha, Address a, int a_columns,
                                 long long a_stride, Address b, int b_columns, long long b_stride, const float *beta, Address c, int c_columns,
                                 long long c_stride, int batch) {
    return cublasGemmStridedBatchedEx(handle, a_operation, b_operation, m, n, k, alpha, a, F32, a_columns, a_stride, b, F32, b_columns, b_stride, beta, c, F32,
                                      c_columns, c_stride, batch, COMPUTE_32F, 0);
}
Status cublasDgemmStridedBatched(Handle *handle, int a_operation, int b_operation, int m, int n, int k, const double *alpha, Address a, int a_columns,
                                 long long a_stride, Address b, int b_columns, long long b_stride, const double *beta, Address c, int c_columns,
                                 long long c_stride, int batch) {
    return cublasGemmStridedBatchedEx(handle, a_operation, b_operation, m, n, k, alpha, a, F64, a_columns, a_stride, b, F64, b_columns, b_stride, beta, c, F64,
                                      c_columns, c_stride, batch, COMPUTE_64F, 0);
}
Status cublasSgemm_v2(Handle *handle, int a_operation, int b_operation, int m, int n, int k, const float *alpha, Address a, int a_columns, Address b,
                      int b_columns, const float *beta, Address c, int c_columns) {
    return cublasSgemmStridedBatched(handle, a_operation, b_operation, m, n, k, alpha, a, a_columns, 0, b, b_columns, 0, beta, c, c_columns, 0, 1);
}
Status cublasDgemm_v2(Handle *handle, int a_operation, int b_operation, int m, int n, int k, const double *alpha, Address a, int a_columns, Address b,
                      int b_columns, const double *beta, Address c, int c_columns) {
    return cublasDgemmStridedBatched(handle, a_operation, b_operation, m, n, k, alpha, a, a_columns, 0, b, b_columns, 0, beta, c, c_columns, 0, 1);
}

} // extern "C"
