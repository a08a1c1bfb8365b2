// spira/conv_pairs.cuh: convolution over lists of pairs on the GPU (weight-stationary dataflow).
//
// Two forms. Both walk the lists offset by offset, a unit of up to 16 pairs (or 32) at a time: the
// 16 rows are multiplied by the weights of the offset, which stay where they are as long as the
// offset does: in registers for few input channels (pairs_near_chunks), else in the L1 cache.
//
//   atomic   One launch over all lists. The units of all offsets are numbered; each part of the
//            grid takes an equal share of them, whatever the lengths of the lists. What they give
//            is added to fp32 sums in memory. A launch before it clears the sums and counts the
//            units, one behind it is the epilogue.
//   stripes  One launch, deterministic. Each block owns a stripe of consecutive outputs, as many
//            as its shared memory has room for, and walks the part of each list that falls in it:
//            targets ascend, so that two searches find it. Within an offset no output comes twice;
//            between two offsets the warps wait for each other. Offsets are added in ascending
//            order, then the epilogue follows where the sums are.
//
// Bytes that the sums cost: the atomic form clears and reads 8 for each output and channel, and
// adds 4 for each pair and channel at the L2 cache. Storing the products of all pairs instead and
// adding them up afterwards, or a launch for each offset, would write and read 8 for each pair and
// channel; stripes move none, but read the weights again for each stripe. Stripes also need no
// scratch. Where an offset has few pairs in a stripe, units are not full: the sparser the lists,
// the better the atomic form.
#ifndef SPIRA_CONV_PAIRS_CUH
#define SPIRA_CONV_PAIRS_CUH

#include "conv.cuh"
#include "conv_pairs.h"

#include <cub/block/block_scan.cuh>

namespace spira {

enum pairs_form : int { pairs_form_atomic, pairs_form_stripes };

enum {
    pairs_threads = 256, // of the kernels beside the walk
    pairs_warps = 8,     // of a block that walks on tensor cores
    pairs_batch = 256,   // offsets whose part in a stripe is looked up at a time
};

// What the kernels know of a convolution.
struct pairs_params {
    conv_tensor_params conv; // sources, weights, outputs, epilogue; no layout
    map_pairs pairs;
    pairs_sides sides;
    int32_t *first;    // [volume + 1] units before each list: of the atomic form
    float *sums;       // [capacity, pitch], or null
    int pitch;         // floats of a row of sums
    int unit;          // its pairs
    int stripe;        // rows of a stripe
    int slices, parts; // of a block: slices of the output channels, warps that share one
    bool begin, leave; // from the sums that are there; as sums
    bool tf32;         // plain multiply-adds round to it
};

SPIRA_DEVICE int32_t pairs_rows(const pairs_params &p) {
    return max(min(*p.conv.count, p.conv.capacity), 0);
}

// ---- before the walk: sums at zero, units counted -----------------------------------------------

SPIRA_DEVICE void pairs_count_units(const pairs_params &p, int32_t rows) {
    typedef cub::BlockScan<int32_t, pairs_threads> scan;
    __shared__ scan::TempStorage storage;
    int32_t before = 0;
    for (int first = 0; first < p.conv.volume; first += pairs_threads) {
        int k = first + (int)threadIdx.x;
        int32_t units = 0, total;
        if (k < p.conv.volume) {
            pairs_span list = pairs_span_of(&p.pairs, p.conv.volume, p.sides, rows, k);
            units = (list.count + p.unit - 1) / p.unit;
        }
        scan(storage).ExclusiveSum(units, units, total);
        if (k < p.conv.volume) {
            p.first[k] = before + units;
        }
        before += total;
        __syncthreads(); // the storage is used again
    }
    if (threadIdx.x == 0) {
        p.first[p.conv.volume] = before;
    }
}

SPIRA_KERNEL void __launch_bounds__(pairs_threads)
    pairs_begin_kernel(const __grid_constant__ pairs_params p) {
    int32_t rows = pairs_rows(p);
    if (blockIdx.x == 0) {
        pairs_count_units(p, rows);
    }
    int64_t quads = p.begin ? 0 : (int64_t)rows * p.pitch / 4;
    int64_t step = (int64_t)gridDim.x * pairs_threads;
    for (int64_t i = (int64_t)blockIdx.x * pairs_threads + threadIdx.x; i < quads; i += step) {
        ((float4 *)p.sums)[i] = make_float4(0, 0, 0, 0);
    }
}

// ---- the walk over units ------------------------------------------------------------------------

// A part of an offset's list.
struct pairs_segment {
    int32_t offset, from, count;
};

// The lists that are walked, and how many units are before each.
struct pairs_table {
    const int32_t *first;         // [lists + 1]
    const pairs_segment *segment; // [lists], or null: the lists of all offsets, whole
    int lists;
};

// Where a warp is: the same in all of its lanes.
struct pairs_cursor {
    pairs_table table;
    int32_t unit, end, step; // the next unit, and how it goes on
    int list;
    int32_t behind; // units before the next list
    int offset;     // negative: the walk is over
    int32_t from;   // where the list's part starts
    int32_t count;  // pairs of the part
    int32_t at;     // the first one of this unit
};

// Starts at a list that is not behind the one of `unit`: within 1/32 of all lists. A whole warp.
SPIRA_DEVICE pairs_cursor pairs_cursor_make(const pairs_table &table, int32_t unit, int32_t end,
                                            int32_t step) {
    pairs_cursor c = {};
    c.table = table;
    c.unit = unit;
    c.end = end;
    c.step = step;
    int stride = (table.lists + 31) / 32, at = (int)threadIdx.x % 32 * stride;
    uint32_t not_behind = __ballot_sync(~0u, at < table.lists && table.first[at] <= unit);
    c.list = max(31 - __clz((int)not_behind), 0) * stride;
    return c;
}

// Goes on to the list of c.unit, which is there. A whole warp.
SPIRA_DEVICE void pairs_cursor_open(const pairs_params &p, int32_t rows, pairs_cursor &c) {
    const pairs_table &t = c.table;
    for (uint32_t behind = 0;; c.list += 32) {
        int next = c.list + 1 + (int)threadIdx.x % 32;
        behind = __ballot_sync(~0u, next >= t.lists || t.first[next] > c.unit);
        if (behind) {
            c.list += __ffs((int)behind) - 1;
            break;
        }
    }
    c.offset = t.segment ? t.segment[c.list].offset : c.list;
    pairs_span span = pairs_span_of(&p.pairs, p.conv.volume, p.sides, rows, c.offset);
    c.behind = t.first[c.list + 1];
    c.from = span.begin + (t.segment ? t.segment[c.list].from : 0);
    c.count = t.segment ? t.segment[c.list].count : span.count;
}

// Goes to the next unit.
SPIRA_DEVICE void pairs_cursor_step(const pairs_params &p, int32_t rows, int pairs,
                                    pairs_cursor &c) {
    if (c.unit >= c.end) {
        c.offset = -1;
        c.count = c.at = 0;
        return;
    }
    if (c.unit >= c.behind) {
        pairs_cursor_open(p, rows, c);
    }
    c.at = (c.unit - c.table.first[c.list]) * pairs;
    c.unit += c.step;
}

// The rows of pair j of the part; none: -1.
SPIRA_DEVICE int32_t pairs_source(const pairs_params &p, const pairs_cursor &c, int32_t j) {
    const int32_t *rows = pairs_sources(&p.pairs, p.conv.volume, p.sides, c.offset);
    return j >= c.count ? -1 : rows ? rows[c.from + j] : c.from + j;
}

SPIRA_DEVICE int32_t pairs_target(const pairs_params &p, const pairs_cursor &c, int32_t j) {
    const int32_t *rows = pairs_targets(&p.pairs, p.conv.volume, p.sides, c.offset);
    return j >= c.count ? -1 : rows ? rows[c.from + j] : c.from + j;
}

// What a lane knows of a unit: of each group of 16 pairs the sources and targets of pairs g and
// g + 8 (g = lane / 4).
template <int groups>
struct pairs_unit {
    conv_pairs group[groups];
    int list, offset; // negative offset: there is none
    int32_t left;     // pairs from its first on
};

template <int groups>
SPIRA_DEVICE void pairs_unit_next(const pairs_params &p, int32_t rows, pairs_cursor &c,
                                  pairs_unit<groups> &unit) {
    pairs_cursor_step(p, rows, tile_group * groups, c);
    unit.list = c.list;
    unit.offset = c.offset;
    unit.left = c.count - c.at;
#pragma unroll
    for (int i = 0; i < 2 * groups; ++i) {
        int32_t j = c.at + i * 8 + (int)threadIdx.x % 32 / 4;
        unit.group[i / 2].source[i % 2] = pairs_source(p, c, j);
        unit.group[i / 2].row[i % 2] = (uint32_t)pairs_target(p, c, j);
    }
}

// ---- sums ---------------------------------------------------------------------------------------

// To whom a warp adds. A lane has four neighbouring channels of each 16: see pairs_weights_of.
struct pairs_task {
    uint32_t first_row, rows; // of the targets
    uint32_t shared;          // stripes: address of the sums of the warp's slice
    float *sums;              // atomic: the lane's first channel of row 0
    int channels;             // atomic: from the lane's first on
    int passed;               // stripes: lists that all warps of the block are done with
};

// All threads of a block that has a stripe.
SPIRA_DEVICE void pairs_stripe_sync() {
    named_barrier_sync_divergent(1, (int)blockDim.x);
}

// The warps of a block wait for each other before they add to sums that others have added to.
SPIRA_DEVICE void pairs_pass(pairs_task &task, int list) {
    for (; task.passed < list; ++task.passed) {
        pairs_stripe_sync();
    }
}

// Adds four floats at a multiple of 16 bytes in global memory. Subnormal sums become zero.
SPIRA_DEVICE void pairs_add(float *to, float4 v) {
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.x), "f"(v.y),
                 "f"(v.z), "f"(v.w)
                 : "memory");
