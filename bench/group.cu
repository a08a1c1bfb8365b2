// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/group.cu: depthwise and grouped submanifold layers (conv_group.cuh).
//
//     build/bench_group data/*.vox32
//
// `groups` are the cin of a row's `method` "depthwise"; "8 groups" has 8; "convs" has the groups of
// the row before it, each by `conv` over slices of rows (conv_slices.cuh). `pass` is "forward" or
// "weight". `bytes` are what the layer must move: features read once, the map, outputs or the other
// features once. fp16. Outputs are compared with the host loop in 2000 rows: to the bit, but for
// those of tensor cores, which "convs" are.
#include "bench.cuh"

struct group_work {
    spira::conv_group_args args;
    spira::conv_group_grad_args grad;
    void *scratch;
    size_t scratch_bytes;
};

struct group_layer {
    int channels, groups, K; // groups 0: depthwise
};

static const group_layer group_layers[] = {{64, 0, 3},  {96, 0, 3}, {192, 0, 3}, {384, 0, 3},
                                           {96, 0, 5},  {96, 0, 7}, {64, 8, 3},  {128, 8, 3},
                                           {128, 4, 3}, {128, 2, 3}};

enum { group_samples = 2000 };

static spira::status group_step(void *context, cudaStream_t stream) {
    return spira::conv_group<spira::numeric_f16>(&((const group_work *)context)->args, stream);
}

// The groups as convolutions over slices of rows.
struct group_convs {
    spira::conv_group_shape shape;
    spira::conv_map map;
    spira::conv_args args;
};

static spira::status group_convs_step(void *context, cudaStream_t stream) {
    const group_convs *w = (const group_convs *)context;
    return spira::conv_slices<spira::numeric_f16>(bench_gpu(), &w->shape, &w->args, stream);
}

// All but the map.
static group_convs group_convs_make(bench_session *s, const group_work *w) {
    group_convs c = {};
    c.shape = w->args.shape;
    size_t bytes = 0;
    BENCH_TRY(spira::conv_slices_bytes(bench_gpu(), &c.shape, &bytes));
    spira::conv_weights weights = {};
    weights.weight = w->args.weight;
    weights.packed = bench_device<char>(&s->pool, (int64_t)bytes);
    weights.packed_bytes = bytes;
    BENCH_TRY(
        spira::conv_slices_pack<spira::numeric_f16>(bench_gpu(), &c.shape, &weights, s->stream));
    c.args.in = w->args.in;
    c.args.weights = weights.packed;
    c.args.out = w->args.out;
    return c;
}

// The ordered layout of the map.
static spira::conv_map group_convs_map(bench_session *s, const bench_scene<uint64_t> *scene,
                                       const spira::kernel_shape &kernel) {
    spira::conv_map map;
    spira::conv_map_request<uint64_t> request = {};
    request.layout = &scene->layout;
    request.kernel = kernel;
    request.source = request.outputs = scene->fine.device;
    request.trouble = scene->trouble;
    size_t bytes = 0;
    BENCH_TRY(spira::conv_map_bytes(bench_gpu(), &request, &bytes));
    BENCH_TRY(spira::conv_map_build(bench_gpu(), &request,
                                    bench_device<char>(&s->pool, (int64_t)bytes), bytes, &map,
                                    s->stream));
    return map;
}

static spira::status group_grad_step(void *context, cudaStream_t stream) {
    const group_work *w = (const group_work *)context;
    return spira::conv_group_grad_weight<spira::numeric_f16>(&w->grad, w->scratch, w->scratch_bytes,
                                                             stream);
}

static uint16_t *group_features(bench_pool *pool, int64_t count) {
    uint16_t *values = bench_host<uint16_t>(pool, count);
    for (int64_t i = 0; i < count; ++i) {
        values[i] = spira::f16_from_float((float)(i * 7919 % 2001 - 1000) / 500);
    }
    return values;
}

// Whether a result is that of the host. Tensor cores add up in another order.
static bool group_equal(bool tensor, float wanted, uint16_t got) {
    const float off = fabsf(spira::f16_to_float(got) - wanted);
    return tensor ? off <= 0x1p-10f * fabsf(wanted) + 0x1p-11f
                  : spira::f16_from_float(wanted) == got;
}

