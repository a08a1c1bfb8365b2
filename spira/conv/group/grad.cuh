// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/group/grad.cuh: the weight gradient of depthwise and grouped convolution. Thread
// blocks add up the weights over a share of the rows; a second kernel adds up the shares in order.
//
// A thread block reads the map of 128 rows and some offsets into shared memory. Then a warp takes
// an offset at a time, lists the pairs of its column, and adds up their products in registers: a
// lane has 4 channels of a depthwise layer, otherwise 4 input by 4 output channels of a group. The
// sums of all offsets stay in shared memory from tile to tile.
#ifndef SPIRA_CONV_GROUP_GRAD_CUH
#define SPIRA_CONV_GROUP_GRAD_CUH

#include "../../workspace.h"
#include "depthwise.cuh"

namespace spira {

enum {
    group_grad_threads = 128,
    group_grad_warps = group_grad_threads / 32,
    group_tile = 128,    // rows
    group_sums = 32,     // of four weights each, of a lane, in shared memory
    group_blocks = 1584, // where there are rows enough: the load differs
};

// quads: of neighbouring weights that a lane has: 1 of a depthwise layer, otherwise 4.
SPIRA_BOTH constexpr int group_grad_span(int quads) {
    return group_sums / quads; // offsets of a thread block
}

struct group_grad_cut {
    int32_t shares, rows; // of a share
    int slices, items;    // of the weights of an offset, 4 x `quads` each; of a slice
};

SPIRA_API int group_grad_quads(const conv_group_shape *s) {
    return conv_group_depthwise(*s) ? 1 : 4;
}

SPIRA_API group_grad_cut group_grad_cut_of(const conv_group_shape *s, int32_t capacity) {
    const int64_t in = ceil_div(s->cin / s->groups, 4), out = ceil_div(s->cout / s->groups, 4);
    const int64_t items = conv_group_depthwise(*s) ? ceil_div(s->cout, 4) : s->groups * in * out;
    const int64_t slices = ceil_div(items, 32);
    const int64_t others = slices * ceil_div(s->volume, group_grad_span(group_grad_quads(s)));
    const int64_t most = ceil_div(group_blocks, others);
    const int64_t shares = max_of(min_of(ceil_div(capacity, group_tile), most), 1);
    const int64_t rows = ceil_div(capacity, shares);
    return {(int32_t)ceil_div(capacity, max_of(rows, 1)), (int32_t)rows, (int)slices,
            (int)ceil_div(items, slices)};
}

// The weights of an item: channels of the features and of the gradient, the first weight of offset
// 0, and how many channels are left in the group.
struct group_grad_item {
    int in, out, left_in, left_out;
    int64_t weight;
};

template <int quads>
SPIRA_DEVICE group_grad_item group_grad_item_of(const conv_group_shape &s, int item) {
    if constexpr (quads == 1) {
        const int c = item * 4;
        return {c, c, s.cin - c, s.cout - c, c};
    }
    const int ins = s.cin / s.groups, outs = s.cout / s.groups;
    const int wide = (ins + 3) / 4, high = (outs + 3) / 4;
    const int i = item % wide * 4, c = item / wide % high * 4, group = item / wide / high;
    return {group * ins + i, group * outs + c, ins - i, outs - c,
            (int64_t)i * s.cout + group * outs + c};
}

template <int quads>
struct group_grad_shared {
    enum { span = group_grad_span(quads) };
    float4 sum[span][quads][32];                   // of the lanes
    int32_t map[group_tile][span + 1];             // odd pitch: no bank conflicts
    group_pair list[group_grad_warps][group_tile]; // of a column: source, row of the tile
    int32_t next;                                  // offset that no warp has taken
};

// Reads the map of a tile. rows: that are there.
template <int quads>
SPIRA_DEVICE void group_grad_map(const conv_group_grad_args &a, int64_t begin, int rows, int first,
                                 group_grad_shared<quads> &shared) {
    enum { span = group_grad_span(quads), step = group_grad_threads / span };
    const int k = (int)threadIdx.x % span, volume = a.shape.volume;
    const int32_t *const from = a.map + begin * volume + first + k;
#pragma unroll 8
    for (int row = (int)threadIdx.x / span; row < group_tile; row += step) {
        const bool there = row < rows && first + k < volume;
        shared.map[row][k] = there ? from[(int64_t)row * volume] : -1;
    }
}

// Lists the pairs of column k, rows ascending.
template <int quads>
SPIRA_DEVICE int group_grad_list(const group_grad_shared<quads> &shared, int k, group_pair *list) {
    const int lane = warp_lane();
    int found = 0;
#pragma unroll
    for (int row = lane; row < group_tile; row += 32) {
        const int32_t source = shared.map[row][k];
        const uint32_t all = __ballot_sync(~0u, source >= 0);
        if (source >= 0) {
            list[found + __popc(all & ((1u << lane) - 1))] = {source, row};
        }
        found += __popc(all);
    }
    return found;
}

// Adds the products of a pair to the sums of an item.
template <typename E, int quads>
SPIRA_DEVICE void group_grad_product(const conv_quad<E> &x, const conv_quad<E> &y,
                                     float4 (&sum)[quads]) {
    if constexpr (quads == 1) {
        group_quad_add(x, y, sum[0]);
    } else {
#pragma unroll
        for (int i = 0; i < quads; ++i) {
            const conv_quad<E> same = {{x.element[i], x.element[i], x.element[i], x.element[i]}};
            group_quad_add(same, y, sum[i]);
        }
    }
}

// A lane's part of a list: each `step`-th pair.
struct group_grad_part {
    const group_pair *list;
    int pairs, step;
};

// Adds the products of a part. grads: of row 0 of the tile.
template <typename E, bool wide, int quads>
SPIRA_DEVICE void group_grad_add(const conv_group_grad_args &a, const group_grad_item &item,
                                 const E *grads, const group_grad_part &part,
                                 float4 (&sum)[quads]) {
    enum { flight = !wide ? 1 : quads == 1 && sizeof(E) == 2 ? 8 : 4 };
    const uint32_t pitch_in = (uint32_t)a.shape.cin * (uint32_t)sizeof(E);
    const uint32_t pitch_out = (uint32_t)a.shape.cout * (uint32_t)sizeof(E);
    const E *const in = group_keep((const E *)a.in + item.in);
    grads = group_keep(grads + item.out);
    const group_pair *list = part.list;
    const int step = part.step;
#pragma unroll 1
    for (int pairs = part.pairs; pairs > 0; pairs -= step * flight, list += step * flight) {
        conv_quad<E> x[flight], y[flight];
#pragma unroll
        for (int i = 0; i < flight; ++i) {
            if (i * step < pairs) {
                const group_pair pair = list[i * step];
                x[i] = conv_quad_load<E, wide>(group_row(in, pair.source, pitch_in), item.left_in);
                y[i] = conv_quad_load<E, wide>(group_row(grads, pair.weight, pitch_out),
                                               item.left_out);
            }
        }
#pragma unroll
        for (int i = 0; i < flight; ++i) {
            if (i * step < pairs) {
                group_grad_product(x[i], y[i], sum);
            }
        }
    }
}

// Writes the sums of a share, those of lanes with the same item together.
template <int quads>
SPIRA_DEVICE void group_grad_store(const conv_group_grad_args &a, const group_grad_cut &cut,
                                   const group_grad_shared<quads> &shared, float *parts) {
    enum { span = group_grad_span(quads) };
    const conv_group_shape &s = a.shape;
    const int first = (int)blockIdx.z * span, offsets = min((int)span, s.volume - first);
    const int64_t offset = (int64_t)(s.cin / s.groups) * s.cout; // weights
    float *const to = parts + (blockIdx.x * (int64_t)s.volume + first) * offset;
    for (int at = (int)threadIdx.x; at < offsets * cut.items; at += group_grad_threads) {
        const int k = at / cut.items, own = at % cut.items;
        const group_grad_item item =
            group_grad_item_of<quads>(s, (int)blockIdx.y * cut.items + own);
#pragma unroll
        for (int i = 0; i < quads; ++i) {
            float sum[4] = {};
            for (int lane = own; lane < 32 / cut.items * cut.items; lane += cut.items) {
                const float4 v = shared.sum[k][i][lane];
                sum[0] += v.x;
                sum[1] += v.y;
                sum[2] += v.z;
                sum[3] += v.w;
            }
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                if (item.out < s.cout && i < item.left_in && e < item.left_out) {
                    to[k * offset + item.weight + (int64_t)i * s.cout + e] = sum[e];
                }
            }
        }
    }
}

