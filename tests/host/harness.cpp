// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/harness.cpp: the harness tests itself; main of the host tests.
#include "../support/test.h"

#include <math.h>

using namespace spira;

TEST(harness_counts_failed_checks) {
    CHECK_EQUAL(test_failures_of([] {}), 0);
    CHECK_EQUAL(test_failures_of([] { CHECK(1 + 1 == 2); }), 0);
    CHECK_EQUAL(test_failures_of([] { CHECK(1 + 1 == 3); }), 1);
    CHECK_EQUAL(test_failures_of([] { CHECK_EQUAL(2, 3); }), 1);
    CHECK_EQUAL(test_failures_of([] {
                    for (int i = 0; i < 100; ++i) {
                        CHECK_EQUAL(i % 2, 0);
                    }
                }),
                50);
}

TEST(harness_counts_failed_checks_of_threads) {
    CHECK_EQUAL(test_failures_of([] {
                    SPIRA_PARALLEL_FOR
                    for (int i = 0; i < 1000; ++i) {
                        CHECK(i % 2);
                    }
                }),
                500);
}

TEST(harness_compares_values) {
    CHECK_EQUAL(test_failures_of([] { CHECK_EQUAL(-1, 0xffffffffu); }), 1);
    CHECK_EQUAL(test_failures_of([] { CHECK_EQUAL((int64_t)-1, UINT64_MAX); }), 1);
    CHECK_EQUAL(test_failures_of([] { CHECK_EQUAL("one", "two"); }), 1);
    CHECK_EQUAL(test_failures_of([] { CHECK_EQUAL((double)NAN, (double)NAN); }), 1);
    CHECK_EQUAL(test_failures_of([] { CHECK_EQUAL(status_bits, status_grid); }), 1);
    CHECK_EQUAL(7u, (int64_t)7);
    CHECK_EQUAL((unsigned char)200, 200);
    CHECK_EQUAL(status_ok, 0);
    CHECK_EQUAL(true, true);
    CHECK_EQUAL(0.5f, 0.5);
    char one[] = "one";
    CHECK_EQUAL((const char *)one, "one");
    CHECK_EQUAL((void *)one, (void *)one);
    int *none = nullptr;
    CHECK_EQUAL(none, nullptr);
}

TEST(harness_checks_status) {
    status refused = status_make(status_bad_size, "count", -1);
    CHECK_STATUS(refused, status_bad_size);
    CHECK_OK(status_success());
    CHECK_EQUAL(test_failures_of([] { CHECK_OK(status_make(status_bits, "x", 3)); }), 1);
    CHECK_EQUAL(test_failures_of([] { CHECK_STATUS(status_success(), status_bits); }), 1);
}

TEST(harness_require_returns) {
    CHECK_EQUAL(test_failures_of([] {
                    REQUIRE(false);
                    CHECK(false);
                }),
                1);
    CHECK_EQUAL(test_failures_of([] {
                    REQUIRE_OK(status_make(status_bits, "x", 3));
                    CHECK(false);
                }),
                2); // the status and the requirement
}

TEST(harness_judges_a_whole_test) {
    struct {
        test_entry entry;
        char expected;
    } cases[] = {
        {{"good", [] { CHECK(true); }, nullptr, nullptr}, 'p'},
        {{"bad", [] { CHECK(false); }, nullptr, nullptr}, 'f'},
        {{"empty", [] {}, nullptr, nullptr}, 'f'},
        {{"skips", [] { SKIP("planted"); }, nullptr, nullptr}, 's'},
        {{"fails and skips",
          [] {
              CHECK(false);
              SKIP("planted");
          },
          nullptr, nullptr},
         'f'},
        {{"overruns",
          [] {
              CHECK(true);
              if (!test_environment("SPIRA_EXACT")) {
                  volatile char *p = guarded_new<char>(3);
                  p[3] = 0;
              } else {
                  CHECK(false);
              }
          },
          nullptr, nullptr},
         'f'},
    };
    for (auto &c : cases) {
        test_globals saved = test_state;
        test_state.quiet = 1;
        test_state.buffers = nullptr;
        char result = test_run(&c.entry);
        test_state = saved;
        CHECK_EQUAL(result, c.expected);
    }
}

