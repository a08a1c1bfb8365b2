// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/generate.cu: sets that are made from features: growing a scan back from stride 16.
//
//     build/bench_generate data/*.vox32
//
// Bench "subdivide": the set at half the stride, from masks that say which children the scan has;
// `voxels` are the parents, `outputs` the children. Method "16 to 1": four steps, one after the
// other. Each set must be the one that `downsample` makes of the scan. Bench "prune": every other
// voxel of the scan, by the sign of one of 8 channels of features, fp16; method "gather": their
// features, 64 channels; "norm": LayerNorm and SiLU of those, for all voxels; "largest": the mask
// of the best half by a channel; "hilbert": the order along Hilbert's curve, with codes and ranks;
// "gather_grad": the gradient of "gather"; "norm_grad": all three gradients of LayerNorm;
// "gate": those features times SiLU of others; "gate_grad": both gradients, by SiLU and, "gelu", by
// exact GELU; "norm_groups": GroupNorm of 32 groups; "norm_groups_grad": its input gradient. A
// point in each voxel: "points": its eight neighbours and their weights; "blend": its features;
// "lists" and "splat": from points back to voxels.
#include "bench.cuh"

enum { generate_steps = 4, generate_channels = 8, generate_features = 64 };

typedef uint32_t generate_word;

struct generate_work {
    bench_sets<generate_word> level[generate_steps + 1]; // of strides 16, 8, 4, 2, 1
    spira::subdivide_args<generate_word> step[generate_steps];
    int begin, end; // the steps to run
    spira::prune_args<generate_word> prune;
    spira::row_gather_args gather;
    spira::row_gather_grad_args gather_grad;
    spira::norm_args norm;
    spira::norm_grad_args norm_grad;
    spira::gate_args gate;
    spira::gate_grad_args gate_grad, gate_grad_gelu;
    spira::norm_groups_args<generate_word> norm_groups;
    spira::norm_groups_grad_args<generate_word> norm_groups_grad;
    spira::interpolate_args<generate_word> points;
    spira::row_blend_args blend;
    spira::row_lists_args lists;
    spira::row_splat_args splat;
    spira::choose_largest_args<generate_word> largest;
    spira::curve_args<generate_word> curve;
    char *scratch; // one at a time
    size_t scratch_bytes;
};

static spira::status generate_step(void *context, cudaStream_t stream) {
    const generate_work *w = (const generate_work *)context;
    for (int i = w->begin; i < w->end; ++i) {
        SPIRA_TRY((spira::subdivide<generate_word, spira::numeric_f16>(&w->step[i], w->scratch,
                                                                       w->scratch_bytes, stream)));
    }
    return spira::status_success();
}

static spira::status generate_prune(void *context, cudaStream_t stream) {
    const generate_work *w = (const generate_work *)context;
    return spira::prune<generate_word, spira::numeric_f16>(&w->prune, w->scratch, w->scratch_bytes,
                                                           stream);
}

static spira::status generate_gather(void *context, cudaStream_t stream) {
    const generate_work *w = (const generate_work *)context;
    return spira::row_gather<spira::numeric_f16>(&w->gather, stream);
}

static spira::status generate_norm(void *context, cudaStream_t stream) {
    return spira::norm<spira::numeric_f16>(&((const generate_work *)context)->norm, stream);
}

static spira::status generate_largest(void *context, cudaStream_t stream) {
    const generate_work *w = (const generate_work *)context;
    return spira::choose_largest<generate_word, spira::numeric_f16>(&w->largest, w->scratch,
                                                                    w->scratch_bytes, stream);
}

static spira::status generate_curve(void *context, cudaStream_t stream) {
    const generate_work *w = (const generate_work *)context;
    return spira::curve_order(&w->curve, w->scratch, w->scratch_bytes, stream);
}

static spira::status generate_gather_grad(void *context, cudaStream_t stream) {
    const generate_work *w = (const generate_work *)context;
    return spira::row_gather_grad<spira::numeric_f16>(&w->gather_grad, stream);
}

static spira::status generate_norm_grad(void *context, cudaStream_t stream) {
    const generate_work *w = (const generate_work *)context;
    return spira::norm_grad<spira::numeric_f16>(&w->norm_grad, w->scratch, w->scratch_bytes,
                                                stream);
}

static spira::status generate_gate(void *context, cudaStream_t stream) {
    return spira::gate<spira::numeric_f16>(&((const generate_work *)context)->gate, stream);
}

