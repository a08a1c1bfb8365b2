// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/labels.cpp: classes of voxels in the examples, and the legend of their picture.
#include "../support/test.h"

#include "../../examples/scan_labels.h"
#include "../../examples/scan_legend.h"
#include "../../examples/scan_scene.h"

#include <math.h>
#include <vector>

using namespace spira;
using namespace scan;

TEST(labels_strongest_takes_the_first_of_equals) {
    const float scores[12] = {1, 2, 2, -5, -4, -6, 0, 0, 0, -INFINITY, -1, 3};
    int32_t labels[4];
    labels_strongest(scores, 4, 3, labels);
    CHECK(labels[0] == 1 && labels[1] == 1 && labels[2] == 0 && labels[3] == 2);
}

TEST(labels_vote_takes_most_points) {
    const int32_t voxel[9] = {0, 0, 0, 1, 1, -1, 3, 3, 3}, label[9] = {2, 1, 2, 1, 0, 2, 0, 1, 1};
    int32_t votes[12], labels[4];
    labels_vote(voxel, label, 9, 4, 3, votes, labels);
    CHECK(labels[0] == 2 && labels[1] == 0 && labels[2] == -1 && labels[3] == 1);
}

TEST(labels_compare_counts) {
    const int32_t labels[8] = {0, 0, 1, 1, 2, 2, 0, 3}, truth[8] = {0, 1, 1, 1, 2, 2, -1, 0};
    const labels_match m = labels_compare(labels, truth, 8);
    CHECK(fabs(labels_iou(&m, 0) - 1.0 / 3) < 1e-12); // one of found 2, there 2
    CHECK(fabs(labels_iou(&m, 1) - 2.0 / 3) < 1e-12);
    CHECK(labels_iou(&m, 2) == 1 && labels_iou(&m, 3) == 0 && labels_iou(&m, 4) == -1);
    CHECK(fabs(labels_mean_iou(&m, 5) - 0.5) < 1e-12); // class 4 is not there
    const labels_match none = labels_compare(labels, truth, 0);
    CHECK(labels_mean_iou(&none, 5) == -1);
}

// Each point of a scan is found in the voxels that the scan has, and nowhere else.
TEST(labels_find_the_voxels_of_points) {
    scan_cloud cloud;
    float lo[3], hi[3];
    REQUIRE_OK(scan_scene_street(3, &cloud));
    REQUIRE_OK(scan_bounds_points(&cloud, lo, hi));
    voxel_input in = {};
    in.points = cloud.points;
    in.rows = (int32_t)cloud.rows;
    in.columns = cloud.columns;
    in.size[0] = in.size[1] = in.size[2] = 0.1f;
    word_need need = {};
    REQUIRE_OK(voxel_bounds(lo, hi, in.size, in.origin, &need));
    need.batches = 1;
    need.stride = need.reach = triple_make(1, 1, 1);
    word_layout layout;
    REQUIRE_OK(word_fit(&need, &layout));
    std::vector<uint64_t> words;
    for (int64_t i = 0; i < cloud.rows; ++i) {
        voxel v = {};
        int *axes[3] = {&v.x, &v.y, &v.z};
        for (int a = 0; a < 3; ++a) {
            CHECK(voxel_quantise(cloud.points[4 * i + a], 0, 0.1f, axes[a]));
        }
        words.push_back(word_pack<uint64_t>(&layout, v));
    }
    const std::vector<uint64_t> rows = words;
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    const uint64_t taken = words[words.size() / 2];
    words.erase(words.begin() + (int64_t)words.size() / 2);
    std::vector<int32_t> voxel((size_t)cloud.rows);
    labels_find(&layout, &in, words.data(), (int64_t)words.size(), voxel.data());
    int64_t wrong = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
        wrong +=
            rows[i] == taken ? voxel[i] != -1 : voxel[i] < 0 || words[(size_t)voxel[i]] != rows[i];
    }
    CHECK_EQUAL(wrong, 0);
    scan_free(&cloud);
}

// ---- the legend ---------------------------------------------------------------------------------

static picture picture_new(int width, int height) {
    picture image = {width, height, 1, (uint8_t *)calloc((size_t)(width * height) * 3, 1)};
    return image;
}

static int64_t picture_bright(const picture *image, int x0, int x1) {
    int64_t bright = 0;
    for (int y = 0; y < image->height; ++y) {
        for (int x = x0; x < x1; ++x) {
            bright += image->rgb[((int64_t)y * image->width + x) * 3] > 0;
        }
    }
    return bright;
}

TEST(legend_draws_a_square_and_letters) {
    const uint8_t red[3] = {200, 0, 0};
    picture image = picture_new(100, 40);
    CHECK(legend_colour(&image, 10, 10, red, "t") > 40);
    CHECK_EQUAL(picture_bright(&image, 0, 30), 14 * 14);
    CHECK_EQUAL(picture_bright(&image, 30, 100), (5 + 6) * 4); // a T: its bar and its stem
    CHECK(image.rgb[(10 * 100 + 10) * 3] == 200 && image.rgb[(9 * 100 + 10) * 3] == 0);
    picture_free(&image);
    picture again = picture_new(100, 40);
    CHECK_EQUAL(legend_text(&again, 0, 0, "\xff(?"), 3 * legend_letter); // nothing of the font
    CHECK_EQUAL(picture_bright(&again, 0, 100), 0);
    picture_free(&again);
}

// The bar has the length of its metres, the least of 1, 2, 5, 10 .. with 40 pixels or more.
TEST(legend_scale_is_right) {
    const float scales[5] = {50, 20, 8, 5, 0.0001f}; // bars of 1, 2, 5, 10 and 500,000 metres
    const int pixels[5] = {50, 40, 40, 50, 50};
    for (int i = 0; i < 5; ++i) {
        picture image = picture_new(200, 20);
        image.scale = scales[i];
        int64_t bar = 0;
        legend_scale(&image, 3, 2);
        for (int x = 0; x < 200; ++x) {
            bar += image.rgb[(9 * 200 + x) * 3] > 0 && image.rgb[(7 * 200 + x) * 3] > 0 &&
                   !image.rgb[(2 * 200 + x) * 3] && x < 3 + pixels[i];
        }
        CHECK_EQUAL(bar, pixels[i]);
        CHECK(image.rgb[(9 * 200 + 3 + pixels[i]) * 3] == 0);
        picture_free(&image);
    }
}

TEST(legend_is_cut_off_at_the_edges) {
    const uint8_t red[3] = {200, 0, 0};
    for (int side = 1; side < 60; side += 7) {
        picture image = picture_new(side, 61 - side);
        for (int c = 0; c < scene_classes; ++c) { // the sanitizers look on
            legend_colour(&image, 9 * c - 20, 20 * c - 20, red, scene_class_name(c));
        }
        CHECK(picture_bright(&image, 0, side) <= (int64_t)side * (61 - side));
        picture_free(&image);
    }
}

TEST(legend_has_the_letters_that_pictures_need) {
    const char *text = "0123456789.,:'%-";
    for (int c = 0; c <= scene_classes; ++c) {
        for (const char *at = c < scene_classes ? scene_class_name(c) : text; *at; ++at) {
            CHECK(legend_glyph(*at) != nullptr);
        }
    }
    CHECK(legend_glyph('A') == legend_glyph('a') && !legend_glyph(0) && !legend_glyph(' '));
}
