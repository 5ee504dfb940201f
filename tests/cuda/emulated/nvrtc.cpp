// NVRTC (libnvrtc.so.13): compiles a CUDA source by ../compile-kernels. What it gives for PTX names the library of kernels.
//
// Libraries are kept in `nvrtc/` beside this one, by the source's hash: the source is compiled once.

#include <sys/wait.h>
#include <unistd.h>

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace {

// `nvrtcResult`.
enum Result : int { OK = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, COMPILATION = 6, INTERNAL_ERROR = 11 };

struct Program {
    std::string source, name, ptx, log;
};

std::filesystem::path folder() {
    Dl_info here{};
    dladdr(reinterpret_cast<void *>(&folder), &here);
    return std::filesystem::path(here.dli_fname).parent_path() / "nvrtc";
}

std::string quoted(const std::string &text) { return "'" + text + "'"; }

// FNV-1a.
std::string hash(const std::string &text) {
    unsigned long long value = 0xcbf29ce484222325;
    for (const unsigned char byte : text) {
        value = (value ^ byte) * 0x100000001b3;
    }
    char digits[17];
    std::snprintf(digits, sizeof(digits), "%016llx", value);
    return digits;
}

Result compile(Program &program) {
    const std::filesystem::path library = folder() / (hash(program.source + SHIM_VERSION) + ".so");
    if (!std::filesystem::exists(library)) {
        std::filesystem::create_directories(folder());
        // Of this process: another may compile the same.
        const std::string stem = library.string() + "." + std::to_string(getpid());
        const std::string source = stem + ".cu", made = stem + ".so", log = stem + ".log";
        std::ofstream(source) << program.source;
        const std::string command = quoted(COMPILE_KERNELS) + " " + quoted(made) + " " + quoted(source) + " >" + quoted(log) + " 2>&1";
        const int status = std::system(command.c_str());
        std::ifstream messages(log);
        program.log.assign(std::istreambuf_iterator<char>(messages), {});
        std::filesystem::remove(log);
        std::filesystem::remove(source);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            return COMPILATION;
        }
        std::filesystem::rename(made, library);
    }
    program.ptx = "// sconce-emulated: " + library.string() + "\n.version 9.2\n.target sm_80\n.address_size 64\n";
    return OK;
}

} // namespace

extern "C" {

Result nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 2;
    return OK;
}
Result nvrtcGetNumSupportedArchs(int *count) {
    *count = 2;
    return OK;
}
Result nvrtcGetSupportedArchs(int *capabilities) {
    capabilities[0] = 80;
    capabilities[1] = 90;
    return OK;
}
const char *nvrtcGetErrorString(Result result) {
    switch (result) {
    case OK: return "NVRTC_SUCCESS";
    case INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
    case INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
    case COMPILATION: return "NVRTC_ERROR_COMPILATION";
    default: return "NVRTC_ERROR_INTERNAL_ERROR";
    }
}
Result nvrtcCreateProgram(Program **program, const char *source, const char *name, int headers, const char *const *, const char *const *) {
    if (headers != 0) {
        return INVALID_INPUT;
    }
    *program = new Program{source, name == nullptr ? "source" : name, "", ""};
    return OK;
}
Result nvrtcDestroyProgram(Program **program) {
    delete *program;
    *program = nullptr;
    return OK;
}
Result nvrtcCompileProgram(Program *program, int, const char *const *) { return compile(*program); }
Result nvrtcGetPTXSize(Program *program, std::size_t *bytes) {
    *bytes = program->ptx.size() + 1;
    return program->ptx.empty() ? INVALID_PROGRAM : OK;
}
Result nvrtcGetPTX(Program *program, char *to) {
    std::memcpy(to, program->ptx.c_str(), program->ptx.size() + 1);
    return OK;
}
// Machine code is what PTX is: the library's name.
Result nvrtcGetCUBINSize(Program *program, std::size_t *bytes) { return nvrtcGetPTXSize(program, bytes); }
Result nvrtcGetCUBIN(Program *program, char *to) { return nvrtcGetPTX(program, to); }
Result nvrtcGetProgramLogSize(Program *program, std::size_t *bytes) {
    *bytes = program->log.size() + 1;
    return OK;
}
Result nvrtcGetProgramLog(Program *program, char *to) {
    std::memcpy(to, program->log.c_str(), program->log.size() + 1);
    return OK;
}

} // extern "C"
