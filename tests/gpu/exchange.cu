// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/exchange.cu: kernel maps in the forms of other engines, written on the GPU, equal the
// maps that each engine would build from the same voxels.
#include "../../spira/exchange.cuh"
#include "../../spira/map.cuh"
#include "../support/reference_exchange.h"
#include "../support/sets.cuh"

using namespace spira;

namespace {

const test_memory *const memory = &memory_device;

template <typename W>
void scratch_make(engine_layer<W> *l) {
    CHECK_OK(map_lists_workspace(&l->kernel, l->outputs.capacity, &l->bytes));
    l->scratch = device_new<char>((int64_t)l->bytes);
}

template <typename W>
status layer_run(const engine_layer<W> *l, cudaStream_t stream) {
    SPIRA_TRY(device_status_clear(l->trouble, stream));
    const map_request<W> request = {l->kernel, l->source, l->outputs,
                                    map_forms_none(0, false, l->trouble)};
    SPIRA_TRY(map_build_lists(&l->layout, &request, &l->pairs, l->scratch, l->bytes, stream));
    for (const exchange_lists &to : l->buffers.to) {
        SPIRA_TRY(exchange(&l->pairs, &to, l->trouble, stream));
    }
    return status_success();
}

const auto check = engine_checker(memory, [](auto *l) {
    scratch_make(l);
    return layer_run(l, stream_get());
});

const engine_limits just = {-1, -1}; // enough

// ---- scenes and kernels -------------------------------------------------------------------------

DEVICE_TEST(gpu_exchange_every_kernel) {
    engine_every_kernel<uint32_t>({0, 1, 2, 33, 1100, 3000}, check);
    engine_every_kernel<uint64_t>({0, 1, 2, 33, 1100, 3000}, check);
}

// Sizes around thread blocks, chunks and groups of lanes.
template <typename W>
void check_every_size() {
    random_state random = random_make(2);
    const triple lo = {0, 0, 0}, hi = {15, 15, 15};
    const int sizes[] = {3,   7,   8,   9,   31,  32,  33,   63,   64,   65,   127,
                         128, 129, 255, 256, 257, 511, 1023, 1024, 1025, 2047, 2049};
    for (triple size : {triple{3, 3, 3}, triple{2, 2, 2}, triple{1, 1, 1}, triple{3, 3, 4}}) {
        kernel_shape k = {size, {1, 1, 1}, {1, 1, 1}, false};
        word_layout l = reference_layout<W>(lo, hi, 1, {1, 1, 1}, {3, 3, 3});
        for (int n : sizes) {
            if (test_quick() && n > 65) {
                continue;
            }
            std::vector<W> words = set_random<W>(&random, &l, lo, hi, n);
            for (int room : {0, 1, 1100}) { // thread blocks without outputs
                if (test_thinned(23)) {
                    continue;
                }
                check(&l, &k, words, (const std::vector<W> *)nullptr, room, just);
            }
        }
    }
}

DEVICE_TEST(gpu_exchange_every_size) {
    check_every_size<uint32_t>();
    check_every_size<uint64_t>();
}

DEVICE_TEST(gpu_exchange_strided_and_inverse) {
    engine_strides<uint32_t>(test_quick() ? 60 : 2500, check);
    engine_strides<uint64_t>(test_quick() ? 60 : 2500, check);
}

// With many offsets few thread blocks share a list, and each moves several chunks.
DEVICE_TEST(gpu_exchange_large_kernels) {
    random_state random = random_make(4);
    const triple lo = {0, 0, 0}, hi = {39, 39, 39};
    for (triple size : {triple{15, 15, 15}, triple{14, 15, 13}, triple{9, 15, 3}}) {
        kernel_shape k = {size, {1, 1, 1}, {1, 1, 1}, false};
        word_layout l = reference_layout<uint32_t>(lo, hi, 1, {1, 1, 1}, kernel_reach(&k));
        for (int n : {1, 40, 9000}) {
            if (test_quick() && n > 1) {
                continue;
            }
            check(&l, &k, set_random<uint32_t>(&random, &l, lo, hi, n),
                  (const std::vector<uint32_t> *)nullptr, 1, just);
        }
    }
}

// ---- capacities ---------------------------------------------------------------------------------

DEVICE_TEST(gpu_exchange_full_and_one_more) {
    engine_full_and_one_more({2, 50, 1300}, check);
}

// More pairs than the lists had room for: the lists are empty, and so are the forms made of them.
DEVICE_TEST(gpu_exchange_of_lists_that_did_not_fit) {
    random_state random = random_make(6);
    const triple lo = {0, 0, 0}, hi = {9, 9, 9};
    kernel_shape k = kernel_cube(3, 1);
    word_layout layout = reference_layout<uint32_t>(lo, hi, 1, {1, 1, 1}, {1, 1, 1});
    std::vector<uint32_t> words = set_random<uint32_t>(&random, &layout, lo, hi, 300);
    engine_limits limits = {-1, -1};
    const engine_forms wanted = engine_wanted(&layout, &k, words, words, &limits);
    limits.pairs -= 1;
    voxel_set<uint32_t> set = set_upload(words, 0);
    engine_layer<uint32_t> l = engine_layer_make(memory, &layout, &k, set, set, limits);
    scratch_make(&l);
    REQUIRE_OK(layer_run(&l, stream_get()));
    engine_forms none = wanted;
    none.part[engine_indice_pairs].assign(wanted.part[engine_indice_pairs].size(), -1);
    none.part[engine_indice_pair_num].assign(27, 0);
    none.part[engine_nbsizes].assign(27, 0);
    none.part[engine_begin].assign(28, 0);
    none.part[engine_nbmaps] = none.part[engine_in] = none.part[engine_out] = {};
    CHECK_EQUAL(engine_difference(engine_buffers_read(memory, &l.buffers), none), "");
    CHECK_EQUAL(device_value(l.trouble).needed, (uint32_t)wanted.pairs);
}

DEVICE_TEST(gpu_exchange_of_lists_that_disagree) {
    engine_lists_that_disagree(memory, [](const int32_t *begin, const engine_buffers *b) {
        const int32_t rows[4] = {7, 7, 7, 7};
        const map_lists pairs = {device_upload(begin, 4), device_upload(rows, 4),
                                 device_upload(rows, 4), 4};
        for (const exchange_lists &to : b->to) {
            CHECK_OK(exchange(&pairs, &to, device_zeros<device_status>(1), stream_get()));
        }
    });
}

// ---- real scans ---------------------------------------------------------------------------------

template <typename W>
void check_real_scan(const char *name, int size, int64_t pairs) {
    word_layout layout;
    std::vector<W> words = reference_scan<W>(name, 16, &layout);
    REQUIRE(!words.empty());
    kernel_shape k = kernel_cube(size, 1);
    const int32_t count = (int32_t)words.size();
    const engine_forms f =
        check(&layout, &k, words, (const std::vector<W> *)nullptr, 0, engine_limits{-1, count});
    CHECK_EQUAL(f.pairs, pairs);
    CHECK_EQUAL(f.longest, count); // the centre
    kernel_shape half = kernel_cube(2, 1), back = half;
    back.transposed = true;
    const std::vector<W> coarse = forms_floored(&layout, words, {2, 2, 2});
    CHECK_EQUAL(check(&layout, &half, words, &coarse, 100, just).pairs, count);
    CHECK_EQUAL(check(&layout, &back, coarse, &words, 100, just).pairs, count);
}

DEVICE_TEST(gpu_exchange_real_scans) {
    NEED_SCANS("kitti00_000000_5cm.vox32", "lone_star_5cm.vox32");
    check_real_scan<uint32_t>("kitti00_000000_5cm.vox32", 3, 346220);
    if (!test_quick()) {
        check_real_scan<uint64_t>("kitti00_000000_5cm.vox32", 5, 847344);
        check_real_scan<uint32_t>("lone_star_5cm.vox32", 3, 2533643);
    }
}

// ---- a graph ------------------------------------------------------------------------------------

// One graph for a capacity; scenes of other sizes, one of them too dense for the stride.
template <typename W>
void check_replays(kernel_shape k) {
    const triple lo = {0, 0, 0}, hi = {19, 19, 19};
    const int32_t capacity = 2000;
    random_state random = random_make(9);
    word_layout layout = reference_layout<W>(lo, hi, 2, {1, 1, 1}, kernel_reach(&k));
    voxel_set<W> set = set_upload(set_random<W>(&random, &layout, lo, hi, 50), 1950);
    engine_limits limits = {capacity * kernel_volume(&k), 1500};
    engine_layer<W> l = engine_layer_make(memory, &layout, &k, set, set, limits);
    scratch_make(&l);
    cudaGraphExec_t replay =
        stream_capture([&](cudaStream_t stream) { CHECK_OK(layer_run(&l, stream)); });
    REQUIRE(replay != nullptr);
    int64_t overflows = 0;
    for (int n : {700, 0, 2000, 1, 1999, 1200, 33}) {
        char name[64];
        snprintf(name, sizeof name, "replay with %d voxels", n);
        const std::vector<W> words = set_random<W>(&random, &layout, lo, hi, n);
        set_refill(&set, words);
        CUDA_CHECK(cudaGraphLaunch(replay, stream_get()));
        const engine_forms wanted = engine_wanted(&layout, &k, words, words, &limits);
        engine_layer_good(memory, &l, wanted, false, name);
        overflows += device_value(l.trouble).flags != 0;
    }
    CHECK(overflows >= 1 && overflows <= 5);
    CUDA_CHECK(cudaGraphExecDestroy(replay));
}

DEVICE_TEST(gpu_exchange_graph_replays) {
    check_replays<uint32_t>(kernel_cube(3, 1));
    check_replays<uint64_t>({{2, 3, 4}, {1, 1, 1}, {1, 1, 1}, false});
}

// ---- errors -------------------------------------------------------------------------------------

// What exchange_host refuses, too; nothing is launched.
DEVICE_TEST(gpu_exchange_refuses) {
    int32_t *p = device_new<int32_t>(100);
    const map_lists pairs = {p, p, p, 10};
    device_status *trouble = device_zeros<device_status>(1);
    const exchange_lists good = exchange_minkowski({3, 3, 3}, p, p, p),
                         bad = exchange_spconv({3, 3, 3}, 0, p, p);
    CHECK_STATUS(exchange(nullptr, &good, trouble, stream_get()), status_null_pointer);
    CHECK_STATUS(exchange(&pairs, nullptr, trouble, stream_get()), status_null_pointer);
    CHECK_STATUS(exchange(&pairs, &good, nullptr, stream_get()), status_null_pointer);
    CHECK_STATUS(exchange(&pairs, &bad, trouble, stream_get()), status_bad_size);
    CHECK(device_untouched(p, 0, 100));
}

} // namespace
