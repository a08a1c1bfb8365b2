// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/index_expand.cuh: the output sets of strided layers by spconv's rule (expand), for
// bench/index.cu.
//
// A scan of nuScenes (.pcd.bin) is put on the grid of CenterPoint's detectors, with its extent.
// Other scans are taken as they are: there is no extent, and the layout bounds the outputs.
#ifndef SPIRA_BENCH_INDEX_EXPAND_CUH
#define SPIRA_BENCH_INDEX_EXPAND_CUH

#include "bench.cuh"

struct expand_case {
    const char *name; // "method" of the row
    spira::triple size, ratio, padding;
};

static const expand_case expand_cases[] = {
    {"3x3x3, s2, p1", {3, 3, 3}, {2, 2, 2}, {1, 1, 1}},
    {"3x3x3, s1, p1", {3, 3, 3}, {1, 1, 1}, {1, 1, 1}},
    {"5x5x5, s2, p2", {5, 5, 5}, {2, 2, 2}, {2, 2, 2}},
    {"1x1x3, s1x1x2", {1, 1, 3}, {1, 1, 2}, {0, 0, 0}}, // spconv's (3, 1, 1): it writes z first
};

static spira::kernel_shape expand_kernel(const expand_case *c) {
    spira::kernel_shape kernel = spira::kernel_cube(1, 1);
    kernel.size = c->size;
    return kernel;
}

static spira::expand_rule expand_rule_of(const expand_case *c, spira::triple extent) {
    spira::expand_rule rule = {};
    rule.ratio = c->ratio;
    rule.padding = c->padding;
    rule.grid.extent = extent;
    return rule;
}

template <typename W>
struct expand_work {
    spira::expand_args<W> args;
    void *scratch;
    size_t scratch_bytes;
};

template <typename W>
static spira::status expand_step(void *context, cudaStream_t stream) {
    const expand_work<W> *w = (const expand_work<W> *)context;
    return spira::expand(bench_gpu(), &w->args, w->scratch, w->scratch_bytes, stream);
}

// The output set as the host makes it. Its capacity is its count. args: without output and status.
template <typename W>
static spira::voxel_set<W> expand_on_host(bench_pool *pool, spira::expand_args<W> args) {
    size_t bytes = 0;
    spira::device_status trouble = {};
    args.trouble = &trouble;
    BENCH_TRY(spira::expand_host_workspace(&args, &bytes));
    args.out = bench_set_host<W>(pool, (int32_t)(bytes / sizeof(W)));
    char *scratch = bench_host_workspace(pool, bytes);
    BENCH_TRY(spira::expand_host(&args, scratch, bytes));
    BENCH_TRY(spira::device_status_read(&trouble));
    args.out.capacity = *args.out.count;
    return args.out;
}

// The output set's capacity is its count, as that of a plan that was fitted to the scan. `bytes`:
// both sets, once.
template <typename W>
static void expand_run_case(bench_session *s, const bench_scene<W> *scene, const expand_case *c,
                            spira::triple extent) {
    int keep = s->pool.blocks;
    const spira::kernel_shape kernel = expand_kernel(c);
    const spira::expand_rule rule = expand_rule_of(c, extent);
    expand_work<W> w = {{&scene->layout, &kernel, &rule, scene->fine.host, {}, nullptr}, {}, 0};
    const spira::voxel_set<W> host = expand_on_host(&s->pool, w.args);
    w.args.in = scene->fine.device;
    w.args.out = bench_set_device<W>(&s->pool, host.capacity);
    w.args.trouble = scene->trouble;
    BENCH_TRY(spira::expand_workspace(&w.args, &w.scratch_bytes));
    w.scratch = bench_device<char>(&s->pool, (int64_t)w.scratch_bytes);
    BENCH_TRY(expand_step<W>(&w, s->stream));
    bench_check_set(&s->pool, host, w.args.out, scene->input, c->name);
    bench_check_trouble(&s->pool, scene->trouble);

    bench_row row = bench_row_make("expand", scene);
    row.outputs = host.capacity;
    row.word = 8 * (int)sizeof(W);
    row.method = c->name;
    row.bytes = ((int64_t)row.voxels + row.outputs) * (int64_t)sizeof(W);
    row.scratch_bytes = (int64_t)w.scratch_bytes;
    row.time = bench_measure(s->stream, expand_step<W>, &w);
    bench_print(s, &row);
    bench_pool_free(&s->pool, keep);
}

