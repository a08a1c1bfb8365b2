// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/exchange.h: kernel maps in the forms that other engines read, and weights in their orders.
//
// form         arrays                                                       order of the offsets
// spconv       indice_pairs [2, volume, stride], indice_pair_num [volume]   x fastest
// TorchSparse  nbmaps [pairs, 2], nbsizes [volume]                          x fastest; z fastest if
//                                                                           the volume is even
// Minkowski    begin [volume + 1], in [pairs], out [pairs]                  x fastest
//
// They are pair lists (map_lists) in the engine's order; within an offset the outputs ascend.
//
// Rows are numbered as in the layer's own sets: "input" is a row of its source. The engines keep
// one map for a strided layer and its inverse, and swap the two columns when they run the inverse.
// They must do so with the strided layer's map, not with the map of a transposed kernel.
//
// Kernels are placed as MinkowskiEngine places them, and as spconv does with padding
// dilation * (size / 2) on odd axes and 0 on even ones. TorchSparse shifts even sizes above 2 (size
// 4 is -1 .. 2), so its own map of such a kernel pairs other voxels.
#ifndef SPIRA_EXCHANGE_H
#define SPIRA_EXCHANGE_H

#include "map.h"

#include <string.h>

namespace spira {

// ---- the order of the offsets and weights -------------------------------------------------------

// How other engines order the weights of one layer.
enum weight_order : int {
    // [size.x, size.y, size.z, cin, cout]: spira's own.
    weight_order_spira,
    // [cout, size.z, size.y, size.x, cin]: spconv 2, whose spatial axes are z, y, x.
    weight_order_spconv,
    // [volume, cin, cout], x fastest if the volume is odd, z fastest if it is even: TorchSparse.
    weight_order_torchsparse,
    // [volume, cin, cout], x fastest: MinkowskiEngine's hypercube.
    weight_order_minkowski,
};

// Weights of one layer.
struct weight_shape {
    triple size; // of the kernel
    int cin, cout;
};

// The index of weight (k, i, o) in an engine's array; k is in spira's order.
SPIRA_BOTH int64_t weight_index(weight_order order, const weight_shape *s, int k, int i, int o) {
    const triple size = s->size;
    const int64_t cin = s->cin, cout = s->cout;
    int ix = k / (size.y * size.z), iy = k / size.z % size.y, iz = k % size.z;
    int x_fastest = (iz * size.y + iy) * size.x + ix;
    bool odd = size.x * size.y * size.z % 2 != 0;
    switch (order) {
    case weight_order_spconv:
        return ((int64_t)o * (size.x * size.y * size.z) + x_fastest) * cin + i;
    case weight_order_torchsparse:
        return ((odd ? x_fastest : k) * cin + i) * cout + o;
    case weight_order_minkowski:
        return (x_fastest * cin + i) * cout + o;
    default:
        return (k * cin + i) * cout + o;
    }
}

// Copies a layer's weights from an engine's order into spira's.
//
// inputs   source [volume * cin * cout] elements of element_size bytes, in `order`
// outputs  target [volume, cin, cout]: offsets in spira's order; must not overlap source
SPIRA_API status weight_reorder(weight_order order, const weight_shape *shape, size_t element_size,
                                const void *source, void *target) {
    SPIRA_REQUIRE(shape, status_null_pointer, "shape", 0);
    SPIRA_REQUIRE(source, status_null_pointer, "source", 0);
    SPIRA_REQUIRE(target, status_null_pointer, "target", 0);
    SPIRA_REQUIRE(order >= weight_order_spira && order <= weight_order_minkowski,
                  status_unsupported, "order", order);
    const kernel_shape kernel = {shape->size, {1, 1, 1}, {1, 1, 1}, false};
    SPIRA_TRY(kernel_check(&kernel));
    SPIRA_TRY(size_check(shape->cin, 1, INT64_MAX, "cin"));
    SPIRA_TRY(size_check(shape->cout, 1, INT64_MAX, "cout"));
    SPIRA_TRY(size_check((int64_t)element_size, 1, INT64_MAX, "element_size"));
    char *to = (char *)target;
    for (int k = 0; k < kernel_volume(&kernel); ++k) {
        for (int i = 0; i < shape->cin; ++i) {
            for (int o = 0; o < shape->cout; ++o, to += element_size) {
                const int64_t from = weight_index(order, shape, k, i, o);
                memcpy(to, (const char *)source + from * (int64_t)element_size, element_size);
            }
        }
    }
    return status_success();
}

// The place of spira's offset k among the offsets of an engine: the index of its weight, for
// weights of one element.
SPIRA_BOTH int exchange_place(weight_order order, triple size, int k) {
    const weight_shape one = {size, 1, 1};
    return (int)weight_index(order, &one, k, 0, 0);
}

// The inverse: the offset at a place. "x fastest" of a kernel is "z fastest" of the kernel with
// reversed axes, so the same function inverts itself.
SPIRA_BOTH int exchange_offset(weight_order order, triple size, int place) {
    return exchange_place(order, triple_make(size.z, size.y, size.x), place);
}

// ---- lists, offset by offset --------------------------------------------------------------------

// Where an engine wants the lists. Pair i of the list at `place` is element (start + i) * step of
// `input` and `output`. start is place * stride; if stride is 0, the length of all lists before.
struct exchange_lists {
    weight_order order;
    triple size; // of the kernel
    int32_t *input, *output;
    int step;
    int32_t stride;  // > 0: room for each list, filled up with -1
    int32_t *counts; // [volume] lengths, or null
    int32_t *begin;  // [volume + 1] starts, or null
};

// spconv's indice pairs: input rows, then output rows, -1 behind each list. For a submanifold layer
// spconv 2 reads all lists but the centre's, and the lengths of those before the centre. Its own
// maps have zeros for the other lengths; here all are written. stride: room for each list; spconv
// takes the number of inputs.
SPIRA_API exchange_lists exchange_spconv(triple size, int32_t stride, int32_t *indice_pairs,
                                         int32_t *indice_pair_num) {
    const int64_t second = (int64_t)size.x * size.y * size.z * stride;
    int32_t *const output = indice_pairs ? indice_pairs + second : nullptr;
    return {weight_order_spconv, size, indice_pairs, output, 1, stride, indice_pair_num, nullptr};
}

// TorchSparse's neighbour map: nbmaps [pairs.capacity, 2] (input row, output row), offset after
// offset.
SPIRA_API exchange_lists exchange_torchsparse(triple size, int32_t *nbmaps, int32_t *nbsizes) {
    int32_t *const output = nbmaps ? nbmaps + 1 : nullptr;
    return {weight_order_torchsparse, size, nbmaps, output, 2, 0, nbsizes, nullptr};
}

// MinkowskiEngine's in and out maps: in, out [pairs.capacity], list after list.
SPIRA_API exchange_lists exchange_minkowski(triple size, int32_t *begin, int32_t *in,
                                            int32_t *out) {
    return {weight_order_minkowski, size, in, out, 1, 0, nullptr, begin};
}

SPIRA_BOTH int exchange_volume(const exchange_lists *to) {
    return to->size.x * to->size.y * to->size.z;
}

// The number of a list's pairs that are kept. room: for lists that follow one another.
SPIRA_BOTH int64_t exchange_kept(const exchange_lists *to, int64_t room, int64_t found) {
    return max_of(min_of(found, to->stride ? to->stride : room), 0);
}

// Writes pair number `at`, counted from the start of all lists.
SPIRA_BOTH void exchange_put(const exchange_lists *to, int64_t at, int32_t input, int32_t output) {
    to->input[at * to->step] = input;
    to->output[at * to->step] = output;
}

// Writes the start and the length of a list.
SPIRA_BOTH void exchange_put_bounds(const exchange_lists *to, int place, int64_t start,
                                    int64_t count) {
    if (to->counts) {
        to->counts[place] = (int32_t)count;
    }
    if (to->begin) {
        to->begin[place] = (int32_t)start;
        if (place + 1 == exchange_volume(to)) {
            to->begin[place + 1] = (int32_t)(start + count);
        }
    }
}

SPIRA_API status exchange_check(const map_lists *pairs, const exchange_lists *to,
                                const device_status *trouble) {
    SPIRA_TRY(map_lists_check(pairs));
    SPIRA_REQUIRE(to, status_null_pointer, "to", 0);
    const kernel_shape kernel = {to->size, {1, 1, 1}, {1, 1, 1}, false};
    SPIRA_TRY(kernel_check(&kernel));
    SPIRA_TRY(pointer_check(to->input, alignof(int32_t), "to.input"));
    SPIRA_TRY(pointer_check(to->output, alignof(int32_t), "to.output"));
    SPIRA_REQUIRE(to->step == 1 || to->step == 2, status_bad_size, "to.step", to->step);
    SPIRA_TRY(
        size_check(to->stride, (to->order == weight_order_spconv), INT32_MAX / 2, "to.stride"));
    const bool counts = to->order != weight_order_minkowski;
    SPIRA_TRY(pointer_check(counts ? to->counts : to->begin, alignof(int32_t),
                            counts ? "to.counts" : "to.begin"));
    return pointer_check(trouble, alignof(device_status), "trouble");
}

// Writes pair lists in an engine's form: the host loop of `exchange` (exchange.cuh).
SPIRA_API status exchange_host(const map_lists *pairs, const exchange_lists *to,
                               device_status *trouble) {
    SPIRA_TRY(exchange_check(pairs, to, trouble));
    int64_t start = 0;
    for (int place = 0; place < exchange_volume(to); ++place) {
        const map_span list = map_lists_span(pairs, exchange_offset(to->order, to->size, place));
        const int64_t first = list.begin, found = list.count;
        const int64_t count = exchange_kept(to, pairs->capacity - start, found);
        const int64_t end = max_of(count, to->stride);
        for (int64_t i = 0; i < end; ++i) {
            exchange_put(to, start + i, i < count ? pairs->input[first + i] : -1,
                         i < count ? pairs->output[first + i] : -1);
        }
        if (found > count) {
            device_status_note(trouble, device_flag_capacity, (uint32_t)found);
        }
        exchange_put_bounds(to, place, start, count);
        start += end;
    }
    return status_success();
}

} // namespace spira

#endif
