// The driver's functions (libcuda.so.1) but for modules: devices, contexts, memory, streams, events. "CUDA Driver API" is their reference.

#include "streams.h"

#include <cstring>
#include <map>

using namespace emulated;

namespace {

thread_local void *current_context = nullptr;

struct Context {
    int device;
};

Context *context_of(int device) {
    static std::map<int, Context *> *const all = new std::map<int, Context *>;
    const Guard guard(everything);
    Context *&context = (*all)[device];
    if (context == nullptr) {
        context = new Context{device};
    }
    return context;
}

bool is_device(int device) { return device >= 0 && device < device_count(); }

// Major and minor number of a text such as `9.0`.
std::pair<int, int> version(const char *name, const char *otherwise) {
    const std::string text = setting(name, otherwise);
    const std::size_t dot = text.find('.');
    return {std::atoi(text.c_str()), dot == std::string::npos ? 0 : std::atoi(text.c_str() + dot + 1)};
}

const char *name_of(int result) {
    switch (result) {
    case SUCCESS: return "CUDA_SUCCESS";
    case INVALID_VALUE: return "CUDA_ERROR_INVALID_VALUE";
    case OUT_OF_MEMORY: return "CUDA_ERROR_OUT_OF_MEMORY";
    case NOT_INITIALIZED: return "CUDA_ERROR_NOT_INITIALIZED";
    case NO_DEVICE: return "CUDA_ERROR_NO_DEVICE";
    case INVALID_DEVICE: return "CUDA_ERROR_INVALID_DEVICE";
    case INVALID_IMAGE: return "CUDA_ERROR_INVALID_IMAGE";
    case INVALID_CONTEXT: return "CUDA_ERROR_INVALID_CONTEXT";
    case INVALID_HANDLE: return "CUDA_ERROR_INVALID_HANDLE";
    case NOT_FOUND: return "CUDA_ERROR_NOT_FOUND";
    case NOT_READY: return "CUDA_ERROR_NOT_READY";
    case ILLEGAL_ADDRESS: return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case ASSERT: return "CUDA_ERROR_ASSERT";
    case LAUNCH_FAILED: return "CUDA_ERROR_LAUNCH_FAILED";
    case NOT_SUPPORTED: return "CUDA_ERROR_NOT_SUPPORTED";
    default: return nullptr;
    }
}

Result allocated(Address *address, std::size_t bytes) {
    if (current_context == nullptr) {
        return INVALID_CONTEXT;
    }
    *address = allocate(current_device(), bytes);
    if (*address == 0) {
        // What was freed in the order of a stream is free once that has run.
        drain_all();
        *address = allocate(current_device(), bytes);
    }
    return *address != 0 ? SUCCESS : OUT_OF_MEMORY;
}

Result check(const char *function, Address address, std::size_t bytes) {
    return is_device_memory(address, bytes) ? SUCCESS : refuse(INVALID_VALUE, function, std::to_string(bytes) + " bytes that are not of one allocation");
}

void *pointer(Address address) { return reinterpret_cast<void *>(address); }

Result fill(Address address, const void *element, std::size_t size, std::size_t count, Stream *stream) {
    if (const Result result = check("memset", address, size * count)) {
        return result;
    }
    std::vector<unsigned char> bytes(size);
    std::memcpy(bytes.data(), element, size);
    return enqueue(stream, "memset", [=] {
        for (std::size_t i = 0; i < count; i++) {
            std::memcpy(static_cast<unsigned char *>(pointer(address)) + i * size, bytes.data(), size);
        }
        return std::string();
    });
}

Result copy_to_device(Address to, const void *from, std::size_t bytes, Stream *stream) {
    if (const Result result = check("memcpyHtoD", to, bytes)) {
        return result;
    }
    if (is_pinned(from, bytes)) {
        return enqueue(stream, "memcpyHtoD, pinned", [=] {
            std::memcpy(pointer(to), from, bytes);
            return std::string();
        });
    }
    // Memory that is not pinned is copied away before the call returns.
    const auto *start = static_cast<const unsigned char *>(from);
    auto staged = std::make_shared<std::vector<unsigned char>>(start, start + bytes);
    return enqueue(stream, "memcpyHtoD", [=] {
        std::memcpy(pointer(to), staged->data(), bytes);
        return std::string();
    });
}

Result copy_to_host(void *to, Address from, std::size_t bytes, Stream *stream) {
    if (const Result result = check("memcpyDtoH", from, bytes)) {
        return result;
    }
    const Result result = enqueue(stream, "memcpyDtoH", [=] {
        std::memcpy(to, pointer(from), bytes);
        return std::string();
    });
    return result != SUCCESS || is_pinned(to, bytes) ? result : drain(stream);
}

Result copy_on_device(Address to, Address from, std::size_t bytes, Stream *stream) {
    if (const Result result = check("memcpyDtoD, to", to, bytes)) {
        return result;
    }
    if (const Result result = check("memcpyDtoD, from", from, bytes)) {
        return result;
    }
    return enqueue(stream, "memcpyDtoD", [=] {
        std::memmove(pointer(to), pointer(from), bytes);
        return std::string();
    });
}

Event *event_of(void *handle) { return static_cast<Event *>(handle); }

} // namespace