#else
    atomicAdd(to, v.x);
    atomicAdd(to + 1, v.y);
    atomicAdd(to + 2, v.z);
    atomicAdd(to + 3, v.w);
#endif
}

// Where a lane has the first four channels of a row of the stripe; the next 16 channels stand at
// this, xor 64. The order is that of conv/tile.cuh.
template <int blocks>
SPIRA_DEVICE uint32_t pairs_place(const pairs_task &task, uint32_t row) {
    return task.shared + (row * (blocks * 32) + (threadIdx.x % 4 * 16 ^ conv_swizzle<blocks>(row)));
}

// Begins the sums of a group of 16 pairs: at zero, or in a stripe at what its outputs have. What is
// not there reads the row behind the stripe's, which nobody sets and nobody writes.
template <int blocks, bool stripes>
SPIRA_DEVICE void pairs_sums_begin(const pairs_task &task, const conv_pairs &group,
                                   conv_sums<blocks> &sum) {
    __syncwarp(); // matrix instructions follow
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        uint32_t row = min(group.row[h] - task.first_row, task.rows);
#pragma unroll
        for (int q = 0; q < blocks / 2; ++q) {
            uint4 v = make_uint4(0, 0, 0, 0);
            if (stripes) {
                v = shared_load_4(pairs_place<blocks>(task, row) ^ (uint32_t)(q * 64));
            }
            sum.at[2 * q][2 * h] = __uint_as_float(v.x);
            sum.at[2 * q][2 * h + 1] = __uint_as_float(v.y);
            sum.at[2 * q + 1][2 * h] = __uint_as_float(v.z);
            sum.at[2 * q + 1][2 * h + 1] = __uint_as_float(v.w);
        }
    }
}

// And hands them over.
template <int blocks, bool stripes>
SPIRA_DEVICE void pairs_sums_end(const pairs_params &p, const pairs_task &task,
                                 const conv_pairs &group, const conv_sums<blocks> &sum) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        uint32_t row = group.row[h] - task.first_row;
        if (row >= task.rows) {
            continue;
        }
