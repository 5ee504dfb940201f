// Steps of optimizers over all parameters in one launch.
//
// A table on the device lists the parameters, each with its gradient, its moments and its hyper-parameters (learning rates differ from
// group to group); a second one cuts them into chunks, one a block. Every element is independent: what is read and written is what the
// formulas name, once. Formulas and their order are those of host/nn/src/optim, in float.

struct Parameter {
    float *parameter;
    const float *gradient;
    float *moments[3];
    // Of the rule, in the order in which its kernel reads them.
    float terms[8];
};

struct Chunk {
    unsigned parameter, unused;
    unsigned long long start, end;
};

template <class Rule> __device__ inline void step(const Parameter *parameters, const Chunk *chunks, Rule rule) {
    const Chunk chunk = chunks[blockIdx.x];
    const Parameter of = parameters[chunk.parameter];
    for (unsigned long long i = chunk.start + threadIdx.x; i < chunk.end; i += blockDim.x) {
        rule(of, i);
    }
}

struct Sgd {
    // learning rate, weight decay, momentum, kept and fresh part of the momentum, 1 for Nesterov's
    __device__ void operator()(const Parameter &of, unsigned long long i) const {
        const float p = of.parameter[i], g = of.gradient[i] + of.terms[1] * p;
        float direction = g;
        if (of.terms[2] != 0.0f) {
            const float b = of.terms[3] * of.moments[0][i] + of.terms[4] * g;
            of.moments[0][i] = b;
            direction = of.terms[5] != 0.0f ? g + of.terms[2] * b : b;
        }
        of.parameter[i] = p - of.terms[0] * direction;
    }
};

// Adam's moments; returns the direction of its step.
__device__ inline float adam_direction(const Parameter &of, unsigned long long i, float g) {
    const float m = of.terms[1] * of.moments[0][i] + of.terms[2] * g;
    const float v = of.terms[3] * of.moments[1][i] + of.terms[4] * (g * g);
    of.moments[0][i] = m;
    of.moments[1][i] = v;
    return m / (sqrtf(v) * of.terms[6] + of.terms[7]);
}

struct Adam {
    // weight decay, β₁, 1 − β₁, β₂, 1 − β₂, step size, bias correction of the second moment, ε
    __device__ void operator()(const Parameter &of, unsigned long long i) const {
        const float p = of.parameter[i];
        of.parameter[i] = p - of.terms[5] * adam_direction(of, i, of.gradient[i] + of.terms[0] * p);
    }
};

struct AdamW {
    // what a parameter is multiplied by, then as Adam
    __device__ void operator()(const Parameter &of, unsigned long long i) const {
        const float p = of.parameter[i];
        of.parameter[i] = p * of.terms[0] - of.terms[5] * adam_direction(of, i, of.gradient[i]);
    }
};

struct Lion {
    // what a parameter is multiplied by, β₁, 1 − β₁, β₂, 1 − β₂, learning rate
    __device__ void operator()(const Parameter &of, unsigned long long i) const {
        const float p = of.parameter[i], g = of.gradient[i], m = of.moments[0][i];
        const float mixed = of.terms[1] * m + of.terms[2] * g;
        const float direction = mixed > 0.0f ? 1.0f : mixed < 0.0f ? -1.0f : mixed;
        of.parameter[i] = p * of.terms[0] - of.terms[5] * direction;
        of.moments[0][i] = of.terms[3] * m + of.terms[4] * g;
    }
};

struct RmsProp {
    // learning rate, weight decay, α, 1 − α, ε, momentum, 1 if centred, 1 if it has a momentum
    __device__ void operator()(const Parameter &of, unsigned long long i) const {
        const float p = of.parameter[i], g = of.gradient[i] + of.terms[1] * p;
        const float v = of.terms[2] * of.moments[0][i] + of.terms[3] * (g * g);
        of.moments[0][i] = v;
        const bool centred = of.terms[6] != 0.0f;
        float spread = v;
        if (centred) {
            const float a = of.terms[2] * of.moments[1][i] + of.terms[3] * g;
            of.moments[1][i] = a;
            spread = v - a * a;
            spread = spread < 0.0f ? 0.0f : spread;
        }
        float direction = g / (sqrtf(spread) + of.terms[4]);
        if (of.terms[7] != 0.0f) {
            float *buffer = centred ? of.moments[2] : of.moments[1];
            direction = of.terms[5] * buffer[i] + direction;
            buffer[i] = direction;
        }
        of.parameter[i] = p - of.terms[0] * direction;
    }
};

extern "C" __global__ void sgd(const Parameter *parameters, const Chunk *chunks) { step(parameters, chunks, Sgd()); }
extern "C" __global__ void adam(const Parameter *parameters, const Chunk *chunks) { step(parameters, chunks, Adam()); }
extern "C" __global__ void adamw(const Parameter *parameters, const Chunk *chunks) { step(parameters, chunks, AdamW()); }
extern "C" __global__ void lion(const Parameter *parameters, const Chunk *chunks) { step(parameters, chunks, Lion()); }
extern "C" __global__ void rmsprop(const Parameter *parameters, const Chunk *chunks) { step(parameters, chunks, RmsProp()); }
