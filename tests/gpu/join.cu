// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/join.cu: unions and projections on the GPU, word for word and bit for bit those that a
// table of coordinates gives.
#include "../../spira/join.cuh"
#include "../support/gpu.cuh"
#include "../support/join_problems.h"

using namespace spira;

namespace {

template <typename W>
const join_side<W> side = {&memory_device, join_workspace<W>,
                           [](const join_args<W> *a, void *scratch, size_t bytes) {
                               return join<W>(a, scratch, bytes, stream_get());
                           },
                           [](const join_sum_args *a) {
                               return a->type == numeric_i8
                                          ? join_sum<numeric_i8>(gpu(), a, stream_get())
                                          : join_sum(gpu(), a, stream_get());
                           }};

template <typename W>
void check_random(uint64_t seed, int cases, int32_t most) {
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        join_problem<W> p = join_problem_make<W>(&r, i % 4 + 1, (join_axis)(i / 4 % 4), most, 40);
        join_agrees(&p, &side<W>);
    }
}

DEVICE_TEST(gpu_join_random) {
    check_random<uint32_t>(1, test_quick() ? 16 : 160, 900);
    check_random<uint64_t>(2, test_quick() ? 16 : 160, 9000);
}

DEVICE_TEST(gpu_join_every_size) {
    join_every_size(3, &side<uint64_t>, false);
}

// Many segments: sums of heads that take several turns.
DEVICE_TEST(gpu_join_large) {
    random_state r = random_make(4);
    const int32_t rows = test_quick() ? 3000 : 150000;
    for (int axis = join_axis_none; axis <= join_axis_z; ++axis) {
        join_problem<uint64_t> p = join_problem_make<uint64_t>(&r, 3, (join_axis)axis, 20, 0);
        p.layout =
            reference_layout<uint64_t>({-500, -500, -20}, {500, 500, 20}, 2, {4, 4, 4}, {1, 1, 1});
        p.at = 3;
        p.channels = 8;
        for (int s = 0; s < 3; ++s) {
            join_problem_fill(&r, &p, s, {-500, -500, -20}, {500, 500, 20}, 1 << s, rows >> 2 * s,
                              100);
        }
        p.out_capacity = p.total();
        join_agrees(&p, &side<uint64_t>);
    }
}

// A graph that was captured once follows the counts of the sets.
DEVICE_TEST(gpu_join_in_a_graph) {
    random_state r = random_make(5);
    join_problem<uint32_t> p = join_problem_make<uint32_t>(&r, 3, join_axis_z, 500, 0);
    for (int s = 0; s < 3; ++s) {
        join_problem_fill(&r, &p, s, p.layout.lo, p.layout.hi, 1 << s, 60, 10);
    }
    p.out_capacity = 100;
    const int32_t have[] = {p.count[0], p.count[1], p.count[2]}; // the words behind are no voxels
    join_run<uint32_t> d = join_run_make(&p, &side<uint32_t>);
    cudaGraphExec_t graph = stream_capture([&](cudaStream_t stream) {
        CHECK_OK(device_status_clear(d.args.trouble, stream));
        CHECK_OK(join<uint32_t>(&d.args, d.scratch, d.bytes, stream));
        CHECK_OK(join_sum(gpu(), &d.sums, stream));
    });
    REQUIRE(graph != nullptr);
    for (int32_t most : {60, 30, 1, 0, 60}) {
        for (int s = 0; s < 3; ++s) {
            p.count[s] = std::min(have[s], most);
            device_copy_in(d.args.set[s].count, &p.count[s], 1);
        }
        const int64_t row = (int64_t)p.channels * numeric_size(p.type);
        CUDA_CHECK(cudaMemsetAsync(d.sums.out, guarded_poison, (size_t)(p.out_capacity * row),
                                   stream_get()));
        CUDA_CHECK(cudaGraphLaunch(graph, stream_get()));
        const join_outcome<uint32_t> got = join_run_read(&p, &side<uint32_t>, &d),
                                     wanted = join_expected(&p);
        test_check(join_outcomes_equal(&got, &wanted), __FILE__, __LINE__, p.label);
    }
    CUDA_CHECK(cudaGraphExecDestroy(graph));
    guarded_finish();
}

DEVICE_TEST(gpu_join_refuses) {
    random_state r = random_make(6);
    const join_problem<uint32_t> p = join_problem_make<uint32_t>(&r, 2, join_axis_z, 50, 0);
    join_run<uint32_t> d = join_run_make(&p, &side<uint32_t>);
    CHECK_STATUS(join<uint32_t>(&d.args, d.scratch + 16, d.bytes, stream_get()), status_alignment);
    const numeric other = p.type == numeric_f16 ? numeric_bf16 : numeric_f16;
    d.sums.type = other;
    CHECK_STATUS(join_sum<numeric_f32>(gpu(), &d.sums, stream_get()), status_unsupported);
    CHECK(device_untouched(d.args.out.words, 0, p.out_capacity));
}

} // namespace
