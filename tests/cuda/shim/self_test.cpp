// Launches the kernels of self_test.cu and compares. self_test LIBRARY; prints what is wrong, status 1 then.
#include "launch.h"

#include <cmath>
#include <cstdio>
#include <dlfcn.h>
#include <vector>

static const cuda_shim_kernel *kernels;
static std::size_t count;
static int wrong = 0;

static const char *launch(const char *name, unsigned blocks, dim3 threads, std::size_t shared, std::vector<void *> arguments) {
    const unsigned grid[3] = {blocks, 1, 1}, block[3] = {threads.x, threads.y, threads.z};
    for (std::size_t i = 0; i < count; i++) {
        if (std::strcmp(kernels[i].name, name) == 0) {
            return kernels[i].launch(grid, block, shared, arguments.data());
        }
    }
    return "no such kernel";
}

static void expect(bool right, const char *what) {
    if (!right) {
        std::printf("wrong: %s\n", what);
        wrong = 1;
    }
}

static bool says(const char *failure, const char *part) { return failure != nullptr && std::strstr(failure, part) != nullptr; }

static void sums() {
    std::vector<float> rows(5 * 256), row_sums(5);
    std::vector<int> values(5 * 96), warp_sums(5);
    for (std::size_t i = 0; i < rows.size(); i++) {
        rows[i] = float(i % 17);
    }
    for (std::size_t i = 0; i < values.size(); i++) {
        values[i] = int(i * 7 % 101);
    }
    float *in = rows.data(), *out = row_sums.data();
    expect(launch("row_sums", 5, {256}, 0, {&in, &out}) == nullptr, "row_sums ends");
    int *ints = values.data(), *int_sums = warp_sums.data(), scale = 3;
    expect(launch("warp_sums", 5, {256}, 12, {&ints, &int_sums, &scale}) == nullptr, "warp_sums ends");
    for (unsigned row = 0; row < 5; row++) {
        float sum = 0;
        int int_sum = 0;
        for (unsigned i = 0; i < 256; i++) {
            sum += rows[row * 256 + i];
        }
        for (unsigned i = 0; i < 96; i++) {
            int_sum += 3 * values[row * 96 + i];
        }
        expect(row_sums[row] == sum, "row_sums");
        expect(warp_sums[row] == int_sum, "warp_sums");
    }
}

static void exchanges() {
    std::vector<unsigned> ballots(32);
    unsigned *out = ballots.data();
    expect(launch("votes", 1, {32}, 0, {&out}) == nullptr, "votes ends");
    expect(ballots[0] == 0xaaaau && ballots[15] == 0xaaaau, "the lower half's ballot");
    expect(ballots[16] == 0x11110000u + 31 && ballots[31] == 0x11110000u + 31, "the upper half's ballot");
}

static void faults() {
    expect(says(launch("half_the_threads_wait", 1, {32}, 0, {}), "never reach"), "a barrier that some never reach");
    int limit = 40;
    expect(says(launch("asserts", 1, {64}, 0, {&limit}), "assertion failed"), "an assertion");
    limit = 64;
    expect(launch("asserts", 1, {64}, 0, {&limit}) == nullptr, "an assertion that holds, after one that failed");
    expect(launch("writes_beyond", 1, {32}, 32, {}) == nullptr, "a write within shared memory");
    expect(says(launch("writes_beyond", 1, {32}, 31, {}), "beyond the 31 bytes"), "a write beyond shared memory");
    expect(launch("asserts", 1, {2048}, 0, {&limit}) != nullptr, "too many threads");
}

static void orders() {
    std::vector<int> forward(64), backward(64);
    int *out = forward.data();
    setenv("SCONCE_CUDA_ORDER", "forward", 1);
    launch("race", 1, {64}, 0, {&out});
    out = backward.data();
    setenv("SCONCE_CUDA_ORDER", "reverse", 1);
    launch("race", 1, {64}, 0, {&out});
    expect(forward != backward, "a race shows in the other order");
    unsetenv("SCONCE_CUDA_ORDER");
}

static void types() {
    std::vector<float> values = {1.00390625f, 1.01171875f, -3.0f, 500.0f, 0.3f, 1e-3f, 65519.0f, 0.0f}, converted(24);
    const float *in = values.data();
    float *out = converted.data();
    expect(launch("conversions", 1, {2, 2, 2}, 0, {&in, &out}) == nullptr, "conversions ends");
    // Ties go to even: 1 + 1/256 down, 1 + 3/256 up.
    expect(converted[0] == 1.0f && converted[3] == 1.015625f, "bfloat16 rounds to the nearest, ties to even");
    expect(converted[1] == 1.00390625f && converted[19] == 65504.0f, "half");
    expect(converted[2] == 1.0f && converted[8] == -3.0f && converted[11] == 448.0f && converted[14] == 0.3125f, "fp8");
    expect(converted[17] == 0.001953125f, "fp8, subnormal");
}

int main(int, char **arguments) {
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (library == nullptr) {
        std::printf("%s\n", dlerror());
        return 1;
    }
    kernels = reinterpret_cast<const cuda_shim_kernel *(*)(std::size_t *)>(dlsym(library, "cuda_shim_kernels"))(&count);
    expect(count == 8, "eight kernels are listed");
    sums();
    exchanges();
    faults();
    sums();
    orders();
    types();
    return wrong;
}
