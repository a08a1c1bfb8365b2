// bench/tune.cu: tunes the layers of targets.h: each choice that tune_candidates lists is judged,
// then timed; the best of a key becomes a record.
//
//     build/bench_tune [--only CIN,COUT,K] [--dtype fp16|bf16|tf32|fp32] [--sweep forms]
//                      [--in FILE] [--out FILE] [--table FILE] data/*.vox32
//
// Prints one line for each layer and scan: the best choice, and what the choice without a record
// takes; --sweep forms adds a line for each choice. --out writes the records as text, --table as
// C++, and --in compares them with those of an earlier run. A layer has two records: the second is
// for users who need the same bits from run to run. All choices get a short measurement; the best
// one and the one without a record are then measured as in the other benchmarks. Of two scans with
// the same key, the record of the first is kept. A choice with a wrong result cannot win; it is
// named, and the program fails at its end.
#include "bench.cuh"

enum {
    tuner_records_most = 4096,
    tuner_samples = 2000,   // rows of an output that are compared with sums in double
    tuner_short_us = 10000, // of the first measurement of a choice
};

struct tuner_table {
    int count;
    spira::tune_record record[tuner_records_most];
};

// What the run has found.
static tuner_table tuner_found;
static int tuner_refused;

// A submanifold kernel map with everything that a choice may read.
struct tuner_map {
    int volume;
    spira::kernel_shape kernel;
    int32_t voxels;
    const int32_t *count; // [1], device
    int32_t *map;         // [voxels, volume], device
    int64_t pairs;
    spira::conv_map form; // its ordered layout
    spira::map_lists lists;
};

struct tuner_work {
    const char *input;
    spira::tune_args args;
    const float *weight; // [volume, cin, cout], device
    const int32_t *map;
    float *worst; // [1], device
    spira::kernel_shape kernel;
    spira::tune_key key;
    spira::conv_hybrid_args hybrid[spira::tune_threshold_most]; // by threshold, from 1 on
    bench_dense dense[spira::tune_threshold_most];
    spira::tune_choice choice; // the one at hand
    void *scratch;
    size_t scratch_bytes;
};

// ---- a sample -----------------------------------------------------------------------------------

static void tuner_map_layout(bench_session *s, const spira::kernel_shape *kernel, tuner_map *m) {
    spira::order_request request = {};
    request.kernel = *kernel;
    request.map = m->map;
    request.count = m->count;
    request.capacity = m->voxels;
    request.layout = bench_order(&s->pool, m->voxels, m->volume, true);
    m->form = spira::conv_map_of_order(&request.layout, m->count, m->voxels);
    size_t bytes = 0;
    int keep = s->pool.blocks;
    void *scratch = bench_order_scratch(&s->pool, &request, 1, &bytes);
    BENCH_TRY(spira::order_build(bench_gpu(), &request, 1, scratch, bytes, s->stream));
    BENCH_CUDA(cudaStreamSynchronize(s->stream));
    bench_pool_free(&s->pool, keep);
}

// The map is compared with the host's; what is made of it is judged with the results.
static tuner_map tuner_map_make(bench_session *s, const bench_scene<uint64_t> *scene, int K) {
    const spira::kernel_shape kernel = spira::kernel_cube(K, 1);
    tuner_map m = {};
    m.kernel = kernel;
    m.volume = spira::kernel_volume(&kernel);
    m.voxels = scene->fine.host.capacity;
    m.count = scene->fine.device.count;
    const int64_t entries = (int64_t)m.voxels * m.volume;
    m.map = bench_device<int32_t>(&s->pool, entries);
    BENCH_TRY(spira::map_build(&scene->layout, &kernel, scene->fine.device, scene->fine.device,
                               m.map, s->stream));
    int keep = s->pool.blocks;
    const int32_t *host =
        bench_map_host(&s->pool, &scene->layout, &kernel, &scene->fine, &scene->fine, &m.pairs);
    bench_check_pairs(scene->input, K, m.pairs);
    bench_check_same(&s->pool, host, (const int32_t *)m.map, entries, scene->input, "kernel map");
    bench_pool_free(&s->pool, keep);
    tuner_map_layout(s, &kernel, &m);
    m.lists = bench_lists(&s->pool, scene, &kernel, m.pairs);
    return m;
}

