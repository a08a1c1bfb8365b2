// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/dry/calls.cu: every function that launches, with arguments that it takes. The addresses of
// device memory are made up: nothing is launched, and no launcher may read there.
#include "../../spira.cuh"

#include "../support/net_i8.h"
#include "../support/nets.cuh"
#include "launches.h"

using namespace spira;

namespace {

typedef uint32_t W;

// ---- arguments ----------------------------------------------------------------------------------

// Addresses that nobody may read: gibibytes apart, aligned.
void *anywhere() {
    static uintptr_t next;
    next = next % 4096 + 1;
    return (void *)((next << 33) + ((uintptr_t)1 << 46));
}

const struct {
    template <typename T>
    operator T *() const {
        return (T *)anywhere();
    }
} any;

enum : size_t { plenty = (size_t)1 << 40 }; // bytes of scratch, or of packed weights

// Of two scenes that are `wide` voxels wide and 32 high.
const word_layout *layout(int wide = 256) {
    static word_layout made;
    word_need need = {};
    need.hi = {wide - 1, wide - 1, 31};
    need.batches = 2;
    need.stride = need.reach = {8, 8, 8};
    CHECK_OK(word_fit(&need, &made));
    return &made;
}

voxel_set<W> a_set(const launch_on &on) {
    return {any, any, on.rows};
}

map_lists some_lists(const launch_on &on) {
    return {any, any, any, 20 * on.rows};
}

conv_map a_map(const launch_on &on, int volume) {
    workspace w = workspace_begin(any);
    const order_layout order = order_layout_take(&w, on.rows, volume);
    return conv_map_of_order(&order, any, on.rows);
}

conv_epilogue an_epilogue() {
    conv_epilogue e = {};
    e.bias = any;
    e.scale = any;
    e.shift = any;
    e.residual = any;
    e.act = activation_relu;
    return e;
}

status run_device_status_clear(const launch_on &on) {
    return device_status_clear((device_status *)any, on.stream);
}

// ---- voxels and sets ----------------------------------------------------------------------------

voxel_input some_points(const launch_on &on, bool limits) {
    voxel_input in = {};
    in.points = any;
    in.batch = any;
    in.count = any;
    in.rows = on.rows;
    in.columns = 4;
    in.size[0] = in.size[1] = in.size[2] = 0.1f;
    in.extent = limits ? triple_make(200, 200, 20) : triple_make(0, 0, 0);
    in.max_voxels = limits ? 1000 : 0;
    return in;
}

template <voxel_limits limits>
status run_voxelize(const launch_on &on) {
    const voxel_input in = some_points(on, limits == voxel_limits_any);
    const voxel_rows rows = {any, any, any};
    const voxelize_args<W> args = {layout(), &in, a_set(on), rows, any};
    return voxelize<W, limits>(&args, (char *)any, plenty, on.stream);
}

status run_voxel_shift(const launch_on &on) {
    voxel_shift_args a = {};
    a.from = any;
    a.count = any;
    a.rows = on.rows;
    a.columns = 4;
    a.points = any;
    return voxel_shift(&a, on.stream);
}

status run_voxel_features(const launch_on &on) {
    voxel_features_args<W> a = {};
    a.append = voxel_append_centre | voxel_append_mean;
    a.values = any;
    a.columns = a.channels = 4;
    a.rows = {any, any, any};
    a.set = a_set(on);
    a.layout = layout();
    a.size[0] = a.size[1] = a.size[2] = 0.1f;
    a.type = on.type;
    a.features = any;
    return voxel_features(&a, on.stream);
}

status run_voxel_features_grad(const launch_on &on) {
    voxel_features_grad_args a = {};
    a.values = any;
    a.columns = a.channels = 4;
    a.rows = {any, any, any};
    a.row_capacity = a.capacity = on.rows;
    a.count = any;
    a.type = on.type;
    a.features_grad = any;
    a.features_channels = 4;
    a.values_grad = any;
    return voxel_features_grad(&a, on.stream);
}

template <int from, int to>
status run_downsample(const launch_on &on) {
    downsample_args<W> a = {};
    a.layout = layout();
    a.in = a_set(on);
    a.from = triple_make(from, from, from);
    a.stride = triple_make(to, to, to);
    a.out = a_set(on);
    a.trouble = any;
    return downsample(on.gpu, &a, (char *)any, plenty, on.stream);
}

struct expand_problem {
    kernel_shape kernel[2];
    expand_rule rule[2];
    expand_args<W> args[2];
};

// Two layers of stride 2 behind each other.
void expand_make(const launch_on &on, int wide, expand_problem *p) {
    expand_grid grid = {{0, 0, 0}, {wide, wide, 32}};
    for (int i = 0; i < 2; ++i) {
        p->kernel[i] = kernel_cube(3, 1 << i);
        p->rule[i] = {{2, 2, 2}, {1, 1, 1}, grid};
        CHECK_OK(expand_out(&p->kernel[i], &p->rule[i], &grid));
        p->args[i] = {layout(wide), &p->kernel[i], &p->rule[i], a_set(on), a_set(on), any};
    }
    p->args[1].in = p->args[0].out;
    p->args[1].trouble = p->args[0].trouble;
}

// Wide scenes and few voxels: by a sort.
template <int wide>
status run_expand(const launch_on &on) {
    expand_problem p;
    expand_make(on, wide, &p);
    return expand(on.gpu, p.args, (char *)any, plenty, on.stream);
}

status run_expand_chain(const launch_on &on) {
    expand_problem p;
    expand_make(on, 256, &p);
    return expand_chain(on.gpu, p.args, 2, (char *)any, plenty, on.stream);
}

template <join_axis axis>
status run_join(const launch_on &on) {
    join_args<W> a = {};
    a.layout = layout();
    a.set[0] = a_set(on);
    a.set[1] = a_set(on);
    a.sets = 2;
    a.axis = axis;
    a.out = a_set(on);
    a.rows = {any, any};
    a.trouble = any;
    return join(&a, (char *)any, plenty, on.stream);
}

status run_join_sum(const launch_on &on) {
    join_sum_args a = {};
    a.in[0] = any;
    a.in[1] = any;
    a.capacity[0] = a.capacity[1] = a.out_capacity = on.rows;
    a.sets = 2;
    a.channels = 24;
    a.type = on.type;
    a.rows = {any, any};
    a.count = any;
    a.out = any;
    return join_sum(on.gpu, &a, on.stream);
}

status run_join_sum_grad(const launch_on &on) {
    join_sum_grad_args a = {};
    a.out_grad = any;
    a.capacity[0] = a.capacity[1] = a.out_capacity = on.rows;
    a.sets = 2;
    a.channels = 24;
    a.type = on.type;
    a.rows = {any, any};
    a.count = any;
    a.in_grad[0] = any;
    a.in_grad[1] = any;
    return join_sum_grad(&a, on.stream);
}

row_choice a_choice(const launch_on &on, bool mask) {
    row_choice c = {};
    if (mask) {
        c.mask = any;
    } else {
        c.scores = any;
        c.type = on.type;
        c.channels = 8;
    }
    return c;
}

template <bool mask>
status run_prune(const launch_on &on) {
    prune_args<W> a = {};
    a.in = a_set(on);
    a.choice = a_choice(on, mask);
    a.out = a_set(on);
    a.source = any;
    a.trouble = any;
    return prune(&a, (char *)any, plenty, on.stream);
}

template <bool mask>
status run_subdivide(const launch_on &on) {
    subdivide_args<W> a = {};
    a.layout = layout();
    a.in = a_set(on);
    a.stride = {2, 2, 2};
    a.choice = a_choice(on, mask);
    a.out = a_set(on);
    a.source = any;
    a.trouble = any;
    return subdivide(&a, (char *)any, plenty, on.stream);
}

status run_choose_largest(const launch_on &on) {
    choose_largest_args<W> a = {};
    a.set = a_set(on);
    a.layout = layout();
    a.scores = any;
    a.type = on.type;
    a.channels = 2;
    a.most = 70;
    a.mask = any;
    a.trouble = any;
    return choose_largest(&a, (char *)any, plenty, on.stream);
}

status run_choose_members(const launch_on &on) {
    const choose_members_args<W> a = {a_set(on), a_set(on), false, any, any};
    return choose_members(&a, on.stream);
}

status run_curve_order(const launch_on &on) {
    curve_args<W> a = {};
    a.set = a_set(on);
    a.layout = layout();
    a.stride = {1, 1, 1};
    a.depth = 8;
    a.code = any;
    a.order = any;
    a.rank = any;
    a.trouble = any;
    return curve_order(&a, (char *)any, plenty, on.stream);
}

// ---- rows ---------------------------------------------------------------------------------------

template <interpolate_kind kind>
status run_interpolate_find(const launch_on &on) {
    interpolate_args<W> a = {};
    a.layout = layout();
    a.set = a_set(on);
    a.stride = {1, 1, 1};
    a.kind = kind;
    a.points = any;
    a.count = any;
    a.rows = on.rows;
    a.columns = 3;
    a.size[0] = a.size[1] = a.size[2] = 0.1f;
    a.index = any;
    if (kind != interpolate_nearest) {
        a.weight = any;
    }
    a.trouble = any;
    return interpolate_find(&a, on.stream);
}

status run_row_gather(const launch_on &on) {
    const row_gather_args a = {any, on.rows, 24, 1, on.type, any, any, on.rows, any};
    return row_gather(&a, on.stream);
}

status run_row_gather_grad(const launch_on &on) {
    const row_gather_grad_args a = {any, on.rows, 24, 1, on.type, any, any, on.rows, any};
    return row_gather_grad(&a, on.stream);
}

status run_row_blend(const launch_on &on) {
    const row_blend_args a = {any, on.rows, 24, on.type, 8, any, any, any, on.rows, any};
    return row_blend(&a, on.stream);
}

status run_row_lists(const launch_on &on) {
    const row_lists_args a = {any, 8, any, on.rows, on.rows, any, any};
    return row_lists(&a, (char *)any, plenty, on.stream);
}

status run_row_splat(const launch_on &on) {
    const row_splat_args a = {any, 24, on.type, 8, any, any, any, on.rows, any};
    return row_splat(&a, on.stream);
}

// ---- maps ---------------------------------------------------------------------------------------

map_request<W> a_map_request(const launch_on &on, kernel_shape kernel) {
    map_request<W> r = {};
    r.kernel = kernel;
    r.source = a_set(on);
    r.outputs = a_set(on);
    r.forms.threshold = map_all;
    r.forms.trouble = any;
    return r;
}

// A kernel that is no cube: the search of any kernel.
kernel_shape kernel_flat() {
    kernel_shape k = kernel_cube(3, 1);
    k.size.z = 1;
    return k;
}

template <int size>
status run_map_build(const launch_on &on) {
    const kernel_shape k = size ? kernel_cube(size, 1) : kernel_flat();
    return map_build(layout(), &k, a_set(on), a_set(on), any, on.stream);
}

// Every form of a map.
template <int form>
status run_map_build_forms(const launch_on &on) {
    const kernel_shape k = kernel_cube(form == 3 ? 7 : 3, 1);
    const voxel_set<W> source = a_set(on);
    map_forms f = {};
    f.trouble = any;
    if (form == 0) {
        f.os = any;
        f.threshold = map_all;
        f.half = true;
    } else if (form == 1) {
        f.os = any;
        f.threshold = 2;
        f.ws = any;
        f.mask = any;
    } else {
        f.compact = any;
    }
    return map_build_forms(layout(), &k, source, source, &f, on.stream);
}

// More maps than a launch takes, of two kinds.
status run_map_build_batch(const launch_on &on) {
    map_request<W> r[20];
    for (int i = 0; i < 20; ++i) {
        r[i] = a_map_request(on, kernel_cube(i % 2 ? 5 : 3, 1));
        r[i].forms.os = any;
    }
    return map_build_batch(on.gpu, layout(), r, 20, on.stream);
}

template <int size, bool hybrid>
status run_map_build_lists(const launch_on &on) {
    map_request<W> r = a_map_request(on, size ? kernel_cube(size, 1) : kernel_flat());
    if (hybrid) {
        r.forms.os = any;
    }
    r.forms.threshold = hybrid ? 2 : 0;
    const map_lists pairs = some_lists(on);
    return map_build_lists(layout(), &r, &pairs, (char *)any, plenty, on.stream);
}

status run_map_count(const launch_on &on) {
    return map_count(any, 27, any, on.rows, any, on.stream);
}

status run_exchange(const launch_on &on) {
    const map_lists pairs = some_lists(on);
    const exchange_lists to = exchange_spconv({3, 3, 3}, on.rows, any, any);
    return exchange(&pairs, &to, any, on.stream);
}

template <int size, bool compact>
status run_order_build(const launch_on &on) {
    order_request r[3] = {};
    for (order_request &one : r) {
        one.kernel = kernel_cube(size, 1);
        (compact ? one.compact : one.map) = any;
        one.count = any;
        one.capacity = on.rows;
        workspace w = workspace_begin(any);
        one.layout = order_layout_take(&w, on.rows, kernel_volume(&one.kernel));
    }
    return order_build(on.gpu, r, 3, (char *)any, plenty, on.stream);
}

template <int size>
status run_conv_map_build(const launch_on &on) {
    conv_map_request<W> r = {};
    r.layout = layout();
    r.kernel = size ? kernel_cube(size, 1) : kernel_flat();
    r.source = a_set(on);
    r.outputs = a_set(on);
    r.trouble = any;
    conv_map map;
    return conv_map_build(on.gpu, &r, any, plenty, &map, on.stream);
}

// ---- convolutions -------------------------------------------------------------------------------

conv_weights some_weights() {
    conv_weights w = {any, any, plenty, any};
    return w;
}

template <int cin, int cout>
status run_conv_weights_pack(const launch_on &on) {
    const conv_shape s = {27, cin, 0, cout, on.type};
    const conv_weights w = some_weights();
    return conv_weights_pack(on.gpu, &s, &w, on.stream);
}

status run_conv_shortcut_pack(const launch_on &on) {
    const conv_shape s = {27, 64, 0, 128, on.type};
    const conv_weights w = some_weights();
    if (!conv_shortcut_takes(&s, on.gpu)) {
        return conv_weights_pack(on.gpu, &s, &w, on.stream);
    }
    return conv_shortcut_pack(on.gpu, &s, 64, 0, &w, on.stream);
}

conv_args some_conv(const launch_on &on, const conv_shape &s, const conv_map *map) {
    conv_args a = {};
    a.shape = s;
    a.map = map;
    a.in = any;
    if (s.cin2) {
        a.in2 = any;
    }
    a.weights = any;
    a.epilogue = an_epilogue();
    a.out = any;
    a.programmatic = on.gpu->programmatic;
    return a;
}

template <int volume, int cin, int cin2, int cout>
status run_conv(const launch_on &on) {
    const conv_shape s = {volume, cin, cin2, cout, on.type};
    const conv_map map = volume > 1 ? a_map(on, volume) : conv_map_identity(any, on.rows);
    const conv_args a = some_conv(on, s, &map);
    return conv(on.gpu, &a, on.stream);
}

status run_conv_shortcut(const launch_on &on) {
    const conv_shape s = {27, 64, 0, 128, on.type};
    if (!conv_shortcut_takes(&s, on.gpu)) {
        return run_conv<27, 64, 0, 128>(on);
    }
    const conv_map map = a_map(on, 27);
    conv_args a = some_conv(on, s, &map);
    const conv_shortcut shortcut = {64, 0, any, nullptr, any, nullptr, nullptr, nullptr};
    a.shortcut = &shortcut;
    return conv<numeric_any, true>(on.gpu, &a, on.stream);
}

template <int volume, int cin, int cout>
status run_conv_i8(const launch_on &on) {
    const conv_shape s = {volume, cin, 0, cout, numeric_i8};
    const conv_map map = volume > 1 ? a_map(on, volume) : conv_map_identity(any, on.rows);
    conv_args a = some_conv(on, s, &map);
    a.epilogue.residual = nullptr;
    a.quantisation.step = any;
    a.quantisation.mixed = true;
    a.quantisation.out_type = numeric_i8;
    a.quantisation.out_inverse = 10;
    return conv<numeric_i8, true>(on.gpu, &a, on.stream);
}

status run_conv_i8_weights_pack(const launch_on &on) {
    const conv_shape s = {27, 64, 0, 64, numeric_i8};
    conv_weights w = some_weights();
    w.step = any;
    w.scale_in = 0.1f;
    return conv_weights_pack<numeric_i8>(on.gpu, &s, &w, on.stream);
}

status run_conv_linear(const launch_on &on) {
    const conv_shape s = {1, 128, 0, 128, on.type};
    const conv_map map = conv_map_identity(any, on.rows);
    conv_args a = some_conv(on, s, &map);
    a.epilogue.act = activation_gelu;
    return conv_linear(on.gpu, &a, on.stream);
}

conv_pairs_args some_pairs(const launch_on &on, pairs_form form) {
    conv_pairs_args a = {};
    a.shape = {27, 64, 0, 64, on.type};
    a.in = any;
    a.weights = any;
    a.pairs = some_lists(on);
    a.count = any;
    a.capacity = on.rows;
    a.epilogue = an_epilogue();
    a.out = any;
    a.form = form;
    return a;
}

template <pairs_form form>
status run_conv_pairs(const launch_on &on) {
    const conv_pairs_args a = some_pairs(on, form);
    return conv_pairs_run(on.gpu, &a, (char *)any, plenty, on.stream);
}

status run_conv_pairs_weights_pack(const launch_on &on) {
    const conv_shape s = {27, 64, 0, 64, on.type};
    const conv_weights w = some_weights();
    return conv_pairs_weights_pack(on.gpu, &s, &w, on.stream);
}

conv_hybrid_args some_hybrid(const launch_on &on, const conv_map *map) {
    conv_hybrid_args a = {};
    a.shape = {27, 64, 0, 64, on.type};
    a.kernel = kernel_cube(3, 1);
    a.threshold = 2;
    a.in = any;
    a.weights = any;
    a.map = map;
    a.pairs = some_lists(on);
    a.epilogue = an_epilogue();
    a.out = any;
    return a;
}

status run_conv_hybrid(const launch_on &on) {
    const conv_map map = a_map(on, 7);
    const conv_hybrid_args a = some_hybrid(on, &map);
    return conv_hybrid(on.gpu, &a, (char *)any, plenty, on.stream);
}

status run_conv_hybrid_weights_pack(const launch_on &on) {
    const conv_map map = a_map(on, 7);
    const conv_hybrid_args a = some_hybrid(on, &map);
    const conv_weights w = some_weights();
    return conv_hybrid_weights_pack(on.gpu, &a, &w, on.stream);
}

// ---- gradients ----------------------------------------------------------------------------------

status run_conv_grad_weights_pack(const launch_on &on) {
    const conv_shape s = {27, 64, 32, 64, on.type};
    const conv_weights w = some_weights();
    return conv_grad_weights_pack(on.gpu, &s, grad_source_second, grad_order_same, &w, on.stream);
}

status run_conv_grad_input(const launch_on &on) {
    const conv_map map = a_map(on, 27);
    conv_grad_input_args a = {};
    a.shape = {27, 64, 0, 64, on.type};
    a.map = &map;
    a.out_grad = any;
    a.weights = any;
    a.in_grad = any;
    return conv_grad_input(on.gpu, &a, on.stream);
}

template <int channels>
status run_conv_grad_weight(const launch_on &on) {
    conv_grad_weight_args a = {};
    a.shape = {27, channels, 0, channels, on.type};
    a.in = any;
    a.out_grad = any;
    a.pairs = some_lists(on);
    a.count = any;
    a.capacity = on.rows;
    a.weight_grad = any;
    a.bias_grad = any;
    return conv_grad_weight(on.gpu, &a, (char *)any, plenty, on.stream);
}

status run_conv_grad_bias(const launch_on &on) {
    const conv_grad_bias_args a = {on.type, 64, any, any, on.rows, any};
    return conv_grad_bias(on.gpu, &a, (char *)any, plenty, on.stream);
}

template <int groups>
status run_conv_group(const launch_on &on) {
    conv_group_args a = {};
    a.shape = {27, groups, 64, 64, on.type};
    a.in = any;
    a.weight = any;
    a.map = any;
    a.count = any;
    a.capacity = on.rows;
    a.epilogue = an_epilogue();
    a.out = any;
    return conv_group(&a, on.stream);
}

template <int groups>
status run_conv_group_grad_weight(const launch_on &on) {
    conv_group_grad_args a = {};
    a.shape = {27, groups, 64, 64, on.type};
    a.in = any;
    a.out_grad = any;
    a.map = any;
    a.count = any;
    a.capacity = on.rows;
    a.weight_grad = any;
    return conv_group_grad_weight(&a, (char *)any, plenty, on.stream);
}

status run_conv_slices_pack(const launch_on &on) {
    const conv_group_shape s = {27, 2, 64, 64, on.type};
    const conv_weights w = some_weights();
    return conv_slices_pack(on.gpu, &s, &w, on.stream);
}

status run_conv_slices(const launch_on &on) {
    const conv_group_shape s = {27, 2, 64, 64, on.type};
    const conv_map map = a_map(on, 27);
    const conv_args a = some_conv(on, conv_slices_shape(s), &map);
    return conv_slices(on.gpu, &s, &a, on.stream);
}

// ---- norms, pooling, dense maps -----------------------------------------------------------------

norm_args some_norm(const launch_on &on, int channels) {
    norm_args a = {};
    a.in = any;
    a.channels = channels;
    a.type = on.type;
    a.epsilon = 1e-5f;
    a.gain = any;
    return a;
}

template <int channels>
status run_norm(const launch_on &on) {
    norm_args a = some_norm(on, channels);
    a.count = any;
    a.capacity = on.rows;
    a.out = any;
    return norm(&a, on.stream);
}

template <int channels>
status run_norm_grad(const launch_on &on) {
    norm_grad_args a = {};
    a.norm = some_norm(on, channels);
    a.norm.count = any;
    a.norm.capacity = on.rows;
    a.out_grad = any;
    a.in_grad = any;
    a.gain_grad = any;
    a.shift_grad = any;
    return norm_grad(&a, (char *)any, plenty, on.stream);
}

norm_groups_args<W> some_norm_groups(const launch_on &on) {
    norm_groups_args<W> a = {};
    a.layout = layout();
    a.set = a_set(on);
    a.groups = 4;
    a.rows = some_norm(on, 32);
    return a;
}

status run_norm_groups(const launch_on &on) {
    norm_groups_args<W> a = some_norm_groups(on);
    a.rows.out = any;
    return norm_groups(&a, (char *)any, plenty, on.stream);
}

status run_norm_groups_grad(const launch_on &on) {
    norm_groups_grad_args<W> a = {};
    a.norm = some_norm_groups(on);
    a.out_grad = any;
    a.in_grad = any;
    a.gain_grad = any;
    a.shift_grad = any;
    return norm_groups_grad(&a, (char *)any, plenty, on.stream);
}

gate_args a_gate(const launch_on &on, activation act) {
    gate_args a = {};
    a.in = any;
    a.gate = any;
    a.channels = 24;
    a.type = on.type;
    a.act = act;
    a.count = any;
    a.capacity = on.rows;
    return a;
}

template <activation act>
status run_gate(const launch_on &on) {
    gate_args a = a_gate(on, act);
    a.out = any;
    return gate(&a, on.stream);
}

template <activation act>
status run_gate_grad(const launch_on &on) {
    const gate_grad_args a = {a_gate(on, act), any, any, any};
    return gate_grad(&a, on.stream);
}

status run_pool(const launch_on &on) {
    const pool_args a = {pool_max, on.type, 24, 27, any, any, any, on.rows, any};
    return pool(&a, on.stream);
}

status run_pool_grad(const launch_on &on) {
    pool_grad_args a = {};
    a.type = on.type;
    a.channels = 24;
    a.volume = 27;
    a.in = any;
    a.out_grad = any;
    a.map = a.back = any;
    a.count = any;
    a.capacity = on.rows;
    a.in_grad = any;
    return pool_grad(&a, on.stream);
}

template <pool_kind kind>
status run_pool_global(const launch_on &on) {
    const pool_global_args<W> a = {kind, on.type, layout(), a_set(on), 24, any, any};
    return pool_global(&a, (char *)any, plenty, on.stream);
}

template <pool_kind kind>
status run_pool_global_grad(const launch_on &on) {
    const pool_global_grad_args<W> a = {kind, on.type, layout(), a_set(on), 24, any, any, any};
    return pool_global_grad(&a, (char *)any, plenty, on.stream);
}

dense_args<W> some_dense(const launch_on &on) {
    dense_args<W> a = {};
    a.layout = layout();
    a.set = a_set(on);
    a.grid = {{0, 0, 0}, {256, 256, 32}};
    a.stride = {1, 1, 1};
    a.batch = 2;
    a.channels = 8;
    a.type = on.type;
    a.features = any;
    a.out_type = numeric_f16;
    a.out = any;
    a.trouble = any;
    return a;
}

template <dense_order order>
status run_dense(const launch_on &on) {
    dense_args<W> a = some_dense(on);
    a.order = order;
    return dense(on.gpu, &a, on.stream);
}

status run_dense_grad(const launch_on &on) {
    const dense_args<W> a = some_dense(on);
    return dense_grad(on.gpu, &a, any, on.stream);
}

// ---- networks -----------------------------------------------------------------------------------

// Plans a network and runs a part of it: part(plan, run).
template <typename F>
status on_network(const launch_on &on, void (*make)(networks::network *), bool i8, F part) {
    static networks::network net; // layers have names that lie in it
    make(&net);
    net_limits limits = nets::limits_make(&net, i8 ? numeric_f16 : on.type, on.rows, false);
    limits.count_pairs = true;
    limits.overlap = true;
    if (i8) {
        net_formats_i8(net.layers, net.count);
        i8net::ranges_make(&net, &limits);
    }
    const word_layout fitted = nets::layout_make<W>(&net);
    static net_plan plan;
    SPIRA_TRY(net_plan_device<W>(on.gpu, net.layers, net.count, &fitted, &limits, &plan));
    net_run_args<W> run = {};
    run.input = a_set(on);
    run.features = any;
    run.loaded = any;
    run.trouble = any;
    run.memory = any;
    run.bytes = plan.workspace_bytes;
    return part(&plan, &run);
}

// Names of networks as template arguments.
#define NETWORK(name)                                                                              \
    struct net_##name {                                                                            \
        static void make(networks::network *n) {                                                   \
            nets::network_named(#name, n);                                                         \
        }                                                                                          \
    }
NETWORK(encoder);
NETWORK(flat);
NETWORK(mixed);
NETWORK(gated);
NETWORK(grown);
NETWORK(grouped);
NETWORK(sliced);
NETWORK(pooled);
NETWORK(fine);
#undef NETWORK
struct net_everything {
    static void make(networks::network *n) {
        i8net::network_everything(n, false);
        n->grid = {{-24, -16, -16}, {48, 32, 32}};
    }
};

template <typename N, bool i8>
status run_net_load(const launch_on &on) {
    return on_network(on, N::make, i8, [&](const net_plan *p, const net_run_args<W> *) {
        const net_load_args load = {any, any, p->loaded_bytes, any};
        return i8 ? net_load<numeric_i8>(on.gpu, p, &load, on.stream)
                  : net_load(on.gpu, p, &load, on.stream);
    });
}

template <typename N>
status run_net_index(const launch_on &on) {
    return on_network(on, N::make, false, [&](const net_plan *p, const net_run_args<W> *run) {
        return net_index(on.gpu, p, run, on.stream);
    });
}

template <typename N>
status run_net_layer_run(const launch_on &on) {
    return on_network(on, N::make, false, [&](const net_plan *p, const net_run_args<W> *run) {
        for (int i = 0; i < p->layer_count; ++i) {
            SPIRA_TRY(net_layer_run(on.gpu, p, i, run, on.stream));
        }
        return status_success();
    });
}

template <typename N, bool i8>
status run_net_run(const launch_on &on) {
    return on_network(on, N::make, i8, [&](const net_plan *p, const net_run_args<W> *run) {
        return i8 ? net_run<W, numeric_i8>(on.gpu, p, run, on.stream)
                  : net_run(on.gpu, p, run, on.stream);
    });
}

// On two streams; the features come from a third.
template <typename N>
status run_net_run_side(const launch_on &on) {
    return on_network(on, N::make, false, [&](const net_plan *p, net_run_args<W> *run) {
        const net_side side = {(cudaStream_t)any, (cudaEvent_t)any, (cudaEvent_t)any,
                               (cudaEvent_t)any};
        run->side = &side;
        return net_run(on.gpu, p, run, on.stream);
    });
}

} // namespace

