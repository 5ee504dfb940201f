// Exchanges within a warp. Each waits for the threads named in its mask, which must all come to the same exchange.
#pragma once

#include "block.h"

namespace cuda_shim {

// Deposits `value`, waits for the group, and hands out what `lane_of(own lane)` deposited; the own value where that lane took no part.
template <class T, class Source> inline T exchange(unsigned mask, T value, Source source) {
    static_assert(sizeof(T) <= 8 * EXCHANGED && std::is_trivially_copyable<T>::value, "a value of at most 24 bytes");
    WarpState &warp = block.warps[block.current->thread / WARP];
    const unsigned lane = block.current->thread % WARP;
    std::memcpy(warp.deposited[lane], &value, sizeof(T));
    warp_barrier(mask);
    const unsigned from = source(lane);
    if (from < WARP && (warp.group[lane] >> from & 1) != 0) {
        std::memcpy(&value, warp.published[from], sizeof(T));
    }
    return value;
}

// Deposits `value`, waits for the group, and folds what all of it deposited, from the lowest lane to the highest.
template <class T, class R, class Fold> inline R fold(unsigned mask, T value, R start, Fold with) {
    WarpState &warp = block.warps[block.current->thread / WARP];
    const unsigned lane = block.current->thread % WARP;
    std::memcpy(warp.deposited[lane], &value, sizeof(T));
    warp_barrier(mask);
    for (unsigned other = 0; other < WARP; other++) {
        if ((warp.group[lane] >> other & 1) != 0) {
            T theirs;
            std::memcpy(&theirs, warp.published[other], sizeof(T));
            start = with(start, theirs, other);
        }
    }
    return start;
}

} // namespace cuda_shim

template <class T> inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    return cuda_shim::exchange(mask, value, [=](unsigned lane) { return (lane & ~(width - 1u)) + (source & (width - 1u)); });
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    return cuda_shim::exchange(mask, value, [=](unsigned lane) {
        const unsigned source = lane ^ static_cast<unsigned>(bits);
        return source >= (lane & ~(width - 1u)) + width ? lane : source;
    });
}
template <class T> inline T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
    return cuda_shim::exchange(mask, value, [=](unsigned lane) { return (lane & (width - 1u)) + distance >= unsigned(width) ? lane : lane + distance; });
}
template <class T> inline T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
    return cuda_shim::exchange(mask, value, [=](unsigned lane) { return (lane & (width - 1u)) < distance ? lane : lane - distance; });
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
    return cuda_shim::fold(mask, predicate, 0u, [](unsigned bits, int theirs, unsigned lane) { return theirs != 0 ? bits | 1u << lane : bits; });
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate == 0) == 0; }
template <class T> inline unsigned __match_any_sync(unsigned mask, T value) {
    return cuda_shim::fold(mask, value, 0u, [=](unsigned bits, T theirs, unsigned lane) { return theirs == value ? bits | 1u << lane : bits; });
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
    return cuda_shim::fold(mask, value, 0u, [](unsigned sum, unsigned theirs, unsigned) { return sum + theirs; });
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
    return cuda_shim::fold(mask, value, 0u, [](unsigned most, unsigned theirs, unsigned) { return theirs > most ? theirs : most; });
}
inline unsigned __activemask() { return cuda_shim::block.warps[cuda_shim::block.current->thread / cuda_shim::WARP].live; }
