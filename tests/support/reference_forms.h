// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/reference_forms.h: shared by host and GPU tests of map forms: scenes, layers in
// host or device memory, and every form derived from a plain map. No CUDA here.
#ifndef SPIRA_TESTS_REFERENCE_FORMS_H
#define SPIRA_TESTS_REFERENCE_FORMS_H

#include "memory.h"
#include "sets.h"

// A set in memory of exactly its capacity, which is `room` above its words. room < 0: its count is
// -room above its capacity.
template <typename W>
SPIRA_API spira::voxel_set<W> forms_set(const std::vector<W> &words, int32_t room,
                                        const test_memory *m) {
    int32_t have = (int32_t)words.size(), capacity = std::max(have + std::max(room, 0), 1);
    int32_t count = room < 0 && have > 0 ? have - room : have;
    std::vector<W> all(words);
    all.resize((size_t)capacity, spira::word_none<W>());
    spira::voxel_set<W> set = {(W *)m->make(all.size() * sizeof(W), __FILE__, __LINE__),
                               (int32_t *)m->make(sizeof count, __FILE__, __LINE__), capacity};
    m->put(set.words, all.data(), all.size() * sizeof(W));
    m->put(set.count, &count, sizeof count);
    return set;
}

// ---- scenes -------------------------------------------------------------------------------------

enum forms_kind { forms_submanifold, forms_strided, forms_transposed, forms_foreign, forms_kinds };

template <typename W>
struct forms_scene {
    spira::word_layout layout;
    spira::kernel_shape kernel;
    std::vector<W> source, outputs; // ascending, distinct
    bool same;                      // one set on both sides
    char name[160];
};

SPIRA_API void forms_name(const char *what, const spira::kernel_shape *k, char *name, size_t size) {
    snprintf(name, size, "%s, kernel %dx%dx%d, dilation %d %d %d, stride %d %d %d%s", what,
             k->size.x, k->size.y, k->size.z, k->dilation.x, k->dilation.y, k->dilation.z,
             k->stride.x, k->stride.y, k->stride.z, k->transposed ? ", transposed" : "");
}

// One set on both sides, or two unrelated sets.
template <typename W>
SPIRA_API forms_scene<W> forms_scene_make(const char *what, const spira::word_layout *layout,
                                          const spira::kernel_shape *kernel,
                                          const std::vector<W> &source,
                                          const std::vector<W> *outputs = nullptr) {
    forms_scene<W> s = {*layout, *kernel, source, outputs ? *outputs : source, !outputs, {}};
    forms_name(what, kernel, s.name, sizeof s.name);
    return s;
}

// All voxels of a box.
inline std::vector<spira::voxel> forms_box(spira::triple lo, spira::triple hi, int batch = 0) {
    std::vector<spira::voxel> voxels;
    for (int x = lo.x; x <= hi.x; ++x) {
        for (int y = lo.y; y <= hi.y; ++y) {
            for (int z = lo.z; z <= hi.z; ++z) {
                voxels.push_back({batch, x, y, z});
            }
        }
    }
    return voxels;
}

// The words of voxels in any order.
template <typename W>
SPIRA_API std::vector<W> forms_words_of(const spira::word_layout *layout,
                                        const std::vector<spira::voxel> &voxels) {
    std::vector<W> words;
    for (const spira::voxel &v : voxels) {
        CHECK(spira::word_contains(layout, v));
        words.push_back(spira::word_pack<W>(layout, v));
    }
    return set_sorted(words);
}

template <typename W>
SPIRA_API std::vector<W> forms_floored(const spira::word_layout *layout,
                                       const std::vector<W> &words, spira::triple stride) {
    std::vector<spira::voxel> coarse;
    for (W w : words) {
        spira::voxel v = spira::word_unpack(layout, w);
        coarse.push_back({v.batch, (int)spira::floor_to(v.x, stride.x),
                          (int)spira::floor_to(v.y, stride.y),
                          (int)spira::floor_to(v.z, stride.z)});
    }
    return forms_words_of<W>(layout, coarse);
}

