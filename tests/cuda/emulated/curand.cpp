// cuRAND's generator (libcurand.so.10), with other values: candle makes one for each device, and Sconce draws nothing from it.

#include "streams.h"

#include <cmath>
#include <cstring>

namespace {

// `curandStatus_t`.
enum Status : int { OK = 0, NOT_INITIALIZED = 101, OUT_OF_RANGE = 104, LAUNCH_FAILURE = 201 };

struct Generator {
    void *stream = nullptr;
    std::uint64_t seed = 0, drawn = 0;
};

// SplitMix64: the value of this counter.
std::uint64_t draw(std::uint64_t seed, std::uint64_t counter) {
    std::uint64_t value = seed + (counter + 1) * 0x9e3779b97f4a7c15;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    return value ^ value >> 31;
}

// In (0, 1], as cuRAND's.
double uniform(std::uint64_t seed, std::uint64_t counter) { return static_cast<double>((draw(seed, counter) >> 11) + 1) / 9007199254740992.0; }

template <class T> Status generate(Generator *generator, Address to, std::size_t count, bool is_normal, double mean, double deviation) {
    if (!sconce_emulated_is_device_memory(to, count * sizeof(T))) {
        return OUT_OF_RANGE;
    }
    struct Job {
        Generator from;
        Address to;
        std::size_t count;
        bool is_normal;
        double mean, deviation;
    };
    auto *job = new Job{*generator, to, count, is_normal, mean, deviation};
    generator->drawn += 2 * count;
    const int result = sconce_emulated_enqueue(
        generator->stream, "random numbers",
        [](void *argument) {
            const auto *it = static_cast<Job *>(argument);
            for (std::size_t i = 0; i < it->count; i++) {
                const std::uint64_t at = it->from.drawn + 2 * i;
                double value = uniform(it->from.seed, at);
                if (it->is_normal) {
                    value = it->mean + it->deviation * std::sqrt(-2 * std::log(value)) * std::cos(6.283185307179586 * uniform(it->from.seed, at + 1));
                }
                reinterpret_cast<T *>(it->to)[i] = static_cast<T>(value);
            }
            delete it;
        },
        job);
    return result == 0 ? OK : LAUNCH_FAILURE;
}

} // namespace

extern "C" {

Status curandCreateGenerator(Generator **generator, int) {
    *generator = new Generator;
    return OK;
}
Status curandDestroyGenerator(Generator *generator) {
    delete generator;
    return OK;
}
Status curandSetStream(Generator *generator, void *stream) {
    generator->stream = stream;
    return OK;
}
Status curandSetPseudoRandomGeneratorSeed(Generator *generator, unsigned long long seed) {
    generator->seed = seed;
    generator->drawn = 0;
    return OK;
}
Status curandSetGeneratorOffset(Generator *generator, unsigned long long offset) {
    generator->drawn = 2 * offset;
    return OK;
}
Status curandGenerateUniform(Generator *generator, Address to, std::size_t count) { return generate<float>(generator, to, count, false, 0, 1); }
Status curandGenerateUniformDouble(Generator *generator, Address to, std::size_t count) { return generate<double>(generator, to, count, false, 0, 1); }
Status curandGenerateNormal(Generator *generator, Address to, std::size_t count, float mean, float deviation) {
    return generate<float>(generator, to, count, true, mean, deviation);
}
Status curandGenerateNormalDouble(Generator *generator, Address to, std::size_t count, double mean, double deviation) {
    return generate<double>(generator, to, count, true, mean, deviation);
}

} // extern "C"
