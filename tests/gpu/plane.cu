// tests/gpu/plane.cu: maps of scenes whose windows do not fit their buffer (index/plane_far.cuh),
// in the forms that the plane search writes, against the host loops.
#include "../../spira/map.cuh"
#include "../support/planes.h"
#include "../support/sets.cuh"

using namespace spira;

namespace {

// A layer on both sides; the device's arrays have room for a few outputs more.
template <typename W>
struct plane_layer {
    word_layout layout;
    kernel_shape kernel;
    std::vector<W> source, outputs;
    int32_t sources, count;
    voxel_set<W> device_source, device_outputs;
    voxel_set<W> host_source() {
        return {source.data(), &sources, (int32_t)source.size()};
    }
    voxel_set<W> host_outputs() {
        return {outputs.data(), &count, (int32_t)outputs.size()};
    }
};

enum { room = 5 };
const unsigned plane_kinds = map_kind_os | map_kind_half | map_kind_compact;

// Elements [0, used) equal, and nothing written behind them.
void check_same(const int32_t *device, const std::vector<int32_t> &wanted, int64_t used) {
    std::vector<int32_t> got((size_t)used); // what lies behind it was never written
    device_copy_out(got.data(), device, used);
    CHECK(std::equal(got.begin(), got.end(), wanted.begin()));
    CHECK(device_untouched(device, used, (int64_t)wanted.size()));
}

template <typename W>
void check_os(plane_layer<W> *l, bool half) {
    const int64_t columns = map_columns(&l->kernel, half);
    const int64_t total = (int64_t)l->outputs.size() * columns;
    const voxel_set<W> outputs = half ? l->host_source() : l->host_outputs();
    std::vector<int32_t> wanted((size_t)total);
    map_forms forms = map_forms_os(wanted.data());
    forms.half = half;
    CHECK_OK(map_build_forms_host<W>(&l->layout, &l->kernel, l->host_source(), outputs, &forms));
    forms.os = device_new<int32_t>(total);
    CHECK_OK((map_build_forms<W, plane_kinds>(&l->layout, &l->kernel, l->device_source,
                                              half ? l->device_source : l->device_outputs, &forms,
                                              stream_get())));
    check_same(forms.os, wanted, l->count * columns);
}

template <typename W>
void check_compact(plane_layer<W> *l) {
    const int K = l->kernel.size.x;
    const int32_t capacity = (int32_t)l->outputs.size();
    std::vector<int32_t> wanted((size_t)compact_total(K, capacity)), got = wanted;
    device_status host_trouble = {}, found = {}, *trouble = device_new<device_status>(1);
    map_forms forms = map_forms_compact(wanted.data(), &host_trouble);
    CHECK_OK(map_build_forms_host<W>(&l->layout, &l->kernel, l->host_source(), l->host_outputs(),
                                     &forms));
    int32_t *compact = device_new<int32_t>((int64_t)got.size());
    forms = map_forms_compact(compact, trouble);
    CHECK_OK(device_status_clear(trouble, stream_get()));
    CHECK_OK((map_build_forms<W, plane_kinds>(&l->layout, &l->kernel, l->device_source,
                                              l->device_outputs, &forms, stream_get())));
    device_copy_out(got.data(), compact, (int64_t)got.size());
    device_copy_out(&found, trouble, 1);
    CHECK_EQUAL(found.flags, host_trouble.flags);
    int64_t wrong = 0;
    for (int64_t i = 0; i < (int64_t)l->count * K * K * K; ++i) {
        const int64_t at =
            compact_at(K, capacity, (int)(i / (K * K) % K), (int32_t)(i / (K * K * K)));
        wrong += compact_source(&got[(size_t)at], K, (int)(i % (K * K))) !=
                 compact_source(&wanted[(size_t)at], K, (int)(i % (K * K)));
    }
    CHECK_EQUAL(wrong, 0);
}

template <typename W>
void check_pairs(plane_layer<W> *l) {
    const int volume = kernel_volume(&l->kernel);
    const int32_t capacity = volume * (l->count + 1);
    std::vector<int32_t> begin((size_t)(volume + 1)), input((size_t)capacity), output = input;
    device_status host_trouble = {}, found = {}, *trouble = device_new<device_status>(1);
    const map_lists host = {begin.data(), input.data(), output.data(), capacity};
    const map_request<W> on_host = {l->kernel, l->host_source(), l->host_outputs(),
                                    map_forms_none(0, false, &host_trouble)};
    CHECK_OK(map_build_lists_host(&l->layout, &on_host, &host));
    const map_lists pairs = {device_new<int32_t>(volume + 1), device_new<int32_t>(capacity),
                             device_new<int32_t>(capacity), capacity};
    size_t bytes = 0;
    CHECK_OK(map_lists_workspace(&l->kernel, l->device_outputs.capacity, &bytes));
    char *scratch = device_new<char>((int64_t)bytes);
    CHECK_OK(device_status_clear(trouble, stream_get()));
    const map_request<W> request = {l->kernel, l->device_source, l->device_outputs,
                                    map_forms_none(0, false, trouble)};
    CHECK_OK(map_build_lists(&l->layout, &request, &pairs, scratch, bytes, stream_get()));
    check_same(pairs.begin, begin, volume + 1);
    check_same(pairs.input, input, begin[(size_t)volume]);
    check_same(pairs.output, output, begin[(size_t)volume]);
    device_copy_out(&found, trouble, 1);
    CHECK_EQUAL(found.flags, 0u);
}

// sources: what the source's count says
template <typename W>
void check_counted(const word_layout *layout, const std::vector<W> &source,
                   const std::vector<W> &outputs, triple stride, int32_t sources) {
    const bool same = source == outputs && sources >= 0;
    for (int size : {2, -2, 3, 5}) { // -2: transposed
        plane_layer<W> l = {};
        l.layout = *layout;
        l.kernel = {{abs(size), abs(size), abs(size)}, {1, 1, 1}, stride, size < 0};
        l.source = source;
        l.outputs = outputs;
        l.sources = sources;
        l.count = (int32_t)outputs.size();
        l.device_source = set_upload(source, room);
        device_copy_in(l.device_source.count, &sources, 1);
        l.device_outputs = set_upload(outputs, room);
        l.source.resize((size_t)l.device_source.capacity, word_none<W>());
        l.outputs.resize((size_t)l.device_outputs.capacity, word_none<W>());
        check_os(&l, false);
        if (size > 2) {
            if (same) {
                check_os(&l, true);
            }
            check_compact(&l);
            check_pairs(&l);
        }
        guarded_finish();
    }
}

template <typename W>
void check_layer(const word_layout *layout, const std::vector<W> &source,
                 const std::vector<W> &outputs, triple stride) {
    check_counted<W>(layout, source, outputs, stride, (int32_t)source.size());
}

// A negative count of the source stands for none, in sampled windows, too.
template <typename W>
void check_negative_sources(const word_layout *layout, const std::vector<W> &source,
                            const std::vector<W> &outputs, triple stride) {
    for (int32_t sources : {-1, INT32_MIN}) {
        check_counted<W>(layout, source, outputs, stride, sources);
    }
}

template <typename W>
void check_scenes() {
    for (int kind = 0; kind < scenes_kinds; ++kind) {
        for (int64_t voxels : {3000, 30000, 210000}) { // lists of many outputs are scanned
            if (voxels <= (test_quick() ? 3000 : 300000)) {
                planes_scene<W>((scenes_kind)kind, voxels, check_layer<W>);
            }
        }
    }
}

} // namespace

