// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/plane.cu: maps of scenes whose windows do not fit their buffer (index/plane_far.cuh),
// in the forms that the plane search writes, against the host loops.
#include "../support/forms.cuh"
#include "../support/planes.h"

namespace {

enum { room = 5 }; // outputs more than there are

// Whether two compact maps have the same taps.
bool compact_same(const kernel_shape *kernel, int32_t capacity, int32_t count,
                  const std::vector<int32_t> &got, const std::vector<int32_t> &wanted) {
    const triple size = kernel->size;
    int64_t wrong = 0;
    for (int64_t i = 0; i < (int64_t)count * size.x; ++i) {
        const int plane = (int)(i % size.x);
        const int32_t output = (int32_t)(i / size.x);
        if (compact_large_takes(kernel)) {
            const size_t fold = (size_t)compact_fold_at(size, capacity, plane, output);
            const size_t pair = (size_t)compact_pair_at(size, capacity, plane, output);
            wrong += got[fold] != wanted[fold];
            for (size_t y = pair; y < pair + 2 * (size_t)size.y; y += 2) {
                wrong += got[y + 1] != wanted[y + 1] || (got[y + 1] && got[y] != wanted[y]);
            }
            continue;
        }
        const size_t at = (size_t)compact_at(size.x, capacity, plane, output);
        for (int c = 0; c < size.y * size.z; ++c) {
            wrong += compact_source(&got[at], size.x, c) != compact_source(&wanted[at], size.x, c);
        }
    }
    return wrong == 0;
}

// The compact form, when the source's count says `sources`.
template <typename W>
void check_compact(const forms_scene<W> *s, int32_t sources) {
    std::vector<W> source = s->source, outputs = s->outputs;
    int32_t count = (int32_t)outputs.size();
    set_pad(&source, (int32_t)source.size() + room);
    set_pad(&outputs, count + room);
    const int32_t capacity = count + room;
    std::vector<int32_t> wanted((size_t)compact_numbers(&s->kernel, capacity));
    device_status host_trouble = {}, *trouble = device_zeros<device_status>(1);
    map_forms forms = map_forms_compact(wanted.data(), &host_trouble);
    const voxel_set<W> from = {source.data(), &sources, (int32_t)source.size()};
    CHECK_OK(map_build_forms_host<W>(&s->layout, &s->kernel, from,
                                     {outputs.data(), &count, capacity}, &forms));
    const voxel_set<W> device_from = set_upload(s->source, room);
    device_copy_in(device_from.count, &sources, 1);
    int32_t *compact = device_new_poisoned<int32_t>((int64_t)wanted.size());
    forms = map_forms_compact(compact, trouble);
    CHECK_OK((map_build_forms<W, map_kind_compact>(
        &s->layout, &s->kernel, device_from, set_upload(s->outputs, room), &forms, stream_get())));
    std::vector<int32_t> got(wanted.size());
    device_copy_out(got.data(), compact, (int64_t)got.size());
    CHECK_EQUAL(device_value(trouble).flags, host_trouble.flags);
    CHECK(compact_same(&s->kernel, capacity, count, got, wanted));
    guarded_finish();
}

// The scene of each kernel, and what there is to build of it.
template <typename W, typename F>
void for_wishes(const word_layout *layout, const std::vector<W> &source,
                const std::vector<W> &outputs, triple stride, const F &check) {
    for (int size : {2, -2, 3, 5, 7}) { // -2: transposed
        const kernel_shape kernel = {
            {abs(size), abs(size), abs(size)}, {1, 1, 1}, stride, size < 0};
        const forms_scene<W> s = forms_scene_make("plane", layout, &kernel, source,
                                                  source == outputs ? nullptr : &outputs);
        check(&s, forms_wish_os());
        if (compact_takes(&kernel)) {
            forms_wish lists = forms_wish_lists();
            lists.pairs_capacity = kernel_volume(&kernel) * ((int32_t)outputs.size() + 1);
            check(&s, lists);
        }
    }
}

template <typename W>
void check_plane(const word_layout *layout, const std::vector<W> &source,
                 const std::vector<W> &outputs, triple stride) {
    for_wishes(layout, source, outputs, stride, [](const forms_scene<W> *s, forms_wish wish) {
        check_wish(s, wish, room);
        if (wish.pairs || compact_large_takes(&s->kernel)) {
            check_compact(s, (int32_t)s->source.size());
        }
        if (wish.pairs && s->same) {
            check_wish(s, forms_wish_os(map_all, true), room);
        }
    });
}

// A negative count of the source stands for none, in sampled windows, too.
template <typename W>
void check_negative_sources(const word_layout *layout, const std::vector<W> &source,
                            const std::vector<W> &outputs, triple stride) {
    for_wishes(layout, source, outputs, stride, [](const forms_scene<W> *s, forms_wish wish) {
        forms_scene<W> none = *s;
        none.source.clear();
        none.same = false;
        const forms_result wanted = forms_on_host(&none, &wish, room);
        for (int32_t sources : {-1, INT32_MIN}) {
            forms_scene<W> two = *s; // two sets, one of them without voxels
            two.same = false;
            const device_layer<W> d = layer_make(&two, &wish, room);
            device_copy_in(d.l.source.count, &sources, 1);
            CHECK_OK(layer_build(&d, stream_get()));
            check_layer(&d.l, &wanted, "negative count");
            guarded_finish();
            if (wish.pairs || compact_large_takes(&s->kernel)) {
                check_compact(s, sources);
            }
        }
    });
}

template <typename W>
void check_scenes() {
    for (int kind = 0; kind < scenes_kinds; ++kind) {
        for (int64_t voxels : {3000, 30000, 210000}) { // lists of many outputs are scanned
            if (voxels <= (test_quick() ? 3000 : 300000)) {
                planes_scene<W>((scenes_kind)kind, voxels, check_plane<W>);
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
    planes_counts<uint32_t>(counts, check_plane<uint32_t>);
    planes_counts<uint64_t>(counts, check_plane<uint64_t>);
}

DEVICE_TEST(gpu_plane_long_windows) {
    planes_long_windows<uint32_t>(check_plane<uint32_t>);
    planes_long_windows<uint64_t>(check_plane<uint64_t>);
}

DEVICE_TEST(gpu_plane_window_lengths) {
    for (int length : planes_lengths) {
        planes_length<uint32_t>(length, 1, check_plane<uint32_t>);
        planes_length<uint64_t>(length, 1, check_plane<uint64_t>);
        planes_length<uint64_t>(length, 4000, check_plane<uint64_t>);
    }
}

DEVICE_TEST(gpu_plane_off_the_lattice) {
    for (int stride : {2, 4, 8}) {
        planes_off_the_lattice<uint32_t>(stride, check_plane<uint32_t>);
        planes_off_the_lattice<uint64_t>(stride, check_plane<uint64_t>);
    }
}

DEVICE_TEST(gpu_plane_negative_source_counts) {
    planes_scene<uint64_t>(scenes_scattered, 3000, check_negative_sources<uint64_t>);
    planes_off_the_lattice<uint32_t>(2, check_negative_sources<uint32_t>);
}
