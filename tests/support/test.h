// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/test.h: the test harness of host (.cpp) and device (.cu) tests.
//
//     TEST(word_packs_zero) {
//         REQUIRE(p != nullptr);                       // stops the test
//         CHECK_EQUAL(pack(p, 0), 0u);                 // continues, prints both sides
//         CHECK_STATUS(fit(p, -1), status_bad_size);   // prints the text of the status
//     }
//
// Tests register themselves in a list; one file of the binary has TEST_MAIN. A test fails if one of
// its checks fails, or if it checks nothing. Buffers from guarded_new have sentinels on both sides;
// the harness checks and frees them when the test ends.
//
// Arguments: [filter...] runs the tests whose name contains one of the filters, or with --exactly
// equals one; --list prints their names; --verbose prints the result of each; --part 0/2 runs every
// other one. Environment:
//     SPIRA_QUICK=1      small sizes (for sanitizers): test_quick()
//     SPIRA_EXACT=1      buffers without sentinels, so that a sanitizer sees their true ends
//     SPIRA_UNPOISONED=1 buffers are not filled, so that a sanitizer sees reads of unset memory
//     SPIRA_DATA=folder  where the real scans are; data/ otherwise
#ifndef SPIRA_TESTS_TEST_H
#define SPIRA_TESTS_TEST_H

#include "../../spira/status.h"

#include <initializer_list> // for (int size : {0, 1, 255})
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <type_traits>

// ---- state: one for the whole binary ------------------------------------------------------------

struct test_entry {
    const char *name;
    void (*body)();
    test_entry *next;
    const char *skip_reason; // null: not skipped
};

enum guarded_state { guarded_intact = 0, guarded_before, guarded_after, guarded_unknown };

// A buffer with sentinels, in host or device memory.
struct guarded_buffer {
    guarded_buffer *next;
    char *base; // what was allocated
    char *data; // what the test got
    size_t size;
    guarded_state (*check)(const guarded_buffer *);
    void (*release)(guarded_buffer *); // frees base
    const char *file;
    int line;
    bool judged = false; // `state` is known
    guarded_state state = guarded_intact;
};

struct test_globals {
    test_entry *first, *last;
    test_entry *current;
    guarded_buffer *buffers; // of the current test
    // Null, or judges many buffers of a list at once; the others are checked one by one.
    void (*judge)(guarded_buffer *buffers);
    int failures; // failed checks of the current test
    int checked;  // 1 after the first check of the current test
    int quiet;    // planted failures are counted and not printed
    int thinned;  // calls of test_thinned in the current test
    const char *skip_reason;
};

inline test_globals test_state = {};

enum { test_failures_shown = 10 }; // of one test; the others are only counted

inline int test_register(test_entry *entry) {
    *(test_state.last ? &test_state.last->next : &test_state.first) = entry;
    test_state.last = entry;
    return 0;
}

inline bool test_environment(const char *name) {
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0") != 0;
}

inline bool test_quick() {
    return test_environment("SPIRA_QUICK");
}

// Whether to leave out a case: in quick mode all but the first of each `one_of` calls in a test.
inline bool test_thinned(int one_of) {
    return test_quick() && test_state.thinned++ % one_of != 0;
}

