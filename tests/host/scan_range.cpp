// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/scan_range.cpp: ranges and voxels of the examples' detectors, as options give them
// (examples/scan_range.h). tests/run_scan.sh has what the program says.
#include "../support/test.h"

#include "../../examples/scan_range.h"

#include <vector>

using namespace spira;

namespace {

const char kitti[] = "0,-40,-3,70.4,40,1", waymo[] = "-75.2,-75.2,-2,75.2,75.2,4";

// A network with the range and the voxels of two options. Null: none.
networks::network chosen(const char *name, const char *range, const char *voxel) {
    side::options o = side::options_standard();
    networks::network n;
    o.net = name;
    CHECK(!range || side::option_take(&o, "--range", range));
    CHECK(!voxel || side::option_take(&o, "--voxel", voxel));
    CHECK(networks::network_make(name, &n));
    CHECK_EQUAL(side::range_choose(&o, &n), 0);
    return n;
}

} // namespace

TEST(scan_range_reads_numbers) {
    float n[6];
    CHECK_EQUAL(side::numbers_take("-1.5", 3, n), 1);
    CHECK_EQUAL(n[0], -1.5f);
    CHECK_EQUAL(side::numbers_take("0,-40,-3,70.4,40,1", 6, n), 6);
    CHECK(n[0] == 0 && n[1] == -40 && n[3] == 70.4f && n[5] == 1);
    for (const char *bad :
         {"", ",", "1,", ",1", "1,,2", "1 ,2", "1,2x", "nan", "1,inf", "1,2,3,4"}) {
        CHECK_EQUAL(side::numbers_take(bad, 3, n), 0);
    }
    float voxel[3];
    CHECK(side::voxel_take("0.1", voxel) && voxel[0] == 0.1f && voxel[1] == 0.1f);
    CHECK_EQUAL(voxel[2], 0.1f);
    CHECK(side::voxel_take("0.1,0.2,0.3", voxel) && voxel[1] == 0.2f && voxel[2] == 0.3f);
    for (const char *bad : {"0", "-1", "0.1,0.1", "0.1,0,0.1", "0.1,0.1,-0.1", "0.1,0.1,0.1,0.1"}) {
        CHECK(!side::voxel_take(bad, voxel));
    }
}

// The spatial shapes of the engines, and the dense maps.
TEST(scan_range_gives_the_extent) {
    static const struct {
        const char *net, *range, *voxel;
        triple extent;
        int height, width;
    } expected[] = {
        {"VoxelBackBone8x", nullptr, nullptr, {1440, 1440, 41}, 180, 180},
        {"VoxelBackBone8x", kitti, "0.05,0.05,0.1", {1408, 1600, 41}, 200, 176},
        {"SpMiddleResNetFHD", waymo, "0.1,0.1,0.15", {1504, 1504, 41}, 188, 188},
        {"BEVFusion", nullptr, nullptr, {1440, 1440, 41}, 180, 180},
        {"BEVFusion", kitti, "0.05,0.05,0.1", {1600, 1408, 41}, 176, 200}, // x and y exchanged
        {"SpMiddleResNetFHD", "-51.2,-51.2,-5,51.2,51.2,3", nullptr, {1365, 1365, 41}, 171, 171},
        {"SpMiddleResNetFHD", nullptr, "0.1,0.1,0.2", {1080, 1080, 41}, 135, 135},
    };
    for (const auto &e : expected) {
        const networks::network n = chosen(e.net, e.range, e.voxel);
        net_plan plan;
        const net_limits limits = side::limits_of(&n, 1);
        CHECK(triple_equal(n.grid.extent, e.extent));
        REQUIRE_OK(net_plan_sets(n.layers, n.count, &limits, false, &plan));
        const net_run_args<uint32_t> run = {};
        const net_result<uint32_t> r = net_output(&plan, plan.layer_count - 1, &run);
        CHECK_EQUAL(r.height, e.height);
        CHECK_EQUAL(r.width, e.width);
        CHECK(r.batch == 1 && r.channels == 256);
    }
}

TEST(scan_range_voxels_of_networks) {
    char text[64];
    networks::network n = chosen("MinkUNet42", nullptr, nullptr);
    CHECK(!networks::network_ranged(&n));
    CHECK_EQUAL(side::voxel_text(&n, text, sizeof text), "0.05");
    n = chosen("MinkUNet42", nullptr, "0.1,0.1,0.1");
    CHECK_EQUAL(side::voxel_text(&n, text, sizeof text), "0.1");
    n = chosen("VoxelNeXt", kitti, "0.05,0.05,0.1");
    CHECK(networks::network_ranged(&n));
    CHECK_EQUAL(side::voxel_text(&n, text, sizeof text), "0.05 0.05 0.1");
    voxel_input in = {};
    n = chosen("BEVFusion", "1,2,3,11,14,11", "0.1,0.2,0.3");
    networks::network_voxels(&n, &in);
    CHECK(in.size[0] == 0.2f && in.size[1] == 0.1f && in.size[2] == 0.3f);
    CHECK(in.origin[0] == 2 && in.origin[1] == 1 && in.origin[2] == 3);
}

