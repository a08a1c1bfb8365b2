// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/calls.h: how often each function of the CUDA runtime was called, by an object that
// is linked with calls_wrap.cpp.
#ifndef SPIRA_TESTS_CALLS_H
#define SPIRA_TESTS_CALLS_H

struct call_counter {
    const char *name;
    const long long *count;
};

extern const call_counter calls_table[];
extern const int calls_functions; // of the table

#endif
