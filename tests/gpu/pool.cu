// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/pool.cu: pooling on the GPU: maxima to the bit, averages within the bound of their
// sums.
#include "../../spira/pool.cuh"
#include "../support/device.cuh"
#include "../support/pool_problems.h"

using namespace pools;

namespace {

template <typename W>
const side<W> by_gpu = {&memory_device, [](const pool_args *a) { return pool(a, stream_get()); },
                        pool_global_workspace,
                        [](const pool_global_args<W> *a, void *scratch, size_t bytes) {
                            return pool_global(a, scratch, bytes, stream_get());
                        }};

// To the last bit, but that any NaN is like any other: its bits differ from one machine to another.
bool same_floats(const std::vector<float> &a, const std::vector<float> &b) {
    for (size_t i = 0; i < a.size(); ++i) {
        if (memcmp(&a[i], &b[i], sizeof(float)) != 0 && !(isnan(a[i]) && isnan(b[i]))) {
            return false;
        }
    }
    return a.size() == b.size();
}

std::vector<float> problem_check(const problem *p, int line = __builtin_LINE()) {
    std::vector<float> out = problem_run(p, &by_gpu<uint32_t>);
    if (p->outputs > 0 && (p->type == numeric_f32 || p->type == numeric_tf32)) {
        // In fp32 the host loop gives the very same bits: the taps are added in order.
        std::vector<float> host(out.size());
        const pool_args args = {p->kind,       p->type,     p->channels, p->volume,  p->in.data(),
                                p->map.data(), &p->outputs, p->capacity, host.data()};
        CHECK_OK(pool_host(&args));
        test_check(same_floats(host, out), __FILE__, line, label);
    }
    problem_judge(p, out, line);
    return out;
}

const auto globals_both = [](const globals *g, int32_t room) {
    globals_check(g, room, &by_gpu<uint32_t>);
    globals_check(g, room / 2, &by_gpu<uint64_t>);
};

DEVICE_TEST(gpu_pool_random_problems) {
    problems_random(test_quick() ? 8 : 200, [](const problem *p) { problem_check(p); });
}

DEVICE_TEST(gpu_pool_every_size) {
    const int sizes[] = {0,   1,   7,   8,   9,   31,  32,   33,   63,   64,  65,
                         127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 4097};
    for (int n : sizes) {
        for (numeric type : numerics) {
            for (pool_kind kind : {pool_max, pool_average}) {
                if (test_quick() && n > 65) {
                    continue;
                }
                random_state random = random_make((uint64_t)(10 * n + type));
                int32_t capacity = n + (type == numeric_f16 ? 700 : 0);
                problem p = problem_make(&random, type, kind, n % 2 ? 5 : 4, 8, n / 2 + 1, n,
                                         capacity > 0 ? capacity : 1, 40);
                problem_check(&p);
            }
        }
    }
}

DEVICE_TEST(gpu_pool_unaligned_pointers) {
    for (numeric type : numerics) {
        for (int off : {1, 2, 3}) {
            random_state random = random_make((uint64_t)(off + type));
            problem p = problem_make(&random, type, pool_max, 16, 8, 60, 90, 90, 50);
            p.off = off;
            problem_check(&p);
        }
    }
}

DEVICE_TEST(gpu_pool_special_values) {
    problems_special([](const problem *p) { return problem_check(p); });
}

// ---- global pooling -----------------------------------------------------------------------------

DEVICE_TEST(gpu_pool_global_every_size) {
    const int sizes[] = {0,   1,   2,   31,  32,  33,   63,   64,   65,   127,
                         128, 129, 255, 256, 257, 1023, 1025, 4097, 20000};
    const int channels_of[] = {1, 3, 64, 100, 255, 256, 257};
    int turn = 0;
    for (int n : sizes) {
        for (numeric type : numerics) {
            for (pool_kind kind : {pool_max, pool_average}) {
                if (test_quick() && n > 65) {
                    continue;
                }
                random_state random = random_make((uint64_t)(10 * n + type));
                int channels = n > 5000 ? 33 : channels_of[turn++ % 7];
                globals g = globals_make(&random, type, kind, channels, {n});
                globals_check(&g, turn % 3 * 50, &by_gpu<uint32_t>);
                globals_check(&g, turn % 2, &by_gpu<uint64_t>);
            }
        }
    }
}

DEVICE_TEST(gpu_pool_global_batches) {
    globals_random(test_quick() ? 8 : 100, globals_both);
}

DEVICE_TEST(gpu_pool_global_special_values) {
    globals_special(globals_both);
}

// Code that is compiled for another format; the rest is refused by the host's test, too.
DEVICE_TEST(gpu_pool_refuses_other_formats) {
    int32_t two = 2;
    const pool_args a = {pool_max,
                         numeric_f32,
                         4,
                         8,
                         device_zeros<float>(16),
                         device_zeros<int32_t>(16),
                         device_upload(&two, 1),
                         2,
                         device_new<float>(16)};
    CHECK_STATUS(pool<numeric_f16>(&a, stream_get()), status_unsupported);
    CHECK(device_untouched((float *)a.out, 0, 16));
}

// ---- the test, tested ---------------------------------------------------------------------------

// The largest value is of another source, or a row of another batch index.
void planted(bool local, pool_kind kind, numeric type, bool plant) {
    random_state random = random_make(50);
    if (local) {
        problem p = problem_make(&random, type, kind, 4, 8, 60, 90, 90, 60);
        const std::vector<float> out = problem_run(&p, &by_gpu<uint32_t>);
        const int tap = *std::find_if(p.map.begin(), p.map.end(), [](int32_t t) { return t >= 0; });
        std::fill_n(p.in.begin() + tap * 4, plant ? 4 : 0, 5.0f);
        problem_judge(&p, out, __LINE__);
        return;
    }
    globals g = globals_make(&random, type, kind, 4, {30, 0, 4097});
    const std::vector<float> out = globals_run(&g, 3, &by_gpu<uint32_t>);
    if (plant) {
        g.rows = {29, 0, 4098};
        g.in[(size_t)(29 * 4)] = 9.0f;
    }
    globals_judge(&g, out, __LINE__);
}

DEVICE_TEST(gpu_pool_planted_errors_are_found) {
    static int i; // of all cases, every second planted
    for (i = 0; i < 16; ++i) {
        const int found = test_failures_of(
            [] { planted(i / 8, (pool_kind)(i / 2 % 2), numerics[i / 4 % 2 * 2], i % 2); });
        CHECK(i % 2 ? found > 0 : found == 0);
    }
    // One row of 4097 left out of a mean.
    CHECK(test_failures_of([] {
              random_state random = random_make(52);
              globals g = globals_make(&random, numeric_f32, pool_average, 8, {4097});
              std::vector<float> out = globals_run(&g, 0, &by_gpu<uint64_t>);
              std::fill_n(g.in.begin() + 2000 * 8, 8, 0.0f);
              globals_judge(&g, out, __LINE__);
          }) > 0);
}

} // namespace
