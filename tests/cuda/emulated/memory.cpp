// Devices' memory: one range of addresses for each device, inaccessible but for the time that work runs.

#include "device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <vector>

namespace emulated {

std::recursive_mutex everything;

namespace {

// Allocations begin at multiples of this, as the driver's do.
constexpr std::size_t ALIGNMENT = 512;
// Bytes after each allocation that are compared when it is released.
constexpr std::size_t GUARD_BYTES = 256;
constexpr unsigned char GUARD_BYTE = 0xa5, UNINITIALIZED = 0xff;

struct Arena {
    unsigned char *base = nullptr;
    std::size_t length = 0;
    std::size_t used = 0, peak = 0;
    std::map<std::size_t, std::size_t> holes; // offset → bytes
};

struct Allocation {
    int device;
    std::size_t bytes;    // asked for
    std::size_t reserved; // with what follows
};

struct State {
    std::map<int, Arena> arenas;
    std::map<Address, Allocation> allocations;
    std::map<std::uintptr_t, std::size_t> pinned;
    std::vector<Address> unfilled; // allocations whose bytes are to be set when memory is accessible
    int accesses = 0;
};

State &state() {
    // Never destroyed: objects of the program may be released after `main`.
    static State *const the = new State;
    return *the;
}

bool is_accessible();

std::size_t rounded(std::size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

Arena &arena(int device) {
    Arena &it = state().arenas[device];
    if (it.base == nullptr) {
        // Twice the memory: guards and holes are not what a limit is about.
        it.length = rounded(2 * memory_total() + (64 << 20));
        const int protection = is_accessible() ? PROT_READ | PROT_WRITE : PROT_NONE;
        void *base = mmap(nullptr, it.length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) {
            std::fputs("emulated device: no addresses for its memory\n", stderr);
            std::abort();
        }
        it.base = static_cast<unsigned char *>(base);
        it.holes[0] = it.length;
    }
    return it;
}

void protect(int protection) {
    for (auto &[device, arena] : state().arenas) {
        if (arena.base != nullptr && mprotect(arena.base, arena.length, protection) != 0) {
            std::perror("emulated device: mprotect");
            std::abort();
        }
    }
}

bool is_accessible() { return state().accesses > 0 || is_set("SCONCE_CUDA_EAGER"); }

// Sets the bytes of new allocations, and of what follows them.
void fill() {
    for (const Address address : state().unfilled) {
        const auto found = state().allocations.find(address);
        if (found != state().allocations.end()) {
            auto *start = reinterpret_cast<unsigned char *>(address);
            std::memset(start, UNINITIALIZED, found->second.bytes);
            std::memset(start + found->second.bytes, GUARD_BYTE, GUARD_BYTES);
        }
    }
    state().unfilled.clear();
}

} // namespace

Access::Access() {
    everything.lock();
    if (state().accesses++ == 0 && !is_set("SCONCE_CUDA_EAGER")) {
        protect(PROT_READ | PROT_WRITE);
    }
    fill();
}

Access::~Access() {
    if (--state().accesses == 0 && !is_set("SCONCE_CUDA_EAGER")) {
        protect(PROT_NONE);
    }
    everything.unlock();
}

int device_count() { return is_set("SCONCE_CUDA_NO_DEVICE") ? 0 : std::atoi(setting("SCONCE_CUDA_DEVICES", "1").c_str()); }

std::size_t memory_total() { return std::strtoull(setting("SCONCE_CUDA_MEMORY", "4294967296").c_str(), nullptr, 10); }

std::size_t memory_free(int device) {
    const Guard guard(everything);
    const std::size_t used = arena(device).used;
    return used < memory_total() ? memory_total() - used : 0;
}

std::size_t memory_peak(int device) {
    const Guard guard(everything);
    return arena(device).peak;
}

void forget_peak(int device) {
    const Guard guard(everything);
    arena(device).peak = arena(device).used;
}

Address allocate(int device, std::size_t bytes) {
    const Guard guard(everything);
    Arena &from = arena(device);
    const std::size_t counted = rounded(bytes == 0 ? 1 : bytes);
    const std::size_t reserved = rounded(counted + GUARD_BYTES);
    if (counted > memory_total() || from.used > memory_total() - counted) {
        return 0;
    }
    auto hole = from.holes.begin();
    while (hole != from.holes.end() && hole->second < reserved) {
        ++hole;
    }
    if (hole == from.holes.end()) {
        return 0;
    }
    const auto [offset, length] = *hole;
    from.holes.erase(hole);
    if (length > reserved) {
        from.holes[offset + reserved] = length - reserved;
    }
    from.used += counted;
    from.peak = std::max(from.peak, from.used);
    const Address address = reinterpret_cast<Address>(from.base + offset);
    state().allocations[address] = {device, bytes, reserved};
    state().unfilled.push_back(address);
    if (is_accessible()) {
        fill();
    }
    return address;
}

Result release(Address address, std::string &why) {
    const Guard guard(everything);
    const auto found = state().allocations.find(address);
    if (found == state().allocations.end()) {
        why = "no allocation begins there";
        return INVALID_VALUE;
    }
    const Allocation it = found->second;
    state().allocations.erase(found);
    Arena &to = arena(it.device);
    const unsigned char *start = reinterpret_cast<unsigned char *>(address);
    bool is_intact = true;
    {
        const Access access;
        for (std::size_t byte = 0; byte < GUARD_BYTES; byte++) {
            is_intact = is_intact && start[it.bytes + byte] == GUARD_BYTE;
        }
        if (it.reserved >= (1 << 20)) {
            madvise(reinterpret_cast<void *>(address), it.reserved & ~std::size_t{4095}, MADV_DONTNEED);
        }
    }
    to.used -= rounded(it.bytes == 0 ? 1 : it.bytes);
    std::size_t offset = static_cast<std::size_t>(start - to.base), length = it.reserved;
    auto next = to.holes.lower_bound(offset);
    if (next != to.holes.end() && next->first == offset + length) {
        length += next->second;
        next = to.holes.erase(next);
    }
    if (next != to.holes.begin()) {
        const auto before = std::prev(next);
        if (before->first + before->second == offset) {
            offset = before->first;
            length += before->second;
            to.holes.erase(before);
        }
    }
    to.holes[offset] = length;
    if (!is_intact) {
        why = "a kernel wrote beyond the end of an allocation of " + std::to_string(it.bytes) + " bytes";
        return ILLEGAL_ADDRESS;
    }
    return SUCCESS;
}

bool is_device_memory(Address address, std::size_t bytes) {
    const Guard guard(everything);
    auto found = state().allocations.upper_bound(address);
    if (found == state().allocations.begin()) {
        return false;
    }
    --found;
    const std::size_t offset = address - found->first;
    return offset <= found->second.bytes && bytes <= found->second.bytes - offset;
}

void *allocate_pinned(std::size_t bytes) {
    const Guard guard(everything);
    void *address = std::aligned_alloc(4096, (bytes + 4096) / 4096 * 4096);
    if (address != nullptr) {
        state().pinned[reinterpret_cast<std::uintptr_t>(address)] = bytes;
    }
    return address;
}

bool release_pinned(void *address) {
    const Guard guard(everything);
    if (state().pinned.erase(reinterpret_cast<std::uintptr_t>(address)) == 0) {
        return false;
    }
    std::free(address);
    return true;
}

bool is_pinned(const void *address, std::size_t bytes) {
    const Guard guard(everything);
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    auto found = state().pinned.upper_bound(at);
    if (found == state().pinned.begin()) {
        return false;
    }
    --found;
    return at - found->first <= found->second && bytes <= found->second - (at - found->first);
}

Result refuse(Result result, const char *function, const std::string &why) {
    std::fprintf(stderr, "emulated device: %s: %s\n", function, why.c_str());
    return result;
}

} // namespace emulated
