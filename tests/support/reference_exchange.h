// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/reference_exchange.h: the kernel maps of other engines, made from voxels by the
// engines' own definitions, without spira's maps or orders; and buffers for the writers of
// spira/exchange.h, in host or device memory.
#ifndef SPIRA_TESTS_REFERENCE_EXCHANGE_H
#define SPIRA_TESTS_REFERENCE_EXCHANGE_H

#include "reference_forms.h"

#include "../../spira/exchange.h"

// ---- the offsets of an engine, in its order -----------------------------------------------------

// Each goes from an output voxel to the input voxel of a layer that is not transposed.
typedef std::vector<spira::triple> engine_offsets;

// spconv: input index = output index * ratio - padding + tap * dilation on the axes z, y, x, the
// last one fastest.
SPIRA_API engine_offsets engine_spconv(const spira::kernel_shape *k) {
    const int size[3] = {k->size.z, k->size.y, k->size.x};
    const int dilation[3] = {k->dilation.z, k->dilation.y, k->dilation.x};
    int padding[3];
    for (int a = 0; a < 3; ++a) {
        padding[a] = size[a] % 2 ? (size[a] - 1) / 2 * dilation[a] : 0;
    }
    engine_offsets offsets;
    for (int r0 = 0; r0 < size[0]; ++r0) {
        for (int r1 = 0; r1 < size[1]; ++r1) {
            for (int r2 = 0; r2 < size[2]; ++r2) {
                offsets.push_back({(r2 * dilation[2] - padding[2]) * k->stride.x,
                                   (r1 * dilation[1] - padding[1]) * k->stride.y,
                                   (r0 * dilation[0] - padding[0]) * k->stride.z});
            }
        }
    }
    return offsets;
}

// TorchSparse: arange(-size // 2 + 1, size // 2 + 1) * stride * dilation on each axis.
SPIRA_API engine_offsets engine_torchsparse(const spira::kernel_shape *k) {
    const int size[3] = {k->size.x, k->size.y, k->size.z};
    const int step[3] = {k->stride.x * k->dilation.x, k->stride.y * k->dilation.y,
                         k->stride.z * k->dilation.z};
    std::vector<int> axis[3];
    for (int a = 0; a < 3; ++a) {
        for (int i = (int)floor(-size[a] / 2.0) + 1; i < size[a] / 2 + 1; ++i) {
            axis[a].push_back(i * step[a]);
        }
    }
    engine_offsets offsets;
    if (size[0] * size[1] * size[2] % 2 == 1) {
        for (int z : axis[2]) {
            for (int y : axis[1]) {
                for (int x : axis[0]) {
                    offsets.push_back({x, y, z});
                }
            }
        }
    } else {
        for (int x : axis[0]) {
            for (int y : axis[1]) {
                for (int z : axis[2]) {
                    offsets.push_back({x, y, z});
                }
            }
        }
    }
    return offsets;
}

// Whether TorchSparse puts the kernel where the others do.
SPIRA_API bool engine_torchsparse_agrees(const spira::kernel_shape *k) {
    bool agrees = true;
    for (int size : {k->size.x, k->size.y, k->size.z}) {
        agrees = agrees && (size % 2 || size == 2);
    }
    return agrees;
}

// MinkowskiEngine: from a lower to an upper bound, the first axis stepping first.
SPIRA_API engine_offsets engine_minkowski(const spira::kernel_shape *k) {
    const int size[3] = {k->size.x, k->size.y, k->size.z};
    const int step[3] = {k->dilation.x * k->stride.x, k->dilation.y * k->stride.y,
                         k->dilation.z * k->stride.z};
    int low[3], high[3], at[3];
    for (int a = 0; a < 3; ++a) {
        low[a] = at[a] = size[a] % 2 ? -(size[a] / 2) * step[a] : 0;
        high[a] = size[a] % 2 ? size[a] / 2 * step[a] : (size[a] - 1) * step[a];
    }
    engine_offsets offsets;
    for (int axis = 0; axis < 3;) {
        offsets.push_back({at[0], at[1], at[2]});
        for (axis = 0; axis < 3; ++axis) {
            at[axis] += step[axis];
            if (at[axis] <= high[axis]) {
                break;
            }
            at[axis] = low[axis];
        }
    }
    return offsets;
}

