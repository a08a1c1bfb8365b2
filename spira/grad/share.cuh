// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/grad/share.cuh: how the pairs of all offsets are shared out among thread blocks.
//
// The lists of all offsets stand one after another. Position 0 is the first pair of the first list.
// Part p has the positions [p * each, (p + 1) * each), whatever the lengths of the lists. A part
// walks its positions in chunks; a chunk lies in one list.
//
// The sums of a list that begins in a part go straight to the gradient. Those of a list that began
// in an earlier part go to the part's slot: there is one such list at most. grad/reduce.cuh adds
// the slots of a list to the gradient, in ascending order of the parts.
#ifndef SPIRA_GRAD_SHARE_CUH
#define SPIRA_GRAD_SHARE_CUH

#include "../base/launch.cuh"
#include "../conv/params.cuh"
#include "../conv_grad.h"

namespace spira {

// The kernels of the weight gradient.
enum grad_form : int {
    grad_form_exact,  // grad/exact.cuh
    grad_form_tensor, // grad/kernel.cuh
    grad_form_hopper, // grad/hopper/
};

// How the work is cut. It follows from the shape and the device alone, so that scratch can be
// counted without a map.
struct grad_cut {
    grad_form form;
    int rows, columns; // input and output channels of a tile
    int chunk;         // pairs: parts are a multiple of it
    int down1, down;   // tiles along the input channels: of the first source, of both
    int across, parts; // tiles along the output channels; parts of the pairs
    int stages;        // of the ring of grad_form_hopper
};

// What the kernels read and write.
struct grad_params {
    conv_grad_weight_args args; // programmatic: lists and count may be read before pdl_wait
    grad_cut cut;
    float *slots;                     // [parts, tiles, rows * columns of a tile]
    float *bias_slots;                // [grad_bias_parts, cout]
    bool wide_in, wide_in2, wide_out; // rows are aligned to 16 bytes
    bool wide_grad;                   // the same of weight_grad
};

// ---- lists --------------------------------------------------------------------------------------

// The number of outputs, clamped to the capacity.
SPIRA_DEVICE int32_t grad_rows(const grad_params &p) {
    return count_clamp(*p.args.count, p.args.capacity);
}

// The offset of list j. Lists of a half map: the offsets before the centre, their mirrors, the
// centre.
SPIRA_DEVICE int grad_list_offset(const grad_params &p, int j) {
    const int half = p.args.shape.volume / 2;
    return p.args.sides == pairs_sides_one || j < half ? j
           : j < 2 * half                              ? p.args.shape.volume - 1 - (j - half)
                                                       : half;
}

// Where a list of the pairs begins, from the first list on.
SPIRA_DEVICE uint32_t grad_begin(const grad_params &p, int k) {
    const int64_t first = max_of(min_of(p.args.pairs.begin[0], p.args.pairs.capacity), 0);
    const int64_t own = max_of(min_of(p.args.pairs.begin[k], p.args.pairs.capacity), first);
    return (uint32_t)(own - first);
}

// The position of the first pair of list j, 0 .. volume. rows: of the outputs.
SPIRA_DEVICE uint32_t grad_list_start(const grad_params &p, int32_t rows, int j) {
    if (p.args.sides == pairs_sides_one) {
        return grad_begin(p, j);
    }
    const int half = p.args.shape.volume / 2;
    const uint32_t centre = j > 2 * half && p.args.sides == pairs_sides_centre ? (uint32_t)rows : 0;
    if (half == 0) {
        return centre; // there need not be any lists
    }
    const uint32_t all = grad_begin(p, half);
    return j <= half ? grad_begin(p, j) : all + grad_begin(p, (int)min_of(j - half, half)) + centre;
}

// Positions of a part. total: of all lists.
SPIRA_DEVICE uint32_t grad_part_size(const grad_params &p, uint32_t total) {
    const uint32_t parts = (uint32_t)p.cut.parts, chunk = (uint32_t)p.cut.chunk;
    const uint32_t each = (total / parts + (total % parts != 0) + chunk - 1) / chunk * chunk;
    return each < 2 * chunk ? 2 * chunk : each;
}

// ---- the walk through a part --------------------------------------------------------------------

// Where the walk stands. All threads of the block have the same.
struct grad_cursor {
    uint32_t at, end; // position; end of the list in the part
    uint32_t stop;    // end of the part; the walk is over when `at` reaches it
    uint32_t start;   // position of the list's first pair
    int list;
    // The rows of the pair at position 0, if it were of this list; null: rows are counted.
    const int32_t *sources, *targets;
};

// Finds the list of the position. starts [volume + 1], shared.
SPIRA_DEVICE void grad_cursor_find(const grad_params &p, const uint32_t *starts, grad_cursor &c) {
    int low = 0, high = p.args.shape.volume; // starts[low] <= at < starts[high]
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (starts[middle] <= c.at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    c.list = low;
    c.start = starts[low];
    c.end = starts[high] < c.stop ? starts[high] : c.stop;
    const int k = grad_list_offset(p, c.list);
    const pairs_list list = pairs_list_of(&p.args.pairs, p.args.shape.volume, p.args.sides, 0, k);
    const int64_t shift = list.span.begin - (int64_t)c.start;
    c.sources = list.sources ? list.sources + shift : nullptr;
    c.targets = list.targets ? list.targets + shift : nullptr;
}

// Goes to the first pair of a part. All threads of the block call this; starts is written.
SPIRA_DEVICE grad_cursor grad_cursor_begin(const grad_params &p, int part, uint32_t *starts) {
    const int32_t rows = grad_rows(p);
    for (int j = (int)threadIdx.x; j <= p.args.shape.volume; j += (int)blockDim.x) {
        starts[j] = grad_list_start(p, rows, j);
    }
    __syncthreads();
    const uint32_t total = starts[p.args.shape.volume], each = grad_part_size(p, total);
    const uint64_t from = (uint64_t)each * (uint32_t)part;
    grad_cursor c = {};
    c.at = from < total ? (uint32_t)from : total;
    c.stop = total - c.at < each ? total : c.at + each;
    if (c.at < c.stop) {
        grad_cursor_find(p, starts, c);
    }
    return c;
}

// Pairs of the next chunk.
SPIRA_DEVICE int grad_cursor_pairs(const grad_cursor &c, int chunk) {
    return c.end - c.at < (uint32_t)chunk ? (int)(c.end - c.at) : chunk;
}

// Goes to the next chunk. Returns whether the list has ended in the part.
SPIRA_DEVICE bool grad_cursor_next(const grad_params &p, const uint32_t *starts, int chunk,
                                   grad_cursor &c) {
    c.at += (uint32_t)grad_cursor_pairs(c, chunk);
    if (c.at < c.end) {
        return false;
    }
    if (c.at < c.stop) {
        grad_cursor_find(p, starts, c);
    }
    return true;
}

// The two rows of a pair: negative where the pair is missing.
struct grad_pair {
    int32_t in, out;
};

// Loads pair i of the chunk, as it is in the lists. Nothing waits for the loads.
SPIRA_DEVICE grad_pair grad_pair_load(const grad_cursor &c, int i, int chunk) {
    grad_pair pair = {-1, -1};
    if (i < grad_cursor_pairs(c, chunk)) {
        const int64_t at = (int64_t)c.at + i;
        pair.in = c.sources ? c.sources[at] : (int32_t)(at - c.start);
        pair.out = c.targets ? c.targets[at] : (int32_t)(at - c.start);
    }
    return pair;
}

// The pair, or none if one of its rows is missing. rows: of the outputs.
SPIRA_DEVICE grad_pair grad_pair_check(const grad_pair &pair, int32_t rows) {
    const bool there = pair.in >= 0 && pair.out >= 0 && pair.out < rows;
    return {there ? pair.in : -1, there ? pair.out : -1};
}

// ---- tiles --------------------------------------------------------------------------------------

// One side of a tile: the channels of the rows that are gathered.
struct grad_side {
    const char *base; // the tile's first channel of row 0
    uint32_t pitch;   // bytes to the next row
    int left;         // channels from the tile's first on
    bool wide;        // rows are aligned to 16 bytes
};

// What a thread block computes: a tile of the gradient of each offset.
struct grad_tile {
    grad_side in, out;
    int number;        // of the tile
    int row, column;   // of the tile's first element in the gradient of an offset
    int rows, columns; // of a tile
};

// element: bytes.
SPIRA_DEVICE grad_tile grad_tile_of(const grad_params &p, int number, int rows, int columns,
                                    int element) {
    const int down = number / p.cut.across;
    const bool second = down >= p.cut.down1;
    const int c = (second ? down - p.cut.down1 : down) * rows, n = number % p.cut.across * columns;
    const int channels = second ? p.args.shape.cin2 : p.args.shape.cin;
    grad_tile t;
    t.number = number;
    t.row = (second ? p.args.shape.cin : 0) + c;
    t.column = n;
    t.rows = rows;
    t.columns = columns;
    t.in.base = (const char *)(second ? p.args.in2 : p.args.in) + (int64_t)c * element;
    t.in.pitch = (uint32_t)(channels * element);
    t.in.left = channels - c;
    t.in.wide = second ? p.wide_in2 : p.wide_in;
    t.out.base = (const char *)p.args.out_grad + (int64_t)n * element;
    t.out.pitch = (uint32_t)(p.args.shape.cout * element);
    t.out.left = p.args.shape.cout - n;
    t.out.wide = p.wide_out;
    return t;
}

// Where the sums of a list go: to the gradient, row by row, or to a slot.
struct grad_target {
    float *to;         // the tile's first element
    int pitch;         // floats to the next row; of a slot: columns of the tile
    int rows, columns; // elements that are there
    bool slot;
    bool wide; // rows of the gradient are aligned to 16 bytes
};

// list: that has ended.
SPIRA_DEVICE grad_target grad_target_of(const grad_params &p, const grad_tile &t, int part,
                                        uint32_t part_first, const grad_cursor &list) {
    grad_target g;
    g.slot = list.start < part_first;
    g.wide = p.wide_grad;
    if (g.slot) {
        g.to = p.slots +
               ((int64_t)part * (p.cut.down * p.cut.across) + t.number) * (t.rows * t.columns);
        g.rows = t.rows;
        g.pitch = g.columns = t.columns;
        return g;
    }
    const int64_t k = grad_list_offset(p, list.list);
    g.to = p.args.weight_grad +
           ((k * (p.args.shape.cin + p.args.shape.cin2) + t.row) * p.args.shape.cout + t.column);
    g.pitch = p.args.shape.cout;
    g.rows = t.in.left;
    g.columns = t.out.left;
    return g;
}

// Slots are [rows / 16, columns / 8] fragments, as matrix instructions leave them: lane l of a warp
// has 2 x 2 elements: rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next.
struct grad_fragment {
    int row, column; // of the lane's first element
};

// The fragment of lane `quad % 32`: quad counts 4 floats of a slot.
SPIRA_DEVICE grad_fragment grad_fragment_of(int quad, int columns) {
    const int number = quad / 32, lane = quad % 32;
    return {number / (columns / 8) * 16 + lane / 4, number % (columns / 8) * 8 + lane % 4 * 2};
}

// Where the 4 elements of a lane are in a slot, in floats.
SPIRA_DEVICE int grad_slot_place(int row, int column, int columns) {
    return ((row / 16 * (columns / 8) + column / 8) * 32 + row % 8 * 4 + column % 8 / 2) * 4;
}

SPIRA_DEVICE void grad_put(const grad_target &g, int row, int column, float value) {
    if (g.slot) {
        g.to[grad_slot_place(row, column, g.pitch) + row % 16 / 8 * 2 + column % 2] = value;
    } else if (row < g.rows && column < g.columns) {
        g.to[row * g.pitch + column] = value;
    }
}

// The same of a lane's elements of a fragment. kind: grad_put_slot, if g.slot; else
// grad_put_wide, if g.wide; else grad_put_each.
enum grad_put_kind : int { grad_put_slot, grad_put_wide, grad_put_each };

template <grad_put_kind kind>
SPIRA_DEVICE void grad_put_4(const grad_target &g, int row, int column, const float *value) {
    if constexpr (kind == grad_put_slot) {
        *(float4 *)(g.to + grad_slot_place(row, column, g.pitch)) =
            make_float4(value[0], value[1], value[2], value[3]);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            float *const to = g.to + ((row + i * 4) * g.pitch + column);
            const bool there = row + i * 4 < g.rows && column < g.columns;
            if (there && kind == grad_put_wide) { // an even number of columns
                *(float2 *)to = make_float2(value[i], value[i + 1]);
            } else if (there) {
                to[0] = value[i];
                if (column + 1 < g.columns) {
                    to[1] = value[i + 1];
                }
            }
        }
    }
}

} // namespace spira

#endif
