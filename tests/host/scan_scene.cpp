// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/scan_scene.cpp: the streets and the random voxels of the examples. Writes to
// build/tmp.
#include "../support/test.h"

#include "../../examples/scan_scene.h"

#include <math.h>
#include <sys/stat.h>

using namespace spira;
using namespace scan;

// The path of a file in build/tmp; `name` is a literal.
#define SCAN_TEMPORARY(name) (mkdir("build", 0777), mkdir("build/tmp", 0777), "build/tmp/" name)

static int compare_words(const void *a, const void *b) {
    uint64_t p = *(const uint64_t *)a, q = *(const uint64_t *)b;
    return (p > q) - (p < q);
}

// The number of distinct voxels in [voxels, 3]; each coordinate fits 21 bits.
static int64_t count_distinct(const int32_t *coords, int64_t voxels) {
    uint64_t *words = guarded_new<uint64_t>(voxels);
    for (int64_t i = 0; i < voxels; ++i) {
        words[i] = 0;
        for (int axis = 0; axis < 3; ++axis) {
            words[i] = words[i] << 21 | (uint64_t)(coords[i * 3 + axis] + (1 << 20));
        }
    }
    qsort(words, (size_t)voxels, sizeof *words, compare_words);
    int64_t distinct = voxels > 0;
    for (int64_t i = 1; i < voxels; ++i) {
        distinct += words[i] != words[i - 1];
    }
    return distinct;
}

TEST(scan_scene_street_looks_like_a_scan) {
    for (uint32_t seed : {0u, 1u, 2u, 77u, UINT32_MAX}) {
        scan_cloud cloud;
        REQUIRE_OK(scan_scene_street(seed, &cloud));
        CHECK_EQUAL(cloud.columns, 4);
        CHECK(cloud.rows > 100000 && cloud.rows < 128000);
        int32_t *voxels = guarded_new<int32_t>(cloud.rows * 3);
        bool sane = true;
        for (int64_t i = 0; i < cloud.rows; ++i) {
            const float *p = cloud.points + i * 4;
            float range = sqrtf(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]);
            sane = sane && range > 1.5f && range < 80.1f && p[2] > -5 && p[2] < 4 && p[3] >= 0 &&
                   p[3] <= 1;
            for (int axis = 0; axis < 3; ++axis) {
                voxels[i * 3 + axis] = (int32_t)floorf(p[axis] / 0.05f);
            }
        }
        CHECK(sane);
        int64_t distinct = count_distinct(voxels, cloud.rows);
        CHECK(distinct > 50000 && distinct < 100000);
        scan_free(&cloud);
    }
}

TEST(scan_scene_street_repeats_for_a_seed) {
    scan_cloud a, b, c;
    REQUIRE_OK(scan_scene_street(5, &a));
    REQUIRE_OK(scan_scene_street(5, &b));
    REQUIRE_OK(scan_scene_street(6, &c));
    REQUIRE(a.rows == b.rows);
    CHECK(memcmp(a.points, b.points, (size_t)a.rows * 16) == 0);
    CHECK(a.rows != c.rows || memcmp(a.points, c.points, (size_t)a.rows * 16) != 0);
    const char *path = SCAN_TEMPORARY("street.bin");
    REQUIRE_OK(scan_write_floats(path, a.points, a.rows, a.columns));
    scan_free(&b);
    scan_options options = {};
    scan_reason why;
    options.columns = 4;
    REQUIRE_OK(scan_read(path, &options, &b, &why)); // all values are finite
    CHECK(a.rows == b.rows && memcmp(a.points, b.points, (size_t)a.rows * 16) == 0);
    scan_free(&a);
    scan_free(&b);
    scan_free(&c);
    CHECK_STATUS(scan_scene_street(0, nullptr), status_null_pointer);
}

