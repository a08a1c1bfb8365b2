// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/dense.cu: the last steps of detectors: dense bird's-eye maps, unions and projections.
//
//     build/bench_dense
//
// Takes no scans. Bench "dense": random voxels of a 180 x 180 grid of depth 2 and stride 8, 128
// channels, fp16, to a map of 256 channels; `layout` is the order of the map. Bench "join": random
// voxels of strides 8, 16 and 32, as in VoxelNeXt; method "union", or "project" with z dropped at
// once; "sum": their features.
#include "bench.cuh"

enum { dense_stride = 8, dense_side = 180, dense_depth = 2, dense_wide = 128 };

typedef uint32_t dense_word;

// `voxels` random cells, about, of a grid; ascending.
static bench_sets<dense_word> dense_random(bench_pool *pool, const spira::word_layout *layout,
                                           spira::triple extent, int stride, int voxels) {
    const int64_t cells = (int64_t)extent.x * extent.y * extent.z;
    bench_sets<dense_word> set;
    set.host = bench_set_host<dense_word>(pool, (int32_t)cells);
    uint64_t random = 1;
    int32_t count = 0;
    for (int64_t c = 0; c < cells; ++c) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const spira::voxel v = {0, (int)(c / extent.z / extent.y) * stride,
                                (int)(c / extent.z % extent.y) * stride,
                                (int)(c % extent.z) * stride};
        if ((int64_t)(random >> 33) % cells < voxels) {
            set.host.words[count++] = spira::word_pack<dense_word>(layout, v);
        }
    }
    *set.host.count = set.host.capacity = count;
    set.device = {bench_upload(pool, set.host.words, count), bench_upload(pool, &count, 1), count};
    return set;
}

// Numbers of fp16 that are neither large nor NaN.
static uint16_t *dense_features(bench_pool *pool, int64_t count) {
    uint16_t *values = bench_host<uint16_t>(pool, count);
    for (int64_t i = 0; i < count; ++i) {
        values[i] = spira::f16_from_float((float)(i * 7919 % 2001 - 1000) / 500);
    }
    return values;
}

static spira::word_layout dense_layout() {
    spira::word_need need = {};
    spira::word_layout layout;
    need.hi = {dense_side * dense_stride, dense_side * dense_stride, 64};
    need.batches = 1;
    need.stride = {32, 32, 32};
    BENCH_TRY(spira::word_fit(&need, &layout));
    return layout;
}

// ---- dense --------------------------------------------------------------------------------------

struct dense_work {
    spira::word_layout layout;
    spira::dense_args<dense_word> args;
    size_t bytes;
};

static spira::status dense_step(void *context, cudaStream_t stream) {
    const dense_work *w = (const dense_work *)context;
    return spira::dense<dense_word, spira::numeric_f16, spira::numeric_f16>(bench_gpu(), &w->args,
                                                                            stream);
}

static void dense_run(bench_session *s, spira::dense_order order, int voxels) {
    dense_work w = {};
    w.layout = dense_layout();
    spira::dense_args<dense_word> &a = w.args;
    a.grid.extent = {dense_side, dense_side, dense_depth};
    bench_sets<dense_word> set =
        dense_random(&s->pool, &w.layout, a.grid.extent, dense_stride, voxels);
    const int64_t values = (int64_t)set.host.capacity * dense_wide;
    const uint16_t *features = dense_features(&s->pool, values);
    a.layout = &w.layout;
    a.set = set.host;
    a.stride = {dense_stride, dense_stride, dense_stride};
    a.batch = 1;
    a.channels = dense_wide;
    a.type = a.out_type = spira::numeric_f16;
    a.order = order;
    a.features = features;
    BENCH_TRY(spira::dense_bytes(&a.grid, a.batch, a.channels, a.out_type, &w.bytes));
    char *map = bench_host<char>(&s->pool, (int64_t)w.bytes);
    spira::device_status trouble = {};
    a.out = map;
    a.trouble = &trouble;
    BENCH_TRY(spira::dense_host(&a));

    a.set = set.device;
    a.features = bench_upload(&s->pool, features, values);
    a.out = bench_device<char>(&s->pool, (int64_t)w.bytes);
    a.trouble = bench_upload(&s->pool, &trouble, 1);
    bench_row row = {};
    row.bench = "dense";
    row.input = "grid180x180x2";
    row.voxels = set.host.capacity;
    row.cin = dense_wide;
    row.dtype = spira::numeric_name(a.type);
    row.word = 32;
    row.layout = order == spira::dense_channels_first ? "channels first" : "channels last";
    row.bytes = (int64_t)w.bytes + values * 2;
    row.method = "gather";
    BENCH_TRY(dense_step(&w, s->stream));
    bench_check_same(&s->pool, map, (const char *)a.out, (int64_t)w.bytes, row.input, "dense map");
    bench_check_trouble(&s->pool, a.trouble);
    row.time = bench_measure(s->stream, dense_step, &w);
    bench_print(s, &row);
    bench_pool_free(&s->pool, 0);
}

// ---- join ---------------------------------------------------------------------------------------

enum { join_levels = 3 };

struct join_work {
    spira::word_layout layout;
    spira::join_args<dense_word> args;
    spira::join_sum_args sums;
    void *scratch;
    size_t scratch_bytes;
};

