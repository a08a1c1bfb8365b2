// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/search_all.cuh: runs every search on one case: checks its map, times it, prints it.
#ifndef SPIRA_BENCH_SEARCH_ALL_CUH
#define SPIRA_BENCH_SEARCH_ALL_CUH

#include "search_minuet.cuh"

// A case with what each search needs besides, which no step allocates.
template <typename W>
struct search_work {
    search_case<W> c;
    search_minuet minuet;
    search_hash<W> hash;
    search_grid grid;
};

// ---- steps --------------------------------------------------------------------------------------

template <typename W>
static spira::status step_zdelta(void *context, cudaStream_t stream) {
    const search_case<W> *c = &((const search_work<W> *)context)->c;
    return spira::map_build(&c->layout, &c->kernel, c->set.device, c->set.device, c->map, stream);
}

template <typename W>
static spira::status step_bsearch(void *context, cudaStream_t stream) {
    const search_case<W> *c = &((const search_work<W> *)context)->c;
    const spira::voxel_set<W> set = c->set.device;
    return search_query(c, search_bsearch<W>{set.words, set.count, set.capacity}, stream);
}

template <typename W>
static spira::status step_minuet(void *context, cudaStream_t stream) {
    const search_work<W> *w = (const search_work<W> *)context;
    return minuet_map(&w->c, &w->minuet, stream);
}

template <typename W>
static spira::status step_hash(void *context, cudaStream_t stream) {
    const search_work<W> *w = (const search_work<W> *)context;
    SPIRA_TRY(hash_build(&w->c, &w->hash, stream));
    return search_query(&w->c, w->hash, stream);
}

template <typename W>
static spira::status step_grid(void *context, cudaStream_t stream) {
    const search_work<W> *w = (const search_work<W> *)context;
    SPIRA_TRY(grid_write(&w->c, w->grid, false, stream));
    SPIRA_TRY(search_query(&w->c, w->grid, stream));
    return grid_write(&w->c, w->grid, true, stream);
}

// ---- making a case ------------------------------------------------------------------------------

// The grid, its cells -1; or null, with a message, where it is larger than 8 GiB or the GPU.
SPIRA_API search_grid search_grid_make(bench_pool *pool, const spira::word_layout *layout,
                                       const char *input) {
    search_grid grid = {};
    double bytes = ldexp(sizeof *grid.cells, spira::word_bits(layout));
    if (spira::word_bits(layout) > grid_bits_max || !bench_memory(bytes)) {
        fprintf(stderr, "%s: left out: a grid of %.1f GiB\n", input, ldexp(bytes, -30));
        return grid;
    }
    grid.cells = bench_device<int32_t>(pool, grid_cells(layout));
    BENCH_CUDA(cudaMemsetAsync(grid.cells, 0xff, (size_t)bytes, pool->stream));
    return grid;
}

// Work on a set, without a kernel yet.
template <typename W>
SPIRA_API search_work<W> search_work_make(bench_pool *pool, const spira::word_layout *layout,
                                          bench_sets<W> set, const char *input) {
    search_work<W> w = {};
    w.c.layout = *layout;
    w.c.set = set;
    w.hash.capacity = hash_capacity(set.host.capacity);
    w.hash.slots = bench_device<hash_slot<W>>(pool, w.hash.capacity);
    w.grid = search_grid_make(pool, layout, input);
    return w;
}

// ---- checking -----------------------------------------------------------------------------------

enum { search_whole_most = 120000000, search_sample = 4096 };

// What the map must be. Up to 120 million elements all of it is compared; of larger ones a sample,
// rows [first + i * step], the last one of the map among them, and each offset's number of pairs.
struct search_truth {
    int64_t total;       // elements of the map
    int64_t pairs;       // of the whole map
    const int32_t *map;  // host [count, volume]
    int32_t *got;        // device [count, volume], or null: the map is compared itself
    int32_t *counts;     // host [volume]: the pairs of each offset; null with got
    int32_t *got_counts; // device [volume]
    int first, step, count;
};