static spira::status generate_gate_grad(void *context, cudaStream_t stream) {
    const generate_work *w = (const generate_work *)context;
    return spira::gate_grad<spira::numeric_f16>(&w->gate_grad, stream);
}

static spira::status generate_gate_grad_gelu(void *context, cudaStream_t stream) {
    const generate_work *w = (const generate_work *)context;
    return spira::gate_grad<spira::numeric_f16>(&w->gate_grad_gelu, stream);
}

static spira::status generate_norm_groups(void *context, cudaStream_t stream) {
    const generate_work *w = (const generate_work *)context;
    return spira::norm_groups<generate_word, spira::numeric_f16>(&w->norm_groups, w->scratch,
                                                                 w->scratch_bytes, stream);
}

static spira::status generate_norm_groups_grad(void *context, cudaStream_t stream) {
    const generate_work *w = (const generate_work *)context;
    return spira::norm_groups_grad<generate_word, spira::numeric_f16>(
        &w->norm_groups_grad, w->scratch, w->scratch_bytes, stream);
}

static spira::status generate_points(void *context, cudaStream_t stream) {
    return spira::interpolate_find(&((const generate_work *)context)->points, stream);
}

static spira::status generate_blend(void *context, cudaStream_t stream) {
    return spira::row_blend<spira::numeric_f16>(&((const generate_work *)context)->blend, stream);
}

static spira::status generate_lists(void *context, cudaStream_t stream) {
    const generate_work *w = (const generate_work *)context;
    return spira::row_lists(&w->lists, w->scratch, w->scratch_bytes, stream);
}

static spira::status generate_splat(void *context, cudaStream_t stream) {
    return spira::row_splat<spira::numeric_f16>(&((const generate_work *)context)->splat, stream);
}

// The children that the finer set has, a bit each.
static uint8_t *generate_mask(bench_pool *pool, const spira::word_layout *layout,
                              spira::voxel_set<generate_word> coarse,
                              spira::voxel_set<generate_word> fine, spira::triple half) {
    uint8_t *mask = bench_host<uint8_t>(pool, coarse.capacity);
    for (int32_t i = 0; i < coarse.capacity; ++i) {
        mask[i] = 0;
        for (int s = 0; s < spira::subdivide_children; ++s) {
            const generate_word child =
                coarse.words[i] + spira::subdivide_delta<generate_word>(layout, half, s);
            const bool there = std::binary_search(fine.words, fine.words + fine.capacity, child);
            mask[i] = (uint8_t)(mask[i] | there << s);
        }
    }
    return mask;
}

// Room for any of the steps.
static void generate_scratch(generate_work *w, bench_pool *pool) {
    size_t bytes;
    const auto room = [&](spira::status counted) {
        BENCH_TRY(counted);
        w->scratch_bytes = spira::max_of(w->scratch_bytes, bytes);
    };
    room(spira::prune_workspace(&w->prune, &bytes));
    room(spira::choose_largest_workspace(&w->largest, &bytes));
    room(spira::curve_order_workspace(&w->curve, &bytes));
    room(spira::norm_grad_workspace(&w->norm_grad, &bytes));
    room(spira::norm_groups_grad_workspace(&w->norm_groups_grad, &bytes)); // more than of forward
    room(spira::row_lists_workspace(&w->lists, &bytes));
    for (const auto &step : w->step) {
        room(spira::subdivide_workspace(&step, &bytes));
    }
    w->scratch = bench_device<char>(pool, (int64_t)w->scratch_bytes);
}

// Features gated by others; every array is one of its own, as in training.
static void generate_gate_make(bench_pool *pool, generate_work *w, int64_t values) {
    spira::gate_args &a = w->gate;
    a.in = w->norm.in;
    a.gate = bench_upload(pool, bench_download(pool, (const uint16_t *)a.in, values), values);
    a.channels = generate_features;
    a.type = spira::numeric_f16;
    a.act = spira::activation_silu;
    a.count = w->norm.count;
    a.capacity = w->norm.capacity;
    a.out = w->norm.out;
    w->gate_grad.gate = a;
    w->gate_grad.gate.out = nullptr;
    w->gate_grad.out_grad = a.out;
    w->gate_grad.in_grad = bench_device<uint16_t>(pool, values);
    w->gate_grad.gate_grad = bench_device<uint16_t>(pool, values);
    w->gate_grad_gelu = w->gate_grad;
    w->gate_grad_gelu.gate.act = spira::activation_gelu;
}

