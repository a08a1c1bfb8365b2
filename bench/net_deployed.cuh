// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/net_deployed.cuh: what the networks of examples/detectors.h start from.
//
// Detectors start from points: a row is x, y, z and the inputs of the network. A run drops the
// points out of range, voxelises the others and takes the mean of each voxel. SpUNet-v1m1 starts
// from integer coordinates, as the other networks do, with voxels of 5 cm.
#ifndef SPIRA_BENCH_NET_DEPLOYED_CUH
#define SPIRA_BENCH_NET_DEPLOYED_CUH

#include "net_work.cuh"

static const char *const net_deployed_names[] = {"VoxelBackBone8x", "SpMiddleResNetFHD",
                                                 "BEVFusion", "VoxelNeXt", "SpUNet-v1m1"};

enum { net_classes = 20 }; // of SpUNet-v1m1

static net_job net_deployed_job(const char *name) {
    net_job job = net_job_make("net", name, 0, 1);
    job.classes = strcmp(name, "SpUNet-v1m1") ? 0 : (int)net_classes;
    return job;
}

// Whether a network has a range of points.
SPIRA_API bool net_is_ranged(const networks::network *n) {
    return n->voxel[0] > 0;
}

// What a network with a range starts from, in host memory. Fill it by name.
struct net_start {
    spira::voxel_input in;
    const float *values; // [rows, columns]
    int columns;
};

// rows: *rows becomes their number, and must outlive the result.
static net_start net_start_make(bench_pool *pool, const bench_input *input,
                                const networks::network *n, int32_t *rows) {
    net_start start = {};
    const scan::scan_cloud *cloud = &input->raw;
    const int columns = 3 + n->input_channels;
    float *points = bench_host<float>(pool, cloud->rows * columns);
    for (int64_t i = 0; i < cloud->rows; ++i) {
        float *row = points + i * columns;
        scan::scan_row_place(cloud, i, 0, row);
        scan::scan_row_inputs(cloud, i, 0, false, n->input_channels, row + 3);
        if (n->exchange_xy) { // the inputs keep their order
            std::swap(row[0], row[1]);
        }
    }
    BENCH_TRY(spira::voxel_range(n->lo, n->hi, n->voxel, &start.in));
    start.in.points = points;
    start.in.columns = start.columns = columns;
    start.in.rows = *rows = (int32_t)cloud->rows;
    start.in.count = rows;
    start.values = points + 3;
    return start;
}

// The layout of a network over its whole extent.
static spira::word_layout net_fit(const networks::network *n) {
    spira::word_need need = {};
    spira::word_layout layout;
    need.batches = n->batch;
    BENCH_TRY(spira::net_need(n->layers, n->count, &n->grid, &need));
    BENCH_TRY(spira::word_fit(&need, &layout));
    return layout;
}

// Fails where a set of a known scan has another number of voxels.
template <typename W>
static void net_check_counts(const net_work<W> *w) {
    for (int i = 0; i < w->plan->sets; ++i) {
        const int32_t known = bench_level_known(w->scene.input, w->job->name, i);
        const int32_t found = *w->sets[i].count;
        if (known && found != known) {
            bench_fail("%s: set %d has %d voxels instead of %d", w->label, i, found, known);
        }
    }
}

#endif