#pragma unroll
        for (int q = 0; q < blocks / 2; ++q) {
            float4 v = make_float4(sum.at[2 * q][2 * h], sum.at[2 * q][2 * h + 1],
                                   sum.at[2 * q + 1][2 * h], sum.at[2 * q + 1][2 * h + 1]);
            if (stripes) {
                shared_store_4(pairs_place<blocks>(task, row) ^ (uint32_t)(q * 64),
                               make_uint4(__float_as_uint(v.x), __float_as_uint(v.y),
                                          __float_as_uint(v.z), __float_as_uint(v.w)));
            } else if (q * 16 < task.channels) {
                pairs_add(task.sums + (int64_t)row * p.pitch + q * 16, v);
            }
        }
    }
}

// ---- products -----------------------------------------------------------------------------------

// Where a lane finds its weights. The columns of two blocks are dealt out so that a lane, which
// gets columns 2 t and 2 t + 1 of each block (t = lane % 4), has channels 4 t .. 4 t + 3 of the 16:
// column n of the first block is channel n / 2 * 4 + n % 2, of the second one two channels more.
template <int blocks>
SPIRA_DEVICE conv_weights pairs_weights_of(const pairs_params &p, int slice) {
    int lane = threadIdx.x % 32, column = lane / 4 / 2 * 4 + lane / 4 % 2; // of 16
    conv_weights w;
    w.chunk_bytes = conv_blocks(p.conv.cout) * conv_part_bytes;
    w.offset_bytes = p.conv.chunks * w.chunk_bytes;
    w.own = (const char *)p.conv.weights + slice * blocks * conv_part_bytes +
            column * (4 * conv_lane_bytes) + lane % 4 * conv_lane_bytes;
    return w;
}

template <int blocks>
SPIRA_DEVICE void pairs_weights_load(const conv_weights &weights, int offset, int chunk,
                                     uint4 (&to)[blocks]) {
    const char *from =
        weights.own + (int64_t)offset * weights.offset_bytes + chunk * weights.chunk_bytes;
#pragma unroll
    for (int m = 0; m < blocks; ++m) {
        to[m] = __ldg(
            (const uint4 *)(from + m / 2 * (2 * conv_part_bytes) + m % 2 * (8 * conv_lane_bytes)));
    }
}

// Few chunks of input channels: the weights of an offset stay in registers, the rows of two units
// are under way.
template <typename E, int blocks, int chunks, conv_rows lie, bool stripes>
SPIRA_DEVICE void pairs_walk_near(const pairs_params &p, pairs_task &task, pairs_cursor c,
                                  const conv_weights &weights, int32_t rows) {
    enum { ahead = 2 };
    const conv_source in = conv_source_of(p.conv, 0, sizeof(E));
    pairs_unit<1> coming[ahead], now[ahead];
    uint4 part[ahead][chunks][2], own[chunks][blocks];
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        pairs_unit_next(p, rows, c, now[i]);
#pragma unroll
        for (int j = 0; j < chunks; ++j) { // channels behind the last are never read
            part[i][j][0] = part[i][j][1] = make_uint4(0, 0, 0, 0);
        }
        conv_rows_load<E, chunks, lie>(p.conv, in, 0, now[i].group[0], part[i]);
    }
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        pairs_unit_next(p, rows, c, coming[i]);
    }
    for (int offset = -1;;) { // whose weights these are
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            if (now[i].offset < 0) {
                return;
            }
            if (now[i].offset != offset) {
                offset = now[i].offset;
                pairs_weights_load<blocks>(weights, offset, 0, own[0]);
                if (chunks > 1 && p.conv.chunks > 1) {
                    pairs_weights_load<blocks>(weights, offset, 1, own[chunks - 1]);
                }
            }
            if (stripes) {
                pairs_pass(task, now[i].list);
            }
            conv_sums<blocks> sum;
            pairs_sums_begin<blocks, stripes>(task, now[i].group[0], sum);
            conv_multiply_chunk<E, blocks>(part[i][0][0], part[i][0][1], own[0], sum);
            if (chunks > 1 && p.conv.chunks > 1) {
                conv_multiply_chunk<E, blocks>(part[i][chunks - 1][0], part[i][chunks - 1][1],
                                               own[chunks - 1], sum);
            }
            pairs_sums_end<blocks, stripes>(p, task, now[i].group[0], sum);
            now[i] = coming[i];
            conv_rows_load<E, chunks, lie>(p.conv, in, 0, now[i].group[0], part[i]);
            pairs_unit_next(p, rows, c, coming[i]);
        }
    }
}

// Rows and weights of one chunk.
template <int groups, int blocks>
struct pairs_operands {
    uint4 part[groups][1][2], weights[blocks];
};

template <typename E, int groups, int blocks, conv_rows lie>
SPIRA_DEVICE void pairs_operands_load(const pairs_params &p, const pairs_unit<groups> &unit,
                                      const conv_weights &weights, int chunk,
                                      pairs_operands<groups, blocks> &to) {
    if (unit.offset < 0 || chunk >= p.conv.chunks) {
        return;
    }
    pairs_weights_load<blocks>(weights, unit.offset, chunk, to.weights);
    const conv_source in = conv_source_of(p.conv, chunk, sizeof(E));
#pragma unroll
    for (int i = 0; i < groups; ++i) { // channels behind the last must not be old ones
        to.part[i][0][0] = to.part[i][0][1] = make_uint4(0, 0, 0, 0);
        conv_rows_load<E, 1, lie>(p.conv, in, chunk, unit.group[i], to.part[i]);
    }
}

template <typename E, int groups, int blocks>
SPIRA_DEVICE void pairs_operands_multiply(const pairs_operands<groups, blocks> &by, int32_t left,
                                          conv_sums<blocks> (&sum)[groups]) {
#pragma unroll
    for (int i = 0; i < groups; ++i) {
        if (i == 0 || left > i * tile_group) {
            conv_multiply_chunk<E, blocks>(by.part[i][0][0], by.part[i][0][1], by.weights, sum[i]);
        }
    }
}

