// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan.cu: from a raw scan to output features. Reads a scan (or generates a street scene),
// voxelises it, runs a network with weights from a file or a seed, and draws the points in the
// colours of their classes. Under nvcc it runs on the GPU and checks every layer against the host;
// under a plain C++ compiler the host loops compute everything. `make run` builds and runs either.
#include "networks.h"
#include "scan_input.h"
#include "scan_onnx.h"
#include "scan_range.h"
#include "scan_scene.h"
#include "scan_show.h"
#include "scan_side.h"
#include "scan_weights.h"

#include <stdlib.h>

static int usage(FILE *to) {
    fprintf(
        to,
        "usage: scan [--scan FILE] [--net NAME] [--channels N] [--classes N]\n"
        "            [--voxel X[,Y,Z]] [--range X0,Y0,Z0,X1,Y1,Z1]\n"
        "            [--type fp16|bf16|tf32|fp32] [--picture FILE.png] [--seed N] [--no-check]\n"
        "            [--layers]\n"
        "            [--weights FILE] [--save-weights FILE] [--records FILE]\n"
        "            [--save-labels FILE.npy]\n"
        "            [--columns N] [--indices xyz|bxyz|bzyx] [--onnx FILE [--list]]\n"
        "FILE: .bin (--columns 4 for KITTI's), .pcd.bin (nuScenes), .npy, .npz, .pcd, .ply, .las,\n"
        "      .xyz, .txt, .csv, .asc, .pts, .xyz32, .vox32; none: a street scene\n"
        "NAME: MinkUNet42, SparseResNet21, SparseResNet-Large, VoxelBackBone8x,\n"
        "      SpMiddleResNetFHD, BEVFusion, VoxelNeXt, VoxelNeXt-Large, SpUNet-v1m1,\n"
        "      SpUNet-small\n"
        "--voxel: edges in metres (0.05); three, and --range in metres, for detectors, from\n"
        "         VoxelBackBone8x to VoxelNeXt-Large (those of nuScenes)\n"
        "--onnx: a network of libspconv's or Autoware's dialect, with its weights, in place of "
        "--net and\n"
        "        --weights; --list prints its layers\n"
        "--channels: values of a voxel; --classes: of SpUNet-v1m1 and SpUNet-small\n");
    return to == stdout ? 0 : 2;
}

static bool parse(int argc, char **argv, side::options *o) {
    *o = side::options_standard();
    for (int i = 1; i < argc; ++i) {
        if (!strcmp(argv[i], "--no-check")) {
            o->check = false;
            continue;
        }
        if (!strcmp(argv[i], "--layers")) {
            o->layers = true;
            continue;
        }
        if (!strcmp(argv[i], "--list")) {
            o->list = true;
            continue;
        }
        const char *name = argv[i], *value = side::option_value(argc, argv, &i);
        if (!value) {
            return false;
        }
        if (!strcmp(name, "--scan")) {
            o->scan = value;
        } else if (!strcmp(name, "--onnx")) {
            o->onnx = value;
        } else if (!strcmp(name, "--picture")) {
            o->picture = value;
        } else if (!strcmp(name, "--save-labels")) {
            o->save_labels = value;
        } else if (!side::option_take(o, name, value)) {
            return false;
        }
    }
    if (o->list && !o->onnx) {
        fprintf(stderr, "--list is for --onnx\n");
        return false;
    }
    if (o->onnx && o->weights) {
        fprintf(stderr, "--onnx has its own weights: without --weights\n");
        return false;
    }
    return true;
}

// The bounds of a scan's voxels.
static spira::status bounds(const scan::scan_cloud *cloud, const networks::network *net,
                            const spira::voxel_input *in, spira::word_need *need) {
    if (networks::network_ranged(net)) { // net_need takes the bounds of the extent
        return spira::status_success();
    }
    if (cloud->points) {
        float lo[3], hi[3];
        SPIRA_TRY(scan::scan_bounds_points(cloud, lo, hi));
        return spira::voxel_bounds(lo, hi, in->size, in->origin, need);
    }
    int32_t lo[3], hi[3];
    SPIRA_TRY(scan::scan_bounds_voxels(cloud, lo, hi));
    need->lo = spira::triple_make(lo[0], lo[1], lo[2]);
    need->hi = spira::triple_make(hi[0], hi[1], hi[2]);
    return spira::status_success();
}

// The layout for this scan and this network, and the description of the input.
static spira::status fit(const scan::scan_cloud *cloud, const networks::network *net,
                         spira::voxel_input *in, spira::word_layout *layout) {
    spira::word_need need = {};
    *in = {};
    in->points = cloud->points;
    in->coords = cloud->voxels;
    in->rows = (int32_t)cloud->rows;
    in->columns = cloud->columns;
    networks::network_voxels(net, in);
    in->duplicates = spira::duplicates_merge;
    SPIRA_TRY(bounds(cloud, net, in, &need));
    SPIRA_TRY(spira::net_need(net->layers, net->count, &net->grid, &need));
    need.batches = 1;
    return spira::word_fit(&need, layout);
}

