// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/bench.cuh: what the benchmarks share: here times and rows of results.
//
// A benchmark is a program that takes scans on its command line, adds a random scene, and for each
// one builds a step, checks its result against the host loop, times it and prints one JSON object a
// line. Whatever goes wrong, a result that is not right above all, ends it with a message and a
// status that is not zero.
//
// How a step is timed. A CUDA graph is captured that holds 20 runs of the step, one after another.
// After a warm-up it is replayed in 20 pairs, with an event before and after the second replay of
// each pair, so that no launch from the host is timed. The figure is the median of these over 20:
// the time that one step adds to a chain of dependent work inside a graph. The host's launch gaps
// are out, the start of each kernel behind the one before it is in. Nothing is rotated: every run
// reads what the last one read, so that inputs which fit the L2 cache are in it, as they are in a
// network, where the step before has just written them. Whole networks are timed as their caller
// sees them instead: bench_wall_graph.
#ifndef SPIRA_BENCH_BENCH_CUH
#define SPIRA_BENCH_BENCH_CUH

#include "bench_scene.cuh"

// ---- timing -------------------------------------------------------------------------------------

typedef spira::status (*bench_step)(void *context, cudaStream_t stream);

enum {
    bench_steps = 20,
    bench_replays = 20,
    bench_warm_us = 20000,
    bench_most_us = 400000,
    bench_quick_part = 10, // of these times with --quick
};

// The warm-up, or the time of a figure, in microseconds.
SPIRA_API double bench_budget(double us) {
    return bench_quick ? us / bench_quick_part : us;
}

struct bench_time {
    double us; // of one step
    int runs;  // steps that were timed
};

// A graph of so many runs of a step, one after another.
SPIRA_API cudaGraphExec_t bench_capture(cudaStream_t stream, bench_step step, void *context,
                                        int steps) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    BENCH_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < steps; ++i) {
        BENCH_TRY(step(context, stream));
    }
    BENCH_CUDA(cudaStreamEndCapture(stream, &graph));
    BENCH_CUDA(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    BENCH_CUDA(cudaGraphDestroy(graph));
    return exec;
}