// Uniform in [-1, 1): a number of each (stream, index).
static float tuner_random(uint64_t stream, int64_t index) {
    uint64_t bits = scan::scene_mix(stream << 48 ^ (uint64_t)index);
    return (float)(int32_t)(bits >> 40) * (1.0f / 8388608) - 1;
}

// Features in the format, in device memory.
static const void *tuner_features(bench_session *s, spira::numeric type, int64_t elements) {
    int64_t bytes = elements * spira::numeric_size(type);
    char *device = bench_device<char>(&s->pool, bytes);
    int keep = s->pool.blocks;
    char *host = bench_host<char>(&s->pool, bytes);
#pragma omp parallel for
    for (int64_t i = 0; i < elements; ++i) {
        spira::numeric_store(type, host, i, tuner_random(1, i));
    }
    BENCH_CUDA(cudaMemcpyAsync(device, host, (size_t)bytes, cudaMemcpyHostToDevice, s->stream));
    bench_pool_free(&s->pool, keep);
    return device;
}

// Random weights, packed for both dataflows.
static void tuner_weights(bench_session *s, tuner_work *w) {
    const spira::conv_shape *shape = &w->args.shape;
    const int64_t elements = (int64_t)shape->volume * shape->cin * shape->cout;
    float *host = bench_host<float>(&s->pool, elements);
    for (int64_t i = 0; i < elements; ++i) {
        host[i] = tuner_random(2, i);
    }
    w->weight = bench_upload(&s->pool, host, elements);
    size_t bytes = 0, pairs_bytes = 0;
    BENCH_TRY(spira::conv_weights_bytes(bench_gpu(), shape, &bytes));
    BENCH_TRY(spira::conv_pairs_weights_bytes(bench_gpu(), shape, &pairs_bytes));
    char *packed = bench_device<char>(&s->pool, (int64_t)bytes);
    char *pairs = bench_device<char>(&s->pool, (int64_t)pairs_bytes);
    const spira::conv_weights own = {w->weight, packed, bytes, nullptr};
    const spira::conv_weights of_pairs = {w->weight, pairs, pairs_bytes, nullptr};
    BENCH_TRY(spira::conv_weights_pack(bench_gpu(), shape, &own, s->stream));
    BENCH_TRY(spira::conv_pairs_weights_pack(bench_gpu(), shape, &of_pairs, s->stream));
    w->args.weights = packed;
    w->args.pairs_weights = pairs;
}

// The inputs of conv_hybrid for each threshold that divides the offsets.
static void tuner_hybrids(bench_session *s, const bench_scene<uint64_t> *scene, const tuner_map *m,
                          tuner_work *w) {
    w->args.hybrid = w->hybrid;
    w->args.hybrids = spira::kernel_norm_max(&m->kernel);
    for (int i = 0; i < w->args.hybrids; ++i) {
        spira::conv_hybrid_args *a = &w->hybrid[i];
        a->shape = w->args.shape;
        a->kernel = m->kernel;
        a->threshold = i + 1;
        bench_hybrid_make(&s->pool, scene, m->pairs, w->weight, a, &w->dense[i]);
    }
}

// Not copied: the arguments point into it.
static void tuner_work_make(bench_session *s, const bench_scene<uint64_t> *scene,
                            const tuner_map *m, int cin, int cout, spira::numeric type,
                            tuner_work *w) {
    *w = {};
    w->input = scene->input;
    w->kernel = m->kernel;
    w->args.shape = spira::conv_shape_of(&m->kernel, cin, cout, type);
    w->args.in = tuner_features(s, type, (int64_t)m->voxels * cin);
    tuner_weights(s, w);
    w->args.map = &m->form;
    w->args.pairs = m->lists;
    w->args.sides = spira::pairs_sides_one;
    w->args.count = m->count;
    w->args.capacity = m->voxels;
    w->args.out =
        bench_device<char>(&s->pool, (int64_t)m->voxels * cout * spira::numeric_size(type));
    w->map = m->map;
    w->worst = bench_device<float>(&s->pool, 1);
    w->key = spira::tune_key_make(spira::tune_gpu_of(bench_gpu()), &w->args.shape, m->voxels,
                                  m->pairs, false);
    tuner_hybrids(s, scene, m, w);
}

