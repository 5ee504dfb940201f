"""Words of the scheme of attention's dropout (host/ops/src/options/attention/dropout.rs), by another program.

Run `python3 tests/reference/attention_dropout.py`; the test `the_scheme_is_kept` has its output.
"""

MASK = (1 << 64) - 1
LOW = (1 << 32) - 1


def row(key, head, query):
    z = (key + (head << 32 | query) * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    z ^= z >> 31
    return z & LOW, z >> 32


def word(key, head, query, index):
    low, high = row(key, head, query)
    x = low + index * 0x9E3779B9 & LOW
    x = (x ^ x >> 16) * 0x7FEB352D & LOW ^ high
    x = (x ^ x >> 15) * 0x846CA68B & LOW
    return x ^ x >> 16


for place in [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (37, 255, 1023)]:
    print(f"{word(0x0123456789ABCDEF, *place):#010x}")
