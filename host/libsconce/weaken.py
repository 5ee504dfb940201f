#!/usr/bin/env python3
"""Makes the symbols of Python that a library needs weak, in place: they are Python's own where Python opens the library, and nothing, and
not used, where another program does. Linkers have no option for that which all of them have.

usage: host/libsconce/weaken.py LIBRARY    a 64-bit ELF file, little-endian; one that is weak already stays as it is
"""
import struct, sys

SECTION_DYNSYM = 11
SYMBOL = struct.Struct("<IBBHQQ")
WEAK = 2


def sections(data):
    """Type, offset, size and link of each section."""
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    for index in range(count):
        fields = struct.unpack_from("<IIQQQQII", data, start + index * size)
        yield fields[1], fields[4], fields[5], fields[6]


def weaken(data):
    """Changes the symbols; returns how many are weak."""
    if data[:6] != b"\x7fELF\x02\x01":
        sys.exit("not a 64-bit ELF file, little-endian")
    table = list(sections(data))
    changed = 0
    for kind, offset, size, link in table:
        if kind != SECTION_DYNSYM:
            continue
        names = table[link][1]
        for place in range(offset, offset + size, SYMBOL.size):
            name, info, other, section, value, length = SYMBOL.unpack_from(data, place)
            text = data[names + name : data.index(b"\0", names + name)]
            if section == 0 and text.startswith((b"Py", b"_Py")):
                SYMBOL.pack_into(data, place, name, info & 15 | WEAK << 4, other, section, value, length)
                changed += 1
    return changed


def main():
    with open(sys.argv[1], "r+b") as file:
        data = bytearray(file.read())
        if not weaken(data):
            sys.exit(f"{sys.argv[1]} needs no symbol of Python: is it another library?")
        file.seek(0)
        file.write(data)


main()