DEVICE_TEST(gpu_plane_scenes_32) {
    check_scenes<uint32_t>();
}

DEVICE_TEST(gpu_plane_scenes_64) {
    check_scenes<uint64_t>();
}

DEVICE_TEST(gpu_plane_counts) {
    const std::vector<int> counts = {0, 1, 2, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 200, 257};
    planes_counts<uint32_t>(counts, check_layer<uint32_t>);
    planes_counts<uint64_t>(counts, check_layer<uint64_t>);
}

DEVICE_TEST(gpu_plane_long_windows) {
    planes_long_windows<uint32_t>(check_layer<uint32_t>);
    planes_long_windows<uint64_t>(check_layer<uint64_t>);
}

DEVICE_TEST(gpu_plane_window_lengths) {
    for (int length : planes_lengths) {
        planes_length<uint32_t>(length, 1, check_layer<uint32_t>);
        planes_length<uint64_t>(length, 1, check_layer<uint64_t>);
        planes_length<uint64_t>(length, 4000, check_layer<uint64_t>);
    }
}

DEVICE_TEST(gpu_plane_off_the_lattice) {
    for (int stride : {2, 4, 8}) {
        planes_off_the_lattice<uint32_t>(stride, check_layer<uint32_t>);
        planes_off_the_lattice<uint64_t>(stride, check_layer<uint64_t>);
    }
}

DEVICE_TEST(gpu_plane_negative_source_counts) {
    planes_scene<uint64_t>(scenes_scattered, 3000, check_negative_sources<uint64_t>);
    planes_off_the_lattice<uint32_t>(2, check_negative_sources<uint32_t>);
}
