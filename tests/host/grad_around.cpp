// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/grad_around.cpp: gradients of what stands around convolutions (support/grad_around.h):
// the host loops, and the kernels, run on the host (emulate_numeric.h).
#include "../support/emulate_numeric.h"

#include "../support/devices.h"

#include "../../spira/dense.cuh"
#include "../../spira/join.cuh"
#include "../../spira/pool.cuh"
#include "../../spira/voxel_features.cuh"

#include "../support/memory.h"

using namespace spira;

namespace {

const bool large = false;

const test_memory *const memory = &memory_host;

cudaStream_t stream() {
    return nullptr;
}

const device_info *device() {
    static const device_info made = device_made(86, 2, 99 * 1024, false);
    return &made;
}

} // namespace

#include "../support/grad_around.h"

TEST(grad_pool) {
    for (int seed = 0; seed < (test_quick() ? 8 : 48); ++seed) {
        emulate::seed = (uint64_t)seed;
        pool_grad_case(seed);
    }
}

TEST(grad_pool_global) {
    for (int seed = 0; seed < (test_quick() ? 6 : 24); ++seed) {
        emulate::seed = (uint64_t)seed;
        pool_global_grad_case(seed);
    }
}

TEST(grad_dense) {
    for (int seed = 0; seed < (test_quick() ? 8 : 60); ++seed) {
        emulate::seed = (uint64_t)seed;
        dense_grad_case(seed);
    }
}

TEST(grad_voxel_features) {
    for (int seed = 0; seed < (test_quick() ? 6 : 36); ++seed) {
        emulate::seed = (uint64_t)seed;
        voxel_features_grad_case(seed);
    }
}

TEST(grad_join_sum) {
    for (int seed = 0; seed < (test_quick() ? 8 : 40); ++seed) {
        emulate::seed = (uint64_t)seed;
        join_sum_grad_case(seed);
    }
}

TEST(grad_pool_refuses) {
    random_state r = random_make(1);
    const pool_case p = pool_make(&r, numeric_f32, pool_max, forms_strided);
    auto by = [&](status_code code, auto spoil) {
        pool_grad_args a = p.args;
        spoil(&a);
        CHECK_STATUS(pool_grad_host(&a), code);
        CHECK_STATUS(pool_grad(&a, nullptr), code);
    };
    by(status_null_pointer, [](pool_grad_args *a) { a->in = nullptr; });
    by(status_null_pointer, [](pool_grad_args *a) { a->back = nullptr; });
    by(status_null_pointer, [](pool_grad_args *a) { a->in_grad = nullptr; });
    by(status_alignment, [](pool_grad_args *a) { a->map = misaligned((int32_t *)a->map); });
    by(status_bad_size, [](pool_grad_args *a) { a->channels = 0; });
    by(status_bad_size, [](pool_grad_args *a) { a->volume = 0; });
    by(status_bad_size, [](pool_grad_args *a) { a->capacity = 0; });
    by(status_unsupported, [](pool_grad_args *a) { a->in_grad = (void *)a->in; });
    CHECK(guarded_untouched((const char *)p.args.in_grad, 0,
                            (int64_t)p.args.capacity * p.args.channels * 4));
}

// A batch index that the word has bits for, and the layout does not have, gets nothing.
TEST(grad_pool_global_batch_beyond_the_layout) {
    const word_layout layout =
        reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 3, {1, 1, 1}, {1, 1, 1});
    word_layout four = layout;
    four.batches = 4;
    int32_t count = 3;
    for (pool_kind kind : {pool_max, pool_average}) {
        pool_global_grad_args<uint32_t> a = {};
        a.kind = kind;
        a.type = numeric_f32;
        a.layout = &layout;
        a.set = {memory_put<uint32_t>(memory, {word_pack<uint32_t>(&layout, {0, 1, 1, 1}),
                                               word_pack<uint32_t>(&layout, {2, 1, 1, 1}),
                                               word_pack<uint32_t>(&four, {3, 1, 1, 1})}),
                 &count, 3};
        a.channels = 1;
        a.in = memory_put<float>(memory, {1, 2, 3});
        a.out_grad = memory_put<float>(memory, {10, 11, 12});
        float *grad = guarded_new<float>(3);
        a.in_grad = grad;
        size_t bytes = 0;
        REQUIRE_OK(pool_global_workspace(a.layout, a.channels, &bytes));
        REQUIRE_OK(pool_global_grad(&a, guarded_new<char>((int64_t)bytes), bytes, nullptr));
        CHECK(grad[0] == 10 && grad[1] == 12 && guarded_untouched(grad, 2, 3));
        guarded_finish();
    }
}

TEST(grad_join_sum_refuses) {
    int32_t words[4] = {};
    float from[4] = {}, to[4] = {};
    join_sum_grad_args good = {};
    good.out_grad = from;
    good.sets = good.channels = good.out_capacity = 1;
    good.capacity[0] = 1;
    good.rows = {words, words};
    good.count = words;
    good.in_grad[0] = to;
    auto by = [&](status_code code, auto spoil) {
        join_sum_grad_args a = good;
        spoil(&a);
        CHECK_STATUS(join_sum_grad_host(&a), code);
        CHECK_STATUS(join_sum_grad(&a, nullptr), code);
    };
    by(status_ok, [](join_sum_grad_args *) {});
    by(status_null_pointer, [](join_sum_grad_args *a) { a->out_grad = nullptr; });
    by(status_null_pointer, [](join_sum_grad_args *a) { a->in_grad[0] = nullptr; });
    by(status_null_pointer, [](join_sum_grad_args *a) { a->rows.order = nullptr; });
    by(status_null_pointer, [](join_sum_grad_args *a) { a->count = nullptr; });
    by(status_alignment,
       [](join_sum_grad_args *a) { a->in_grad[0] = misaligned((float *)a->in_grad[0]); });
    by(status_bad_size, [](join_sum_grad_args *a) { a->sets = join_sets_max + 1; });
    by(status_bad_size, [](join_sum_grad_args *a) { a->capacity[0] = 0; });
    by(status_bad_size, [](join_sum_grad_args *a) { a->channels = 0; });
    by(status_bad_size, [](join_sum_grad_args *a) { a->out_capacity = 0; });
    by(status_unsupported, [](join_sum_grad_args *a) { a->type = (numeric)99; });
    by(status_unsupported, [](join_sum_grad_args *a) { a->in_grad[0] = (void *)a->out_grad; });
    CHECK_STATUS(join_sum_grad_host(nullptr), status_null_pointer);
}