// A random scene for a kernel: up to five batches, negative coordinates, boxes that are small and
// dense or large, in half of the scenes up to both ends of every field. The kernel's stride is that
// of the finer set.
template <typename W>
SPIRA_API forms_scene<W> forms_scene_random(random_state *r, forms_kind kind,
                                            spira::kernel_shape kernel) {
    spira::triple up = {1 << random_int(r, 0, 2), 1 << random_int(r, 0, 2),
                        1 << random_int(r, 0, 2)};
    spira::triple coarse = spira::triple_multiply(kernel.stride, up);
    int extent = sizeof(W) == 8 && random_int(r, 0, 3) == 0 ? 2000 : 20;
    spira::triple lo = {random_int(r, -50, 10), random_int(r, -50, 10), random_int(r, -50, 10)};
    spira::triple hi = {lo.x + random_int(r, 0, extent), lo.y + random_int(r, 0, extent),
                        lo.z + random_int(r, 0, extent)};
    forms_scene<W> s;
    s.layout = reference_layout<W>(lo, hi, random_int(r, 0, 1) ? 1 : random_int(r, 2, 5), coarse,
                                   spira::kernel_reach(&kernel));
    if (random_int(r, 0, 1)) {
        lo = s.layout.lo;
        hi = s.layout.hi;
    }
    s.kernel = kernel;
    s.kernel.transposed =
        kind == forms_transposed || (kind == forms_foreign && random_int(r, 0, 1));
    s.same = kind == forms_submanifold;
    int most = std::min(std::max(150000 / spira::kernel_volume(&kernel), 1), 700);
    s.source =
        set_random<W>(r, &s.layout, lo, hi, random_int(r, 1, kind <= forms_strided ? most : 700),
                      kind == forms_transposed ? coarse : kernel.stride);
    s.outputs = kind == forms_submanifold ? s.source
                : kind == forms_strided
                    ? forms_floored<W>(&s.layout, s.source, coarse)
                    : set_random<W>(r, &s.layout, lo, hi, random_int(r, 1, most), kernel.stride);
    forms_name(sizeof(W) == 8 ? "random, 64 bits" : "random, 32 bits", &s.kernel, s.name,
               sizeof s.name);
    return s;
}

// A small submanifold layer, for tests of what is refused and of errors that are planted.
SPIRA_API forms_scene<uint32_t> forms_scene_small(int size, int32_t voxels) {
    random_state r = random_make((uint64_t)voxels);
    const spira::kernel_shape kernel = spira::kernel_cube(size, 1);
    const spira::word_layout layout = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1},
                                                                 spira::kernel_reach(&kernel));
    return forms_scene_make("small", &layout, &kernel,
                            set_random<uint32_t>(&r, &layout, {0, 0, 0}, {9, 9, 9}, voxels));
}

// The map [outputs, volume] by a hash table of coordinates.
template <typename W>
SPIRA_API std::vector<int32_t> forms_map(const forms_scene<W> *s) {
    std::vector<int32_t> map(s->outputs.size() * (size_t)spira::kernel_volume(&s->kernel) + 1);
    reference_map(&s->layout, &s->kernel, s->source.data(), (int32_t)s->source.size(),
                  s->outputs.data(), (int32_t)s->outputs.size(), map.data());
    map.pop_back(); // added so that the pointer is not null
    return map;
}

// ---- wishes and results ----------------------------------------------------

struct forms_wish {
    bool os, ws, mask, pairs, half;
    int threshold;
    int32_t pairs_capacity;
};

enum forms_part {
    forms_os,
    forms_ws,
    forms_mask,
    forms_begin,
    forms_input,
    forms_output,
    forms_parts
};

// Whole buffers: poison where nothing is written.
struct forms_result {
    std::vector<int32_t> part[forms_parts]; // empty: not asked for
    spira::device_status trouble;
};

// The status word before a call: a voxel out of range, and a smaller capacity passed.
SPIRA_API spira::device_status forms_trouble() {
    spira::device_status trouble = {};
    trouble.flags = spira::device_flag_range;
    trouble.first_range = UINT32_MAX - 77;
    trouble.needed = 2;
    return trouble;
}

SPIRA_API bool forms_wanted(const forms_wish *w, int part) {
    const bool wanted[forms_parts] = {w->os, w->ws, w->mask, w->pairs, w->pairs, w->pairs};
    return wanted[part];
}

// The L1 norm of each offset on the kernel's lattice.
SPIRA_API std::vector<int> forms_norms(spira::triple size) {
    const int first[3] = {size.x % 2 ? -(size.x / 2) : 0, size.y % 2 ? -(size.y / 2) : 0,
                          size.z % 2 ? -(size.z / 2) : 0};
    std::vector<int> norms;
    for (int x = 0; x < size.x; ++x) {
        for (int y = 0; y < size.y; ++y) {
            for (int z = 0; z < size.z; ++z) {
                norms.push_back(abs(first[0] + x) + abs(first[1] + y) + abs(first[2] + z));
            }
        }
    }
    return norms;
}