// ---- arguments of kernels -----------------------------------------------------------------------

static void kernel_of_integers(const int32_t *, int64_t) {}

template <typename... A>
static auto launches(int, A... a)
    -> decltype(kernel_launch(kernel_of_integers, launch_config(), a...), true);
template <typename... A>
static char launches(long, A...);

// A launch converts arguments as a call does, and no pointer to another type.
template <typename... A>
constexpr bool launch_takes = sizeof launches(0, A()...) == sizeof(bool) &&
                              std::is_same<decltype(launches(0, A()...)), bool>::value;
static_assert(launch_takes<const int32_t *, int64_t> && launch_takes<int32_t *, int> &&
                  launch_takes<std::nullptr_t, bool>,
              "what a call would take");
static_assert(!launch_takes<const float *, int64_t> && !launch_takes<const int32_t *, float *> &&
                  !launch_takes<const int32_t *>,
              "what it would not take");

// ---- all of them --------------------------------------------------------------------------------

const launch_case launch_cases[] = {
    {"device_status_clear", run_device_status_clear},
    {"voxelize", run_voxelize<voxel_limits_none>},
    {"voxelize, limits", run_voxelize<voxel_limits_any>},
    {"voxel_shift", run_voxel_shift},
    {"voxel_features", run_voxel_features},
    {"voxel_features_grad", run_voxel_features_grad},
    {"downsample, 1 to 2", run_downsample<1, 2>},
    {"downsample, 1 to 8", run_downsample<1, 8>},
    {"downsample, 1 to 3", run_downsample<1, 3>},
    {"expand", run_expand<256>},
    {"expand, wide", run_expand<2048>},
    {"expand_chain", run_expand_chain},
    {"join", run_join<join_axis_none>},
    {"join, without x", run_join<join_axis_x>},
    {"join, without z", run_join<join_axis_z>},
    {"join_sum", run_join_sum},
    {"join_sum_grad", run_join_sum_grad},
    {"prune, mask", run_prune<true>},
    {"prune, scores", run_prune<false>},
    {"subdivide, mask", run_subdivide<true>},
    {"subdivide, scores", run_subdivide<false>},
    {"choose_largest", run_choose_largest},
    {"choose_members", run_choose_members},
    {"curve_order", run_curve_order},
    {"interpolate_find", run_interpolate_find<interpolate_zeros>},
    {"interpolate_find, nearest", run_interpolate_find<interpolate_nearest>},
    {"row_gather", run_row_gather},
    {"row_gather_grad", run_row_gather_grad},
    {"row_blend", run_row_blend},
    {"row_lists", run_row_lists},
    {"row_splat", run_row_splat},
    {"map_build, any kernel", run_map_build<0>},
    {"map_build, K = 2", run_map_build<2>},
    {"map_build, K = 3", run_map_build<3>},
    {"map_build, K = 5", run_map_build<5>},
    {"map_build, K = 9", run_map_build<9>},
    {"map_build_forms, half", run_map_build_forms<0>},
    {"map_build_forms, mixed", run_map_build_forms<1>},
    {"map_build_forms, compact", run_map_build_forms<2>},
    {"map_build_forms, compact, K = 7", run_map_build_forms<3>},
    {"map_build_batch", run_map_build_batch},
    {"map_build_lists, any kernel", run_map_build_lists<0, false>},
    {"map_build_lists, K = 3", run_map_build_lists<3, false>},
    {"map_build_lists, K = 3, hybrid", run_map_build_lists<3, true>},
    {"map_build_lists, K = 5", run_map_build_lists<5, false>},
    {"map_count", run_map_count},
    {"exchange", run_exchange},
    {"order_build, K = 3", run_order_build<3, false>},
    {"order_build, K = 3, compact", run_order_build<3, true>},
    {"order_build, K = 5, compact", run_order_build<5, true>},
    {"order_build, K = 7, compact", run_order_build<7, true>},
    {"order_build, K = 13", run_order_build<13, false>},
    {"conv_map_build, any kernel", run_conv_map_build<0>},
    {"conv_map_build, K = 2", run_conv_map_build<2>},
    {"conv_map_build, K = 3", run_conv_map_build<3>},
    {"conv_map_build, K = 5", run_conv_map_build<5>},
    {"conv_map_build, K = 13", run_conv_map_build<13>},
    {"conv_weights_pack, 64", run_conv_weights_pack<64, 64>},
    {"conv_weights_pack, 4", run_conv_weights_pack<4, 16>},
    {"conv_weights_pack, int8", run_conv_i8_weights_pack},
    {"conv_shortcut_pack", run_conv_shortcut_pack},
    {"conv, 64", run_conv<27, 64, 0, 64>},
    {"conv, 64 and 32 to 128", run_conv<27, 64, 32, 128>},
    {"conv, 4 to 16", run_conv<27, 4, 0, 16>},
    {"conv, 13 to 7", run_conv<27, 13, 0, 7>},
    {"conv, identity", run_conv<1, 64, 0, 96>},
    {"conv, K = 13", run_conv<2197, 32, 0, 32>},
    {"conv, shortcut", run_conv_shortcut},
    {"conv, int8", run_conv_i8<27, 64, 64>},
    {"conv, int8, 16", run_conv_i8<27, 16, 16>},
    {"conv_linear", run_conv_linear},
    {"conv_pairs_weights_pack", run_conv_pairs_weights_pack},
    {"conv_pairs_run", run_conv_pairs<pairs_form_atomic>},
    {"conv_pairs_run, ordered", run_conv_pairs<pairs_form_ordered>},
    {"conv_hybrid_weights_pack", run_conv_hybrid_weights_pack},
    {"conv_hybrid", run_conv_hybrid},
    {"conv_grad_weights_pack", run_conv_grad_weights_pack},
    {"conv_grad_input", run_conv_grad_input},
    {"conv_grad_weight, 64", run_conv_grad_weight<64>},
    {"conv_grad_weight, 256", run_conv_grad_weight<256>},
    {"conv_grad_weight, 5", run_conv_grad_weight<5>},
    {"conv_grad_bias", run_conv_grad_bias},
    {"conv_group, depthwise", run_conv_group<64>},
    {"conv_group, 8 groups", run_conv_group<8>},
    {"conv_group, 4 groups", run_conv_group<4>},
    {"conv_group, 2 groups", run_conv_group<2>},
    {"conv_group_grad_weight, depthwise", run_conv_group_grad_weight<64>},
    {"conv_group_grad_weight", run_conv_group_grad_weight<8>},
    {"conv_slices_pack", run_conv_slices_pack},
    {"conv_slices", run_conv_slices},
    {"gate", run_gate<activation_none>},
    {"gate, SiLU", run_gate<activation_silu>},
    {"gate_grad", run_gate_grad<activation_none>},
    {"gate_grad, SiLU", run_gate_grad<activation_silu>},
    {"norm, 64", run_norm<64>},
    {"norm, 1000", run_norm<1000>},
    {"norm_grad, 64", run_norm_grad<64>},
    {"norm_grad, 4000", run_norm_grad<4000>},
    {"norm_groups", run_norm_groups},
    {"norm_groups_grad", run_norm_groups_grad},
    {"pool", run_pool},
    {"pool_grad", run_pool_grad},
    {"pool_global, max", run_pool_global<pool_max>},
    {"pool_global, average", run_pool_global<pool_average>},
    {"pool_global_grad, max", run_pool_global_grad<pool_max>},
    {"pool_global_grad, average", run_pool_global_grad<pool_average>},
    {"dense", run_dense<dense_channels_first>},
    {"dense, channels last", run_dense<dense_channels_last>},
    {"dense_grad", run_dense_grad},
    {"net_load", run_net_load<net_mixed, false>},
    {"net_load, int8", run_net_load<net_everything, true>},
    {"net_load, sliced", run_net_load<net_sliced, false>},
    {"net_index", run_net_index<net_mixed>},
    {"net_layer_run", run_net_layer_run<net_grown>},
    {"net_run, encoder", run_net_run<net_encoder, false>},
    {"net_run, int8", run_net_run<net_everything, true>},
    {"net_run, flat", run_net_run<net_flat, false>},
    {"net_run, mixed", run_net_run<net_mixed, false>},
    {"net_run, fine", run_net_run<net_fine, false>},
    {"net_run, gated", run_net_run<net_gated, false>},
    {"net_run, grown", run_net_run<net_grown, false>},
    {"net_run, grouped", run_net_run<net_grouped, false>},
    {"net_run, sliced", run_net_run<net_sliced, false>},
    {"net_run, pooled", run_net_run<net_pooled, false>},
    {"net_run, two streams", run_net_run_side<net_mixed>, launch_branches},
};
const int launch_cases_count = (int)(sizeof launch_cases / sizeof launch_cases[0]);

status (*const launch_device_info_query)(device_info *d) = device_info_query;
