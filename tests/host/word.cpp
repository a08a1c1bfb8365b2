// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/word.cpp: word.h.
#include "../support/sets.h"
#include "../support/test.h"

#include "../../spira/word.h"

using namespace spira;

static word_need need_cube(int lo, int hi, int batches, int stride, int reach) {
    return word_need_of({lo, lo, lo}, {hi, hi, hi}, batches, {stride, stride, stride},
                        {reach, reach, reach});
}

static bool voxel_equal(voxel a, voxel b) {
    return a.batch == b.batch && a.x == b.x && a.y == b.y && a.z == b.z;
}

static bool voxel_before(voxel a, voxel b) {
    return a.batch != b.batch ? a.batch < b.batch
           : a.x != b.x       ? a.x < b.x
           : a.y != b.y       ? a.y < b.y
                              : a.z < b.z;
}

// Random bounds, strides and reaches whose words fit 64 bits.
static word_need need_random(random_state *r) {
    int lo[3], hi[3], stride[3], reach[3];
    int batches = random_int(r, 0, 2) ? random_int(r, 1, 9) : 1;
    for (int a = 0; a < 3; ++a) {
        stride[a] = random_int(r, 0, 1) ? 1 << random_int(r, 0, 4) : random_int(r, 1, 12);
        reach[a] = random_int(r, 0, 12);
        lo[a] = random_int(r, -3000, 3000);
        hi[a] = lo[a] + random_int(r, 0, 1 << random_int(r, 4, 15));
    }
    return {{lo[0], lo[1], lo[2]},
            {hi[0], hi[1], hi[2]},
            batches,
            {stride[0], stride[1], stride[2]},
            {reach[0], reach[1], reach[2]}};
}

static voxel voxel_random(random_state *r, const word_layout *l) {
    return {random_int(r, 0, l->batches - 1), random_int(r, l->lo.x, l->hi.x),
            random_int(r, l->lo.y, l->hi.y), random_int(r, l->lo.z, l->hi.z)};
}

// The corners of the layout, and voxels one step inside of them.
template <typename F>
static void voxel_corners(const word_layout *l, F each) {
    for (int batch : {0, l->batches - 1}) {
        for (int x : {l->lo.x, l->lo.x + 1, l->hi.x - 1, l->hi.x}) {
            for (int y : {l->lo.y, l->lo.y + 1, l->hi.y - 1, l->hi.y}) {
                for (int z : {l->lo.z, l->lo.z + 1, l->hi.z - 1, l->hi.z}) {
                    voxel v = {batch, x, y, z};
                    if (word_contains(l, v)) {
                        each(v);
                    }
                }
            }
        }
    }
}

template <typename F>
static void deltas(triple reach, F each) {
    for (int x : {-reach.x, -1, 0, 1, reach.x}) {
        for (int y : {-reach.y, -1, 0, 1, reach.y}) {
            for (int z : {-reach.z, -1, 0, 1, reach.z}) {
                if (x >= -reach.x && x <= reach.x && y >= -reach.y && y <= reach.y &&
                    z >= -reach.z && z <= reach.z) {
                    each(triple_make(x, y, z));
                }
            }
        }
    }
}

// All that a layout promises, at the ends of its fields.
template <typename W>
static void check_layout(const word_layout *l, const word_need *need) {
    REQUIRE_OK(word_check<W>(l));
    const W none = word_none<W>();
    voxel_corners(l, [&](voxel v) {
        W w = word_pack<W>(l, v);
        CHECK(voxel_equal(word_unpack(l, w), v));
        CHECK(w != none);
        CHECK(word_bits(l) == 64 || (uint64_t)w >> word_bits(l) == 0);
        voxel floored = {v.batch, (int)floor_to(v.x, need->stride.x),
                         (int)floor_to(v.y, need->stride.y), (int)floor_to(v.z, need->stride.z)};
        CHECK(word_contains(l, floored)); // so that a coarser set may be a kernel's output
        CHECK(voxel_equal(word_unpack(l, word_floor(l, w, need->stride)), floored));
        deltas(need->reach, [&](triple d) {
            W moved = w + word_delta<W>(l, d);
            voxel expected = {v.batch, v.x + d.x, v.y + d.y, v.z + d.z};
            CHECK(voxel_equal(word_unpack(l, moved), expected));
            CHECK(moved != none);
            CHECK_EQUAL((W)(moved - word_delta<W>(l, d)), w);
        });
    });
}