// What the file's points went through, if anything.
static void print_reading(const scan::scan_cloud *cloud) {
    if (cloud->origin[0] != 0 || cloud->origin[1] != 0 || cloud->origin[2] != 0) {
        printf("origin: %.0f %.0f %.0f m, taken away from all points\n", cloud->origin[0],
               cloud->origin[1], cloud->origin[2]);
    }
    if (cloud->dropped || cloud->zeroed) {
        printf("no return: %lld rows are left out; %lld other values are not finite, and 0 now\n",
               (long long)cloud->dropped, (long long)cloud->zeroed);
    }
}

// Takes away the points outside of the network's range, if it has one.
static spira::status cut(const networks::network *net, scan::scan_cloud *cloud) {
    const int64_t rows = cloud->rows;
    int64_t outside;
    SPIRA_TRY(side::range_cut(net, cloud, &outside));
    if (networks::network_ranged(net)) { // its labels are not used
        const float *lo = net->lo, *hi = net->hi;
        printf("range: %g %g %g to %g %g %g m: %lld of %lld points are outside and left out\n",
               (double)lo[0], (double)lo[1], (double)lo[2], (double)hi[0], (double)hi[1],
               (double)hi[2], (long long)outside, (long long)rows);
        SPIRA_REQUIRE(cloud->rows > 0, spira::status_bad_size, "scan (no point is inside)", rows);
    }
    return spira::status_success();
}

// How the tuning record of a layer cuts it; "rules" where it has no record.
static const char *cut_text(const spira::tune_choice *c, char *text, size_t size) {
    snprintf(text, size, c->tiles ? "%d.%d.%d" : "rules", c->tiles, c->slices, c->split);
    return text;
}

template <typename W>
static void print_layers(const side::job *job, const side::result<W> *r) {
    const bool tuned = job->plan->device && job->record_count > 0;
    printf("%-18s %-7s %8s %8s %4s %9s %8s %12s %9s%s\n", "layer", "stride", "in", "out", "K",
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
        printf("%-18s %-7s %8d %8d", l->name, text[0], (int)r->voxels[s->source_set], (int)out);
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
    show::time_text(r, text, sizeof text);
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
static int run(side::job *job) {
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
    if (!show::is_street(job, job->plan->step[job->plan->layer_count - 1].channels)) {
        print_output(job, &r);
    }
    const bool good = print_time(job, &r);
    s = show::result_show(job, &r);
    side::result_free(&r);
    return spira::status_failed(s) ? side::fail("showing the result", job->net, s) : !good;
}

int main(int argc, char **argv) {
    side::options chosen;
    if (side::help_asked(argc, argv)) {
        return usage(stdout);
    }
    if (!parse(argc, argv, &chosen)) {
        return usage(stderr);
    }
    networks::network *net = (networks::network *)calloc(1, sizeof *net);
    spira::net_plan *plan = (spira::net_plan *)calloc(1, sizeof *plan);
    onnx::model *model = new onnx::model; // the table of layers of --onnx lives in it
    float *params = nullptr;
    int code;
    if (chosen.onnx) {
        code = side::onnx_network(&chosen, model, net);
        if (chosen.list) {
            return code;
        }
        code = code ? code : side::onnx_params(&chosen, model, net, plan, &params);
        chosen.net = chosen.onnx;
    } else if (networks::network_make(chosen.net, &chosen.sizes, net)) {
        code = side::range_choose(&chosen, net);
        code = code ? code : weights::params_new(&chosen, net, plan, &params);
    } else {
        fprintf(stderr, "--net %s: no such network, or --classes for one without\n", chosen.net);
        return usage(stderr);
    }
    if (code) {
        return code;
    }
    scan::scan_cloud cloud = {};
    scan::scan_reason why;
    side::job job = {};
    spira::status s = chosen.scan ? scan::scan_read(chosen.scan, &chosen.file, &cloud, &why)
                                  : scan::scan_scene_street(chosen.seed, &cloud, &job.labels);
    s = spira::status_failed(s) ? s : cut(net, &cloud);
    if (spira::status_failed(s)) {
        return side::fail_file(&why, net, s);
    }
    print_reading(&cloud);
    job.chosen = &chosen;
    job.net = net;
    job.plan = plan;
    s = fit(&cloud, net, &job.input, &job.layout);
    if (spira::status_failed(s)) {
        return side::fail("fitting the coordinate word", net, s);
    }
    const int channels = net->input_channels;
    float *values = (float *)malloc((size_t)(cloud.rows * channels) * sizeof(float));
    const bool raw = side::values_are_raw(&chosen, net);
    for (int64_t i = 0; i < cloud.rows; ++i) {
        scan::scan_row_inputs(&cloud, i, net->voxel[0], raw, channels, values + channels * i);
    }
    if (net->exchange_xy) { // the values keep their order
        scan::scan_exchange(&cloud);
    }
    job.values = values;
    job.params = params;
    code = weights::records_new(&chosen, &job);
    if (code) {
        return code;
    }
    char text[64];
    printf("%s: %lld %s, voxel %s m, %s in %s\n", chosen.scan ? chosen.scan : "street scene",
           (long long)cloud.rows, cloud.points ? "points" : "voxels",
           side::voxel_text(net, text, sizeof text), chosen.net, spira::numeric_name(chosen.type));
    if (raw) {
        printf("values of a point: as in the file\n");
    }
    code = job.layout.bits == 32 ? run<uint32_t>(&job) : run<uint64_t>(&job);
    free(values);
    free(params);
    free(job.records);
    free(job.labels);
    scan::scan_free(&cloud);
    free(plan);
    free(net);
    delete model;
    return code;
}
