// Random factors from the keyed streams of host/ops/src/random.rs, with the same bits: ChaCha with eight rounds (Bernstein, "ChaCha, a
// variant of Salsa20", 2008), a thread a block of sixteen words, which are eight numbers of 64 bits.

struct Key {
    unsigned words[8];
};

__device__ inline unsigned rotated(unsigned word, unsigned by) { return word << by | word >> (32 - by); }

__device__ inline void quarter_round(unsigned &a, unsigned &b, unsigned &c, unsigned &d) {
    a += b;
    d = rotated(d ^ a, 16);
    c += d;
    b = rotated(b ^ c, 12);
    a += b;
    d = rotated(d ^ a, 8);
    c += d;
    b = rotated(b ^ c, 7);
}

// Block `counter` of stream 0.
__device__ inline void chacha8(const Key &key, unsigned long long counter, unsigned (&out)[16]) {
    unsigned in[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    for (unsigned i = 0; i < 8; i++) {
        in[4 + i] = key.words[i];
    }
    in[12] = static_cast<unsigned>(counter);
    in[13] = static_cast<unsigned>(counter >> 32);
    in[14] = 0;
    in[15] = 0;
    for (unsigned i = 0; i < 16; i++) {
        out[i] = in[i];
    }
#pragma unroll
    for (unsigned round = 0; round < 8; round += 2) {
        for (unsigned i = 0; i < 4; i++) {
            quarter_round(out[i], out[4 + i], out[8 + i], out[12 + i]);
        }
        for (unsigned i = 0; i < 4; i++) {
            quarter_round(out[i], out[4 + (i + 1) % 4], out[8 + (i + 2) % 4], out[12 + (i + 3) % 4]);
        }
    }
    for (unsigned i = 0; i < 16; i++) {
        out[i] += in[i];
    }
}

// `scale` where the i-th number of the stream, the upper 53 bits of its i-th word of 64 as a fraction, is at least `share`, else 0.
extern "C" __global__ void dropout_factors(float *factors, unsigned long long count, const Key *key, double share, float scale) {
    const unsigned long long block = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (block * 8 >= count) {
        return;
    }
    unsigned words[16];
    chacha8(*key, block, words);
    float out[8];
#pragma unroll
    for (unsigned i = 0; i < 8; i++) {
        const unsigned long long bits = words[2 * i] | static_cast<unsigned long long>(words[2 * i + 1]) << 32;
        const double number = static_cast<double>(bits >> 11) * (1.0 / 9007199254740992.0);
        out[i] = number >= share ? scale : 0.0f;
    }
    if (block * 8 + 8 <= count) {
        float4 *to = reinterpret_cast<float4 *>(factors + block * 8);
        to[0] = make_float4(out[0], out[1], out[2], out[3]);
        to[1] = make_float4(out[4], out[5], out[6], out[7]);
        return;
    }
    for (unsigned i = 0; i < 8 && block * 8 + i < count; i++) {
        factors[block * 8 + i] = out[i];
    }
}