// The number of pairs of each offset, without a map.
template <typename W>
SPIRA_API void search_count_host(const search_case<W> *c, int volume, int32_t *counts) {
    spira::voxel_set<W> set = c->set.host;
    const spira::search_walk<W> walk = spira::search_walk_make<W>(&c->layout, &c->kernel);
    int64_t found[search_volume_max] = {};
#pragma omp parallel for schedule(dynamic, 1024) reduction(+ : found[:search_volume_max])
    for (int32_t o = 0; o < set.capacity; ++o) {
        int32_t taps[search_volume_max];
        spira::search_voxel(walk, set.words, set.capacity, set.words[o], taps);
        for (int k = 0; k < volume; ++k) {
            found[k] += taps[k] >= 0;
        }
    }
    for (int k = 0; k < volume; ++k) {
        counts[k] = (int32_t)found[k];
    }
}

template <typename W>
SPIRA_API void search_truth_sample(bench_pool *pool, const search_case<W> *c, search_truth *t) {
    spira::voxel_set<W> set = c->set.host;
    const spira::search_walk<W> walk = spira::search_walk_make<W>(&c->layout, &c->kernel);
    int volume = spira::kernel_volume(&c->kernel);
    t->count = (int)spira::min_of(search_sample, set.capacity);
    t->step = set.capacity / t->count;
    t->first = set.capacity - 1 - (t->count - 1) * t->step;
    int32_t *map = bench_host<int32_t>(pool, (int64_t)t->count * volume);
    for (int64_t i = 0; i < t->count; ++i) {
        spira::search_voxel(walk, set.words, set.capacity, set.words[t->first + i * t->step],
                            map + i * volume);
    }
    t->map = map;
    t->got = bench_device<int32_t>(pool, (int64_t)t->count * volume);
    t->counts = bench_host<int32_t>(pool, volume);
    t->got_counts = bench_device<int32_t>(pool, volume);
    search_count_host(c, volume, t->counts);
    for (int k = 0; k < volume; ++k) {
        t->pairs += t->counts[k];
    }
}

template <typename W>
SPIRA_API search_truth search_truth_make(bench_pool *pool, const search_case<W> *c) {
    search_truth t = {};
    t.total = (int64_t)c->set.host.capacity * spira::kernel_volume(&c->kernel);
    if (t.total > search_whole_most) {
        search_truth_sample(pool, c, &t);
    } else {
        t.map = bench_map_host(pool, &c->layout, &c->kernel, &c->set, &c->set, &t.pairs);
    }
    return t;
}

// Runs a step on a poisoned map, and fails unless the map is right.
template <typename W>
SPIRA_API void search_verify(bench_session *s, search_work<W> *w, const search_truth *t,
                             const char *input, const char *method, bench_step step) {
    const search_case<W> *c = &w->c;
    int volume = spira::kernel_volume(&c->kernel);
    size_t row = (size_t)volume * sizeof(int32_t);
    BENCH_CUDA(cudaMemsetAsync(c->map, bench_poison, (size_t)t->total * 4, s->stream));
    BENCH_TRY(step(w, s->stream));
    if (!t->got) {
        bench_check_same(&s->pool, t->map, (const int32_t *)c->map, t->total, input, method);
        return;
    }
    BENCH_CUDA(cudaMemcpy2DAsync(t->got, row, c->map + (int64_t)t->first * volume, t->step * row,
                                 row, (size_t)t->count, cudaMemcpyDeviceToDevice, s->stream));
    bench_check_same(&s->pool, t->map, (const int32_t *)t->got, (int64_t)t->count * volume, input,
                     method);
    BENCH_TRY(spira::map_count(c->map, volume, c->set.device.count, c->set.device.capacity,
                               t->got_counts, s->stream));
    bench_check_same(&s->pool, (const int32_t *)t->counts, (const int32_t *)t->got_counts, volume,
                     input, method);
}

// ---- timing -------------------------------------------------------------------------------------

enum { search_sweep_us = 20000 };