// ---- pairs, by looking voxels up ----------------------------------------------------------------

typedef std::vector<spira::voxel> engine_voxels;

template <typename W>
SPIRA_API engine_voxels engine_unpack(const spira::word_layout *layout, const W *words,
                                      int32_t count) {
    engine_voxels voxels;
    for (int32_t i = 0; i < count; ++i) {
        voxels.push_back(spira::word_unpack(layout, words[i]));
    }
    return voxels;
}

struct engine_pair {
    int32_t input, output;
};

typedef std::vector<std::vector<engine_pair>> engine_lists; // [volume], outputs ascending

// A transposed layer has the pairs of the layer from its outputs to its source, turned around.
SPIRA_API engine_lists engine_pairs(const engine_offsets &offsets, bool transposed,
                                    const engine_voxels &source, const engine_voxels &outputs) {
    const engine_voxels &from = transposed ? outputs : source, &to = transposed ? source : outputs;
    std::unordered_map<reference_key, int32_t, reference_hash> table;
    table.reserve(from.size() * 2);
    for (const spira::voxel &v : from) {
        table[{v.batch, v.x, v.y, v.z}] = (int32_t)table.size();
    }
    CHECK_EQUAL(table.size(), from.size());
    engine_lists lists(offsets.size());
    SPIRA_PARALLEL_FOR
    for (size_t k = 0; k < offsets.size(); ++k) {
        for (size_t o = 0; o < to.size(); ++o) {
            auto at = table.find({to[o].batch, to[o].x + offsets[k].x, to[o].y + offsets[k].y,
                                  to[o].z + offsets[k].z});
            if (at != table.end()) {
                lists[k].push_back(transposed ? engine_pair{(int32_t)o, at->second}
                                              : engine_pair{at->second, (int32_t)o});
            }
        }
        std::sort(lists[k].begin(), lists[k].end(),
                  [](engine_pair a, engine_pair b) { return a.output < b.output; });
    }
    return lists;
}

// ---- the forms ----------------------------------------------------------------------------------

// The parts of all forms, as vectors.
enum engine_part {
    engine_indice_pairs,    // [2, volume, stride]
    engine_indice_pair_num, // [volume]
    engine_nbmaps,          // [pairs, 2]
    engine_nbsizes,         // [volume]
    engine_begin,           // [volume + 1]
    engine_in,              // [pairs]
    engine_out,             // [pairs]
    engine_parts
};

struct engine_forms {
    std::vector<int32_t> part[engine_parts];
    int64_t pairs, longest; // of the whole map, and of one offset
};

// How much room there is.
struct engine_limits {
    int32_t pairs; // of map_lists; enough, in these tests
    int32_t stride;
};

SPIRA_API void engine_write_spconv(const engine_lists &lists, size_t stride, engine_forms *f) {
    std::vector<int32_t> &pairs = f->part[engine_indice_pairs];
    pairs.assign(2 * lists.size() * stride, -1);
    for (size_t k = 0; k < lists.size(); ++k) {
        size_t kept = std::min(lists[k].size(), stride);
        for (size_t i = 0; i < kept; ++i) {
            pairs[k * stride + i] = lists[k][i].input;
            pairs[(lists.size() + k) * stride + i] = lists[k][i].output;
        }
        f->part[engine_indice_pair_num].push_back((int32_t)kept);
    }
}

