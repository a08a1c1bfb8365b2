// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/scenes.cu: what the shape of a scene does to the time of each stage of indexing.
//
//     build/bench_scenes [--quick]
//
// Bench "scenes": the scenes of scenes.h from 10,000 to 3,000,000 voxels, with words of 32 and 64
// bits. `input` is the scene. Methods: "voxelize"; "downsample" by 2; "map" for K = 3 and 5 in the
// layouts of bench_map: os, half, ws, compact, ordered (by way of the compact map). Takes no scans;
// those of the command line are left alone.
//
// `ratio` is the time over what as many voxels take in a scene without the scene's property: for a
// map, interpolated linearly by its pairs between the scenes "uniform" (4 pairs per output for K =
// 3) and "crowded" (14) with as many voxels and the same words; for downsample, by its outputs.
// Below the fewer pairs or outputs of the two it is the time there; above the more, the line goes
// on.
//
// Sets and os maps are compared with the host's: of maps of more than 120 million elements a
// sample, and each offset's number of pairs. The other forms are compared with the os map on the
// GPU; ordered layouts of up to 100,000 voxels with the host's as well.
#include "map_work.cuh"
#include "scenes_check.h"
#include "search_all.cuh"

enum { scenes_exact_most = 100000, scenes_most_us = 40000, scenes_threads = 256 };

static const int scenes_voxels[] = {10000, 100000, 1000000, 3000000};

// A measured time, and the pairs of the map or the outputs of the set that it is of.
struct scenes_point {
    double us, count;
};

// The steps of a scene, in the order in which they run.
enum {
    scenes_step_voxelize,
    scenes_step_downsample,
    scenes_step_maps, // five for each K
    scenes_steps = scenes_step_maps + 2 * 5
};

// What the scenes "uniform" and "crowded" of a size take, for each width of the words and each
// step.
struct scenes_reference {
    scenes_point at[2][2][scenes_steps]; // [words, scene, step]
};

template <typename W>
struct scenes_work {
    bench_scene<W> scene;
    search_work<W> search; // the os map
    map_work<W> m;         // and its other forms
    scenes_forms forms;
    spira::device_status *trouble;
};

// ---- checks -------------------------------------------------------------------------------------

// wrong [1]: elements that differ. seen [outputs]: how often an output is in the ordered layout.
template <int = 0> // compiled where it is called
__global__ void scenes_compare_kernel(scenes_forms f, scenes_form form, int64_t elements,
                                      unsigned long long *wrong, int *seen) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += step) {
        int32_t placed;
        if (!scenes_agrees(&f, form, i, &placed)) {
            atomicAdd(wrong, 1ull);
        }
        if (placed >= 0) {
            atomicAdd(&seen[placed], 1);
        }
    }
}

template <typename W>
static void scenes_compare(bench_session *s, const scenes_work<W> *w, scenes_form form,
                           int64_t pairs, const char *what) {
    bench_pool *pool = &s->pool;
    const int keep = pool->blocks;
    const int32_t outputs = w->forms.outputs;
    const int64_t elements = scenes_elements(&w->forms, form, pairs);
    auto *wrong = bench_device<unsigned long long>(pool, 1);
    int *seen = bench_device<int>(pool, outputs);
    BENCH_CUDA(cudaMemsetAsync(wrong, 0, sizeof *wrong, s->stream));
    BENCH_CUDA(cudaMemsetAsync(seen, 0, (size_t)outputs * sizeof *seen, s->stream));
    scenes_compare_kernel<<<4096, scenes_threads, 0, s->stream>>>(w->forms, form, elements, wrong,
                                                                  seen);
    BENCH_CUDA(cudaGetLastError());
    const unsigned long long bad = *bench_download(pool, wrong, 1);
    if (bad) {
        bench_fail("%s: K = %d: %llu elements of %s differ from the map", w->scene.input,
                   w->forms.K, bad, what);
    }
    if (form == scenes_form_order) {
        const int *times = bench_download(pool, seen, outputs);
        for (int32_t i = 0; i < outputs; ++i) {
            if (times[i] != 1) {
                bench_fail("%s: K = %d: output %d stands %d times in the ordered layout",
                           w->scene.input, w->forms.K, (int)i, times[i]);
            }
        }
    }
    bench_check_trouble(pool, w->trouble);
    bench_pool_free(pool, keep);
}

