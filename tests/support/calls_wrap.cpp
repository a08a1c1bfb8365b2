// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/calls_wrap.cpp: counts the calls of the CUDA runtime. For every function that an
// object calls, the linker (--wrap) sends the call to a stub here, which counts it and jumps on: no
// argument is touched, so that one stub serves all signatures. CALLS_LIST has a line CALL(name) for
// each of them; the Makefile makes it from the undefined symbols of the object, so that none is
// missed.
#include "calls.h"

#if defined(__x86_64__)
#define CALLS_COUNT_AND_JUMP(name)                                                                 \
    "lock incq calls_of_" #name "(%rip)\n"                                                         \
    "jmp __real_" #name "@PLT\n"
#elif defined(__aarch64__)
#define CALLS_COUNT_AND_JUMP(name) /* x9 to x17 hold no arguments */                               \
    "adrp x16, calls_of_" #name "\n"                                                               \
    "add x16, x16, :lo12:calls_of_" #name "\n"                                                     \
    "1: ldxr x17, [x16]\n"                                                                         \
    "add x17, x17, #1\n"                                                                           \
    "stxr w9, x17, [x16]\n"                                                                        \
    "cbnz w9, 1b\n"                                                                                \
    "b __real_" #name "\n"
#else
#error "a stub for this machine is missing"
#endif

#define CALL(name)                                                                                 \
    extern "C" long long calls_of_##name;                                                          \
    long long calls_of_##name = 0;                                                                 \
    __asm__(".pushsection .text\n"                                                                 \
            ".globl __wrap_" #name "\n"                                                            \
            ".type __wrap_" #name ", %function\n"                                                  \
            "__wrap_" #name ":\n" CALLS_COUNT_AND_JUMP(name) ".popsection\n");
#include CALLS_LIST
#undef CALL

const call_counter calls_table[] = {
#define CALL(name) {#name, &calls_of_##name},
#include CALLS_LIST
#undef CALL
};

const int calls_functions = (int)(sizeof calls_table / sizeof calls_table[0]);
