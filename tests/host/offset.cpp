// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/offset.cpp: offset.h.
#include "../support/test.h"

#include "../../spira/offset.h"

#include <algorithm>
#include <vector>

using namespace spira;

static bool triple_before(triple a, triple b) {
    return a.x != b.x ? a.x < b.x : a.y != b.y ? a.y < b.y : a.z < b.z;
}

static const kernel_shape shapes[] = {
    {{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, false},    {{5, 5, 5}, {1, 1, 1}, {2, 2, 2}, false},
    {{2, 2, 2}, {1, 1, 1}, {4, 4, 4}, false},    {{2, 2, 2}, {1, 1, 1}, {4, 4, 4}, true},
    {{1, 1, 3}, {1, 1, 1}, {8, 8, 8}, false},    {{3, 2, 5}, {1, 3, 2}, {1, 2, 4}, false},
    {{4, 3, 2}, {2, 1, 3}, {3, 1, 2}, true},     {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, false},
    {{15, 15, 15}, {1, 1, 1}, {1, 1, 1}, false}, {{1, 7, 14}, {1, 1, 1}, {1, 1, 1}, true},
};

TEST(offset_order_is_lexicographic) {
    for (kernel_shape s : shapes) {
        s.transposed = false;
        REQUIRE_OK(kernel_check(&s));
        int k = 0;
        for (int ix = 0; ix < s.size.x; ++ix) {
            for (int iy = 0; iy < s.size.y; ++iy) {
                for (int iz = 0; iz < s.size.z; ++iz, ++k) {
                    triple d = kernel_displacement(&s, k);
                    int half_x = s.size.x % 2 ? (s.size.x - 1) / 2 : 0;
                    int half_y = s.size.y % 2 ? (s.size.y - 1) / 2 : 0;
                    int half_z = s.size.z % 2 ? (s.size.z - 1) / 2 : 0;
                    CHECK_EQUAL(d.x, (ix - half_x) * s.dilation.x * s.stride.x);
                    CHECK_EQUAL(d.y, (iy - half_y) * s.dilation.y * s.stride.y);
                    CHECK_EQUAL(d.z, (iz - half_z) * s.dilation.z * s.stride.z);
                    CHECK(k == 0 || triple_before(kernel_displacement(&s, k - 1), d));
                }
            }
        }
        CHECK_EQUAL(kernel_volume(&s), k);
        CHECK_EQUAL(kernel_rows(&s) * s.size.z, k);
    }
}

TEST(offset_transposed_is_the_opposite) {
    for (kernel_shape s : shapes) {
        kernel_shape t = s;
        t.transposed = !s.transposed;
        for (int k = 0; k < kernel_volume(&s); ++k) {
            triple a = kernel_displacement(&s, k), b = kernel_displacement(&t, k);
            CHECK(a.x == -b.x && a.y == -b.y && a.z == -b.z);
        }
    }
}

TEST(offset_mirror_is_the_opposite) {
    for (const kernel_shape &s : shapes) {
        bool odd = s.size.x % 2 == 1 && s.size.y % 2 == 1 && s.size.z % 2 == 1;
        CHECK_EQUAL(kernel_is_odd(&s), odd);
        for (int k = 0; k < kernel_volume(&s) && odd; ++k) {
            triple a = kernel_displacement(&s, k);
            triple b = kernel_displacement(&s, kernel_volume(&s) - 1 - k);
            CHECK(a.x == -b.x && a.y == -b.y && a.z == -b.z);
        }
    }
}

TEST(offset_reach_is_the_largest) {
    for (const kernel_shape &s : shapes) {
        triple most = {0, 0, 0};
        for (int k = 0; k < kernel_volume(&s); ++k) {
            triple d = kernel_displacement(&s, k);
            most = {std::max(most.x, abs(d.x)), std::max(most.y, abs(d.y)),
                    std::max(most.z, abs(d.z))};
        }
        CHECK(triple_equal(kernel_reach(&s), most));
    }
}

TEST(offset_norms) {
    kernel_shape s = kernel_cube(3, 8); // norms are those of the lattice, whatever the stride
    int count[4] = {};
    for (int k = 0; k < 27; ++k) {
        REQUIRE(kernel_norm(&s, k) <= 3);
        ++count[kernel_norm(&s, k)];
    }
    CHECK(count[0] == 1 && count[1] == 6 && count[2] == 12 && count[3] == 8);
    CHECK_EQUAL(kernel_norm(&s, 13), 0);
    CHECK_EQUAL(kernel_norm_max(&s), 3);
    CHECK_EQUAL(kernel_norm_count(&s, 2, 27), 7);
    CHECK_EQUAL(kernel_norm_count(&s, 2, 13), 3); // those before the centre
    CHECK_EQUAL(kernel_norm_count(&s, 0, 27), 0);
    for (const kernel_shape &k : shapes) {
        int most = 0, volume = kernel_volume(&k);
        for (int i = 0; i < volume; ++i) {
            most = std::max(most, kernel_norm(&k, i));
        }
        CHECK_EQUAL(kernel_norm_max(&k), most);
        CHECK(kernel_norm_count(&k, most, volume) < volume);
        CHECK_EQUAL(kernel_norm_count(&k, most + 1, volume), volume);
    }
    s = kernel_cube(2, 1);
    s.transposed = true;
    CHECK_EQUAL(kernel_norm(&s, 0), 0);
    CHECK_EQUAL(kernel_norm(&s, 7), 3);
    s.size = {1, 1, 5};
    s.dilation = {1, 1, 3};
    CHECK_EQUAL(kernel_norm(&s, 0), 2);
    CHECK_EQUAL(kernel_norm(&s, 4), 2);
}

TEST(offset_refuses) {
    CHECK_STATUS(kernel_check(nullptr), status_null_pointer);
    kernel_shape good = kernel_cube(3, 1), s;
    CHECK_OK(kernel_check(&good));
    triple *fields[3] = {&s.size, &s.dilation, &s.stride};
    const status_code codes[3] = {status_kernel_size, status_bad_size, status_stride};
    for (int f = 0; f < 3; ++f) {
        for (int bad : {0, -1, INT32_MIN, f == 0 ? 16 : (1 << 20) + 1, INT32_MAX}) {
            for (int axis = 0; axis < 3; ++axis) {
                s = good;
                (axis == 0 ? fields[f]->x : axis == 1 ? fields[f]->y : fields[f]->z) = bad;
                status refused = kernel_check(&s);
                CHECK_STATUS(refused, codes[f]);
                CHECK_EQUAL(refused.detail, bad);
            }
        }
    }
    s = good;
    s.dilation.y = s.stride.y = 1 << 20; // each is allowed, their product is no int
    CHECK_STATUS(kernel_check(&s), status_bad_size);
}
