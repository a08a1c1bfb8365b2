// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/map.cu: kernel maps by z-delta search, in all their forms.
//
//     build/bench_map data/*.vox32
//
// Layouts: "os" is a submanifold map [outputs, volume]; "os-down2" the map from stride 1 to 2 of a
// strided layer, "os-up2" the one from stride 2 to 1 of a transposed layer; "ws" the filtered
// weight-stationary form of the submanifold map, "hybrid" the same but for the offsets with an L1
// norm below 2, which are in os, "half" the half map [outputs, volume / 2], "compact" the compact
// one; "ordered" the layout that convolutions read, by way of the compact map. `bytes` are those of
// the map, or layout, that is written; of "ordered" those of both.
//
// Bench "norms", after Figure 3b of the Spira paper: which part of the offsets with an L1 norm of t
// has a source, in percent (`density`). Counted on the host's map.
#include "map_work.cuh"

struct map_case {
    int K;
    const char *layout;
    bool from_coarse, to_coarse; // the source set and the output set
    bool forms;                  // time the other forms as well
};

static const map_case map_cases[] = {
    {3, "os", false, false, true},     {5, "os", false, false, true},
    {7, "os", false, false, false},    {2, "os-down2", false, true, false},
    {2, "os-up2", true, false, false}, {3, "os-up2", true, false, false},
};

// Compares what a compact map tells with the map `expected`.
template <typename W>
static void map_check_compact(bench_session *s, const map_work<W> *w, const int32_t *expected,
                              const char *input) {
    const int K = w->kernel.size.x, plane = K * K, keep = s->pool.blocks;
    const int32_t count = *w->outputs.host.count;
    const int32_t *compact = bench_download(&s->pool, w->compact, spira::compact_total(K, count));
    for (int64_t i = 0; i < (int64_t)count * K * plane; ++i) {
        const int32_t output = (int32_t)(i / (K * plane));
        const int64_t at = spira::compact_at(K, count, (int)(i / plane % K), output);
        if (spira::compact_source(compact + at, K, (int)(i % plane)) != expected[i]) {
            bench_fail("%s: compact map of output %d", input, (int)output);
        }
    }
    bench_check_trouble(&s->pool, w->trouble);
    bench_pool_free(&s->pool, keep);
}

template <typename W>
static void map_run_compact(bench_session *s, map_work<W> *w, const int32_t *expected,
                            bench_row row) {
    row.bytes = map_compact_make(&s->pool, w);
    BENCH_TRY(map_compact_step<W>(w, s->stream));
    map_check_compact(s, w, expected, row.input);
    row.layout = "compact";
    row.time = bench_measure(s->stream, map_compact_step<W>, w);
    bench_print(s, &row);
}

// Times the search and, of its compact map, the ordered layout.
template <typename W>
static void map_run_ordered(bench_session *s, map_work<W> *w, const int32_t *expected,
                            bench_row row) {
    const int32_t count = *w->outputs.host.count;
    map_order_make(&s->pool, w);
    BENCH_TRY(map_order_step<W>(w, s->stream));
    row.bytes =
        spira::compact_total(w->kernel.size.x, count) * (int64_t)sizeof *w->compact +
        bench_check_order(&s->pool, &w->kernel, expected, count, w->order.layout, row.input);
    row.layout = "ordered";
    row.time = bench_measure(s->stream, map_order_step<W>, w);
    bench_print(s, &row);
}

// The filtered form, with the offsets of a norm below `threshold` in os.
template <typename W>
static void map_run_pairs(bench_session *s, map_work<W> *w, int threshold, bench_row row) {
    bench_pool *pool = &s->pool;
    int volume = spira::kernel_volume(&w->kernel), capacity = (int)row.pairs;
    int64_t count = *w->outputs.host.count;
    int64_t dense = count * spira::map_os_columns(&w->kernel, threshold, false);
    spira::device_status trouble = {};
    spira::map_forms host_forms = spira::map_forms_none(threshold, false, &trouble);
    host_forms.os = threshold ? bench_host<int32_t>(pool, dense) : nullptr;
    spira::map_lists host = {bench_host<int32_t>(pool, volume + 1),
                             bench_host<int32_t>(pool, capacity),
                             bench_host<int32_t>(pool, capacity), capacity};
    const spira::map_request<W> request = {w->kernel, w->source.host, w->outputs.host, host_forms};
    BENCH_TRY(spira::map_build_lists_host(&w->layout, &request, &host));
    spira::map_forms forms = host_forms;
    forms.os = threshold ? bench_device<int32_t>(pool, dense) : nullptr;
    forms.trouble = w->trouble;
    map_lists_make(pool, w, capacity, &forms);
    BENCH_TRY(map_lists_step<W>(w, s->stream));
    int64_t found = host.begin[volume];
    bench_check_same(pool, host.begin, w->pairs.begin, volume + 1, row.input, "begin of the pairs");
    bench_check_same(pool, host.input, w->pairs.input, found, row.input, "inputs of the pairs");
    bench_check_same(pool, host.output, w->pairs.output, found, row.input, "outputs of the pairs");
    if (threshold) {
        bench_check_same(pool, host_forms.os, w->forms.os, dense, row.input, "hybrid map");
    }
    bench_check_trouble(pool, w->trouble);
    row.layout = threshold ? "hybrid" : "ws";
    row.t = threshold;
    row.bytes = (volume + 1) * 4 + found * 8 + (threshold ? dense * 4 : 0);
    row.time = bench_measure(s->stream, map_lists_step<W>, w);
    bench_print(s, &row);
}

