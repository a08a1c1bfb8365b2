// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/map.cu: kernel maps on the GPU equal those of the host loop, entry by entry. On small
// scenes they also equal a hash table's, which shares no code with the search. Random, dense,
// uneven and foreign sets, scans and the ends of fields: tests/gpu/forms.cu.
#include "../../spira/map.cuh"
#include "../support/device.cuh"
#include "../support/reference_forms.h"
#include "../support/sets.h"

using namespace spira;

namespace {

char label[256];    // the current case, for messages
char finding[1024]; // the first difference

// ---- one run, on either side --------------------------------------------------------------------

// A set in host memory, and in device memory of exactly its size.
template <typename W>
struct set_pair {
    std::vector<W> words; // [capacity]
    int32_t count;
    voxel_set<W> host, device;
};

// Not copied: host points into it.
template <typename W>
void set_make(std::vector<W> words, int32_t room, set_pair<W> *s) {
    s->count = (int32_t)words.size();
    int32_t capacity = s->count + room > 0 ? s->count + room : 1;
    words.resize((size_t)capacity, word_none<W>());
    s->words = words;
    s->host = {s->words.data(), &s->count, capacity};
    s->device = {device_upload(words.data(), capacity), device_upload(&s->count, 1), capacity};
}

// Returns the first difference of two maps [rows, volume], or "".
const char *difference(const std::vector<int32_t> &got, const std::vector<int32_t> &wanted,
                       int volume) {
    finding[0] = 0;
    if (got.size() != wanted.size()) {
        snprintf(finding, sizeof finding, "sizes (%s)", label);
        return finding;
    }
    for (size_t i = 0; i < got.size(); ++i) {
        if (got[i] != wanted[i]) {
            snprintf(finding, sizeof finding, "map[%zu, %zu]: %d instead of %d (%s)",
                     i / (size_t)volume, i % (size_t)volume, got[i], wanted[i], label);
            return finding;
        }
    }
    return finding;
}

template <typename W>
std::vector<int32_t> map_on_host(const word_layout *layout, const kernel_shape *kernel,
                                 const set_pair<W> *source, const set_pair<W> *outputs) {
    std::vector<int32_t> map((size_t)outputs->count * (size_t)kernel_volume(kernel));
    if (!map.empty()) { // an empty vector has no pointer
        CHECK_OK(map_build_host(layout, kernel, source->host, outputs->host, map.data()));
    }
    return map;
}

// Builds the map on both sides and compares. Rows beyond the count stay untouched. Frees all
// buffers of the test, also those of the sets. Returns the host's map.
template <typename W>
std::vector<int32_t> check_sets(const word_layout *layout, const kernel_shape *kernel,
                                const set_pair<W> *source, const set_pair<W> *outputs) {
    int64_t volume = kernel_volume(kernel);
    int64_t used = outputs->count * volume, total = outputs->device.capacity * volume;
    std::vector<int32_t> wanted = map_on_host(layout, kernel, source, outputs);
    if (used > 0 && used <= 300000 && source->count <= 20000) {
        std::vector<int32_t> hashed(wanted.size());
        reference_map(layout, kernel, source->words.data(), source->count, outputs->words.data(),
                      outputs->count, hashed.data());
        CHECK_EQUAL(difference(wanted, hashed, (int)volume), "");
    }
    int32_t *map = device_new<int32_t>(total);
    CHECK_OK(map_build<W>(layout, kernel, source->device, outputs->device, map, stream_get()));
    std::vector<int32_t> got((size_t)used);
    device_copy_out(got.data(), map, used);
    CHECK_EQUAL(difference(got, wanted, (int)volume), "");
    CHECK(device_untouched(map, used, total));
    guarded_finish();
    return wanted;
}

template <typename W>
std::vector<int32_t> check_words(const word_layout *layout, const kernel_shape *kernel,
                                 const std::vector<W> &source, const std::vector<W> &outputs,
                                 int32_t room = 0) {
    set_pair<W> from, to;
    set_make(source, room, &from);
    set_make(outputs, room, &to);
    return check_sets(layout, kernel, &from, &to);
}

// The same array on both sides, as in a submanifold layer.
template <typename W>
std::vector<int32_t> check_same(const word_layout *layout, const kernel_shape *kernel,
                                const std::vector<W> &words, int32_t room = 0) {
    set_pair<W> set;
    set_make(words, room, &set);
    return check_sets(layout, kernel, &set, &set);
}

// ---- scenes and kernels -------------------------------------------------------------------------

kernel_shape kernel_make(triple size, triple dilation = {1, 1, 1}, triple stride = {1, 1, 1},
                         bool transposed = false) {
    kernel_shape k = {size, dilation, stride, transposed};
    return k;
}

void label_kernel(const char *what, const kernel_shape &k) {
    snprintf(label, sizeof label, "%s, kernel %dx%dx%d, dilation %d %d %d, stride %d %d %d%s", what,
             k.size.x, k.size.y, k.size.z, k.dilation.x, k.dilation.y, k.dilation.z, k.stride.x,
             k.stride.y, k.stride.z, k.transposed ? ", transposed" : "");
}

const kernel_shape kernels_all[] = {
    kernel_make({1, 1, 1}),
    kernel_make({2, 2, 2}),
    kernel_make({3, 3, 3}),
    kernel_make({4, 4, 4}),
    kernel_make({5, 5, 5}),
    kernel_make({7, 7, 7}),
    kernel_make({1, 1, 3}),
    kernel_make({3, 1, 1}),
    kernel_make({1, 3, 1}),
    kernel_make({3, 1, 5}),
    kernel_make({5, 3, 1}),
    kernel_make({2, 3, 4}),
    kernel_make({1, 1, 15}),
    kernel_make({1, 15, 1}),
    kernel_make({15, 1, 1}),
    kernel_make({8, 1, 2}),
    kernel_make({3, 3, 3}, {2, 2, 2}),
    kernel_make({3, 3, 3}, {3, 3, 3}),
    kernel_make({5, 5, 5}, {1, 2, 3}),
    kernel_make({3, 5, 2}, {3, 1, 2}),
    kernel_make({2, 2, 2}, {1, 1, 1}, {2, 2, 2}),
    kernel_make({3, 3, 3}, {1, 1, 1}, {4, 4, 4}),
    kernel_make({3, 3, 3}, {2, 1, 3}, {1, 2, 4}),
    kernel_make({2, 2, 2}, {1, 1, 1}, {1, 1, 1}, true),
    kernel_make({3, 3, 3}, {1, 1, 1}, {1, 1, 1}, true),
    kernel_make({2, 5, 4}, {2, 1, 1}, {1, 2, 1}, true),
};

// A layout for all kernels above and for strides up to 4.
template <typename W>
word_layout layout_wide(triple lo, triple hi, int batches) {
    return reference_layout<W>(lo, hi, batches, {4, 4, 4}, {12, 16, 16});
}

int64_t pairs_in(const std::vector<int32_t> &map) {
    return std::count_if(map.begin(), map.end(), [](int32_t source) { return source >= 0; });
}

// ---- sizes and kernels -----------------------------------------------------------------------

template <typename W>
void check_every_size() {
    const int sizes[] = {0,  1,  2,   7,   8,   9,   31,  32,  33,   63,   64,   65,  95,
                         96, 97, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 4097};
    random_state random = random_make(1);
    for (int n : sizes) {
        if (test_quick() && n > 130) {
            continue;
        }
        int side = n < 100 ? 3 : n < 1000 ? 8 : 14;
        triple lo = triple_make(-side, -side, -side), hi = triple_make(side, side, side);
        word_layout layout = layout_wide<W>(lo, hi, 2);
        std::vector<W> words = set_random<W>(&random, &layout, lo, hi, n);
        for (const kernel_shape &k : {kernels_all[2], kernels_all[4], kernels_all[9],
                                      kernels_all[1], kernels_all[18], kernels_all[24]}) {
            for (int room : {0, 3, 1100}) { // thread blocks without outputs
                label_kernel("random set", k);
                check_same(&layout, &k, words, room);
            }
        }
    }
}

DEVICE_TEST(gpu_map_every_size) {
    check_every_size<uint32_t>();
    check_every_size<uint64_t>();
}

// Maps that are not aligned to 16 bytes, of less than a tile and of several tiles.
template <typename W>
void check_shifted_maps() {
    random_state random = random_make(11);
    triple lo = triple_make(-6, -6, -6), hi = triple_make(6, 6, 6);
    word_layout layout = layout_wide<W>(lo, hi, 1);
    for (int n : {5, 32, 33, 64, 65, 129, 500}) {
        std::vector<W> words = set_random<W>(&random, &layout, lo, hi, n);
        for (const kernel_shape &k : {kernel_cube(3, 1), kernel_cube(5, 1)}) {
            for (int shift = 1; shift < 4; ++shift) {
                label_kernel("shifted map", k);
                set_pair<W> set;
                set_make(words, 0, &set);
                std::vector<int32_t> wanted = map_on_host(&layout, &k, &set, &set);
                int64_t used = (int64_t)wanted.size();
                int32_t *map = device_new<int32_t>(shift + used);
                CHECK_OK(
                    map_build<W>(&layout, &k, set.device, set.device, map + shift, stream_get()));
                std::vector<int32_t> got(wanted.size());
                device_copy_out(got.data(), map + shift, used);
                CHECK_EQUAL(difference(got, wanted, kernel_volume(&k)), "");
                CHECK(device_untouched(map, 0, shift));
                guarded_finish();
            }
        }
    }
}

DEVICE_TEST(gpu_map_shifted_maps) {
    check_shifted_maps<uint32_t>();
    check_shifted_maps<uint64_t>();
}

template <typename W>
void check_every_kernel() {
    random_state random = random_make(2);
    triple lo = triple_make(-12, -9, -14), hi = triple_make(12, 9, 14);
    word_layout layout = layout_wide<W>(lo, hi, 3);
    for (int n : {40, 700, 5000}) {
        if (test_quick() && n > 40) {
            continue;
        }
        std::vector<W> words = set_random<W>(&random, &layout, lo, hi, n);
        std::vector<W> others = set_random<W>(&random, &layout, lo, hi, n / 2);
        for (const kernel_shape &k : kernels_all) {
            label_kernel("random set", k);
            std::vector<int32_t> map = check_same(&layout, &k, words);
            CHECK(pairs_in(map) > 0 || k.size.x % 2 == 0);
            label_kernel("other outputs", k);
            check_words(&layout, &k, words, others);
        }
    }
}

DEVICE_TEST(gpu_map_every_kernel) {
    check_every_kernel<uint32_t>();
    check_every_kernel<uint64_t>();
}

// A negative count of the source stands for none.
DEVICE_TEST(gpu_map_negative_source_counts) {
    const triple lo = triple_make(-9, -9, -9), hi = triple_make(9, 9, 9);
    const word_layout layout = layout_wide<uint32_t>(lo, hi, 1);
    random_state random = random_make(10);
    const std::vector<uint32_t> words = set_random<uint32_t>(&random, &layout, lo, hi, 700);
    for (int32_t count : {-1, -1000, INT32_MIN}) {
        for (const kernel_shape &k : kernels_all) {
            set_pair<uint32_t> from, to;
            set_make(words, 3, &from);
            set_make(words, 3, &to);
            from.count = count;
            device_copy_in(from.device.count, &count, 1);
            label_kernel("negative count of the source", k);
            CHECK_EQUAL(pairs_in(check_sets(&layout, &k, &from, &to)), 0);
        }
    }
}

// ---- strided layers and their inverses ----------------------------------------------------------

template <typename W>
void check_inverse(const word_layout *layout, const std::vector<W> &fine,
                   const std::vector<W> &coarse, kernel_shape k) {
    label_kernel("strided", k);
    CHECK(pairs_in(check_words(layout, &k, fine, coarse, 3)) > 0);
    k.transposed = true;
    label_kernel("inverse", k);
    check_words(layout, &k, coarse, fine, 3);
}

template <typename W>
void check_strides() {
    random_state random = random_make(8);
    triple lo = triple_make(-40, -30, -20), hi = triple_make(40, 30, 20);
    for (triple s : {triple{2, 2, 2}, triple{1, 1, 2}, triple{2, 4, 1}, triple{4, 4, 4},
                     triple{3, 3, 3}, triple{3, 1, 2}}) {
        word_layout layout = reference_layout<W>(lo, hi, 2, triple_multiply(s, {2, 2, 2}),
                                                 triple_multiply(s, {8, 8, 8}));
        std::vector<W> fine = set_random<W>(&random, &layout, lo, hi, test_quick() ? 100 : 4000);
        std::vector<W> coarse = forms_floored(&layout, fine, s);
        std::vector<W> coarser = forms_floored(&layout, fine, triple_multiply(s, {2, 2, 2}));
        for (triple size :
             {triple{2, 2, 2}, triple{3, 3, 3}, s, triple{1, 1, 3}, triple{5, 2, 3}}) {
            check_inverse(&layout, fine, coarse, kernel_make(size));
            check_inverse(&layout, coarse, coarser, kernel_make(size, {1, 1, 1}, s));
        }
        check_inverse(&layout, fine, coarse, kernel_make({3, 3, 3}, {2, 2, 2}));
        // The stride is the kernel's size: every fine voxel has exactly one coarse voxel.
        kernel_shape k = kernel_make(s);
        k.transposed = true;
        if (s.x != 3) { // an odd kernel is centred and does not tile
            CHECK_EQUAL(pairs_in(check_words(&layout, &k, coarse, fine)), (int64_t)fine.size());
        }
    }
}

DEVICE_TEST(gpu_map_strided_and_inverse) {
    check_strides<uint32_t>();
    check_strides<uint64_t>();
}

// ---- large kernels and large maps ---------------------------------------------------------------

template <typename W>
void check_large_kernels() {
    random_state random = random_make(10);
    triple lo = triple_make(-10, -10, -10), hi = triple_make(10, 10, 10);
    for (triple size : {triple{15, 15, 15}, triple{14, 14, 14}, triple{9, 15, 3}, triple{15, 3, 15},
                        triple{11, 11, 11}, triple{8, 8, 8}, triple{15, 15, 1}}) {
        kernel_shape k = kernel_make(size);
        word_layout layout = reference_layout<W>(lo, hi, 2, {1, 1, 1}, kernel_reach(&k));
        for (int n : {1, 2, 3, 129, 800}) {
            if (test_quick() && (n > 3 || size.x * size.y * size.z > 1000)) {
                continue;
            }
            for (bool transposed : {false, true}) {
                k.transposed = transposed;
                label_kernel("large kernel", k);
                check_same(&layout, &k, set_random<W>(&random, &layout, lo, hi, n), 1);
            }
        }
    }
}

DEVICE_TEST(gpu_map_large_kernels) {
    check_large_kernels<uint32_t>();
    check_large_kernels<uint64_t>();
}

// More entries than an int can count: rows * volume passes 2^31.
DEVICE_TEST(gpu_map_beyond_32_bits) {
    const int32_t rows = 700000;
    kernel_shape k = kernel_make({15, 15, 15});
    const int64_t volume = kernel_volume(&k);
    size_t free_bytes = 0, all_bytes = 0;
    CUDA_CHECK(cudaMemGetInfo(&free_bytes, &all_bytes));
    if (test_quick() || free_bytes < (size_t)(rows * volume * 4) + ((size_t)1 << 30)) {
        SKIP("takes 10 GB of device memory and is not quick");
    }
    word_layout layout =
        reference_layout<uint32_t>({0, 0, 0}, {199, 199, 99}, 1, {1, 1, 1}, kernel_reach(&k));
    random_state random = random_make(11);
    set_pair<uint32_t> set;
    set_make(set_random<uint32_t>(&random, &layout, {0, 0, 0}, {199, 199, 99}, rows), 0, &set);
    REQUIRE(set.count == rows);
    int32_t *map = device_new_poisoned<int32_t>(rows * volume);
    REQUIRE_OK(map_build<uint32_t>(&layout, &k, set.device, set.device, map, stream_get()));
    const search_walk<uint32_t> walk = search_walk_make<uint32_t>(&layout, &k);
    std::vector<int32_t> got((size_t)volume), wanted((size_t)volume);
    const int32_t turn = (int32_t)(((int64_t)1 << 31) / volume); // the row of entry 2^31
    for (int32_t row : {0, 1, rows / 2, turn - 1, turn, turn + 1, rows - 2, rows - 1}) {
        snprintf(label, sizeof label, "row %d", row);
        device_copy_out(got.data(), map + row * volume, volume);
        search_voxel(walk, set.words.data(), set.count, set.words[(size_t)row], wanted.data());
        CHECK_EQUAL(difference(got, wanted, (int)volume), "");
    }
    int32_t *pairs = device_new<int32_t>(volume);
    REQUIRE_OK(map_count(map, (int)volume, set.device.count, rows, pairs, stream_get()));
    int32_t *counted = device_fetch(pairs, volume);
    int64_t lopsided = 0; // a submanifold layer has as many pairs at an offset as at its mirror
    for (int i = 0; i < volume; ++i) {
        lopsided += counted[i] != counted[volume - 1 - i];
    }
    CHECK_EQUAL(lopsided, 0);
    CHECK_EQUAL(counted[volume / 2], rows);
}

// ---- counting -----------------------------------------------------------------------------------

DEVICE_TEST(gpu_map_count_matches) {
    random_state random = random_make(12);
    for (int n : {0, 1, 31, 32, 33, 255, 256, 257, 511, 512, 513, 1023, 1025, 4097}) {
        for (int volume : {1, 2, 3, 27, 31, 32, 33, 125, 256, 257, 343, 3375}) {
            if ((n > 600 && volume > 343) || (test_quick() && n * volume > 20000)) {
                continue;
            }
            // Rows beyond the count look like pairs.
            for (int room : {0, 600}) {
                int32_t capacity = n + room > 0 ? n + room : 1;
                std::vector<int32_t> map((size_t)capacity * (size_t)volume, 5);
                for (size_t i = 0; i < (size_t)n * (size_t)volume; ++i) {
                    map[i] = random_int(&random, -1, (int)(i % 3));
                    map[i] = map[i] < 0 ? -1 : map[i];
                }
                std::vector<int32_t> wanted((size_t)volume);
                CHECK_OK(map_count_host(map.data(), volume, n, wanted.data()));
                int32_t *device_map = device_upload(map.data(), (int64_t)map.size());
                int32_t *count = device_upload(&n, 1);
                int32_t *pairs = device_new<int32_t>(volume);
                for (int run = 0; run < 2; ++run) { // the second call overwrites
                    CHECK_OK(map_count(device_map, volume, count, capacity, pairs, stream_get()));
                    std::vector<int32_t> got((size_t)volume);
                    device_copy_out(got.data(), pairs, volume);
                    snprintf(label, sizeof label, "pairs of %d of %d rows", n, capacity);
                    CHECK_EQUAL(difference(got, wanted, volume), "");
                }
            }
        }
    }
}

// ---- real scans ---------------------------------------------------------------------------------

DEVICE_TEST(gpu_map_real_scan_strided) {
    NEED_SCANS("kitti00_000000_5cm.vox32");
    word_layout layout;
    std::vector<uint32_t> level[4];
    level[0] = reference_scan<uint32_t>("kitti00_000000_5cm.vox32", 16, &layout);
    for (int l = 0; l < (test_quick() ? 1 : 3); ++l) {
        int s = 1 << l;
        level[l + 1] = forms_floored(&layout, level[0], {2 * s, 2 * s, 2 * s});
        check_inverse(&layout, level[l], level[l + 1], kernel_cube(2, s));
        check_inverse(&layout, level[l], level[l + 1], kernel_cube(3, s));
        kernel_shape same = kernel_cube(3, 2 * s);
        label_kernel("level", same);
        check_same(&layout, &same, level[l + 1]);
    }
}

// ---- errors -------------------------------------------------------------------------------------

DEVICE_TEST(gpu_map_refuses) {
    const word_layout layout =
        reference_layout<uint32_t>({0, 0, 0}, {20, 20, 20}, 1, {1, 1, 1}, {1, 1, 1});
    const kernel_shape k = kernel_cube(3, 1), large = kernel_cube(5, 1);
    set_pair<uint32_t> set;
    set_make(forms_words_of<uint32_t>(&layout, {{0, 1, 2, 3}, {0, 1, 2, 4}}), 0, &set);
    const voxel_set<uint32_t> s = set.device;
    int32_t *map = device_new<int32_t>(2 * 27), *pairs = device_new<int32_t>(27);
    int32_t *odd = (int32_t *)((char *)map + 2);
    // What map_check refuses, map_build_host refuses as well (tests/host/map.cpp).
    CHECK_STATUS(map_build<uint32_t>(&layout, &large, s, s, map, stream_get()), status_unsupported);
    CHECK_STATUS(map_build<uint32_t>(&layout, &k, s, s, odd, stream_get()), status_alignment);
    auto count = [&](const int32_t *m, int volume, const int32_t *n, int32_t rows, int32_t *to) {
        return map_count(m, volume, n, rows, to, stream_get());
    };
    CHECK_STATUS(count(nullptr, 27, s.count, 2, pairs), status_null_pointer);
    CHECK_STATUS(count(map, 27, nullptr, 2, pairs), status_null_pointer);
    CHECK_STATUS(count(map, 27, s.count, 2, nullptr), status_null_pointer);
    CHECK_STATUS(count(odd, 27, s.count, 2, pairs), status_alignment);
    CHECK_STATUS(count(map, 27, s.count, 2, odd), status_alignment);
    for (int volume : {0, -1, 1 << 20}) {
        CHECK_STATUS(count(map, volume, s.count, 2, pairs), status_bad_size);
    }
    CHECK_STATUS(count(map, 27, s.count, 0, pairs), status_bad_size);
    CHECK(device_untouched(map, 0, 2 * 27)); // a refused call has done nothing
    CHECK(device_untouched(pairs, 0, 27));
}

} // namespace