inline double test_seconds() {
    timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// ---- checks: safe inside of OpenMP loops --------------------------------------------------------

inline void test_checked() {
#ifdef _OPENMP
#pragma omp atomic write
#endif
    test_state.checked = 1;
}

inline void test_fail(const char *file, int line, const char *what, const char *more = "") {
#ifdef _OPENMP
#pragma omp critical(test_failure)
#endif
    {
        ++test_state.failures;
        if (!test_state.quiet && test_state.failures <= test_failures_shown) {
            printf("%s:%d: %s: %s%s\n", file, line,
                   test_state.current ? test_state.current->name : "?", what, more);
        }
    }
}

inline bool test_check(bool good, const char *file, int line, const char *text) {
    test_checked();
    if (!good) {
        test_fail(file, line, text);
    }
    return good;
}

template <typename T>
constexpr bool test_is_text = std::is_convertible_v<T, const char *>;

template <typename T>
void test_print(char *text, size_t size, const T &value) {
    if constexpr (std::is_same_v<T, bool>) {
        snprintf(text, size, "%s", value ? "true" : "false");
    } else if constexpr (std::is_enum_v<T> || (std::is_integral_v<T> && std::is_signed_v<T>)) {
        snprintf(text, size, "%lld", (long long)value);
    } else if constexpr (std::is_integral_v<T>) {
        snprintf(text, size, "%llu (0x%llx)", (unsigned long long)value, (unsigned long long)value);
    } else if constexpr (std::is_floating_point_v<T>) {
        snprintf(text, size, "%.17g", (double)value);
    } else if constexpr (test_is_text<T>) {
        const char *string = value;
        snprintf(text, size, "\"%s\"", string ? string : "(null)");
    } else if constexpr (std::is_pointer_v<T>) {
        snprintf(text, size, "%p", (const void *)value);
    } else if constexpr (std::is_null_pointer_v<T>) {
        snprintf(text, size, "null");
    } else {
        snprintf(text, size, "(a value)");
    }
}

template <typename T>
constexpr bool test_negative(const T &value) {
    if constexpr (std::is_signed_v<T>) {
        return value < 0;
    }
    return false;
}

// Values, not representations: -1 never equals 0xffffffff; strings are compared by content.
template <typename A, typename B>
bool test_same(const A &a, const B &b) {
    if constexpr (test_is_text<A> && test_is_text<B> && !std::is_null_pointer_v<A> &&
                  !std::is_null_pointer_v<B>) {
        const char *p = a, *q = b;
        return p == q || (p && q && strcmp(p, q) == 0);
    } else if constexpr (std::is_integral_v<A> && std::is_integral_v<B>) {
        return test_negative(a) == test_negative(b) &&
               (unsigned long long)a == (unsigned long long)b;
    } else if constexpr (std::is_enum_v<A> || std::is_enum_v<B>) {
        return (long long)a == (long long)b;
    } else {
        return a == b;
    }
}

template <typename A, typename B>
bool test_check_equal(const A &a, const B &b, const char *file, int line, const char *text_a,
                      const char *text_b) {
    test_checked();
    if (test_same(a, b)) {
        return true;
    }
    char value_a[256], value_b[256], text[1024];
    test_print(value_a, sizeof value_a, a);
    test_print(value_b, sizeof value_b, b);
    snprintf(text, sizeof text, "%.200s == %.200s: %s and %s", text_a, text_b, value_a, value_b);
    test_fail(file, line, text);
    return false;
}

inline bool test_check_status(spira::status s, spira::status_code code, const char *file, int line,
                              const char *expression) {
    test_checked();
    if (s.code == code) {
        return true;
    }
    char got[512], text[1024];
    snprintf(text, sizeof text, "%.200s: \"%s\" (%d) instead of \"%s\" (%d)", expression,
             spira::status_text(s, got, sizeof got), (int)s.code, spira::status_string(code),
             (int)code);
    test_fail(file, line, text);
    return false;
}

#define CHECK(...) test_check(static_cast<bool>(__VA_ARGS__), __FILE__, __LINE__, #__VA_ARGS__)

#define CHECK_EQUAL(a, b) test_check_equal((a), (b), __FILE__, __LINE__, #a, #b)

#define CHECK_STATUS(expression, code)                                                             \
    test_check_status((expression), (code), __FILE__, __LINE__, #expression)

#define CHECK_OK(expression) CHECK_STATUS(expression, ::spira::status_ok)

// For conditions that the rest of the test depends on: returns from the current function.
#define REQUIRE(...)                                                                               \
    do {                                                                                           \
        if (!CHECK(__VA_ARGS__)) {                                                                 \
            return;                                                                                \
        }                                                                                          \
    } while (0)

#define REQUIRE_OK(expression) REQUIRE(CHECK_OK(expression))

// Ends the test, which counts as skipped unless a check has failed before.
#define SKIP(reason)                                                                               \
    do {                                                                                           \
        test_state.skip_reason = (reason);                                                         \
        return;                                                                                    \
    } while (0)

// Skips the test, by the name of the file, unless all these scans are there.
#define NEED_SCANS(...)                                                                            \
    do {                                                                                           \
        if (const char *missing = test_missing_scan({__VA_ARGS__})) {                              \
            SKIP(missing);                                                                         \
        }                                                                                          \
    } while (0)

#define TEST(name)                                                                                 \
    static void test_body_##name();                                                                \
    static test_entry test_entry_##name = {#name, test_body_##name, nullptr, nullptr};             \
    [[maybe_unused]] static const int test_registered_##name = test_register(&test_entry_##name);  \
    static void test_body_##name()

// ---- real scans: in data/, or in the folder that SPIRA_DATA names -------------------------------

inline const char *test_data_folder() {
    const char *folder = getenv("SPIRA_DATA");
    return folder && *folder ? folder : "data";
}

// Null if all are there, else a sentence that names the first that is not; never freed.
inline const char *test_missing_scan(std::initializer_list<const char *> names) {
    for (const char *name : names) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", test_data_folder(), name);
        if (FILE *file = fopen(path, "rb")) {
            fclose(file);
            continue;
        }
        char text[4200];
        snprintf(text, sizeof text, "there is no %s", path);
        return strdup(text);
    }
    return nullptr;
}

// ---- guarded buffers ----------------------------------------------------------------------------

enum {
    guarded_guard = 256, // bytes on each side; a power of two that keeps the data aligned to it
    guarded_poison = 0xA5,
};

// Not one byte repeated, so that no memset can restore it.
inline unsigned char guarded_sentinel(size_t i) {
    return (unsigned char)(0x3C + 37 * i);
}

inline void guarded_sentinels(char *guard) {
    for (size_t i = 0; i < guarded_guard; ++i) {
        guard[i] = (char)guarded_sentinel(i);
    }
}

inline bool guarded_sentinels_intact(const char *guard) {
    for (size_t i = 0; i < guarded_guard; ++i) {
        if ((unsigned char)guard[i] != guarded_sentinel(i)) {
            return false;
        }
    }
    return true;
}

inline guarded_state guarded_check_host(const guarded_buffer *b) {
    if (b->base == b->data) {
        return guarded_intact; // SPIRA_EXACT: there are no sentinels
    }
    return !guarded_sentinels_intact(b->data - guarded_guard) ? guarded_before
           : !guarded_sentinels_intact(b->data + b->size)     ? guarded_after
                                                              : guarded_intact;
}

inline void guarded_release_host(guarded_buffer *b) {
    free(b->base);
}

inline void *guarded_out_of_memory(size_t size) {
    fprintf(stderr, "out of memory: %zu bytes\n", size);
    exit(1);
}

inline void *guarded_allocate(size_t size) {
    void *p = nullptr;
    return posix_memalign(&p, guarded_guard, size) ? guarded_out_of_memory(size) : p;
}

inline void guarded_remember(guarded_buffer b) {
    guarded_buffer *kept = (guarded_buffer *)malloc(sizeof *kept);
    if (!kept) {
        guarded_out_of_memory(sizeof *kept);
    }
    *kept = b;
    kept->next = test_state.buffers;
    test_state.buffers = kept;
}

inline void *guarded_new_bytes(size_t size, const char *file, int line) {
    bool exact = test_environment("SPIRA_EXACT");
    size_t guard = exact ? 0 : (size_t)guarded_guard;
    char *base = (char *)guarded_allocate(guard + size + (exact && !size ? 1 : guard));
    char *data = base + guard;
    if (!test_environment("SPIRA_UNPOISONED")) {
        memset(data, guarded_poison, size);
    }
    if (guard) {
        guarded_sentinels(base);
        guarded_sentinels(data + size);
    }
    guarded_remember(
        {nullptr, base, data, size, guarded_check_host, guarded_release_host, file, line});
    return data;
}

// Host memory of exactly `count` elements, aligned to 256 bytes, poisoned; never null. Lives to the
// end of the test.
template <typename T>
T *guarded_new(int64_t count, const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    return (T *)guarded_new_bytes((size_t)count * sizeof(T), file, line);
}

// The state of the sentinels around a buffer from guarded_new or device_new.
inline guarded_state guarded_check(const void *data) {
    for (guarded_buffer *b = test_state.buffers; b; b = b->next) {
        if (b->data == data) {
            return b->check(b);
        }
    }
    return guarded_unknown;
}

// Whether elements [from, count) still have the values that the buffer was filled with.
template <typename T>
bool guarded_untouched(const T *data, int64_t from, int64_t count) {
    if (test_environment("SPIRA_UNPOISONED")) {
        return true;
    }
    for (const unsigned char *p = (const unsigned char *)(data + from),
                             *end = (const unsigned char *)(data + count);
         p < end; ++p) {
        if (*p != guarded_poison) {
            return false;
        }
    }
    return true;
}

// Checks and frees all buffers of the test; the harness calls it when a test ends.
inline void guarded_finish() {
    if (test_state.judge && test_state.buffers) {
        test_state.judge(test_state.buffers);
    }
    while (test_state.buffers) {
        guarded_buffer *b = test_state.buffers;
        guarded_state state = b->judged ? b->state : b->check(b);
        if (state != guarded_intact) {
            test_fail(b->file, b->line,
                      state == guarded_before  ? "written before its start: "
                      : state == guarded_after ? "written past its end: "
                                               : "not readable any more: ",
                      "the buffer allocated here");
        }
        b->release(b);
        test_state.buffers = b->next;
        free(b);
    }
}

// ---- random numbers: the same everywhere --------------------------------------------------------

struct random_state {
    uint64_t value;
};

inline random_state random_make(uint64_t seed) {
    random_state r = {seed};
    return r;
}

inline uint64_t random_u64(random_state *r) { // splitmix64
    uint64_t z = (r->value += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

inline uint32_t random_u32(random_state *r) {
    return (uint32_t)(random_u64(r) >> 32);
}

// In [-1, 1), a multiple of 2^-23.
inline float random_float(random_state *r) {
    return (float)(random_u32(r) >> 8) * 0x1p-23f - 1.0f;
}

// In [low, high], both included.
inline int random_int(random_state *r, int low, int high) {
    uint64_t span = (uint64_t)((int64_t)high - low) + 1;
    return (int)(low + (int64_t)(((uint64_t)random_u32(r) * span) >> 32));
}

// ---- running ------------------------------------------------------------------------------------

// The number of checks that fail in `body`, the checks of its buffers included. Prints nothing and
// does not change the calling test. For planted errors: test the test.
inline int test_failures_of(void (*body)()) {
    test_globals saved = test_state;
    test_state.buffers = nullptr;
    test_state.failures = 0;
    test_state.quiet = 1;
    body();
    guarded_finish();
    int failures = test_state.failures;
    test_state = saved;
    return failures;
}

inline void test_crashed(int number) {
    printf("%s: signal %d\n", test_state.current ? test_state.current->name : "?", number);
    fflush(stdout);
    signal(number, SIG_DFL);
    raise(number);
}

// Prints each reason once, with the number of tests that it stopped.
inline void test_print_skipped() {
    for (test_entry *e = test_state.first; e; e = e->next) {
        if (!e->skip_reason) {
            continue;
        }
        int same = 0, before = 0;
        for (test_entry *f = test_state.first, *seen = nullptr; f; f = f->next) {
            seen = f == e ? e : seen;
            if (f->skip_reason && strcmp(f->skip_reason, e->skip_reason) == 0) {
                ++same;
                before += !seen;
            }
        }
        if (!before && same == 1) {
            printf("skipped %s: %s\n", e->name, e->skip_reason);
        } else if (!before) {
            printf("skipped %d tests: %s\n", same, e->skip_reason);
        }
    }
}

inline bool test_chosen(const char *name, int filters, char **filter, bool exactly) {
    for (int i = 0; i < filters; ++i) {
        if (exactly ? strcmp(name, filter[i]) == 0 : strstr(name, filter[i]) != nullptr) {
            return true;
        }
    }
    return filters == 0;
}

// Runs a test and returns its result: 'p'assed, 'f'ailed, 's'kipped.
inline char test_run(test_entry *e) {
    test_state.current = e;
    test_state.failures = test_state.checked = test_state.thinned = 0;
    test_state.skip_reason = nullptr;
    double start = test_seconds();
    e->body();
    guarded_finish();
    double seconds = test_seconds() - start;

    e->skip_reason = test_state.failures ? nullptr : test_state.skip_reason;
    if (!test_state.checked && !test_state.skip_reason) {
        test_fail("tests", 0, "the test checks nothing");
    }
    if (test_state.failures > test_failures_shown) {
        printf("%s: %d more failed checks\n", e->name, test_state.failures - test_failures_shown);
    }
    if (seconds > 2) {
        printf("%s: %.1f s\n", e->name, seconds);
    }
    return test_state.failures ? 'f' : e->skip_reason ? 's' : 'p';
}

inline int test_main(int argc, char **argv) {
    setvbuf(stdout, nullptr, _IOLBF, 1 << 12);
#ifndef __SANITIZE_ADDRESS__ // the sanitizer reports a crash better
    int crashes[] = {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS};
    for (int crash : crashes) {
        signal(crash, test_crashed);
    }
#endif
    bool list = false, verbose = false, exactly = false;
    int part = 0, parts = 1, number = 0;
    int filters = 0; // kept in argv[1...filters]
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--list") == 0) {
            list = true;
        } else if (strcmp(argv[i], "--verbose") == 0) {
            verbose = true;
        } else if (strcmp(argv[i], "--exactly") == 0) {
            exactly = true;
        } else if (strcmp(argv[i], "--part") == 0) {
            if (++i == argc || sscanf(argv[i], "%d/%d", &part, &parts) != 2 || part >= parts) {
                printf("--part needs a number and of how many: 0/2\n");
                return 1;
            }
        } else {
            argv[++filters] = argv[i];
        }
    }

    int passed = 0, failed = 0, skipped = 0;
    for (test_entry *e = test_state.first; e; e = e->next) {
        for (test_entry *f = test_state.first; f != e; f = f->next) {
            if (strcmp(e->name, f->name) == 0) {
                printf("two tests are named %s\n", e->name);
                ++failed;
            }
        }
        if (!test_chosen(e->name, filters, argv + 1, exactly) || number++ % parts != part) {
            continue;
        }
        if (list) {
            printf("%s\n", e->name);
            continue;
        }
        char result = test_run(e);
        passed += result == 'p';
        failed += result == 'f';
        skipped += result == 's';
        if (verbose) {
            printf("%s %s\n",
                   result == 'p'   ? "passed "
                   : result == 'f' ? "failed "
                                   : "skipped",
                   e->name);
        }
    }
    if (list) {
        return 0;
    }
    if (passed + failed + skipped == 0) {
        printf("no test has such a name\n");
        ++failed;
    }
    test_print_skipped();
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}

#define TEST_MAIN                                                                                  \
    int main(int argc, char **argv) {                                                              \
        return test_main(argc, argv);                                                              \
    }

#endif
