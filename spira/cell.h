// spira/cell.h: the ordered layout of an inverse convolution that gives each output one source.
//
// An inverse convolution whose kernel is as large as its stride, of size 2 along an axis or 1, goes
// back over the cells of a strided one: an output lies in one voxel of the coarser set, its cell,
// and reads that one alone, by the offset of its place in it. So its ordered layout (order.h) needs
// neither a kernel map nor keys: only the cell of each output is searched.
//
// The order. Outputs stand by their offset, and by row where that is the same; so does one whose
// cell is not in the coarser set, and has no source. Pairs of blocks take their turn as they stand.
// That is another order than that of order_build, and the same outputs: each is a sum of one term.
#ifndef SPIRA_CELL_H
#define SPIRA_CELL_H

#include "downsample.h"
#include "order.h"

namespace spira {

enum {
    cell_offsets = 8, // of a kernel, at most
    cell_rows = 1024, // outputs of a block of threads (cell.cuh)
};

// One layout of cell_order.
template <typename W>
struct cell_request {
    kernel_shape kernel; // transposed; its stride is the spacing of the outputs
    // All voxels of `source` are multiples of stride * size: see downsample.h.
    voxel_set<W> source, outputs;
    order_layout layout; // of outputs.capacity
};

// Whether a kernel is one of those.
SPIRA_API bool cell_takes(const kernel_shape *kernel) {
    const triple size = kernel->size, once = triple_make(1, 1, 1);
    return kernel->transposed && triple_equal(kernel->dilation, once) && size.x <= 2 &&
           size.y <= 2 && size.z <= 2;
}

// The spacing of the cells.
SPIRA_BOTH triple cell_stride(const kernel_shape *kernel) {
    return triple_multiply(kernel->stride, kernel->size);
}

template <typename W>
struct cell_place {
    W cell;     // the word of an output's cell,
    int offset; // and of its place there
};

template <typename W>
SPIRA_BOTH cell_place<W> cell_find(const word_layout *layout, const kernel_shape *kernel, W word) {
    const triple stride = cell_stride(kernel);
    const W cell = downsample_word(layout, word, stride, downsample_by_mask(stride));
    const voxel v = word_unpack<W>(layout, word), first = word_unpack<W>(layout, cell);
    const int x = v.x != first.x, y = v.y != first.y, z = v.z != first.z;
    return {cell, (x * kernel->size.y + y) * kernel->size.z + z};
}

template <typename W>
SPIRA_API status cell_check(const word_layout *layout, const cell_request<W> *request) {
    SPIRA_REQUIRE(layout, status_null_pointer, "word layout", 0);
    SPIRA_REQUIRE(request, status_null_pointer, "request", 0);
    const kernel_shape *kernel = &request->kernel;
    SPIRA_TRY(order_sizes_check(kernel, request->outputs.capacity));
    SPIRA_REQUIRE(cell_takes(kernel), status_unsupported, "kernel (of other cells)", 0);
    SPIRA_TRY(downsample_check(layout, &request->outputs, cell_stride(kernel), &request->source));
    return order_layout_check(&request->layout, kernel_volume(kernel), request->outputs.capacity);
}

// What is found of each output, and the outputs of each offset and block of threads.
struct cell_scratch {
    int32_t *source; // [capacity]; -1: none
    uint8_t *offset; // [capacity]
    int32_t *count;  // [cell_offsets, blocks]
};

SPIRA_BOTH int32_t cell_blocks(int32_t rows) {
    return (int32_t)ceil_div(rows, cell_rows);
}

SPIRA_API cell_scratch cell_carve(workspace *w, int32_t capacity) {
    cell_scratch s;
    s.source = workspace_take<int32_t>(w, capacity);
    s.offset = workspace_take<uint8_t>(w, capacity);
    s.count = workspace_take<int32_t>(w, (int64_t)cell_offsets * cell_blocks(capacity));
    return s;
}

// Bytes of scratch for one layout, of so many outputs.
SPIRA_API int64_t cell_scratch_bytes(int32_t capacity) {
    workspace w = workspace_begin(nullptr);
    cell_carve(&w, capacity);
    return (int64_t)w.used;
}

// Where each offset's outputs begin, of so many of each.
struct cell_places {
    int32_t begin[cell_offsets + 1];
};

// The offsets that some output of a block has.
SPIRA_BOTH uint32_t cell_mask(const cell_places &places, int64_t block) {
    uint32_t mask = 0;
    for (int k = 0; k < cell_offsets; ++k) {
        const int64_t begin = max_of(places.begin[k], block * order_rows);
        const int64_t end = min_of(places.begin[k + 1], (block + 1) * order_rows);
        mask |= begin < end ? 1u << k : 0;
    }
    return mask;
}

// Puts an output, or none, at its place.
SPIRA_BOTH void cell_put(const order_layout &t, const cell_places &places, int64_t place,
                         int32_t row, int offset, int32_t source) {
    const int64_t block = place / order_rows;
    t.row[place] = row;
    for (uint32_t mask = cell_mask(places, block), k = 0; mask >> k; ++k) {
        if (mask >> k & 1) {
            t.source[order_begin(&t, block, (int)k) + place % order_rows] =
                row >= 0 && (int)k == offset ? source : -1;
        }
    }
}

// Builds the ordered layout of an inverse convolution: the host loop of `cell_order` (cell.cuh).
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
    const voxel_set<W> &outputs = request->outputs, &source = request->source;
    const int32_t count = (int32_t)min_of(*outputs.count, outputs.capacity);
    const int32_t blocks = order_count(outputs.capacity);
    const W *end = source.words + min_of(*source.count, source.capacity);
    cell_places places = {}, next;
    for (int32_t row = 0; row < count; ++row) {
        ++places.begin[cell_find(layout, &request->kernel, outputs.words[row]).offset + 1];
    }
    for (int k = 0; k < cell_offsets; ++k) {
        places.begin[k + 1] += places.begin[k];
    }
    next = places;
    for (int32_t row = 0; row < count; ++row) {
        const cell_place<W> own = cell_find(layout, &request->kernel, outputs.words[row]);
        const W *found = std::lower_bound((const W *)source.words, end, own.cell);
        const bool there = found < end && *found == own.cell;
        cell_put(t, places, next.begin[own.offset]++, row, own.offset,
                 there ? (int32_t)(found - source.words) : -1);
    }
    for (int64_t place = count; place < (int64_t)blocks * order_rows; ++place) {
        cell_put(t, places, place, -1, 0, -1);
    }
    for (int32_t block = 0; block < blocks; ++block) {
        t.mask[block] = cell_mask(places, block);
        t.turn[block / 2] = block / 2;
    }
    return status_success();
}

} // namespace spira

#endif