// Any number of chunks: the sums stay in registers from the first to the last. Two chunks are under
// way, behind the last one of a unit the first of the next unit.
template <typename E, int blocks, int groups, conv_rows lie, bool stripes>
SPIRA_DEVICE void pairs_walk_deep(const pairs_params &p, pairs_task &task, pairs_cursor c,
                                  const conv_weights &weights, int32_t rows) {
    const int chunks = p.conv.chunks;
    pairs_unit<groups> now, coming;
    pairs_operands<groups, blocks> even, odd;
    pairs_unit_next(p, rows, c, now);
    pairs_operands_load<E, groups, blocks, lie>(p, now, weights, 0, even);
    pairs_operands_load<E, groups, blocks, lie>(p, now, weights, 1, odd);
    pairs_unit_next(p, rows, c, coming);
    while (now.offset >= 0) {
        if (stripes) {
            pairs_pass(task, now.list);
        }
        conv_sums<blocks> sum[groups];
#pragma unroll
        for (int i = 0; i < groups; ++i) {
            pairs_sums_begin<blocks, stripes>(task, now.group[i], sum[i]);
        }
#pragma unroll 1
        for (int chunk = 0; chunk < chunks; chunk += 2) {
            const bool last = chunk + 2 >= chunks;
            const int next = last ? 0 : chunk + 2;
            pairs_operands_multiply<E, groups, blocks>(even, now.left, sum);
            pairs_operands_load<E, groups, blocks, lie>(p, last ? coming : now, weights, next,
                                                        even);
            if (chunk + 1 < chunks) {
                pairs_operands_multiply<E, groups, blocks>(odd, now.left, sum);
            }
            pairs_operands_load<E, groups, blocks, lie>(p, last ? coming : now, weights, next + 1,
                                                        odd);
        }
#pragma unroll
        for (int i = 0; i < groups; ++i) {
            pairs_sums_end<blocks, stripes>(p, task, now.group[i], sum[i]);
        }
        now = coming;
        pairs_unit_next(p, rows, c, coming);
    }
}

// Chunks up to which weights stay in registers; there is more to keep in those of a stripe.
SPIRA_BOTH constexpr int pairs_near_chunks(bool stripes) {
    return stripes ? 1 : 2;
}

// Groups of a unit.
SPIRA_BOTH constexpr int pairs_groups(bool deep, bool stripes) {
    return deep && !stripes ? 2 : 1;
}

template <typename E, int blocks, bool deep, conv_rows lie, bool stripes>
SPIRA_DEVICE void pairs_walk(const pairs_params &p, pairs_task &task, const pairs_cursor &c,
                             int slice, int32_t rows) {
    const conv_weights weights = pairs_weights_of<blocks>(p, slice);
    if constexpr (deep) {
        pairs_walk_deep<E, blocks, pairs_groups(true, stripes), lie, stripes>(p, task, c, weights,
                                                                              rows);
    } else {
        pairs_walk_near<E, blocks, pairs_near_chunks(stripes), lie, stripes>(p, task, c, weights,
                                                                             rows);
    }
}

// ---- stripes ------------------------------------------------------------------------------------

// The parts of some lists that fall in a stripe, those that are empty left out. In shared memory.
struct pairs_stripe {
    int32_t first[pairs_batch + 1];
    pairs_segment segment[pairs_batch];
    int lists;
};

// How many of targets [count], ascending, are below `row`; null: of 0, 1, ... Four neighbouring
// lanes share a search; a whole warp.
SPIRA_DEVICE int32_t pairs_search(const int32_t *targets, int32_t count, int32_t row) {
    int lane = threadIdx.x % 32;
    int64_t low = 0, high = count;
    while (__any_sync(~0u, low < high)) {
        int64_t wide = high - low, at = low + wide * (lane % 4 + 1) / 5;
        bool below = low < high && (targets ? targets[at] : at) < row;
        int steps = __popc(__ballot_sync(~0u, below) >> (lane & ~3) & 15);
        high = steps < 4 ? low + wide * (steps + 1) / 5 : high;
        low = steps > 0 ? low + wide * steps / 5 + 1 : low;
    }
    return (int32_t)low;
}

// Leaves empty parts out and counts units. Reads `count` as the end of a part. One warp.
SPIRA_DEVICE void pairs_stripe_pack(int first, int lists, int unit, pairs_stripe *s) {
    int lane = threadIdx.x % 32, kept = 0;
    int32_t before = 0;
    for (int i = lane; i - lane < lists; i += 32) {
        pairs_segment part = {first + i, 0, 0};
        if (i < lists) {
            part.from = s->segment[i].from;
            part.count = s->segment[i].count - part.from;
        }
        int32_t units = (max(part.count, 0) + unit - 1) / unit, sum = warp_sum_up_to(units);
        uint32_t has = __ballot_sync(~0u, units > 0);
        __syncwarp();    // what is overwritten has been read
        if (units > 0) { // never behind what is still to be read
            int at = kept + __popc(has & ((1u << lane) - 1));
            s->segment[at] = part;
            s->first[at] = before + sum - units;
        }
        kept += __popc(has);
        before += __shfl_sync(~0u, sum, 31);
    }
    if (lane == 0) {
        s->first[kept] = before;
        s->lists = kept;
    }
}

// Looks up the parts of offsets [first, first + lists). All threads of the block.
SPIRA_DEVICE void pairs_stripe_find(const pairs_params &p, int32_t rows, int32_t first_row,
                                    int32_t there, int first, int lists, pairs_stripe *s) {
    for (int i = 0; i < 2 * lists; i += (int)blockDim.x / 4) {
        int search = i + (int)threadIdx.x / 4;
        int k = first + min(search / 2, lists - 1);
        pairs_span list = pairs_span_of(&p.pairs, p.conv.volume, p.sides, rows, k);
        const int32_t *targets = pairs_targets(&p.pairs, p.conv.volume, p.sides, k);
        int32_t at = pairs_search(targets ? targets + list.begin : nullptr, list.count,
                                  first_row + (search % 2 ? there : 0));
        if (search < 2 * lists && threadIdx.x % 4 == 0) {
            pairs_segment *part = s->segment + search / 2;
            *(search % 2 ? &part->count : &part->from) = at;
        }
    }
    pairs_stripe_sync();
    if (threadIdx.x < 32) {
        pairs_stripe_pack(first, lists, p.unit, s);
    }
    pairs_stripe_sync();
}

