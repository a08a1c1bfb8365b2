// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/tune.cu: tunes the layers of bench_conv: each choice that tune_candidates lists is checked,
// then timed; the fastest becomes a record.
//
//     build/bench_tune [--only CIN,COUT,K] [--dtype fp16|bf16|tf32|fp32] [--out FILE] data/*.vox32
//
// Prints a line for each choice, and one for each layer and scan: the best choice, and what the
// choice without a record takes. A layer has two records: the second is for users who need the same
// bits from run to run. All choices get a short measurement; the best one and the one without a
// record are then measured as in the other benchmarks. Of two scans with the same key, the record
// of the first is kept.
#include "conv_work.cuh"

enum { tuner_records_most = 4096, tuner_short_us = 10000 };

// What the run has found.
static spira::tune_record tuner_found[tuner_records_most];
static int tuner_count;

struct tuner_layer {
    const bench_scene<uint64_t> *scene;
    const conv_case *m;
    conv_work work;
    spira::tune_key key;
    bench_row row;
};

struct tuner_text {
    char text[120];
};

// "os 2.1.4": dataflow, sizes. "hybrid t=3": the threshold.
static tuner_text tuner_choice_text(const spira::tune_choice *c) {
    static const char *const names[] = {"os", "ws", "ws-det", "hybrid", "hybrid-det"};
    tuner_text t;
    if (c->dataflow == spira::tune_dataflow_os) {
        snprintf(t.text, sizeof t.text, "os %d.%d.%d", c->tiles, c->slices, c->split);
    } else if (c->threshold) {
        snprintf(t.text, sizeof t.text, "%s t=%d", names[c->dataflow], c->threshold);
    } else {
        snprintf(t.text, sizeof t.text, "%s", names[c->dataflow]);
    }
    return t;
}

// Begins a line.
static void tuner_print(const bench_session *s, const char *bench, tuner_layer *l,
                        const spira::tune_choice *choice, double us) {
    l->row.bench = bench;
    l->row.time.us = us;
    bench_print_begin(s, &l->row);
    bench_print_count("deterministic", l->key.deterministic);
    bench_print_text("choice", tuner_choice_text(choice).text);
}

// Checks a choice and returns its time.
static double tuner_time(bench_session *s, tuner_layer *l, const spira::tune_choice *choice,
                         double most_us) {
    const int keep = s->pool.blocks;
    const spira::conv_sizes sizes = spira::tune_sizes(choice);
    const spira::pairs_form form = spira::tune_is_deterministic(choice->dataflow)
                                       ? spira::pairs_form_ordered
                                       : spira::pairs_form_atomic;
    char label[400];
    spira::conv_map dense = {};
    conv_work *w = &l->work;
    w->args.sizes = &sizes;
    if (choice->dataflow == spira::tune_dataflow_os) {
        w->dataflow = bench_dataflow_os;
    } else if (choice->threshold) {
        w->dataflow = bench_dataflow_hybrid;
        conv_work_hybrid(s, l->scene, l->m, choice->threshold, w, &dense);
        w->hybrid.form = form;
    } else {
        w->dataflow = bench_dataflow_ws;
        conv_work_lists(s, l->m, w);
        w->pairs.form = form;
    }
    snprintf(label, sizeof label, "%.120s: tune %d,%d,%d: %s", l->m->input, w->args.shape.cin,
             w->args.shape.cout, l->m->K, tuner_choice_text(choice).text);
    const double us = conv_measure(s, w, l->m, label, most_us).us;
    bench_pool_free(&s->pool, keep);
    return us;
}

static void tuner_keep(const spira::tune_record *record) {
    const spira::tune_key *key = &record->key;
    const spira::tune_record *known = spira::tune_find(tuner_found, tuner_count, key);
    if (known && memcmp(&known->key, key, sizeof *key) == 0) {
        return;
    }
    if (tuner_count == tuner_records_most) {
        bench_fail("more than %d records", (int)tuner_records_most);
    }
    tuner_found[tuner_count++] = *record;
}

// Finds and prints the record of a layer.
static spira::tune_record tuner_tune(bench_session *s, tuner_layer *l) {
    static spira::tune_choice choices[spira::tune_candidates_most];
    const spira::kernel_shape kernel = spira::kernel_cube(l->m->K, 1);
    const int count = spira::tune_candidates(bench_gpu(), &l->key, &kernel, l->m->voxels, choices);
    const spira::tune_choice *best = choices, *untuned = choices;
    double least = 0;
    for (int i = 0; i < count; ++i) {
        const double us = tuner_time(s, l, &choices[i], tuner_short_us);
        tuner_print(s, "tune-choice", l, &choices[i], us);
        bench_print_end(s);
        best = i == 0 || us < least ? &choices[i] : best;
        least = i == 0 ? us : fmin(us, least);
    }
    const double untuned_us = tuner_time(s, l, untuned, bench_most_us);
    double us = best == untuned ? untuned_us : tuner_time(s, l, best, bench_most_us);
    best = us < untuned_us ? best : untuned;
    us = fmin(us, untuned_us);
    tuner_print(s, "tune", l, best, us);
    bench_print_text("untuned", tuner_choice_text(untuned).text);
    bench_print_figure("untuned_us", untuned_us);
    bench_print_figure("over", untuned_us / us);
    bench_print_count("choices", count);
    bench_print_end(s);
    return {l->key, *best, (int)(us * 1000 + 0.5)};
}

static void tuner_run(bench_session *s, const bench_scene<uint64_t> *scene, const conv_case *m,
                      const conv_layer *layer) {
    const int dtype = s->options.dtype;
    const spira::numeric type = dtype >= 0 ? (spira::numeric)dtype : spira::numeric_f16;
    tuner_layer l = {scene, m, {}, {}, conv_row(s, scene, m, layer, type)};
    l.work = conv_work_make(s, m, layer, type);
    l.key = spira::tune_key_make(bench_gpu(), &l.work.args.shape, m->voxels, m->pairs, false);
    spira::tune_record best = tuner_tune(s, &l);
    tuner_keep(&best);
    l.key.deterministic = 1; // often the same
    if (!spira::tune_is_deterministic(best.choice.dataflow)) {
        best = tuner_tune(s, &l);
    }
    best.key = l.key;
    tuner_keep(&best);
}

static void tuner_run_input(bench_session *s, const bench_input *input) {
    s->options.dataflows = (1 << bench_dataflows) - 1; // the map in all forms
    conv_each_layer(s, input, tuner_run);
}

static void tuner_write(const char *path) {
    const size_t size = (size_t)(tuner_count + 1) * spira::tune_line_most;
    char *text = (char *)malloc(size);
    FILE *file = text ? fopen(path, "wb") : nullptr;
    if (!file) {
        bench_fail("%s: cannot be written", path);
    }
    BENCH_TRY(spira::tune_write_text(tuner_found, tuner_count, text, size));
    const bool good = fputs(text, file) >= 0;
    if (fclose(file) || !good) {
        bench_fail("%s: cannot be written", path);
    }
    free(text);
}

int main(int argc, char **argv) {
    const bench_options options = bench_options_read(argc, argv);
    const int result = bench_main(argc, argv, tuner_run_input);
    if (options.out) {
        tuner_write(options.out);
    }
    return result;
}
