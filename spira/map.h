// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/map.h: kernel maps, in every form that feature computation and other engines read.
//
// A kernel map says, for each output voxel and each offset of the kernel, where the source voxel is
// in the source set. A submanifold layer has the same set on both sides. A strided layer has a
// coarser output set. A transposed (inverse) layer has a finer output set and a kernel with
// `transposed` set. The output set may be any sorted set of the same word layout; it need not be
// derived from the source.
//
// Forms (the first four: Spira paper, output-stationary, weight-stationary and hybrid dataflow):
//   os         output-stationary [outputs, columns]: a source position or -1
//   ws         weight-stationary [columns, outputs.capacity]: the same, offset after offset
//   filtered   for each offset the list of its (input, output) pairs, outputs ascending: map_lists
//   hybrid     os for offsets with an L1 norm below a threshold, lists for the others
//   masks      one bit for each offset that an output has
//   compact    one position for each row of offsets, and presence bits: index/compact.h
// order.h describes the ordered layout, which is made from os or compact.
//
// The half map of a submanifold layer has only the offsets before the centre. The pair (i, o) of
// such an offset is the pair (o, i) of the mirrored one, and the centre pairs each voxel with
// itself.
#ifndef SPIRA_MAP_H
#define SPIRA_MAP_H

#include "index/compact.h"
#include "search.h"
#include "voxel_set.h"

#include <algorithm>