// Scratch for any of the choices.
static void tuner_scratch(bench_session *s, tuner_work *w, const spira::tune_choice *choices,
                          int count) {
    for (int i = 0; i < count; ++i) {
        size_t bytes = 0;
        BENCH_TRY(spira::tune_workspace(&w->args, &choices[i], &bytes));
        w->scratch_bytes = bytes > w->scratch_bytes ? bytes : w->scratch_bytes;
    }
    w->scratch = bench_device<char>(&s->pool, (int64_t)w->scratch_bytes);
}

// ---- results ------------------------------------------------------------------------------------

struct tuner_text {
    char text[80];
};

// "os 2.1.4": dataflow, sizes. "hybrid t=3": the threshold.
static tuner_text tuner_choice_text(const spira::tune_choice *c) {
    tuner_text t;
    const char *name = spira::tune_value_name(spira::tune_field_dataflow, c->dataflow);
    if (c->dataflow == spira::tune_dataflow_os) {
        snprintf(t.text, sizeof t.text, "%s %d.%d.%d", name, c->tiles, c->slices, c->split);
    } else if (c->threshold) {
        snprintf(t.text, sizeof t.text, "%s t=%d", name, c->threshold);
    } else {
        snprintf(t.text, sizeof t.text, "%s", name);
    }
    return t;
}

static void tuner_print_key(const char *bench, const spira::tune_key *k) {
    printf("{\"bench\": \"%s\"", bench);
    bench_print_count("volume", k->shape.volume);
    bench_print_count("cin", k->shape.cin);
    bench_print_count("cout", k->shape.cout);
    bench_print_text("dtype", spira::numeric_name(k->shape.type));
    bench_print_count("outputs", k->outputs);
    bench_print_count("density", k->density);
    bench_print_count("deterministic", k->deterministic);
}

// Begins a line about the work at hand.
static void tuner_print_begin(const char *bench, const tuner_work *w, const spira::tune_choice *c,
                              double us, double error) {
    tuner_print_key(bench, &w->key);
    bench_print_text("input", w->input);
    bench_print_count("voxels", w->args.capacity);
    bench_print_count("K", w->kernel.size.x);
    bench_print_text("choice", tuner_choice_text(c).text);
    bench_print_figure("us", us);
    bench_print_figure("error", error);
}

static void tuner_print_end(const bench_session *s) {
    bench_print_text("gpu", s->gpu);
    printf("}\n");
    fflush(stdout);
}

// A layer: the best choice, and the one without a record.
static void tuner_print_layer(const bench_session *s, const tuner_work *w,
                              const spira::tune_record *best, const spira::tune_choice *guess,
                              double guess_us, int choices) {
    double us = (double)best->measure.ns / 1000, over = guess_us / us;
    tuner_print_begin("tune", w, &best->choice, us, best->measure.error / 1000.0);
    bench_print_text("untuned", tuner_choice_text(guess).text);
    bench_print_figure("untuned_us", guess_us);
    bench_print_figure("over", over);
    bench_print_count("choices", choices);
    tuner_print_end(s);
}

// ---- measuring ----------------------------------------------------------------------------------

static spira::status tuner_step(void *context, cudaStream_t stream) {
    const tuner_work *w = (const tuner_work *)context;
    return spira::tune_run(bench_gpu(), &w->args, &w->choice, w->scratch, w->scratch_bytes, stream);
}

