// An NVIDIA device and its driver, emulated: what the files of this folder share.
//
// Parts
// - device.h, memory.cpp: devices' memory, apart from the host's, with its limit; pinned memory of the host.
// - streams.h, streams.cpp: streams and events; work waits in its stream until somebody waits for it.
// - driver.cpp: the driver's functions, libcuda.so.1; modules.cpp: its modules and launches.
// - cublas.cpp, curand.cpp, nvrtc.cpp: the libraries of these names, which put work into streams. nccl.cpp: NCCL, which also connects the
//   processes of a run.
//
// Flow. Kernels are CUDA sources compiled for the processor (../compile-kernels): candle's beforehand, ours when nvrtc gets them. A launch
// copies its arguments and queues the kernel; when a stream is drained its work runs, in order, on the thread that drains it, while
// the devices' memory is accessible. At all other times an access to it ends the process, as does one of the host to memory of a GPU.
//
// Environment
// - SCONCE_CUDA_DEVICES: number of devices (1). SCONCE_CUDA_MEMORY: bytes of memory of each (4 GiB).
// - SCONCE_CUDA_CAPABILITY: compute capability (9.0). SCONCE_CUDA_VERSION: the driver's CUDA version (13.2).
// - SCONCE_CUDA_EAGER: any text; work runs when it is given, and memory stays accessible. Faster, and finds less.
// - SCONCE_CUDA_NO_DEVICE: any text; the driver finds no device.
// - SCONCE_CUDA_TRACE: any text; each piece of work is printed to stderr when it is queued.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

// The driver's results that the emulation gives (`CUresult`).
enum Result : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    ASSERT = 710,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
};

using Address = std::uint64_t;

namespace emulated {

// All state is behind one lock: work of two streams never runs at once.
extern std::recursive_mutex everything;
using Guard = std::lock_guard<std::recursive_mutex>;

// A text of the environment, or this one.
inline std::string setting(const char *name, const char *otherwise) {
    const char *text = std::getenv(name);
    return text != nullptr && *text != 0 ? text : otherwise;
}
inline bool is_set(const char *name) { return !setting(name, "").empty(); }

// Prints what is wrong with a call, and returns its result.
Result refuse(Result result, const char *function, const std::string &why);

int device_count();
std::size_t memory_total();
std::size_t memory_free(int device);
// The most memory that was used at once, and its beginning anew.
std::size_t memory_peak(int device);
void forget_peak(int device);

// Reserves memory of a device; its bytes are all ones, which is no number. 0 if there is not enough.
Address allocate(int device, std::size_t bytes);
// Gives memory back. Not successful if nothing begins there, or if something was written beyond its end.
Result release(Address address, std::string &why);
// Whether all of these bytes belong to one allocation of a device.
bool is_device_memory(Address address, std::size_t bytes);

void *allocate_pinned(std::size_t bytes);
bool release_pinned(void *address);
bool is_pinned(const void *address, std::size_t bytes);

// While one of these lives the devices' memory is accessible.
class Access {
  public:
    Access();
    ~Access();
    Access(const Access &) = delete;
    Access &operator=(const Access &) = delete;
};

} // namespace emulated