namespace emulated {

int current_device() { return current_context == nullptr ? 0 : static_cast<Context *>(current_context)->device; }

} // namespace emulated

extern "C" {

// Devices and contexts.

Result cuInit(unsigned) { return device_count() > 0 ? SUCCESS : NO_DEVICE; }
Result cuDriverGetVersion(int *number) {
    const auto [major, minor] = version("SCONCE_CUDA_VERSION", "13.2");
    *number = major * 1000 + minor * 10;
    return SUCCESS;
}
Result cuGetErrorName(int result, const char **text) {
    *text = name_of(result);
    return *text != nullptr ? SUCCESS : INVALID_VALUE;
}
Result cuGetErrorString(int result, const char **text) {
    *text = result == OUT_OF_MEMORY ? "out of memory" : name_of(result);
    return *text != nullptr ? SUCCESS : INVALID_VALUE;
}
Result cuDeviceGetCount(int *count) {
    *count = device_count();
    return SUCCESS;
}
Result cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return is_device(ordinal) ? SUCCESS : INVALID_DEVICE;
}
Result cuDeviceGetName(char *text, int length, int) {
    std::snprintf(text, static_cast<std::size_t>(length), "Emulated device");
    return SUCCESS;
}
Result cuDeviceGetUuid_v2(char *bytes, int device) {
    std::memset(bytes, device, 16);
    return SUCCESS;
}
Result cuDeviceTotalMem_v2(std::size_t *bytes, int) {
    *bytes = memory_total();
    return SUCCESS;
}
Result cuDeviceGetAttribute(int *value, int attribute, int) {
    const auto [major, minor] = version("SCONCE_CUDA_CAPABILITY", "9.0");
    // The numbers are those of `CUdevice_attribute`.
    switch (attribute) {
    case 1: *value = 1024; break;                    // threads in a block
    case 2: case 3: *value = 1024; break;            // size of a block
    case 4: *value = 64; break;
    case 5: *value = 2147483647; break;              // size of a grid
    case 6: case 7: *value = 65535; break;
    case 8: *value = 48 * 1024; break;               // shared memory of a block
    case 97: *value = 227 * 1024; break;             // the same, on request
    case 81: *value = 228 * 1024; break;             // of a multiprocessor
    case 10: *value = 32; break;                     // threads in a warp
    case 12: case 82: *value = 65536; break;         // registers
    case 13: *value = 1'000'000; break;              // clock in kHz
    case 16: *value = 2; break;                      // multiprocessors
    case 39: *value = 2048; break;                   // threads of a multiprocessor
    case 75: *value = major; break;
    case 76: *value = minor; break;
    case 115: *value = 1; break;                     // memory pools
    default: *value = 0; break;
    }
    return SUCCESS;
}
Result cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = context_of(device);
    return is_device(device) ? SUCCESS : INVALID_DEVICE;
}
Result cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
Result cuCtxGetCurrent(void **context) {
    *context = current_context;
    return SUCCESS;
}
Result cuCtxSetCurrent(void *context) {
    current_context = context;
    return SUCCESS;
}
Result cuCtxGetDevice(int *device) {
    *device = current_device();
    return current_context != nullptr ? SUCCESS : INVALID_CONTEXT;
}
Result cuCtxSetFlags(unsigned) { return SUCCESS; }
Result cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    *least = *greatest = 0;
    return SUCCESS;
}
Result cuCtxSynchronize() { return drain_all(); }