TEST(harness_names_the_scan_that_is_missing) {
    CHECK(test_missing_scan({}) == nullptr);
    const char *missing = test_missing_scan({"no scan has this name"});
    REQUIRE(missing != nullptr);
    CHECK(strstr(missing, "there is no ") == missing);
    CHECK(strstr(missing, "/no scan has this name") != nullptr);
    test_entry needy = {"needs a scan", [] { NEED_SCANS("no scan has this name"); }, nullptr,
                        nullptr};
    test_globals saved = test_state;
    test_state.quiet = 1;
    test_state.buffers = nullptr;
    char result = test_run(&needy);
    test_state = saved;
    CHECK_EQUAL(result, 's');
    CHECK_EQUAL(needy.skip_reason, missing);
}

TEST(harness_filters) {
    char pack[] = "pack", mask[] = "mask";
    char *filters[] = {pack, mask};
    CHECK(test_chosen("word_packs", 0, nullptr, false));
    CHECK(test_chosen("word_packs", 2, filters, false));
    CHECK(test_chosen("word_masks", 2, filters, false));
    CHECK(!test_chosen("offset_rows", 2, filters, false));
    CHECK(!test_chosen("word_packs", 2, filters, true));
    CHECK(test_chosen(filters[0], 2, filters, true));
}

TEST(guarded_is_exact_and_poisoned) {
    for (int size : {0, 1, 3, 255, 256, 257, 5000}) {
        unsigned char *p = guarded_new<unsigned char>(size);
        REQUIRE(p != nullptr);
        CHECK_EQUAL((uintptr_t)p % guarded_guard, 0u);
        CHECK(guarded_untouched(p, 0, size));
        memset(p, 0, (size_t)size); // all of it belongs to the test
        CHECK_EQUAL(guarded_check(p), guarded_intact);
    }
    int *q = guarded_new<int>(10);
    q[3] = 0;
    if (!test_environment("SPIRA_UNPOISONED")) {
        CHECK(!guarded_untouched(q, 0, 10));
        CHECK(!guarded_untouched(q, 3, 4));
    }
    CHECK(guarded_untouched(q, 4, 10));
    CHECK_EQUAL(guarded_check(q + 1), guarded_unknown);
}

TEST(guarded_catches_planted_overwrites) {
    if (test_environment("SPIRA_EXACT")) {
        SKIP("buffers have no sentinels");
    }
    for (int size : {0, 1, 100, 256}) {
        for (int distance : {1, 2, 17, (int)guarded_guard}) {
            for (int side = 0; side < 2; ++side) {
                unsigned char *p = guarded_new<unsigned char>(size);
                volatile unsigned char *hit = side ? p + size + distance - 1 : p - distance;
                for (int value : {0, 0xff, (int)guarded_poison}) {
                    unsigned char kept = *hit;
                    *hit = kept == value ? (unsigned char)~value : (unsigned char)value;
                    CHECK_EQUAL(guarded_check(p), side ? guarded_after : guarded_before);
                    *hit = kept;
                    CHECK_EQUAL(guarded_check(p), guarded_intact);
                }
            }
        }
    }
    CHECK_EQUAL(test_failures_of([] {
                    volatile int *p = guarded_new<int>(5);
                    p[5] = 1;
                }),
                1);
    CHECK_EQUAL(test_failures_of([] {
                    volatile int *p = guarded_new<int>(5);
                    p[-1] = 1;
                }),
                1);
}

TEST(random_is_the_same_everywhere) {
    random_state r = random_make(0);
    CHECK_EQUAL(random_u64(&r), 0xE220A8397B1DCDAFull); // the published first value of splitmix64
    random_state a = random_make(7), b = random_make(7), c = random_make(8);
    int differ = 0;
    for (int i = 0; i < 100; ++i) {
        uint32_t x = random_u32(&a);
        CHECK_EQUAL(x, random_u32(&b));
        differ += x != random_u32(&c);
    }
    CHECK(differ > 90);
}

TEST(random_keeps_its_ranges) {
    random_state r = random_make(1);
    int seen[5] = {};
    double sum = 0;
    for (int i = 0; i < 100000; ++i) {
        float f = random_float(&r);
        CHECK(f >= -1 && f < 1);
        sum += f;
        int v = random_int(&r, -2, 2);
        REQUIRE(v >= -2 && v <= 2);
        ++seen[v + 2];
        CHECK_EQUAL(random_int(&r, 9, 9), 9);
    }
    CHECK(fabs(sum / 100000) < 0.02);
    for (int i = 0; i < 5; ++i) {
        CHECK(seen[i] > 19000 && seen[i] < 21000);
    }
    bool low = false, high = false;
    for (int i = 0; i < 100; ++i) {
        int v = random_int(&r, INT32_MIN, INT32_MAX);
        low = low || v < 0;
        high = high || v > 0;
    }
    CHECK(low && high);
}

TEST_MAIN