TEST(word_fits_32_bits_where_that_is_enough) {
    word_layout l;
    word_need need = need_cube(0, 0, 1, 1, 0);
    REQUIRE_OK(word_fit(&need, &l));
    CHECK_EQUAL(l.bits, 32);
    CHECK_EQUAL(l.width_batch, 0);
    check_layout<uint32_t>(&l, &need);

    // The 5 cm KITTI scan, for a network down to stride 16 whose kernels reach 16 voxels.
    need = word_need_of({0, 0, 0}, {3121, 2012, 116}, 1, {16, 16, 16}, {16, 16, 16});
    REQUIRE_OK(word_fit(&need, &l));
    CHECK_EQUAL(l.bits, 32);
    CHECK(l.lo.x <= 0 && l.hi.x >= 3121 && l.hi.y >= 2012 && l.hi.z >= 116);
    check_layout<uint32_t>(&l, &need);

    need.batches = 100; // 7 bits more
    REQUIRE_OK(word_fit(&need, &l));
    CHECK_EQUAL(l.bits, 64);
    CHECK_EQUAL(l.width_batch, 7);
    check_layout<uint64_t>(&l, &need);
}

// Fields of 10, 11, 11 bits take a whole 32-bit word and leave none for the batch.
TEST(word_full_without_a_batch_field) {
    word_need need = word_need_of({0, 0, 0}, {1020, 2044, 2044}, 1, {1, 1, 1}, {1, 1, 1});
    word_layout l;
    REQUIRE_OK(word_fit(&need, &l));
    CHECK_EQUAL(word_bits(&l), 32);
    CHECK_EQUAL(l.bits, 32);
    CHECK_EQUAL(l.shift_b, 32);
    CHECK_EQUAL(l.width_batch, 0);
    CHECK_EQUAL(l.hi.x, 1020);
    CHECK_EQUAL(l.hi.z, 2044);
    check_layout<uint32_t>(&l, &need);
    ++need.hi.z; // one more voxel, one more bit
    REQUIRE_OK(word_fit(&need, &l));
    CHECK_EQUAL(l.bits, 64);
    CHECK_EQUAL(word_bits(&l), 33);
    check_layout<uint64_t>(&l, &need);
}

TEST(word_full_in_64_bits) {
    const int hi = (1 << 21) - 4; // as much as 21 bits hold with the margins
    word_need need = word_need_of({0, 0, 0}, {hi, hi, 2 * hi + 4}, 1, {1, 1, 1}, {1, 1, 1});
    word_layout l;
    REQUIRE_OK(word_fit(&need, &l));
    CHECK_EQUAL(l.shift_x, 22 + 21);
    need.batches = 2;
    need.hi = {hi, hi, hi};
    REQUIRE_OK(word_fit(&need, &l));
    CHECK_EQUAL(word_bits(&l), 64);
    check_layout<uint64_t>(&l, &need);
}

TEST(word_fit_counts_missing_bits) {
    word_layout l;
    word_need need = need_cube(0, (1 << 30) - 10, 1, 1, 1); // 30 bits each
    status s = word_fit(&need, &l);
    CHECK_STATUS(s, status_bits);
    CHECK_EQUAL(s.detail, 26);
    need.batches = 1 << 10;
    s = word_fit(&need, &l);
    CHECK_STATUS(s, status_bits);
    CHECK_EQUAL(s.detail, 36);
    need = need_cube(0, (1 << 21) - 4, 2, 1, 1); // 21 bits each: 64 with the batch
    CHECK_OK(word_fit(&need, &l));
    need.hi.y += 1;
    s = word_fit(&need, &l);
    CHECK_STATUS(s, status_bits);
    CHECK_EQUAL(s.detail, 1);
}

TEST(word_fit_refuses) {
    word_layout l;
    word_need good = need_cube(-5, 5, 2, 2, 3), need;
    CHECK_OK(word_fit(&good, &l));
    CHECK_STATUS(word_fit(nullptr, &l), status_null_pointer);
    CHECK_STATUS(word_fit(&good, nullptr), status_null_pointer);
    for (int bad : {0, -1}) {
        need = good;
        need.batches = bad;
        CHECK_STATUS(word_fit(&need, &l), status_bad_size);
        int *strides[3] = {&need.stride.x, &need.stride.y, &need.stride.z};
        for (int *stride : strides) {
            need = good;
            *stride = bad;
            status s = word_fit(&need, &l);
            CHECK_STATUS(s, status_stride);
            CHECK_EQUAL(s.detail, bad);
        }
    }
    int *reaches[3] = {&need.reach.x, &need.reach.y, &need.reach.z};
    int *his[3] = {&need.hi.x, &need.hi.y, &need.hi.z};
    for (int a = 0; a < 3; ++a) {
        need = good;
        *reaches[a] = -1;
        CHECK_STATUS(word_fit(&need, &l), status_bad_size);
        need = good;
        *his[a] = -6;
        CHECK_STATUS(word_fit(&need, &l), status_bad_size);
    }
    // Beyond int, whatever the words would hold.
    need = word_need_of({INT32_MIN, 0, 0}, {INT32_MAX, 0, 0}, 1, {1, 1, 1}, {0, 0, 0});
    CHECK_STATUS(word_fit(&need, &l), status_bad_size);
    need = word_need_of({INT32_MIN, 0, 0}, {INT32_MIN, 0, 0}, 1, {1, 1, 1}, {0, 0, 0});
    CHECK_STATUS(word_fit(&need, &l), status_bad_size);
    need = word_need_of({INT32_MAX - 2, 0, 0}, {INT32_MAX - 1, 0, 0}, 1, {1, 1, 1}, {3, 0, 0});
    CHECK_STATUS(word_fit(&need, &l), status_bad_size);
}

