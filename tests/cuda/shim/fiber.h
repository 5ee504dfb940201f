// Stacks that one thread of the host switches among.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <sys/mman.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace cuda_shim {

// Of one fiber; lazily committed by the system, so that a thousand of them cost what their threads use.
constexpr std::size_t STACK_BYTES = 128 * 1024;

inline char *new_stack() {
    void *memory = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        std::abort();
    }
    return static_cast<char *>(memory);
}

#if defined(__x86_64__)

// Saves the registers that a call preserves, exchanges the stacks, restores.
using Context = void *;

__attribute__((naked, noinline)) static void switch_context(Context * /*from*/, Context * /*to*/) {
    asm(R"(
        pushq %rbp
        pushq %rbx
        pushq %r12
        pushq %r13
        pushq %r14
        pushq %r15
        movq %rsp, (%rdi)
        movq (%rsi), %rsp
        popq %r15
        popq %r14
        popq %r13
        popq %r12
        popq %rbx
        popq %rbp
        ret
    )");
}

// A context that runs `entry` on `stack` when first switched to; `entry` never returns.
inline void prepare(Context *context, char *stack, void (*entry)()) {
    // What `ret` finds, then an address at which a return from `entry` would fault; at entry the stack is 8 below a multiple of 16.
    void **top = reinterpret_cast<void **>(stack + STACK_BYTES) - 2;
    top[0] = reinterpret_cast<void *>(entry);
    top[1] = nullptr;
    *context = top - 6;
}

#else

using Context = ucontext_t;

inline void switch_context(Context *from, Context *to) { swapcontext(from, to); }

inline void prepare(Context *context, char *stack, void (*entry)()) {
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = STACK_BYTES;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
}

#endif

} // namespace cuda_shim
