// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/index.cu: coordinate sets: sorting, downsampling, and all that a network needs.
//
//     build/bench_index data/*.vox32
//
// "sort", method "pack+sort": from raw coordinates to sorted words with their rows, repeats still
// in. Method "voxelize": all of voxelize, which adds unique and the map from rows to voxels.
// "downsample": the set at stride 2 from the one at stride 1. "expand": output sets of strided
// layers (index_expand.cuh). "index": from raw coordinates to the 5 sets, one from the other, and
// the 13 kernel maps of MinkUNet42 in one launch: as they stand (layout "os"), or as they stand and
// then in order (layout "ordered"), the layouts of all maps in one go, by way of compact maps where
// there are any. Convolutions read these layouts.
#include "bench.cuh"
#include "index_expand.cuh"

// ---- sort ---------------------------------------------------------------------------------------

template <typename W>
struct sort_work {
    bench_scene<W> scene;
    spira::voxelize_scratch<W> s; // within the scene's scratch
};

// The first half of voxelize.
template <typename W>
static spira::status sort_pack_step(void *context, cudaStream_t stream) {
    sort_work<W> *w = (sort_work<W> *)context;
    const spira::voxelize_args<W> args = bench_voxelize_args(&w->scene);
    return spira::voxelize_sort(&args, w->s.sorted, w->scene.rows.order, &w->s.sort, stream);
}

// What pack+sort must have left: the words of all rows, ascending.
template <typename W>
static void sort_check_pack(bench_session *s, const bench_input *input, const sort_work<W> *w) {
    int keep = s->pool.blocks;
    int64_t rows = input->cloud.rows;
    W *words = bench_host<W>(&s->pool, rows);
    for (int64_t i = 0; i < rows; ++i) {
        const int32_t *c = input->cloud.voxels + i * 3;
        spira::voxel v = {0, c[0], c[1], c[2]};
        words[i] = spira::word_pack<W>(&w->scene.layout, v);
    }
    std::sort(words, words + rows);
    bench_check_same(&s->pool, words, w->s.sorted, rows, input->name, "sorted words");
    bench_check_trouble(&s->pool, w->scene.trouble);
    bench_pool_free(&s->pool, keep);
}

// `bytes`: the coordinates read, and the words and bookkeeping written.
template <typename W>
static void sort_run(bench_session *s, const bench_input *input, const bench_scene<W> *scene) {
    sort_work<W> w = {*scene, {}};
    spira::workspace space = spira::workspace_begin(scene->scratch);
    spira::voxelize_carve<W>(&space, &scene->in, scene->set.capacity, &w.s);
    BENCH_TRY(sort_pack_step<W>(&w, s->stream));
    sort_check_pack(s, input, &w);

    int64_t rows = scene->in.rows, voxels = scene->fine.host.capacity;
    bench_row row = bench_row_make("sort", scene);
    row.word = 8 * (int)sizeof(W);
    row.method = "pack+sort";
    row.bytes = rows * (int64_t)(12 + sizeof(W) + 4);
    row.time = bench_measure(s->stream, sort_pack_step<W>, &w);
    bench_print(s, &row);

    row.method = "voxelize"; // the scene is what it made: checked
    row.bytes = rows * (12 + 4 + 4) + voxels * (int64_t)(sizeof(W) + 4);
    row.time = bench_measure(s->stream, bench_voxelize_step<W>, &w.scene);
    bench_print(s, &row);
}

// ---- downsample ---------------------------------------------------------------------------------

// `bytes`: both sets, once.
template <typename W>
static void downsample_run(bench_session *s, const bench_scene<W> *scene) {
    int keep = s->pool.blocks;
    bench_halve<W> w = bench_halve_make(&s->pool, scene);
    bench_row row = bench_row_make("downsample", scene);
    row.outputs = w.outputs;
    row.word = 8 * (int)sizeof(W);
    row.bytes = ((int64_t)row.voxels + w.outputs) * (int64_t)sizeof(W);
    row.time = bench_measure(s->stream, bench_halve_step<W>, &w);
    bench_print(s, &row);
    bench_pool_free(&s->pool, keep);
}

// ---- a network's index --------------------------------------------------------------------------

