// The driver's modules and launches: kernels that ../compile-kernels has compiled for the processor, found by name.
//
// A module's text is PTX. What our nvrtc gives names a library in its first line, as does what ../stand-in/nvcc makes of candle's sources;
// any other is candle's, whose kernels are in the libraries in `kernels/` beside this one: the module is that library which has all
// kernels of the text.

#include "../shim/launch_table.h"
#include "streams.h"

#include <dlfcn.h>

#include <filesystem>
#include <map>
#include <string_view>

using namespace emulated;

namespace {

struct Module {
    std::map<std::string, const cuda_shim_kernel *, std::less<>> kernels;
};

constexpr std::string_view MARK = "// sconce-emulated: ", ENTRY = ".entry ";

// Opens a library of kernels; its kernels by name.
Module *open_library(const std::string &path) {
    static std::map<std::string, Module *> *const opened = new std::map<std::string, Module *>;
    Module *&module = (*opened)[path];
    if (module != nullptr) {
        return module;
    }
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    using List = const cuda_shim_kernel *(*)(std::size_t *);
    const auto list = library == nullptr ? nullptr : reinterpret_cast<List>(dlsym(library, "cuda_shim_kernels"));
    if (list == nullptr) {
        refuse(INVALID_IMAGE, "cuModuleLoadData", path + ": " + dlerror());
        return nullptr;
    }
    std::size_t count = 0;
    const cuda_shim_kernel *kernels = list(&count);
    module = new Module;
    for (std::size_t i = 0; i < count; i++) {
        module->kernels[kernels[i].name] = &kernels[i];
    }
    return module;
}

// The directory of this library.
std::filesystem::path folder() {
    Dl_info here{};
    dladdr(reinterpret_cast<void *>(&folder), &here);
    return std::filesystem::path(here.dli_fname).parent_path();
}

// The libraries of candle's kernels.
std::vector<std::string> candle_libraries() {
    std::vector<std::string> paths;
    for (const auto &entry : std::filesystem::directory_iterator(folder() / "kernels")) {
        if (entry.path().extension() == ".so") {
            paths.push_back(entry.path());
        }
    }
    return paths;
}

bool has_all(const Module &module, std::string_view text) {
    for (std::size_t at = text.find(ENTRY); at != std::string_view::npos; at = text.find(ENTRY, at)) {
        at += ENTRY.size();
        const std::string_view name = text.substr(at, text.find_first_of("( \n", at) - at);
        // The headers in shim/ have no type of eight bits.
        const bool is_left_out = name.find("8_e4m3") != std::string_view::npos;
        if (!is_left_out && module.kernels.find(name) == module.kernels.end()) {
            return false;
        }
    }
    return true;
}

Module *load(std::string_view text) {
    if (text.substr(0, MARK.size()) == MARK) {
        const std::size_t end = text.find('\n');
        // One of candle's is named by its place beside this library.
        return open_library(folder() / text.substr(MARK.size(), end - MARK.size()));
    }
    for (const std::string &path : candle_libraries()) {
        Module *module = open_library(path);
        if (module != nullptr && has_all(*module, text)) {
            return module;
        }
    }
    return nullptr;
}

} // namespace

extern "C" {

Result cuModuleLoadData(void **module, const void *image) {
    const Guard guard(everything);
    *module = load(static_cast<const char *>(image));
    return *module != nullptr ? SUCCESS : refuse(INVALID_IMAGE, "cuModuleLoadData", "no library in kernels/ has all kernels of the module");
}
Result cuModuleUnload(void *) { return SUCCESS; }
Result cuModuleGetFunction(void **function, void *module, const char *name) {
    const auto &kernels = static_cast<Module *>(module)->kernels;
    const auto found = kernels.find(name);
    if (found == kernels.end()) {
        return refuse(NOT_FOUND, "cuModuleGetFunction", name);
    }
    *function = const_cast<cuda_shim_kernel *>(found->second);
    return SUCCESS;
}
Result cuModuleGetGlobal_v2(Address *, std::size_t *, void *, const char *name) {
    return refuse(NOT_FOUND, "cuModuleGetGlobal", name);
}
Result cuFuncGetAttribute(int *value, int attribute, void *) {
    // `CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`, then sizes, registers and versions, which nothing depends on.
    *value = attribute == 0 ? 1024 : 0;
    return SUCCESS;
}
Result cuFuncSetAttribute(void *, int, int) { return SUCCESS; }
Result cuFuncSetCacheConfig(void *, int) { return SUCCESS; }
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *, int, std::size_t) {
    *blocks = 2;
    return SUCCESS;
}
Result cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, void *, int, std::size_t, unsigned) {
    *blocks = 2;
    return SUCCESS;
}
Result cuOccupancyMaxPotentialBlockSize(int *blocks, int *threads, void *, void *, std::size_t, int) {
    *blocks = 4;
    *threads = 256;
    return SUCCESS;
}

Result cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                      unsigned shared_bytes, void *stream, void **arguments, void **) {
    const auto *kernel = static_cast<const cuda_shim_kernel *>(function);
    const std::uint64_t blocks = std::uint64_t{grid_x} * grid_y * grid_z, threads = std::uint64_t{block_x} * block_y * block_z;
    if (blocks == 0 || grid_y > 65535 || grid_z > 65535 || threads == 0 || threads > 1024 || block_z > 64 || shared_bytes > 227 * 1024) {
        return refuse(INVALID_VALUE, kernel->name,
                      std::to_string(blocks) + " blocks of " + std::to_string(threads) + " threads and " + std::to_string(shared_bytes) + " bytes");
    }
    struct Launch {
        unsigned grid[3], block[3];
        std::vector<std::vector<unsigned char>> values;
    };
    auto launch = std::make_shared<Launch>(Launch{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, {}});
    for (std::size_t i = 0; i < kernel->arguments; i++) {
        const auto *value = static_cast<const unsigned char *>(arguments[i]);
        launch->values.emplace_back(value, value + kernel->sizes[i]);
    }
    return enqueue(stream_of(stream), kernel->name, [=] {
        std::vector<void *> pointers;
        for (auto &value : launch->values) {
            pointers.push_back(value.data());
        }
        const char *why = kernel->launch(launch->grid, launch->block, shared_bytes, pointers.data());
        return why == nullptr ? std::string() : std::string(kernel->name) + ": " + why;
    });
}
Result cuLaunchCooperativeKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **) {
    return refuse(NOT_SUPPORTED, "cuLaunchCooperativeKernel", "blocks run one after another");
}

} // extern "C"