// Compares rows of the outputs with the sums of the host, whose weights are those of the kernel.
static void group_check(bench_session *s, const group_work *w, const uint16_t *in,
                        const float *weight, const int32_t *map, const bench_row *row) {
    const spira::conv_group_shape &shape = w->args.shape;
    const bool tensor = spira::conv_group_tensor(shape) || strcmp(row->method, "convs") == 0;
    const int64_t cin = shape.cin, cout = shape.cout;
    const uint16_t *out =
        bench_download(&s->pool, (const uint16_t *)w->args.out, (int64_t)w->args.capacity * cout);
    float *floats = bench_host<float>(&s->pool, (int64_t)w->args.capacity * cin);
    for (int64_t i = 0; i < (int64_t)w->args.capacity * cin; ++i) {
        floats[i] = spira::f16_to_float(in[i]);
    }
    spira::conv_group_args host = w->args;
    host.in = floats;
    host.weight = weight;
    host.map = map;
    for (int i = 0; i < group_samples; ++i) {
        const int64_t o = bench_sample(w->args.capacity, group_samples, i);
        for (int c = 0; c < (int)cout; ++c) {
            const float sum = spira::conv_group_sum<float>(host, o, c);
            if (!group_equal(tensor, sum, out[o * cout + c])) {
                bench_fail("%s, %s: output %lld, channel %d", row->input, row->method, (long long)o,
                           c);
            }
        }
    }
}

static void group_run(bench_session *s, const bench_scene<uint64_t> *scene, const group_layer &l) {
    const spira::kernel_shape kernel = spira::kernel_cube(l.K, 1);
    const int64_t volume = spira::kernel_volume(&kernel), voxels = scene->fine.host.capacity;
    const int64_t features = voxels * l.channels;
    bench_pool *pool = &s->pool;
    int32_t *map = bench_device<int32_t>(pool, voxels * volume);
    BENCH_TRY(spira::map_build(&scene->layout, &kernel, scene->fine.device, scene->fine.device, map,
                               s->stream));
    int64_t pairs = 0;
    const int32_t *host_map =
        bench_map_host(pool, &scene->layout, &kernel, &scene->fine, &scene->fine, &pairs);
    const uint16_t *in = group_features(pool, features);
    group_work w = {};
    const int groups = l.groups ? l.groups : l.channels;
    w.args.shape = {(int)volume, groups, l.channels, l.channels, spira::numeric_f16};
    const int64_t weights = spira::conv_group_weights(w.args.shape);
    float *weight = bench_host<float>(pool, weights);
    for (int64_t i = 0; i < weights; ++i) {
        weight[i] = (float)(i * 6007 % 1999 - 999) / 4096; // exact in fp16
    }
    w.args.in = bench_upload(pool, in, features);
    w.args.weight = bench_upload(pool, weight, weights);
    w.args.map = map;
    w.args.count = scene->fine.device.count;
    w.args.capacity = (int32_t)voxels;
    w.args.out = bench_device<uint16_t>(pool, features);
    bench_row row = bench_row_make("group", scene);
    char method[20];
    snprintf(method, sizeof method, "%d groups", groups);
    row.K = l.K;
    row.cin = row.cout = l.channels;
    row.dtype = "fp16";
    row.method = l.groups ? method : "depthwise";
    row.pairs = pairs;
    row.flops = 2 * pairs * l.channels * (l.channels / groups);
    row.bytes = 2 * 2 * features + 4 * voxels * volume;
    row.pass = "forward";
    BENCH_TRY(group_step(&w, s->stream));
    group_check(s, &w, in, weight, host_map, &row);
    row.time = bench_measure(s->stream, group_step, &w);
    bench_print(s, &row);
    if (l.groups) {
        group_convs convs = group_convs_make(s, &w);
        convs.map = group_convs_map(s, scene, kernel);
        convs.args.map = &convs.map;
        BENCH_CUDA(cudaMemsetAsync(w.args.out, 0xff, (size_t)features * 2, s->stream));
        BENCH_TRY(group_convs_step(&convs, s->stream));
        row.method = "convs";
        group_check(s, &w, in, weight, host_map, &row);
        row.time = bench_measure(s->stream, group_convs_step, &convs);
        bench_print(s, &row);
    }
    row.method = l.groups ? method : "depthwise";

    w.grad = {w.args.shape,
              w.args.in,
              w.args.out,
              w.args.map,
              w.args.count,
              w.args.capacity,
              bench_device<float>(pool, weights)};
    BENCH_TRY(spira::conv_group_grad_workspace(&w.grad.shape, w.grad.capacity, &w.scratch_bytes));
    w.scratch = bench_device<char>(pool, (int64_t)w.scratch_bytes);
    row.pass = "weight";
    row.time = bench_measure(s->stream, group_grad_step, &w);
    bench_print(s, &row);
}

static void group_run_input(bench_session *s, const bench_input *input) {
    const bench_scene<uint64_t> scene = bench_scene_wide(&s->pool, input);
    for (const group_layer &l : group_layers) {
        const int keep = s->pool.blocks;
        if (bench_memory(8.0 * scene.fine.host.capacity * l.K * l.K * l.K)) {
            group_run(s, &scene, l);
        }
        bench_pool_free(&s->pool, keep);
    }
}

int main(int argc, char **argv) {
    return bench_main(argc, argv, group_run_input);
}