// parts [shares, weights]. Thread blocks: x shares, y slices of an offset's weights, z offsets. As
// many lanes as there is room for have the same item: each adds up a part of a column's pairs.
template <typename E, bool wide, int quads>
SPIRA_KERNEL void __launch_bounds__(group_grad_threads,
                                    quads == 1 && std::is_same_v<E, __half> ? 6 : 5)
    group_grad_kernel(const __grid_constant__ conv_group_grad_args a, const group_grad_cut cut,
                      float *parts) {
    enum { span = group_grad_span(quads) };
    __shared__ group_grad_shared<quads> shared;
    const int lane = warp_lane(), warp = (int)threadIdx.x / 32;
    const int first = (int)blockIdx.z * span, offsets = min((int)span, a.shape.volume - first);
    const int step = 32 / cut.items, own = lane / cut.items;
    const group_grad_item item =
        group_grad_item_of<quads>(a.shape, (int)blockIdx.y * cut.items + lane % cut.items);
    const bool idle = own >= step || item.out >= a.shape.cout;
    const int64_t begin = (int64_t)blockIdx.x * cut.rows;
    const int64_t end = min_of(begin + cut.rows, count_clamp(*a.count, a.capacity));
    for (int at = warp; at < group_sums; at += group_grad_warps) {
        shared.sum[at / quads][at % quads][lane] = make_float4(0, 0, 0, 0);
    }
#pragma unroll 1
    for (int64_t row = begin; row < end; row += group_tile) {
        __syncthreads(); // the tile before has been read
        group_grad_map(a, row, (int)min_of(end - row, group_tile), first, shared);
        if (threadIdx.x == 0) {
            shared.next = 0;
        }
        __syncthreads();
        for (;;) {
            int taken = lane == 0 ? atomicAdd(&shared.next, 1) : 0;
            taken = __shfl_sync(~0u, taken, 0);
            if (taken >= offsets) {
                break;
            }
            const int k = (offsets / 2 + taken) % offsets; // that of the outputs themselves first
            const group_pair *const list = shared.list[warp];
            const int pairs = group_grad_list(shared, k, shared.list[warp]);
            __syncwarp();
            float4 sum[quads];
#pragma unroll
            for (int i = 0; i < quads; ++i) {
                sum[i] = shared.sum[k][i][lane];
            }
            group_grad_add<E, wide>(a, item, (const E *)a.out_grad + row * a.shape.cout,
                                    {list + own, idle ? 0 : pairs - own, step}, sum);
#pragma unroll
            for (int i = 0; i < quads; ++i) {
                shared.sum[k][i][lane] = sum[i];
            }
            __syncwarp(); // the list has been read
        }
    }
    __syncthreads();
    group_grad_store(a, cut, shared, parts);
}

