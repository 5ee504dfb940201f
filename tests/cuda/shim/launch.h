// Launches: a kernel with the arguments as the driver passes them, an array of pointers to each.
#pragma once

#include "block.h"
#include "launch_table.h"

#include <cstdlib>
#include <tuple>
#include <utility>

namespace cuda_shim {

// Runs a grid, blocks in turn. The text of a failure, null if there was none; it is valid until the next launch. Launches of
// several threads have to come one after another.
inline const char *run_grid(void (*call)(void *), void *arguments, const unsigned grid[3], const unsigned threads[3], std::size_t shared) {
    block.failure.clear();
    block.call = call;
    block.arguments = arguments;
    block.size = dim3{threads[0], threads[1], threads[2]};
    const dim3 blocks{grid[0], grid[1], grid[2]};
    if (blocks.count() == 0 || block.size.count() == 0 || block.size.count() > 1024 || shared > SHARED_BYTES) {
        block.failure = "a launch needs 1 to 1,024 threads a block, at least one block, and at most 232,448 bytes of shared memory";
        return block.failure.c_str();
    }
    const char *order = std::getenv("SCONCE_CUDA_ORDER");
    block.reversed = order != nullptr && std::strcmp(order, "reverse") == 0;
    blockDim = block.size;
    gridDim = blocks;
    for (unsigned long long i = 0; i < blocks.count(); i++) {
        const unsigned long long at = block.reversed ? blocks.count() - 1 - i : i;
        blockIdx = {static_cast<unsigned>(at % blocks.x), static_cast<unsigned>(at / blocks.x % blocks.y),
                    static_cast<unsigned>(at / blocks.x / blocks.y)};
        std::memset(dynamic_shared, 0xff, shared);
        std::memset(dynamic_shared + shared, GUARD, GUARD_BYTES);
        if (!run_block()) {
            return block.failure.c_str();
        }
        for (std::size_t byte = 0; byte < GUARD_BYTES; byte++) {
            if (dynamic_shared[shared + byte] != GUARD) {
                block.failure = "a write beyond the " + std::to_string(shared) + " bytes of shared memory of the launch";
                return block.failure.c_str();
            }
        }
    }
    return nullptr;
}

template <auto KERNEL> struct Launcher;

template <class... A, void (*KERNEL)(A...)> struct Launcher<KERNEL> {
    static constexpr std::size_t arguments = sizeof...(A);
    static constexpr std::size_t sizes[] = {sizeof(A)..., 0};
    template <std::size_t... I> static void call_with(void **arguments, std::index_sequence<I...>) {
        KERNEL(*static_cast<std::remove_const_t<A> *>(arguments[I])...);
    }
    static void call(void *arguments) { call_with(static_cast<void **>(arguments), std::index_sequence_for<A...>()); }
    static const char *launch(const unsigned grid[3], const unsigned threads[3], std::size_t shared, void **arguments) {
        return run_grid(call, arguments, grid, threads, shared);
    }
};

} // namespace cuda_shim

// Defines what the library exports: `cuda_shim_kernels(&count)`. Written after the source by tests/cuda/compile-kernels.
#define CUDA_SHIM_KERNEL(name) cuda_shim_kernel{#name, ::cuda_shim::Launcher<&name>::arguments, ::cuda_shim::Launcher<&name>::sizes, ::cuda_shim::Launcher<&name>::launch},
#define CUDA_SHIM_KERNELS(...)                                                                                                                 \
    extern "C" __attribute__((visibility("default"))) const cuda_shim_kernel *cuda_shim_kernels(std::size_t *count) {                          \
        static const cuda_shim_kernel kernels[] = {__VA_ARGS__};                                                                               \
        *count = sizeof(kernels) / sizeof(kernels[0]);                                                                                         \
        return kernels;                                                                                                                        \
    }