// Walks all lists of the block's stripe, for the warps of which `part` of p.parts share a slice.
// active: a warp without channels only waits with the others. walk(task, cursor): walks.
template <typename F>
SPIRA_DEVICE void pairs_stripe_walk(const pairs_params &p, int32_t rows, int part, bool active,
                                    pairs_task task, pairs_stripe *s, F walk) {
    for (int first = 0; first < p.conv.volume; first += pairs_batch) {
        if (first) {
            pairs_stripe_sync(); // who still reads the parts of the lists before
        }
        pairs_stripe_find(p, rows, (int32_t)task.first_row, (int32_t)task.rows, first,
                          min(p.conv.volume - first, pairs_batch), s);
        task.passed = 0;
        if (active) {
            pairs_table table = {s->first, s->segment, s->lists};
            walk(task, pairs_cursor_make(table, part, s->first[s->lists], p.parts));
        }
        pairs_pass(task, s->lists);
    }
}

// Copies a part's share of the sums of a slice, [there, 8 blocks] from row `from` on, to the sums
// in global memory (leave) or from there; without those, sets them to zero.
template <int blocks, bool leave>
SPIRA_DEVICE void pairs_stripe_copy(const pairs_params &p, int64_t first_row, int there, int from,
                                    int channel, char *sums) {
    for (int i = (int)threadIdx.x % 32; i < there * (blocks * 2); i += 32) {
        int row = from + i / (blocks * 2), quad = i % (blocks * 2);
        float4 *own = (float4 *)(sums + row * (blocks * 32) +
                                 ((uint32_t)(quad * 16) ^ conv_swizzle<blocks>((uint32_t)row)));
        bool inside = p.sums && channel + quad * 4 < p.pitch;
        float4 *far = (float4 *)(p.sums + (first_row + row) * p.pitch + channel + quad * 4);
        if (leave && inside) {
            *far = *own;
        } else if (!leave) {
            *own = p.begin && inside ? *far : make_float4(0, 0, 0, 0);
        }
    }
}

// ---- the kernels of the tensor cores ------------------------------------------------------------

// An equal share of all units for each part of the grid.
SPIRA_DEVICE pairs_cursor pairs_share(const pairs_params &p, int64_t part, int64_t parts) {
    int64_t total = p.first[p.conv.volume];
    pairs_table table = {p.first, nullptr, p.conv.volume};
    return pairs_cursor_make(table, (int32_t)(total * part / parts),
                             (int32_t)(total * (part + 1) / parts), 1);
}

template <typename E, int blocks, bool deep, conv_rows lie>
SPIRA_KERNEL void __launch_bounds__(32 * pairs_warps)
    pairs_atomic_kernel(const __grid_constant__ pairs_params p) {
#if __CUDA_ARCH__ >= 800
    const int warp = threadIdx.x / 32, part = warp / p.slices; // the slices of a part side by side
    const int slice = (int)blockIdx.y * p.slices + warp % p.slices;
    const int channel = slice * (8 * blocks) + (int)threadIdx.x % 4 * 4;
    const int32_t rows = pairs_rows(p);
    if (slice * (8 * blocks) >= p.conv.cout) {
        return;
    }
    pairs_task task = {0, (uint32_t)rows, 0, p.sums + channel, p.pitch - channel, 0};
    pairs_cursor c =
        pairs_share(p, (int64_t)blockIdx.x * p.parts + part, (int64_t)gridDim.x * p.parts);
    pairs_walk<E, blocks, deep, lie, false>(p, task, c, slice, rows);
#endif
}

// Bytes of shared memory of a slice's sums: the stripe, and a row behind it.
SPIRA_BOTH int pairs_slice_bytes(int stripe, int blocks) {
    return (int)round_up((stripe + 1) * (blocks * 32), 128);
}

template <typename E, int blocks, bool deep, conv_rows lie>
SPIRA_KERNEL void __launch_bounds__(32 * pairs_warps, lie == conv_rows_any ? 1 : 2)
    pairs_stripe_kernel(const __grid_constant__ pairs_params p) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(128) char pairs_memory[];
    __shared__ pairs_stripe stripe;
    const int warp = threadIdx.x / 32, part = warp / p.slices;
    const int slice = (int)blockIdx.y * p.slices + warp % p.slices;
    const int channel = slice * (8 * blocks);
    const int32_t rows = pairs_rows(p);
    const int64_t first_row = (int64_t)blockIdx.x * p.stripe;
    const int there = (int)min_of(rows - first_row, p.stripe);
    if (there <= 0) {
        return;
    }
    char *sums = pairs_memory + warp % p.slices * pairs_slice_bytes(p.stripe, blocks);
    const int share = (p.stripe + p.parts - 1) / p.parts, from = part * share;
    const int own = min(there - from, share); // rows that the warp begins and finishes
    pairs_stripe_copy<blocks, false>(p, first_row, own, from, channel, sums);
    pairs_task task = {(uint32_t)first_row, (uint32_t)there, shared_address(sums), nullptr, 0, 0};
    pairs_stripe_walk(p, rows, part, channel < p.conv.cout, task, &stripe,
                      [&](pairs_task &t, const pairs_cursor &c) {
                          pairs_walk<E, blocks, deep, lie, true>(p, t, c, slice, rows);
                      });
    if (p.leave) {
        pairs_stripe_copy<blocks, true>(p, first_row, own, from, channel, sums);
    } else {
        conv_finish<E, blocks>(p.conv, (int)first_row + from, own, channel, from, sums, 1, 0);
    }
#endif
}

// ---- plain multiply-adds: exact fp32, and every format below sm_80 ------------------------------

