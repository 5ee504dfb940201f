// The threads of a block, and the barriers they wait at.
//
// A fiber runs one thread of the block after another, as a loop would, until one of them has to wait: then it stays as it is, with that
// thread on its stack, and another fiber goes on with the next thread. A kernel that never waits therefore runs on a single fiber. Once
// all threads have begun, those that may continue do so in turn, until all have ended.
#pragma once

#include "fiber.h"
#include "qualifiers.h"

#include <string>
#include <vector>

namespace cuda_shim {

constexpr unsigned WARP = 32;
// What a block can have on a device of capability 9.0.
constexpr std::size_t SHARED_BYTES = 227 * 1024;
constexpr std::size_t GUARD_BYTES = 64;
constexpr unsigned char GUARD = 0xa5;

struct Fiber {
    Context context{};
    enum class State { Idle, Running, AtBarrier, AtWarp } state = State::Idle;
    uint3 index{};
    unsigned thread = 0;
    unsigned long long generation = 0; // of the barrier it waits at
};

// Words of 64 bits that a lane can hand to others at once: a tensor core takes three of each.
constexpr std::size_t EXCHANGED = 3;

struct WarpState {
    unsigned live = 0;         // threads that have not ended
    unsigned arrived = 0;      // threads that wait at an exchange
    unsigned masks[WARP] = {}; // which threads each of those waits for
    unsigned group[WARP] = {}; // which threads took part in each thread's last exchange
    unsigned long long deposited[WARP][EXCHANGED] = {}, published[WARP][EXCHANGED] = {};
};

struct Block {
    // the kernel, with its arguments
    void (*call)(void *) = nullptr;
    void *arguments = nullptr;
    dim3 size;
    unsigned count = 0, begun = 0, live = 0;
    bool reversed = false;
    // at __syncthreads
    unsigned waiting = 0;
    unsigned long long generation = 0;
    int vote = 0, votes = 0;
    std::vector<WarpState> warps;
    // The fibers: those of the earlier blocks are used again.
    std::vector<Fiber *> fibers;
    std::size_t used = 0;
    Fiber *current = nullptr;
    Context scheduler{};
    std::string failure;
};

// One for the process, whose launches come one after another: variables of a thread take a call each time in a library that was opened
// at run time, and kernels do little else than to read these.
inline Block block;

} // namespace cuda_shim

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
constexpr int warpSize = 32;

// The memory whose size the launch gives, under the names that sources declare it by (`extern __shared__ …`).
static thread_local __align__(16) unsigned char dynamic_shared[cuda_shim::SHARED_BYTES + cuda_shim::GUARD_BYTES];
[[maybe_unused]] static thread_local __align__(16) int dst_row[cuda_shim::SHARED_BYTES / sizeof(int)];

