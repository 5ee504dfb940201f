// What host/ops/cuda/attention_tensor_cores.cu has in PTX, which g++ doesn't know: products of tiles that are spread over a warp, their
// loads from shared memory, and copies to shared memory that have to be waited for.
//
// Operands lie in the lanes' registers as the PTX manual has it for `mma.m16n8k16` and `ldmatrix`. A copy is made when it is waited for;
// until then shared memory has NaN there, which shows a kernel that reads too early.
#pragma once

#include "warp.h"

#include <vector>

namespace cuda_shim {

// Hands `value` to all lanes of the warp; what each lane gave, until the warp's next exchange.
template <class T> struct OfWarp {
    const WarpState &warp;

    explicit OfWarp(const T &value) : warp(block.warps[block.current->thread / WARP]) {
        exchange(0xffffffffu, value, [](unsigned lane) { return lane; });
    }
    T operator[](unsigned lane) const {
        T value;
        std::memcpy(&value, warp.published[lane], sizeof(T));
        return value;
    }
};

inline unsigned own_lane() { return block.current->thread % WARP; }

inline float element_of_pair(unsigned pair, unsigned which) { return float_of(which == 0 ? pair << 16 : pair & 0xffff0000u); }

inline void load_tiles(unsigned (&tiles)[4], const void *row, bool transposed) {
    const OfWarp<const void *> rows(row);
    const unsigned lane = own_lane(), outer = lane / 4, inner = lane % 4 * 2;
    for (unsigned tile = 0; tile < 4; tile++) {
        unsigned short pair[2];
        for (unsigned i = 0; i < 2; i++) {
            const unsigned from = transposed ? inner + i : outer, column = transposed ? outer : inner + i;
            std::memcpy(&pair[i], static_cast<const unsigned short *>(rows[8 * tile + from]) + column, sizeof(pair[i]));
        }
        tiles[tile] = pair[0] | static_cast<unsigned>(pair[1]) << 16;
    }
}

// Copies that this thread of the block has begun, with the number of their group.
struct Copy {
    void *to;
    const void *from;
    bool is_there;
    unsigned group;
};
struct Copies {
    std::vector<Copy> waiting;
    unsigned group = 0;
};

inline Copies &own_copies() {
    static thread_local std::vector<Copies> of_threads(1024);
    return of_threads[block.current->thread];
}

} // namespace cuda_shim

struct bf16;

inline void multiply_tiles(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    struct Operands {
        unsigned a[4], b[2];
    };
    const cuda_shim::OfWarp<Operands> operands(Operands{{a[0], a[1], a[2], a[3]}, {b0, b1}});
    const unsigned lane = cuda_shim::own_lane();
    for (unsigned i = 0; i < 4; i++) {
        const unsigned half = i / 2, column = lane % 4 * 2 + i % 2;
        for (unsigned k = 0; k < 16; k++) {
            const Operands left = operands[lane / 4 * 4 + k % 8 / 2], right = operands[column * 4 + k % 8 / 2];
            c[i] += cuda_shim::element_of_pair(left.a[half + k / 8 * 2], k % 2) * cuda_shim::element_of_pair(right.b[k / 8], k % 2);
        }
    }
}

inline void load_tiles(unsigned (&tiles)[4], const bf16 *row) { cuda_shim::load_tiles(tiles, row, false); }
inline void load_tiles_transposed(unsigned (&tiles)[4], const bf16 *row) { cuda_shim::load_tiles(tiles, row, true); }

inline void begin_copy(bf16 *to, const bf16 *from, bool is_there) {
    if (((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) & 15) != 0) {
        cuda_shim::fail("a copy of 16 bytes between addresses that are not multiples of 16");
    }
    std::memset(static_cast<void *>(to), 0xff, 16);
    cuda_shim::Copies &copies = cuda_shim::own_copies();
    copies.waiting.push_back({to, from, is_there, copies.group});
}
inline void end_group() { cuda_shim::own_copies().group++; }
inline void wait_but_for_last_group() {
    cuda_shim::Copies &copies = cuda_shim::own_copies();
    std::vector<cuda_shim::Copy> later;
    for (const cuda_shim::Copy &copy : copies.waiting) {
        if (copy.group + 1 >= copies.group) {
            later.push_back(copy);
        } else if (copy.is_there) {
            std::memcpy(copy.to, copy.from, 16);
        } else {
            std::memset(copy.to, 0, 16);
        }
    }
    copies.waiting = later;
}

inline unsigned pair_of(float first, float second) {
    return cuda_shim::to_bfloat16(first) | static_cast<unsigned>(cuda_shim::to_bfloat16(second)) << 16;
}