// Each offset has as many pairs in the lists as in the map.
template <typename W>
static void scenes_check_begin(bench_session *s, const scenes_work<W> *w, int64_t pairs) {
    const int volume = scenes_volume(&w->forms), keep = s->pool.blocks;
    int32_t *counts = bench_device<int32_t>(&s->pool, volume);
    const search_case<W> *c = &w->search.c;
    BENCH_TRY(spira::map_count(c->map, volume, c->set.device.count, c->set.device.capacity, counts,
                               s->stream));
    const int32_t *count = bench_download(&s->pool, counts, volume);
    const int32_t *begin = bench_download(&s->pool, w->forms.pairs.begin, volume + 1);
    for (int k = 0; k < volume; ++k) {
        if (begin[0] != 0 || begin[k + 1] - begin[k] != count[k]) {
            bench_fail("%s: K = %d: %d pairs of offset %d instead of %d", w->scene.input,
                       w->forms.K, (int)(begin[k + 1] - begin[k]), k, (int)count[k]);
        }
    }
    if (begin[volume] != pairs) {
        bench_fail("%s: K = %d: %d pairs in all instead of %lld", w->scene.input, w->forms.K,
                   (int)begin[volume], (long long)pairs);
    }
    bench_pool_free(&s->pool, keep);
}

// ---- one step -----------------------------------------------------------------------------------

// A scene's rows: those of the first two scenes are kept, those of the others compared with them.
struct scenes_lines {
    scenes_reference *reference;
    int kind;
    int wide; // 0: 32-bit words; 1: 64-bit words
};

// What a step of `count` pairs or outputs is expected to take (head comment).
static double scenes_expected(scenes_point few, scenes_point many, double count) {
    if (!(many.us > 0)) { // left out, for want of memory
        return few.us;
    }
    if (few.count > many.count) {
        const scenes_point swap = few;
        few = many;
        many = swap;
    }
    const double slope =
        many.count > few.count ? fmax(many.us - few.us, 0.0) / (many.count - few.count) : 0;
    return few.us + slope * fmax(count - few.count, 0.0);
}

// Times a step that was checked.
static void scenes_time(bench_session *s, scenes_lines *lines, bench_row *row, int number,
                        bench_step step, void *context) {
    scenes_reference *reference = lines->reference;
    row->time = bench_measure_within(s->stream, step, context, scenes_most_us);
    const double count = row->pairs ? (double)row->pairs : (double)row->outputs;
    if (lines->kind <= scenes_crowded) {
        reference->at[lines->wide][lines->kind][number] = {row->time.us, count};
    }
    const scenes_point *few = &reference->at[lines->wide][scenes_uniform][number];
    const scenes_point *many = &reference->at[lines->wide][scenes_crowded][number];
    const double expected =
        lines->kind <= scenes_crowded ? row->time.us : scenes_expected(*few, *many, count);
    row->ratio = expected > 0 ? row->time.us / expected : 0;
    bench_print(s, row);
}

// ---- maps ---------------------------------------------------------------------------------------

template <typename W>
static void scenes_run_half(bench_session *s, scenes_work<W> *w, scenes_lines *lines, bench_row row,
                            int number) {
    const int64_t elements = (int64_t)w->forms.outputs * (scenes_volume(&w->forms) / 2);
    const int keep = s->pool.blocks;
    w->m.forms = spira::map_forms_os(bench_device<int32_t>(&s->pool, elements));
    w->m.forms.half = true;
    w->forms.half = w->m.forms.os;
    BENCH_TRY(map_forms_step<W>(&w->m, s->stream));
    scenes_compare(s, w, scenes_form_half, row.pairs, "the half map");
    row.layout = "half";
    row.bytes = elements * 4;
    scenes_time(s, lines, &row, number, map_forms_step<W>, &w->m);
    bench_pool_free(&s->pool, keep);
}

template <typename W>
static void scenes_run_lists(bench_session *s, scenes_work<W> *w, scenes_lines *lines,
                             bench_row row, int number) {
    const int keep = s->pool.blocks;
    const spira::map_forms none = spira::map_forms_none(0, false, w->trouble);
    map_lists_make(&s->pool, &w->m, row.pairs, &none);
    w->forms.pairs = w->m.pairs;
    BENCH_TRY(map_lists_step<W>(&w->m, s->stream));
    scenes_check_begin(s, w, row.pairs);
    scenes_compare(s, w, scenes_form_pairs, row.pairs, "the lists");
    row.layout = "ws";
    row.bytes = (scenes_volume(&w->forms) + 1) * 4 + row.pairs * 8;
    scenes_time(s, lines, &row, number, map_lists_step<W>, &w->m);
    bench_pool_free(&s->pool, keep);
}

// The compact map, then the ordered layout by way of it.
template <typename W>
static void scenes_run_order(bench_session *s, scenes_work<W> *w, const search_truth *truth,
                             scenes_lines *lines, bench_row row, int number) {
    const int keep = s->pool.blocks;
    const int32_t outputs = w->forms.outputs;
    row.bytes = map_compact_make(&s->pool, &w->m);
    w->forms.compact = w->m.compact;
    BENCH_TRY(map_compact_step<W>(&w->m, s->stream));
    scenes_compare(s, w, scenes_form_compact, row.pairs, "the compact map");
    row.layout = "compact";
    scenes_time(s, lines, &row, number, map_compact_step<W>, &w->m);

    map_order_make(&s->pool, &w->m);
    w->forms.order = w->m.order.layout;
    BENCH_TRY(map_order_step<W>(&w->m, s->stream));
    scenes_compare(s, w, scenes_form_order, row.pairs, "the ordered layout");
    if (outputs <= scenes_exact_most) {
        bench_check_order(&s->pool, &w->m.kernel, truth->map, outputs, w->forms.order,
                          w->scene.input);
    }
    row.layout = "ordered";
    row.bytes = 0;
    scenes_time(s, lines, &row, number + 1, map_order_step<W>, &w->m);
    bench_pool_free(&s->pool, keep);
}