namespace cuda_shim {

inline void to_scheduler() {
    Fiber *fiber = block.current;
    switch_context(&fiber->context, &block.scheduler);
    threadIdx = fiber->index;
}

// Ends the launch with an error: this thread and all others of the block go no further.
inline void fail(const std::string &what) {
    if (block.failure.empty()) {
        block.failure = what + " (block " + std::to_string(blockIdx.x) + "," + std::to_string(blockIdx.y) + "," + std::to_string(blockIdx.z) +
                        ", thread " + std::to_string(threadIdx.x) + "," + std::to_string(threadIdx.y) + "," + std::to_string(threadIdx.z) + ")";
    }
    for (;;) {
        to_scheduler();
    }
}

inline void release_barrier() {
    block.votes = block.vote;
    block.vote = 0;
    block.waiting = 0;
    block.generation++;
}

// Waits for all threads of the block that have not ended; adds `vote` up and returns the sum.
inline int barrier(int vote) {
    Fiber *fiber = block.current;
    block.vote += vote;
    block.waiting++;
    if (block.waiting == block.live) {
        release_barrier();
        return block.votes;
    }
    fiber->generation = block.generation;
    fiber->state = Fiber::State::AtBarrier;
    to_scheduler();
    return block.votes;
}

// Lets a group of threads continue if all of it has arrived.
inline void release_group(WarpState &warp, unsigned mask) {
    const unsigned needed = mask & warp.live;
    if (needed == 0 || (warp.arrived & needed) != needed) {
        return;
    }
    for (unsigned lane = 0; lane < WARP; lane++) {
        if ((needed >> lane & 1) != 0 && warp.masks[lane] != mask) {
            return;
        }
    }
    for (unsigned lane = 0; lane < WARP; lane++) {
        if ((needed >> lane & 1) != 0) {
            std::memcpy(warp.published[lane], warp.deposited[lane], sizeof(warp.published[lane]));
            warp.group[lane] = needed;
        }
    }
    warp.arrived &= ~needed;
}

// Waits for those of a warp named in `mask`; what they deposited before is published then.
inline void warp_barrier(unsigned mask) {
    Fiber *fiber = block.current;
    WarpState &warp = block.warps[fiber->thread / WARP];
    const unsigned lane = fiber->thread % WARP;
    warp.arrived |= 1u << lane;
    warp.masks[lane] = mask;
    release_group(warp, mask);
    if ((warp.arrived >> lane & 1) != 0) {
        fiber->state = Fiber::State::AtWarp;
        to_scheduler();
    }
}

inline void thread_ended() {
    WarpState &warp = block.warps[block.current->thread / WARP];
    warp.live &= ~(1u << block.current->thread % WARP);
    for (unsigned lane = 0; lane < WARP; lane++) {
        if ((warp.arrived >> lane & 1) != 0) {
            release_group(warp, warp.masks[lane]);
        }
    }
    block.live--;
    if (block.live > 0 && block.waiting == block.live) {
        release_barrier();
    }
}

inline void fiber_main() {
    for (;;) {
        Fiber *fiber = block.current;
        while (block.begun < block.count) {
            const unsigned thread = block.reversed ? block.count - 1 - block.begun : block.begun;
            block.begun++;
            fiber->thread = thread;
            fiber->index = {thread % block.size.x, thread / block.size.x % block.size.y, thread / (block.size.x * block.size.y)};
            fiber->state = Fiber::State::Running;
            threadIdx = fiber->index;
            block.call(block.arguments);
            thread_ended();
        }
        fiber->state = Fiber::State::Idle;
        to_scheduler();
    }
}

inline void resume(Fiber *fiber) {
    block.current = fiber;
    fiber->state = Fiber::State::Running;
    switch_context(&block.scheduler, &fiber->context);
}

inline bool may_continue(const Fiber *fiber) {
    switch (fiber->state) {
    case Fiber::State::AtBarrier:
        return block.generation != fiber->generation;
    case Fiber::State::AtWarp:
        return (block.warps[fiber->thread / WARP].arrived >> fiber->thread % WARP & 1) == 0;
    default:
        return false;
    }
}

inline Fiber *new_fiber() {
    auto *fiber = new Fiber();
    prepare(&fiber->context, new_stack(), fiber_main);
    return fiber;
}

// Runs one block; false if a thread failed or waits for ever: `block.failure` says which.
inline bool run_block() {
    block.count = static_cast<unsigned>(block.size.count());
    block.begun = 0;
    block.live = block.count;
    block.waiting = 0;
    block.vote = 0;
    block.used = 0;
    block.warps.assign((block.count + WARP - 1) / WARP, WarpState());
    for (unsigned thread = 0; thread < block.count; thread++) {
        block.warps[thread / WARP].live |= 1u << thread % WARP;
    }
    while (block.begun < block.count && block.failure.empty()) {
        if (block.used == block.fibers.size()) {
            block.fibers.push_back(new_fiber());
        }
        resume(block.fibers[block.used++]);
    }
    while (block.live > 0 && block.failure.empty()) {
        bool progress = false;
        for (std::size_t i = 0; i < block.used && block.failure.empty(); i++) {
            if (may_continue(block.fibers[i])) {
                progress = true;
                resume(block.fibers[i]);
            }
        }
        if (!progress) {
            block.failure = std::to_string(block.live) + " threads of block " + std::to_string(blockIdx.x) +
                            " wait at a barrier that others of them never reach";
        }
    }
    if (!block.failure.empty()) {
        // Threads that were left in the middle of a call are on these stacks.
        block.fibers.clear();
        return false;
    }
    return true;
}

} // namespace cuda_shim

inline void __syncthreads() { cuda_shim::barrier(0); }
inline int __syncthreads_count(int predicate) { return cuda_shim::barrier(predicate != 0); }
inline int __syncthreads_or(int predicate) { return cuda_shim::barrier(predicate != 0) != 0; }
inline int __syncthreads_and(int predicate) { return cuda_shim::barrier(predicate == 0) == 0; }
inline void __syncwarp(unsigned mask = 0xffffffffu) { cuda_shim::warp_barrier(mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

#define SCONCE_TEXT_OF(value) #value
#define SCONCE_LINE_TEXT(line) SCONCE_TEXT_OF(line)
#undef assert
#define assert(condition) ((condition) ? void() : ::cuda_shim::fail("assertion failed at " __FILE__ ":" SCONCE_LINE_TEXT(__LINE__) ": " #condition))