// A point in each voxel, and what goes between both.
static void generate_points_make(bench_pool *pool, const bench_scene<generate_word> *scene,
                                 generate_work *w) {
    const int32_t voxels = scene->fine.host.capacity;
    const int64_t values = (int64_t)voxels * generate_features, entries = (int64_t)voxels * 8;
    float *at = bench_host<float>(pool, (int64_t)voxels * 3);
    int32_t *batch = bench_host<int32_t>(pool, voxels);
    for (int32_t i = 0; i < voxels; ++i) {
        const spira::voxel v =
            spira::word_unpack<generate_word>(&scene->layout, scene->fine.host.words[i]);
        const uint32_t part = (uint32_t)i * 2654435761u;
        at[3 * i] = (float)v.x + (float)(part >> 24) / 256;
        at[3 * i + 1] = (float)v.y + (float)(part >> 16 & 255) / 256;
        at[3 * i + 2] = (float)v.z + (float)(part >> 8 & 255) / 256;
        batch[i] = v.batch;
    }
    spira::interpolate_args<generate_word> &a = w->points;
    a.layout = &scene->layout;
    a.set = w->prune.in;
    a.stride = {1, 1, 1};
    a.kind = spira::interpolate_renormalise;
    a.points = bench_upload(pool, at, (int64_t)voxels * 3);
    a.batch = bench_upload(pool, batch, voxels);
    a.count = w->prune.in.count;
    a.rows = voxels;
    a.columns = 3;
    a.size[0] = a.size[1] = a.size[2] = 1;
    a.index = bench_device<int32_t>(pool, entries);
    a.weight = bench_device<float>(pool, entries);
    a.trouble = scene->trouble;
    w->blend = {w->gather.in, voxels, generate_features, spira::numeric_f16, 8, a.index, a.weight,
                a.count,      voxels, w->gather.out};
    w->lists = {a.index,
                8,
                a.count,
                voxels,
                voxels,
                bench_device<int32_t>(pool, voxels + 1),
                bench_device<int32_t>(pool, entries)};
    w->splat = {w->gather.in,
                generate_features,
                spira::numeric_f16,
                8,
                a.weight,
                w->lists.begin,
                w->lists.order,
                voxels,
                bench_device<uint16_t>(pool, values)};
}

