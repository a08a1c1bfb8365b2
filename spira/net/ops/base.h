// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/base.h: what an operation of a layer is.
//
// An operation is a struct net_op_NAME, which has constants alone, and functions that take it as
// their first argument: here and, for the GPU, in base.cuh. An operation has those functions of its
// own that differ from the ones of net_op_base. It is a file of this folder, or two, and a line in
// ops.h.
#ifndef SPIRA_NET_OPS_BASE_H
#define SPIRA_NET_OPS_BASE_H

#include "../sets.h"

namespace spira {

// Members of net_layer that not every operation has.
enum net_member : unsigned {
    net_member_source2 = 1,
    net_member_more = 2, // source3, source4
    net_member_channels = 4,
    net_member_kernel = 8,    // size, stride, dilation, transposed, rule, padding
    net_member_epilogue = 16, // norm, residual, act, slope
    net_member_axis = 32,
    net_member_order = 64,
    net_member_range = 128,
    net_member_conv = 256, // bias, pairs
    net_member_epsilon = 512,
    net_member_choice = 1024, // threshold, or_equal
    net_member_prune = 2048,  // channel, most
    net_member_repeat = 4096,
    net_member_groups = 8192,
};

// One source, no members of its own, no parameters; a row of the source's channels for each voxel
// of the source's set, in the source's format.
struct net_op_base {
    enum { known = true };
    enum { members = 0 };    // of net_member
    enum { floats = false }; // its features are never int8
};

struct net_op_unknown : net_op_base {
    enum { known = false }; // it is neither planned nor run
};

// ---- planning -----------------------------------------------------------------------------------

// Refuses what the operation cannot do. The sources have been planned.
SPIRA_API status net_op_check(net_op_base, const net_plan *, int) {
    return status_success();
}

// Finds or adds the output set.
SPIRA_API status net_op_set(net_op_base, net_plan *p, int i, int *set) {
    *set = net_source_set(p, net_number(p->layers[i].source));
    return status_success();
}

// What a layer requires of the features that it reads (i8.h). Those of its own are decided: int8 or
// not.
enum net_wish : unsigned {
    net_wish_none, // it reads either
    net_wish_float = 1,
    net_wish_i8 = 2,
    net_wish_small = 4, // it reads either, and int8 is less
};

// residual: of the features that it adds, not of its sources
SPIRA_API unsigned net_op_wish(net_op_base, const net_plan *, int, bool residual) {
    (void)residual;
    return net_wish_float;
}

// Fills step->type, which says numeric_i8 before where i8.h has decided for int8. On the host
// others are fp32. fp32 and tf32 are stored alike: an operation on one reads features of the other.
SPIRA_API status net_op_type(net_op_base, net_plan *p, int i) {
    const numeric type = net_type_wanted(p, i);
    const net_reads reads = net_reads_of(&p->layers[i]);
    for (int layer : reads.layer) {
        const numeric from = layer == net_none ? type : net_type_of(p, layer);
        if (from != type && (numeric_size(from) == 2 || numeric_size(type) == 2) &&
            from != numeric_i8) {
            return net_fault("format (another one than its source's: only dense maps convert)", i);
        }
    }
    p->step[i].type = p->step[i].type == numeric_i8 ? numeric_i8 : type;
    return status_success();
}

// Fills step->shape and step->channels. Sets and map are there.
SPIRA_API status net_op_shape(net_op_base, net_plan *p, int i) {
    net_step *step = &p->step[i];
    step->channels = step->shape.cin = step->shape.cout =
        net_source_channels(p, net_number(p->layers[i].source));
    step->shape.volume = step->map == net_none ? 1 : p->map[step->map].volume;
    step->shape.type = step->type;
    return status_success();
}

// Refuses an activation that is none, and a residual that does not fit.
SPIRA_API status net_check_act(const net_layer *l, int i) {
    if (l->act < activation_none || l->act >= activation_count) {
        return net_fault("act (an unknown activation)", i);
    }
    return l->act != activation_leaky && l->slope != 0
               ? net_fault("slope (without activation_leaky)", i)
               : status_success();
}

SPIRA_API status net_check_residual(const net_plan *p, int i) {
    const int residual = net_number(p->layers[i].residual);
    return residual != net_none && (net_source_set(p, residual) != p->step[i].set ||
                                    net_source_channels(p, residual) != p->step[i].channels)
               ? net_fault("residual (of another set, or of other channels)", i)
               : status_success();
}

// With a kernel: whether the map itself is read, not its ordered layout. The shape is there.
SPIRA_API bool net_op_lists(net_op_base, const net_plan *, int) {
    return false;
}

// Where the parameters start. step->params and the shape are there.
SPIRA_API net_params net_op_params(net_op_base, const net_plan *p, int i) {
    const int64_t at = p->step[i].params;
    return {-1, -1, -1, -1, -1, at, at};
}

// Rows of the features.
SPIRA_API int64_t net_op_rows(net_op_base, const net_plan *p, int i) {
    return p->set[p->step[i].set].capacity;
}

// ---- a run on the host --------------------------------------------------------------------------

// Bytes of scratch.
SPIRA_API int64_t net_op_scratch_host(net_op_base, const net_plan *, int) {
    return 0;
}

// The arguments of an operation, as far as most have them alike.
template <typename A, typename W>
SPIRA_API A net_args(const net_plan *p, int i, const net_run_args<W> *run) {
    const voxel_set<W> outputs = net_voxels(p, p->step[i].set, run->input, run->memory);
    A args = {};
    args.in = net_in(p, p->layers[i].source, run);
    args.type = p->step[i].type;
    args.channels = p->step[i].channels;
    args.count = outputs.count;
    args.capacity = outputs.capacity;
    args.out = net_target(p, i, run);
    return args;
}

// Makes the set of a layer that opens a stage. scratch: net_op_scratch_host
template <typename W>
SPIRA_API status net_op_grow_host(net_op_base, const net_plan *, int, const net_run_args<W> *) {
    return status_success();
}

template <typename W>
SPIRA_API status net_op_run_host(net_op_base, const net_plan *, int i, const net_run_args<W> *) {
    return net_fault("op (an unknown operation)", i);
}

// ---- operations with a kernel -------------------------------------------------------------------

struct net_op_kernel : net_op_base {
    enum { members = net_member_kernel };
};

SPIRA_API status net_op_check(net_op_kernel, const net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    const struct {
        triple value;
        int most;
        const char *what[3];
    } members[] = {
        {l->size, kernel_size_max, {"size.x (1 to 15)", "size.y (1 to 15)", "size.z (1 to 15)"}},
        {l->stride,
         1 << 20,
         {"stride.x (1 to 2^20)", "stride.y (1 to 2^20)", "stride.z (1 to 2^20)"}},
        {l->dilation,
         1 << 20,
         {"dilation.x (1 to 2^20)", "dilation.y (1 to 2^20)", "dilation.z (1 to 2^20)"}},
    };
    for (const auto &m : members) {
        for (int a = 0; a < 3; ++a) {
            if (triple_at(m.value, a) < 1 || triple_at(m.value, a) > m.most) {
                return net_fault(m.what[a], i);
            }
        }
    }
    if (l->rule < net_rule_floor || l->rule > net_rule_generate) {
        return net_fault("rule (an unknown one)", i);
    }
    if (l->rule == net_rule_floor && net_triple_given(l->padding)) {
        return net_fault("padding (without net_rule_expand or net_rule_generate)", i);
    }
    return status_success();
}

SPIRA_API status net_op_set(net_op_kernel, net_plan *p, int i, int *set) {
    const net_layer *l = &p->layers[i];
    return l->rule == net_rule_generate ? net_generated_set(p, i, set)
           : l->transposed              ? net_inverse_set(p, i, set)
                                        : net_strided_set(p, i, set);
}

// The kernel map of a layer in a host run; null for the identity.
SPIRA_API const int32_t *net_map_of(const net_plan *p, int i, const void *memory) {
    const int map = p->step[i].map;
    return map == net_none ? nullptr : (const int32_t *)((const char *)memory + p->map[map].map);
}

} // namespace spira

#endif