TEST(scan_range_that_cannot_be_is_refused) {
    const float lo[3] = {0, 0, 0}, hi[3] = {10, 10, 10}, same[3] = {10, 0, 10};
    const float voxel[3] = {0.1f, 0.1f, 0.1f}, wide[3] = {0.1f, 0.1f, 30}, fine[3] = {1e-9f, 1, 1};
    networks::network n, before;
    REQUIRE(networks::network_make("VoxelBackBone8x", &n));
    memcpy((void *)&before, (void *)&n, sizeof n);
    CHECK_STATUS(networks::network_range(&n, lo, same, voxel), status_grid);
    CHECK_STATUS(networks::network_range(&n, hi, lo, voxel), status_grid);
    CHECK_STATUS(networks::network_range(&n, lo, hi, wide), status_grid);
    CHECK_STATUS(networks::network_range(&n, lo, hi, fine), status_grid);
    CHECK(!memcmp((void *)&before, (void *)&n, sizeof n));
    const float flat[3] = {10, 10, 0.3f}, far[3] = {1e6f, 1e6f, 1e6f};
    REQUIRE_OK(networks::network_range(&n, lo, flat, voxel)); // too flat for the strided layers
    CHECK_STATUS(side::range_check(&n), status_layer);
    REQUIRE(networks::network_make("VoxelNeXt", &n)); // has no dense map
    REQUIRE_OK(networks::network_range(&n, lo, far, voxel));
    CHECK_STATUS(side::range_check(&n), status_bits);
}

// Points whose voxel is outside of the extent go: also those of the range's rest, where it is no
// multiple of the voxel.
TEST(scan_range_cuts_points) {
    networks::network n = {};
    const float lo[3] = {0, -1, 0}, hi[3] = {1, 0, 1}, voxel[3] = {0.3f, 0.3f, 0.3f};
    REQUIRE_OK(networks::network_range(&n, lo, hi, voxel));
    const float rows[][4] = {{0, -1, 0, 1},          {0.85f, -0.15f, 0.85f, 2},
                             {0.95f, -1, 0, 3},      {-0.001f, -1, 0, 4},
                             {0, 0, 0, 5},           {0, -1, 2, 6},
                             {0, -1, (float)NAN, 7}, {0.5f, -0.5f, 0.5f, 8}};
    scan::scan_cloud cloud = {};
    cloud.rows = 8;
    cloud.columns = 4;
    cloud.points = (float *)malloc(sizeof rows);
    memcpy(cloud.points, rows, sizeof rows);
    cloud.source = (int64_t *)malloc(8 * sizeof(int64_t));
    for (int64_t i = 0; i < 8; ++i) {
        cloud.source[i] = 10 + i;
    }
    int64_t outside;
    REQUIRE_OK(side::range_cut(&n, &cloud, &outside));
    CHECK_EQUAL(outside, 5);
    REQUIRE(CHECK_EQUAL(cloud.rows, 3));
    CHECK(cloud.source[0] == 10 && cloud.source[1] == 11 && cloud.source[2] == 17);
    CHECK(cloud.points[3] == 1 && cloud.points[7] == 2 && cloud.points[11] == 8);
    scan::scan_free(&cloud);

    int32_t cells[3] = {};
    cloud.rows = 1;
    cloud.columns = 3;
    cloud.voxels = cells;
    CHECK_STATUS(side::range_cut(&n, &cloud, &outside), status_unsupported);
    float point[3] = {0.5f, -0.5f, 0.5f}; // inside, had it not been moved
    cloud.voxels = nullptr;
    cloud.points = point;
    cloud.origin[1] = 5400000;
    CHECK_STATUS(side::range_cut(&n, &cloud, &outside), status_unsupported);
    CHECK_EQUAL(cloud.rows, 1);
    n = {};
    CHECK_OK(side::range_cut(&n, &cloud, &outside)); // no range
    CHECK_EQUAL(outside, 0);
}

// Detectors with weights from a file get what they were trained on: what the file has.
TEST(scan_values_of_detectors) {
    side::options o = side::options_standard();
    networks::network detector = chosen("VoxelBackBone8x", nullptr, nullptr),
                      other = chosen("MinkUNet42", nullptr, nullptr);
    CHECK(!side::values_are_raw(&o, &detector) && !side::values_are_raw(&o, &other));
    o.weights = "second.blob";
    CHECK(side::values_are_raw(&o, &detector) && !side::values_are_raw(&o, &other));

    float points[] = {10, -20, 3, 51, 0.5f};
    int32_t voxels[] = {10, -20, 30};
    scan::scan_cloud cloud = {};
    cloud.rows = 1;
    cloud.columns = 5;
    cloud.points = points;
    cloud.intensity = true;
    cloud.intensity_scale = 1 / 255.0f;
    const std::vector<float> raw = {10, -20, 3, 51, 0.5f, 0}, small = {1, -2, 0.3f, 0.2f, 0.5f, 0};
    std::vector<float> got(6);
    scan::scan_row_inputs(&cloud, 0, 1, true, 6, got.data());
    CHECK(got == raw);
    scan::scan_row_inputs(&cloud, 0, 1, false, 6, got.data());
    for (size_t c = 0; c < got.size(); ++c) {
        CHECK(fabsf(got[c] - small[c]) < 1e-6f);
    }
    cloud.points = nullptr;
    cloud.voxels = voxels;
    scan::scan_row_inputs(&cloud, 0, 0.5f, true, 5, got.data());
    CHECK(got[0] == 0.5f && got[1] == -1 && got[2] == 1.5f && got[3] == 1 && got[4] == 0);
}
