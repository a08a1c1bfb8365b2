// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/compact.cpp: index/compact.h, the compact form of a kernel map.
#include "../support/reference.h"

#include "../../spira/map.h"
#include "../../spira/order.h"

#include <algorithm>
#include <vector>

using namespace spira;

static const int sizes[] = {3, 5};

// Taps of one x-plane, whose rows begin anywhere; bit c of `has`: offset c has one.
static std::vector<int32_t> plane_taps(random_state *random, int K, uint32_t has) {
    std::vector<int32_t> taps((size_t)(K * K), -1);
    for (int row = 0; row < K; ++row) {
        int32_t next = random_int(random, 0, 1 << 30);
        for (int c = row * K; c < row * K + K; ++c) {
            taps[(size_t)c] = has >> c & 1 ? next++ : -1;
        }
    }
    return taps;
}

static bool record_has(const int32_t *record, int K, const std::vector<int32_t> &taps) {
    for (int c = 0; c < K * K; ++c) {
        if (compact_source(record, K, c) != taps[(size_t)c]) {
            return false;
        }
    }
    return true;
}

TEST(compact_records_hold_the_taps) {
    random_state random = random_make(1);
    for (int K : sizes) {
        for (int i = 0; i < 3000; ++i) {
            const uint32_t all = (1u << K * K) - 1;
            uint32_t has = (uint32_t)random_int(&random, 0, INT32_MAX) & all;
            has = i == 0 ? 0 : i == 1 ? all : has;
            std::vector<int32_t> taps = plane_taps(&random, K, has);
            int32_t record[compact_record_words(compact_size_most)];
            CHECK(compact_record_put(taps.data(), K, record));
            CHECK_EQUAL((uint32_t)record[K], has);
            CHECK(record_has(record, K, taps));
        }
    }
}

// Other words between the members of a row: the record reports it and lacks the members behind.
TEST(compact_records_have_no_gaps) {
    random_state random = random_make(2);
    for (int K : sizes) {
        std::vector<int32_t> taps = plane_taps(&random, K, (1u << K * K) - 1), wanted = taps;
        int32_t record[compact_record_words(compact_size_most)];
        taps[(size_t)K + 1] += 1; // of row 1
        CHECK(!compact_record_put(taps.data(), K, record));
        wanted[(size_t)K + 1] = -1;
        for (int c = K + 2; c < 2 * K; ++c) {
            taps[(size_t)c] = -1;
            wanted[(size_t)c] = -1;
        }
        CHECK(!compact_record_put(taps.data(), K, record));
        CHECK(record_has(record, K, wanted));
    }
}

// A word off the lattice stands between two members of a row.
TEST(compact_maps_on_the_host) {
    word_layout layout =
        reference_layout<uint32_t>({0, 0, 0}, {31, 31, 31}, 1, {2, 2, 2}, {8, 8, 8});
    std::vector<uint32_t> words;
    for (voxel v : {voxel{0, 2, 8, 8}, voxel{0, 4, 4, 4}, voxel{0, 4, 4, 5}, voxel{0, 4, 4, 6}}) {
        words.push_back(word_pack<uint32_t>(&layout, v));
    }
    int32_t count = (int32_t)words.size();
    const int32_t capacity = count + 3;
    words.resize((size_t)capacity, word_none<uint32_t>());
    const voxel_set<uint32_t> set = {words.data(), &count, capacity};
    for (int K : sizes) {
        for (int stride : {1, 2}) {
            kernel_shape kernel = kernel_cube(K, stride);
            const int plane = K * K;
            device_status trouble = {};
            std::vector<int32_t> map((size_t)(capacity * K * plane));
            std::vector<int32_t> compact((size_t)compact_total(K, capacity), 12345);
            const map_forms forms = map_forms_compact(compact.data(), &trouble);
            REQUIRE_OK(map_build_host(&layout, &kernel, set, set, map.data()));
            REQUIRE_OK(map_build_forms_host(&layout, &kernel, set, set, &forms));
            CHECK_EQUAL(trouble.flags, stride == 1 ? 0u : (uint32_t)device_flag_lattice);
            status found = device_status_read(&trouble);
            CHECK_EQUAL(found.code, stride == 1 ? status_ok : status_lattice);
            // The first output with a gap between two of its sources.
            CHECK_EQUAL(found.detail, stride == 2 && K == 3 ? 1 : 0);
            int missing = 0;
            for (int i = 0; i < count * K * plane; ++i) {
                const int output = i / (K * plane), x = i / plane % K;
                const int32_t *record = &compact[(size_t)compact_at(K, capacity, x, output)];
                const int32_t tap = compact_source(record, K, i % plane);
                CHECK(tap == map[(size_t)i] || (tap == -1 && stride == 2));
                missing += tap != map[(size_t)i];
            }
            CHECK_EQUAL(missing > 0, stride == 2);
            for (int s = 0; s < K; ++s) { // rows behind the count
                CHECK_EQUAL(compact[(size_t)compact_at(K, capacity, s, count)], 12345);
            }
        }
    }
}

