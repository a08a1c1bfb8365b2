// tests/host/cell.cpp: cell.h, and the kernels of cell.cuh as the host runs them.
#include "../support/emulate.h"

#include "../../spira/cell.cuh"
#include "../support/cells.h"

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

// An output with its sources, by the kernel map.
struct expected {
    int key;
    int32_t row;
    uint32_t mask;
    std::vector<int32_t> taps;
};

// Which of the 256 numbers a Gray code comes to, by counting them all.
int gray_rank(uint32_t code) {
    int rank = 0;
    for (uint32_t at = 0; at != code; ++rank, at = (uint32_t)rank ^ (uint32_t)rank >> 1) {
    }
    return rank;
}

// The key of an inverse layer's output: where it is in its cell, by division.
template <typename W>
int offset_of(const cell_scene<W> *s, W word) {
    const triple size = s->kernel.size, stride = s->kernel.stride;
    const voxel v = word_unpack(&s->layout, word);
    auto digit = [](int at, int step, int many) { return ((at / step) % many + many) % many; };
    return (digit(v.x, stride.x, size.x) * size.y + digit(v.y, stride.y, size.y)) * size.z +
           digit(v.z, stride.z, size.z);
}

// The outputs in their order, from its definition.
template <typename W>
std::vector<expected> outputs_expected(const cell_scene<W> *s) {
    const size_t volume = (size_t)kernel_volume(&s->kernel);
    std::vector<expected> all;
    std::vector<int32_t> map(s->outputs.size() * volume + 1);
    reference_map(&s->layout, &s->kernel, s->source.data(), (int32_t)s->source.size(),
                  s->outputs.data(), (int32_t)s->outputs.size(), map.data());
    for (size_t i = 0; i < s->outputs.size(); ++i) {
        const auto taps = map.begin() + (ptrdiff_t)(i * volume);
        expected e = {0, (int32_t)i, 0, {taps, taps + (ptrdiff_t)volume}};
        for (size_t k = 0; k < volume; ++k) {
            e.mask |= e.taps[k] >= 0 ? 1u << k : 0;
        }
        e.key = s->kernel.transposed ? offset_of(s, s->outputs[i]) : gray_rank(e.mask);
        e.mask |= s->kernel.transposed ? 1u << e.key : 0; // its cell is there or not
        all.push_back(e);
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const expected &a, const expected &b) { return a.key < b.key; });
    return all;
}

// Rows, masks and sources of each block, and the pairs in their turn.
template <typename W>
void check_scene(const cell_scene<W> *s, int32_t room) {
    cell_request<W> r = request_new(s, room);
    REQUIRE_OK(cell_order_host(&s->layout, &r));
    const std::vector<expected> all = outputs_expected(s);
    const int32_t count = (int32_t)all.size(), blocks = r.layout.blocks;
    std::vector<std::pair<int, int32_t>> turns; // by weight, most first; number
    uint32_t united = 0;
    for (int32_t block = 0; block < blocks; ++block) {
        uint32_t mask = 0;
        for (int32_t p = block * 64; p < block * 64 + 64; ++p) {
            REQUIRE(CHECK_EQUAL(r.layout.row[p], p < count ? all[(size_t)p].row : -1));
            mask |= p < count ? all[(size_t)p].mask : 0;
        }
        REQUIRE(CHECK_EQUAL(r.layout.mask[block], mask));
        for (int k = 0; k < r.layout.volume; ++k) {
            for (int32_t p = 0; p < 64 && mask >> k & 1; ++p) {
                const size_t at = (size_t)(block * 64 + p);
                const int32_t wanted = at < all.size() ? all[at].taps[(size_t)k] : -1;
                REQUIRE(CHECK_EQUAL(r.layout.source[order_begin(&r.layout, block, k) + p], wanted));
            }
        }
        united |= mask;
        if (block % 2 || block + 1 == blocks) {
            if (block / 2 * 128 < count) {
                turns.push_back({-__builtin_popcount(united), block / 2});
            }
            united = 0;
        }
    }
    std::sort(turns.begin(), turns.end());
    for (size_t i = 0; i < turns.size(); ++i) {
        CHECK_EQUAL(r.layout.schedule[i], turns[i].second);
    }
    guarded_finish();
}

template <typename W>
void check_random(uint64_t seed, bool inverse) {
    random_state random = random_make(seed);
    for (int i = 0; i < 60; ++i) {
        const int32_t wanted = i % 5 ? random_int(&random, 1, 700) : i / 5 * 32;
        const triple size = i % 3 ? triple{2, 2, 2} : cell_size_any(&random);
        const triple stride = cell_stride_any(&random, i % 2);
        const cell_scene<W> s = cell_scene_make<W>(&random, inverse, size, stride, wanted,
                                                   i % 4 == 3 ? 5 : 0, i % 6 ? 40 : 6);
        check_scene(&s, i % 7 == 0 ? 200 : i % 2);
    }
}

TEST(cell_order_of_inverse_layers) {
    check_random<uint32_t>(1, true);
    check_random<uint64_t>(2, true);
}