// Walks units of 8 pairs; a lane has one output channel.
//
// sums: of row 0 and the lane's channel, `pitch` floats to the next row
template <typename E, bool stripes>
SPIRA_DEVICE void pairs_walk_exact(const pairs_params &p, pairs_task &task, pairs_cursor c,
                                   int channel, int32_t rows, float (*stage)[exact_group],
                                   float *sums, int pitch) {
    const int cin = p.conv.cin, cin2 = p.conv.cin2, cout = p.conv.cout;
    for (pairs_cursor_step(p, rows, exact_group, c); c.offset >= 0;
         pairs_cursor_step(p, rows, exact_group, c)) {
        int32_t j = c.at + (int)threadIdx.x % exact_group;
        int32_t source = pairs_source(p, c, j), target = pairs_target(p, c, j);
        const float *w = (const float *)p.conv.weights + (int64_t)c.offset * (cin + cin2) * cout;
        float sum[exact_group] = {0, 0, 0, 0, 0, 0, 0, 0};
        conv_exact_add((const E *)p.conv.in, cin, w, cout, channel, p.tf32, source, stage, sum);
        if (cin2) {
            conv_exact_add((const E *)p.conv.in2, cin2, w + (int64_t)cin * cout, cout, channel,
                           p.tf32, source, stage, sum);
        }
        if (stripes) {
            pairs_pass(task, c.list);
        }
#pragma unroll
        for (int r = 0; r < exact_group; ++r) {
            uint32_t row = (uint32_t)__shfl_sync(~0u, target, r) - task.first_row;
            float *to = sums + (int64_t)row * pitch;
            if (row < task.rows && channel < cout && stripes) {
                *to += sum[r];
            } else if (row < task.rows && channel < cout) {
                atomicAdd(to, sum[r]);
            }
        }
    }
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(32 * exact_warps)
    pairs_exact_atomic_kernel(const __grid_constant__ pairs_params p) {
    __shared__ __align__(16) float stages[exact_warps][exact_channels][exact_group];
    const int warp = threadIdx.x / 32, channel = blockIdx.y * exact_channels + threadIdx.x % 32;
    const int32_t rows = pairs_rows(p);
    pairs_task task = {0, (uint32_t)rows, 0, nullptr, 0, 0};
    pairs_cursor c =
        pairs_share(p, (int64_t)blockIdx.x * exact_warps + warp, (int64_t)gridDim.x * exact_warps);
    pairs_walk_exact<E, false>(p, task, c, channel, rows, stages[warp], p.sums + channel, p.pitch);
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(32 * exact_warps, 1)
    pairs_exact_stripe_kernel(const __grid_constant__ pairs_params p) {
    extern __shared__ __align__(128) char pairs_memory[];
    __shared__ __align__(16) float stages[exact_warps][exact_channels][exact_group];
    __shared__ pairs_stripe stripe;
    const int warp = threadIdx.x / 32, channel = blockIdx.y * exact_channels + threadIdx.x % 32;
    const int32_t rows = pairs_rows(p);
    const int64_t first_row = (int64_t)blockIdx.x * p.stripe;
    const int there = (int)min_of(rows - first_row, p.stripe);
    float *own = (float *)pairs_memory + threadIdx.x % 32, *far = p.sums + first_row * p.pitch;
    const bool inside = channel < p.conv.cout;
    if (there <= 0) {
        return;
    }
    for (int r = warp; r < there; r += exact_warps) {
        own[r * exact_channels] = p.begin && inside ? far[(int64_t)r * p.pitch + channel] : 0.0f;
    }
    pairs_task task = {(uint32_t)first_row, (uint32_t)there, 0, nullptr, 0, 0};
    pairs_stripe_walk(
        p, rows, warp, true, task, &stripe, [&](pairs_task &t, const pairs_cursor &c) {
            pairs_walk_exact<E, true>(p, t, c, channel, rows, stages[warp], own, exact_channels);
        });
    const E *residual = (const E *)p.conv.residual;
    for (int r = warp; r < there && inside; r += exact_warps) {
        int64_t to = (first_row + r) * p.conv.cout + channel;
        if (p.leave) {
            far[(int64_t)r * p.pitch + channel] = own[r * exact_channels];
            continue;
        }
        float extra = residual ? element_to_float(residual[to]) : 0.0f;
        ((E *)p.conv.out)[to] = element_from_float<E>(
            epilogue_apply(own[r * exact_channels], &p.conv.epilogue, channel, extra));
    }
}

// ---- behind the walk: the epilogue --------------------------------------------------------------

// Four channels of so many rows for each thread: x has the channels, y the rows.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(pairs_threads)
    pairs_finish_kernel(const __grid_constant__ pairs_params p) {
    const int64_t rows = pairs_rows(p), step = (int64_t)gridDim.x * blockDim.y;
    for (int channel = 4 * (int)threadIdx.x; channel < p.conv.cout;
         channel += 4 * (int)blockDim.x) {
        const conv_output output = conv_output_of(p.conv, channel);
#pragma unroll 2
        for (int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; row < rows;
             row += step) {
            float4 sum = conv_sums_fetch(p.sums + row * p.pitch + channel, p.conv.cout - channel);
            conv_output_store<E>(p.conv, output, (int)row, sum);
        }
    }
}

// ---- launches -----------------------------------------------------------------------------------

// The kernel that weights are packed for: the lists do not need the layout's.
SPIRA_API status pairs_kernel_of(const conv_shape *shape, conv_kernel *kernel) {
    SPIRA_TRY(conv_shape_check(shape));
    device_info d;
    SPIRA_TRY(device_info_query(&d));
    *kernel = conv_uses_tensor(shape->type, d.capability) ? conv_kernel_tensor : conv_kernel_exact;
    return status_success();
}

// Bytes of packed weights on the current device.
SPIRA_API status conv_pairs_weights_bytes(const conv_shape *shape, size_t *bytes) {
    conv_kernel kernel;
    SPIRA_TRY(pairs_kernel_of(shape, &kernel));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    *bytes = conv_packed_bytes(shape, kernel);
    return status_success();
}

// Packs weights for conv_pairs_run, as conv_weights_pack does it for conv.
SPIRA_API status conv_pairs_weights_pack(const conv_shape *shape, const float *weight, void *packed,
                                         size_t packed_bytes, cudaStream_t stream) {
    conv_kernel kernel;
    SPIRA_TRY(pairs_kernel_of(shape, &kernel));
    return conv_pack(shape, kernel, weight, packed, packed_bytes, stream);
}

// One convolution over lists of pairs. Arrays are in device memory, features of shape.type's
// storage.
struct conv_pairs_args {
    conv_shape shape;
    const void *in;       // [inputs, cin]
    const void *in2;      // [inputs, cin2], or null where cin2 is 0
    const void *weights;  // of conv_pairs_weights_pack, with the same shape, on the same device
    map_pairs pairs;      // of map_build_pairs
    pairs_sides sides;    // what is added for them
    const int32_t *count; // [1] outputs, at most `capacity`
    int32_t capacity;
    conv_epilogue epilogue;
    void *out;       // [capacity, cout]; not looked at with `leave`
    pairs_form form; // pairs_form_atomic or, deterministic, pairs_form_stripes
    float *sums;     // [capacity, conv_sums_pitch(cout)], aligned to 16, or null
    bool begin;      // from what is in `sums`, else from zero
    bool leave;      // the sums in `sums`, without epilogue
};

// The same without the lists.
SPIRA_API conv_args pairs_conv_args(const conv_pairs_args *a) {
    conv_args same = {};
    same.shape = a->shape;
    same.in = a->in;
    same.in2 = a->in2;
    same.weights = a->weights;
    same.count = a->count;
    same.capacity = a->capacity;
    same.epilogue = a->epilogue;
    same.out = a->leave ? a->sums : a->out;
    return same;
}

// The arrays are checked as those of `conv` are.
SPIRA_API status conv_pairs_check(const conv_pairs_args *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(conv_shape_check(&a->shape));
    SPIRA_TRY(pairs_sides_check(&a->shape, a->sides));
    SPIRA_REQUIRE(a->form == pairs_form_atomic || a->form == pairs_form_stripes, status_unsupported,
                  "form", a->form);
    device_status none = {};
    SPIRA_TRY(map_pairs_check(&a->pairs, &none));
    SPIRA_REQUIRE(a->sums || (!a->begin && !a->leave), status_null_pointer, "sums", 0);
    SPIRA_REQUIRE((uintptr_t)a->sums % sizeof(float4) == 0, status_alignment, "sums",
                  sizeof(float4));
    SPIRA_REQUIRE(!a->sums || (a->out != a->sums && a->in != a->sums && a->in2 != a->sums),
                  status_unsupported, "sums (overlap another array)", 0);
    const conv_args same = pairs_conv_args(a);
    return conv_check(&same);
}

// Scratch of the atomic form. Sums that are begun from or left are the caller's.
SPIRA_API void pairs_scratch_take(workspace *w, const conv_pairs_args *a, pairs_params *p) {
    p->sums = a->sums;
    p->first = nullptr;
    if (a->form == pairs_form_atomic) {
        p->first = workspace_take<int32_t>(w, (int64_t)a->shape.volume + 1);
        if (!a->sums && !a->begin && !a->leave) {
            p->sums =
                workspace_take<float>(w, (int64_t)a->capacity * conv_sums_pitch(a->shape.cout));
        }
    }
}

// Bytes of scratch for conv_pairs_run: none for stripes; the atomic form keeps fp32 sums there,
// unless the caller gives `sums` (with begin or leave, `sums` may still be null here). No pointer
// is read.
SPIRA_API status conv_pairs_workspace(const conv_pairs_args *args, size_t *bytes) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(conv_shape_check(&args->shape));
    SPIRA_REQUIRE(args->capacity >= 1 && args->capacity <= INT32_MAX / 2, status_bad_size,
                  "capacity", args->capacity);
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    pairs_params p;
    pairs_scratch_take(&w, args, &p);
    *bytes = w.used;
    return status_success();
}

// Rows of a stripe: two blocks find room on a multiprocessor, and there are two for each.
SPIRA_API int pairs_stripe_rows(const device_info *d, int row_bytes, int32_t capacity,
                                int64_t groups) {
    int64_t room = (d->shared_max / 2 - (int64_t)sizeof(pairs_stripe) - 6144) / row_bytes - 2;
    int64_t wanted = ceil_div(capacity * groups, 2 * (int64_t)d->multiprocessors);
    return (int)max_of(min_of(min_of(room, round_up(wanted, 16)), 1024), 16);
}

// Blocks that fill the GPU.
template <typename K>
SPIRA_API status pairs_grid(K kernel, int threads, const device_info *d, int64_t groups,
                            unsigned *blocks) {
    int each = 0;
    SPIRA_TRY(
        status_from_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, 0),
                         "conv_pairs_run (occupancy)"));
    *blocks = (unsigned)max_of((int64_t)each * d->multiprocessors / groups, 1);
    return status_success();
}

