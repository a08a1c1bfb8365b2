// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/net_detectors.cpp: the networks of examples/detectors.h: their layers, and the voxels
// that each of their levels has in a scan.
#include "../../bench/targets.h"
#include "../../examples/scene_street.h"
#include "../../spira/voxel.h"
#include "../support/detector_scan.h"
#include "../support/net_plans.h"

namespace {

const char *const detectors[] = {"VoxelBackBone8x", "SpMiddleResNetFHD", "BEVFusion",
                                 "VoxelNeXt",       "VoxelNeXt-Large",   "SpUNet-v1m1"};

// Limits with the extent of a network.
net_limits detector_limits(const network *n, int32_t voxels) {
    net_limits limits = limits_make(voxels, n->input_channels);
    limits.grid = n->grid;
    limits.batch = n->batch;
    return limits;
}

status detector_plan(const network *n, net_plan *plan) {
    const net_limits limits = detector_limits(n, 1000);
    return net_plan_sets(n->layers, n->count, &limits, false, plan);
}

// The layout of a network over its whole extent.
word_layout detector_layout(const network *n) {
    word_need need = {};
    word_layout layout = {};
    need.batches = 1;
    CHECK_OK(net_need(n->layers, n->count, &n->grid, &need));
    CHECK_OK(word_fit(&need, &layout));
    return layout;
}

} // namespace

TEST(net_detectors_have_their_layers) {
    static const struct {
        const char *net;
        int convolutions, sets, maps;
        const char *names[4]; // some of the layers
    } expected[] = {
        {"VoxelBackBone8x", 12, 5, 8, {"conv_input.0", "conv1.0.0", "conv4.2.0", "conv_out.0"}},
        {"SpMiddleResNetFHD",
         21,
         5,
         8,
         {"conv1.1.conv2", "conv2.0", "conv4.4.conv1", "extra_conv.0"}},
        {"BEVFusion", 21, 5, 8, {"conv1.1.conv2", "conv2.0", "conv4.4.conv1", "extra_conv.0"}},
        {"VoxelNeXt", 32, 8, 13, {"conv1.0.conv1", "conv6.0.0", "conv6.2.conv2", "shared_conv.0"}},
        {"VoxelNeXt-Large",
         32,
         8,
         13,
         {"conv1.0.conv1", "conv6.0.0", "conv6.2.conv2", "shared_conv.0"}},
        {"SpUNet-v1m1",
         60,
         5,
         14,
         {"enc.3.block5.conv2", "dec.0.block0.proj.0", "up.0.0", "final"}},
        {"SpUNet-small",
         30,
         5,
         14,
         {"enc.3.block0.conv2", "dec.0.block0.proj.0", "up.0.0", "final"}},
    };
    for (const auto &e : expected) {
        network n;
        net_plan plan;
        REQUIRE(networks::network_make(e.net, &n));
        REQUIRE_OK(detector_plan(&n, &plan));
        int convolutions = 0, found = 0;
        for (int i = 0; i < n.count; ++i) {
            convolutions += n.layers[i].op == net_conv;
            for (const char *name : e.names) {
                found += strcmp(n.layers[i].name, name) == 0;
            }
        }
        CHECK_EQUAL(found, 4);
        CHECK_EQUAL(convolutions, e.convolutions);
        CHECK_EQUAL(plan.sets, e.sets);
        CHECK_EQUAL(plan.maps, e.maps);
    }
}

// The channels of the input and the classes are the caller's.
TEST(net_detectors_take_channels_and_classes) {
    static const struct {
        const char *net;
        networks::network_sizes sizes;
        int channels, last; // of the input, of the last layer
    } expected[] = {
        {"SpUNet-v1m1", {0, 0}, 4, 16}, {"SpUNet-v1m1", {6, 20}, 6, 20},
        {"BEVFusion", {0, 0}, 5, 256},  {"BEVFusion", {4, 0}, 4, 256},
        {"MinkUNet42", {1, 0}, 1, 96},  {"SpUNet-small", {0, 0}, 4, scan::scene_classes},
        {"SpUNet-small", {3, 9}, 3, 9},
    };
    for (const auto &e : expected) {
        network n;
        net_plan plan;
        REQUIRE(networks::network_make(e.net, &e.sizes, &n));
        REQUIRE_OK(detector_plan(&n, &plan));
        CHECK_EQUAL(n.input_channels, e.channels);
        CHECK_EQUAL(plan.step[0].shape.cin, e.channels);
        CHECK_EQUAL(plan.step[n.count - 1].channels, e.last);
        CHECK_EQUAL(n.scores, strncmp(e.net, "SpUNet", 6) == 0);
    }
    network n;
    net_plan plan;
    const networks::network_sizes classes = {0, 20}, many = {0, conv_channels_max + 1},
                                  wide = {conv_channels_max + 1, 0};
    CHECK(!networks::network_make("VoxelNeXt", &classes, &n)); // it has none
    CHECK(!networks::network_make("SpUNet", &classes, &n));
    REQUIRE(networks::network_make("SpUNet-v1m1", &many, &n));
    CHECK_STATUS(detector_plan(&n, &plan), status_layer);
    REQUIRE(networks::network_make("SpUNet-v1m1", &wide, &n));
    CHECK_STATUS(detector_plan(&n, &plan), status_bad_size);
}

