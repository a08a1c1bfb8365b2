// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/conv.cu: feature computation of one submanifold layer (conv_work.cuh) by each dataflow.
//
//     build/bench_conv [--only CIN,COUT,K] [--dtype fp16|bf16|tf32|fp32|int8]
//                      [--dataflow os|ws|hybrid|all] [--threshold T|all] [--sweep widths]
//                      data/*.vox32
//
// `flops` are 2 * pairs * cin * cout: what the layer needs, not what the kernel does.
#include "conv_i8.cuh"

// Checks and times a layer, and prints its row.
static void conv_time(bench_session *s, conv_work *w, const conv_case *m, bench_row *row,
                      const char *label) {
    row->time = conv_measure(s, w, m, label, bench_most_us);
    bench_print(s, row);
}

// After Figure 11 of the Spira paper: every threshold from 0, all offsets weight-stationary, to the
// one above all norms, all output-stationary; or the one that is asked for.
static void conv_thresholds(bench_session *s, const bench_scene<uint64_t> *scene, conv_work *w,
                            const conv_case *m, bench_row *row, const char *label) {
    const spira::kernel_shape kernel = spira::kernel_cube(m->K, 1);
    const int asked = s->options.threshold;
    const int last = asked < 0 ? spira::kernel_norm_max(&kernel) + 1 : asked;
    row->layout = "hybrid";
    for (int t = asked < 0 ? 0 : asked; t <= last; ++t) {
        int keep = s->pool.blocks;
        char name[250];
        spira::conv_map dense = {};
        snprintf(name, sizeof name, "%.200s, t = %d", label, t);
        conv_work_hybrid(s, scene, m, t, w, &dense);
        row->t = t;
        conv_time(s, w, m, row, name);
        bench_pool_free(&s->pool, keep);
    }
}

static void conv_run(bench_session *s, const bench_scene<uint64_t> *scene, const conv_case *m,
                     const conv_layer *layer, spira::numeric type) {
    int keep = s->pool.blocks;
    char label[200];
    snprintf(label, sizeof label, "%.120s: conv %d,%d,%d %s", m->input, layer->cin, layer->cout,
             layer->K, spira::numeric_name(type));
    const bool i8 = type == spira::numeric_i8;
    conv_work w = i8 ? conv_i8_work_make(s, m, layer) : conv_work_make(s, m, layer, type);
    bench_row row = conv_row(s, scene, m, layer, type);
    for (int d = 0; d < bench_dataflows; ++d) {
        if (!(s->options.dataflows >> d & 1) || (i8 && d != bench_dataflow_os)) {
            continue;
        }
        w.dataflow = d;
        row.layout = d == bench_dataflow_os ? "ordered" : "ws";
        row.dataflow = bench_dataflow_names[d];
        if (d == bench_dataflow_hybrid) {
            conv_thresholds(s, scene, &w, m, &row, label);
            continue;
        }
        if (d != bench_dataflow_os) {
            conv_work_lists(s, m, &w);
        }
        conv_time(s, &w, m, &row, label);
    }
    bench_pool_free(&s->pool, keep);
}

// Every type that is asked for: by --dtype, or all that are usual for the layer.
static void conv_run_types(bench_session *s, const bench_scene<uint64_t> *scene, const conv_case *m,
                           const conv_layer *layer) {
    const spira::numeric types[] = {spira::numeric_f16, spira::numeric_bf16, spira::numeric_tf32,
                                    spira::numeric_f32, spira::numeric_i8};
    for (spira::numeric type : types) {
        const bool always = type == spira::numeric_f16 || type == spira::numeric_bf16;
        const bool usual = always || type == spira::numeric_i8 || layer->all_types;
        if (s->options.dtype >= 0 ? type == s->options.dtype : usual) {
            conv_run(s, scene, m, layer, type);
        }
    }
}

static void conv_run_input(bench_session *s, const bench_input *input) {
    conv_each_layer(s, input, conv_run_types);
}

int main(int argc, char **argv) {
    return bench_main(argc, argv, conv_run_input);
}
