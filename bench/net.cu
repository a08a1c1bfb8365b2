// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/net.cu: whole networks, from raw integer coordinates on the device to output features.
//
//     build/bench_net [--only tables|fig13|fig15|table4|batches|deployed] [--net NAME] [--quick]
//     data/*.vox32
//
// "net", method "graph": one CUDA graph with everything, in which the coarser sets are indexed
// while the first layers run: the time that a caller waits. `bytes` are the workspace and the
// loaded parameters; the keys after it divide them. Methods "voxelize" (to the features of the
// voxels), "index" (all sets and maps) and "features" (all layers) are its parts, each in a graph
// of its own, one after the other.
//
// "fig13": the ideas of the Spira paper, added one after the other, end to end; "fig15": sets and
// maps alone, in a graph: net_ways.cuh.
//
// "table4": SparseResNet21 with 3, 7 and 13 for the size of its kernels (that of its head, 1x1x3,
// stays), with 1 and 4 scans. "batches": 1 to 16 scans. These two take the first input alone;
// further scans of a batch are the same one, mirrored and moved.
//
// "deployed": the networks of examples/detectors.h, their lines as those of "net":
// net_deployed.cuh. The random scene is left out where there is a scan.
#include "net_deployed.cuh"
#include "net_ways.cuh"

static const char *const net_names[] = {"SparseResNet21", "SparseResNet-Large", "MinkUNet42"};

// ---- one network on one scene -------------------------------------------------------------------

// The replay of the whole, then its parts. Only "net" has all its replays, however long they take.
template <typename W>
static void net_time(bench_session *s, net_work<W> *w) {
    const spira::net_plan *plan = w->plan;
    bool tables = strcmp(w->job->bench, "net") == 0;
    bench_row row = net_row(w->job->bench, w);
    row.method = "graph";
    row.scratch_bytes = (int64_t)(plan->scratch_bytes + plan->fine_scratch_bytes);
    row.index_bytes = (int64_t)plan->index_bytes - row.scratch_bytes;
    row.feature_bytes = (int64_t)plan->feature_bytes;
    row.parameter_bytes = (int64_t)plan->loaded_bytes;
    row.bytes = (int64_t)plan->workspace_bytes + row.parameter_bytes;
    row.time = bench_wall_graph(s->stream, net_run_step<W>, w, net_runs(s),
                                tables ? INFINITY : (double)net_part_us);
    net_check_last(s, w); // after many replays
    bench_print(s, &row);

    static const char *const methods[] = {"voxelize", "index", "features"};
    static const bench_step steps[] = {net_voxelize_step<W>, net_index_step<W>,
                                       net_features_step<W>};
    for (int i = 0; i < 3; ++i) {
        bench_row part = net_row(w->job->bench, w);
        part.method = methods[i];
        part.time = bench_wall_graph(s->stream, steps[i], w, net_runs(s), net_part_us);
        bench_print(s, &part);
    }
    net_check_last(s, w);
}

// Checks a network, then times what the options select.
template <typename W>
static void net_run_work(bench_session *s, net_work<W> *w) {
    net_check_counts(w);
    net_check(s, w);
    net_place(s, w);
    net_check_step(s, w, net_run_step<W>, w, true, true);
    if (w->job->bench) {
        net_time(s, w);
    }
    if (w->job->ways) {
        net_ways_run(s, w);
    }
}

template <typename W>
static void net_run_job(bench_session *s, const bench_scene<W> *scene, net_values values,
                        const net_job *job) {
    net_work<W> w = {};
    net_side_open(&w.side);
    BENCH_CUDA(cudaStreamCreateWithFlags(&w.beside, cudaStreamNonBlocking));
    BENCH_CUDA(cudaEventCreateWithFlags(&w.voxelised, cudaEventDisableTiming));
    if (net_work_make(s, scene, values, job, &w)) {
        net_run_work(s, &w);
    }
    net_side_close(&w.side);
    BENCH_CUDA(cudaStreamDestroy(w.beside));
    BENCH_CUDA(cudaEventDestroy(w.voxelised));
}

// ---- scenes -------------------------------------------------------------------------------------

