// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/growth.cu: sets from features on the GPU, word for word those of a table of
// coordinates.
#include "../../spira/prune.cuh"
#include "../../spira/rows.cuh"
#include "../../spira/subdivide.cuh"
#include "../support/device.cuh"
#include "../support/gpu.cuh"
#include "../support/growth.h"

using namespace spira;

namespace {

template <typename W>
const growth_side<W> side = {&memory_device, prune_workspace<W>,
                             [](const prune_args<W> *a, void *scratch, size_t bytes) {
                                 return prune<W>(a, scratch, bytes, stream_get());
                             },
                             subdivide_workspace<W>,
                             [](const subdivide_args<W> *a, void *scratch, size_t bytes) {
                                 return subdivide<W>(a, scratch, bytes, stream_get());
                             }};

template <typename W>
void check_random(uint64_t seed, int cases, int32_t most) {
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        growth_problem<W> p = growth_random<W>(&r, i % 3 > 0, most);
        growth_agrees(&p, &side<W>);
    }
}

DEVICE_TEST(gpu_growth_random) {
    check_random<uint32_t>(1, test_quick() ? 20 : 200, 600);
    check_random<uint64_t>(2, test_quick() ? 20 : 200, 9000);
}

// One step of growing in a graph: its set is the input of the next.
struct shell_step {
    subdivide_args<uint32_t> args;
    char *scratch;
    size_t bytes;
};

// From 5,537 voxels at stride 16 to 1,415,089 at stride 1 in one graph, which knows capacities
// only. Masks come from a kernel in practice; here from the host, as the sets are known.
DEVICE_TEST(gpu_growth_of_a_shell_in_one_graph) {
    word_layout layout;
    const std::vector<uint32_t> fine =
        reference_scan<uint32_t>("beast_shell1024.vox32", 2, &layout);
    if (fine.empty()) {
        SKIP("no data/beast_shell1024.vox32");
    }
    growth_problem<uint32_t> p = growth_of_shell(layout, fine);
    growth_outcome<uint32_t> last;
    shell_step step[4] = {};
    growth_outcome<uint32_t> wanted[4];
    for (int s = 0; s < 4; ++s) {
        growth_shell_step(&p, fine, s ? &last : nullptr);
        last = wanted[s] = growth_expected(&p);
        REQUIRE(last.set.count == growth_shell_steps[s].voxels);
        step[s].args = growth_subdivide(&p);
        subdivide_args<uint32_t> &a = step[s].args;
        a.layout = &layout;
        growth_bind(&p, &memory_device, &a);
        a.out.capacity = last.set.count + 1000;
        a.out.words = device_new<uint32_t>(a.out.capacity);
        a.source = device_new<int32_t>(a.out.capacity);
        if (s) {
            a.in = step[s - 1].args.out;
            std::vector<uint8_t> mask(p.mask);
            mask.resize((size_t)a.in.capacity, 0xff);
            a.choice.mask = device_upload(mask.data(), a.in.capacity);
        }
        CHECK_OK(subdivide_workspace(&a, &step[s].bytes));
        step[s].scratch = device_new<char>((int64_t)step[s].bytes);
    }
    cudaGraphExec_t graph = stream_capture([&](cudaStream_t stream) {
        for (const shell_step &s : step) {
            CHECK_OK(subdivide<uint32_t>(&s.args, s.scratch, s.bytes, stream));
        }
    });
    REQUIRE(graph != nullptr);
    for (int run = 0; run < 2; ++run) {
        CUDA_CHECK(cudaGraphLaunch(graph, stream_get()));
    }
    for (int s = 0; s < 4; ++s) {
        const subdivide_args<uint32_t> &a = step[s].args;
        const int32_t count = device_value(a.out.count);
        REQUIRE(count == growth_shell_steps[s].voxels);
        std::vector<uint32_t> words((size_t)count);
        std::vector<int32_t> source((size_t)count);
        device_copy_out(words.data(), a.out.words, count);
        device_copy_out(source.data(), a.source, count);
        CHECK(std::equal(words.begin(), words.end(), wanted[s].set.words.begin()));
        CHECK(source == wanted[s].source);
        CHECK_EQUAL(device_value(a.trouble).flags, 0u);
    }
    CUDA_CHECK(cudaGraphExecDestroy(graph));
    guarded_finish();
}

DEVICE_TEST(gpu_row_gather_random) {
    random_state r = random_make(6);
    for (int i = 0; i < (test_quick() ? 30 : 300); ++i) {
        const gather_problem p = gather_random(&r);
        gather_check(&p, &memory_device,
                     [](const row_gather_args *a) { return row_gather(a, stream_get()); });
        gather_grad_check(&r, &memory_device, [](const row_gather_grad_args *a) {
            return row_gather_grad(a, stream_get());
        });
    }
}

const splat_side splat_on_device = {
    &memory_device, row_lists_workspace,
    [](const row_lists_args *a, void *scratch, size_t bytes) {
        return row_lists(a, scratch, bytes, stream_get());
    },
    [](const row_splat_args *a) { return row_splat(a, stream_get()); }};

DEVICE_TEST(gpu_row_splat_random) {
    random_state r = random_make(10);
    for (int i = 0; i < (test_quick() ? 20 : 100); ++i) {
        splat_check(&r, &splat_on_device);
    }
}

} // namespace