// Extents, strides and shapes of the dense maps.
TEST(net_detectors_dense_shapes) {
    for (const char *name : detectors) {
        network n;
        net_plan plan;
        REQUIRE(networks::network_make(name, &n));
        REQUIRE_OK(detector_plan(&n, &plan));
        const int last = n.count - 1;
        net_run_args<uint32_t> run = {};
        const net_result<uint32_t> r = net_output(&plan, last, &run);
        if (n.layers[last].op != net_dense) {
            CHECK(r.batch == 0 && r.height == 0 && r.width == 0);
            continue;
        }
        CHECK(triple_equal(r.grid.extent, {180, 180, 2}));
        CHECK(triple_equal(r.stride, {8, 8, 16}));
        CHECK(r.batch == 1 && r.channels == 256 && r.height == 180 && r.width == 180);
        CHECK_EQUAL(plan.step[last].channels, 256);
    }
}

namespace {

// The voxels of the nuScenes scan within the range of the detectors.
std::vector<uint32_t> scan_words(const word_layout *layout) {
    const std::vector<int32_t> rows = detector_scan_rows();
    std::vector<uint32_t> words;
    for (size_t i = 0; i < rows.size(); i += 3) {
        words.push_back(word_pack<uint32_t>(layout, {0, rows[i], rows[i + 1], rows[i + 2]}));
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    return words;
}

} // namespace

namespace {

// Runs the sets of a network on the input `words`; counts: what they have.
void check_counts(const network *n, const word_layout *layout, std::vector<uint32_t> words,
                  const std::vector<int32_t> &counts) {
    std::unique_ptr<net_plan> plan(new net_plan);
    int32_t count = (int32_t)words.size();
    REQUIRE(CHECK_EQUAL(count, counts[0]));
    const net_limits limits = detector_limits(n, count);
    REQUIRE_OK(net_plan_host<uint32_t>(n->layers, n->count, layout, &limits, plan.get()));
    REQUIRE(plan->sets >= (int)counts.size());
    device_status trouble = {};
    net_run_args<uint32_t> run = {};
    run.input = {words.data(), &count, count};
    run.trouble = &trouble;
    run.bytes = plan->workspace_bytes;
    run.memory = aligned_alloc(workspace_alignment, run.bytes); // mostly not touched
    REQUIRE_OK(net_sets_host(plan.get(), &run));
    CHECK_OK(device_status_read(&trouble));
    for (int s = 0; s < (int)counts.size(); ++s) {
        CHECK_EQUAL(*net_voxels(plan.get(), s, run.input, run.memory).count, counts[(size_t)s]);
    }
    free(run.memory);
}

} // namespace

// The counts that spconv 2.3.8 has.
TEST(net_detectors_voxel_counts_of_a_scan) {
    NEED_SCANS("nuscenes_10sweeps.pcd.bin");
    for (const char *name : {"VoxelBackBone8x", "SpMiddleResNetFHD"}) {
        network n;
        REQUIRE(networks::network_make(name, &n));
        const word_layout layout = detector_layout(&n);
        check_counts(&n, &layout, scan_words(&layout),
                     {detector_scan_counts, detector_scan_counts + 5});
    }
}

// The counts that bench_net requires: the points quantised in fp32, as a run on the GPU does it.
TEST(net_detectors_voxel_counts_of_points) {
    NEED_SCANS("nuscenes_10sweeps.pcd.bin");
    const scan::scan_options options = {};
    scan::scan_cloud cloud;
    scan::scan_reason why;
    REQUIRE_OK(scan::scan_read("data/nuscenes_10sweeps.pcd.bin", &options, &cloud, &why));
    for (const char *name : {"SpMiddleResNetFHD", "BEVFusion", "VoxelNeXt"}) {
        network n;
        REQUIRE(networks::network_make(name, &n));
        const word_layout layout = detector_layout(&n);
        int32_t rows = (int32_t)cloud.rows, count = 0;
        std::vector<int32_t> voxel((size_t)rows), order((size_t)rows), begin((size_t)rows + 1);
        std::vector<uint32_t> words((size_t)rows);
        voxel_input in = {};
        REQUIRE_OK(voxel_range(n.lo, n.hi, n.voxel, &in));
        in.points = cloud.points;
        in.columns = cloud.columns;
        in.rows = rows;
        in.count = &rows;
        device_status trouble = {};
        size_t bytes = 0;
        CHECK_OK(voxelize_host_workspace<uint32_t>(&in, &bytes));
        void *scratch = aligned_alloc(workspace_alignment, round_up(bytes, workspace_alignment));
        const voxelize_args<uint32_t> args = {&layout,
                                              &in,
                                              {words.data(), &count, rows},
                                              {voxel.data(), order.data(), begin.data()},
                                              &trouble};
        CHECK_OK(voxelize_host(&args, scratch, bytes));
        CHECK_OK(device_status_read(&trouble));
        free(scratch);
        words.resize((size_t)count);
        std::vector<int32_t> counts;
        for (int s = 0; bench_level_known(BENCH_NUSCENES, name, s); ++s) {
            counts.push_back(bench_level_known(BENCH_NUSCENES, name, s));
        }
        CHECK_EQUAL(counts.size(), (size_t)(strcmp(name, "VoxelNeXt") ? 5 : 3));
        check_counts(&n, &layout, words, counts);
    }
    scan::scan_free(&cloud);
}