// The four inputs of a network for each row, with voxels of 5 cm.
static net_values net_values_make(bench_pool *pool, const bench_input *input) {
    const int columns = 4;
    int64_t rows = input->cloud.rows;
    float *values = bench_host<float>(pool, rows * columns);
    for (int64_t i = 0; i < rows; ++i) {
        scan::scan_row_values(&input->cloud, i, 0.05f, values + i * columns);
    }
    return {bench_upload(pool, values, rows * columns), values, columns};
}

template <typename W>
static void net_run_words(bench_session *s, const bench_input *input,
                          const spira::word_layout *layout, const net_job *jobs, int count) {
    int before = s->pool.blocks;
    bench_scene<W> scene = bench_scene_make<W>(&s->pool, input, layout);
    const net_values values = net_values_make(&s->pool, input);
    int keep = s->pool.blocks;
    for (int i = 0; i < count; ++i) {
        if (!s->options.net || strcmp(s->options.net, jobs[i].name) == 0) {
            net_run_job(s, &scene, values, &jobs[i]);
            bench_pool_free(&s->pool, keep);
        }
    }
    bench_pool_free(&s->pool, before);
}

static void net_run_jobs(bench_session *s, const bench_input *input,
                         const spira::word_layout *layout, const net_job *jobs, int count) {
    if (layout->bits == 32) {
        net_run_words<uint32_t>(s, input, layout, jobs, count);
    } else {
        net_run_words<uint64_t>(s, input, layout, jobs, count);
    }
}

// A network with a range.
template <typename W>
static void net_run_start(bench_session *s, const bench_input *input, const net_start *start,
                          const spira::word_layout *layout, const net_job *job) {
    const spira::voxel_input *in = &start->in;
    const bench_scene<W> scene =
        bench_scene_make<W, spira::voxel_limits_any>(&s->pool, input->name, in, layout);
    if (scene.fine.host.capacity < 1) {
        fprintf(stderr, "%s: %s: left out: nothing is in its range\n", input->name, job->name);
        return;
    }
    net_run_job(s, &scene, {scene.in.points + 3, start->values, start->columns}, job);
}

// The same scan as often as a batch has scans: one in two mirrored in x, two in four in y, and each
// four of them moved by one voxel.
static bench_input net_repeat(bench_pool *pool, const bench_input *input, int batches) {
    bench_input all = *input;
    int64_t rows = input->cloud.rows;
    int32_t lo[3], hi[3];
    BENCH_TRY(scan::scan_bounds_voxels(&input->cloud, lo, hi));
    if (rows * batches > INT32_MAX / 2) {
        bench_fail("%s: %d scans are too many rows", input->name, batches);
    }
    int32_t *voxels = bench_host<int32_t>(pool, rows * batches * 3);
    int32_t *batch = bench_host<int32_t>(pool, rows * batches);
    for (int64_t i = 0; i < rows * batches; ++i) {
        const int32_t *from = input->cloud.voxels + i % rows * 3;
        int32_t *to = voxels + i * 3;
        batch[i] = (int32_t)(i / rows);
        to[0] = (batch[i] & 1 ? lo[0] + hi[0] - from[0] : from[0]) + batch[i] / 4;
        to[1] = batch[i] & 2 ? lo[1] + hi[1] - from[1] : from[1];
        to[2] = from[2];
    }
    all.cloud.rows = rows * batches;
    all.cloud.voxels = voxels;
    all.batch = batch;
    all.batches = batches;
    return all;
}

// ---- parts --------------------------------------------------------------------------------------

// All networks with words of both widths; the figures with those that are as narrow as can be.
static void net_run_tables(bench_session *s, const bench_input *input) {
    enum { names = sizeof net_names / sizeof *net_names };
    bool tables = bench_wants(&s->options, bench_part_tables);
    bool ways =
        bench_wants(&s->options, bench_part_fig13) || bench_wants(&s->options, bench_part_fig15);
    for (int bits = 32; bits <= 64; bits += 32) {
        spira::word_layout layout;
        if (!bench_layout(input, bits, &layout)) {
            continue;
        }
        bool narrow = bits == bench_fit(input, bench_reach).bits;
        net_job jobs[names];
        for (int i = 0; i < names; ++i) {
            jobs[i] = net_job_make(tables ? "net" : nullptr, net_names[i], 0, 1);
            jobs[i].ways = ways && narrow;
        }
        if (tables || (ways && narrow)) {
            net_run_jobs(s, input, &layout, jobs, names);
        }
    }
}