// The launch before the walk of the atomic form.
SPIRA_API status pairs_begin(const pairs_params &p, const device_info *d, cudaStream_t stream) {
    int64_t quads = p.begin ? 1 : (int64_t)p.conv.capacity * p.pitch / 4;
    int64_t blocks = min_of(ceil_div(quads, pairs_threads), 8 * d->multiprocessors);
    pairs_begin_kernel<<<(unsigned)blocks, pairs_threads, 0, stream>>>(p);
    return status_of_launch("conv_pairs_run (begin)");
}

// Launches a walk over stripes with so many bytes of shared memory, or over shares.
//
// groups: of slices, the grid's y
template <typename K>
SPIRA_API status pairs_start(const pairs_params &p, K kernel, int threads, int64_t groups,
                             int bytes, const device_info *d, cudaStream_t stream) {
    dim3 grid((unsigned)ceil_div(p.conv.capacity, max_of(p.stripe, 1)), (unsigned)groups);
    if (p.stripe) {
        SPIRA_TRY(status_from_cuda(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
            "conv_pairs_run (shared memory)"));
    } else {
        SPIRA_TRY(pairs_grid(kernel, threads, d, groups, &grid.x));
    }
    kernel<<<grid, (unsigned)threads, (size_t)bytes, stream>>>(p);
    return status_of_launch("conv_pairs_run");
}

template <typename E, int blocks, bool deep, conv_rows lie>
SPIRA_API status pairs_tensor_start(pairs_params p, const device_info *d, cudaStream_t stream) {
    const int64_t groups = ceil_div(conv_slices(p.conv.cout), p.slices);
    const int threads = 32 * p.slices * p.parts;
    p.unit = tile_group * pairs_groups(deep, p.stripe != 0);
    if (p.stripe) {
        return pairs_start(p, pairs_stripe_kernel<E, blocks, deep, lie>, threads, groups,
                           p.slices * pairs_slice_bytes(p.stripe, blocks), d, stream);
    }
    SPIRA_TRY(pairs_begin(p, d, stream));
    return pairs_start(p, pairs_atomic_kernel<E, blocks, deep, lie>, threads, groups, 0, d, stream);
}