SPIRA_API double bench_median(double *values, int count) {
    std::sort(values, values + count);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

enum { bench_wall_runs = 200, bench_least = 5 };

// Times a step between two events: the median of up to `runs` (at most bench_wall_runs), of fewer
// where they would take more than about most_us. behind: each run starts right behind another one,
// so that the host's part is hidden; else in a stream with nothing else.
SPIRA_API bench_time bench_repeat(cudaStream_t stream, bench_step step, void *context, int runs,
                                  double most_us, bool behind) {
    double us[bench_wall_runs], last = 0, warm = 0;
    cudaEvent_t at[2];
    BENCH_CUDA(cudaEventCreate(&at[0]));
    BENCH_CUDA(cudaEventCreate(&at[1]));
    const auto once = [&] {
        float ms;
        if (behind) {
            BENCH_TRY(step(context, stream));
        }
        BENCH_CUDA(cudaEventRecord(at[0], stream));
        BENCH_TRY(step(context, stream));
        BENCH_CUDA(cudaEventRecord(at[1], stream));
        BENCH_CUDA(cudaEventSynchronize(at[1]));
        BENCH_CUDA(cudaEventElapsedTime(&ms, at[0], at[1]));
        return 1000.0 * (double)ms;
    };
    for (int i = 0; i < 3 || warm < bench_budget(bench_warm_us); ++i) {
        last = once();
        warm += last;
    }
    runs = (int)fmin(runs, fmax(bench_least, most_us / last));
    for (int i = 0; i < runs; ++i) {
        us[i] = once();
    }
    BENCH_CUDA(cudaEventDestroy(at[0]));
    BENCH_CUDA(cudaEventDestroy(at[1]));
    BENCH_CUDA(cudaGetLastError());
    return {bench_median(us, runs), runs};
}

// A step that replays a graph: the context is a cudaGraphExec_t.
SPIRA_API spira::status bench_graph_step(void *context, cudaStream_t stream) {
    return spira::status_from_cuda(cudaGraphLaunch((cudaGraphExec_t)context, stream), "graph");
}

// Times a step as the top of this file says, but with fewer replays where they would take more
// than about most_us.
SPIRA_API bench_time bench_measure_within(cudaStream_t stream, bench_step step, void *context,
                                          double most_us) {
    cudaGraphExec_t exec = bench_capture(stream, step, context, bench_steps);
    const bench_time t =
        bench_repeat(stream, bench_graph_step, exec, bench_replays, bench_budget(most_us), true);
    BENCH_CUDA(cudaGraphExecDestroy(exec));
    return {t.us / bench_steps, t.runs * bench_steps};
}

// A step of over a millisecond gets fewer replays.
SPIRA_API bench_time bench_measure(cudaStream_t stream, bench_step step, void *context) {
    return bench_measure_within(stream, step, context, bench_most_us);
}

// Times a step as its caller sees it, in a graph of one run.
SPIRA_API bench_time bench_wall_graph(cudaStream_t stream, bench_step step, void *context, int runs,
                                      double most_us) {
    cudaGraphExec_t exec = bench_capture(stream, step, context, 1);
    const bench_time t = bench_repeat(stream, bench_graph_step, exec, runs, most_us, false);
    BENCH_CUDA(cudaGraphExecDestroy(exec));
    return t;
}

// Which row number `sample` of `samples` is: random ones, the first and the last among them; all
// rows where there are few.
SPIRA_API int bench_sample(int32_t rows, int samples, int sample) {
    return rows <= samples ? sample
           : sample == 0   ? 0
           : sample == 1   ? rows - 1
                           : (int)(scan::scene_mix((uint64_t)sample) % (uint64_t)rows);
}

// Uniform in [-1, 1): a number of each (stream, index), so that threads can share the work.
SPIRA_API float bench_random(uint64_t stream, int64_t index) {
    uint64_t bits = scan::scene_mix(stream << 48 ^ (uint64_t)index);
    return (float)(int32_t)(bits >> 40) * (1.0f / 8388608) - 1;
}

SPIRA_API char *bench_features(bench_pool *pool, spira::numeric type, uint64_t stream,
                               int64_t elements) {
    char *features = bench_host<char>(pool, elements * spira::numeric_size(type));
#pragma omp parallel for
    for (int64_t i = 0; i < elements; ++i) {
        spira::numeric_store(type, features, i, bench_random(stream, i));
    }
    return features;
}

// ---- results ------------------------------------------------------------------------------------

// One line. Zero and null: the key does not apply.
struct bench_row {
    const char *bench, *input;
    int voxels;  // of the input, at stride 1
    int outputs; // where they are others than the voxels
    int K, cin, cout;
    const char *dtype;
    int word;
    const char *layout, *dataflow, *net, *method, *pass;
    int batch;      // scans
    int t;          // of hybrid layouts
    int B, C;       // of the method "minuet"
    double density; // voxels per cell, percent
    double ratio;   // of the time to that of a scene to compare with
    bench_time time;
    int64_t pairs, bytes, flops;
    // Of a network's `bytes`: sets and maps, features, what lives for a step, loaded parameters.
    int64_t index_bytes, feature_bytes, scratch_bytes, parameter_bytes;
};

SPIRA_API void bench_print_text(const char *key, const char *value) {
    if (value) {
        printf(", \"%s\": \"", key);
        for (; *value; ++value) {
            bool plain = (unsigned char)*value >= ' ' && *value != '"' && *value != '\\';
            putchar(plain ? *value : '_');
        }
        putchar('"');
    }
}

SPIRA_API void bench_print_count(const char *key, int64_t value) {
    if (value) {
        printf(", \"%s\": %lld", key, (long long)value);
    }
}

SPIRA_API void bench_print_figure(const char *key, double value) {
    if (value > 0) {
        printf(", \"%s\": %.3f", key, value);
    }
}

// What there is to compare with: only on the GPU, and for the format and the words, that it was
// measured for. Maps and layouts are bound by writing their bytes.
SPIRA_API void bench_print_targets(const bench_session *s, const bench_row *r) {
    if (!strstr(s->gpu, BENCH_TARGET_GPU)) {
        return;
    }
    bool network = strcmp(r->bench, "net") == 0 && bench_same_text(r->method, "graph");
    const char *form = network ? r->net : r->layout ? r->layout : r->method;
    bool narrow = r->word != 64 || bench_same_text(r->input, BENCH_NUSCENES); // as can be
    bool comparable = narrow && (!r->dtype || strcmp(r->dtype, "fp16") == 0);
    const bench_target *t =
        comparable ? bench_target_find(r->bench, r->input, form, r->cin, r->cout, r->K) : nullptr;
    int64_t memory = network && comparable ? bench_memory_target(r->input, r->net) : 0;
    bool writes = strcmp(r->bench, "map") == 0 || strcmp(r->bench, "index") == 0;
    bench_print_figure("target_us", t ? t->us : 0);
    bench_print_count("target_bytes", memory);
    bench_print_figure("limit_us", writes ? bench_write_us((double)r->bytes) : t ? t->limit_us : 0);
}

// Prints a row as a JSON object on one line, but for its end: other keys may follow.
SPIRA_API void bench_print_begin(const bench_session *s, const bench_row *r) {
    printf("{\"bench\": \"%s\"", r->bench);
    bench_print_text("input", r->input);
    bench_print_count("voxels", r->voxels);
    bench_print_count("outputs", r->outputs);
    bench_print_count("K", r->K);
    bench_print_count("cin", r->cin);
    bench_print_count("cout", r->cout);
    bench_print_text("dtype", r->dtype);
    bench_print_count("word", r->word);
    bench_print_text("layout", r->layout);
    bench_print_text("dataflow", r->dataflow);
    if (bench_same_text(r->layout, "hybrid")) { // 0 is one of them
        printf(", \"t\": %d", r->t);
    }
    bench_print_text("net", r->net);
    bench_print_text("method", r->method);
    bench_print_text("pass", r->pass);
    bench_print_count("batch", r->batch);
    bench_print_count("B", r->B);
    bench_print_count("C", r->C);
    bench_print_figure("density", r->density);
    bench_print_figure("us", r->time.us);
    bench_print_figure("ratio", r->ratio);
    bench_print_count("runs", r->time.runs);
    bench_print_count("pairs", r->pairs);
    bench_print_count("bytes", r->bytes);
    bench_print_count("index_bytes", r->index_bytes);
    bench_print_count("feature_bytes", r->feature_bytes);
    bench_print_count("scratch_bytes", r->scratch_bytes);
    bench_print_count("parameter_bytes", r->parameter_bytes);
    bench_print_count("flops", r->flops);
    bench_print_targets(s, r);
}

SPIRA_API void bench_print_end(const bench_session *s) {
    bench_print_text("gpu", s->gpu);
    printf(", \"arch\": \"%d%s\"", bench_gpu()->capability, bench_gpu()->hopper ? "a" : "");
    printf("}\n");
    fflush(stdout);
}

SPIRA_API void bench_print(const bench_session *s, const bench_row *r) {
    bench_print_begin(s, r);
    bench_print_end(s);
}

template <typename W>
SPIRA_API bench_row bench_row_make(const char *bench, const bench_scene<W> *scene) {
    bench_row row = {};
    row.bench = bench;
    row.input = scene->input;
    row.voxels = scene->fine.host.capacity;
    return row;
}

#endif