SPIRA_API int forms_norm_max(spira::triple size) {
    std::vector<int> norms = forms_norms(size);
    return *std::max_element(norms.begin(), norms.end());
}

// The offsets that are searched, with norms below the threshold or not.
SPIRA_API std::vector<int> forms_offsets(spira::triple size, const forms_wish *w, bool below) {
    std::vector<int> norms = forms_norms(size), offsets;
    for (int k = 0; k < (int)norms.size() / (w->half ? 2 : 1); ++k) {
        if ((norms[(size_t)k] < w->threshold) == below) {
            offsets.push_back(k);
        }
    }
    return offsets;
}

// How many pairs the lists have.
SPIRA_API int64_t forms_pairs(spira::triple size, const std::vector<int32_t> &map,
                              const forms_wish *w) {
    size_t volume = forms_norms(size).size();
    int64_t pairs = 0;
    for (int k : forms_offsets(size, w, false)) {
        for (size_t at = (size_t)k; at < map.size(); at += volume) {
            pairs += map[at] >= 0;
        }
    }
    return pairs;
}

// A random wish: any parts; any threshold, also above all norms; half maps where allowed. The lists
// have up to two places to spare; one in eight is one place too short.
template <typename W>
SPIRA_API forms_wish forms_wish_random(random_state *r, const forms_scene<W> *s,
                                       const std::vector<int32_t> &map) {
    int bits = random_int(r, 1, 15);
    const spira::kernel_shape *k = &s->kernel;
    forms_wish w = {};
    w.os = bits % 2 != 0;
    w.ws = bits / 2 % 2 != 0;
    w.mask = bits / 4 % 2 != 0;
    w.pairs = bits / 8 % 2 != 0;
    w.half = s->same && !k->transposed && spira::kernel_is_odd(k) && random_int(r, 0, 2) == 0;
    w.threshold = random_int(r, 0, 3) == 0 ? (int)spira::map_all
                                           : random_int(r, 0, forms_norm_max(k->size) + 1);
    int64_t spare = random_int(r, 0, 7) ? random_int(r, 0, 2) : -1;
    int64_t pairs = forms_pairs(k->size, map, &w) + spare;
    w.pairs_capacity = (int32_t)std::max(pairs, (int64_t)1);
    return w;
}

// os alone: the offsets with a norm below the threshold.
SPIRA_API forms_wish forms_wish_os(int threshold = spira::map_all, bool half = false) {
    forms_wish w = {};
    w.os = true;
    w.half = half;
    w.threshold = threshold;
    return w;
}

// Lists alone: the offsets with a norm of the threshold or more.
SPIRA_API forms_wish forms_wish_lists(int threshold = 0, bool half = false) {
    forms_wish w = {};
    w.pairs = true;
    w.half = half;
    w.threshold = threshold;
    return w;
}

// All parts, all offsets in the lists.
SPIRA_API forms_wish forms_everything() {
    forms_wish w = {};
    w.os = w.ws = w.mask = w.pairs = true;
    return w;
}

// Lists with `more` places than there are pairs.
SPIRA_API forms_wish forms_wish_fit(forms_wish wish, spira::triple size,
                                    const std::vector<int32_t> &map, int64_t more = 0) {
    int64_t places = forms_pairs(size, map, &wish) + more;
    wish.pairs_capacity = (int32_t)std::max(places, (int64_t)1);
    return wish;
}

// ---- the forms, from a plain map ----------------------------------------------------------------

enum : uint32_t { forms_poison_bits = guarded_poison * 0x01010101u };

SPIRA_API std::vector<int32_t> forms_poisoned(int64_t count) {
    return std::vector<int32_t>((size_t)count, (int32_t)forms_poison_bits);
}

