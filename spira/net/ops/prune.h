// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/prune.h: the voxels that features choose, as a layer.
#ifndef SPIRA_NET_OPS_PRUNE_H
#define SPIRA_NET_OPS_PRUNE_H

#include "../../choose.h"
#include "../../rows.h"
#include "base.h"

namespace spira {

struct net_op_prune : net_op_base {
    enum {
        members = net_member_source2 | net_member_choice | net_member_prune,
        floats = true,
    };
};

// Of prune and children: the scores belong to the voxels of the source.
SPIRA_API status net_check_scores(const net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    const int scores = net_number(l->source2);
    if (!float_is_finite(l->threshold)) {
        return net_fault("threshold (not finite)", i);
    }
    return scores != net_none &&
                   net_source_set(p, scores) != net_source_set(p, net_number(l->source))
               ? net_fault("source2 (scores of another set than source)", i)
               : status_success();
}

SPIRA_API status net_op_check(net_op_prune, const net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    if (net_number(l->source2) == net_none) {
        return net_fault("source2 (there are no scores)", i);
    }
    if (l->most < 0) {
        return net_fault("most (a negative number)", i);
    }
    if (l->most && (l->threshold != 0 || l->or_equal)) {
        return net_fault("threshold (beside most)", i);
    }
    return net_check_scores(p, i);
}

SPIRA_API status net_op_set(net_op_prune, net_plan *p, int i, int *set) {
    const net_layer *l = &p->layers[i];
    const net_set *from = &p->set[p->step[i].source_set];
    const int64_t most =
        l->most && p->limits.batch ? (int64_t)l->most * p->limits.batch : INT32_MAX;
    net_set node = {};
    node.by = net_set_pruned;
    node.stride = from->stride;
    node.grid = from->grid;
    node.channel = l->channel;
    node.most = l->most;
    return net_chosen_set(p, i, &node, min_of(from->capacity, most), set);
}

SPIRA_API status net_op_shape(net_op_prune, net_plan *p, int i) {
    const int channels = net_source_channels(p, net_number(p->layers[i].source2));
    return p->layers[i].channel < 0 || p->layers[i].channel >= channels
               ? net_fault("channel (source2 has fewer)", i)
               : net_op_shape(net_op_base(), p, i);
}

// Rows of the source, of `channels` each, to those of the chosen voxels.
template <typename W>
SPIRA_API row_gather_args net_gather_args(const net_plan *p, int i, int64_t in_rows, int repeat,
                                          const net_run_args<W> *run) {
    row_gather_args args = net_args<row_gather_args>(p, i, run);
    args.in_rows = in_rows;
    args.channels /= repeat;
    args.repeat = repeat;
    args.source = net_set_rows(&p->set[p->step[i].set], run->memory);
    return args;
}

template <typename W>
SPIRA_API row_gather_args net_gather_args(net_op_prune, const net_plan *p, int i,
                                          const net_run_args<W> *run) {
    return net_gather_args(p, i, p->set[p->step[i].source_set].capacity, 1, run);
}

// The mask of the largest, at the front of the scratch.
template <typename W>
SPIRA_API choose_largest_args<W> net_largest_args(const net_plan *p, const prune_args<W> *prune,
                                                  int32_t most, void *scratch) {
    choose_largest_args<W> args = {};
    args.set = prune->in;
    args.layout = &p->layout;
    args.scores = prune->choice.scores;
    args.type = prune->choice.type;
    args.channels = prune->choice.channels;
    args.channel = prune->channel;
    args.most = most;
    args.mask = (uint8_t *)scratch;
    args.trouble = prune->trouble;
    return args;
}

SPIRA_API int64_t net_mask_bytes(int32_t capacity) {
    return round_up(capacity, workspace_alignment);
}

// A mask, and the scratch of choose_largest_host.

SPIRA_API int64_t net_op_scratch_host(net_op_prune, const net_plan *p, int i) {
    const int32_t capacity = p->set[p->step[i].source_set].capacity;
    const int64_t sorted = round_up((int64_t)sizeof(uint64_t) * capacity, workspace_alignment);
    return p->layers[i].most ? net_mask_bytes(capacity) + sorted : 0;
}

template <typename W>
SPIRA_API status net_op_grow_host(net_op_prune, const net_plan *p, int i,
                                  const net_run_args<W> *run) {
    prune_args<W> args = net_prune_args(p, p->step[i].set, run);
    if (p->layers[i].most) {
        char *const mask = (char *)run->memory + p->scratch;
        const size_t bytes = (size_t)net_mask_bytes(args.in.capacity);
        const choose_largest_args<W> largest = net_largest_args(p, &args, p->layers[i].most, mask);
        SPIRA_TRY(choose_largest_host(&largest, mask + bytes, p->scratch_bytes - bytes));
        args.choice = {};
        args.choice.mask = largest.mask;
        args.channel = 0;
    }
    return prune_host(&args);
}

template <typename W>
SPIRA_API status net_op_run_host(net_op_prune op, const net_plan *p, int i,
                                 const net_run_args<W> *run) {
    const row_gather_args args = net_gather_args(op, p, i, run);
    return row_gather_host(&args);
}

} // namespace spira

#endif
