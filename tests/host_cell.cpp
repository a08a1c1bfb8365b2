// tests/host_cell.cpp: cell.h, and the kernels of cell.cuh as the host runs them.
#include "emulate.h"

#include "../spira/cell.cuh"
#include "cells.h"

#include <string>

using namespace spira;

namespace {

order_layout layout_new(int32_t capacity, int32_t volume) {
    const int64_t blocks = (capacity + 63) / 64;
    order_layout t = {guarded_new<int32_t>(blocks * 64),
                      guarded_new<uint32_t>(blocks),
                      guarded_new<int32_t>(blocks * volume * 64),
                      guarded_new<int32_t>((blocks + 1) / 2),
                      (int32_t)blocks,
                      volume};
    return t;
}

template <typename W>
voxel_set<W> set_new(const std::vector<W> &words, int32_t room) {
    const int32_t capacity = std::max((int32_t)words.size() + room, 1);
    voxel_set<W> set = {guarded_new<W>(capacity), guarded_new<int32_t>(1), capacity};
    std::fill(set.words, set.words + capacity, word_none<W>());
    std::copy(words.begin(), words.end(), set.words);
    *set.count = (int32_t)words.size();
    return set;
}

template <typename W>
cell_request<W> request_new(const cell_scene<W> *s, int32_t room) {
    cell_request<W> r = {s->kernel, set_new(s->source, room), set_new(s->outputs, room), {}};
    r.layout = layout_new(r.outputs.capacity, kernel_volume(&s->kernel));
    return r;
}

// The order from its definition: the outputs of each offset, ascending. Their offsets by division.
template <typename W>
std::vector<int32_t> rows_expected(const cell_scene<W> *s, std::vector<int> *offsets) {
    const triple size = s->kernel.size, stride = s->kernel.stride;
    std::vector<int32_t> rows;
    offsets->clear();
    for (int32_t i = 0; i < (int32_t)s->outputs.size(); ++i) {
        const voxel v = word_unpack(&s->layout, s->outputs[(size_t)i]);
        auto digit = [](int at, int step, int many) {
            const int number = at / step % many;
            return number < 0 ? number + many : number;
        };
        offsets->push_back((digit(v.x, stride.x, size.x) * size.y + digit(v.y, stride.y, size.y)) *
                               size.z +
                           digit(v.z, stride.z, size.z));
    }
    for (int k = 0; k < kernel_volume(&s->kernel); ++k) {
        for (int32_t i = 0; i < (int32_t)s->outputs.size(); ++i) {
            if ((*offsets)[(size_t)i] == k) {
                rows.push_back(i);
            }
        }
    }
    return rows;
}

// Rows as defined, all that is written, and each source that of the kernel map.
template <typename W>
void check_scene(const cell_scene<W> *s, int32_t room) {
    cell_request<W> r = request_new(s, room);
    REQUIRE_OK(cell_order_host(&s->layout, &r));
    std::vector<int> offsets;
    const std::vector<int32_t> rows = rows_expected(s, &offsets);
    const int volume = kernel_volume(&s->kernel);
    const int32_t count = (int32_t)rows.size(), blocks = r.layout.blocks;
    std::vector<int32_t> map((size_t)(count * volume + 1));
    reference_map(&s->layout, &s->kernel, s->source.data(), (int32_t)s->source.size(),
                  s->outputs.data(), count, map.data());
    for (int32_t block = 0; block < blocks; ++block) {
        uint32_t mask = 0;
        for (int32_t p = block * 64; p < block * 64 + 64; ++p) {
            const int32_t row = p < count ? rows[(size_t)p] : -1;
            REQUIRE(CHECK_EQUAL(r.layout.row[p], row));
            mask |= row < 0 ? 0 : 1u << offsets[(size_t)row];
        }
        REQUIRE(CHECK_EQUAL(r.layout.mask[block], mask));
        for (int k = 0; k < volume; ++k) {
            for (int p = 0; p < 64 && mask >> k & 1; ++p) {
                const int32_t row = r.layout.row[block * 64 + p];
                const int32_t wanted = row < 0 ? -1 : map[(size_t)(row * volume + k)];
                REQUIRE(CHECK_EQUAL(r.layout.source[order_begin(&r.layout, block, k) + p], wanted));
            }
        }
        CHECK_EQUAL(r.layout.turn[block / 2], block / 2);
    }
    guarded_finish();
}

template <typename W>
void check_random(uint64_t seed) {
    random_state random = random_make(seed);
    for (int i = 0; i < 60; ++i) {
        const int32_t wanted = i % 5 ? random_int(&random, 1, 700) : i / 5 * 32;
        const triple size = i % 3 ? triple{2, 2, 2} : cell_size_any(&random);
        const triple stride = cell_stride_any(&random, i % 2);
        const cell_scene<W> s =
            cell_scene_make<W>(&random, size, stride, wanted, i % 4 == 3 ? 5 : 0);
        check_scene(&s, i % 7 == 0 ? 200 : i % 2);
    }
}

TEST(cell_order_is_that_of_the_map) {
    check_random<uint32_t>(1);
    check_random<uint64_t>(2);
}

template <typename T>
bool same(const T *a, const T *b, int64_t count) {
    return memcmp(a, b, (size_t)count * sizeof(T)) == 0;
}

// Some layouts in one go, by the kernels and one by one: all that is written, and nothing else.
// Counts may be larger than the capacities.
template <typename W>
void check_kernels(uint64_t seed) {
    random_state random = random_make(seed);
    const int sizes[] = {0, 1, 31, 32, 64, 65, 500, 1023, 1024, 1025, 2500};
    for (int i = 0; i < 20; ++i) {
        std::vector<cell_request<W>> requests, wanted;
        const triple size = i % 3 ? triple{2, 2, 2} : cell_size_any(&random);
        const triple stride = cell_stride_any(&random, i % 2);
        word_layout layout = {};
        for (int j = 0; j < i % 3 + 1; ++j) {
            const cell_scene<W> s = cell_scene_make<W>(
                &random, size, stride, sizes[random_int(&random, 0, 10)], i % 4 ? 0 : 9);
            const int32_t room = i % 5 == 4 ? 0 : random_int(&random, 0, 1) * 1100;
            layout = s.layout;
            requests.push_back(request_new(&s, room));
            if (i % 5 == 4) { // as many as there is room for
                requests.back().outputs.capacity = requests.back().outputs.capacity / 2 + 1;
                requests.back().source.capacity = requests.back().source.capacity / 2 + 1;
            }
            const int32_t capacity = requests.back().outputs.capacity;
            requests.back().layout = layout_new(capacity, kernel_volume(&s.kernel));
            wanted.push_back(requests.back());
            wanted.back().layout = layout_new(capacity, kernel_volume(&s.kernel));
            CHECK_OK(cell_order_host(&layout, &wanted.back()));
        }
        size_t bytes = 0;
        REQUIRE_OK(cell_workspace(requests.data(), (int)requests.size(), &bytes));
        REQUIRE_OK(cell_order(&layout, requests.data(), (int)requests.size(),
                              guarded_new<char>((int64_t)bytes), bytes, nullptr));
        for (size_t j = 0; j < requests.size(); ++j) {
            const order_layout &a = requests[j].layout, &b = wanted[j].layout;
            CHECK(same(a.row, b.row, (int64_t)a.blocks * 64));
            CHECK(same(a.mask, b.mask, a.blocks));
            CHECK(same(a.source, b.source, (int64_t)a.blocks * a.volume * 64));
            CHECK(same(a.turn, b.turn, (a.blocks + 1) / 2));
        }
        guarded_finish();
    }
}

TEST(cell_kernels_equal_the_host_loop) {
    check_kernels<uint32_t>(5);
    check_kernels<uint64_t>(6);
}

// Larger counts than the capacities are taken for these.
TEST(cell_order_clamps_counts) {
    random_state random = random_make(3);
    cell_scene<uint32_t> s = cell_scene_make<uint32_t>(&random, {2, 2, 2}, {1, 1, 1}, 500, 0, 8);
    cell_request<uint32_t> r = request_new(&s, 0), clamped = request_new(&s, 0);
    *clamped.outputs.count = *clamped.source.count = INT32_MAX;
    REQUIRE_OK(cell_order_host(&s.layout, &r));
    REQUIRE_OK(cell_order_host(&s.layout, &clamped));
    CHECK(std::equal(r.layout.row, r.layout.row + r.layout.blocks * 64, clamped.layout.row));
}

TEST(cell_order_refuses) {
    random_state random = random_make(4);
    cell_scene<uint32_t> s = cell_scene_make<uint32_t>(&random, {2, 2, 2}, {2, 2, 2}, 100, 0);
    const cell_request<uint32_t> good = request_new(&s, 0);
    cell_request<uint32_t> bad = good;
    CHECK_STATUS(cell_order_host(&s.layout, (cell_request<uint32_t> *)nullptr),
                 status_null_pointer);
    CHECK_STATUS(cell_order_host((word_layout *)nullptr, &good), status_null_pointer);
    bad.kernel.transposed = false;
    CHECK_STATUS(cell_order_host(&s.layout, &bad), status_unsupported);
    bad = good, bad.kernel.size.y = 3;
    CHECK_STATUS(cell_order_host(&s.layout, &bad), status_unsupported);
    bad = good, bad.kernel.dilation.z = 2;
    CHECK_STATUS(cell_order_host(&s.layout, &bad), status_unsupported);
    bad = good, bad.kernel.stride.x = 64; // the words are not fitted to it
    CHECK_STATUS(cell_order_host(&s.layout, &bad), status_stride);
    bad = good, bad.source.words = nullptr;
    CHECK_STATUS(cell_order_host(&s.layout, &bad), status_null_pointer);
    bad = good, bad.layout.turn = nullptr;
    CHECK_STATUS(cell_order_host(&s.layout, &bad), status_null_pointer);
    bad = good, bad.layout.volume = 4;
    CHECK_STATUS(cell_order_host(&s.layout, &bad), status_bad_size);
    bad = good, --bad.layout.blocks;
    CHECK_STATUS(cell_order_host(&s.layout, &bad), status_capacity);
    size_t bytes = 0;
    REQUIRE_OK(cell_workspace(&good, 1, &bytes));
    char *scratch = guarded_new<char>((int64_t)bytes);
    CHECK_STATUS(cell_order(&s.layout, &bad, 1, scratch, bytes, nullptr), status_capacity);
    CHECK_STATUS(cell_order(&s.layout, &good, 1, nullptr, bytes, nullptr), status_null_pointer);
    CHECK_STATUS(cell_order(&s.layout, &good, 1, scratch, bytes - 1, nullptr), status_workspace);
    CHECK_STATUS(cell_order(&s.layout, &good, 0, scratch, bytes, nullptr), status_bad_size);
    CHECK_STATUS(cell_order(&s.layout, &good, 17, scratch, bytes, nullptr), status_bad_size);
    CHECK_OK(cell_order(&s.layout, &good, 1, scratch, bytes, nullptr));
}

} // namespace