// Whether a point, in the street's directions, is on the surface of something of a class: within
// the noise of a range and the height of a kerb.
static bool street_has(const scene *street, scene_class label, float x, float y, float z) {
    const float slack = 0.08f, off = fabsf(y - street->middle) - street->road;
    const bool road = off < slack || scene_in_crossing(street, x, slack);
    const bool pavement = off > -slack && !scene_in_crossing(street, x, -slack);
    bool found = label == scene_class_road ? road : label == scene_class_pavement && pavement;
    found = found && fabsf(z - scene_ground(street, x, y)) < 0.25f;
    for (int i = 0; i < street->solids && !found; ++i) {
        const scene_solid *s = &street->solid[i];
        const bool round = s->shape == scene_cylinder || s->shape == scene_foliage;
        const float u = s->cosine * (x - s->x) + s->sine * (y - s->y);
        const float v = s->cosine * (y - s->y) - s->sine * (x - s->x);
        found = s->label == label && fabsf(z - s->z) < s->half.z + slack &&
                (round ? hypotf(u, v) < s->half.x + slack
                       : fabsf(u) < s->half.x + slack && fabsf(v) < s->half.y + slack);
    }
    return found;
}

// Points whose label names nothing at their place, if each label is moved on by `shift` classes.
static int64_t street_mislabelled(const scene *street, const scan_cloud *cloud,
                                  const int32_t *labels, int shift) {
    const float c = cosf(street->yaw), s = sinf(street->yaw);
    int64_t wrong = 0;
    for (int64_t i = 0; i < cloud->rows; ++i) {
        const float *p = cloud->points + 4 * i;
        const int label = (labels[i] + shift) % scene_classes;
        wrong +=
            !street_has(street, (scene_class)label, c * p[0] - s * p[1], s * p[0] + c * p[1], p[2]);
    }
    return wrong;
}

TEST(scan_scene_street_labels_its_points) {
    scene *street = guarded_new<scene>(1);
    int64_t counts[scene_classes] = {};
    for (uint32_t seed : {0u, 1u, 17u, 28u, 99u}) {
        scan_cloud cloud, plain;
        int32_t *labels;
        REQUIRE_OK(scan_scene_street(seed, &cloud, &labels));
        REQUIRE_OK(scan_scene_street(seed, &plain));
        CHECK(plain.rows == cloud.rows &&
              memcmp(plain.points, cloud.points, (size_t)cloud.rows * 16) == 0);
        for (int64_t i = 0; i < cloud.rows; ++i) {
            REQUIRE(labels[i] >= 0 && labels[i] < scene_classes);
            ++counts[labels[i]];
        }
        scene_make(street, seed);
        CHECK_EQUAL(street_mislabelled(street, &cloud, labels, 0), 0);
        CHECK(street_mislabelled(street, &cloud, labels, 1) > cloud.rows / 2); // a planted error
        scan_free(&plain);
        scan_free(&cloud);
        free(labels);
    }
    for (int64_t count : counts) {
        CHECK(count > 1000);
    }
    CHECK_EQUAL(strcmp(scene_class_name(scene_class_person), "person"), 0);
    CHECK_EQUAL(strcmp(scene_class_name(scene_classes), "none"), 0);
    CHECK_EQUAL(strcmp(scene_class_name(-1), "none"), 0);
}

TEST(scan_scene_streets_differ) {
    scene *street = guarded_new<scene>(1);
    float lo[4] = {99, 99, 99, 99}, hi[4] = {-99, -99, -99, -99};
    for (uint32_t seed = 0; seed < 50; ++seed) {
        scene_make(street, seed);
        CHECK(street->solids > 30 && street->solids < scene_solids_most);
        CHECK(fabsf(scene_ground(street, 0, 0) + street->height) < 1e-5f); // below the sensor
        const float values[4] = {street->road, street->walk, street->middle, street->height};
        for (int i = 0; i < 4; ++i) {
            lo[i] = fminf(lo[i], values[i]);
            hi[i] = fmaxf(hi[i], values[i]);
        }
    }
    CHECK(hi[0] - lo[0] > 3.5f && hi[1] - lo[1] > 2.5f && hi[2] - lo[2] > 2 &&
          hi[3] - lo[3] > 0.4f);
}

