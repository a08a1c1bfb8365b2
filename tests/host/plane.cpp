// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/plane.cpp: the kernels of index/plane_*.cuh, run on the host (emulate_plane.h),
// against the host loops: scenes whose windows fit their buffer, and scenes whose windows are
// sampled.
#include "../support/emulate_plane.h"
#include "../support/planes.h"

#include "../../spira/index/map_cube_small.cuh"
#include "../../spira/index/map_large.cuh"

using namespace spira;

namespace {

enum : int32_t { untouched = 0x7a7a7a7a };

// A layer: its words, and what stands behind them.
template <typename W>
struct layer {
    word_layout layout;
    kernel_shape kernel;
    std::vector<W> source, outputs; // with garbage behind the counts
    int32_t sources, count;
    map_request<W> request() {
        map_request<W> r = {};
        r.kernel = kernel;
        r.source = {source.data(), &sources, (int32_t)source.size()};
        r.outputs = {outputs.data(), &count, (int32_t)outputs.size()};
        return r;
    }
};

template <typename W>
layer<W> layer_make(const word_layout *layout, kernel_shape kernel, std::vector<W> source,
                    std::vector<W> outputs, int32_t room = 3) {
    layer<W> l = {
        *layout, kernel, source, outputs, (int32_t)source.size(), (int32_t)outputs.size()};
    for (int32_t i = 0; i < room; ++i) {
        l.source.push_back(source.empty() ? 0 : source[(size_t)i % source.size()]);
        l.outputs.push_back(outputs.empty() ? 0 : outputs[(size_t)i % outputs.size()]);
    }
    return l;
}

template <typename W, int K, plane_form form>
void check_os(layer<W> *l, int threshold = map_all) {
    const bool half = form == plane_form_half;
    map_request<W> r = l->request();
    const int64_t columns = map_os_columns(&l->kernel, threshold, half);
    r.outputs = half ? r.source : r.outputs;
    std::vector<int32_t> got(l->outputs.size() * (size_t)columns, untouched), wanted = got;
    r.forms = map_forms_os(wanted.data());
    r.forms.half = half;
    r.forms.threshold = threshold;
    REQUIRE_OK(map_build_forms_host(&l->layout, &l->kernel, r.source, r.outputs, &r.forms));
    r.forms.os = got.data();
    const map_request<W> *one = &r;
    REQUIRE_OK((plane_launch<W, K, form>(&l->layout, &one, 1, false, nullptr)));
    CHECK(got == wanted);
}

template <typename W, int K>
void check_compact(layer<W> *l) {
    map_request<W> r = l->request();
    const int32_t capacity = r.outputs.capacity;
    std::vector<int32_t> got((size_t)compact_total(K, capacity), untouched), wanted = got;
    device_status trouble = {}, host_trouble = {};
    r.forms = map_forms_compact(wanted.data(), &host_trouble);
    REQUIRE_OK(map_build_forms_host(&l->layout, &l->kernel, r.source, r.outputs, &r.forms));
    r.forms = map_forms_compact(got.data(), &trouble);
    const map_request<W> *one = &r;
    REQUIRE_OK((plane_launch<W, K, plane_form_compact>(&l->layout, &one, 1, false, nullptr)));
    int64_t wrong = 0;
    for (int plane = 0; plane < K; ++plane) {
        for (int32_t o = 0; o < capacity; ++o) {
            const int64_t at = compact_at(K, capacity, plane, o);
            for (int c = 0; c < K * K && o < l->count; ++c) {
                wrong += compact_source(&got[(size_t)at], K, c) !=
                         compact_source(&wanted[(size_t)at], K, c);
            }
            for (int64_t i = at; i < at + K + 1 && o >= l->count; ++i) {
                wrong += got[(size_t)i] != untouched;
            }
        }
    }
    CHECK_EQUAL(wrong, 0);
    CHECK_EQUAL(trouble.flags, host_trouble.flags);
}

// The compact form of a large kernel. Where `has` is 0, `begin` is unspecified.
template <typename W>
void check_large(layer<W> *l, triple size, triple stride) {
    l->kernel = {size, {1, 1, 1}, stride, false};
    REQUIRE(compact_large_takes(&l->kernel));
    map_request<W> r = l->request();
    const int32_t capacity = r.outputs.capacity;
    std::vector<int32_t> got((size_t)compact_numbers(&l->kernel, capacity), untouched);
    std::vector<int32_t> wanted = got;
    device_status trouble = {}, host_trouble = {};
    r.forms = map_forms_compact(wanted.data(), &host_trouble);
    REQUIRE_OK(map_build_forms_host(&l->layout, &l->kernel, r.source, r.outputs, &r.forms));
    r.forms = map_forms_compact(got.data(), &trouble);
    const map_request<W> *one = &r;
    REQUIRE_OK(map_large_launch<W>(&l->layout, &one, 1, false, nullptr));
    const int64_t pairs = compact_pair_at(size, capacity, size.x, 0);
    for (int64_t i = 0; i < pairs; i += 2) {
        got[(size_t)i] = wanted[(size_t)i + 1] ? got[(size_t)i] : wanted[(size_t)i];
    }
    CHECK(got == wanted);
    CHECK_EQUAL(trouble.flags, host_trouble.flags);
}

template <typename W, int K>
void check_pairs(layer<W> *l) {
    map_request<W> r = l->request();
    const int32_t capacity = K * K * K * (l->count + 1);
    std::vector<int32_t> begin((size_t)(K * K * K + 1), untouched), host_begin = begin;
    std::vector<int32_t> in((size_t)capacity, untouched), host_in = in, out = in, host_out = in;
    device_status trouble = {}, host_trouble = {};
    const map_lists host = {host_begin.data(), host_in.data(), host_out.data(), capacity};
    const map_lists pairs = {begin.data(), in.data(), out.data(), capacity};
    r.forms = map_forms_none(0, false, &host_trouble);
    REQUIRE_OK(map_build_lists_host(&l->layout, &r, &host));
    r.forms.trouble = &trouble;
    workspace w = workspace_begin(nullptr);
    map_cube_lists_take<K>(&w, r.outputs.capacity);
    std::vector<uint4> scratch((size_t)ceil_div((int64_t)w.used, 16) + workspace_alignment / 16);
    memset(scratch.data(), 0xa5, scratch.size() * sizeof(uint4));
    void *aligned = (void *)round_up((int64_t)(uintptr_t)scratch.data(), workspace_alignment);
    REQUIRE_OK((map_cube_launch<W, K>(&l->layout, &r, &pairs, aligned, nullptr)));
    CHECK(begin == host_begin);
    CHECK(in == host_in);
    CHECK(out == host_out);
    CHECK_EQUAL(trouble.flags, 0u);
}

// All forms of one size.
template <typename W, int K>
void check_size(layer<W> *l, triple stride, bool same) {
    l->kernel = {{K, K, K}, {1, 1, 1}, stride, false};
    check_os<W, K, plane_form_os>(l);
    check_os<W, K, plane_form_near>(l, (int)(l->source.size() % 5));
    if (same) {
        check_os<W, K, plane_form_half>(l);
    }
    check_compact<W, K>(l);
    check_pairs<W, K>(l);
}

// Maps of size 2, of a strided layer and of a transposed one.
template <typename W>
void check_twos(layer<W> *l, triple stride) {
    for (bool transposed : {false, true}) {
        l->kernel = {{2, 2, 2}, {1, 1, 1}, stride, transposed};
        check_os<W, 2, plane_form_os>(l);
    }
}

// All forms of all sizes.
template <typename W>
void check_layer(const word_layout *layout, const std::vector<W> &source,
                 const std::vector<W> &outputs, triple stride) {
    emulate::seed += 1;
    layer<W> l = layer_make(layout, {}, source, outputs);
    const bool same = source == outputs;
    check_twos<W>(&l, stride);
    check_size<W, 3>(&l, stride, same);
    check_size<W, 5>(&l, stride, same);
    l.kernel.size = {7, 7, 7};
    check_os<W, 7, plane_form_os>(&l);
    check_large(&l, {7, 7, 7}, stride);
    check_large(&l, {3, 7, 7}, stride);
}

// Output-stationary maps of all sizes alone: many layers.
template <typename W>
void check_taps(const word_layout *layout, const std::vector<W> &source,
                const std::vector<W> &outputs, triple stride) {
    emulate::seed += 1;
    layer<W> l = layer_make(layout, {}, source, outputs);
    check_twos<W>(&l, stride);
    l.kernel = {{3, 3, 3}, {1, 1, 1}, stride, false};
    check_os<W, 3, plane_form_os>(&l);
    l.kernel.size = {5, 5, 5};
    check_os<W, 5, plane_form_os>(&l);
    l.kernel.size = {7, 7, 7};
    check_os<W, 7, plane_form_os>(&l);
    check_large(&l, {7, 7, 7}, stride);
}

// A negative count of the source stands for none, in sampled windows, too.
template <typename W>
void check_negative_sources(const word_layout *layout, const std::vector<W> &source,
                            const std::vector<W> &outputs, triple stride) {
    for (int32_t sources : {-1, -1000, INT32_MIN}) {
        emulate::seed += 1;
        layer<W> l = layer_make(layout, {}, source, outputs);
        l.sources = sources;
        check_size<W, 3>(&l, stride, false);
        check_size<W, 5>(&l, stride, false);
        l.kernel.size = {7, 7, 7};
        check_os<W, 7, plane_form_os>(&l);
        check_large(&l, {7, 7, 7}, stride);
    }
}

template <typename W>
void check_scenes() {
    const int64_t voxels[scenes_kinds] = {300, 300, 2600, 400, 400, 1100, 300, 700};
    for (int kind = 0; kind < scenes_kinds; ++kind) {
        planes_scene<W>((scenes_kind)kind, voxels[kind], check_layer<W>);
    }
}

} // namespace