static void generate_work_make(bench_pool *pool, const bench_scene<generate_word> *scene,
                               generate_work *w) {
    for (int i = 0; i <= generate_steps; ++i) {
        w->level[i] = i < generate_steps ? bench_coarse(pool, scene, 1 << (generate_steps - i))
                                         : bench_sets<generate_word>{scene->set, scene->fine.host};
    }
    for (int i = 0; i < generate_steps; ++i) {
        const spira::voxel_set<generate_word> coarse = w->level[i].host,
                                              fine = w->level[i + 1].host;
        spira::subdivide_args<generate_word> &a = w->step[i];
        const int stride = 1 << (generate_steps - i);
        a.layout = &scene->layout;
        a.in = i ? w->step[i - 1].out : w->level[i].device;
        a.stride = {stride, stride, stride};
        const uint8_t *mask =
            generate_mask(pool, a.layout, coarse, fine, spira::subdivide_half(a.stride));
        a.choice.mask = bench_upload(pool, mask, coarse.capacity);
        a.out = bench_set_device<generate_word>(pool, fine.capacity);
        a.source = bench_device<int32_t>(pool, fine.capacity);
        a.trouble = scene->trouble;
    }
    const int32_t voxels = scene->fine.host.capacity;
    const int64_t values = (int64_t)voxels * generate_features;
    uint16_t *features = bench_host<uint16_t>(pool, values);
    for (int64_t i = 0; i < values; ++i) {
        features[i] = spira::f16_from_float((i * 2654435761 >> 16 & 1) ? 1.0f : -1.0f);
    }
    w->prune.in = {scene->set.words, scene->set.count, voxels};
    w->prune.choice.scores = bench_upload(pool, features, values);
    w->prune.choice.type = spira::numeric_f16;
    w->prune.choice.channels = generate_channels;
    w->prune.out = bench_set_device<generate_word>(pool, voxels);
    w->prune.source = bench_device<int32_t>(pool, voxels);
    w->prune.trouble = scene->trouble;
    w->gather = {w->prune.choice.scores,
                 voxels,
                 generate_features,
                 1,
                 spira::numeric_f16,
                 w->prune.source,
                 w->prune.out.count,
                 voxels,
                 bench_device<uint16_t>(pool, values)};
    w->norm.in = w->prune.choice.scores;
    w->norm.channels = generate_features;
    w->norm.type = spira::numeric_f16;
    w->norm.epsilon = 1e-6f;
    w->norm.act = spira::activation_silu;
    w->norm.count = w->prune.in.count;
    w->norm.capacity = voxels;
    w->norm.out = bench_device<uint16_t>(pool, values);
    w->largest.set = w->curve.set = w->prune.in;
    w->largest.layout = w->curve.layout = &scene->layout;
    w->largest.scores = w->prune.choice.scores;
    w->largest.type = spira::numeric_f16;
    w->largest.channels = generate_features;
    w->largest.most = voxels / 2;
    w->largest.mask = bench_device<uint8_t>(pool, voxels);
    w->curve.stride = {1, 1, 1};
    w->curve.origin = scene->layout.lo;
    w->curve.depth = spira::curve_depth({scene->layout.hi.x - scene->layout.lo.x,
                                         scene->layout.hi.y - scene->layout.lo.y,
                                         scene->layout.hi.z - scene->layout.lo.z});
    w->curve.kind = spira::curve_hilbert;
    w->curve.code = bench_device<uint64_t>(pool, voxels);
    w->curve.order = bench_device<int32_t>(pool, voxels);
    w->curve.rank = bench_device<int32_t>(pool, voxels);
    w->largest.trouble = w->curve.trouble = scene->trouble;
    w->gather_grad = {w->gather.in,       voxels,          generate_features,  1,
                      spira::numeric_f16, w->prune.source, w->prune.out.count, voxels,
                      w->norm.out};
    spira::norm_args rows = w->norm; // plain, as gradients take it
    rows.act = spira::activation_none;
    rows.out = nullptr;
    w->norm_grad.norm = rows;
    rows.count = nullptr;
    rows.capacity = 0;
    w->norm_groups = {&scene->layout, w->prune.in, 32, rows};
    w->norm_groups_grad.norm = w->norm_groups;
    w->norm_groups.rows.out = w->norm.out;
    w->norm_grad.out_grad = w->norm_groups_grad.out_grad = w->norm.out;
    w->norm_grad.in_grad = w->norm_groups_grad.in_grad = w->norm.out;
    w->norm_grad.gain_grad = bench_device<float>(pool, generate_features);
    w->norm_grad.shift_grad = bench_device<float>(pool, generate_features);
    generate_gate_make(pool, w, values);
    generate_points_make(pool, scene, w);
    generate_scratch(w, pool);
}

// The rows around points and their lists, as the host's loops have them.
static void generate_check_points(bench_session *s, const bench_scene<generate_word> *scene,
                                  generate_work *w, const char *input) {
    bench_pool *pool = &s->pool;
    const int32_t voxels = scene->fine.host.capacity;
    const int64_t entries = (int64_t)voxels * 8;
    const int keep = pool->blocks;
    spira::device_status trouble = {};
    spira::interpolate_args<generate_word> a = w->points;
    spira::row_lists_args b = w->lists;
    a.set = scene->fine.host;
    a.points = bench_download(pool, a.points, (int64_t)voxels * 3);
    a.batch = bench_download(pool, a.batch, voxels);
    a.count = b.count = a.set.count;
    a.index = bench_host<int32_t>(pool, entries);
    a.weight = bench_host<float>(pool, entries);
    a.trouble = &trouble;
    b.index = a.index;
    b.begin = bench_host<int32_t>(pool, voxels + 1);
    b.order = bench_host<int32_t>(pool, entries);
    BENCH_TRY(spira::interpolate_find_host(&a));
    BENCH_TRY(spira::row_lists_host(&b));
    BENCH_TRY(generate_points(w, s->stream));
    BENCH_TRY(generate_lists(w, s->stream));
    bench_check_same(pool, a.index, w->points.index, entries, input, "rows around points");
    bench_check_same(pool, b.begin, w->lists.begin, voxels + 1, input, "lists");
    bench_check_same(pool, b.order, w->lists.order, b.begin[voxels], input, "entries of lists");
    bench_pool_free(pool, keep);
}