// The largest reach of a network's kernels.
static int net_reach(bench_pool *pool, const net_job *job) {
    const networks::network *table = net_table(pool, job);
    spira::word_need need = {};
    BENCH_TRY(spira::net_need(table->layers, table->count, &need));
    int xy = (int)spira::max_of(need.reach.x, need.reach.y);
    return (int)spira::max_of(xy, need.reach.z);
}

// Networks on a scan as often as the jobs' batch has scans, with words as narrow as can be.
static void net_run_batch(bench_session *s, const bench_input *input, const net_job *jobs,
                          int count, int reach) {
    int keep = s->pool.blocks;
    bench_input all = net_repeat(&s->pool, input, jobs->batches);
    spira::word_layout layout = bench_fit(&all, reach);
    net_run_jobs(s, &all, &layout, jobs, count);
    bench_pool_free(&s->pool, keep);
}

static void net_run_table4(bench_session *s, const bench_input *input) {
    for (int K : {3, 7, 13}) {
        for (int batches = 1; batches <= 4 && (K <= 7 || !s->options.quick); batches += 3) {
            const net_job job =
                net_job_make(bench_part_names[bench_part_table4], "SparseResNet21", K, batches);
            net_run_batch(s, input, &job, 1, net_reach(&s->pool, &job));
        }
    }
}

static void net_run_batches(bench_session *s, const bench_input *input) {
    const char *bench = bench_part_names[bench_part_batches];
    for (int batches = 1; batches <= (s->options.quick ? 4 : 16); batches *= 2) {
        const net_job jobs[] = {net_job_make(bench, "SparseResNet21", 0, batches),
                                net_job_make(bench, "MinkUNet42", 0, batches)};
        net_run_batch(s, input, jobs, 2, bench_reach);
    }
}

// The networks of detectors.h, each with the words that it needs.
static void net_run_deployed(bench_session *s, const bench_input *input) {
    for (const char *name : net_deployed_names) {
        if (s->options.net && strcmp(s->options.net, name)) {
            continue;
        }
        int keep = s->pool.blocks;
        net_job job = net_deployed_job(name);
        const networks::network *n = net_table(&s->pool, &job);
        if (net_is_ranged(n) && !input->raw.points) {
            fprintf(stderr, "%s: %s: left out: a scan without points\n", input->name, name);
        } else if (net_is_ranged(n)) {
            int32_t rows;
            const spira::word_layout layout = net_fit(n);
            const net_start start = net_start_make(&s->pool, input, n, &rows);
            layout.bits == 32 ? net_run_start<uint32_t>(s, input, &start, &layout, &job)
                              : net_run_start<uint64_t>(s, input, &start, &layout, &job);
        } else {
            const spira::word_layout layout = bench_fit(input, bench_reach);
            net_run_jobs(s, input, &layout, &job, 1);
        }
        bench_pool_free(&s->pool, keep);
    }
}

// Whether some part knows a network of this name.
static bool net_is_known(const char *wanted) {
    return bench_bit(net_names, sizeof net_names / sizeof *net_names, wanted) ||
           bench_bit(net_deployed_names, sizeof net_deployed_names / sizeof *net_deployed_names,
                     wanted);
}

static void net_run_input(bench_session *s, const bench_input *input) {
    if (s->options.net && !net_is_known(s->options.net)) {
        bench_fail("no such network: %s", s->options.net);
    }
    const bool random = s->options.files && s->inputs == s->options.files;
    if (bench_wants(&s->options, bench_part_deployed) && !random) {
        net_run_deployed(s, input);
    }
    net_run_tables(s, input);
    if (s->inputs == 0 && bench_wants(&s->options, bench_part_table4)) {
        net_run_table4(s, input);
    }
    if (s->inputs == 0 && bench_wants(&s->options, bench_part_batches)) {
        net_run_batches(s, input);
    }
}

int main(int argc, char **argv) {
    return bench_main(argc, argv, net_run_input);
}
