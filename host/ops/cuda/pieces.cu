// Pieces of gradients that ranks exchange: copies into and out of buffers, and additions in a fixed order; one launch each.
//
// Tables on the device list the parts of a copy, or the ranges of a sum with their additions; another cuts these into chunks, one a block.
// Copies read and write every element once. A sum's thread makes all additions of its element, one after the other: each reads two
// elements and writes one, of neighbouring threads in neighbouring places. Which elements are added in which order is the caller's
// (`gradients::additions` of sconce-nn); every addition rounds as the CPU's.

struct Part {
    const void *from;
    void *to;
};

struct Chunk {
    unsigned of, unused; // which part or range
    unsigned long long start, end;
};

__device__ inline void convert(float value, float *to) { *to = value; }
__device__ inline void convert(double value, double *to) { *to = value; }
__device__ inline void convert(bf16 value, bf16 *to) { *to = value; }
__device__ inline void convert(float value, bf16 *to) { narrow(value, to); }
__device__ inline void convert(bf16 value, float *to) { *to = widen(value); }

template <class From, class To> __device__ inline void copy(const Part *parts, const Chunk *chunks) {
    const Chunk chunk = chunks[blockIdx.x];
    const Part part = parts[chunk.of];
    const From *from = static_cast<const From *>(part.from);
    To *to = static_cast<To *>(part.to);
    for (unsigned long long i = chunk.start + threadIdx.x; i < chunk.end; i += blockDim.x) {
        convert(from[i], to + i);
    }
}

extern "C" __global__ void copy_f32(const Part *parts, const Chunk *chunks) { copy<float, float>(parts, chunks); }
extern "C" __global__ void copy_f64(const Part *parts, const Chunk *chunks) { copy<double, double>(parts, chunks); }
extern "C" __global__ void copy_bf16(const Part *parts, const Chunk *chunks) { copy<bf16, bf16>(parts, chunks); }
extern "C" __global__ void copy_f32_to_bf16(const Part *parts, const Chunk *chunks) { copy<float, bf16>(parts, chunks); }
extern "C" __global__ void copy_bf16_to_f32(const Part *parts, const Chunk *chunks) { copy<bf16, float>(parts, chunks); }

struct Range {
    unsigned long long start;
    unsigned first, last; // its additions, the last not included
};

struct Addition {
    unsigned sum, added;         // nodes
    unsigned long long is_first; // 1: there is nothing at the sum yet
};

// `data` has the elements of one node after the other, `length` of each. A chunk counts from its range's start.
template <class T>
__device__ inline void add(T *data, unsigned long long length, const Range *ranges, const Addition *additions, const Chunk *chunks) {
    const Chunk chunk = chunks[blockIdx.x];
    const Range range = ranges[chunk.of];
    for (unsigned long long i = chunk.start + threadIdx.x; i < chunk.end; i += blockDim.x) {
        T *element = data + range.start + i;
        for (unsigned at = range.first; at < range.last; at++) {
            const Addition addition = additions[at];
            T *sum = element + addition.sum * length;
            const T added = element[addition.added * length];
            *sum = addition.is_first != 0 ? added : *sum + added;
        }
    }
}

extern "C" __global__ void add_f32(float *data, unsigned long long length, const Range *ranges, const Addition *additions, const Chunk *chunks) {
    add(data, length, ranges, additions, chunks);
}
extern "C" __global__ void add_f64(double *data, unsigned long long length, const Range *ranges, const Addition *additions, const Chunk *chunks) {
    add(data, length, ranges, additions, chunks);
}
