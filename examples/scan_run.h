// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_run.h: runs scan.cu's job, and prints and shows what it gave.
#ifndef SPIRA_EXAMPLES_SCAN_RUN_H
#define SPIRA_EXAMPLES_SCAN_RUN_H

#include "scan_show.h"

namespace show {

// How the tuning record of a layer cuts it; "rules" where it has no record.
static const char *cut_text(const spira::tune_choice *c, char *text, size_t size) {
    snprintf(text, size, c->tiles ? "%d.%d.%d" : "rules", c->tiles, c->slices, c->split);
    return text;
}

template <typename W>
static void print_layers(const side::job *job, const side::result<W> *r) {
    const bool tuned = job->plan->device && job->record_count > 0;
    printf("%-25s %-7s %8s %8s %4s %9s %8s %12s %9s%s\n", "layer", "stride", "in", "out", "K",
           "pairs", "density", "channels", "ms", tuned ? "        cut" : "");
    for (int i = 0; i < job->plan->layer_count; ++i) {
        const spira::net_step *s = &job->plan->step[i];
        const spira::net_layer *l = &job->plan->layers[i];
        spira::triple stride = job->plan->set[s->set].stride;
        int64_t out = r->voxels[s->set];
        int64_t pairs = s->map < 0 ? out : r->pairs[s->map];
        char text[2][40];
        snprintf(text[0], sizeof text[0], stride.z == stride.x ? "%d" : "%d,%d,%d", stride.x,
                 stride.y, stride.z);
        if (s->shape.cin2) {
            snprintf(text[1], sizeof text[1], "%d+%d-%d", s->shape.cin, s->shape.cin2, s->channels);
        } else {
            snprintf(text[1], sizeof text[1], "%d-%d", s->shape.cin, s->channels);
        }
        printf("%-25s %-7s %8d %8d", l->name, text[0], (int)r->voxels[s->source_set], (int)out);
        if (spira::net_is_conv(l) || s->map >= 0) {
            printf(" %4d %9lld %8.3f", s->shape.volume, (long long)pairs,
                   out ? (double)pairs / ((double)out * s->shape.volume) : 0.0);
        } else { // dense maps and joined sets have no kernel
            printf(" %4s %9s %8s", "", "", "");
        }
        printf(" %12s", text[1]);
        if (s->fused_into < 0) {
            printf(" %9.3f", r->layer_ms[i]);
        } else {
            printf(" %9s", "fused"); // into the layer that adds it
        }
        if (tuned) {
            printf(" %10s", cut_text(&s->choice, text[0], sizeof text[0]));
        }
        printf("\n");
    }
    printf("K: kernel offsets; pairs: elements of the kernel map with a source; "
           "density: pairs / (out K)\n");
}

template <typename W>
static void print_output(const side::job *job, const side::result<W> *r) {
    const int last = job->plan->layer_count - 1;
    const spira::net_run_args<W> run = {};
    const spira::net_result<W> out = spira::net_output(job->plan, last, &run);
    if (out.batch) {
        printf("output: bird's-eye map [%d, %d, %d, %d]\n", out.batch, out.channels, out.height,
               out.width);
    } else {
        printf("output: [%d voxels, %d]\n", (int)r->voxels[job->plan->step[last].set],
               out.channels);
    }
}

template <typename W>
static void print_memory(const side::job *job, const side::result<W> *r) {
    double mib = 1.0 / (1 << 20);
    printf("points %d, voxels %d, coordinate word %d bits (%d used)\n", job->input.rows,
           (int)r->voxels[0], job->layout.bits, spira::word_bits(&job->layout));
    printf("memory %.1f MiB: sets and maps %.1f, features %.1f, parameters %.1f\n",
           (double)(r->workspace_bytes + r->parameter_bytes) * mib,
           (double)(r->workspace_bytes - r->feature_bytes) * mib, (double)r->feature_bytes * mib,
           (double)r->parameter_bytes * mib);
    printf("voxelise %.3f ms, index (coordinate sets and kernel maps) %.3f ms, features %.3f ms\n",
           r->voxelize_ms, r->index_ms, r->features_ms);
}

// Prints the time, and on the GPU how well the host agrees. Returns whether it does.
template <typename W>
static bool print_time(const side::job *job, const side::result<W> *r) {
    char text[400];
    time_text(r, text, sizeof text);
    printf("time: %s", text);
    if (r->graph_ms > 0) {
        printf(", one CUDA graph from integer coordinates to features");
    }
    const bool good = !r->checked || r->worst <= 1.0;
    if (r->checked) {
        printf("; every output of %d layers against the host in double precision: largest error "
               "%.3f of its bound, in %s: %s",
               r->checked, r->worst, job->plan->layers[r->worst_layer].name,
               good ? "good" : "WRONG");
    }
    printf("\n");
    return good;
}

template <typename W>
static int job_run(side::job *job) {
    side::result<W> r = {};
    spira::status s = side::run(job, &r);
    if (spira::status_failed(s)) {
        side::result_free(&r);
        return side::fail("running the network", job->net, s);
    }
    if (job->chosen->layers) {
        print_layers(job, &r);
        print_memory(job, &r);
    }
    if (!is_street(job, job->plan->step[job->plan->layer_count - 1].channels)) {
        print_output(job, &r);
    }
    const bool good = print_time(job, &r);
    s = result_show(job, &r);
    side::result_free(&r);
    return spira::status_failed(s) ? side::fail("showing the result", job->net, s) : !good;
}

} // namespace show

#endif