enum { index_levels = 5, index_maps = 3 * index_levels - 2 };

enum index_form { index_os, index_ordered, index_forms };

static const char *const index_form_names[] = {"os", "ordered"};

template <typename W>
struct index_map {
    spira::kernel_shape kernel;
    int source, outputs; // levels
    int32_t *map;
    spira::order_layout order;
    int32_t *compact; // of those of size 3
};

// MinkUNet42: levels of stride 1, 2, 4, 8, 16, each with its submanifold map; between neighbours
// a strided map down and its inverse up.
template <typename W>
struct index_work {
    bench_scene<W> scene;
    bench_sets<W> level[index_levels];
    index_map<W> map[index_maps];
    int form;
    int64_t bytes[index_forms]; // written of the maps or layouts: known once they have been checked
    void *scratch;              // of downsample
    size_t scratch_bytes;
    void *order_scratch;
    size_t order_bytes;
};

// What order_build is asked for.
template <typename W>
static void index_orders(const index_work<W> *w, spira::order_request *request) {
    for (int i = 0; i < index_maps; ++i) {
        const index_map<W> *m = &w->map[i];
        spira::voxel_set<W> outputs = w->level[m->outputs].device;
        request[i] = {};
        request[i].kernel = m->kernel;
        request[i].map = m->compact ? nullptr : m->map;
        request[i].compact = m->compact;
        request[i].count = outputs.count;
        request[i].capacity = outputs.capacity;
        request[i].layout = m->order;
    }
}

// As a network has it: compact where there is such a form.
template <typename W>
static spira::map_forms index_forms_of(const index_work<W> *w, const index_map<W> *m) {
    return w->form == index_ordered && m->compact
               ? spira::map_forms_compact(m->compact, w->scene.trouble)
               : spira::map_forms_os(m->map);
}

template <typename W>
static spira::status index_step(void *context, cudaStream_t stream) {
    const index_work<W> *w = (const index_work<W> *)context;
    const bench_scene<W> *scene = &w->scene;
    SPIRA_TRY(bench_voxelize(scene, stream));
    for (int l = 1; l < index_levels; ++l) {
        const spira::triple stride = {1 << l, 1 << l, 1 << l};
        const spira::triple from = {1 << (l - 1), 1 << (l - 1), 1 << (l - 1)};
        const spira::downsample_args<W> args = {
            &scene->layout, w->level[l - 1].device, from,
            stride,         w->level[l].device,     scene->trouble};
        SPIRA_TRY(spira::downsample(bench_gpu(), &args, w->scratch, w->scratch_bytes, stream));
    }
    spira::map_request<W> request[index_maps];
    for (int i = 0; i < index_maps; ++i) {
        const index_map<W> *m = &w->map[i];
        request[i] = {m->kernel, w->level[m->source].device, w->level[m->outputs].device,
                      index_forms_of(w, m)};
    }
    SPIRA_TRY(spira::map_build_batch(bench_gpu(), &scene->layout, request, index_maps, stream));
    spira::order_request orders[index_maps];
    index_orders(w, orders);
    return w->form == index_ordered ? spira::order_build(bench_gpu(), orders, index_maps,
                                                         w->order_scratch, w->order_bytes, stream)
                                    : spira::status_success();
}

template <typename W>
static index_map<W> index_map_make(bench_pool *pool, const index_work<W> *w, int K, int source,
                                   int outputs) {
    int finer = source < outputs ? source : outputs;
    int32_t rows = w->level[outputs].host.capacity;
    index_map<W> m = {};
    m.kernel = spira::kernel_cube(K, 1 << finer);
    m.source = source;
    m.outputs = outputs;
    m.kernel.transposed = source > outputs;
    int volume = spira::kernel_volume(&m.kernel);
    m.map = bench_device<int32_t>(pool, (int64_t)rows * volume);
    m.order = bench_order(pool, rows, volume, true);
    if (spira::compact_has(&m.kernel)) {
        m.compact = bench_device<int32_t>(pool, spira::compact_numbers(&m.kernel, rows));
    }
    return m;
}

