// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/workspace.h: carves typed arrays out of the caller's scratch memory.
//
// Each operation has one function that carves its scratch. Run over a null base it only counts,
// and the count is what the `*_workspace` function returns; run over the caller's memory it gives
// the pointers. The two cannot disagree.
#ifndef SPIRA_WORKSPACE_H
#define SPIRA_WORKSPACE_H

#include "base/integer.h"
#include "status.h"

namespace spira {

// Every array starts on this boundary, as the base must: on the device, where cudaMalloc aligns so,
// and on the host alike (aligned_alloc).
enum { workspace_alignment = 256 };

struct workspace {
    char *base;  // null while only counting
    size_t used; // bytes, a multiple of workspace_alignment
};

SPIRA_API workspace workspace_begin(void *base) {
    workspace w = {(char *)base, 0};
    return w;
}

// An array of `count` elements, not initialised; null while only counting.
template <typename T>
SPIRA_API T *workspace_take(workspace *w, int64_t count) {
    T *p = w->base ? (T *)(w->base + w->used) : nullptr;
    w->used += (size_t)round_up(count * (int64_t)sizeof(T), workspace_alignment);
    return p;
}

// Returns the bytes of a scratch. carve: takes its arrays from a workspace.
template <typename F>
SPIRA_API status workspace_measure(size_t *bytes, F carve) {
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    carve(&w);
    *bytes = w.used;
    return status_success();
}

// Of one array.
template <typename T>
SPIRA_API status workspace_measure_array(int64_t count, size_t *bytes) {
    return workspace_measure(bytes, [&](workspace *w) { workspace_take<T>(w, count); });
}

// The check that each operation makes of what it was given, before anything is launched. `name` is
// that of the argument.
SPIRA_API status workspace_check(const void *base, size_t given, size_t needed,
                                 const char *name = "scratch") {
    SPIRA_REQUIRE(base || needed == 0, status_null_pointer, name, 0);
    SPIRA_REQUIRE(((uintptr_t)base & (workspace_alignment - 1)) == 0, status_alignment, name,
                  workspace_alignment);
    SPIRA_REQUIRE(given >= needed, status_workspace, name, needed);
    return status_success();
}

// Takes the arrays from the caller's scratch.
template <typename F>
SPIRA_API status workspace_open(void *base, size_t given, F carve) {
    size_t needed;
    SPIRA_TRY(workspace_measure(&needed, carve));
    SPIRA_TRY(workspace_check(base, given, needed));
    workspace w = workspace_begin(base);
    carve(&w);
    return status_success();
}

template <typename T>
SPIRA_API status workspace_open_array(void *base, size_t given, int64_t count, T **array) {
    return workspace_open(base, given, [&](workspace *w) { *array = workspace_take<T>(w, count); });
}

} // namespace spira

#endif
