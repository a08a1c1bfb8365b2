// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan.cu: from a raw scan to output features. Reads a scan (or generates a street scene),
// voxelises it, runs a network with weights from a file or a seed, and draws the points in the
// colours of their classes. Under nvcc it runs on the GPU and checks every layer against the host;
// under a plain C++ compiler the host loops compute everything. `make run` builds and runs either.
//
// SCAN_PART: the part of the program that is compiled, so that cores can share them (Makefile): 1,
// main; 2, the reader of .onnx files; 32 and 64, networks on words of these bits; 3, both of these.
// Not defined: all.
#ifndef SCAN_PART
#define SCAN_HAS(part) 1
#else
#define SCAN_HAS(part) (SCAN_PART == part || (SCAN_PART == 3 && part >= 32))
#endif

#include "scan_side.h"

int scan_run32(side::job *job);
int scan_run64(side::job *job);
// The network of --onnx and its parameters, which the caller frees; null after --list.
int scan_onnx(const side::options *o, networks::network *net, spira::net_plan *plan,
              float **params);

#if SCAN_HAS(32) || SCAN_HAS(64)
#include "scan_run.h"
#endif

#if SCAN_HAS(32)
int scan_run32(side::job *job) {
    return show::job_run<uint32_t>(job);
}
#endif

#if SCAN_HAS(64)
int scan_run64(side::job *job) {
    return show::job_run<uint64_t>(job);
}
#endif

#if SCAN_HAS(2)
#include "scan_onnx.h"

int scan_onnx(const side::options *o, networks::network *net, spira::net_plan *plan,
              float **params) {
    onnx::model *model = new onnx::model; // the layers of `net` live in it, as long as the program
    const int code = side::onnx_network(o, model, net);
    return code || o->list ? code : side::onnx_params(o, model, net, plan, params);
}
#endif

#if SCAN_HAS(1)
#include "scan_range.h"
#include "scan_scene.h"
#include "scan_weights.h"

static int usage(void) {
    printf(
        "usage: scan [--scan FILE] [--net NAME] [--channels N] [--classes N]\n"
        "            [--voxel X[,Y,Z]] [--range X0,Y0,Z0,X1,Y1,Z1]\n"
        "            [--type int8|fp16|bf16|tf32|fp32] [--picture FILE.png] [--seed N]\n"
        "            [--no-check]\n"
        "            [--layers]\n"
        "            [--weights FILE] [--save-weights FILE] [--records FILE]\n"
        "            [--save-labels FILE.npy]\n"
        "            [--columns N] [--indices xyz|bxyz|bzyx] [--onnx FILE [--list]]\n"
        "FILE: .bin (--columns 4 for KITTI's), .pcd.bin (nuScenes), .npy, .npz, .pcd, .ply, .las,\n"
        "      .xyz, .txt, .csv, .asc, .pts, .xyz32, .vox32; none: a street scene\n"
        "NAME: %s,\n"
        "      or FILE.layers, as spira.pytorch.export writes it\n"
        "--voxel: edges in metres (0.05); three, and --range in metres, for detectors, from\n"
        "         VoxelBackBone8x to VoxelNeXt-Large (those of nuScenes)\n"
        "--onnx: a network of libspconv's or Autoware's dialect, with its weights unless --weights "
        "has\n"
        "        others (a blob that quantize made of the file); --list prints its layers\n"
        "--channels: values of a voxel; --classes: of SpUNet-v1m1 and SpUNet-small\n"
        "--type: without it, layers that the weights have ranges for are int8\n",
        networks::network_names);
    return 0;
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
    if (cloud->rounded) {
        printf("far off: %lld of %lld points lie more than 131 km from the others: outliers?\n",
               (long long)cloud->rounded, (long long)cloud->rows);
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

int main(int argc, char **argv) {
    side::options chosen;
    if (side::help_asked(argc, argv)) {
        return usage();
    }
    if (!parse(argc, argv, &chosen)) {
        return side::arguments_refuse("scan");
    }
    networks::network *net = (networks::network *)calloc(1, sizeof *net);
    spira::net_plan *plan = (spira::net_plan *)calloc(1, sizeof *plan);
    float *params = nullptr;
    int code;
    if (chosen.onnx) {
        code = scan_onnx(&chosen, net, plan, &params);
        if (chosen.list) {
            return code;
        }
        chosen.net = chosen.onnx;
    } else {
        code = side::network_find(&chosen, net);
        code = code ? code : weights::params_new(&chosen, net, plan, &params);
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
    char text[64], precision[80];
    printf("%s: %lld %s, voxel %s m, %s in %s\n", chosen.scan ? chosen.scan : "street scene",
           (long long)cloud.rows, cloud.points ? "points" : "voxels",
           side::voxel_text(net, text, sizeof text), chosen.net,
           side::precision_text(&chosen, net, precision, sizeof precision));
    if (raw) {
        printf("values of a point: as in the file\n");
    }
    code = job.layout.bits == 32 ? scan_run32(&job) : scan_run64(&job);
    free(values);
    free(params);
    free(job.records);
    free(job.labels);
    scan::scan_free(&cloud);
    free(plan);
    free(net);
    return code;
}
#endif
