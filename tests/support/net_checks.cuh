// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/net_checks.cuh: runs a network on the GPU and compares all of it with the host, in
// plans that keep or share memory, on one stream and on two.
#ifndef SPIRA_TESTS_NET_CHECKS_CUH
#define SPIRA_TESTS_NET_CHECKS_CUH

#include "nets.cuh"

namespace nets {

// Nothing has been written to bytes [from, end) of the workspace but by maps that stood there
// before the features.
template <typename W>
bool spare_bytes_untouched(const device_net<W> *d, const result<W> &r, int64_t from, int64_t end) {
    const net_plan *p = d->plan.get();
    std::vector<std::pair<int64_t, int64_t>> maps; // of a stage: in the place of later features
    bool good = true;
    for (int m = 0; m < p->maps; ++m) {
        const net_map *map = &p->map[m];
        if (!map->kept && net_map_written(p, map)) {
            int64_t entries = (int64_t)r.words[map->outputs].size() * map->volume;
            maps.push_back({map->map, (int64_t)map->map + entries * (int64_t)sizeof(int32_t)});
        }
    }
    std::sort(maps.begin(), maps.end());
    for (const auto &map : maps) {
        good = device_untouched(d->memory, from, std::min(end, map.first)) && good;
        from = std::max(from, map.second);
    }
    return device_untouched(d->memory, from, end) && good;
}

// The rows behind the voxels are as they were: for the first run in a workspace.
template <typename W>
void check_spare_rows(const device_net<W> *d, const result<W> &r) {
    const net_plan *p = d->plan.get();
    for (int i = 0; i < p->layer_count; ++i) {
        const net_step *step = &p->step[i];
        if (step->fused_into != net_none || p->layers[i].op == net_dense) {
            continue;
        }
        int64_t at = (int64_t)step->features;
        int64_t row = (int64_t)step->channels * numeric_size(p->limits.type);
        CHECK(spare_bytes_untouched(d, r, at + (int64_t)r.words[step->set].size() * row,
                                    at + p->set[step->set].capacity * row));
    }
}

// The features by the second stream, behind what it has to do; the first layer waits for them.
template <typename W>
void check_late_features(device_net<W> *d, const result<W> &kept, const int *never) {
    net_side side = *side_get();
    CUDA_CHECK(cudaEventCreateWithFlags(&side.features, cudaEventDisableTiming));
    d->side = &side;
    CHECK_OK(device_net_voxelize(d, nullptr));
    const int64_t bytes = (int64_t)d->plan->limits.voxels * d->plan->limits.channels *
                          numeric_size(d->plan->limits.type);
    char *made = device_new<char>(bytes);
    CUDA_CHECK(cudaMemcpyAsync(made, d->features, (size_t)bytes, cudaMemcpyDeviceToDevice));
    CUDA_CHECK(cudaMemsetAsync(d->features, 0xff, (size_t)bytes));
    CHECK_OK(net_wait(side.stream, side.begun, nullptr));
    stream_occupy<<<1, 1, 0, side.stream>>>(never, 10000000ll);
    CUDA_CHECK(
        cudaMemcpyAsync(d->features, made, (size_t)bytes, cudaMemcpyDeviceToDevice, side.stream));
    CUDA_CHECK(cudaEventRecord(side.features, side.stream));
    const net_run_args<W> run = device_net_args(d);
    CHECK_OK(shared_net<W>().net_run(gpu(), d->plan.get(), &run, nullptr));
    CHECK_EQUAL(difference(result_fetch(d), kept, false), "");
    CUDA_CHECK(cudaEventDestroy(side.features));
}

// Such a plan on one stream, then on two, whichever of them is ahead: not a bit changes.
// Where pairs are counted, all maps pass through the place
// of the features; where not, compact ones do.
template <typename W>
void check_beside(const network *n, net_limits limits, const frame *f, const result<W> &wanted) {
    for (bool count_pairs : {true, false}) {
        limits.overlap = true;
        limits.count_pairs = count_pairs;
        device_net<W> d = device_net_make<W>(n, &limits);
        CHECK_EQUAL(difference(device_net_result(&d, f), wanted, false), "");
        const int *never = device_zeros<int>(1);
        d.side = side_get();
        for (long long cycles : {0ll, 10000000ll}) { // the second one is late
            device_net_forget(&d, 0xff);
            stream_occupy<<<1, 1, 0, d.side->stream>>>(never, cycles);
            CHECK_OK(device_net_run(&d, nullptr));
            CHECK_EQUAL(difference(result_fetch(&d), wanted, false), "");
        }
        check_late_features(&d, wanted, never);
    }
}

// Runs a frame through a network that keeps everything and judges it all; then through one that
// shares its memory, and on two streams, which must not change a bit.
template <typename W>
void check_network(const network *n, numeric type, int32_t voxels, int32_t capacity,
                   uint64_t seed) {
    net_limits limits = limits_make(n, type, capacity, true);
    device_net<W> d = device_net_make<W>(n, &limits);
    frame f = frame_make<W>(seed, &d.plan->layout, voxels, n->input_channels);
    result<W> kept = device_net_result(&d, &f);
    check_result(&d, &f, kept);
    check_spare_rows(&d, kept);

    limits = limits_make(n, type, capacity, false);
    device_net<W> shared = device_net_make<W>(n, &limits);
    CHECK(shared.plan->workspace_bytes <= d.plan->workspace_bytes);
    CHECK_EQUAL(difference(device_net_result(&shared, &f), kept, false), "");
    check_beside<W>(n, limits, &f, kept);
    CHECK(expect_no_cuda_error());
    guarded_finish();
}

// One graph, captured once for a capacity, over frames of all sizes up to it and beyond. Each frame
// gives what a run without a graph gives in a workspace without a past, and, where all layers are
// kept, what the host says. side: null, or the second stream of the graph alone.
template <typename W>
void check_replays(const network *n, numeric type, bool keep_all, const net_side *side) {
    const int32_t most = test_quick() ? 150 : 1100;
    net_limits limits = limits_make(n, type, most, keep_all);
    limits.overlap = side != nullptr;
    device_net<W> d = device_net_make<W>(n, &limits), fresh = device_net_make<W>(n, &limits);
    d.side = side;
    cudaGraphExec_t replay = device_net_capture(&d);
    REQUIRE(replay != nullptr);
    const int32_t voxels[] = {most / 2, 0,        1, most,     most + 1, most / 3,
                              2 * most, most - 1, 0, 2 * most, 1,        most / 2 + 1};
    const int frames = test_quick() ? 5 : 12;
    for (int i = 0; i < frames; ++i) {
        frame f = frame_make<W>(16 + (uint64_t)i, &d.plan->layout, voxels[i], n->input_channels);
        device_net_upload(&d, &f);
        graph_replay(replay);
        result<W> got = result_fetch(&d);
        CHECK_EQUAL(got.words[0].size(), (size_t)std::min(voxels[i], most));
        device_net_forget(&fresh, 0xff);
        CHECK_EQUAL(difference(got, device_net_result(&fresh, &f), true), "");
        if (keep_all) {
            check_result(&d, &f, got);
        } else {
            check_told(&d, voxels[i]);
        }
        graph_replay(replay); // again, on what it left
        CHECK_EQUAL(difference(result_fetch(&d), got, true), "");
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    guarded_finish();
}

} // namespace nets

#endif
