// The small floating-point types, with arithmetic in float and rounding to the nearest, ties to even, as the device's.
#pragma once

#include "qualifiers.h"

namespace cuda_shim {

inline unsigned bits_of(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline float float_of(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline unsigned short to_bfloat16(float value) {
    const unsigned bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return 0x7fff;
    }
    return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
inline float from_bfloat16(unsigned short bits) { return float_of(static_cast<unsigned>(bits) << 16); }

inline unsigned short to_half(float value) {
    if (std::isnan(value)) {
        return 0x7fff;
    }
    const auto half = static_cast<_Float16>(value);
    unsigned short bits;
    std::memcpy(&bits, &half, sizeof bits);
    return bits;
}
inline float from_half(unsigned short bits) {
    _Float16 half;
    std::memcpy(&half, &bits, sizeof half);
    return static_cast<float>(half);
}

// Four bits of exponent, three of fraction, no infinity; beyond 448 it stays there.
inline float from_fp8(unsigned char bits) {
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    if ((bits & 0x7f) == 0x7f) {
        return NAN;
    }
    const float size = exponent == 0 ? std::ldexp(float(fraction), -9) : std::ldexp(float(8 + fraction), exponent - 10);
    return (bits & 0x80) != 0 ? -size : size;
}
inline unsigned char to_fp8(float value) {
    const unsigned char sign = std::signbit(value) ? 0x80 : 0;
    if (std::isnan(value)) {
        return sign | 0x7f;
    }
    const float size = std::fabs(value);
    if (size >= 448.0f) {
        return sign | 0x7e;
    }
    int exponent = 0;
    std::frexp(size, &exponent);
    const int scale = exponent - 4 < -9 ? -9 : exponent - 4; // of the last place
    const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, -scale)));
    const int code = scale == -9 ? units : ((scale + 10) << 3) + (units - 8);
    return sign | static_cast<unsigned char>(code > 0x7e ? 0x7e : code);
}

} // namespace cuda_shim

#define SCONCE_FLOAT_TYPE(name, storage, to, from)                                                                                             \
    struct name {                                                                                                                              \
        storage __x;                                                                                                                           \
        name() = default;                                                                                                                      \
        template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>> name(T value) : __x(to(static_cast<float>(value))) {}       \
        template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>> operator T() const { return static_cast<T>(from(__x)); }   \
        name &operator+=(name other) { return *this = name(from(__x) + from(other.__x)); }                                                     \
        name &operator-=(name other) { return *this = name(from(__x) - from(other.__x)); }                                                     \
        name &operator*=(name other) { return *this = name(from(__x) * from(other.__x)); }                                                     \
        name &operator/=(name other) { return *this = name(from(__x) / from(other.__x)); }                                                     \
    };                                                                                                                                         \
    inline name operator+(name a, name b) { return a += b; }                                                                                   \
    inline name operator-(name a, name b) { return a -= b; }                                                                                   \
    inline name operator*(name a, name b) { return a *= b; }                                                                                   \
    inline name operator/(name a, name b) { return a /= b; }                                                                                   \
    inline name operator-(name a) { return name(-from(a.__x)); }                                                                               \
    inline bool operator<(name a, name b) { return from(a.__x) < from(b.__x); }                                                                \
    inline bool operator>(name a, name b) { return from(a.__x) > from(b.__x); }                                                                \
    inline bool operator<=(name a, name b) { return from(a.__x) <= from(b.__x); }                                                              \
    inline bool operator>=(name a, name b) { return from(a.__x) >= from(b.__x); }                                                              \
    inline bool operator==(name a, name b) { return from(a.__x) == from(b.__x); }                                                              \
    inline bool operator!=(name a, name b) { return from(a.__x) != from(b.__x); }                                                              \
    inline bool __hisnan(name a) { return std::isnan(from(a.__x)); }                                                                           \
    inline name __habs(name a) { return name(std::fabs(from(a.__x))); }                                                                        \
    inline name __hmax(name a, name b) { return name(std::fmax(from(a.__x), from(b.__x))); }                                                   \
    inline name __hmin(name a, name b) { return name(std::fmin(from(a.__x), from(b.__x))); }                                                   \
    inline name __hmax_nan(name a, name b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b); }                                        \
    inline name __hmin_nan(name a, name b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b); }                                        \
    inline name hsqrt(name a) { return name(std::sqrt(from(a.__x))); }                                                                         \
    inline name hcos(name a) { return name(std::cos(from(a.__x))); }                                                                           \
    inline name hsin(name a) { return name(std::sin(from(a.__x))); }                                                                           \
    inline name hlog(name a) { return name(std::log(from(a.__x))); }                                                                           \
    inline name hexp(name a) { return name(std::exp(from(a.__x))); }

SCONCE_FLOAT_TYPE(__half, unsigned short, cuda_shim::to_half, cuda_shim::from_half)
SCONCE_FLOAT_TYPE(__nv_bfloat16, unsigned short, cuda_shim::to_bfloat16, cuda_shim::from_bfloat16)
SCONCE_FLOAT_TYPE(__nv_fp8_e4m3, unsigned char, cuda_shim::to_fp8, cuda_shim::from_fp8)
using half = __half;

inline float __half2float(__half value) { return cuda_shim::from_half(value.__x); }
inline __half __float2half(float value) { return __half(value); }
inline __half __float2half_rn(float value) { return __half(value); }
inline __half __ushort_as_half(unsigned short bits) {
    __half value;
    value.__x = bits;
    return value;
}
inline unsigned short __half_as_ushort(__half value) { return value.__x; }
inline float __bfloat162float(__nv_bfloat16 value) { return cuda_shim::from_bfloat16(value.__x); }
inline __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }

struct __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
inline __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x + b.x, a.y + b.y}; }
inline __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x - b.x, a.y - b.y}; }
inline __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x * b.x, a.y * b.y}; }
inline __nv_bfloat162 __hdiv2(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x / b.x, a.y / b.y}; }

enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
// Only the first interpretation is known.
inline __half __nv_cvt_fp8_to_halfraw(unsigned char bits, __nv_fp8_interpretation_t) { return __half(cuda_shim::from_fp8(bits)); }