// os and ws of map [count, volume].
SPIRA_API void forms_expect_dense(spira::triple size, const std::vector<int32_t> &map,
                                  int64_t count, int64_t capacity, const forms_wish *w,
                                  forms_result *r) {
    forms_wish all = *w;
    all.threshold = spira::map_all;
    std::vector<int> kept = forms_offsets(size, w, true),
                     searched = forms_offsets(size, &all, true);
    int64_t volume = (int64_t)forms_norms(size).size(), columns = (int64_t)kept.size();
    r->part[forms_os] = forms_poisoned(w->os ? capacity * columns : 0);
    r->part[forms_ws] = forms_poisoned(w->ws ? capacity * (int64_t)searched.size() : 0);
    for (int64_t o = 0; o < count; ++o) {
        for (int64_t c = 0; w->os && c < columns; ++c) {
            r->part[forms_os][(size_t)(o * columns + c)] =
                map[(size_t)(o * volume + kept[(size_t)c])];
        }
        for (int k : searched) {
            if (w->ws) {
                r->part[forms_ws][(size_t)(k * capacity + o)] = map[(size_t)(o * volume + k)];
            }
        }
    }
}

SPIRA_API std::vector<int32_t> forms_expect_mask(spira::triple size,
                                                 const std::vector<int32_t> &map, int64_t count,
                                                 int64_t capacity, const forms_wish *w) {
    int64_t volume = (int64_t)forms_norms(size).size(), words = (volume + 31) / 32;
    std::vector<int32_t> mask = forms_poisoned(capacity * words);
    std::fill(mask.begin(), mask.begin() + count * words, 0);
    for (int64_t o = 0; o < count; ++o) {
        for (int64_t k = 0; k < (w->half ? volume / 2 : volume); ++k) {
            if (map[(size_t)(o * volume + k)] >= 0) {
                int32_t &word = mask[(size_t)(o * words + k / 32)];
                word = (int32_t)((uint32_t)word | (uint32_t)1 << k % 32);
            }
        }
    }
    return mask;
}

// A capacity was passed.
SPIRA_API void forms_needed(spira::device_status *trouble, int64_t needed) {
    trouble->flags |= spira::device_flag_capacity;
    trouble->needed = std::max(trouble->needed, (uint32_t)needed);
}

// Whether the lists may have been left empty because a capacity was passed.
SPIRA_API bool forms_empty(const forms_result *r) {
    const std::vector<int32_t> &begin = r->part[forms_begin];
    return r->trouble.flags & spira::device_flag_capacity && !begin.empty() && begin.back() == 0;
}

// The lists, offset by offset.
SPIRA_API void forms_expect_pairs(spira::triple size, const std::vector<int32_t> &map,
                                  int64_t count, const forms_wish *w, forms_result *r) {
    int64_t volume = (int64_t)forms_norms(size).size(), found = forms_pairs(size, map, w);
    std::vector<int> listed = forms_offsets(size, w, false);
    r->part[forms_begin].assign((size_t)volume + 1, 0);
    if (found > w->pairs_capacity) {
        forms_needed(&r->trouble, found);
    }
    if (found > w->pairs_capacity || (found == 0 && forms_empty(r))) {
        return; // contents of empty lists are unspecified
    }
    std::vector<int32_t> *input = &r->part[forms_input], *output = &r->part[forms_output];
    for (int64_t k = 0; k < volume; ++k) {
        bool in_lists = std::binary_search(listed.begin(), listed.end(), (int)k);
        for (int64_t o = 0; o < count && in_lists; ++o) {
            int32_t source = map[(size_t)(o * volume + k)];
            if (source >= 0) {
                input->push_back(source);
                output->push_back((int32_t)o);
            }
        }
        r->part[forms_begin][(size_t)k + 1] = (int32_t)input->size();
    }
    input->resize((size_t)w->pairs_capacity, (int32_t)forms_poison_bits);
    output->resize((size_t)w->pairs_capacity, (int32_t)forms_poison_bits);
}

// room: as in forms_set.
template <typename W>
SPIRA_API forms_result forms_expected(const forms_scene<W> *s, const std::vector<int32_t> &map,
                                      int32_t room, const forms_wish *w) {
    const spira::triple size = s->kernel.size;
    const int64_t count = (int64_t)s->outputs.size();
    const int64_t capacity = std::max(count + std::max(room, 0), (int64_t)1);
    forms_result r;
    r.trouble = forms_trouble();
    for (size_t words : {s->source.size(), s->outputs.size()}) {
        if (room < 0 && words > 0) {
            forms_needed(&r.trouble, (int64_t)words - room);
        }
    }
    forms_expect_dense(size, map, count, capacity, w, &r);
    if (w->mask) {
        r.part[forms_mask] = forms_expect_mask(size, map, count, capacity, w);
    }
    if (w->pairs) {
        forms_expect_pairs(size, map, count, w, &r);
    }
    return r;
}