// The largest error of the choice at hand, as a multiple of its bound.
static double tuner_judge(bench_session *s, const tuner_work *w) {
    const spira::conv_shape *shape = &w->args.shape;
    float worst = 0;
    size_t bytes =
        (size_t)w->args.capacity * (size_t)(shape->cout * spira::numeric_size(shape->type));
    BENCH_CUDA(cudaMemsetAsync(w->args.out, 0xff, bytes, s->stream));
    BENCH_TRY(tuner_step((void *)w, s->stream));
    BENCH_TRY(spira::tune_judge(bench_gpu(), &w->args, w->weight, w->map, tuner_samples, w->worst,
                                s->stream));
    BENCH_CUDA(cudaMemcpyAsync(&worst, w->worst, sizeof worst, cudaMemcpyDeviceToHost, s->stream));
    BENCH_CUDA(cudaStreamSynchronize(s->stream));
    return (double)worst;
}

// Judges and times a choice. Returns its time, or 0: its result is wrong.
static double tuner_try(bench_session *s, tuner_work *w, const spira::tune_choice *choice,
                        double most_us, spira::tune_record *best) {
    w->choice = *choice;
    double error = tuner_judge(s, w);
    if (!(error <= 1)) {
        const spira::conv_shape *shape = &w->args.shape;
        fprintf(stderr, "%s: %d,%d,%d %s: %s is refused: off by %.3g times its bound\n", w->input,
                shape->cin, shape->cout, w->kernel.size.x, spira::numeric_name(shape->type),
                tuner_choice_text(choice).text, error);
        ++tuner_refused;
        return 0;
    }
    double us = bench_measure_within(s->stream, tuner_step, w, most_us).us;
    spira::tune_take(best, choice, us, error);
    if (s->options.sweep && most_us < bench_most_us) {
        tuner_print_begin("tune-choice", w, choice, us, error);
        tuner_print_end(s);
    }
    return us;
}

static void tuner_keep(const spira::tune_record *record) {
    tuner_table *t = &tuner_found;
    if (!spira::tune_find_same(t->record, t->count, &record->key)) {
        if (t->count == tuner_records_most) {
            bench_fail("more than %d records", (int)tuner_records_most);
        }
        t->record[t->count++] = *record;
    }
}

// Prints and returns the record of a layer.
static spira::tune_record tuner_layer(bench_session *s, tuner_work *w) {
    static spira::tune_choice choices[spira::tune_candidates_most];
    int count = spira::tune_candidates(bench_gpu(), &w->key, &w->kernel, w->args.capacity, choices);
    tuner_scratch(s, w, choices, count);
    spira::tune_record quickest = spira::tune_record_begin(&w->key), best = quickest;
    for (int i = 0; i < count; ++i) {
        tuner_try(s, w, &choices[i], tuner_short_us, &quickest);
    }
    double guess_us = tuner_try(s, w, &choices[0], bench_most_us, &best);
    if (!spira::tune_same_choice(&quickest.choice, &choices[0])) {
        tuner_try(s, w, &quickest.choice, bench_most_us, &best);
    }
    if (guess_us <= 0) {
        bench_fail("%s: the choice without a record is wrong", w->input);
    }
    tuner_print_layer(s, w, &best, &choices[0], guess_us, count);
    return best;
}

static void tuner_run(bench_session *s, const bench_scene<uint64_t> *scene, const tuner_map *m,
                      int cin, int cout) {
    static tuner_work w;
    int keep = s->pool.blocks;
    spira::numeric type =
        s->options.dtype >= 0 ? (spira::numeric)s->options.dtype : spira::numeric_f16;
    tuner_work_make(s, scene, m, cin, cout, type, &w);
    spira::tune_record best = tuner_layer(s, &w);
    const bool same = spira::tune_is_deterministic(best.choice.dataflow);
    tuner_keep(&best);
    // The record of a deterministic result: often the same.
    w.key.deterministic = best.key.deterministic = true;
    best = same ? best : tuner_layer(s, &w);
    tuner_keep(&best);
    bench_pool_free(&s->pool, keep);
}

