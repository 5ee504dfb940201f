// Passes over collections of tensors, such as all parameters or all gradients: sums, changes and combinations in one launch.
//
// A table on the device lists the tensors; a second one cuts them into chunks, of which each block takes one. Every element is read once
// and, by changes, written once. Reductions are in double: each chunk's threads add what they see, the block adds its threads by a tree,
// and a second launch adds the chunks of each result, in an order that is always the same.
//
// A tensor may be divided into slices along one of its dimensions, each with a result or a factor of its own.

struct Vector {
    float *elements;
    const float *others; // of a combination
    unsigned long long length;
    unsigned slices;
    unsigned first;            // index of its first slice among those of all tensors
    unsigned long long inner;  // length of a run of one slice
};

struct Chunk {
    unsigned vector;
    unsigned slice; // to which a reduction is confined; ~0: to none
    unsigned long long start, end;
};

// As `Reduction` of host/ops/src/vectors.
enum Reduction { SQUARES, MAGNITUDES, POWERS, LARGEST, NOT_FINITE, NOT_A_NUMBER };

__device__ inline double term(unsigned reduction, float element, double order) {
    const double x = fabs(static_cast<double>(element));
    switch (reduction) {
    case SQUARES:
        return x * x;
    case MAGNITUDES:
    case LARGEST:
        return x;
    case POWERS:
        return pow(x, order);
    case NOT_FINITE:
        return element * 0.0f != 0.0f ? 1.0 : 0.0;
    default:
        return element != element ? 1.0 : 0.0;
    }
}

__device__ inline double joined(unsigned reduction, double a, double b) { return reduction == LARGEST ? Larger()(a, b) : a + b; }

// One block a chunk: the chunk's part of its result. Where the chunk has a slice, `start` and `end` count the elements of the slice.
extern "C" __global__ void reduce_chunks(const Vector *vectors, const Chunk *chunks, unsigned reduction, double order, double *parts) {
    const Chunk chunk = chunks[blockIdx.x];
    const Vector vector = vectors[chunk.vector];
    double result = 0.0;
    for (unsigned long long i = chunk.start + threadIdx.x; i < chunk.end; i += blockDim.x) {
        unsigned long long at = i;
        if (chunk.slice != ~0u) {
            at = (i / vector.inner * vector.slices + chunk.slice) * vector.inner + i % vector.inner;
        }
        result = joined(reduction, result, term(reduction, vector.elements[at], order));
    }
    result = reduction == LARGEST ? of_row(result, Larger()) : of_row(result, Add());
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = result;
    }
}

// A block a result: the fold of parts `starts[i]` to `starts[i + 1]`, of which each thread folds every 256th.
extern "C" __global__ void join_parts(const double *parts, const unsigned *starts, unsigned reduction, double *results) {
    double result = 0.0;
    for (unsigned part = starts[blockIdx.x] + threadIdx.x; part < starts[blockIdx.x + 1]; part += blockDim.x) {
        result = joined(reduction, result, parts[part]);
    }
    result = reduction == LARGEST ? of_row(result, Larger()) : of_row(result, Add());
    if (threadIdx.x == 0) {
        results[blockIdx.x] = result;
    }
}

__device__ inline unsigned slice_of(const Vector &vector, unsigned long long at) {
    return vector.slices == 1 ? 0 : static_cast<unsigned>(at / vector.inner % vector.slices);
}

// x · factor in double, a factor for each slice; one of 1 leaves the elements as they are.
extern "C" __global__ void scale(const Vector *vectors, const Chunk *chunks, const double *factors) {
    const Chunk chunk = chunks[blockIdx.x];
    const Vector vector = vectors[chunk.vector];
    for (unsigned long long i = chunk.start + threadIdx.x; i < chunk.end; i += blockDim.x) {
        const double factor = factors[vector.first + slice_of(vector, i)];
        if (factor != 1.0) {
            vector.elements[i] = static_cast<float>(vector.elements[i] * factor);
        }
    }
}

// x, but at least `lower` and at most `upper`; NaN stays.
extern "C" __global__ void clamp(const Vector *vectors, const Chunk *chunks, float lower, float upper) {
    const Chunk chunk = chunks[blockIdx.x];
    float *elements = vectors[chunk.vector].elements;
    for (unsigned long long i = chunk.start + threadIdx.x; i < chunk.end; i += blockDim.x) {
        float x = elements[i];
        x = x < lower ? lower : x;
        elements[i] = x > upper ? upper : x;
    }
}

extern "C" __global__ void fill(const Vector *vectors, const Chunk *chunks, float value) {
    const Chunk chunk = chunks[blockIdx.x];
    float *elements = vectors[chunk.vector].elements;
    for (unsigned long long i = chunk.start + threadIdx.x; i < chunk.end; i += blockDim.x) {
        elements[i] = value;
    }
}

// As `Combination` of host/ops/src/vectors.
enum Combination { ADD, BLEND, MULTIPLY, COPY };

extern "C" __global__ void combine(const Vector *vectors, const Chunk *chunks, unsigned combination, float weight) {
    const Chunk chunk = chunks[blockIdx.x];
    const Vector vector = vectors[chunk.vector];
    for (unsigned long long i = chunk.start + threadIdx.x; i < chunk.end; i += blockDim.x) {
        const float x = vector.elements[i], y = vector.others[i];
        float result = y;
        if (combination == ADD) {
            result = x + weight * y;
        } else if (combination == BLEND) {
            result = x + weight * (y - x);
        } else if (combination == MULTIPLY) {
            result = x * y;
        }
        vector.elements[i] = result;
    }
}
