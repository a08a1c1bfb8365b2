// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/dense.cpp: dense.h against maps that are made element by element, and the kernels of
// dense.cuh, run on the host (emulate_numeric.h), against the same.
#include "../support/devices.h"
#include "../support/emulate_numeric.h"

#include "../support/dense_problems.h"

#include "../../spira/dense.cuh"

using namespace spira;

namespace {

const device_info device = device_made(90, 4, 232448, false);

template <typename W>
const dense_side<W> by_host = {&memory_host, dense_host<W>};

template <typename W>
const dense_side<W> by_kernel = {
    &memory_host, [](const dense_args<W> *a) {
        return a->type != numeric_i8       ? dense<W>(&device, a, nullptr)
               : a->out_type == numeric_i8 ? dense<W, numeric_i8, numeric_i8>(&device, a, nullptr)
                                           : dense<W, numeric_i8>(&device, a, nullptr);
    }};

const auto sides = {&by_host<uint32_t>, &by_kernel<uint32_t>};

template <typename W>
void check_random(uint64_t seed, int cases, int most, const dense_side<W> *side) {
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        emulate::seed = (uint64_t)i;
        dense_problem<W> p = dense_problem_random<W>(&r, most);
        if (i % 5 == 0) {
            p.count = random_int(&r, 0, 1) ? -1 : p.args.set.capacity + 7;
            for (int32_t j = 0; j < p.voxels(); ++j) { // then all words are voxels
                p.words[(size_t)j] =
                    word_pack<W>(&p.layout, {0, p.layout.lo.x, p.layout.lo.y, p.layout.lo.z + j});
            }
            p.layout.hi.z = (int)max_of(p.layout.hi.z, p.layout.lo.z + p.voxels());
        }
        dense_agrees(&p, side);
    }
}

} // namespace

TEST(dense_host_random) {
    check_random(1, 150, 12, &by_host<uint32_t>);
    check_random(2, 150, 12, &by_host<uint64_t>);
}

TEST(dense_kernels_random) {
    check_random(3, test_quick() ? 10 : 60, 14, &by_kernel<uint32_t>);
    check_random(4, test_quick() ? 10 : 60, 14, &by_kernel<uint64_t>);
}

TEST(dense_kernels_every_edge) {
    random_state r = random_make(5);
    dense_every_edge(5, &by_kernel<uint32_t>, {1, 7, 8, 64, 65});
    for (int channels : {1023, 1024, 1032, 4096}) {
        for (dense_order order : {dense_channels_first, dense_channels_last}) {
            const dense_shape s = dense_shape_of({2, 2, 1}, 1, channels, numeric_f32, order);
            const dense_problem<uint64_t> p = dense_problem_make<uint64_t>(&r, &s, 80, 2);
            dense_agrees(&p, &by_kernel<uint64_t>);
        }
    }
}

// Bits that no arithmetic would keep: signalling NaNs, negative zeros.
TEST(dense_keeps_bits_of_one_format) {
    random_state r = random_make(6);
    for (numeric type : {numeric_f16, numeric_bf16, numeric_f32}) {
        for (const dense_side<uint32_t> *by : sides) {
            const dense_shape s = dense_shape_of({5, 4, 2}, 1, 8, type, (dense_order)(type % 2));
            dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 200, 0);
            for (char &c : p.features) {
                const char odd[] = {(char)0x7f, (char)0xff, (char)0x80, 1, 0, (char)0x7d};
                c = odd[random_int(&r, 0, 5)];
            }
            dense_agrees(&p, by);
        }
    }
}

// A voxel that the grid has, in a batch that the words have no bits for: zeros.
TEST(dense_batches_beyond_the_words) {
    random_state r = random_make(7);
    dense_shape s = dense_shape_of({6, 5, 2}, 2, 4, numeric_f16, dense_channels_first);
    for (const dense_side<uint32_t> *by : sides) {
        dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 80, 0);
        p.args.batch = 9;
        dense_agrees(&p, by);
        p.args.grid.extent = {40, 40, 7}; // and cells that the words have no coordinates for
        dense_agrees(&p, by);
    }
}