// Returns the first difference, or "".
SPIRA_API const char *forms_difference(const forms_result *got, const forms_result *wanted,
                                       const char *label) {
    static char text[512];
    const char *names[forms_parts] = {"os", "ws", "mask", "begin", "input", "output"};
    if (memcmp(&got->trouble, &wanted->trouble, sizeof got->trouble) != 0) {
        snprintf(text, sizeof text, "trouble: flags %x, needed %u instead of %x, %u (%s)",
                 got->trouble.flags, got->trouble.needed, wanted->trouble.flags,
                 wanted->trouble.needed, label);
        return text;
    }
    for (int p = 0; p < forms_parts; ++p) {
        const std::vector<int32_t> &a = got->part[p], &b = wanted->part[p];
        if (a.size() != b.size()) {
            snprintf(text, sizeof text, "%s: %zu values instead of %zu (%s)", names[p], a.size(),
                     b.size(), label);
            return text;
        }
        size_t i = (size_t)(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
        if (i < a.size()) {
            snprintf(text, sizeof text, "%s[%zu of %zu]: %d instead of %d (%s)", names[p], i,
                     a.size(), a[i], b[i], label);
            return text;
        }
    }
    return "";
}

// ---- one layer in the memory of either side -----------------------------------------------------

template <typename W>
struct forms_layer {
    spira::word_layout layout;
    spira::kernel_shape kernel;
    spira::voxel_set<W> source, outputs;
    int32_t count; // outputs
    forms_wish wish;
    int32_t *part[forms_parts]; // null: not wanted
    spira::device_status *trouble;
};

// A part's values: `rows` of `pitch`, of which `used` are written.
struct forms_place {
    int64_t rows, used, pitch;
};

template <typename W>
SPIRA_API forms_place forms_place_of(const forms_layer<W> *l, int part, int64_t pairs) {
    int64_t volume = (int64_t)forms_norms(l->kernel.size).size(), words = (volume + 31) / 32;
    int64_t columns = (int64_t)forms_offsets(l->kernel.size, &l->wish, true).size();
    int64_t count = l->count, capacity = l->outputs.capacity;
    switch (part) {
    case forms_os:
        return {1, count * columns, capacity * columns};
    case forms_ws:
        return {volume / (l->wish.half ? 2 : 1), count, capacity};
    case forms_mask:
        return {1, count * words, capacity * words};
    case forms_begin:
        return {1, volume + 1, volume + 1};
    default:
        return {1, pairs, l->wish.pairs_capacity};
    }
}

// Sets and buffers of exactly their sizes. They live until the end of the test.
template <typename W>
SPIRA_API forms_layer<W> forms_layer_make(const forms_scene<W> *s, const forms_wish *wish,
                                          int32_t room, const test_memory *m) {
    forms_layer<W> l;
    l.layout = s->layout;
    l.kernel = s->kernel;
    l.source = forms_set(s->source, room, m);
    l.outputs = s->same ? l.source : forms_set(s->outputs, room, m);
    l.count = (int32_t)s->outputs.size();
    l.wish = *wish;
    for (int p = 0; p < forms_parts; ++p) {
        forms_place at = forms_place_of(&l, p, 0);
        size_t bytes = (size_t)(at.rows * at.pitch) * sizeof(int32_t);
        l.part[p] = forms_wanted(wish, p) ? (int32_t *)m->make(bytes, __FILE__, __LINE__) : nullptr;
    }
    spira::device_status before = forms_trouble();
    l.trouble = (spira::device_status *)m->make(sizeof before, __FILE__, __LINE__);
    m->put(l.trouble, &before, sizeof before);
    return l;
}

template <typename W>
SPIRA_API spira::map_forms forms_of(const forms_layer<W> *l) {
    spira::map_forms f = {};
    f.os = l->part[forms_os];
    f.ws = l->part[forms_ws];
    f.mask = (uint32_t *)l->part[forms_mask];
    f.threshold = l->wish.threshold;
    f.half = l->wish.half;
    f.trouble = l->trouble;
    return f;
}

template <typename W>
SPIRA_API spira::map_lists forms_pairs_of(const forms_layer<W> *l) {
    return {l->part[forms_begin], l->part[forms_input], l->part[forms_output],
            l->wish.pairs_capacity};
}

// The request of the lists, and of the forms next to them.
template <typename W>
SPIRA_API spira::map_request<W> forms_request_of(const forms_layer<W> *l) {
    return {l->kernel, l->source, l->outputs, forms_of(l)};
}

// Reads a part: all of it, or without poison only what was written.
SPIRA_API std::vector<int32_t> forms_get(const int32_t *from, forms_place at,
                                         const test_memory *m) {
    std::vector<int32_t> values = forms_poisoned(at.rows * at.pitch);
    if (!test_environment("SPIRA_UNPOISONED")) {
        at = {1, at.rows * at.pitch, at.rows * at.pitch};
    }
    for (int64_t row = 0; row < at.rows && at.used > 0; ++row) {
        m->get(values.data() + row * at.pitch, from + row * at.pitch,
               (size_t)at.used * sizeof(int32_t));
    }
    return values;
}

template <typename W>
SPIRA_API forms_result forms_fetch(const forms_layer<W> *l, const test_memory *m) {
    forms_result r;
    m->get(&r.trouble, l->trouble, sizeof r.trouble);
    m->settle();
    int64_t pairs = 0;
    for (int p = 0; p < forms_parts; ++p) {
        if (l->part[p] && !(p > forms_begin && forms_empty(&r))) {
            r.part[p] = forms_get(l->part[p], forms_place_of(l, p, pairs), m);
        }
        if (p == forms_begin && l->part[p]) {
            m->settle();
            pairs = std::min(std::max(r.part[p].back(), 0), l->wish.pairs_capacity);
        }
    }
    m->settle();
    return r;
}

template <typename W>
SPIRA_API spira::status forms_build_host(const forms_layer<W> *l) {
    spira::map_forms forms = forms_of(l);
    if (!l->wish.pairs) {
        return spira::map_build_forms_host(&l->layout, &l->kernel, l->source, l->outputs, &forms);
    }
    const spira::map_request<W> request = forms_request_of(l);
    const spira::map_lists pairs = forms_pairs_of(l);
    return spira::map_build_lists_host(&l->layout, &request, &pairs);
}

// The results of the host loops.
template <typename W>
SPIRA_API forms_result forms_on_host(const forms_scene<W> *s, const forms_wish *wish,
                                     int32_t room) {
    forms_layer<W> l = forms_layer_make(s, wish, room, &memory_host);
    CHECK_OK(forms_build_host(&l));
    return forms_fetch(&l, &memory_host);
}

// ---- what is refused ----------------------------------------------------------------------------

// One error in a layer.
struct forms_spoilt {
    spira::status_code code;
    void (*spoil)(forms_layer<uint32_t> *);
};

// Moves an array of a layer off the alignment of its elements.
inline void forms_misalign(forms_layer<uint32_t> *l, forms_part part) {
    l->part[part] = (int32_t *)((char *)l->part[part] + 1);
}

inline const forms_spoilt forms_spoilt_layers[] = {
    {spira::status_null_pointer, [](forms_layer<uint32_t> *l) { l->source.words = nullptr; }},
    {spira::status_null_pointer, [](forms_layer<uint32_t> *l) { l->source.count = nullptr; }},
    {spira::status_null_pointer, [](forms_layer<uint32_t> *l) { l->outputs.words = nullptr; }},
    {spira::status_null_pointer, [](forms_layer<uint32_t> *l) { l->outputs.count = nullptr; }},
    {spira::status_bad_size, [](forms_layer<uint32_t> *l) { l->source.capacity = 0; }},
    {spira::status_bad_size, [](forms_layer<uint32_t> *l) { l->outputs.capacity = -1; }},
    {spira::status_bad_size, [](forms_layer<uint32_t> *l) { l->wish.threshold = -1; }},
    {spira::status_kernel_size, [](forms_layer<uint32_t> *l) { l->kernel.size.y = 16; }},
    {spira::status_kernel_size, [](forms_layer<uint32_t> *l) { l->kernel.size.z = 0; }},
    {spira::status_stride, [](forms_layer<uint32_t> *l) { l->kernel.stride.x = 0; }},
    {spira::status_unsupported, [](forms_layer<uint32_t> *l) { l->kernel.dilation.z = 9; }},
    {spira::status_unsupported,
     [](forms_layer<uint32_t> *l) { l->layout = spira::word_widen(l->layout); }},
    {spira::status_alignment, [](forms_layer<uint32_t> *l) { forms_misalign(l, forms_os); }},
    {spira::status_alignment, [](forms_layer<uint32_t> *l) { forms_misalign(l, forms_ws); }},
    {spira::status_alignment, [](forms_layer<uint32_t> *l) { forms_misalign(l, forms_mask); }},
};

inline const forms_spoilt forms_spoilt_lists[] = {
    {spira::status_null_pointer, [](forms_layer<uint32_t> *l) { l->part[forms_begin] = nullptr; }},
    {spira::status_null_pointer, [](forms_layer<uint32_t> *l) { l->part[forms_input] = nullptr; }},
    {spira::status_null_pointer, [](forms_layer<uint32_t> *l) { l->part[forms_output] = nullptr; }},
    {spira::status_alignment, [](forms_layer<uint32_t> *l) { forms_misalign(l, forms_begin); }},
    {spira::status_alignment, [](forms_layer<uint32_t> *l) { forms_misalign(l, forms_input); }},
    {spira::status_alignment, [](forms_layer<uint32_t> *l) { forms_misalign(l, forms_output); }},
    {spira::status_null_pointer, [](forms_layer<uint32_t> *l) { l->trouble = nullptr; }},
    {spira::status_bad_size, [](forms_layer<uint32_t> *l) { l->wish.pairs_capacity = 0; }},
    {spira::status_bad_size, [](forms_layer<uint32_t> *l) { l->wish.pairs_capacity = -1; }},
    {spira::status_bad_size, [](forms_layer<uint32_t> *l) { l->wish.pairs_capacity = INT32_MAX; }},
};

// Half maps of layers without symmetry.
inline const forms_spoilt forms_spoilt_halves[] = {
    {spira::status_unsupported,
     [](forms_layer<uint32_t> *l) { l->kernel = spira::kernel_cube(2, 1); }},
    {spira::status_unsupported, [](forms_layer<uint32_t> *l) { l->kernel.size.x = 2; }},
    {spira::status_unsupported, [](forms_layer<uint32_t> *l) { l->kernel.size.y = 2; }},
    {spira::status_unsupported, [](forms_layer<uint32_t> *l) { l->kernel.size.z = 2; }},
    {spira::status_unsupported, [](forms_layer<uint32_t> *l) { l->kernel.transposed = true; }},
    {spira::status_unsupported, [](forms_layer<uint32_t> *l) { ++l->outputs.words; }},
    {spira::status_unsupported, [](forms_layer<uint32_t> *l) { ++l->outputs.count; }},
};

// ---- cases of both sides ------------------------------------------------------------------------
// check(scene, map, wish, room): a side against its reference; map: of the scene, by forms_map
// build(layer): on a side

template <typename W, typename F>
void forms_random_scenes(uint64_t seed, int scenes, F check) {
    random_state r = random_make(seed);
    int64_t found[forms_kinds] = {};
    for (int i = 0; i < scenes; ++i) {
        const spira::triple stride = {random_int(&r, 1, 4), random_int(&r, 1, 4),
                                      random_int(&r, 1, 4)};
        const spira::kernel_shape kernel =
            reference_random_kernel(&r, i / forms_kinds % 4 ? 5 : 15, 3, stride);
        const forms_kind kind = (forms_kind)(i % forms_kinds);
        const forms_scene<W> s = forms_scene_random<W>(&r, kind, kernel);
        const std::vector<int32_t> map = forms_map(&s);
        for (int wish = 0; wish < 4; ++wish) {
            check(&s, map, forms_wish_random(&r, &s, map), random_int(&r, -2, 150));
        }
        found[kind] += (int64_t)map.size() - std::count(map.begin(), map.end(), -1);
    }
    for (int64_t taps : found) {
        CHECK(scenes < 40 || taps > (scenes < 300 ? 0 : 1000)); // the scenes are not empty
    }
}

// Voxels on both sides of every field's ends, and at all corners: nothing wraps.
// check_scene(scene): with many wishes
template <typename W, typename F>
void forms_field_ends(int batches, spira::triple size, spira::triple dilation, F check_scene) {
    const spira::kernel_shape kernel = {size, dilation, {1, 1, 1}, false};
    const spira::word_layout l = reference_layout<W>({-7, 0, 5}, {21, 13, 29}, batches, {1, 1, 1},
                                                     spira::kernel_reach(&kernel));
    const spira::triple lo = l.lo, hi = l.hi;
    std::vector<spira::voxel> ends, corners;
    for (int batch = 0; batch < batches; ++batch) {
        for (int x : {lo.x, lo.x + 1, (lo.x + hi.x) / 2, hi.x - 1, hi.x}) {
            for (int y : {lo.y, lo.y + 1, hi.y - 1, hi.y}) {
                for (int z : {lo.z, lo.z + 1, lo.z + 2, hi.z - 1, hi.z}) {
                    ends.push_back({batch, x, y, z});
                }
            }
        }
        for (int c = 0; c < 8; ++c) {
            corners.push_back(
                {batch, c & 1 ? hi.x : lo.x, c & 2 ? hi.y : lo.y, c & 4 ? hi.z : lo.z});
        }
    }
    forms_scene<W> s = forms_scene_make("field ends", &l, &kernel, forms_words_of<W>(&l, ends));
    check_scene(&s);
    s.kernel.transposed = true;
    check_scene(&s);
    s = forms_scene_make("corners", &l, &kernel, forms_words_of<W>(&l, corners));
    const std::vector<int32_t> map = forms_map(&s);
    CHECK_EQUAL(map.size() - (size_t)std::count(map.begin(), map.end(), -1), corners.size());
    check_scene(&s); // each has itself and no other
}

// Lists with exactly enough places, and with fewer. Lists alone: cubes have kernels of their own.
template <typename F, typename G>
void forms_lists_that_do_not_fit(const test_memory *m, int scenes, F check, G build) {
    using namespace spira;
    random_state r = random_make(8);
    for (int i = 0; i < scenes; ++i) {
        const bool alone = i % 4 >= 2;
        const kernel_shape kernel = alone
                                        ? kernel_cube(i % 4 == 2 ? 3 : 5, 1)
                                        : reference_random_kernel(&r, i % 3 ? 5 : 12, 1, {1, 1, 1});
        const forms_scene<uint32_t> s =
            forms_scene_random<uint32_t>(&r, (forms_kind)(i / 4 % forms_kinds), kernel);
        const std::vector<int32_t> map = forms_map(&s);
        forms_wish wish = alone ? forms_wish_lists() : forms_everything();
        wish.threshold = i % 3;
        const int64_t pairs = forms_pairs(kernel.size, map, &wish);
        for (int64_t missing : {(int64_t)0, (int64_t)1, pairs / 2, pairs - 1}) {
            if (missing >= pairs) {
                continue;
            }
            wish = forms_wish_fit(wish, kernel.size, map, -missing);
            const forms_layer<uint32_t> l = forms_layer_make(&s, &wish, 0, m);
            for (int run = 0; run < 2; ++run) { // the second on what the first has left
                CHECK_OK(build(&l));
                const device_status trouble = memory_value(m, l.trouble);
                CHECK_EQUAL((trouble.flags & device_flag_capacity) != 0, missing > 0);
                CHECK_EQUAL(trouble.needed, missing ? std::max(pairs, (int64_t)2) : 2);
                CHECK_EQUAL(trouble.first_range, UINT32_MAX - 77); // as before
                const std::vector<int32_t> begin =
                    memory_get(m, l.part[forms_begin], kernel_volume(&kernel) + 1);
                CHECK_EQUAL(begin.back(), missing ? 0 : pairs);
            }
            guarded_finish();
            check(&s, map, wish, 0);
        }
    }
}

// Refuses, and writes nothing at all.
template <typename F>
void forms_refuses(const test_memory *m, F build) {
    const forms_scene<uint32_t> s = forms_scene_small(3, 200);
    forms_wish wish = forms_everything();
    wish.pairs_capacity = 200 * 27;
    wish.threshold = 1;
    const forms_layer<uint32_t> good = forms_layer_make(&s, &wish, 0, m);
    auto refused = [&](const forms_spoilt &one, bool half, bool pairs) {
        forms_layer<uint32_t> bad = good;
        bad.wish.half = half;
        bad.wish.pairs = pairs;
        one.spoil(&bad);
        CHECK_STATUS(build(&bad), one.code);
    };
    for (bool pairs : {false, true}) {
        for (const forms_spoilt &one : forms_spoilt_layers) {
            refused(one, false, pairs);
        }
        for (const forms_spoilt &one : forms_spoilt_halves) {
            refused(one, true, pairs);
        }
    }
    for (const forms_spoilt &one : forms_spoilt_lists) {
        refused(one, false, true);
    }
    for (int p = 0; p < forms_parts; ++p) {
        const forms_place at = forms_place_of(&good, p, 0);
        CHECK(memory_untouched(m, good.part[p], 0, at.rows * at.pitch));
    }
    CHECK_OK(build(&good));
}

#endif