// Memory.

Result cuMemGetInfo_v2(std::size_t *free, std::size_t *total) {
    // Unlike a device, which may still hold what is to be freed: figures that don't depend on the order of things.
    drain_all();
    *free = memory_free(current_device());
    *total = memory_total();
    return SUCCESS;
}
Result cuMemAlloc_v2(Address *address, std::size_t bytes) { return allocated(address, bytes); }
Result cuMemAllocAsync(Address *address, std::size_t bytes, void *) { return allocated(address, bytes); }
Result cuMemFree_v2(Address address) {
    drain_all();
    std::string why;
    const Result result = release(address, why);
    return result == SUCCESS ? result : refuse(result, "cuMemFree", why);
}
Result cuMemFreeAsync(Address address, void *stream) {
    return enqueue(stream_of(stream), "free", [=] {
        std::string why;
        release(address, why);
        return why;
    });
}
// The device's one pool. The attributes are `CU_MEMPOOL_ATTR_…`: reserved, the most reserved, used, the most used, in bytes.
Result cuDeviceGetDefaultMemPool(void **pool, int device) {
    *pool = context_of(device);
    return is_device(device) ? SUCCESS : INVALID_DEVICE;
}
Result cuDeviceGetMemPool(void **pool, int device) { return cuDeviceGetDefaultMemPool(pool, device); }
Result cuMemPoolGetAttribute(void *pool, int attribute, void *value) {
    const int device = static_cast<Context *>(pool)->device;
    drain_all();
    const std::uint64_t used = memory_total() - memory_free(device);
    switch (attribute) {
    case 5: case 7: *static_cast<std::uint64_t *>(value) = used; return SUCCESS;
    case 6: case 8: *static_cast<std::uint64_t *>(value) = memory_peak(device); return SUCCESS;
    case 4: *static_cast<std::uint64_t *>(value) = 0; return SUCCESS;
    default: *static_cast<int *>(value) = 0; return SUCCESS;
    }
}
Result cuMemPoolSetAttribute(void *pool, int attribute, void *) {
    if (attribute == 6 || attribute == 8) {
        forget_peak(static_cast<Context *>(pool)->device);
    }
    return SUCCESS;
}
Result cuMemPoolTrimTo(void *, std::size_t) { return SUCCESS; }
Result cuMemHostAlloc(void **address, std::size_t bytes, unsigned) {
    *address = allocate_pinned(bytes);
    return *address != nullptr ? SUCCESS : OUT_OF_MEMORY;
}
Result cuMemAllocHost_v2(void **address, std::size_t bytes) { return cuMemHostAlloc(address, bytes, 0); }
Result cuMemFreeHost(void *address) {
    // The driver waits for copies from and to it.
    drain_all();
    return release_pinned(address) ? SUCCESS : refuse(INVALID_VALUE, "cuMemFreeHost", "this memory is not pinned");
}
Result cuMemcpyHtoD_v2(Address to, const void *from, std::size_t bytes) {
    const Result result = copy_to_device(to, from, bytes, stream_of(nullptr));
    return result == SUCCESS ? drain(stream_of(nullptr)) : result;
}
Result cuMemcpyHtoDAsync_v2(Address to, const void *from, std::size_t bytes, void *stream) {
    return copy_to_device(to, from, bytes, stream_of(stream));
}
Result cuMemcpyDtoH_v2(void *to, Address from, std::size_t bytes) {
    const Result result = copy_to_host(to, from, bytes, stream_of(nullptr));
    return result == SUCCESS ? drain(stream_of(nullptr)) : result;
}
Result cuMemcpyDtoHAsync_v2(void *to, Address from, std::size_t bytes, void *stream) {
    return copy_to_host(to, from, bytes, stream_of(stream));
}
Result cuMemcpyDtoD_v2(Address to, Address from, std::size_t bytes) {
    return copy_on_device(to, from, bytes, stream_of(nullptr));
}
Result cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, void *stream) {
    return copy_on_device(to, from, bytes, stream_of(stream));
}
Result cuMemcpyPeerAsync(Address to, void *, Address from, void *, std::size_t bytes, void *stream) {
    return copy_on_device(to, from, bytes, stream_of(stream));
}
Result cuMemsetD8_v2(Address address, unsigned char value, std::size_t count) { return fill(address, &value, 1, count, stream_of(nullptr)); }
Result cuMemsetD8Async(Address address, unsigned char value, std::size_t count, void *stream) {
    return fill(address, &value, 1, count, stream_of(stream));
}
Result cuMemsetD32Async(Address address, unsigned value, std::size_t count, void *stream) {
    return fill(address, &value, 4, count, stream_of(stream));
}

