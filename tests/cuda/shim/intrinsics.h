// Arithmetic, bits and atomics of the device.
#pragma once

#include "float_types.h"

template <class A, class B> inline std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B> inline std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}

// Not in every libm's header.
inline float rsqrtf(float value) { return 1.0f / std::sqrt(value); }
inline double rsqrt(double value) { return 1.0 / std::sqrt(value); }
inline double normcdf(double value) { return 0.5 * std::erfc(-value * M_SQRT1_2); }
inline float normcdff(float value) { return static_cast<float>(normcdf(value)); }
inline void sincospif(float value, float *sine, float *cosine) {
    *sine = static_cast<float>(std::sin(value * M_PI));
    *cosine = static_cast<float>(std::cos(value * M_PI));
}
using std::isinf;
using std::isfinite;
using std::isnan;
using std::signbit;

// One rounding each; the "fast" ones are exact here, which the device's are not.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float a) { return std::exp(a); }
inline float __logf(float a) { return std::log(a); }

inline unsigned __float_as_uint(float value) { return cuda_shim::bits_of(value); }
inline int __float_as_int(float value) { return static_cast<int>(cuda_shim::bits_of(value)); }
inline float __uint_as_float(unsigned bits) { return cuda_shim::float_of(bits); }
inline float __int_as_float(int bits) { return cuda_shim::float_of(static_cast<unsigned>(bits)); }
inline long long __double_as_longlong(double value) {
    long long bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline double __longlong_as_double(long long bits) {
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    shift &= 31;
    return shift == 0 ? high : high << shift | low >> (32 - shift);
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits)); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }

template <class T> inline T __ldg(const T *address) { return *address; }
template <class T> inline T __ldcs(const T *address) { return *address; }
template <class T> inline void __stcs(T *address, T value) { *address = value; }

// Threads run one after another between barriers, and blocks too: an update needs nothing more than to be made.
template <class T, class V> inline T atomicAdd(T *address, V value) {
    const T old = *address;
    *address = old + static_cast<T>(value);
    return old;
}
template <class T, class V> inline T atomicMax(T *address, V value) {
    const T old = *address;
    *address = max(old, static_cast<T>(value));
    return old;
}
template <class T, class V> inline T atomicMin(T *address, V value) {
    const T old = *address;
    *address = min(old, static_cast<T>(value));
    return old;
}
template <class T, class V> inline T atomicExch(T *address, V value) {
    const T old = *address;
    *address = static_cast<T>(value);
    return old;
}
template <class T, class V> inline T atomicOr(T *address, V value) {
    const T old = *address;
    *address = old | static_cast<T>(value);
    return old;
}
template <class T, class E, class V> inline T atomicCAS(T *address, E expected, V value) {
    const T old = *address;
    if (old == static_cast<T>(expected)) {
        *address = static_cast<T>(value);
    }
    return old;
}
