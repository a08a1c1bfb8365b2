// spira/cell.h: ordered layouts of layers between a set and its cells, without kernel maps.
//
// Of a strided convolution whose kernel is as large as its stride, of size 2 along an axis or 1,
// and of the inverse one: each voxel of the finer set lies in one voxel of the coarser set, its
// cell, at one offset. So one search of each finer voxel finds all that their ordered layouts
// (layout/order.h) need: an output of the inverse layer reads its cell alone, by its offset; one of
// the strided layer, a cell, reads the up to 8 voxels that lie in it.
//
// The order. Outputs ascend by key, and by row where keys agree. The key is, of an inverse layer,
// the output's offset; of a strided one the rank in the reflected Gray code of the number that has
// a bit for each offset that it has a source at. Pairs of blocks take their turn by how many
// offsets they have, those with more first, then by number, within scopes of order_scope pairs. An
// output of an inverse layer whose cell is not in the coarser set has no source.
//
// That is another order than that of order_build: a strided layer may add up its terms in another
// order, an inverse one has none to add up.
#ifndef SPIRA_CELL_H
#define SPIRA_CELL_H

#include "downsample.h"
#include "layout/order.h"

namespace spira {

enum {
    cell_offsets = 8, // of a kernel, at most
    cell_keys = 1 << cell_offsets,
    cell_rows = 1024, // outputs of a block of threads (cell.cuh)
};

// One layout of cell_order: of an inverse layer (kernel.transposed), whose outputs are the finer
// set, or of a strided one, whose source that is.
template <typename W>
struct cell_request {
    kernel_shape kernel; // its stride is the spacing of the finer set
    // All voxels of the finer set are multiples of stride, those of the coarser set of stride *
    // size, as downsample.h makes them; no voxel is there twice. Of others it is not said which
    // sources an output has.
    voxel_set<W> source, outputs;
    order_layout layout; // of outputs.capacity
};

// Whether a kernel is one of those.
SPIRA_API bool cell_takes(const kernel_shape *kernel) {
    const triple size = kernel->size, once = triple_make(1, 1, 1);
    return triple_equal(kernel->dilation, once) && size.x <= 2 && size.y <= 2 && size.z <= 2;
}

// The spacing of the cells.
SPIRA_BOTH triple cell_stride(const kernel_shape *kernel) {
    return triple_multiply(kernel->stride, kernel->size);
}

template <typename W>
struct cell_place {
    W cell;     // the word of a voxel's cell,
    int offset; // and of its place there
};

template <typename W>
SPIRA_BOTH cell_place<W> cell_find(const word_layout *layout, const kernel_shape *kernel, W word) {
    const triple stride = cell_stride(kernel);
    const W cell = downsample_word(layout, word, stride, downsample_by_mask(stride));
    const voxel v = word_unpack<W>(layout, word), first = word_unpack<W>(layout, cell);
    const triple size = kernel->size; // of 1: one place, whatever the voxel's is
    const int x = size.x > 1 && v.x != first.x, y = size.y > 1 && v.y != first.y;
    const int z = size.z > 1 && v.z != first.z;
    return {cell, (x * size.y + y) * size.z + z};
}

template <typename W>
SPIRA_API status cell_check(const word_layout *layout, const cell_request<W> *request) {
    SPIRA_REQUIRE(layout, status_null_pointer, "word layout", 0);
    SPIRA_REQUIRE(request, status_null_pointer, "request", 0);
    const kernel_shape *kernel = &request->kernel;
    const bool inverse = kernel->transposed;
    const voxel_set<W> *fine = inverse ? &request->outputs : &request->source;
    const voxel_set<W> *coarse = inverse ? &request->source : &request->outputs;
    SPIRA_TRY(order_sizes_check(kernel, request->outputs.capacity));
    SPIRA_REQUIRE(cell_takes(kernel), status_unsupported, "kernel (of other cells)", 0);
    SPIRA_TRY(downsample_check(layout, fine, cell_stride(kernel), coarse));
    return order_layout_check(&request->layout, kernel_volume(kernel), request->outputs.capacity);
}

// ---- keys and places ----------------------------------------------------------------------------

// How many keys there may be.
SPIRA_BOTH int cell_key_count(bool inverse) {
    return inverse ? cell_offsets : cell_keys;
}

// The offsets of an output with a key.
SPIRA_BOTH uint32_t cell_key_mask(bool inverse, int key) {
    return inverse ? 1u << key : (uint32_t)(key ^ key >> 1);
}

// Where the outputs of each key begin.
struct cell_places {
    int32_t begin[cell_keys + 1];
};

// The offsets that some output of places [first, end) has.
SPIRA_BOTH uint32_t cell_unite(bool inverse, const cell_places &places, int64_t first,
                               int64_t end) {
    uint32_t mask = 0;
    int key = 0; // the last that begins no later
    for (int step = cell_keys / 2; step; step /= 2) {
        key += places.begin[key + step] <= first ? step : 0;
    }
    for (; key < cell_keys && places.begin[key] < end; ++key) {
        const bool any = places.begin[key + 1] > max_of(first, places.begin[key]);
        mask |= any ? cell_key_mask(inverse, key) : 0;
    }
    return mask;
}

SPIRA_BOTH uint32_t cell_block_mask(bool inverse, const cell_places &places, int64_t block) {
    return cell_unite(inverse, places, block * order_rows, (block + 1) * order_rows);
}

SPIRA_BOTH int cell_pair_weight(bool inverse, const cell_places &places, int64_t pair) {
    return count_bits(
        cell_unite(inverse, places, pair * 2 * order_rows, (pair + 1) * 2 * order_rows));
}

// ---- scratch ------------------------------------------------------------------------------------

// What is found of each output, and the outputs of each key and block of threads.
struct cell_scratch {
    uint32_t *mask;  // strided: [capacity] the offsets that have sources; zeros before
    int32_t *source; // [capacity], strided: [capacity, cell_offsets]; inverse, -1: none
    uint8_t *key;    // [capacity]
    uint16_t *count; // [blocks, cell_key_count]
};

// What scratch depends on.
struct cell_size {
    bool inverse;
    int32_t capacity; // of the outputs
};

SPIRA_BOTH int32_t cell_blocks(int32_t rows) {
    return (int32_t)ceil_div(rows, cell_rows);
}

// Carves the scratch of some layouts; all masks come first. Returns the bytes of these.
SPIRA_API size_t cell_carve(workspace *w, const cell_size *size, int many, cell_scratch *scratch) {
    const size_t begin = w->used;
    for (int i = 0; i < many; ++i) {
        scratch[i].mask = workspace_take<uint32_t>(w, size[i].inverse ? 0 : size[i].capacity);
    }
    const size_t masks = w->used - begin;
    for (int i = 0; i < many; ++i) {
        const int64_t rows = size[i].capacity, each = size[i].inverse ? 1 : cell_offsets;
        scratch[i].source = workspace_take<int32_t>(w, rows * each);
        scratch[i].key = workspace_take<uint8_t>(w, rows);
        scratch[i].count = workspace_take<uint16_t>(w, (int64_t)cell_blocks(size[i].capacity) *
                                                           cell_key_count(size[i].inverse));
    }
    return masks;
}

// ---- host ---------------------------------------------------------------------------------------

// The sources of an output; returns its key.
template <typename W>
SPIRA_API int cell_taps_host(const word_layout *layout, const cell_request<W> *r, int32_t row,
                             int32_t (&taps)[cell_offsets]) {
    const W *words = r->source.words, *end = words + voxel_set_count(r->source);
    const W own = r->outputs.words[row];
    const cell_place<W> place = cell_find(layout, &r->kernel, own);
    const bool inverse = r->kernel.transposed;
    uint32_t mask = 0;
    for (int k = 0; k < kernel_volume(&r->kernel); ++k) {
        const W wanted =
            inverse ? place.cell : own + word_delta<W>(layout, kernel_displacement(&r->kernel, k));
        const W *found = std::lower_bound(words, end, wanted);
        bool there = (!inverse || k == place.offset) && found < end && *found == wanted;
        if (there && !inverse) { // a word beyond the bounds may be another one's
            there = cell_find(layout, &r->kernel, wanted).cell == own;
        }
        taps[k] = there ? (int32_t)(found - words) : -1;
        mask |= there ? 1u << k : 0;
    }
    return inverse ? place.offset : (int)order_gray_rank(mask);
}

// Puts an output, or none (row -1, and no taps), at its place.
SPIRA_API void cell_put_host(bool inverse, const order_layout &t, const cell_places &places,
                             int64_t place, int32_t row, const int32_t (&taps)[cell_offsets]) {
    const int64_t block = place / order_rows;
    const uint32_t mask = cell_block_mask(inverse, places, block);
    t.row[place] = row;
    for (int k = 0; k < t.volume; ++k) {
        if (mask >> k & 1) {
            t.source[order_begin(&t, block, k) + place % order_rows] = taps[k];
        }
    }
}

SPIRA_API void cell_turn_host(bool inverse, const cell_places &places, int32_t count,
                              const order_layout &t) {
    const int32_t pairs = order_pairs(order_count(count));
    for (int32_t first = 0; first < pairs; first += order_scope) {
        const int32_t end = (int32_t)min_of(first + order_scope, pairs);
        for (int32_t pair = first; pair < end; ++pair) {
            t.schedule[pair] = pair;
        }
        std::stable_sort(t.schedule + first, t.schedule + end, [&](int32_t a, int32_t b) {
            return cell_pair_weight(inverse, places, a) > cell_pair_weight(inverse, places, b);
        });
    }
}

// Builds the ordered layout of a layer between a set and its cells: the host loop of `cell_order`
// (cell.cuh).
//
// inputs   layout: fitted to the cells' stride; request: in host memory
// outputs  request->layout: all blocks of the capacity; those beyond the count have rows of -1 and
//          no offsets
// errors   null pointers, sizes, a kernel of other cells (status_unsupported), a stride that the
//          layout was not fitted to, an ordered layout that is too small
// Deterministic.
template <typename W>
SPIRA_API status cell_order_host(const word_layout *layout, const cell_request<W> *request) {
    SPIRA_TRY(cell_check(layout, request));
    const order_layout &t = request->layout;
    const bool inverse = request->kernel.transposed;
    const int32_t count = voxel_set_count(request->outputs);
    const int32_t blocks = order_count(request->outputs.capacity);
    int32_t taps[cell_offsets];
    cell_places places = {}, next;
    for (int32_t row = 0; row < count; ++row) {
        ++places.begin[cell_taps_host(layout, request, row, taps) + 1];
    }
    for (int key = 0; key < cell_keys; ++key) {
        places.begin[key + 1] += places.begin[key];
    }
    next = places;
    for (int32_t row = 0; row < count; ++row) {
        const int key = cell_taps_host(layout, request, row, taps);
        cell_put_host(inverse, t, places, next.begin[key]++, row, taps);
    }
    std::fill(taps, taps + cell_offsets, -1);
    for (int64_t place = count; place < (int64_t)blocks * order_rows; ++place) {
        cell_put_host(inverse, t, places, place, -1, taps);
    }
    for (int32_t block = 0; block < blocks; ++block) {
        t.mask[block] = cell_block_mask(inverse, places, block);
    }
    cell_turn_host(inverse, places, count, t);
    return status_success();
}

} // namespace spira

#endif