// What the mask and the order are, as the host's loops have them.
static void generate_check(bench_session *s, const bench_scene<generate_word> *scene,
                           generate_work *w, const char *input) {
    bench_pool *pool = &s->pool;
    const int32_t voxels = scene->fine.host.capacity;
    const int keep = pool->blocks;
    spira::device_status trouble = {};
    size_t bytes;
    spira::choose_largest_args<generate_word> a = w->largest;
    spira::curve_args<generate_word> b = w->curve;
    a.set = b.set = scene->fine.host;
    a.scores = bench_download(pool, (const uint16_t *)a.scores, (int64_t)voxels * a.channels);
    a.mask = bench_host<uint8_t>(pool, voxels);
    b.code = nullptr;
    b.order = bench_host<int32_t>(pool, voxels);
    b.rank = bench_host<int32_t>(pool, voxels);
    a.trouble = b.trouble = &trouble;
    BENCH_TRY(spira::choose_largest_host_workspace(&a, &bytes)); // the same for both
    char *room = bench_host<char>(pool, (int64_t)bytes + spira::workspace_alignment);
    room += -(uintptr_t)room % spira::workspace_alignment;
    BENCH_TRY(spira::choose_largest_host(&a, room, bytes));
    BENCH_TRY(spira::curve_order_host(&b, room, bytes));
    BENCH_TRY(generate_largest(w, s->stream));
    BENCH_TRY(generate_curve(w, s->stream));
    bench_check_same(pool, a.mask, w->largest.mask, voxels, input, "mask of the largest");
    bench_check_same(pool, b.order, w->curve.order, voxels, input, "order");
    bench_check_same(pool, b.rank, w->curve.rank, voxels, input, "rank");
    bench_pool_free(pool, keep);
}

static void generate_print(bench_session *s, bench_row row, generate_work *w, int begin, int end) {
    w->begin = begin;
    w->end = end;
    row.voxels = w->level[begin].host.capacity;
    row.outputs = w->level[end].host.capacity;
    row.time = bench_measure(s->stream, generate_step, w);
    bench_print(s, &row);
}

static void generate_run_input(bench_session *s, const bench_input *input) {
    spira::word_layout layout;
    if (!bench_layout(input, 32, &layout)) {
        return;
    }
    const bench_scene<generate_word> scene =
        bench_scene_make<generate_word>(&s->pool, input, &layout);
    generate_work w = {};
    generate_work_make(&s->pool, &scene, &w);
    w.end = generate_steps;
    BENCH_TRY(generate_step(&w, s->stream));
    for (int i = 0; i < generate_steps; ++i) {
        bench_check_set(&s->pool, w.level[i + 1].host, w.step[i].out, input->name, "children");
    }
    bench_check_trouble(&s->pool, scene.trouble);
    bench_row row = bench_row_make("subdivide", &scene);
    row.word = 32;
    for (int i = 0; i < generate_steps; ++i) {
        row.method = "step";
        generate_print(s, row, &w, i, i + 1);
    }
    row.method = "16 to 1";
    generate_print(s, row, &w, 0, generate_steps);
    row = bench_row_make("prune", &scene);
    row.dtype = "fp16";
    row.time = bench_measure(s->stream, generate_prune, &w);
    bench_print(s, &row);
    row.method = "gather";
    row.cin = generate_features;
    row.time = bench_measure(s->stream, generate_gather, &w);
    bench_print(s, &row);
    generate_check(s, &scene, &w, input->name);
    generate_check_points(s, &scene, &w, input->name);
    const struct {
        const char *method;
        bench_step step;
        int arrays; // of features, each read or written once; 0: other arrays, too
    } more[] = {{"norm", generate_norm, 2},
                {"largest", generate_largest, 0},
                {"hilbert", generate_curve, 0},
                {"gather_grad", generate_gather_grad, 0},
                {"norm_grad", generate_norm_grad, 3},
                {"gate", generate_gate, 3},
                {"gate_grad", generate_gate_grad, 5},
                {"gate_grad gelu", generate_gate_grad_gelu, 5},
                {"norm_groups", generate_norm_groups, 0},
                {"norm_groups_grad", generate_norm_groups_grad, 0},
                {"points", generate_points, 0},
                {"blend", generate_blend, 0},
                {"lists", generate_lists, 0},
                {"splat", generate_splat, 0}};
    for (const auto &one : more) {
        row.method = one.method;
        row.bytes = one.arrays * (int64_t)row.voxels * generate_features * 2;
        row.time = bench_measure(s->stream, one.step, &w);
        bench_print(s, &row);
    }
    bench_check_trouble(&s->pool, scene.trouble);
    bench_pool_free(&s->pool, 0);
}

int main(int argc, char **argv) {
    return bench_main(argc, argv, generate_run_input);
}