TEST(plane_scenes) {
    check_scenes<uint32_t>();
    check_scenes<uint64_t>();
}

// Large kernels: rows of up to 15 offsets, one size for each axis.
template <typename W>
static void check_large_sizes(const word_layout *layout, const std::vector<W> &source,
                              const std::vector<W> &outputs, triple stride) {
    emulate::seed += 1;
    layer<W> l = layer_make(layout, {}, source, outputs);
    for (triple size : {triple{3, 9, 15}, {15, 3, 3}, {13, 13, 13}}) {
        check_large(&l, size, stride);
    }
    l.outputs = planes_some(l.outputs, 7);
    l.count = (int32_t)l.outputs.size() - 1;
    check_large(&l, {9, 9, 9}, stride);
}

TEST(plane_large_kernels) {
    for (scenes_kind kind : {scenes_scattered, scenes_walls_z, scenes_dense}) {
        planes_scene<uint32_t>(kind, 400, check_large_sizes<uint32_t>);
        planes_scene<uint64_t>(kind, 130, check_large_sizes<uint64_t>);
    }
}

TEST(plane_counts) {
    planes_counts<uint32_t>({0, 1, 33, 64, 129}, check_layer<uint32_t>);
    planes_counts<uint64_t>({0, 1, 65, 128}, check_layer<uint64_t>);
}

