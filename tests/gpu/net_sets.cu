// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/net_sets.cu: networks whose coordinate sets follow rules of their own (net/sets.h), on
// the GPU: dilating sets, joins and dense maps, each layer against the host; one graph for frames
// of all sizes; a second stream.
#include "../support/detector_scan.h"
#include "../support/net_checks.cuh"

using namespace nets;

namespace {

const char *const names[] = {"encoder", "flat", "mixed", "grown", "divided", "bounded"};

template <typename W>
void check_sets(const char *name, numeric format, int32_t voxels, uint64_t seed) {
    network n;
    network_named(name, &n);
    check_network<W>(&n, format, voxels, voxels + 200, seed);
}

} // namespace

DEVICE_TEST(gpu_net_sets_f16) {
    for (const char *name : names) {
        for (int32_t voxels : {0, 1, 33, test_quick() ? 200 : 3000}) {
            check_sets<uint32_t>(name, numeric_f16, voxels, 1 + (uint64_t)voxels);
        }
    }
}

DEVICE_TEST(gpu_net_sets_f32) {
    for (const char *name : names) {
        check_sets<uint64_t>(name, numeric_f32, test_quick() ? 200 : 2000, 2);
    }
}

// Dense maps of both orders, in the type of the features and in fp32; kept in the middle of a
// network.
DEVICE_TEST(gpu_net_sets_dense_types) {
    for (int i = 0; i < 4; ++i) {
        network n;
        network_named("encoder", &n);
        const int layer = n.count - 1;
        n.layers[layer].order = i % 2 ? dense_channels_last : dense_channels_first;
        n.layers[layer].keep = true;
        networks::network_conv(&n, "behind", layer - 1, 8, 3, 1);
        net_limits limits = limits_make(&n, numeric_f16, 900, true);
        n.layers[layer].format = i / 2 ? net_format_f32 : net_format_same;
        device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
        const net_run_args<uint32_t> run = device_net_args(&d);
        const net_result<uint32_t> r = net_output(d.plan.get(), layer, &run);
        CHECK_EQUAL(r.type, i / 2 ? numeric_f32 : numeric_f16);
        CHECK(r.features && r.batch == 2 && r.height == 8 && r.width == 12 && r.channels == 7 * 3);
        frame f = frame_make<uint32_t>(3, &d.plan->layout, 700, n.input_channels);
        check_result(&d, &f, device_net_result(&d, &f));
    }
}

// A set that outgrows its capacity is cut off and recorded, and the next frame is not affected.
DEVICE_TEST(gpu_net_sets_capacity_passed) {
    for (const char *name : names) {
        network n;
        network_named(name, &n);
        net_limits limits = limits_make(&n, numeric_f16, 900, true);
        reference_net_capacities(&n, &limits, 150);
        device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
        for (int32_t voxels : {800, 10, 900, 0}) {
            frame f = frame_make<uint32_t>(7, &d.plan->layout, voxels, n.input_channels);
            check_result(&d, &f, device_net_result(&d, &f));
        }
    }
}

// The same of each set alone: all others have room for what they hold, this one for one voxel less.
DEVICE_TEST(gpu_net_sets_grown_capacities_passed) {
    for (const char *name : {"grown", "divided"}) {
        network n;
        network_named(name, &n);
        net_limits limits = limits_make(&n, numeric_f32, 500, true);
        device_net<uint32_t> whole = device_net_make<uint32_t>(&n, &limits);
        frame f = frame_make<uint32_t>(7, &whole.plan->layout, 400, n.input_channels);
        const result<uint32_t> sizes = device_net_result(&whole, &f);
        for (int s = 1; s < whole.plan->sets; ++s) {
            int32_t capacity[net_sets_max];
            for (int o = 0; o < whole.plan->sets; ++o) {
                capacity[o] = std::max((int32_t)sizes.words[o].size(), 1);
            }
            capacity[s] -= sizes.words[s].size() > 1;
            reference_net_capacities(&n, &limits, capacity);
            device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
            const result<uint32_t> r = device_net_result(&d, &f);
            check_result(&d, &f, r);
            check_spare_rows(&d, r);
            guarded_finish();
        }
    }
}

