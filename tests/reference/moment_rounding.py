"""Moments rounded to bf16 by the scheme of host/nn/src/optim/narrow.rs, by another program.

Run `python3 tests/reference/moment_rounding.py`; the test `the_scheme_is_kept` has its output.
"""

import hashlib
import struct

MASK = (1 << 64) - 1
LOW = (1 << 32) - 1


def chacha8(key):
    """The first 64 bits of ChaCha8 with this key, stream 0 and block 0."""

    def quarter(s, a, b, c, d):
        for x, y, z, turn in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)]:
            s[x] = s[x] + s[y] & LOW
            s[z] ^= s[x]
            s[z] = s[z] << turn & LOW | s[z] >> 32 - turn

    start = list(struct.unpack("<16I", b"expand 32-byte k" + key + bytes(16)))
    state = start[:]
    for _ in range(4):
        for column in range(4):
            quarter(state, column, column + 4, column + 8, column + 12)
        for column in range(4):
            quarter(state, column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    first, second = (x + y & LOW for x, y in zip(state[:2], start[:2]))
    return first | second << 32


def stream(seed, purpose, epoch, iteration):
    name = purpose.encode()
    head = b"sconce.random/1" + struct.pack("<QQ", seed, len(name))
    return chacha8(hashlib.sha256(head + name + struct.pack("<QQ", epoch, iteration)).digest())


def word(key, index):
    z = key + (index // 1024 + 1) * 0x9E3779B97F4A7C15 & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    z ^= z >> 31
    x = (z & LOW) + index % 1024 * 0x9E3779B9 & LOW
    x = (x ^ x >> 16) * 0x7FEB352D & LOW ^ z >> 32
    x = (x ^ x >> 15) * 0x846CA68B & LOW
    return x ^ x >> 16


def single(x):
    """The bits of a number in `f32`."""
    return struct.unpack("<I", struct.pack("<f", x))[0]


# As host/ops/src/random.rs has it.
assert stream(1, "init/fc1.weight", 2, 3) == 0x65C319B87185E829
key = stream(11, "moments/m.w", 0, 1)
# The first step of Adam's from a gradient of 2.28125.
beta1, beta2 = (struct.unpack("<f", struct.pack("<f", 1.0 - beta))[0] for beta in (0.9, 0.999))
first, second = single(beta1 * 2.28125), single(beta2 * 2.28125**2)
for index in [0, 1, 2, 3, 1022, 1023, 1024, 1025, 2046, 2047, 2498, 2499]:
    drawn = word(key, index)
    print(f"[{first + (drawn & 0xFFFF) >> 16:#x}, {second + (drawn >> 16) >> 16:#x}],")
