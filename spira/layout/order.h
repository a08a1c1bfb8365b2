// spira/layout/order.h: the kernel map with its outputs in the order of their taps: what
// convolutions of few channels (conv/narrow.cuh) and on Hopper's warpgroups (conv/hopper.cuh) read.
//
// Ordered layout. Outputs with like taps stand side by side, in blocks of 64. So a block has few
// offsets, and few of its outputs lack one of them: a dense matrix product over a block multiplies
// few rows that are not there, and its sums can stay in registers.
//
//   row    [blocks, 64]          the output of each place, -1 behind the last
//   mask   [blocks, words]       bit k % 32 of word k / 32: some output of the block has offset k
//   source [blocks, volume, 64]  the source row of each place, -1: none
//
//   turn   [pairs]               pairs of neighbouring blocks, heavy ones first
//
// Of `source` only the rows of offsets that are in the mask are written, of `turn` only pairs that
// have outputs. Who shares the pairs out among workers in their turn gives all of them much the
// same to do; they are in order within scopes of 4096 pairs.
//
// The order. Of a kernel of size 3, 24 groups of offsets are looked at, each a box of the kernel
// (order_group_at): its sides, which are the offsets on one side of the centre along an axis, the
// quarters where two sides meet, and the faces. A bit for each group in which an output has a tap
// makes a number, the first group's bit the highest; its rank in the reflected Gray code is the
// output's key. So the outputs of a block agree first in which large parts of the kernel they lack,
// which are then not multiplied.
//
// Of other kernels the directions take the place of the groups. Offset (dx, dy, dz) of the kernel
// lies in the direction of its signs: one of 27, and none is lost up to size 3. Directions are
// numbered by their L1 norm, those of one norm in the order of the offsets: the centre is 0, then
// come faces, edges, corners; higher numbers have higher bits. Neighbours in the code differ by one
// direction, and those that are often there change fastest.
//
// Outputs ascend by key nearly: all that a block of threads has at a time does.
// - The keys of 2048 evenly spread rows, by turns in one of two lists, each list ascending, divide
//   the keys into classes: every second one of a list begins a class, the first none. If it is the
//   one that began the list's class before, all keys above it are the class instead: so a key that
//   many rows have gets a class of its own. Two lists are sorted side by side.
// - Outputs stand class by class, within a class by row.
// - Each run of 2048 places, as they stand then, ascends by key, and by row where keys agree.
// So rows of a class stand together, and the classes of a run are in order besides. On the real
// scans of the tests, for sizes 2, 3 and 5 and strides 1 to 8, blocks have at most 1.3 % more
// offsets than they had if all outputs ascended, mostly less than 0.5 %. Runs of consecutive rows,
// sorted without classes, would have 60 % more at stride 1 (size 3).
//
// The turn. A direction weighs as many 254ths as the offsets that lie in it are of all, rounded
// down (nothing, if they are fewer); a pair of blocks as much as the directions do in which its
// outputs have taps. Of pairs that weigh the same the lower number comes first. Up to size 3 that
// is the order of how many offsets the pairs have, and known before the offsets are.
//
// Maps may have the columns of a threshold (map_forms.os): offsets with an L1 norm below it,
// ascending. `volume` is the number of columns then, and k counts columns.
#ifndef SPIRA_LAYOUT_ORDER_H
#define SPIRA_LAYOUT_ORDER_H

#include "../index/compact.h"
#include "../offset.h"
#include "../workspace.h"

#include <algorithm>