template <typename W>
static void map_run_half(bench_session *s, map_work<W> *w, bench_row row) {
    bench_pool *pool = &s->pool;
    int64_t total = *w->outputs.host.count * (int64_t)spira::map_columns(&w->kernel, true);
    spira::map_forms host = spira::map_forms_os(bench_host<int32_t>(pool, total));
    host.half = true;
    BENCH_TRY(
        spira::map_build_forms_host(&w->layout, &w->kernel, w->source.host, w->source.host, &host));
    w->forms = host;
    w->forms.os = bench_device<int32_t>(pool, total);
    BENCH_TRY(map_forms_step<W>(w, s->stream));
    bench_check_same(pool, host.os, w->forms.os, total, row.input, "half map");
    row.layout = "half";
    row.bytes = total * 4;
    row.time = bench_measure(s->stream, map_forms_step<W>, w);
    bench_print(s, &row);
}

// Prints the density of each L1 norm. expected: the host's map.
static void map_run_norms(const bench_session *s, const spira::kernel_shape *kernel,
                          const int32_t *expected, int64_t outputs, bench_row row) {
    const int volume = spira::kernel_volume(kernel);
    row.K = kernel->size.x;
    for (int norm = 0; norm <= spira::kernel_norm_max(kernel); ++norm) {
        int64_t found = 0, all = 0;
        for (int k = 0; k < volume; ++k) {
            if (spira::kernel_norm(kernel, k) != norm) {
                continue;
            }
            for (int64_t i = 0; i < outputs; ++i) {
                found += expected[i * volume + k] >= 0;
            }
            all += outputs;
        }
        bench_print_begin(s, &row);
        printf(", \"t\": %d, \"density\": %.4f", norm, 100.0 * (double)found / (double)all);
        bench_print_end(s);
    }
}

template <typename W>
static void map_run(bench_session *s, const bench_scene<W> *scene, const bench_sets<W> *coarse,
                    const map_case *c) {
    bench_pool *pool = &s->pool;
    int keep = pool->blocks;
    map_work<W> w = {};
    w.layout = scene->layout;
    w.kernel = spira::kernel_cube(c->K, 1);
    w.kernel.transposed = c->from_coarse;
    w.source = c->from_coarse ? *coarse : scene->fine;
    w.outputs = c->to_coarse ? *coarse : scene->fine;
    int64_t outputs = *w.outputs.host.count, total = outputs * spira::kernel_volume(&w.kernel);
    w.map = bench_device<int32_t>(pool, total);
    w.trouble = scene->trouble;

    bench_row row = bench_row_make("map", scene);
    const int32_t *expected =
        bench_map_host(pool, &w.layout, &w.kernel, &w.source, &w.outputs, &row.pairs);
    if (!c->from_coarse && !c->to_coarse) {
        bench_check_pairs(scene->input, c->K, row.pairs);
    }
    BENCH_TRY(map_step<W>(&w, s->stream));
    bench_check_same(pool, expected, (const int32_t *)w.map, total, scene->input, "kernel map");

    row.outputs = c->to_coarse ? (int)outputs : 0;
    row.K = c->K;
    row.word = 8 * (int)sizeof(W);
    row.layout = c->layout;
    row.method = "zdelta";
    row.bytes = total * 4;
    row.time = bench_measure(s->stream, map_step<W>, &w);
    bench_print(s, &row);
    if (c->forms && row.word == 32) {
        map_run_norms(s, &w.kernel, expected, outputs, bench_row_make("norms", scene));
    }
    if (c->forms) {
        map_run_half(s, &w, row);
        map_run_pairs(s, &w, 0, row);
        map_run_pairs(s, &w, 2, row);
        map_run_compact(s, &w, expected, row);
        map_run_ordered(s, &w, expected, row);
    }
    bench_pool_free(pool, keep);
}

template <typename W>
static void map_run_words(bench_session *s, const bench_input *input) {
    bench_words<W>(s, input, [&](const bench_scene<W> *scene) {
        const bench_sets<W> coarse = bench_coarse(&s->pool, scene, 2);
        for (const map_case &c : map_cases) {
            map_run(s, scene, &coarse, &c);
        }
    });
}

static void map_run_input(bench_session *s, const bench_input *input) {
    map_run_words<uint32_t>(s, input);
    map_run_words<uint64_t>(s, input);
}

int main(int argc, char **argv) {
    return bench_main(argc, argv, map_run_input);
}