TEST(plane_long_windows) {
    planes_long_windows<uint32_t>(check_layer<uint32_t>);
    planes_long_windows<uint64_t>(check_layer<uint64_t>);
}

TEST(plane_window_lengths) {
    for (int length : planes_lengths) {
        planes_length<uint32_t>(length, 1, check_taps<uint32_t>);
        planes_length<uint64_t>(length, 1, check_taps<uint64_t>);
        planes_length<uint64_t>(length, 4000, check_taps<uint64_t>);
    }
}

TEST(plane_off_the_lattice) {
    planes_off_the_lattice<uint32_t>(2, check_layer<uint32_t>);
    planes_off_the_lattice<uint64_t>(4, check_layer<uint64_t>);
}

// Up to the longest window that there can be: all words of the largest set, and those behind it.
TEST(plane_spacings) {
    CHECK_EQUAL(plane_spacing(1), 0);
    CHECK_EQUAL(plane_spacing(256), 0);
    CHECK_EQUAL(plane_spacing(257), 1);
    CHECK_EQUAL(plane_spacing(1 << 30), 22);
    CHECK_EQUAL(plane_spacing((1 << 30) + 4), 22);
}

TEST(plane_negative_source_counts) {
    planes_scene<uint64_t>(scenes_scattered, 400, check_negative_sources<uint64_t>);
    planes_off_the_lattice<uint32_t>(2, check_negative_sources<uint32_t>);
}

// The scan between search and move, for a cube of size 3.
TEST(plane_many_outputs) {
    const word_layout layout =
        reference_layout<uint32_t>({0, 0, 0}, {63, 63, 63}, 1, {1, 1, 1}, {2, 2, 2});
    const std::vector<uint32_t> words =
        forms_words_of<uint32_t>(&layout, forms_box({5, 0, 0}, {5, 39, 39}));
    layer<uint32_t> l = layer_make(&layout, {{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, false}, words,
                                   planes_some(words, 3), 196608);
    check_pairs<uint32_t, 3>(&l);
}
