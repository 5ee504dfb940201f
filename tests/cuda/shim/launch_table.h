// What a library made by compile-kernels exports: its kernels, and how they are launched.
#pragma once

#include <cstddef>

// One kernel, as the library made of a source lists it.
struct cuda_shim_kernel {
    const char *name;
    // Number of its arguments, and the size of each in bytes.
    std::size_t arguments;
    const std::size_t *sizes;
    // Null on success, else why the launch failed (valid until the thread's next launch).
    const char *(*launch)(const unsigned grid[3], const unsigned threads[3], std::size_t shared, void **arguments);
};
