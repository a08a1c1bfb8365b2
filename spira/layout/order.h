// spira/layout/order.h: the ordered layout of a kernel map, and the host loops that build it.
//
// An ordered layout is a kernel map with its outputs sorted: outputs with similar taps (offsets
// that have a source) stand together, in row groups of 64. Then a row group has few offsets, and
// few of its outputs lack one of them. A dense matrix product over a row group multiplies few
// missing rows, and its sums stay in registers. All convolutions read this layout.
//
//   row      [groups, 64]          the output at each position, -1 past the last output
//   mask     [groups, words]       bit k % 32 of word k / 32: some output of the group has offset k
//   source   [groups, volume, 64]  the source row of each position, -1: none
//   schedule [pairs]               the pairs of neighbouring row groups, heavy ones first
//
// `source` is written for the offsets in the mask only, `schedule` for the pairs that have outputs
// only. The map may have the columns of a threshold (map_forms.os): the offsets with an L1 norm
// below it, ascending. Then `volume` is the number of columns, and k is a column.
//
// The order. Each output has a key, which tells in which large parts of the kernel the output has
// taps (order/key.h). A full sort by key is not needed: row groups have nearly as few offsets if
//   1. a table divides the keys into up to 2048 classes (order/key.h),
//   2. outputs are sorted by class, those of a class by row,
//   3. each run of 1024 positions is then sorted by key, equal keys by row.
// Each step fits one thread block.
//
// The schedule balances the load of workers that take group pairs in its order: each gets about
// the same work. A pair weighs the share of the kernel's offsets that lie in the directions of its
// taps (order_weights). Pairs are sorted by weight, heavy ones first, equal weights by number;
// scopes of 4096 pairs are sorted separately.
#ifndef SPIRA_LAYOUT_ORDER_H
#define SPIRA_LAYOUT_ORDER_H

#include "order/host.h"
#include "order/layout.h"

namespace spira {

// Returns the bytes of scratch for order_build_host.
SPIRA_API size_t order_host_workspace(int32_t capacity) {
    workspace w = workspace_begin(nullptr);
    order_host_carve(&w, capacity);
    return w.used;
}

// Builds the ordered layout of a kernel map on the host. `order_build` (layout/order.cuh) gives the
// same bytes.
//
// inputs   kernel: of the map; threshold: of its columns, map_all (map.h) for all offsets
//          map [capacity, columns]: `count` rows are read
//          scratch: order_host_workspace(capacity) bytes, aligned to 256
// outputs  t: all row groups of the capacity; those past the count have rows of -1 and no offsets
// errors   null or misaligned pointers, sizes, a layout or scratch that is too small
// Deterministic.
SPIRA_API status order_build_host(const kernel_shape *kernel, int threshold, const int32_t *map,
                                  int32_t count, int32_t capacity, order_layout t, void *scratch,
                                  size_t scratch_bytes) {
    SPIRA_TRY(pointer_check(map, sizeof *map, "map"));
    SPIRA_TRY(order_check(kernel, threshold, capacity, &t));
    SPIRA_REQUIRE(count >= 0 && count <= capacity, status_bad_size, "count", count);
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, order_host_workspace(capacity)));
    workspace w = workspace_begin(scratch);
    order_host_scratch h = order_host_carve(&w, capacity);
    order_sort_host(kernel, threshold, map, count, &h);
    SPIRA_PARALLEL_FOR
    for (int32_t group = 0; group < order_count(capacity); ++group) {
        order_put_host(map, h.order, count, group, &t);
    }
    order_schedule_host(kernel, threshold, count, &h, &t);
    return status_success();
}

// Counts the row slots of a layout on the host: order_rows for each offset of each row group.
// `order_slots` (layout/order.cuh) gives the same number. A convolution multiplies this many rows;
// those with a source are the pairs of the kernel map.
//
// inputs   t: of order_build_host with this count, or a larger one; only its masks are read
// outputs  slots [1]
// errors   null or misaligned pointers, a count that is negative or beyond the layout
SPIRA_API status order_slots_host(const order_layout *t, int32_t count, int64_t *slots) {
    SPIRA_REQUIRE(count >= 0, status_bad_size, "count", count);
    SPIRA_TRY(order_slots_check(t, (int32_t)max_of(count, 1), slots));
    const int64_t words = (int64_t)order_count(count) * order_words(t->volume);
    *slots = 0;
    for (int64_t i = 0; i < words; ++i) {
        *slots += (int64_t)count_bits(t->mask[i]) * order_rows;
    }
    return status_success();
}

} // namespace spira

#endif