// The input alone says which children there are: none, or all eight of each.
DEVICE_TEST(gpu_net_sets_children_none_and_all) {
    network n;
    network_named("divided", &n);
    net_limits limits = limits_make(&n, numeric_f16, 400, true);
    device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
    for (float value : {-1.0f, 3.0f, 0.0f, 2.0f}) {
        frame f = frame_make<uint32_t>(9, &d.plan->layout, 300, n.input_channels);
        std::fill(f.values.begin(), f.values.end(), value);
        const result<uint32_t> r = device_net_result(&d, &f);
        CHECK_EQUAL(r.words[2].size(), value > 0 ? 8 * r.words[1].size() : 0);
        CHECK_EQUAL(r.words[3].size(), value > 2 ? r.words[2].size() : 0);
        check_result(&d, &f, r);
    }
}

// Voxels without a number do not exist, and are recorded: by a threshold, and by their order.
DEVICE_TEST(gpu_net_sets_scores_that_are_no_numbers) {
    for (int32_t most : {0, 20}) {
        network n;
        network_named("divided", &n);
        const int last =
            networks::network_add(&n, "kept", net_layer_prune("", net_input, net_input));
        n.layers[last].channel = 3;
        n.layers[last].most = most;
        net_limits limits = limits_make(&n, numeric_f16, 400, true);
        device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
        frame f = frame_make<uint32_t>(10, &d.plan->layout, 300, n.input_channels);
        for (size_t i = 3; i < f.values.size(); i += 24) {
            f.values[i] = NAN;
        }
        const result<uint32_t> r = device_net_result(&d, &f);
        CHECK_EQUAL(r.trouble.flags, (uint32_t)device_flag_not_finite);
        const reference_net_run<uint32_t> judged = result_judged(&d, &r);
        for (int s = 0; s < d.plan->sets; ++s) {
            CHECK(r.words[s] == judged.sets.set[s]);
        }
        CHECK(!r.words[2].empty() && !r.words[4].empty());
    }
}

// Sets, joins and dense maps replay on frames of any size, with nothing left of the one before.
DEVICE_TEST(gpu_net_sets_graph_replays) {
    for (const char *name : names) {
        network n;
        network_named(name, &n);
        check_replays<uint32_t>(&n, numeric_f16, true, side_get());
    }
}

// The last layer can write to a tensor of the caller's. Its place in the workspace then has only
// what the index leaves there.
DEVICE_TEST(gpu_net_sets_output_in_place) {
    for (const char *name : names) {
        network n;
        network_named(name, &n);
        net_limits limits = limits_make(&n, numeric_f16, 900, true);
        device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
        frame f = frame_make<uint32_t>(5, &d.plan->layout, 800, n.input_channels);
        const result<uint32_t> wanted = device_net_result(&d, &f);
        const int last = n.count - 1;
        net_run_args<uint32_t> run = device_net_args(&d);
        const net_result<uint32_t> kept = net_output(d.plan.get(), last, &run);
        const std::vector<char> &rows = wanted.features[1 + last];
        run.out = device_new<char>((int64_t)d.plan->step[last].feature_bytes);
        CUDA_CHECK(cudaMemset(kept.features, guarded_poison, rows.size()));
        CHECK_OK(shared_net<uint32_t>().net_run(gpu(), d.plan.get(), &run, nullptr));
        CHECK(net_output(d.plan.get(), last, &run).features == run.out);
        CHECK(fetch<char>(run.out, (int64_t)rows.size()) == rows);
        const int64_t at = (int64_t)d.plan->step[last].features;
        CHECK(spare_bytes_untouched(&d, wanted, at, at + (int64_t)rows.size()));
    }
}

// A whole detector on a scan: the voxels that spconv has, and each layer against the host.
DEVICE_TEST(gpu_net_sets_detector_on_a_scan) {
    NEED_SCANS("nuscenes_10sweeps.pcd.bin");
    if (test_quick()) {
        SKIP("a scan is too large for a sanitizer");
    }
    network n;
    network_named("VoxelBackBone8x", &n);
    net_limits limits = limits_make(&n, numeric_f16, detector_scan_counts[0], true);
    device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
    frame f;
    f.coords = detector_scan_rows();
    f.rows = (int32_t)(f.coords.size() / 3);
    f.batch.resize((size_t)f.rows);
    f.values.resize((size_t)f.rows * (size_t)n.input_channels);
    random_state r = random_make(8);
    reference_random_values(&r, numeric_f32, 1, (int64_t)f.values.size(), f.values.data());
    REQUIRE(CHECK(f.rows <= d.in.rows));
    const result<uint32_t> kept = device_net_result(&d, &f);
    REQUIRE(CHECK_EQUAL(d.plan->sets, 5));
    for (int s = 0; s < d.plan->sets; ++s) {
        CHECK_EQUAL((int32_t)kept.words[s].size(), detector_scan_counts[s]);
    }
    check_result(&d, &f, kept);
}
