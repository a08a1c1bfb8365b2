// tests/host/net_detectors.cpp: the networks of examples/detectors.h: their layers, and the voxels
// that each of their levels has in a scan.
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
        {"MinkUNet42", {1, 0}, 1, 96},
    };
    for (const auto &e : expected) {
        network n;
        net_plan plan;
        REQUIRE(networks::network_make(e.net, &e.sizes, &n));
        REQUIRE_OK(detector_plan(&n, &plan));
        CHECK_EQUAL(n.input_channels, e.channels);
        CHECK_EQUAL(plan.step[0].shape.cin, e.channels);
        CHECK_EQUAL(plan.step[n.count - 1].channels, e.last);
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

// The counts that spconv 2.3.8 has.
TEST(net_detectors_voxel_counts_of_a_scan) {
    NEED_SCANS("nuscenes_10sweeps.pcd.bin");
    const int32_t *const expected = detector_scan_counts;
    for (const char *name : {"VoxelBackBone8x", "SpMiddleResNetFHD"}) {
        network n;
        std::unique_ptr<net_plan> plan(new net_plan);
        REQUIRE(networks::network_make(name, &n));
        const word_layout layout = detector_layout(&n);
        std::vector<uint32_t> words = scan_words(&layout);
        REQUIRE(CHECK_EQUAL((int32_t)words.size(), expected[0]));
        int32_t count = expected[0];
        const net_limits limits = detector_limits(&n, count);
        REQUIRE_OK(net_plan_host<uint32_t>(n.layers, n.count, &layout, &limits, plan.get()));
        REQUIRE(CHECK_EQUAL(plan->sets, 5));
        device_status trouble = {};
        net_run_args<uint32_t> run = {};
        run.input = {words.data(), &count, count};
        run.trouble = &trouble;
        run.bytes = plan->workspace_bytes;
        run.memory = aligned_alloc(workspace_alignment, run.bytes); // mostly not touched
        REQUIRE_OK(net_sets_host(plan.get(), &run));
        CHECK_OK(device_status_read(&trouble));
        for (int s = 0; s < plan->sets; ++s) {
            CHECK_EQUAL(*net_voxels(plan.get(), s, run.input, run.memory).count, expected[s]);
        }
        free(run.memory);
    }
}