// Large kernels: pairs that have the taps of the plain map, and folds that have its directions.
TEST(compact_maps_of_large_kernels) {
    random_state random = random_make(3);
    const word_layout layout =
        reference_layout<uint32_t>({0, 0, 0}, {63, 63, 63}, 1, {2, 2, 2}, {14, 14, 14});
    std::vector<uint32_t> words;
    for (int i = 0; i < 120; ++i) {
        auto at = [&] { return 2 * random_int(&random, 0, 11); };
        words.push_back(word_pack<uint32_t>(&layout, {0, at(), at(), at()}));
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    int32_t count = (int32_t)words.size();
    const int32_t capacity = count + 1;
    words.push_back(word_none<uint32_t>());
    const voxel_set<uint32_t> set = {words.data(), &count, capacity};
    const order_numbers numbers = order_numbers_make();
    for (triple size : {triple{7, 7, 7}, {3, 5, 15}, {13, 13, 13}}) {
        const kernel_shape kernel = {size, {1, 1, 1}, {2, 2, 2}, false};
        const int volume = kernel_volume(&kernel), plane = size.y * size.z;
        REQUIRE(compact_large_takes(&kernel) && !compact_takes(&kernel));
        device_status trouble = {};
        std::vector<int32_t> map((size_t)(capacity * volume));
        std::vector<int32_t> compact((size_t)compact_numbers(&kernel, capacity), 12345);
        const map_forms forms = map_forms_compact(compact.data(), &trouble);
        REQUIRE_OK(map_build_host(&layout, &kernel, set, set, map.data()));
        REQUIRE_OK(map_build_forms_host(&layout, &kernel, set, set, &forms));
        CHECK_EQUAL(trouble.flags, 0u);
        int wrong = 0;
        for (int i = 0; i < count * size.x; ++i) {
            const int output = i / size.x, x = i % size.x;
            uint32_t directions = 0, levels = 0;
            for (int c = 0; c < plane; ++c) {
                const int k = x * plane + c, tap = map[(size_t)(output * volume + k)];
                const int64_t row = compact_pair_at(size, capacity, x, output) + c / size.z * 2;
                const int32_t begin = compact[(size_t)row];
                const uint32_t has = (uint32_t)compact[(size_t)row + 1];
                const uint32_t before = has & ((1u << c % size.z) - 1);
                const int32_t own = has >> c % size.z & 1 ? begin + count_bits(before) : -1;
                wrong += own != tap;
                directions |= tap >= 0 ? 1u << order_direction(&kernel, &numbers, k) : 0;
                levels |= tap >= 0 ? 1u << order_level(&kernel, k) : 0;
            }
            const int64_t fold = compact_fold_at(size, capacity, x, output);
            wrong += (uint32_t)compact[(size_t)fold] >> 9 != levels;
            const int side = (x >= size.x / 2) + (x > size.x / 2);
            for (int k = 0; k < 9; ++k) {
                const bool has = directions >> numbers.number[9 * side + k] & 1;
                wrong += has != ((uint32_t)compact[(size_t)fold] >> k & 1);
            }
        }
        CHECK_EQUAL(wrong, 0);
    }
}

TEST(compact_forms_are_checked) {
    word_layout layout =
        reference_layout<uint32_t>({0, 0, 0}, {31, 31, 31}, 1, {1, 1, 1}, {8, 8, 8});
    uint32_t word = word_pack<uint32_t>(&layout, {0, 1, 1, 1});
    int32_t count = 1;
    alignas(16) static int32_t compact[64];
    static int32_t other[125];
    static uint32_t bits[4];
    device_status trouble = {};
    const voxel_set<uint32_t> set = {&word, &count, 1};
    auto start = [&](kernel_shape kernel, auto spoil) {
        map_forms forms = map_forms_compact(compact, &trouble);
        spoil(&forms);
        return map_build_forms_host(&layout, &kernel, set, set, &forms);
    };
    auto nothing = [](map_forms *) {};
    CHECK_OK(start(kernel_cube(3, 1), nothing));
    CHECK_OK(start(kernel_cube(5, 1), nothing));
    for (int size : {1, 2, 4, 6}) {
        CHECK_STATUS(start(kernel_cube(size, 1), nothing), status_unsupported);
    }
    kernel_shape bad = kernel_cube(3, 1);
    bad.dilation.z = 2;
    CHECK_STATUS(start(bad, nothing), status_unsupported);
    bad = kernel_cube(3, 1);
    bad.transposed = true;
    CHECK_STATUS(start(bad, nothing), status_unsupported);
    auto three = [&](auto spoil) { return start(kernel_cube(3, 1), spoil); };
    CHECK_STATUS(three([](map_forms *f) { f->trouble = nullptr; }), status_null_pointer);
    CHECK_STATUS(three([](map_forms *f) { f->compact += 1; }), status_alignment);
    CHECK_STATUS(three([](map_forms *f) { f->half = true; }), status_unsupported);
    CHECK_STATUS(three([](map_forms *f) { f->os = other; }), status_unsupported);
    CHECK_STATUS(three([](map_forms *f) { f->ws = other; }), status_unsupported);
    CHECK_STATUS(three([](map_forms *f) { f->mask = bits; }), status_unsupported);
    int32_t lists[28];
    const map_lists pairs = {lists, lists, lists, 28};
    const map_request<uint32_t> request = {kernel_cube(3, 1), set, set,
                                           map_forms_compact(compact, &trouble)};
    CHECK_STATUS(map_build_lists_host(&layout, &request, &pairs), status_unsupported);
}
