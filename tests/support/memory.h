// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/memory.h: memory of either side, so that one function fills, runs and judges a
// problem on the host, in the emulator and on the GPU.
#ifndef SPIRA_TESTS_MEMORY_H
#define SPIRA_TESTS_MEMORY_H

#include "test.h"

#include <vector>

struct test_memory {
    void *(*make)(size_t bytes, const char *file, int line); // guarded and poisoned
    void (*put)(void *to, const void *from, size_t bytes);   // from host memory, after make
    void (*get)(void *to, const void *from, size_t bytes);   // to host memory: there after settle
    void (*settle)();
    bool (*untouched)(const char *p, int64_t from, int64_t end); // bytes that are still poison
};

inline void memory_copy(void *to, const void *from, size_t bytes) {
    if (bytes) {
        memcpy(to, from, bytes);
    }
}

inline const test_memory memory_host = {guarded_new_bytes, memory_copy, memory_copy, [] {},
                                        guarded_untouched<char>};

template <typename T>
T *memory_new(const test_memory *m, int64_t count, const char *file = __builtin_FILE(),
              int line = __builtin_LINE()) {
    return (T *)m->make((size_t)count * sizeof(T), file, line);
}

template <typename T>
T *memory_put(const test_memory *m, const T *values, int64_t count,
              const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    T *to = memory_new<T>(m, count, file, line);
    m->put(to, values, (size_t)count * sizeof(T));
    return to;
}

template <typename T>
T *memory_put(const test_memory *m, const std::vector<T> &values,
              const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    return memory_put(m, values.data(), (int64_t)values.size(), file, line);
}

// Poison that counts as written: for what initcheck does not see the device write.
template <typename T>
T *memory_poisoned(const test_memory *m, int64_t count, const char *file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
    const std::vector<char> poison((size_t)count * sizeof(T), (char)guarded_poison);
    T *to = memory_new<T>(m, count, file, line);
    m->put(to, poison.data(), poison.size());
    return to;
}

template <typename T>
std::vector<T> memory_get(const test_memory *m, const T *from, int64_t count) {
    std::vector<T> values((size_t)count);
    if (count) {
        m->get(values.data(), from, (size_t)count * sizeof(T));
        m->settle();
    }
    return values;
}

template <typename T>
T memory_value(const test_memory *m, const T *from) {
    return memory_get(m, from, 1)[0];
}

// Whether elements [from, end) are still poison.
template <typename T>
bool memory_untouched(const test_memory *m, const T *p, int64_t from, int64_t end) {
    return m->untouched((const char *)p, from * (int64_t)sizeof(T), end * (int64_t)sizeof(T));
}

#endif