namespace spira {

enum {
    order_rows = 64, // outputs of a block
    order_directions = 27,
    order_groups = 24,
    order_samples = 2048, // rows of a map whose keys divide it
    order_lists = 2,      // of them
    order_list_samples = order_samples / order_lists,
    order_classes = 1024,
    order_list_classes = order_classes / order_lists,
    order_run = 2048,   // places that ascend by key: 16 pairs of blocks
    order_scope = 4096, // pairs of blocks
    order_weight_most = 254,
};

struct order_layout {
    int32_t *row;    // [blocks, order_rows]
    uint32_t *mask;  // [blocks, order_words(volume)]
    int32_t *source; // [blocks, volume, order_rows]
    int32_t *schedule; // [order_pairs(blocks)]
    int32_t blocks;  // order_count(capacity)
    int32_t volume;  // columns of the map
};

// Blocks for a capacity of outputs.
SPIRA_BOTH int32_t order_count(int32_t capacity) {
    return (int32_t)ceil_div(capacity, order_rows);
}

// Pairs of so many blocks; the last may be one block.
SPIRA_BOTH int32_t order_pairs(int32_t blocks) {
    return (blocks + 1) / 2;
}

// Words of a block's mask.
SPIRA_BOTH int order_words(int volume) {
    return (volume + 31) / 32;
}

// Where the sources of an offset of a block begin.
SPIRA_BOTH int64_t order_begin(const order_layout *t, int64_t block, int k) {
    return (block * t->volume + k) * order_rows;
}

// Carves an ordered layout out of the caller's memory (or counts its bytes: workspace.h).
SPIRA_API order_layout order_layout_take(workspace *w, int32_t capacity, int32_t volume) {
    order_layout t;
    t.blocks = order_count(capacity);
    t.volume = volume;
    t.row = workspace_take<int32_t>(w, (int64_t)t.blocks * order_rows);
    t.mask = workspace_take<uint32_t>(w, (int64_t)t.blocks * order_words(volume));
    t.source = workspace_take<int32_t>(w, order_begin(&t, t.blocks, 0));
    t.schedule = workspace_take<int32_t>(w, order_pairs(t.blocks));
    return t;
}

SPIRA_API status order_layout_check(const order_layout *t, int volume, int32_t capacity) {
    SPIRA_REQUIRE(t, status_null_pointer, "layout", 0);
    SPIRA_REQUIRE(t->row && t->mask && t->source && t->schedule, status_null_pointer, "layout", 0);
    SPIRA_REQUIRE(t->volume == volume, status_bad_size, "layout.volume", t->volume);
    SPIRA_REQUIRE(t->blocks >= order_count(capacity), status_capacity, "layout.blocks",
                  order_count(capacity));
    return status_success();
}

SPIRA_API status order_sizes_check(const kernel_shape *kernel, int32_t capacity) {
    SPIRA_TRY(kernel_check(kernel));
    SPIRA_REQUIRE(capacity >= 1 && capacity <= INT32_MAX / 2, status_bad_size, "capacity",
                  capacity);
    return status_success();
}

SPIRA_API status order_check(const kernel_shape *kernel, int threshold, const int32_t *map,
                             int32_t capacity, const order_layout *t) {
    SPIRA_TRY(order_sizes_check(kernel, capacity));
    SPIRA_REQUIRE(threshold >= 1, status_bad_size, "threshold", threshold);
    SPIRA_REQUIRE(map, status_null_pointer, "map", 0);
    return order_layout_check(t, kernel_norm_count(kernel, threshold, kernel_volume(kernel)),
                              capacity);
}

// The L1 norm of the direction that offset k of a kernel of size 3 lies in.
SPIRA_BOTH constexpr int order_norm(int k) {
    return (k / 9 != 1) + (k / 3 % 3 != 1) + (k % 3 != 1);
}

// The number of that direction.
SPIRA_BOTH constexpr int order_number(int k) {
    int before = 0;
    for (int other = 0; other < order_directions; ++other) {
        before +=
            order_norm(other) < order_norm(k) || (order_norm(other) == order_norm(k) && other < k);
    }
    return before;
}

// The same of all of them.
struct order_numbers {
    uint8_t number[order_directions];
};

SPIRA_API order_numbers order_numbers_make() {
    order_numbers n;
    for (int k = 0; k < order_directions; ++k) {
        n.number[k] = (uint8_t)order_number(k);
    }
    return n;
}

// The number of the direction of offset k. Sources of a transposed kernel lie on the other side;
// for all of them alike, so that nothing is lost.
SPIRA_BOTH int order_direction(const kernel_shape *kernel, const order_numbers *n, int k) {
    triple d = kernel_lattice(kernel, k);
    int x = (d.x > 0) - (d.x < 0), y = (d.y > 0) - (d.y < 0), z = (d.z > 0) - (d.z < 0);
    return n->number[(x + 1) * 9 + (y + 1) * 3 + z + 1];
}

// ---- groups -------------------------------------------------------------------------------------

// Where an offset lies along an axis, seen from the centre: a bit each, so that they make a set.
enum order_place {
    order_minus = 1,
    order_centre = 2,
    order_plus = 4,
    order_anywhere = order_minus | order_centre | order_plus,
};

SPIRA_BOTH constexpr int order_place_of(int d) {
    return d < 0 ? order_minus : d > 0 ? order_plus : order_centre;
}

// The offsets that lie at these places along each axis.
struct order_group {
    int8_t x, y, z;
};

SPIRA_BOTH constexpr order_group order_group_along(int axis, int places, int others) {
    return {(int8_t)(axis == 0 ? places : others), (int8_t)(axis == 1 ? places : others),
            (int8_t)(axis == 2 ? places : others)};
}

// Quarter n of the four around an axis.
SPIRA_BOTH constexpr order_group order_group_around(int axis, int n) {
    const int8_t first = n / 2 ? order_plus : order_minus;
    const int8_t second = n % 2 ? order_plus : order_minus, any = order_anywhere;
    return axis == 0   ? order_group{any, first, second}
           : axis == 1 ? order_group{first, any, second}
                       : order_group{first, second, any};
}

// Group n. This order was found on three real scans at four strides, and holds on a fourth: their
// blocks have few offsets.
SPIRA_BOTH constexpr order_group order_group_at(int n) {
    const int sides[3] = {2, 0, 1}, around[3] = {0, 2, 1};
    const int places = n % 2 ? order_plus : order_minus;
    return n < 6    ? order_group_along(sides[n / 2], places, order_anywhere)
           : n < 18 ? order_group_around(around[(n - 6) / 4], (n - 6) % 4)
                    : order_group_along((n - 18) / 2, places, order_centre);
}

// The directions of a group: a bit for each, by its number.
SPIRA_BOTH constexpr uint32_t order_group_mask(order_group group) {
    uint32_t mask = 0;
    for (int k = 0; k < order_directions; ++k) {
        const bool has = group.x & order_place_of(k / 9 - 1) &&
                         group.y & order_place_of(k / 3 % 3 - 1) &&
                         group.z & order_place_of(k % 3 - 1);
        mask |= has ? 1u << order_number(k) : 0;
    }
    return mask;
}

// The groups in which an output has taps, by the directions in which it has some: a bit of the
// number for each.
template <int n = 0>
SPIRA_BOTH uint32_t order_groups_of(uint32_t directions) {
    constexpr uint32_t mask = order_group_mask(order_group_at(n));
    uint32_t groups = directions & mask ? 1u << (order_groups - 1 - n) : 0;
    if constexpr (n + 1 < order_groups) {
        groups |= order_groups_of<n + 1>(directions);
    }
    return groups;
}

// Whether a kernel is ordered by groups, and not by directions. Each of its offsets is a direction
// of its own, so that the directions tell all.
SPIRA_BOTH bool order_has_groups(const kernel_shape *kernel) {
    return kernel->size.x == 3 && kernel->size.y == 3 && kernel->size.z == 3;
}

// The rank of a number in the reflected Gray code.
SPIRA_BOTH uint32_t order_gray_rank(uint32_t number) {
    for (int step = 1; step < 32; step *= 2) {
        number ^= number >> step;
    }
    return number;
}

// The key of an output that has taps in these directions.
SPIRA_BOTH uint32_t order_key(bool by_groups, uint32_t directions) {
    return order_gray_rank(by_groups ? order_groups_of(directions) : directions);
}

// ---- weights ------------------------------------------------------------------------------------

struct order_weights {
    uint8_t weight[order_directions]; // of each direction, by its number; 254 in all at most
    uint32_t directions;              // that the columns lie in: a bit each
};

SPIRA_API order_weights order_weights_make(const kernel_shape *kernel, int threshold) {
    const order_numbers numbers = order_numbers_make();
    const int volume = kernel_volume(kernel);
    int lie[order_directions] = {}, columns = 0;
    for (int k = 0; k < volume; ++k) {
        if (kernel_norm(kernel, k) < threshold) {
            ++lie[order_direction(kernel, &numbers, k)];
            ++columns;
        }
    }
    order_weights w = {};
    for (int d = 0; d < order_directions; ++d) {
        w.weight[d] = (uint8_t)(lie[d] * order_weight_most / columns);
        w.directions |= lie[d] ? 1u << d : 0;
    }
    return w;
}

// Which row sample i of a map is. Of a list, sample j is number order_lists * j + list.
SPIRA_BOTH int32_t order_sample_row(int i, int32_t count) {
    return (int32_t)((2 * (int64_t)i + 1) * count / (2 * order_samples));
}

struct order_host {
    uint32_t *keys;       // [capacity]
    uint32_t *directions; // [capacity] in which an output has taps
    uint64_t *order;      // [capacity] key << 32 | row
};

SPIRA_API order_host order_host_carve(workspace *w, int32_t capacity) {
    order_host h;
    h.keys = workspace_take<uint32_t>(w, capacity);
    h.directions = workspace_take<uint32_t>(w, capacity);
    h.order = workspace_take<uint64_t>(w, capacity);
    return h;
}

// Bytes of scratch for order_build_host.
SPIRA_API size_t order_host_workspace(int32_t capacity) {
    workspace w = workspace_begin(nullptr);
    order_host_carve(&w, capacity);
    return w.used;
}

// The keys and directions of the outputs [count] of a map.
SPIRA_API void order_keys_host(const kernel_shape *kernel, int threshold, const int32_t *map,
                               int32_t count, const order_host *h) {
    const bool by_groups = order_has_groups(kernel);
    const order_numbers numbers = order_numbers_make();
    uint32_t direction[kernel_volume_max]; // of each column
    int columns = 0;
    for (int k = 0; k < kernel_volume(kernel); ++k) {
        if (kernel_norm(kernel, k) < threshold) {
            direction[columns++] = 1u << order_direction(kernel, &numbers, k);
        }
    }
    for (int32_t i = 0; i < count; ++i) {
        uint32_t directions = 0;
        for (int c = 0; c < columns; ++c) {
            directions |= map[(int64_t)i * columns + c] >= 0 ? direction[c] : 0;
        }
        h->keys[i] = order_key(by_groups, directions);
        h->directions[i] = directions;
    }
}

// Where class c of a list, not the first, begins: the least key that it may have. sample
// [order_list_samples]: ascending.
SPIRA_BOTH uint32_t order_class_begin(const uint32_t *sample, int c) {
    const int each = order_list_samples / order_list_classes;
    return sample[c * each] + (c > 1 && sample[c * each] == sample[(c - 1) * each]);
}

// Of each class of each list the first key, of the lists' first ones any.
typedef uint32_t order_begins[order_lists][order_list_classes];

SPIRA_API void order_begins_host(const uint32_t *keys, int32_t count, order_begins &begin) {
    uint32_t sample[order_list_samples];
    for (int list = 0; list < order_lists; ++list) {
        for (int j = 0; j < order_list_samples; ++j) {
            sample[j] = count ? keys[order_sample_row(order_lists * j + list, count)] : 0;
        }
        std::sort(sample, sample + order_list_samples);
        for (int c = 1; c < order_list_classes; ++c) {
            begin[list][c] = order_class_begin(sample, c);
        }
    }
}

// The class of a key.
SPIRA_API int order_class_host(const order_begins &begin, uint32_t key) {
    int before = 0;
    for (const auto &list : begin) {
        before += (int)(std::upper_bound(list + 1, list + order_list_classes, key) - (list + 1));
    }
    return before;
}

// Puts the outputs in classes.
SPIRA_API void order_divide_host(int32_t count, const order_host *h) {
    order_begins begin;
    int32_t place[order_classes + 1] = {};
    order_begins_host(h->keys, count, begin);
    for (int32_t i = 0; i < count; ++i) {
        ++place[order_class_host(begin, h->keys[i]) + 1];
    }
    for (int c = 0; c < order_classes; ++c) {
        place[c + 1] += place[c];
    }
    for (int32_t i = 0; i < count; ++i) {
        int32_t to = place[order_class_host(begin, h->keys[i])]++;
        h->order[to] = (uint64_t)h->keys[i] << 32 | (uint32_t)i;
    }
}

// The outputs [count] of a map in their order.
SPIRA_API void order_sort_host(const kernel_shape *kernel, int threshold, const int32_t *map,
                               int32_t count, const order_host *h) {
    order_keys_host(kernel, threshold, map, count, h);
    order_divide_host(count, h);
    SPIRA_PARALLEL_FOR
    for (int32_t first = 0; first < count; first += order_run) {
        std::sort(h->order + first, h->order + min_of(first + order_run, count));
    }
}

// One block of the layout.
SPIRA_API void order_put_host(const int32_t *map, const uint64_t *order, int32_t count,
                              int64_t block, const order_layout *t) {
    int32_t *row = t->row + block * order_rows;
    uint32_t *mask = t->mask + block * order_words(t->volume);
    for (int p = 0; p < order_rows; ++p) {
        int64_t at = block * order_rows + p;
        row[p] = at < count ? (int32_t)(uint32_t)order[at] : -1;
    }
    std::fill(mask, mask + order_words(t->volume), 0u);
    for (int k = 0; k < t->volume; ++k) {
        int32_t taps[order_rows];
        bool any = false;
        for (int p = 0; p < order_rows; ++p) {
            taps[p] = row[p] < 0 ? -1 : map[(int64_t)row[p] * t->volume + k];
            any |= taps[p] >= 0;
        }
        if (any) {
            mask[k / 32] |= 1u << k % 32;
            std::copy(taps, taps + order_rows, t->source + order_begin(t, block, k));
        }
    }
}

// What the pair of blocks weighs whose outputs are order [rows].
SPIRA_API uint32_t order_weigh_host(const uint64_t *order, const uint32_t *directions_of, int rows,
                                    const order_weights *weights) {
    uint32_t directions = 0, weight = 0;
    for (int i = 0; i < rows; ++i) {
        directions |= directions_of[(uint32_t)order[i]];
    }
    for (int d = 0; d < order_directions; ++d) {
        weight += directions >> d & 1 ? weights->weight[d] : 0;
    }
    return weight;
}

// h: its order; its keys are lost.
SPIRA_API void order_turn_host(const kernel_shape *kernel, int threshold, int32_t count,
                               const order_host *h, const order_layout *t) {
    const order_weights weights = order_weights_make(kernel, threshold);
    const int32_t pairs = order_pairs(order_count(count)), each = 2 * order_rows;
    uint32_t *weight = h->keys;
    for (int32_t pair = 0; pair < pairs; ++pair) {
        int rows = (int)min_of(count - pair * each, each);
        weight[pair] = order_weigh_host(h->order + pair * each, h->directions, rows, &weights);
        t->schedule[pair] = pair;
    }
    for (int32_t first = 0; first < pairs; first += order_scope) {
        int32_t end = (int32_t)min_of(first + order_scope, pairs);
        std::sort(t->schedule + first, t->schedule + end, [=](int32_t a, int32_t b) {
            return weight[a] != weight[b] ? weight[a] > weight[b] : a < b;
        });
    }
}

// Builds the ordered layout of a map: the host loop of `order_build` (layout/order.cuh).
//
// inputs   kernel: that of the map; threshold: of its columns, map_all (map.h): all offsets
//          map [capacity, columns], of which `count` rows are read
//          scratch: order_host_workspace(capacity) bytes, aligned to 256
// outputs  t: all blocks of the capacity; those beyond the count have rows of -1 and no offsets
// errors   null pointers, sizes, a layout that is too small for the capacity, scratch
// Deterministic: the order is total.
SPIRA_API status order_build_host(const kernel_shape *kernel, int threshold, const int32_t *map,
                                  int32_t count, int32_t capacity, order_layout t, void *scratch,
                                  size_t scratch_bytes) {
    SPIRA_TRY(order_check(kernel, threshold, map, capacity, &t));
    SPIRA_REQUIRE(count >= 0 && count <= capacity, status_bad_size, "count", count);
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, order_host_workspace(capacity)));
    workspace w = workspace_begin(scratch);
    order_host h = order_host_carve(&w, capacity);
    order_sort_host(kernel, threshold, map, count, &h);
    SPIRA_PARALLEL_FOR
    for (int32_t block = 0; block < order_count(capacity); ++block) {
        order_put_host(map, h.order, count, block, &t);
    }
    order_turn_host(kernel, threshold, count, &h, &t);
    return status_success();
}

// ---- slots --------------------------------------------------------------------------------------

SPIRA_API status order_slots_check(const order_layout *t, int32_t capacity, const int64_t *slots) {
    SPIRA_REQUIRE(t, status_null_pointer, "layout", 0);
    SPIRA_REQUIRE(capacity >= 1 && capacity <= INT32_MAX / 2, status_bad_size, "capacity",
                  capacity);
    SPIRA_TRY(order_layout_check(t, t->volume, capacity));
    SPIRA_REQUIRE(t->volume >= 1 && t->volume <= kernel_volume_max, status_bad_size,
                  "layout.volume", t->volume);
    SPIRA_REQUIRE(slots, status_null_pointer, "slots", 0);
    return status_success();
}

// How many row slots a layout has: order_rows for each offset of each block. A convolution
// multiplies so many rows; those of them that have a source are the pairs. The host loop of
// `order_slots` (layout/order.cuh).
//
// inputs   t: of order_build_host with this count, or a larger one; its masks are read
// outputs  slots [1]
// errors   null pointers, a count below 0 or beyond the layout
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