// A voxel outside of the words' bounds has no cell, even where the grid has one.
TEST(dense_leaves_out_words_outside_of_the_layout) {
    random_state r = random_make(9);
    for (dense_order order : {dense_channels_first, dense_channels_last}) {
        const dense_shape s = dense_shape_of({6, 5, 2}, 2, 4, numeric_f16, order);
        dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 80, 0);
        p.layout.lo.x = p.args.grid.origin.x + 2;
        dense_outcome<uint32_t> host, kernel;
        for (const dense_side<uint32_t> *by : sides) {
            const dense_buffers<uint32_t> run = dense_buffers_make(&p, by->memory);
            CHECK_OK(by->run(&run.args));
            (by == &by_host<uint32_t> ? host : kernel) = dense_buffers_read(by->memory, &run);
        }
        CHECK(host.out == kernel.out);
        CHECK_EQUAL(memcmp(&host.trouble, &kernel.trouble, sizeof host.trouble), 0);
        CHECK(host.trouble.flags & (uint32_t)device_flag_range);
        const int64_t row = numeric_size(numeric_f16) * s.channels; // bytes at x = 0
        for (int64_t i = 0; order == dense_channels_last && i < row; ++i) {
            CHECK_EQUAL(host.out[(size_t)i], 0);
        }
    }
}

// With programmatic launch the set is searched while the kernel before still writes the features.
TEST(dense_waits_for_the_features) {
    random_state r = random_make(9);
    for (int i = 0; i < 12; ++i) {
        emulate::seed = (uint64_t)i;
        const dense_shape s = dense_shape_random(&r, 10);
        dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 60, 2);
        p.args.programmatic = true;
        const dense_buffers<uint32_t> run = dense_buffers_make(&p, &memory_host);
        emulate::previous = {[&] { memset(run.features, 0x5a, p.features.size()); },
                             [&] { memcpy(run.features, p.features.data(), p.features.size()); }};
        CHECK_OK(by_kernel<uint32_t>.run(&run.args));
        emulate::previous = {};
        dense_buffers_judge(&p, &memory_host, &run);
        guarded_finish();
    }
}

TEST(dense_finds_planted_errors) {
    random_state r = random_make(8);
    const dense_shape s = dense_shape_of({6, 5, 2}, 2, 4, numeric_f16, dense_channels_first);
    dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 80, 0);
    const dense_buffers<uint32_t> run = dense_buffers_make(&p, &memory_host);
    CHECK_OK(by_kernel<uint32_t>.run(&run.args));
    const std::vector<char> good = dense_buffers_read(&memory_host, &run).out;
    CHECK(good == dense_expected(&p));
    p.args.order = dense_channels_last;
    CHECK(good != dense_expected(&p));
    p.args.order = dense_channels_first;
    p.words[0] += 1; // another voxel
    CHECK(good != dense_expected(&p));
}

TEST(dense_bytes_of_a_birds_eye_map) {
    const expand_grid grid = {{0, 0, 0}, {180, 180, 2}};
    size_t bytes = 0;
    CHECK_OK(dense_bytes(&grid, 1, 128, numeric_f16, &bytes));
    CHECK_EQUAL(bytes, (size_t)256 * 180 * 180 * 2);
    CHECK_OK(dense_bytes(&grid, 3, 128, numeric_f32, &bytes));
    CHECK_EQUAL(bytes, (size_t)3 * 256 * 180 * 180 * 4);
    const expand_grid large = {{0, 0, 0}, {1 << 20, 1 << 20, 1}};
    CHECK_OK(dense_bytes(&large, 1, 4096, numeric_bf16, &bytes));
    CHECK_EQUAL(bytes, (size_t)1 << 53);
    CHECK_STATUS(dense_bytes(&large, 1 << 9, 4096, numeric_bf16, &bytes), status_bad_size);
    CHECK_STATUS(dense_bytes(nullptr, 1, 4, numeric_f16, &bytes), status_null_pointer);
    CHECK_STATUS(dense_bytes(&grid, 1, 4, numeric_f16, nullptr), status_null_pointer);
    CHECK_STATUS(dense_bytes(&grid, 0, 4, numeric_f16, &bytes), status_bad_size);
    CHECK_STATUS(dense_bytes(&grid, 1, 0, numeric_f16, &bytes), status_bad_size);
    CHECK_STATUS(dense_bytes(&grid, 1, 4, numeric_tf32, &bytes), status_unsupported);
    for (int a = 0; a < 3; ++a) {
        expand_grid none = grid;
        (a == 0 ? none.extent.x : a == 1 ? none.extent.y : none.extent.z) = 0;
        CHECK_STATUS(dense_bytes(&none, 1, 4, numeric_f16, &bytes), status_bad_size);
    }
}