TEST(scan_scene_random_is_distinct) {
    struct {
        int extent[3];
        int64_t voxels;
    } cases[] = {
        {{1, 1, 1}, 1},           {{1, 1, 1}, 0},
        {{2, 1, 1}, 2},           {{3, 5, 7}, 105},
        {{3, 5, 7}, 104},         {{16, 16, 16}, 4096},
        {{17, 16, 16}, 17 * 256}, {{100, 90, 20}, 10000},
        {{1, 1, 5000}, 99},       {{4096, 4096, 512}, 20000},
    };
    for (auto &c : cases) {
        for (uint32_t seed : {0u, 1u, UINT32_MAX}) {
            int32_t *coords = guarded_new<int32_t>(c.voxels * 3);
            int32_t *again = guarded_new<int32_t>(c.voxels * 3);
            REQUIRE_OK(scan_scene_random(seed, c.voxels, c.extent, coords));
            REQUIRE_OK(scan_scene_random(seed, c.voxels, c.extent, again));
            CHECK(memcmp(coords, again, (size_t)c.voxels * 12) == 0);
            bool inside = true;
            for (int64_t i = 0; i < c.voxels * 3; ++i) {
                inside = inside && coords[i] >= 0 && coords[i] < c.extent[i % 3];
            }
            CHECK(inside);
            CHECK_EQUAL(count_distinct(coords, c.voxels), c.voxels);
        }
    }
}

TEST(scan_scene_random_is_uniform) {
    const int extent[3] = {1000, 300, 40};
    const int64_t voxels = 40000;
    int32_t *coords = guarded_new<int32_t>(voxels * 3), *other = guarded_new<int32_t>(voxels * 3);
    REQUIRE_OK(scan_scene_random(3, voxels, extent, coords));
    REQUIRE_OK(scan_scene_random(4, voxels, extent, other));
    CHECK(memcmp(coords, other, (size_t)voxels * 12) != 0);
    int64_t counts[8] = {}; // of each octant: 5000, with a standard deviation of 66
    for (int64_t i = 0; i < voxels; ++i) {
        int octant = 0;
        for (int axis = 0; axis < 3; ++axis) {
            octant = octant * 2 + (coords[i * 3 + axis] >= extent[axis] / 2);
        }
        ++counts[octant];
    }
    for (int64_t count : counts) {
        CHECK(count > 5000 - 400 && count < 5000 + 400);
    }
}

TEST(scan_scene_random_refuses) {
    const int extent[3] = {3, 4, 5}, flat[3] = {3, 0, 5}, negative[3] = {-3, -4, 5};
    const int huge[3] = {INT32_MAX, INT32_MAX, INT32_MAX}, wide[3] = {INT32_MAX, INT32_MAX, 1};
    int32_t *coords = guarded_new<int32_t>(60 * 3);
    status s = scan_scene_random(1, 61, extent, coords);
    CHECK_STATUS(s, status_capacity);
    CHECK_EQUAL(s.detail, 61);
    CHECK_STATUS(scan_scene_random(1, -1, extent, coords), status_bad_size);
    CHECK_STATUS(scan_scene_random(1, 1, flat, coords), status_bad_size);
    CHECK_STATUS(scan_scene_random(1, 1, negative, coords), status_bad_size);
    CHECK_STATUS(scan_scene_random(1, 1, huge, coords), status_bad_size);
    CHECK_STATUS(scan_scene_random(1, 1, nullptr, coords), status_null_pointer);
    CHECK_STATUS(scan_scene_random(1, 1, extent, nullptr), status_null_pointer);
    CHECK(guarded_untouched(coords, 0, 60 * 3));
    CHECK_OK(scan_scene_random(1, 0, extent, nullptr));
    CHECK_OK(scan_scene_random(1, 60, wide, coords)); // almost 2^62 cells
    CHECK(coords[0] >= 0 && coords[1] >= 0 && coords[2] == 0);
}