SPIRA_API void engine_write_lists(const engine_lists &torchsparse, const engine_lists &minkowski,
                                  engine_forms *f) {
    for (const auto &list : torchsparse) {
        for (engine_pair p : list) {
            f->part[engine_nbmaps].push_back(p.input);
            f->part[engine_nbmaps].push_back(p.output);
        }
        f->part[engine_nbsizes].push_back((int32_t)list.size());
    }
    f->part[engine_begin].push_back(0);
    for (const auto &list : minkowski) {
        for (engine_pair p : list) {
            f->part[engine_in].push_back(p.input);
            f->part[engine_out].push_back(p.output);
        }
        f->part[engine_begin].push_back((int32_t)f->part[engine_in].size());
        f->longest = std::max(f->longest, (int64_t)list.size());
    }
    f->pairs = (int64_t)f->part[engine_in].size();
}

// All forms of a layer. A limit of -1 is just enough.
SPIRA_API engine_forms engine_forms_make(const spira::kernel_shape *k, const engine_voxels &source,
                                         const engine_voxels &outputs, engine_limits *limits) {
    engine_forms f = {};
    engine_lists minkowski = engine_pairs(engine_minkowski(k), k->transposed, source, outputs);
    engine_write_lists(engine_torchsparse_agrees(k)
                           ? engine_pairs(engine_torchsparse(k), k->transposed, source, outputs)
                           : engine_lists{},
                       minkowski, &f);
    limits->pairs = limits->pairs < 0 ? (int32_t)std::max(f.pairs, (int64_t)1) : limits->pairs;
    limits->stride = limits->stride < 0 ? (int32_t)std::max(f.longest, (int64_t)1) : limits->stride;
    engine_write_spconv(engine_pairs(engine_spconv(k), k->transposed, source, outputs),
                        (size_t)limits->stride, &f);
    return f;
}

// What the writers should have recorded.
SPIRA_API spira::device_status engine_trouble(const engine_forms &wanted, engine_limits limits) {
    spira::device_status trouble = {};
    int64_t needed = wanted.longest > limits.stride ? wanted.longest : 0;
    trouble.flags = needed ? (uint32_t)spira::device_flag_capacity : 0;
    trouble.needed = (uint32_t)needed;
    return trouble;
}

// Returns the first difference, or "". TorchSparse's lists are not compared where it has other
// pairs.
SPIRA_API const char *engine_difference(const engine_forms &got, const engine_forms &wanted) {
    static const char *const names[engine_parts] = {
        "indice_pairs", "indice_pair_num", "nbmaps", "nbsizes", "begin", "in", "out"};
    static char text[200];
    text[0] = 0;
    for (int p = 0; p < engine_parts && !text[0]; ++p) {
        const std::vector<int32_t> &a = got.part[p], &b = wanted.part[p];
        if ((p == engine_nbmaps || p == engine_nbsizes) && wanted.part[engine_nbsizes].empty()) {
            continue;
        }
        size_t i = 0;
        while (i < a.size() && i < b.size() && a[i] == b[i]) {
            ++i;
        }
        if (i < a.size() && i < b.size()) {
            snprintf(text, sizeof text, "%s[%zu]: %d instead of %d", names[p], i, a[i], b[i]);
        } else if (a.size() != b.size()) {
            snprintf(text, sizeof text, "%s: %zu elements instead of %zu", names[p], a.size(),
                     b.size());
        }
    }
    return text;
}

// ---- buffers, on either side --------------------------------------------------------------------

// Buffers of exactly the size that the writers document.
struct engine_buffers {
    int32_t *part[engine_parts];
    int64_t size[engine_parts];
    spira::exchange_lists to[3]; // spconv, TorchSparse, MinkowskiEngine
};

