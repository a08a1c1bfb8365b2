// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/build/all_kernels.cu: every kernel in every form that the library offers. `make check`
// compiles it for all architectures and looks for spilled registers. A launcher, or a template
// argument of one, that reaches new kernels needs a line here.
#include "../../spira.cuh"

using namespace spira;

// Whatever a launcher takes. Nothing here runs, so the values do not matter.
struct any_arguments {
    device_info gpu;
    word_layout layout;
    kernel_shape kernel;
    voxel_input points;
    voxel_rows rows;
    device_status *trouble;
    int32_t *map; // [capacity, volume]
    int32_t *count;
    int32_t capacity;
    map_forms forms;
    map_lists pairs;
    exchange_lists exchanged;
    expand_rule rule;
    order_request order;
    conv_shape shape;
    conv_args conv;
    conv_pairs_args conv_pairs;
    conv_hybrid_args hybrid;
    conv_grad_input_args input_grad;
    conv_grad_weight_args weight_grad;
    conv_grad_bias_args bias_grad;
    conv_group_args group;
    conv_group_grad_args group_grad;
    row_gather_args gather;
    row_gather_grad_args gather_grad;
    row_blend_args blend;
    row_lists_args lists;
    row_splat_args splat;
    norm_args rows_norm;
    norm_grad_args rows_norm_grad;
    gate_args gated;
    gate_grad_args gated_grad;
    pool_args pool;
    pool_grad_args pool_grad;
    voxel_features_grad_args features_grad;
    join_sum_args sums;
    join_sum_grad_args sums_grad;
    net_plan plan;
    net_load_args load;
    voxel_shift_args shift;
    const float *weight;
    float *worst;
    void *memory;
    size_t bytes;
    cudaStream_t stream;
};

template <typename W>
static status all_of_word(const any_arguments *a, voxel_set<W> set) {
    const voxelize_args<W> voxels = {&a->layout, &a->points, set, a->rows, a->trouble};
    SPIRA_TRY(voxelize<W, voxel_limits_any>(&voxels, a->memory, a->bytes, a->stream));
    voxel_features_args<W> features = {};
    features.set = set;
    SPIRA_TRY(voxel_features(&features, a->stream));
    downsample_args<W> coarse = {};
    coarse.in = set;
    SPIRA_TRY(downsample(&a->gpu, &coarse, a->memory, a->bytes, a->stream));
    interpolate_args<W> around = {};
    around.set = set;
    SPIRA_TRY(interpolate_find(&around, a->stream));
    curve_args<W> along = {};
    along.set = set;
    SPIRA_TRY(curve_order(&along, a->memory, a->bytes, a->stream));
    prune_args<W> kept = {};
    kept.in = kept.out = set;
    SPIRA_TRY(prune(&kept, a->memory, a->bytes, a->stream));
    choose_largest_args<W> largest = {};
    largest.set = set;
    SPIRA_TRY(choose_largest(&largest, a->memory, a->bytes, a->stream));
    choose_members_args<W> members = {};
    members.set = members.other = set;
    SPIRA_TRY(choose_members(&members, a->stream));
    norm_groups_args<W> elements = {};
    elements.set = set;
    SPIRA_TRY(norm_groups(&elements, a->memory, a->bytes, a->stream));
    norm_groups_grad_args<W> elements_grad = {};
    elements_grad.norm = elements;
    SPIRA_TRY(norm_groups_grad(&elements_grad, a->memory, a->bytes, a->stream));
    subdivide_args<W> children = {};
    children.in = children.out = set;
    SPIRA_TRY(subdivide(&children, a->memory, a->bytes, a->stream));
    expand_args<W> touched = {};
    touched.in = set;
    SPIRA_TRY(expand(&a->gpu, &touched, a->memory, a->bytes, a->stream));
    map_request<W> map = {};
    map.kernel = a->kernel;
    map.source = map.outputs = set;
    map.forms = a->forms;
    SPIRA_TRY(map_build(&a->layout, &a->kernel, set, set, a->map, a->stream));
    SPIRA_TRY(map_build_forms(&a->layout, &a->kernel, set, set, &a->forms, a->stream));
    SPIRA_TRY(map_build_batch(&a->gpu, &a->layout, &map, 1, a->stream));
    SPIRA_TRY(map_build_lists(&a->layout, &map, &a->pairs, a->memory, a->bytes, a->stream));
    conv_map_request<W> request = {};
    request.layout = &a->layout;
    request.kernel = a->kernel;
    request.source = request.outputs = set;
    conv_map built;
    SPIRA_TRY(conv_map_build(&a->gpu, &request, a->memory, a->bytes, &built, a->stream));
    join_args<W> sets = {};
    sets.set[0] = sets.out = set;
    SPIRA_TRY(join(&sets, a->memory, a->bytes, a->stream));
    dense_args<W> map_of_features = {};
    map_of_features.set = set;
    SPIRA_TRY(dense(&a->gpu, &map_of_features, a->stream));
    SPIRA_TRY(dense_grad(&a->gpu, &map_of_features, a->memory, a->stream));
    pool_global_grad_args<W> pooled = {};
    pooled.set = set;
    SPIRA_TRY(pool_global_grad(&pooled, a->memory, a->bytes, a->stream));
    net_run_args<W> run = {};
    run.input = set;
    SPIRA_TRY(net_run(&a->gpu, &a->plan, &run, a->stream));
    SPIRA_TRY((net_run<W, numeric_i8>(&a->gpu, &a->plan, &run, a->stream))); // mixed formats, too
    pool_global_args<W> global = {};
    global.set = set;
    return pool_global(&global, a->memory, a->bytes, a->stream);
}