// A layout for the input's voxels and all outputs.
static spira::word_layout expand_fit(const bench_input *input, spira::triple extent) {
    spira::word_layout layout;
    spira::word_need need = {};
    int32_t lo[3], hi[3];
    BENCH_TRY(scan::scan_bounds_voxels(&input->cloud, lo, hi));
    need.lo = {lo[0], lo[1], lo[2]};
    need.hi = {hi[0], hi[1], hi[2]};
    need.batches = 1;
    need.stride = {2, 2, 2};
    for (const expand_case &c : expand_cases) {
        const spira::kernel_shape kernel = expand_kernel(&c);
        const spira::expand_rule rule = expand_rule_of(&c, extent);
        BENCH_TRY(spira::expand_need(&kernel, &rule, &need));
    }
    BENCH_TRY(spira::word_fit(&need, &layout));
    return layout;
}

template <typename W>
static void expand_run_words(bench_session *s, const bench_input *input, spira::triple extent) {
    spira::word_layout layout = expand_fit(input, extent);
    if (layout.bits > 8 * (int)sizeof(W)) {
        fprintf(stderr, "%s needs %d bits: no 32-bit words\n", input->name,
                spira::word_bits(&layout));
        return;
    }
    layout = sizeof(W) == 8 ? spira::word_widen(layout) : layout;
    int keep = s->pool.blocks;
    bench_scene<W> scene = bench_scene_make<W>(&s->pool, input, &layout);
    for (const expand_case &c : expand_cases) {
        expand_run_case(s, &scene, &c, extent);
    }
    bench_pool_free(&s->pool, keep);
}

// ---- the grid of a detector ---------------------------------------------------------------------

// The scan at `path` between (-54, -54, -5) and (54, 54, 3), in voxels of 0.075 x 0.075 x 0.2 m.
// The divisions are in double, as an engine does them that counts 105,127 voxels in the scan of
// ten sweeps.
static bench_input expand_input_grid(const char *path, spira::triple extent) {
    const double lo[3] = {-54, -54, -5}, size[3] = {0.075, 0.075, 0.2};
    const int most[3] = {extent.x, extent.y, extent.z - 1}; // the extent has a spare layer in z
    bench_input input = {};
    bench_scan_read(path, 0, &input.cloud);
    bench_stem(path, input.name, sizeof input.name - 8);
    if (char *dot = strchr(input.name, '.')) {
        *dot = 0;
    }
    strcat(input.name, "_75mm");
    scan::scan_cloud *cloud = &input.cloud;
    cloud->voxels = (int32_t *)malloc((size_t)cloud->rows * 3 * sizeof(int32_t));
    if (!cloud->points || !cloud->voxels) {
        bench_fail("%s: no points, or no memory", path);
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < cloud->rows; ++i) {
        bool inside = true;
        for (int a = 0; a < 3; ++a) {
            const double at =
                floor(((double)cloud->points[i * cloud->columns + a] - lo[a]) / size[a]);
            inside = inside && at >= 0 && at < most[a];
            cloud->voxels[kept * 3 + a] = inside ? (int32_t)at : 0;
        }
        kept += inside;
    }
    cloud->rows = kept;
    return input;
}

// path: null: a scene without a file.
static void expand_run(bench_session *s, const bench_input *input, const char *path) {
    const spira::triple detector = {1440, 1440, 41}, none = {0, 0, 0};
    if (!path || !scan::scan_has_suffix(path, ".pcd.bin")) {
        expand_run_words<uint32_t>(s, input, none);
        expand_run_words<uint64_t>(s, input, none);
        return;
    }
    bench_input grid = expand_input_grid(path, detector);
    expand_run_words<uint32_t>(s, &grid, detector);
    expand_run_words<uint64_t>(s, &grid, detector);
    scan::scan_free(&grid.cloud);
}

#endif