// ---- shares -------------------------------------------------------------------------------------

// parts [shares, total]. A warp of a thread block adds up each eighth share of 32 weights.
SPIRA_PLAIN_KERNEL void __launch_bounds__(group_threads)
    group_grad_join_kernel(const float *parts, int32_t shares, int64_t total, float *weight_grad) {
    __shared__ float sums[group_warps][32];
    const int lane = warp_lane(), warp = (int)threadIdx.x / 32;
    const int64_t w = (int64_t)blockIdx.x * 32 + lane;
    float sum = 0;
    if (w < total) {
#pragma unroll 8
        for (int32_t i = warp; i < shares; i += group_warps) {
            sum += parts[i * total + w];
        }
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && w < total) {
        for (int i = 1; i < group_warps; ++i) {
            sum += sums[i][lane];
        }
        weight_grad[w] = sum;
    }
}

template <typename E, int quads>
SPIRA_API status group_grad_launch(const conv_group_grad_args *a, float *parts,
                                   cudaStream_t stream) {
    const char *const subject = "conv_group_grad_weight";
    const conv_group_shape &s = a->shape;
    const group_grad_cut cut = group_grad_cut_of(&s, a->capacity);
    const int64_t total = conv_group_weights(s);
    const int divides = quads == 1 ? s.cout : (s.cin / s.groups) | (s.cout / s.groups);
    const bool wide = divides % 4 == 0 && wide_aligned(a->in, 4 * sizeof(E)) &&
                      wide_aligned(a->out_grad, 4 * sizeof(E));
    const dim3 blocks((unsigned)cut.shares, (unsigned)cut.slices,
                      (unsigned)ceil_div(s.volume, group_grad_span(quads)));
    SPIRA_TRY(
        kernel_launch(wide ? group_grad_kernel<E, true, quads> : group_grad_kernel<E, false, quads>,
                      {blocks, group_grad_threads, stream, subject}, *a, cut, parts));
    return kernel_launch(group_grad_join_kernel<>,
                         {(unsigned)ceil_div(total, 32), group_threads, stream, subject}, parts,
                         cut.shares, total, a->weight_grad);
}

} // namespace spira

#endif