TEST(word_check_refuses) {
    word_need need = need_cube(0, 100, 1, 1, 1);
    word_layout l;
    REQUIRE_OK(word_fit(&need, &l));
    CHECK_OK(word_check<uint32_t>(&l));
    CHECK_STATUS(word_check<uint64_t>(&l), status_unsupported);
    CHECK_STATUS(word_check<uint32_t>(nullptr), status_null_pointer);
    word_layout wide = word_widen(l);
    CHECK_OK(word_check<uint64_t>(&wide));
    CHECK_STATUS(word_check<uint32_t>(&wide), status_unsupported);
    check_layout<uint64_t>(&wide, &need);
    l.width_batch = 32;
    CHECK_STATUS(word_check<uint32_t>(&l), status_bad_size);
    word_layout zero = {};
    zero.bits = 32;
    CHECK_STATUS(word_check<uint32_t>(&zero), status_bad_size);
}

TEST(word_dispatch_takes_the_layouts_word) {
    word_need need = need_cube(0, 100, 1, 1, 1);
    word_layout l;
    REQUIRE_OK(word_fit(&need, &l));
    word_layout wide = word_widen(l), other = l;
    size_t bytes = 0;
    auto body = [&](auto word) {
        bytes = sizeof word;
        return word_check<decltype(word)>(bytes == 4 ? &l : &wide);
    };
    CHECK_OK(word_dispatch(&l, body));
    CHECK_EQUAL(bytes, sizeof(uint32_t));
    CHECK_OK(word_dispatch(&wide, body));
    CHECK_EQUAL(bytes, sizeof(uint64_t));
    bytes = 0;
    CHECK_STATUS(word_dispatch(nullptr, body), status_null_pointer);
    for (int bits : {0, 16, 33, 128, -32}) {
        other.bits = bits;
        CHECK_STATUS(word_dispatch(&other, body), status_unsupported);
    }
    CHECK_EQUAL(bytes, (size_t)0);
}

TEST(word_layouts_keep_their_promises) {
    random_state r = random_make(1);
    int narrow = 0;
    for (int i = 0; i < 300; ++i) {
        word_need need = need_random(&r);
        word_layout l;
        REQUIRE_OK(word_fit(&need, &l));
        CHECK(l.lo.x <= need.lo.x && l.hi.x >= need.hi.x && l.lo.y <= need.lo.y &&
              l.hi.y >= need.hi.y && l.lo.z <= need.lo.z && l.hi.z >= need.hi.z);
        CHECK(l.bias.x % need.stride.x == 0 && l.bias.y % need.stride.y == 0 &&
              l.bias.z % need.stride.z == 0);
        CHECK_EQUAL(l.bits == 32, word_bits(&l) <= 32);
        if (l.bits == 32) {
            check_layout<uint32_t>(&l, &need);
            ++narrow;
            l = word_widen(l);
        }
        check_layout<uint64_t>(&l, &need);
    }
    CHECK(narrow > 50 && narrow < 250); // both were seen
}

TEST(word_order_is_lexicographic) {
    random_state r = random_make(2);
    for (int i = 0; i < 200; ++i) {
        word_need need = need_random(&r);
        word_layout l;
        REQUIRE_OK(word_fit(&need, &l));
        word_layout wide = word_widen(l);
        for (int j = 0; j < 50; ++j) {
            voxel a = voxel_random(&r, &l), b = random_int(&r, 0, 3) ? voxel_random(&r, &l) : a;
            b.x = random_int(&r, 0, 1) ? a.x : b.x;
            b.y = random_int(&r, 0, 1) ? a.y : b.y;
            CHECK_EQUAL(word_pack<uint64_t>(&wide, a) < word_pack<uint64_t>(&wide, b),
                        voxel_before(a, b));
            if (l.bits == 32) {
                CHECK_EQUAL(word_pack<uint32_t>(&l, a) < word_pack<uint32_t>(&l, b),
                            voxel_before(a, b));
            }
        }
    }
}