// Streams and events.

Result cuStreamCreate(void **stream, unsigned flags) {
    // The flag is `CU_STREAM_NON_BLOCKING`.
    *stream = new_stream(current_device(), (flags & 1) == 0);
    return SUCCESS;
}
Result cuStreamCreateWithPriority(void **stream, unsigned flags, int) { return cuStreamCreate(stream, flags); }
Result cuStreamDestroy_v2(void *stream) {
    if (stream_of(stream) == nullptr) {
        return refuse(INVALID_HANDLE, "cuStreamDestroy", "there is no such stream");
    }
    delete_stream(stream);
    return SUCCESS;
}
Result cuStreamSynchronize(void *stream) { return drain(stream_of(stream)); }
Result cuStreamQuery(void *stream) { return stream_of(stream)->queue.empty() ? SUCCESS : NOT_READY; }
Result cuStreamIsCapturing(void *, int *is_capturing) {
    *is_capturing = 0;
    return SUCCESS;
}
Result cuStreamWaitEvent(void *stream, void *event, unsigned) { return wait(stream_of(stream), *event_of(event)); }
Result cuEventCreate(void **event, unsigned) {
    *event = new Event;
    return SUCCESS;
}
Result cuEventDestroy_v2(void *event) {
    const Guard guard(everything);
    delete event_of(event);
    return SUCCESS;
}
Result cuEventRecord(void *event, void *stream) { return record(*event_of(event), stream_of(stream)); }
Result cuEventQuery(void *event) {
    const Guard guard(everything);
    const auto place = event_of(event)->place;
    if (place == nullptr || place->is_reached) {
        return SUCCESS;
    }
    // Asked often enough, a device is done at last: some work is run for the next question.
    const Access access;
    for (int pieces = 0; pieces < 64 && !place->stream->queue.empty() && !place->is_reached; pieces++) {
        const Work work = std::move(place->stream->queue.front());
        place->stream->queue.pop_front();
        const std::string why = work();
        if (!why.empty()) {
            return refuse(LAUNCH_FAILED, "work", why);
        }
    }
    return NOT_READY;
}
Result cuEventSynchronize(void *event) {
    const Guard guard(everything);
    const auto place = event_of(event)->place;
    return place == nullptr || place->is_reached ? SUCCESS : drain(place->stream, place.get());
}
Result cuEventElapsedTime_v2(float *milliseconds, void *start, void *end) {
    const Guard guard(everything);
    const auto from = event_of(start)->place, to = event_of(end)->place;
    if (from == nullptr || to == nullptr) {
        return INVALID_HANDLE;
    }
    if (!from->is_reached || !to->is_reached) {
        return NOT_READY;
    }
    *milliseconds = static_cast<float>(to->at - from->at);
    return SUCCESS;
}
Result cuEventElapsedTime(float *milliseconds, void *start, void *end) { return cuEventElapsedTime_v2(milliseconds, start, end); }

} // extern "C"