static spira::status join_step(void *context, cudaStream_t stream) {
    const join_work *w = (const join_work *)context;
    return spira::join(&w->args, w->scratch, w->scratch_bytes, stream);
}

static spira::status join_sum_step(void *context, cudaStream_t stream) {
    return spira::join_sum<spira::numeric_f16>(bench_gpu(), &((const join_work *)context)->sums,
                                               stream);
}

// Takes memory on one side; returns the source rows.
static int32_t join_work_make(bench_pool *pool, const bench_sets<dense_word> *set,
                              const uint16_t *const *features, spira::join_axis axis,
                              bool on_device, join_work *w) {
    *w = {};
    w->layout = dense_layout();
    w->args.layout = &w->layout;
    w->args.sets = w->sums.sets = join_levels;
    w->args.axis = axis;
    int32_t total = 0;
    for (int l = 0; l < join_levels; ++l) {
        w->args.set[l] = on_device ? set[l].device : set[l].host;
        w->sums.in[l] = features[l];
        w->sums.capacity[l] = set[l].host.capacity;
        total += set[l].host.capacity;
    }
    const int64_t sums = (int64_t)total * dense_wide;
    w->args.out = {bench_array<dense_word>(pool, total, on_device),
                   bench_array<int32_t>(pool, 1, on_device), total};
    w->args.rows.begin = bench_array<int32_t>(pool, total + 1, on_device);
    w->args.rows.order = bench_array<int32_t>(pool, total, on_device);
    w->args.trouble = bench_array<spira::device_status>(pool, 1, on_device);
    w->sums.channels = dense_wide;
    w->sums.type = spira::numeric_f16;
    w->sums.rows = w->args.rows;
    w->sums.count = w->args.out.count;
    w->sums.out_capacity = total;
    w->sums.out = bench_array<uint16_t>(pool, sums, on_device);
    BENCH_TRY(on_device ? spira::join_workspace(&w->args, &w->scratch_bytes)
                        : spira::join_host_workspace(&w->args, &w->scratch_bytes));
    w->scratch = on_device ? bench_device<char>(pool, (int64_t)w->scratch_bytes)
                           : bench_host_workspace(pool, w->scratch_bytes);
    return total;
}

static void join_check(bench_session *s, const join_work *host, const join_work *w) {
    bench_pool *pool = &s->pool;
    const int32_t count = *host->args.out.count;
    bench_check_set(pool, host->args.out, w->args.out, "levels", "join");
    bench_check_same(pool, host->args.rows.begin, w->args.rows.begin, count + 1, "levels", "begin");
    bench_check_same(pool, host->args.rows.order, w->args.rows.order, host->args.rows.begin[count],
                     "levels", "order");
    bench_check_same(pool, (const uint16_t *)host->sums.out, (const uint16_t *)w->sums.out,
                     (int64_t)count * dense_wide, "levels", "sums");
    bench_check_trouble(pool, w->args.trouble);
}

static void join_run(bench_session *s, spira::join_axis axis) {
    const spira::word_layout layout = dense_layout();
    bench_sets<dense_word> set[join_levels];
    const uint16_t *in[join_levels], *device_in[join_levels];
    for (int l = 0; l < join_levels; ++l) {
        const int side = dense_side >> l;
        set[l] =
            dense_random(&s->pool, &layout, {side, side, 5 >> l}, dense_stride << l, 20000 >> l);
        const int64_t values = (int64_t)set[l].host.capacity * dense_wide;
        in[l] = dense_features(&s->pool, values);
        device_in[l] = bench_upload(&s->pool, in[l], values);
    }
    join_work host, w;
    const int32_t total = join_work_make(&s->pool, set, in, axis, false, &host);
    join_work_make(&s->pool, set, device_in, axis, true, &w);
    *host.args.trouble = {};
    BENCH_TRY(spira::join_host(&host.args, host.scratch, host.scratch_bytes));
    BENCH_TRY(spira::join_sum_host(&host.sums));
    BENCH_TRY(spira::device_status_clear(w.args.trouble, s->stream));
    BENCH_TRY(join_step(&w, s->stream));
    BENCH_TRY(join_sum_step(&w, s->stream));
    join_check(s, &host, &w);

    bench_row row = {};
    row.bench = "join";
    row.input = "levels8,16,32";
    row.voxels = total;
    row.outputs = *host.args.out.count;
    row.word = 32;
    row.method = axis == spira::join_axis_none ? "union" : "project";
    row.bytes = (int64_t)(total + row.outputs) * (int64_t)sizeof(dense_word);
    row.time = bench_measure(s->stream, join_step, &w);
    bench_print(s, &row);
    row.method = axis == spira::join_axis_none ? "sum of union" : "sum of project";
    row.cin = dense_wide;
    row.dtype = spira::numeric_name(w.sums.type);
    row.bytes = (int64_t)(total + row.outputs) * dense_wide * 2;
    row.time = bench_measure(s->stream, join_sum_step, &w);
    bench_print(s, &row);
    bench_pool_free(&s->pool, 0);
}

int main(int argc, char **argv) {
    bench_session *s = bench_session_open(argc, argv);
    for (int voxels : {4000, 17698, 50000}) {
        dense_run(s, spira::dense_channels_first, voxels);
        dense_run(s, spira::dense_channels_last, voxels);
    }
    join_run(s, spira::join_axis_none);
    join_run(s, spira::join_axis_z);
    return bench_session_close(s);
}