template <typename W>
static void check_masks(const word_layout *l, triple stride, random_state *r) {
    for (int i = 0; i < 60; ++i) {
        voxel v = voxel_random(r, l);
        W w = word_pack<W>(l, v);
        voxel m = word_unpack<W>(l, w & word_stride_mask<W>(l, stride));
        voxel expected = {v.batch, (int)floor_to(v.x, stride.x), (int)floor_to(v.y, stride.y),
                          (int)floor_to(v.z, stride.z)};
        CHECK(voxel_equal(m, expected));
        CHECK_EQUAL(word_floor(l, w, stride), word_pack<W>(l, expected));
    }
}

// Negative coordinates are floored, not cut towards zero.
TEST(word_masks_are_floor_division) {
    random_state r = random_make(3);
    for (int i = 0; i < 200; ++i) {
        word_need need = need_random(&r);
        int largest[3];
        for (int &stride : largest) {
            stride = random_int(&r, 0, 5);
        }
        need.stride = {1 << largest[0], 1 << largest[1], 1 << largest[2]};
        word_layout l;
        REQUIRE_OK(word_fit(&need, &l));
        word_layout wide = word_widen(l);
        for (int level = 0; level <= 5; ++level) {
            triple s = {1 << min_of(level, largest[0]), 1 << min_of(level, largest[1]),
                        1 << min_of(level, largest[2])};
            check_masks<uint64_t>(&wide, s, &r);
            if (l.bits == 32) {
                check_masks<uint32_t>(&l, s, &r);
            }
        }
    }
    CHECK_EQUAL(floor_to(-1, 4), -4);
    CHECK_EQUAL(floor_to(-4, 4), -4);
}

// A flat scene: the stride is larger than all that the field holds, and the mask must not reach
// into the field above.
TEST(word_mask_stays_in_its_field) {
    random_state r = random_make(4);
    const triple strides[] = {{16, 1, 1}, {1, 16, 1}, {1, 1, 16}, {16, 16, 16}, {2, 16, 1}};
    for (int lo : {0, 16, -16}) {
        word_need need =
            word_need_of({lo, lo, lo}, {lo + 1, lo + 1, lo + 1}, 3, {16, 16, 16}, {0, 0, 0});
        word_layout l;
        REQUIRE_OK(word_fit(&need, &l));
        CHECK(l.width.x < 4 && l.width.y < 4 && l.width.z < 4);
        for (triple stride : strides) {
            check_masks<uint32_t>(&l, stride, &r);
        }
    }
}

TEST(word_floor_takes_any_stride) {
    word_need need = need_cube(-20, 20, 2, 12, 5);
    word_layout l;
    REQUIRE_OK(word_fit(&need, &l));
    CHECK_EQUAL(l.lo.x, -24);
    for (int stride : {1, 2, 3, 4, 6, 12}) { // those that divide the largest
        for (int x = -20; x <= 20; ++x) {
            voxel v = {1, x, -x, x};
            voxel f = word_unpack(
                &l, word_floor(&l, word_pack<uint32_t>(&l, v), {stride, stride, stride}));
            CHECK(f.batch == 1 && f.x % stride == 0 && f.x <= x && f.x > x - stride);
            CHECK(f.y % stride == 0 && f.y <= -x && f.y > -x - stride);
            CHECK_EQUAL(f.z, f.x);
        }
    }
}

TEST(word_contains_is_exact) {
    word_need need = word_need_of({-8, 0, 3}, {8, 10, 12}, 3, {4, 2, 1}, {2, 1, 1});
    word_layout l;
    REQUIRE_OK(word_fit(&need, &l));
    const int lo[4] = {0, l.lo.x, l.lo.y, l.lo.z}, hi[4] = {2, l.hi.x, l.hi.y, l.hi.z};
    for (int a = 0; a < 4; ++a) {
        for (int at : {lo[a], hi[a], lo[a] - 1, hi[a] + 1, INT32_MIN, INT32_MAX}) {
            int v[4] = {2, 0, 5, 5};
            v[a] = at;
            CHECK_EQUAL(word_contains(&l, {v[0], v[1], v[2], v[3]}), at >= lo[a] && at <= hi[a]);
        }
    }
}