// The convolutions of targets.h, those of one K one after another; or the one that is asked for.
static void tuner_run_input(bench_session *s, const bench_input *input) {
    bench_scene<uint64_t> scene = bench_scene_wide(&s->pool, input);
    int keep = s->pool.blocks;
    const int *only = s->options.only;
    bench_target one = {};
    one.bench = "conv";
    one.input = BENCH_KITTI;
    one.cin = only[0];
    one.cout = only[1];
    one.K = only[2];
    const bench_target *layers = only[0] ? &one : bench_targets;
    int count = only[0] ? 1 : (int)(sizeof bench_targets / sizeof *bench_targets);
    tuner_map m = {};
    for (int i = 0; i < count; ++i) {
        const bench_target *t = &layers[i];
        if (strcmp(t->bench, "conv") != 0 || strcmp(t->input, BENCH_KITTI) != 0) {
            continue;
        }
        if (m.kernel.size.x != t->K) {
            bench_pool_free(&s->pool, keep);
            m = tuner_map_make(s, &scene, t->K);
        }
        tuner_run(s, &scene, &m, t->cin, t->cout);
    }
}

// ---- files --------------------------------------------------------------------------------------

static void tuner_read(const char *path, tuner_table *table) {
    static char text[(size_t)tuner_records_most * spira::tune_line_most];
    char why[256];
    FILE *file = fopen(path, "rb");
    if (!file) {
        bench_fail("%s: cannot be opened", path);
    }
    size_t bytes = fread(text, 1, sizeof text, file);
    bool whole = bytes < sizeof text && !ferror(file);
    fclose(file);
    if (!whole) {
        bench_fail("%s: too large, or cannot be read", path);
    }
    spira::status s =
        spira::tune_read_text(text, bytes, table->record, tuner_records_most, &table->count);
    if (spira::status_failed(s)) {
        bench_fail("%s: record %d: %s", path, table->count, spira::status_text(s, why, sizeof why));
    }
}

typedef spira::status (*tuner_writer)(const spira::tune_record *, char *, size_t);

// head: the first line, or null.
static void tuner_write(const char *path, const char *head, tuner_writer write) {
    char line[spira::tune_line_most];
    FILE *file = fopen(path, "wb");
    if (!file) {
        bench_fail("%s: cannot be written", path);
    }
    fputs(head ? head : "", file);
    for (int i = 0; i < tuner_found.count; ++i) {
        BENCH_TRY(write(&tuner_found.record[i], line, sizeof line));
        fputs(line, file);
    }
    bool good = !ferror(file);
    if (fclose(file) || !good) {
        bench_fail("%s: cannot be written", path);
    }
}

// What changed since an earlier run.
static void tuner_compare(const tuner_table *before) {
    static spira::tune_difference differences[tuner_records_most];
    const int count = spira::tune_compare(before->record, before->count, tuner_found.record,
                                          tuner_found.count, differences);
    for (int i = 0; i < count; ++i) {
        const spira::tune_difference *d = &differences[i];
        tuner_print_key("tune-compare", &d->before->key);
        bench_print_text("choice", tuner_choice_text(&d->after->choice).text);
        bench_print_text("before", tuner_choice_text(&d->before->choice).text);
        bench_print_figure("us", (double)d->after->measure.ns / 1000);
        bench_print_figure("before_us", (double)d->before->measure.ns / 1000);
        bench_print_figure("ratio", d->ratio);
        bench_print_text("changed", d->changed ? "yes" : "no");
        printf("}\n");
    }
}

int main(int argc, char **argv) {
    static tuner_table before;
    char head[spira::tune_line_most];
    const bench_options options = bench_options_read(argc, argv);
    if (options.in) {
        tuner_read(options.in, &before);
    }
    int result = bench_main(argc, argv, tuner_run_input);
    BENCH_TRY(spira::tune_write_head(head, sizeof head));
    if (options.out) {
        tuner_write(options.out, head, spira::tune_write_line);
    }
    if (options.table) {
        tuner_write(options.table, nullptr, spira::tune_write_initialiser);
    }
    if (options.in) {
        tuner_compare(&before);
    }
    return result ? result : tuner_refused != 0;
}