// Checks a step, times it and prints it as a row.
template <typename W>
SPIRA_API void search_time(bench_session *s, search_work<W> *w, const search_truth *t,
                           bench_row row, const char *method, bench_step step, double most_us) {
    search_verify(s, w, t, row.input, method, step);
    row.method = method;
    row.time = bench_measure_within(s->stream, step, w, most_us);
    bench_print(s, &row);
}

// B and C that are tried; C leaves room for the blocks whose queries are more than their words.
static const int search_minuet_sizes[][2] = {{128, 256}, {256, 512}, {512, 1024}};

// Checks and times Minuet's search with the row's block sizes.
template <typename W>
SPIRA_API bench_time search_measure_minuet(bench_session *s, search_work<W> *w,
                                           const search_truth *t, const bench_row *row,
                                           double most_us) {
    int keep = s->pool.blocks;
    int64_t ends = minuet_ends(&w->c.kernel, w->c.set.host.capacity, row->B);
    w->minuet = search_minuet{row->B, row->C, bench_device<int32_t>(&s->pool, ends)};
    search_verify(s, w, t, row->input, row->method, step_minuet<W>);
    bench_time time = bench_measure_within(s->stream, step_minuet<W>, w, most_us);
    bench_pool_free(&s->pool, keep);
    return time;
}

// Times Minuet's search with the B and C of the command line, or prints the quickest of a few.
template <typename W>
SPIRA_API void search_time_minuet(bench_session *s, search_work<W> *w, const search_truth *t,
                                  bench_row row, double most_us) {
    int tried = s->options.minuet[0] ? 1 : 3;
    bench_row best = row;
    row.method = "minuet";
    for (int i = 0; i < tried; ++i) {
        const int *size = s->options.minuet[0] ? s->options.minuet : search_minuet_sizes[i];
        row.B = size[0];
        row.C = size[1];
        row.time = search_measure_minuet(s, w, t, &row, most_us);
        best = i == 0 || row.time.us < best.time.us ? row : best;
    }
    bench_print(s, &best);
}

// A map to build for a cube of K, and what it must be. Completes the row.
template <typename W>
SPIRA_API search_truth search_begin(bench_session *s, search_work<W> *w, int K, bench_row *row) {
    w->c.kernel = spira::kernel_cube(K, 1);
    search_truth t = search_truth_make(&s->pool, &w->c);
    w->c.map = bench_device<int32_t>(&s->pool, t.total);
    row->voxels = w->c.set.host.capacity;
    row->K = K;
    row->word = 8 * (int)sizeof(W);
    row->pairs = t.pairs;
    return t;
}

// Times Minuet's search for all block sizes, a row each.
template <typename W>
SPIRA_API void search_sweep_minuet(bench_session *s, search_work<W> *w, bench_row row, int K) {
    int keep = s->pool.blocks;
    const search_truth t = search_begin(s, w, K, &row);
    row.bench = row.method = "minuet";
    for (row.B = 64; row.B <= 2048; row.B *= 2) {
        for (row.C = 64; row.C <= 4096; row.C *= 2) {
            row.time = search_measure_minuet(s, w, &t, &row, search_sweep_us);
            bench_print(s, &row);
        }
    }
    bench_pool_free(&s->pool, keep);
}

// All searches for a cube of K. Every figure takes about most_us of the GPU, and less if it is
// short. The grid is right twice: the first run leaves it empty.
template <typename W>
SPIRA_API void search_run(bench_session *s, search_work<W> *w, bench_row row, int K,
                          double most_us) {
    int keep = s->pool.blocks;
    const search_truth t = search_begin(s, w, K, &row);
    row.bytes = t.total * 4;
    bench_check_pairs(row.input, K, row.pairs);
    search_time(s, w, &t, row, "zdelta", step_zdelta<W>, most_us);
    search_time(s, w, &t, row, "bsearch", step_bsearch<W>, most_us);
    search_time_minuet(s, w, &t, row, most_us);
    search_time(s, w, &t, row, "hash", step_hash<W>, most_us);
    if (w->grid.cells) {
        search_verify(s, w, &t, row.input, "grid", step_grid<W>);
        search_time(s, w, &t, row, "grid", step_grid<W>, most_us);
    }
    bench_pool_free(&s->pool, keep);
}

#endif