// All forms of one size of kernel. number: of the first step.
template <typename W>
static void scenes_run_maps(bench_session *s, scenes_work<W> *w, scenes_lines *lines, bench_row row,
                            int K, int number) {
    const int keep = s->pool.blocks;
    search_case<W> *c = &w->search.c;
    c->kernel = spira::kernel_cube(K, 1);
    const search_truth truth = search_truth_make(&s->pool, c);
    c->map = bench_device<int32_t>(&s->pool, truth.total);
    w->m = {};
    w->m.layout = c->layout;
    w->m.kernel = c->kernel;
    w->m.source = w->m.outputs = c->set;
    w->m.trouble = w->trouble;
    w->forms = {};
    w->forms.map = c->map;
    w->forms.K = row.K = K;
    w->forms.outputs = c->set.host.capacity;
    row.pairs = truth.pairs;
    row.method = "map";
    row.layout = "os";
    row.bytes = truth.total * 4;
    search_verify(s, &w->search, &truth, row.input, "map", step_zdelta<W>);
    scenes_time(s, lines, &row, number, step_zdelta<W>, &w->search);
    scenes_run_half(s, w, lines, row, number + 1);
    scenes_run_lists(s, w, lines, row, number + 2);
    scenes_run_order(s, w, &truth, lines, row, number + 3);
    bench_pool_free(&s->pool, keep);
}

// ---- scenes -------------------------------------------------------------------------------------

template <typename W>
static void scenes_run_sets(bench_session *s, scenes_work<W> *w, scenes_lines *lines,
                            bench_row row) {
    const int keep = s->pool.blocks;
    row.method = "voxelize"; // the scene is what it made: checked
    scenes_time(s, lines, &row, scenes_step_voxelize, bench_voxelize_step<W>, &w->scene);
    bench_halve<W> half = bench_halve_make(&s->pool, &w->scene);
    row.method = "downsample";
    row.outputs = half.outputs;
    scenes_time(s, lines, &row, scenes_step_downsample, bench_halve_step<W>, &half);
    bench_pool_free(&s->pool, keep);
}

template <typename W>
static void scenes_run_words(bench_session *s, const bench_input *input, scenes_lines *lines) {
    lines->wide = sizeof(W) == 8;
    bench_words<W>(s, input, [&](const bench_scene<W> *scene) {
        scenes_work<W> w = {};
        w.scene = *scene;
        w.trouble = scene->trouble;
        w.search.c.layout = scene->layout;
        w.search.c.set = scene->fine;
        bench_row row = bench_row_make("scenes", scene);
        row.word = 8 * (int)sizeof(W);
        scenes_run_sets(s, &w, lines, row);
        for (int K = 3; K <= 5; K += 2) {
            // The map, its compact form and its layout, and in a dense cube as many pairs again.
            const double bytes = 20.0 * K * K * K * scene->fine.host.capacity;
            if (bench_memory(bytes)) {
                scenes_run_maps(s, &w, lines, row, K, scenes_step_maps + (K == 3 ? 0 : 5));
            } else {
                fprintf(stderr, "%s: left out: maps of %.1f GiB\n", input->name, ldexp(bytes, -30));
            }
        }
    });
}

// The scattered scene depends on the words; the others are the same for both.
static void scenes_run(bench_session *s, scenes_kind kind, int bits, int voxels,
                       scenes_reference *reference) {
    bench_input input = {};
    bench_input_scene(kind, bits, voxels, &input);
    snprintf(input.name, sizeof input.name, "%s", scenes_names[kind]);
    scenes_lines lines = {reference, kind, 0};
    if (bits == 32) {
        scenes_run_words<uint32_t>(s, &input, &lines);
    } else {
        scenes_run_words<uint64_t>(s, &input, &lines);
    }
    bench_input_free(s, &input);
}

int main(int argc, char **argv) {
    bench_session *s = bench_session_open(argc, argv);
    for (int voxels : scenes_voxels) {
        scenes_reference reference = {};
        if (s->options.quick && voxels > scenes_exact_most) {
            break;
        }
        for (int kind = 0; kind < scenes_kinds; ++kind) { // the first two are the others' measure
            scenes_run(s, (scenes_kind)kind, 32, voxels, &reference);
            scenes_run(s, (scenes_kind)kind, 64, voxels, &reference);
        }
    }
    return bench_session_close(s);
}