template <typename E, int blocks>
SPIRA_API status pairs_tensor_rows(const pairs_params &p, const device_info *d,
                                   cudaStream_t stream) {
    bool wide = p.conv.cin2 == 0 && p.conv.wide_in;
    bool deep = p.conv.chunks > pairs_near_chunks(p.stripe != 0);
    return deep   ? wide ? pairs_tensor_start<E, blocks, true, conv_rows_wide>(p, d, stream)
                         : pairs_tensor_start<E, blocks, true, conv_rows_any>(p, d, stream)
             : wide ? pairs_tensor_start<E, blocks, false, conv_rows_wide>(p, d, stream)
                  : pairs_tensor_start<E, blocks, false, conv_rows_any>(p, d, stream);
}

template <typename E>
SPIRA_API status pairs_tensor_walk(pairs_params p, bool stripes, const device_info *d,
                                   cudaStream_t stream) {
    const int slices = conv_slices(p.conv.cout), blocks = conv_slice_blocks(p.conv.cout);
    p.slices = (int)ceil_div(slices, ceil_div(slices, 4));
    p.parts = pairs_warps / p.slices;
    p.stripe = stripes ? pairs_stripe_rows(d, p.slices * blocks * 32, p.conv.capacity,
                                           ceil_div(slices, p.slices))
                       : 0;
    return blocks == 2 ? pairs_tensor_rows<E, 2>(p, d, stream)
                       : pairs_tensor_rows<E, 4>(p, d, stream);
}

template <typename E>
SPIRA_API status pairs_exact_walk(pairs_params p, bool stripes, const device_info *d,
                                  cudaStream_t stream) {
    const int64_t groups = ceil_div(p.conv.cout, exact_channels);
    const int row_bytes = exact_channels * (int)sizeof(float), threads = 32 * exact_warps;
    p.unit = exact_group;
    p.parts = exact_warps;
    p.stripe = stripes ? pairs_stripe_rows(d, row_bytes, p.conv.capacity, groups) : 0;
    if (stripes) {
        return pairs_start(p, pairs_exact_stripe_kernel<E>, threads, groups, p.stripe * row_bytes,
                           d, stream);
    }
    SPIRA_TRY(pairs_begin(p, d, stream));
    return pairs_start(p, pairs_exact_atomic_kernel<E>, threads, groups, 0, d, stream);
}

template <typename E>
SPIRA_API status pairs_run(const pairs_params &p, bool stripes, bool tensor, const device_info *d,
                           cudaStream_t stream) {
    SPIRA_TRY(tensor ? pairs_tensor_walk<E>(p, stripes, d, stream)
                     : pairs_exact_walk<E>(p, stripes, d, stream));
    if (stripes || p.leave) {
        return status_success();
    }
    unsigned x = (unsigned)min_of(ceil_div(p.conv.cout, 4), 64);
    dim3 block(x, pairs_threads / x);
    int64_t blocks = min_of(ceil_div(p.conv.capacity, block.y), 16 * d->multiprocessors);
    pairs_finish_kernel<E><<<(unsigned)blocks, block, 0, stream>>>(p);
    return status_of_launch("conv_pairs_run (epilogue)");
}

// What does not depend on how the work is cut.
SPIRA_API pairs_params pairs_params_make(const conv_pairs_args *a) {
    const conv_args same = pairs_conv_args(a);
    pairs_params p = {};
    p.conv = conv_params_of(&same);
    p.pairs = a->pairs;
    p.sides = a->sides;
    p.pitch = conv_sums_pitch(a->shape.cout);
    p.begin = a->begin;
    p.leave = a->leave;
    p.tf32 = a->shape.type == numeric_tf32;
    return p;
}

// Sparse convolution over lists of pairs, with its epilogue: weight-stationary (Spira paper: dual
// dataflow).
//
// inputs   args: see conv_pairs_args. No list has an output twice, and outputs ascend; with both
//          sides the same of inputs. The lists of map_build_pairs are so. (The atomic form takes
//          them in any order.) Pairs whose output is not below *count are left out, as are those
//          behind pairs.capacity
// outputs  args->out, or with `leave` args->sums [capacity, conv_sums_pitch(cout)]; rows from
//          *count on are not written. The residual may be `out` itself, the inputs may not. What
//          `sums` holds afterwards means nothing without `leave`.
// hybrid   With `leave` the offsets that a hybrid map has in lists are added here, for a kernel
//          that goes on from these sums, as `conv` does (conv_hybrid.cuh). The other way round,
//          this one has `begin`: stripes read the sums once, the atomic form adds to them where
//          they are.
// errors   null pointers, sizes, alignment, a half map of an even volume, begin or leave without
//          sums, a workspace that is too small
// Asynchronous. Sums are fp32 and are rounded once. Stripes: deterministic; the bits depend on
// neither the capacity nor the GPU's size. Atomic: sums are added in no fixed order, and those that
// are subnormal become zero; three launches, two with `leave`.
// cost     see the top of this file; work is proportional to the units
SPIRA_API status conv_pairs_run(const conv_pairs_args *args, void *scratch, size_t scratch_bytes,
                                cudaStream_t stream) {
    SPIRA_TRY(conv_pairs_check(args));
    size_t needed;
    SPIRA_TRY(conv_pairs_workspace(args, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    device_info d;
    SPIRA_TRY(device_info_query(&d));
    pairs_params p = pairs_params_make(args);
    workspace w = workspace_begin(scratch);
    pairs_scratch_take(&w, args, &p);
    bool stripes = args->form == pairs_form_stripes;
    bool tensor = conv_uses_tensor(args->shape.type, d.capability);
    return element_dispatch(args->shape.type, [&](auto e) {
        return pairs_run<decltype(e)>(p, stripes, tensor, &d, stream);
    });
}

} // namespace spira

#endif