SPIRA_API engine_buffers engine_buffers_make(const test_memory *memory, spira::triple size,
                                             engine_limits limits) {
    const int volume = size.x * size.y * size.z;
    engine_buffers b;
    b.size[engine_indice_pairs] = (int64_t)2 * volume * limits.stride;
    b.size[engine_indice_pair_num] = b.size[engine_nbsizes] = volume;
    b.size[engine_nbmaps] = (int64_t)2 * limits.pairs;
    b.size[engine_begin] = volume + 1;
    b.size[engine_in] = b.size[engine_out] = limits.pairs;
    for (int p = 0; p < engine_parts; ++p) {
        b.part[p] = memory_new<int32_t>(memory, b.size[p]);
    }
    b.to[0] = spira::exchange_spconv(size, limits.stride, b.part[engine_indice_pairs],
                                     b.part[engine_indice_pair_num]);
    b.to[1] = spira::exchange_torchsparse(size, b.part[engine_nbmaps], b.part[engine_nbsizes]);
    b.to[2] = spira::exchange_minkowski(size, b.part[engine_begin], b.part[engine_in],
                                        b.part[engine_out]);
    return b;
}

// Reads what was written, by the lengths that were written. Everything behind must be untouched,
// unless the buffers were used before.
SPIRA_API engine_forms engine_buffers_read(const test_memory *memory, const engine_buffers *b,
                                           bool fresh = true) {
    engine_forms f = {};
    int64_t used[engine_parts];
    std::copy(b->size, b->size + engine_parts, used);
    auto read = [&](int p) {
        used[p] = std::max((int64_t)0, std::min(used[p], b->size[p]));
        f.part[p] = memory_get(memory, b->part[p], used[p]);
        CHECK(!fresh || memory_untouched(memory, b->part[p], used[p], b->size[p]));
    };
    for (int p : {engine_indice_pairs, engine_indice_pair_num, engine_nbsizes, engine_begin}) {
        read(p);
    }
    used[engine_nbmaps] = 0;
    for (int32_t n : f.part[engine_nbsizes]) {
        used[engine_nbmaps] += (int64_t)2 * n;
    }
    used[engine_in] = used[engine_out] = f.part[engine_begin].back();
    for (int p : {engine_nbmaps, engine_in, engine_out}) {
        read(p);
    }
    return f;
}

// A map and its forms, in memory of either side.
template <typename W>
struct engine_layer {
    spira::word_layout layout;
    spira::kernel_shape kernel;
    spira::voxel_set<W> source, outputs;
    engine_limits limits;
    spira::map_lists pairs;
    engine_buffers buffers;
    spira::device_status *trouble;
    char *scratch; // of the device
    size_t bytes;
};

template <typename W>
SPIRA_API engine_layer<W> engine_layer_make(const test_memory *m, const spira::word_layout *layout,
                                            const spira::kernel_shape *kernel,
                                            spira::voxel_set<W> source, spira::voxel_set<W> outputs,
                                            engine_limits limits) {
    engine_layer<W> l = {};
    const spira::device_status clear = {};
    l.layout = *layout;
    l.kernel = *kernel;
    l.source = source;
    l.outputs = outputs;
    l.limits = limits;
    l.pairs = {memory_new<int32_t>(m, spira::kernel_volume(kernel) + 1),
               memory_new<int32_t>(m, limits.pairs), memory_new<int32_t>(m, limits.pairs),
               limits.pairs};
    l.buffers = engine_buffers_make(m, kernel->size, limits);
    l.trouble = memory_put(m, &clear, 1);
    return l;
}

// What the engines would have of these words.
template <typename W>
SPIRA_API engine_forms engine_wanted(const spira::word_layout *layout,
                                     const spira::kernel_shape *kernel,
                                     const std::vector<W> &source, const std::vector<W> &outputs,
                                     engine_limits *limits) {
    return engine_forms_make(kernel, engine_unpack(layout, source.data(), (int32_t)source.size()),
                             engine_unpack(layout, outputs.data(), (int32_t)outputs.size()),
                             limits);
}

template <typename W>
SPIRA_API void engine_layer_good(const test_memory *m, const engine_layer<W> *l,
                                 const engine_forms &wanted, bool fresh, const char *name) {
    const char *difference = engine_difference(engine_buffers_read(m, &l->buffers, fresh), wanted);
    const spira::device_status got = memory_value(m, l->trouble),
                               told = engine_trouble(wanted, l->limits);
    char text[512];
    snprintf(text, sizeof text, "%s (%s)", difference, name);
    test_check(!*difference, __FILE__, __LINE__, text);
    snprintf(text, sizeof text, "flags %u, needed %u instead of %u, %u (%s)", got.flags, got.needed,
             told.flags, told.needed, name);
    test_check(memcmp(&got, &told, sizeof got) == 0, __FILE__, __LINE__, text);
}

