#!/usr/bin/env python3
"""Compiles every source of host/ops/cuda by NVRTC itself, which needs no GPU: compile_kernels.py CUDA_HOME [CAPABILITY…]

CUDA_HOME has lib64/libnvrtc.so* and bin/ptxas; capabilities are as 75 80 90, the default. Prints what the compiler says, and of each kernel
what ptxas makes of it: registers a thread, bytes spilled to memory, and shared memory of a fixed size. Status 1 if a
source is refused or warned about, or a kernel spills. The text and the options are those of host/ops/src/cuda/compilation/sources.rs.
"""

import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile


class Nvrtc:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        return "" if status == 0 else f"{name}: {self.library.nvrtcGetErrorString(status).decode()}"

    def result(self, program, of):
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{of}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{of}", program, buffer)
        return buffer.raw

    def compile(self, name, text, options):
        """The PTX and the compiler's messages."""
        program = ctypes.c_void_p()
        refused = self.call("nvrtcCreateProgram", ctypes.byref(program), text.encode(), name.encode(), 0, None, None)
        if refused:
            return "", refused
        words = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        refused = self.call("nvrtcCompileProgram", program, len(options), words)
        messages = self.result(program, "ProgramLog").rstrip(b"\0").decode() + refused
        ptx = "" if refused else self.result(program, "PTX").rstrip(b"\0").decode()
        if not refused and self.result(program, "CUBIN")[:4] != b"\x7fELF":
            messages += "no machine code"
        self.call("nvrtcDestroyProgram", ctypes.byref(program))
        return ptx, messages


def assembled(ptxas, ptx, capability):
    """What ptxas says of each kernel: name, registers, bytes spilled, bytes of static shared memory; and its refusal, or ''."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [ptxas, "-v", f"--gpu-name=sm_{capability}", "-o", "/dev/null", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [], done.stdout + done.stderr
    kernels = []
    for part in re.split(r"Compiling entry function '", done.stdout + done.stderr)[1:]:

        def number(pattern, part=part):
            found = re.search(pattern, part)
            return int(found.group(1)) if found else 0

        spilled = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
        name = part[: part.index("'")]
        kernels.append((name, number(r"Used (\d+) registers"), spilled, number(r"(\d+) bytes smem")))
    return kernels, ""


def first_capability(source):
    """The oldest capability that a source is for, as its head says."""
    found = re.search(r"For devices of capability (\d)\.(\d) and newer", source)
    return int(found.group(1) + found.group(2)) if found else 0


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    home = pathlib.Path(sys.argv[1])
    # NVRTC opens its built-in functions by their name alone; the loader finds what is open already.
    ctypes.CDLL(next(home.glob("lib*/libnvrtc-builtins.so.*")))
    nvrtc = Nvrtc(next(home.glob("lib*/libnvrtc.so.*")))
    capabilities = sys.argv[2:] or ["75", "80", "90"]
    folder = pathlib.Path(__file__).resolve().parents[2] / "host" / "ops" / "cuda"
    common = (folder / "common.cuh").read_text()
    options = (folder / "options.txt").read_text().split()
    status = 0
    for path in sorted(folder.glob("*.cu")):
        source = path.read_text()
        text = f'#line 1 "common.cuh"\n{common}\n#line 1 "{path.name}"\n{source}'
        for capability in capabilities:
            if int(capability) < first_capability(source):
                continue
            ptx, messages = nvrtc.compile(path.name, text, [f"--gpu-architecture=sm_{capability}", *options])
            kernels = []
            if ptx:
                kernels, refusal = assembled(home / "bin" / "ptxas", ptx, capability)
                messages += refusal
            print(f"{path.name} for {capability}: {len(kernels)} kernels, {len(ptx)} characters of PTX")
            for name, registers, spilled, shared in kernels:
                print(f"    {name}: {registers} registers, {spilled} bytes spilled, {shared} bytes of shared memory")
                status = status or int(spilled > 0)
            if messages.strip() or not kernels:
                print(messages)
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