// The sets' capacities are their sizes: a plan that was fitted to the scan.
template <typename W>
static void index_work_make(bench_pool *pool, const bench_scene<W> *scene, index_work<W> *w) {
    w->scene = *scene;
    w->level[0] = scene->fine;
    for (int l = 1; l < index_levels; ++l) {
        w->level[l] = bench_coarse(pool, scene, 1 << l);
        // Written again by the step: what the check finds must come from there.
        BENCH_CUDA(cudaMemsetAsync(w->level[l].device.words, bench_poison,
                                   (size_t)w->level[l].device.capacity * sizeof(W), pool->stream));
    }
    BENCH_TRY(spira::downsample_workspace(w->level[0].device, w->level[0].device.capacity,
                                          &w->scratch_bytes));
    w->scratch = bench_device<char>(pool, (int64_t)w->scratch_bytes);
    int maps = 0;
    for (int l = 0; l < index_levels; ++l) {
        w->map[maps++] = index_map_make(pool, w, 3, l, l);
        if (l > 0) {
            w->map[maps++] = index_map_make(pool, w, 2, l - 1, l);
            w->map[maps++] = index_map_make(pool, w, 2, l, l - 1);
        }
    }
    spira::order_request orders[index_maps];
    index_orders(w, orders);
    w->order_scratch = bench_order_scratch(pool, orders, index_maps, &w->order_bytes);
}

// Compares sets, maps and layouts with the host's. Returns the pairs of all maps.
template <typename W>
static int64_t index_check(bench_pool *pool, index_work<W> *w) {
    int64_t pairs, all = 0;
    const char *input = w->scene.input;
    for (int l = 0; l < index_levels; ++l) {
        bench_check_set(pool, w->level[l].host, w->level[l].device, input, "coordinate sets");
    }
    for (int i = 0; i < index_maps; ++i) {
        int keep = pool->blocks;
        const index_map<W> *m = &w->map[i];
        const bench_sets<W> *outputs = &w->level[m->outputs];
        int32_t rows = outputs->host.capacity;
        int64_t total = (int64_t)rows * spira::kernel_volume(&m->kernel);
        const int32_t *expected = bench_map_host(pool, &w->scene.layout, &m->kernel,
                                                 &w->level[m->source], outputs, &pairs);
        bench_check_same(pool, expected, (const int32_t *)m->map, total, input, "kernel maps");
        w->bytes[index_os] += total * (int64_t)sizeof *m->map;
        w->bytes[index_ordered] +=
            (m->compact ? spira::compact_numbers(&m->kernel, rows) : total) *
                (int64_t)sizeof *m->map +
            bench_check_order(pool, &m->kernel, expected, rows, m->order, input);
        bench_pool_free(pool, keep);
        all += pairs;
    }
    bench_check_trouble(pool, w->scene.trouble);
    return all;
}

template <typename W>
static void index_run(bench_session *s, const bench_scene<W> *scene) {
    index_work<W> w = {};
    index_work_make(&s->pool, scene, &w);
    for (w.form = 0; w.form < index_forms; ++w.form) {
        BENCH_TRY(index_step<W>(&w, s->stream));
    }
    bench_row row = bench_row_make("index", scene);
    row.pairs = index_check(&s->pool, &w);
    row.word = 8 * (int)sizeof(W);
    row.net = "MinkUNet42";
    row.method = "zdelta";
    for (w.form = 0; w.form < index_forms; ++w.form) {
        row.layout = index_form_names[w.form];
        row.bytes = w.bytes[w.form];
        row.time = bench_measure(s->stream, index_step<W>, &w);
        bench_print(s, &row);
    }
}

// ---- runs ---------------------------------------------------------------------------------------

template <typename W>
static void index_run_words(bench_session *s, const bench_input *input) {
    bench_words<W>(s, input, [&](const bench_scene<W> *scene) {
        sort_run(s, input, scene);
        downsample_run(s, scene);
        index_run(s, scene);
    });
}

static void index_run_input(bench_session *s, const bench_input *input) {
    index_run_words<uint32_t>(s, input);
    index_run_words<uint64_t>(s, input);
    expand_run(s, input, s->inputs < s->options.files ? s->options.file[s->inputs] : nullptr);
}

int main(int argc, char **argv) {
    return bench_main(argc, argv, index_run_input);
}