TEST(cell_order_of_strided_layers) {
    check_random<uint32_t>(7, false);
    check_random<uint64_t>(8, false);
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
            const cell_scene<W> s = cell_scene_make<W>(&random, (i + j) % 2, size, stride,
                                                       sizes[random_int(&random, 0, 10)],
                                                       i % 4 ? 0 : 9, i % 3 ? 40 : 8);
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
            CHECK(same(a.schedule, b.schedule, (a.blocks + 1) / 2)); // those without outputs are left
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
    cell_scene<uint32_t> s =
        cell_scene_make<uint32_t>(&random, true, {2, 2, 2}, {1, 1, 1}, 500, 0, 8);
    cell_request<uint32_t> r = request_new(&s, 0), clamped = request_new(&s, 0);
    *clamped.outputs.count = *clamped.source.count = INT32_MAX;
    REQUIRE_OK(cell_order_host(&s.layout, &r));
    REQUIRE_OK(cell_order_host(&s.layout, &clamped));
    CHECK(std::equal(r.layout.row, r.layout.row + r.layout.blocks * 64, clamped.layout.row));
}

TEST(cell_order_refuses) {
    random_state random = random_make(4);
    cell_scene<uint32_t> s = cell_scene_make<uint32_t>(&random, true, {2, 2, 2}, {2, 2, 2}, 100, 0);
    const cell_request<uint32_t> good = request_new(&s, 0);
    cell_request<uint32_t> bad = good;
    CHECK_STATUS(cell_order_host(&s.layout, (cell_request<uint32_t> *)nullptr),
                 status_null_pointer);
    CHECK_STATUS(cell_order_host((word_layout *)nullptr, &good), status_null_pointer);
    bad.kernel.size.y = 3;
    CHECK_STATUS(cell_order_host(&s.layout, &bad), status_unsupported);
    bad = good, bad.kernel.dilation.z = 2;
    CHECK_STATUS(cell_order_host(&s.layout, &bad), status_unsupported);
    bad = good, bad.kernel.stride.x = 64; // the words are not fitted to it
    CHECK_STATUS(cell_order_host(&s.layout, &bad), status_stride);
    bad = good, bad.source.words = nullptr;
    CHECK_STATUS(cell_order_host(&s.layout, &bad), status_null_pointer);
    bad = good, bad.layout.schedule = nullptr;
    CHECK_STATUS(cell_order_host(&s.layout, &bad), status_null_pointer);
    bad = good, bad.layout.volume = 4;
    CHECK_STATUS(cell_order_host(&s.layout, &bad), status_bad_size);
    bad = good, --bad.layout.blocks;
    CHECK_STATUS(cell_order_host(&s.layout, &bad), status_capacity);
    size_t bytes = 0;
    REQUIRE_OK(cell_workspace(&good, 1, &bytes));
    char *scratch = guarded_new<char>((int64_t)bytes);
    CHECK_STATUS(cell_order(&s.layout, &bad, 1, scratch, bytes, nullptr), status_capacity);
    bad = good, bad.outputs.capacity = 0;
    CHECK_STATUS(cell_workspace(&bad, 1, &bytes), status_bad_size);
    CHECK_STATUS(cell_order(&s.layout, &good, 1, nullptr, bytes, nullptr), status_null_pointer);
    CHECK_STATUS(cell_order(&s.layout, &good, 1, scratch, bytes - 1, nullptr), status_workspace);
    CHECK_STATUS(cell_order(&s.layout, &good, 0, scratch, bytes, nullptr), status_bad_size);
    CHECK_STATUS(cell_order(&s.layout, &good, 17, scratch, bytes, nullptr), status_bad_size);
    CHECK_OK(cell_order(&s.layout, &good, 1, scratch, bytes, nullptr));
}

// Voxels that are no multiples of the stride, along an axis of size 1 too: nothing is written
// beyond the layout.
template <typename W>
void check_odd_voxels(bool inverse) {
    random_state random = random_make(11);
    cell_scene<W> s = cell_scene_make<W>(&random, inverse, {2, 2, 1}, {2, 2, 4}, 500, 0);
    for (W &word : inverse ? s.outputs : s.source) {
        const triple off = {random_int(&random, 0, 1), random_int(&random, 0, 1),
                            random_int(&random, 0, 3)};
        word += word_delta<W>(&s.layout, off);
    }
    cell_request<W> r = request_new(&s, 0);
    size_t bytes = 0;
    REQUIRE_OK(cell_workspace(&r, 1, &bytes));
    CHECK_OK(cell_order(&s.layout, &r, 1, guarded_new<char>((int64_t)bytes), bytes, nullptr));
    for (int32_t block = 0; block < r.layout.blocks; ++block) {
        CHECK(r.layout.mask[block] < 1u << kernel_volume(&s.kernel));
    }
    CHECK_OK(cell_order_host(&s.layout, &r));
    guarded_finish();
}

} // namespace

TEST(cell_order_of_odd_voxels) {
    for (bool inverse : {false, true}) {
        check_odd_voxels<uint32_t>(inverse);
        check_odd_voxels<uint64_t>(inverse);
    }
}
