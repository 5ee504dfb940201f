// Qualifiers of CUDA C++, and the vector types.
#pragma once

#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>

#define SCONCE_CUDA_SHIM 1
// The capability compiled for: everything that sources have for bf16 and below fp8's.
#define __CUDA_ARCH__ 800
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 2
#define CUDA_VERSION 13020

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __managed__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __grid_constant__
// All threads of a block run on one thread of the host, so that a variable of that thread is the block's. In a function `thread_local`
// implies `static`; before it stands `extern` for memory whose size is given at the launch: see `dynamic_shared` in block.h.
#define __shared__ thread_local

#define SCONCE_VECTOR(type, name)                                                                                                              \
    struct name##2 { type x, y; };                                                                                                             \
    struct name##3 { type x, y, z; };                                                                                                          \
    inline name##2 make_##name##2(type x, type y) { return {x, y}; }                                                                           \
    inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }
#define SCONCE_VECTOR4(type, name, alignment)                                                                                                  \
    struct alignas(alignment) name##4 { type x, y, z, w; };                                                                                    \
    inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

SCONCE_VECTOR(unsigned char, uchar)
SCONCE_VECTOR(int, int)
SCONCE_VECTOR(unsigned, uint)
SCONCE_VECTOR(long long, longlong)
SCONCE_VECTOR(unsigned long long, ulonglong)
SCONCE_VECTOR(float, float)
SCONCE_VECTOR(double, double)
SCONCE_VECTOR4(unsigned char, uchar, 4)
SCONCE_VECTOR4(int, int, 16)
SCONCE_VECTOR4(unsigned, uint, 16)
SCONCE_VECTOR4(float, float, 16)
SCONCE_VECTOR4(double, double, 16)

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    constexpr unsigned long long count() const { return static_cast<unsigned long long>(x) * y * z; }
};