// ---- cases --------------------------------------------------------------------------------------
// check(layout, kernel, source, outputs, room, limits): compares with what the engines would have,
// and returns that. outputs null: a submanifold layer. A limit of -1 is just enough.

// run(layer): makes the lists of a layer and writes all forms.
template <typename F>
auto engine_checker(const test_memory *m, F run) {
    return [=](const spira::word_layout *layout, const spira::kernel_shape *kernel,
               const auto &source, const auto *outputs, int32_t room, engine_limits limits) {
        char name[160];
        forms_name(outputs ? "two sets" : "one set", kernel, name, sizeof name);
        const auto in = forms_set(source, room, m),
                   out = outputs ? forms_set(*outputs, room, m) : in;
        const engine_forms wanted =
            engine_wanted(layout, kernel, source, outputs ? *outputs : source, &limits);
        auto l = engine_layer_make(m, layout, kernel, in, out, limits);
        CHECK_OK(run(&l));
        engine_layer_good(m, &l, wanted, true, name);
        guarded_finish();
        return wanted;
    };
}

struct engine_kernel {
    spira::triple size, dilation;
};

const engine_kernel engine_kernels[] = {
    {{1, 1, 1}, {1, 1, 1}}, {{3, 3, 3}, {1, 1, 1}}, {{2, 2, 2}, {1, 1, 1}}, {{5, 5, 5}, {1, 1, 1}},
    {{3, 2, 1}, {1, 1, 1}}, {{1, 3, 5}, {1, 1, 1}}, {{4, 2, 3}, {1, 1, 1}}, {{2, 3, 5}, {1, 1, 1}},
    {{4, 4, 4}, {1, 1, 1}}, {{1, 1, 9}, {1, 1, 1}}, {{3, 3, 3}, {2, 2, 2}}, {{5, 3, 2}, {1, 2, 3}},
    {{2, 2, 2}, {2, 1, 2}}, {{3, 1, 7}, {3, 1, 1}}, {{7, 7, 7}, {1, 1, 1}},
};

template <typename W, typename F>
void engine_every_kernel(std::initializer_list<int32_t> sizes, F check) {
    random_state r = random_make(sizeof(W));
    const spira::triple lo = {-9, -6, 2}, hi = {9, 13, 17};
    for (const engine_kernel &c : engine_kernels) {
        for (int i = 0; i < 4; ++i) {
            const spira::triple stride = i % 2 ? spira::triple{2, 1, 3} : spira::triple{1, 1, 1};
            const spira::kernel_shape k = {c.size, c.dilation, stride, i >= 2};
            const spira::word_layout l =
                reference_layout<W>(lo, hi, 2, stride, spira::kernel_reach(&k));
            for (int32_t n : sizes) {
                if (test_quick() && (n > 33 || test_thinned(17))) {
                    continue;
                }
                const std::vector<W> words = set_random<W>(&r, &l, lo, hi, n, stride),
                                     others = set_random<W>(&r, &l, lo, hi, n / 2, stride);
                const engine_forms f = check(&l, &k, words, (const std::vector<W> *)nullptr, n % 5,
                                             engine_limits{-1, -1});
                CHECK(f.pairs >= (k.size.x % 2 && k.size.y % 2 && k.size.z % 2 ? n / 2 : 0));
                check(&l, &k, words, &others, n % 3, engine_limits{-1, -1});
            }
        }
    }
}