TEST(dense_refuses) {
    word_layout layout = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {1, 1, 1});
    uint32_t words[1] = {word_pack<uint32_t>(&layout, {0, 1, 0, 1})};
    int32_t count = 1;
    alignas(16) float features[8] = {1, 2}, out[8];
    device_status trouble = {};
    dense_args<uint32_t> good = {};
    good.layout = &layout;
    good.set = {words, &count, 1};
    good.grid = {{0, 0, 0}, {2, 1, 2}};
    good.stride = {1, 1, 1};
    good.batch = 1;
    good.channels = 2;
    good.type = good.out_type = numeric_f32;
    good.features = features;
    good.out = out;
    good.trouble = &trouble;
    auto refuses = [&](status_code code, void (*spoil)(dense_args<uint32_t> *)) {
        dense_args<uint32_t> bad = good;
        spoil(&bad);
        CHECK_STATUS(dense_host(&bad), code);
        CHECK_STATUS(dense<uint32_t>(&device, &bad, nullptr), code);
    };
    typedef dense_args<uint32_t> args;
    CHECK_OK(dense_host(&good));
    CHECK_OK(dense<uint32_t>(&device, &good, nullptr));
    CHECK_STATUS(dense<uint32_t>(nullptr, &good, nullptr), status_null_pointer);
    CHECK_STATUS(dense<uint32_t>(&device, nullptr, nullptr), status_null_pointer);
    CHECK_STATUS(dense_host<uint32_t>(nullptr), status_null_pointer);
    refuses(status_null_pointer, [](args *a) { a->layout = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->set.words = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->set.count = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->features = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->out = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->trouble = nullptr; });
    refuses(status_alignment, [](args *a) { a->out = misaligned((char *)a->out); });
    refuses(status_alignment, [](args *a) { a->features = misaligned((char *)a->features); });
    refuses(status_alignment, [](args *a) { a->set.words = misaligned(a->set.words); });
    refuses(status_unsupported, [](args *a) { a->out = (void *)a->features; });
    refuses(status_unsupported, [](args *a) { a->type = (numeric)7; });
    refuses(status_unsupported, [](args *a) { a->out_type = numeric_tf32; });
    refuses(status_unsupported, [](args *a) { a->order = (dense_order)2; });
    refuses(status_bad_size, [](args *a) { a->batch = 0; });
    refuses(status_bad_size, [](args *a) { a->channels = -1; });
    refuses(status_bad_size, [](args *a) { a->set.capacity = 0; });
    refuses(status_bad_size, [](args *a) { a->grid.extent.y = 0; });
    refuses(status_bad_size, [](args *a) { a->grid.origin.z = INT32_MIN; });
    refuses(status_stride, [](args *a) { a->stride.x = 0; });
    refuses(status_bad_size, [](args *a) { a->stride.z = INT32_MAX, a->grid.extent.z = 3; });
    refuses(status_bad_size, [](args *a) {
        a->order = dense_channels_last;
        a->grid.extent.z = dense_depth_max + 1;
    });
    word_layout wide = word_widen(layout);
    good.layout = &wide;
    CHECK_STATUS(dense_host(&good), status_unsupported);
    good.layout = &layout;
    good.grid.extent = {1 << 30, 1 << 10, 1}; // more thread blocks than a launch has
    CHECK_STATUS(dense<uint32_t>(&device, &good, nullptr), status_bad_size);
}