// External linkage: the compiler must not drop what is called here.
int all_kernels(const any_arguments *a, voxel_set<uint32_t> narrow, voxel_set<uint64_t> wide);

// Which kernel runs is chosen at run time: each launcher compiles all of its own.
int all_kernels(const any_arguments *a, voxel_set<uint32_t> narrow, voxel_set<uint64_t> wide) {
    const conv_weights weights = {a->weight, a->memory, a->bytes, a->trouble};
    const status all[] = {
        all_of_word(a, narrow),
        all_of_word(a, wide),
        device_status_clear(a->trouble, a->stream),
        voxel_shift(&a->shift, a->stream),
        map_count(a->map, 27, a->count, a->capacity, a->map, a->stream),
        exchange(&a->pairs, &a->exchanged, a->trouble, a->stream),
        order_build(&a->gpu, &a->order, 1, a->memory, a->bytes, a->stream),
        conv_weights_pack(&a->gpu, &a->shape, &weights, a->stream),
        conv_shortcut_pack(&a->gpu, &a->shape, 16, 0, &weights, a->stream),
        conv_linear<numeric_any, true>(&a->gpu, &a->conv, a->stream),
        conv_weights_pack<numeric_i8>(&a->gpu, &a->shape, &weights, a->stream),
        conv_shortcut_pack<numeric_i8>(&a->gpu, &a->shape, 16, 0, &weights, a->stream),
        conv<numeric_i8, true>(&a->gpu, &a->conv, a->stream),
        conv_pairs_weights_pack(&a->gpu, &a->shape, &weights, a->stream),
        conv_pairs_run(&a->gpu, &a->conv_pairs, a->memory, a->bytes, a->stream),
        conv_hybrid(&a->gpu, &a->hybrid, a->memory, a->bytes, a->stream),
        conv_grad_weights_pack(&a->gpu, &a->shape, grad_source_both, grad_order_same, &weights,
                               a->stream),
        conv_grad_input(&a->gpu, &a->input_grad, a->stream),
        conv_grad_weight(&a->gpu, &a->weight_grad, a->memory, a->bytes, a->stream),
        conv_grad_bias(&a->gpu, &a->bias_grad, a->memory, a->bytes, a->stream),
        conv_group(&a->group, a->stream),
        conv_group_grad_weight(&a->group_grad, a->memory, a->bytes, a->stream),
        row_gather(&a->gather, a->stream),
        row_gather_grad(&a->gather_grad, a->stream),
        norm(&a->rows_norm, a->stream),
        norm_grad(&a->rows_norm_grad, a->memory, a->bytes, a->stream),
        gate(&a->gated, a->stream),
        gate_grad(&a->gated_grad, a->stream),
        row_blend(&a->blend, a->stream),
        row_lists(&a->lists, a->memory, a->bytes, a->stream),
        row_splat(&a->splat, a->stream),
        pool(&a->pool, a->stream),
        pool_grad(&a->pool_grad, a->stream),
        voxel_features_grad(&a->features_grad, a->stream),
        join_sum(&a->gpu, &a->sums, a->stream),
        join_sum_grad(&a->sums_grad, a->stream),
        net_load(&a->gpu, &a->plan, &a->load, a->stream),
    };
    int failed = 0;
    for (const status &s : all) {
        failed += status_failed(s);
    }
    return failed;
}
