// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/pool.cpp: pool.h.
#include "../support/emulate_numeric.h"
#include "../support/pool_problems.h"

#include "../../spira/pool.cuh"

using namespace pools;

template <typename W>
static const side<W> by_host = {
    &memory_host, pool_host, nullptr,
    [](const pool_global_args<W> *a, void *, size_t) { return pool_global_host(a); }};

template <typename W>
static const side<W> by_kernel = {&memory_host, [](const pool_args *a) { return pool(a, nullptr); },
                                  pool_global_workspace,
                                  [](const pool_global_args<W> *a, void *scratch, size_t bytes) {
                                      return pool_global(a, scratch, bytes, nullptr);
                                  }};

// The host loops take floats: the values are those of the type all the same.
static std::vector<float> check_local(const problem *p) {
    problem floats = *p;
    floats.type = numeric_f32;
    const std::vector<float> out = problem_run(&floats, &by_host<uint32_t>);
    problem_judge(&floats, out, __LINE__);
    return out;
}

TEST(pool_local) {
    problems_random(200, check_local);
    problems_special(check_local);
    problems_random(8, [](const problem *p) {
        problem_judge(p, problem_run(p, &by_kernel<uint32_t>), __LINE__);
    });
}

TEST(float_larger_keeps_nan) {
    CHECK_EQUAL(float_larger(1, 2), 2.0f);
    CHECK_EQUAL(float_larger(2, 1), 2.0f);
    CHECK_EQUAL(float_larger(-INFINITY, -3), -3.0f);
    CHECK(isnan(float_larger(NAN, 1)) && isnan(float_larger(1, NAN)) &&
          isnan(float_larger(NAN, NAN)));
}

static void check_global(const globals *g, int32_t room) {
    globals floats = *g;
    floats.type = numeric_f32;
    globals_check(&floats, room, &by_host<uint32_t>);
    globals_check(&floats, room / 2, &by_host<uint64_t>);
}

TEST(pool_global) {
    globals_random(60, check_global);
    globals_special(check_global);
}

// The kernels, with the host's threads.
TEST(pool_global_emulated) {
    random_state r = random_make(9);
    for (int i = 0; i < 8; ++i) {
        emulate::seed = (uint64_t)i;
        const globals g = globals_make(&r, numerics[i % 4], i / 4 ? pool_max : pool_average,
                                       random_int(&r, 1, 7), {random_int(&r, 0, 150), 0, 40});
        i % 2 ? globals_check(&g, i, &by_kernel<uint32_t>)
              : globals_check(&g, i, &by_kernel<uint64_t>);
    }
}

TEST(pool_batch_range_is_exact) {
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 4, {1, 1, 1}, {1, 1, 1});
    uint32_t words[6];
    const int batch[6] = {0, 0, 2, 2, 2, 3}; // a full field: there is no word for batch 4
    for (int i = 0; i < 6; ++i) {
        words[i] = word_pack<uint32_t>(&l, {batch[i], i, i, i});
    }
    int32_t count = 6;
    const voxel_set<uint32_t> set = {words, &count, 6};
    const int32_t edges[5] = {0, 2, 2, 5, 6};
    for (int b = 0; b < 4; ++b) {
        int32_t first, last;
        pool_batch_range(&l, set, b, &first, &last);
        CHECK_EQUAL(first, edges[b]);
        CHECK_EQUAL(last, edges[b + 1]);
    }
}

// The host loops and the launchers.
TEST(pool_refuses) {
    float in[4] = {}, out[4];
    const int32_t map[2] = {0, 1}, two = 2;
    const pool_args good = {pool_max, numeric_f32, 2, 1, in, map, &two, 2, out};
    CHECK_OK(pool_host(&good));
    const auto refuses = [&](status_code code, auto spoil) {
        pool_args a = good;
        spoil(&a);
        CHECK_STATUS(pool_host(&a), code);
        CHECK_STATUS(pool(&a, nullptr), code);
    };
    refuses(status_null_pointer, [](pool_args *a) { a->in = nullptr; });
    refuses(status_null_pointer, [](pool_args *a) { a->map = nullptr; });
    refuses(status_null_pointer, [](pool_args *a) { a->count = nullptr; });
    refuses(status_null_pointer, [](pool_args *a) { a->out = nullptr; });
    refuses(status_unsupported, [](pool_args *a) { a->out = (void *)a->in; });
    refuses(status_alignment, [](pool_args *a) { a->in = (char *)a->in + 2; });
    for (int bad : {0, -2}) {
        refuses(status_unsupported, [=](pool_args *a) { a->kind = (pool_kind)(2 + bad / 2 * 3); });
        refuses(status_bad_size, [=](pool_args *a) { a->channels = bad; });
        refuses(status_bad_size, [=](pool_args *a) { a->volume = bad; });
        refuses(status_bad_size, [=](pool_args *a) { a->capacity = bad; });
    }
    refuses(status_bad_size, [](pool_args *a) { a->volume = 1 << 20; });
    pool_args other = good;
    other.type = (numeric)5; // of the launcher alone
    CHECK_STATUS(pool(&other, nullptr), status_unsupported);

    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {1, 1, 1});
    word_layout wide = word_widen(l);
    uint32_t words[1] = {word_pack<uint32_t>(&l, {0, 1, 2, 3})};
    int32_t count = 1;
    typedef pool_global_args<uint32_t> args;
    const args global = {pool_max, numeric_f32, &l, {words, &count, 1}, 2, in, out};
    CHECK_OK(pool_global_host(&global));
    size_t bytes = 0;
    CHECK_OK(pool_global_workspace(&l, 2, &bytes));
    char *scratch = guarded_new<char>((int64_t)bytes);
    const auto global_refuses = [&](status_code code, auto spoil) {
        args a = global;
        spoil(&a);
        CHECK_STATUS(pool_global_host(&a), code);
        CHECK_STATUS(pool_global(&a, scratch, bytes, nullptr), code);
    };
    global_refuses(status_null_pointer, [](args *a) { a->set.words = nullptr; });
    global_refuses(status_null_pointer, [](args *a) { a->layout = nullptr; });
    global_refuses(status_unsupported, [&](args *a) { a->layout = &wide; });
    global_refuses(status_null_pointer, [](args *a) { a->in = nullptr; });
    global_refuses(status_null_pointer, [](args *a) { a->out = nullptr; });
    global_refuses(status_null_pointer, [](args *a) { a->set.count = nullptr; });
    global_refuses(status_bad_size, [](args *a) { a->set.capacity = 0; });
    global_refuses(status_bad_size, [](args *a) { a->channels = 0; });
    global_refuses(status_unsupported, [](args *a) { a->kind = (pool_kind)-1; });
    CHECK_STATUS(pool_global(&global, nullptr, bytes, nullptr), status_null_pointer);
    CHECK_STATUS(pool_global(&global, scratch, bytes - 1, nullptr), status_workspace);
    CHECK_STATUS(pool_global(&global, scratch + 1, bytes, nullptr), status_alignment);
    CHECK_STATUS(pool_global_workspace(nullptr, 4, &bytes), status_null_pointer);
    CHECK_STATUS(pool_global_workspace(&l, 4, nullptr), status_null_pointer);
    CHECK_STATUS(pool_global_workspace(&l, 0, &bytes), status_bad_size);
    CHECK(guarded_untouched(scratch, 0, (int64_t)bytes));
}