// A strided layer and its inverse, which have the same pairs: the engines keep one map for both.
template <typename W, typename F>
void engine_strides(int32_t voxels, F check) {
    random_state r = random_make(2);
    const spira::triple lo = {-20, -9, 3}, hi = {12, 15, 20};
    for (spira::triple up :
         {spira::triple{2, 2, 2}, spira::triple{3, 1, 2}, spira::triple{4, 4, 1}}) {
        for (const engine_kernel &c : engine_kernels) {
            spira::kernel_shape k = {c.size, c.dilation, {1, 1, 1}, false}, back = k;
            back.transposed = true;
            const spira::word_layout l =
                reference_layout<W>(lo, hi, 2, up, spira::kernel_reach(&k));
            const std::vector<W> fine = set_random<W>(&r, &l, lo, hi, voxels),
                                 coarse = forms_floored(&l, fine, up);
            const engine_forms f = check(&l, &k, fine, &coarse, 2, engine_limits{-1, -1}),
                               g = check(&l, &back, coarse, &fine, 0, engine_limits{-1, -1});
            CHECK_EQUAL(f.pairs, g.pairs);
            CHECK(f.part[engine_indice_pair_num] == g.part[engine_indice_pair_num]);
        }
    }
}

// Lists and strides as long as they must be, longer and shorter.
template <typename F>
void engine_full_and_one_more(std::initializer_list<int32_t> sizes, F check) {
    random_state r = random_make(4);
    const spira::triple lo = {0, 0, 0}, hi = {10, 10, 10};
    const std::vector<uint32_t> *same = nullptr;
    for (spira::triple size : {spira::triple{3, 3, 3}, spira::triple{2, 2, 2},
                               spira::triple{5, 3, 2}, spira::triple{1, 1, 1}}) {
        const spira::kernel_shape k = {size, {1, 1, 1}, {1, 1, 1}, false};
        const spira::word_layout l = reference_layout<uint32_t>(lo, hi, 1, {1, 1, 1}, {2, 1, 1});
        for (int32_t n : sizes) {
            if (test_quick() && n > 50) {
                continue;
            }
            const std::vector<uint32_t> words = set_random<uint32_t>(&r, &l, lo, hi, n);
            const engine_forms f = check(&l, &k, words, same, 0, engine_limits{-1, -1});
            const int32_t pairs = (int32_t)f.pairs, longest = (int32_t)f.longest;
            REQUIRE(longest >= 2 && pairs >= 2);
            check(&l, &k, words, same, 0, engine_limits{pairs, longest - 1});
            check(&l, &k, words, same, 0, engine_limits{pairs, 1});
            check(&l, &k, words, same, 3, engine_limits{pairs, longest + 3});
            check(&l, &k, words, same, 0, engine_limits{pairs + 5, longest - 1});
        }
    }
}

// Begins that disagree with the arrays, and of none: nothing is read or written out of bounds.
// run(begin, b): makes lists of 4 pairs and writes the forms of a kernel of 3 offsets to b.
template <typename F>
void engine_lists_that_disagree(const test_memory *memory, F run) {
    const int32_t begins[][4] = {
        {0, 9, 9, 9}, {-5, 2, 4, INT32_MAX}, {4, 0, 4, 0}, {0, 4, 0, 4}, {0, 0, 0, 0}};
    for (const auto &begin : begins) {
        engine_buffers b = engine_buffers_make(memory, {1, 1, 3}, {4, 5});
        run(begin, &b);
        const engine_forms f = engine_buffers_read(memory, &b);
        CHECK(f.part[engine_begin].back() <= 4 && f.part[engine_nbmaps].size() <= 8);
        if (begin[1] == 0 && begin[2] == 0) {
            CHECK(f.part[engine_indice_pairs] == std::vector<int32_t>(2 * 3 * 5, -1));
            CHECK(f.part[engine_indice_pair_num] == std::vector<int32_t>(3, 0));
            CHECK(f.part[engine_nbmaps].empty() && f.part[engine_in].empty());
            CHECK(f.part[engine_begin] == std::vector<int32_t>(4, 0));
        }
        guarded_finish();
    }
}

#endif