namespace spira {

// A threshold above every L1 norm: os has all offsets.
enum { map_all = 1 << 20 };

enum { map_batch_max = 16 }; // maps of one launch

// What one search writes. Null members are not written.
struct map_forms {
    int32_t *os;            // [outputs.capacity, map_os_columns]
    int32_t *ws;            // [map_columns, outputs.capacity]
    uint32_t *mask;         // [outputs.capacity, map_mask_words]: bit k % 32 of word k / 32
    int threshold;          // os has the offsets with an L1 norm below it, ascending; 0: none
    bool half;              // only offsets below volume / 2; submanifold layers with odd kernels
    int32_t *compact;       // [compact_numbers]; excludes the others
    device_status *trouble; // counts above their capacity; with `compact`, where it is required,
                            // also coordinates off the lattice of the stride
};

// The output-stationary map alone.
SPIRA_BOTH map_forms map_forms_os(int32_t *os) {
    map_forms f = {};
    f.os = os;
    f.threshold = map_all;
    return f;
}

// The compact form alone. Requires compact_has(kernel).
SPIRA_BOTH map_forms map_forms_compact(int32_t *compact, device_status *trouble) {
    map_forms f = {};
    f.threshold = map_all;
    f.compact = compact;
    f.trouble = trouble;
    return f;
}

// No form: for lists alone, of the offsets with an L1 norm of `threshold` or more.
SPIRA_BOTH map_forms map_forms_none(int threshold, bool half, device_status *trouble) {
    map_forms f = {};
    f.threshold = threshold;
    f.half = half;
    f.trouble = trouble;
    return f;
}

// Kinds of forms. A call that builds only some kinds compiles only their kernels.
enum : unsigned {
    map_kind_os = 1,      // os alone, with all offsets
    map_kind_half = 2,    // os alone, half
    map_kind_compact = 4, // compact
    map_kind_mixed = 8,   // everything else
    map_kinds_all = 15,
    // What layouts are made of: compact maps, and os of kernels without that form. Those of others
    // are built by the search of any kernel.
    map_kind_rest = 16,
    map_kinds_layout = map_kind_os | map_kind_compact | map_kind_rest
};

// The kind of forms.
SPIRA_BOTH unsigned map_kind_of(const map_forms *f) {
    const bool only_os = f->os && f->threshold >= map_all && !f->ws && !f->mask;
    return f->compact ? map_kind_compact
           : !only_os ? map_kind_mixed
           : f->half  ? map_kind_half
                      : map_kind_os;
}

// Number of offsets that are searched, from 0 on: all, or those of the half map.
SPIRA_BOTH int map_columns(const kernel_shape *kernel, bool half) {
    return half ? kernel_volume(kernel) / 2 : kernel_volume(kernel);
}

// Number of columns of os.
SPIRA_BOTH int map_os_columns(const kernel_shape *kernel, int threshold, bool half) {
    return kernel_norm_count(kernel, threshold, map_columns(kernel, half));
}

// Number of words of a mask.
SPIRA_BOTH int map_mask_words(int volume) {
    return (volume + 31) / 32;
}

// Pair lists (the filtered form). Pair p of offset k, begin[k] <= p < begin[k + 1], adds weight k
// times input row input[p] to output row output[p].
struct map_lists {
    int32_t *begin;  // [volume + 1]
    int32_t *input;  // [capacity]
    int32_t *output; // [capacity] ascending for each offset
    int32_t capacity;
};

// The pairs [begin, begin + count) of the lists.
struct map_span {
    int32_t begin, count;
};

// The list of offset k, within the capacity of the lists whatever `begin` says.
SPIRA_BOTH map_span map_lists_span(const map_lists *pairs, int k) {
    const int64_t begin = max_of(min_of(pairs->begin[k], pairs->capacity), 0);
    const int64_t end = min_of(pairs->begin[k + 1], pairs->capacity);
    return {(int32_t)begin, (int32_t)max_of(end - begin, 0)};
}

// One map, of map_build_lists or map_build_batch.
template <typename W>
struct map_request {
    kernel_shape kernel;
    voxel_set<W> source, outputs;
    map_forms forms;
};

// ---- checks -------------------------------------------------------------------------------------

template <typename W>
SPIRA_API status map_sets_check(const word_layout *layout, const kernel_shape *kernel,
                                const voxel_set<W> *source, const voxel_set<W> *outputs) {
    SPIRA_TRY(word_check<W>(layout));
    SPIRA_TRY(search_check(layout, kernel));
    SPIRA_TRY(voxel_set_check(source));
    SPIRA_TRY(voxel_set_check(outputs));
    return status_success();
}

template <typename W>
SPIRA_API status map_check(const word_layout *layout, const kernel_shape *kernel,
                           const voxel_set<W> *source, const voxel_set<W> *outputs,
                           const int32_t *map) {
    SPIRA_TRY(map_sets_check(layout, kernel, source, outputs));
    return pointer_check(map, alignof(int32_t), "map");
}

// The array of a form: null, or aligned to its elements.
SPIRA_API status map_array_check(const void *array, const char *name) {
    return array ? pointer_check(array, alignof(int32_t), name) : status_success();
}

SPIRA_API status map_compact_check(const kernel_shape *kernel, const map_forms *forms) {
    const bool alone = !forms->os && !forms->ws && !forms->mask;
    SPIRA_REQUIRE(compact_has(kernel), status_unsupported, "forms.compact (with this kernel)", 0);
    SPIRA_REQUIRE(alone && !forms->half, status_unsupported, "forms.compact (next to other forms)",
                  0);
    SPIRA_REQUIRE(forms->trouble, status_null_pointer, "forms.trouble (with forms.compact)", 0);
    return pointer_check(forms->compact, compact_alignment, "forms.compact");
}

template <typename W>
SPIRA_API status map_forms_check(const word_layout *layout, const kernel_shape *kernel,
                                 const voxel_set<W> *source, const voxel_set<W> *outputs,
                                 const map_forms *forms) {
    SPIRA_REQUIRE(forms, status_null_pointer, "forms", 0);
    SPIRA_TRY(map_sets_check(layout, kernel, source, outputs));
    SPIRA_TRY(map_array_check(forms->os, "forms.os"));
    SPIRA_TRY(map_array_check(forms->ws, "forms.ws"));
    SPIRA_TRY(map_array_check(forms->mask, "forms.mask"));
    SPIRA_TRY(size_check(forms->threshold, 0, INT64_MAX, "forms.threshold"));
    if (forms->trouble) {
        SPIRA_TRY(pointer_check(forms->trouble, alignof(device_status), "forms.trouble"));
    }
    if (forms->compact) {
        SPIRA_TRY(map_compact_check(kernel, forms));
    }
    if (forms->half) {
        SPIRA_REQUIRE(kernel_is_odd(kernel) && !kernel->transposed, status_unsupported,
                      "forms.half (with an even or transposed kernel)", 0);
        SPIRA_REQUIRE(source->words == outputs->words && source->count == outputs->count &&
                          source->capacity == outputs->capacity,
                      status_unsupported, "forms.half (with two different sets)", 0);
    }
    return status_success();
}

SPIRA_API status map_kinds_check(const map_forms *forms, unsigned kinds) {
    SPIRA_REQUIRE(map_kind_of(forms) & kinds, status_unsupported,
                  "forms (of a kind that this call does not compile)", map_kind_of(forms));
    return status_success();
}

template <typename W>
SPIRA_API status map_requests_check(const word_layout *layout, const map_request<W> *request,
                                    int requests, unsigned kinds) {
    SPIRA_REQUIRE(request || requests == 0, status_null_pointer, "request", 0);
    SPIRA_TRY(size_check(requests, 0, INT64_MAX, "requests"));
    for (int i = 0; i < requests; ++i) {
        const map_request<W> *r = request + i;
        SPIRA_TRY(map_forms_check(layout, &r->kernel, &r->source, &r->outputs, &r->forms));
        SPIRA_TRY(map_kinds_check(&r->forms, kinds));
    }
    return status_success();
}

SPIRA_API status map_lists_check(const map_lists *pairs) {
    SPIRA_REQUIRE(pairs, status_null_pointer, "pairs", 0);
    SPIRA_TRY(pointer_check(pairs->begin, alignof(int32_t), "pairs.begin"));
    SPIRA_TRY(pointer_check(pairs->input, alignof(int32_t), "pairs.input"));
    SPIRA_TRY(pointer_check(pairs->output, alignof(int32_t), "pairs.output"));
    SPIRA_TRY(capacity_check(pairs->capacity, "pairs.capacity"));
    return status_success();
}

// A request of lists, and of the forms next to them.
template <typename W>
SPIRA_API status map_lists_request_check(const word_layout *layout, const map_request<W> *request,
                                         const map_lists *pairs) {
    SPIRA_REQUIRE(request, status_null_pointer, "request", 0);
    SPIRA_TRY(map_lists_check(pairs));
    const map_forms *f = &request->forms;
    SPIRA_REQUIRE(!f->compact, status_unsupported, "forms.compact (next to pair lists)", 0);
    SPIRA_TRY(pointer_check(f->trouble, alignof(device_status), "forms.trouble"));
    return map_forms_check(layout, &request->kernel, &request->source, &request->outputs, f);
}

// ---- host loops ---------------------------------------------------------------------------------

// Writes the compact form of the taps of an output. Returns false as compact_record_put.
SPIRA_API bool map_compact_put(const kernel_shape *kernel, const int32_t *taps, int32_t capacity,
                               int32_t output, int32_t *compact) {
    if (compact_large_takes(kernel)) {
        return compact_large_put(taps, kernel->size, capacity, output, compact);
    }
    const int K = kernel->size.x;
    bool whole = true;
    for (int s = 0; s < K; ++s) {
        int32_t *to = compact + compact_at(K, capacity, s, output);
        whole = compact_record_put(taps + s * K * K, K, to) && whole;
    }
    return whole;
}

// The compact form. Outputs are visited in order, so that the first one at fault is recorded.
template <typename W>
SPIRA_API void map_compact_host(const word_layout *layout, const kernel_shape *kernel,
                                voxel_set<W> source, voxel_set<W> outputs, const map_forms *f) {
    const search_walk<W> walk = search_walk_make<W>(layout, kernel);
    const int32_t count = voxel_set_count(outputs);
    const int32_t sources = voxel_set_count(source);
    for (int32_t i = 0; i < count; ++i) {
        int32_t taps[kernel_volume_max];
        search_voxel(walk, source.words, sources, outputs.words[i], taps);
        if (!map_compact_put(kernel, taps, outputs.capacity, i, f->compact)) {
            device_status_note(f->trouble, device_flag_lattice, (uint32_t)i);
        }
    }
}

// Writes the taps [volume] of output `at` to the forms.
SPIRA_API void map_forms_put(const kernel_shape *kernel, const map_forms *f, int64_t at,
                             int64_t capacity, int os_columns, const int32_t *taps) {
    int words = map_mask_words(kernel_volume(kernel)), column = 0;
    for (int k = 0; k < map_columns(kernel, f->half); ++k) {
        if (f->os && kernel_norm(kernel, k) < f->threshold) {
            f->os[at * os_columns + column++] = taps[k];
        }
        if (f->ws) {
            f->ws[k * capacity + at] = taps[k];
        }
        uint32_t bit = taps[k] >= 0 ? 1u << k % 32 : 0;
        if (f->mask) {
            f->mask[at * words + k / 32] |= bit;
        }
    }
}

// The host loop of map_build_forms (map.cuh), on host memory.
template <typename W>
SPIRA_API status map_build_forms_host(const word_layout *layout, const kernel_shape *kernel,
                                      voxel_set<W> source, voxel_set<W> outputs,
                                      const map_forms *forms) {
    SPIRA_TRY(map_forms_check(layout, kernel, &source, &outputs, forms));
    if (forms->trouble) {
        voxel_set_note(source, forms->trouble);
        voxel_set_note(outputs, forms->trouble);
    }
    if (forms->compact) {
        map_compact_host(layout, kernel, source, outputs, forms);
        return status_success();
    }
    const search_walk<W> walk = search_walk_make<W>(layout, kernel);
    int64_t count = voxel_set_count(outputs);
    int32_t sources = voxel_set_count(source);
    int columns = map_os_columns(kernel, forms->threshold, forms->half);
    int64_t words = map_mask_words(kernel_volume(kernel));
    if (forms->mask) {
        std::fill(forms->mask, forms->mask + count * words, 0u);
    }
    int64_t chunks = ceil_div(count, 1024);
    SPIRA_PARALLEL_FOR
    for (int64_t c = 0; c < chunks; ++c) {
        int32_t taps[kernel_volume_max];
        for (int64_t o = c * 1024; o < min_of(count, (c + 1) * 1024); ++o) {
            search_voxel(walk, source.words, sources, outputs.words[o], taps);
            map_forms_put(kernel, forms, o, outputs.capacity, columns, taps);
        }
    }
    return status_success();
}

// The host loop of map_build (map.cuh), on host memory.
template <typename W>
SPIRA_API status map_build_host(const word_layout *layout, const kernel_shape *kernel,
                                voxel_set<W> source, voxel_set<W> outputs, int32_t *map) {
    SPIRA_TRY(map_check(layout, kernel, &source, &outputs, map));
    const map_forms forms = map_forms_os(map);
    return map_build_forms_host(layout, kernel, source, outputs, &forms);
}

// Whether offset k has a list: it is searched, and not in os.
SPIRA_BOTH bool map_lists_have(const kernel_shape *kernel, int threshold, bool half, int k) {
    return k < map_columns(kernel, half) && kernel_norm(kernel, k) >= threshold;
}

// The host loop of map_build_lists (map.cuh), on host memory.
template <typename W>
SPIRA_API status map_build_lists_host(const word_layout *layout, const map_request<W> *request,
                                      const map_lists *pairs) {
    SPIRA_TRY(map_lists_request_check(layout, request, pairs));
    const kernel_shape *kernel = &request->kernel;
    const voxel_set<W> source = request->source, outputs = request->outputs;
    const map_forms *f = &request->forms;
    SPIRA_TRY(map_build_forms_host(layout, kernel, source, outputs, f));
    int64_t count = voxel_set_count(outputs), found = 0;
    int32_t sources = voxel_set_count(source);
    for (int k = 0; k < kernel_volume(kernel); ++k) {
        pairs->begin[k] = (int32_t)min_of(found, pairs->capacity);
        if (!map_lists_have(kernel, f->threshold, f->half, k)) {
            continue;
        }
        W delta = word_delta<W>(layout, kernel_displacement(kernel, k));
        for (int64_t o = 0; o < count; ++o) {
            W wanted = outputs.words[o] + delta;
            int at = search_lower_bound(source.words, 0, sources, wanted);
            if (at < sources && source.words[at] == wanted) {
                if (found < pairs->capacity) {
                    pairs->input[found] = at;
                    pairs->output[found] = (int32_t)o;
                }
                ++found;
            }
        }
    }
    pairs->begin[kernel_volume(kernel)] = (int32_t)min_of(found, pairs->capacity);
    if (found > pairs->capacity) {
        device_status_note(f->trouble, device_flag_capacity, (uint32_t)min_of(found, UINT32_MAX));
        std::fill(pairs->begin, pairs->begin + kernel_volume(kernel) + 1, 0);
    }
    return status_success();
}

// The host loop of map_count (map.cuh): map [count, volume], on host memory.
SPIRA_API status map_count_host(const int32_t *map, int volume, int32_t count, int32_t *pairs) {
    SPIRA_TRY(pointer_check(map, alignof(int32_t), "map"));
    SPIRA_TRY(pointer_check(pairs, alignof(int32_t), "pairs"));
    SPIRA_TRY(size_check(volume, 1, INT64_MAX, "volume"));
    std::fill(pairs, pairs + volume, 0);
    for (int64_t o = 0; o < count; ++o) {
        for (int k = 0; k < volume; ++k) {
            pairs[k] += map[o * volume + k] >= 0;
        }
    }
    return status_success();
}

} // namespace spira

#endif
