// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/generate.cu: grows a shape from 9,712 voxels at stride 16 to 1024^3 cells, in one CUDA
// graph, by the shape decoder of TRELLIS.2 with random weights, and draws it.
//
//   nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a examples/generate.cu -o generate
//   ./generate [--side 1024] [--shape 1024] [--channels 1024] [--picture generate.png] [--check]
//              [--steps] [--weights FILE.blob]
//
// The logits of random weights mean nothing, so a made-up rule overwrites them (generate_shape.h).
// The host knows capacities alone; how many voxels a level has stays on the GPU. --shape makes the
// shape smaller than the grid of --side. --check compares the features with host loops in fp32:
// with few channels and cells, as these take long. --steps prints what each kind of layer takes,
// one launch after the other. --weights reads the parameters of a checkpoint (checkpoint.py,
// --network trellis2); latents and rule stay made up.
//
// As plain C++ (g++ -x c++) it runs the host loops alone, by default on 128^3 cells with 128
// channels.
#ifdef __CUDACC__
#include "generate_device.cuh"
#endif
#include "arguments.h"
#include "generate_host.h"
#include "scan_picture.h"
#include "scan_png.h"

#include <chrono>
#include <memory>

using namespace generate;

namespace {

struct options {
#ifdef __CUDACC__
    int side = 1024, channels = 1024;
#else
    int side = 128, channels = 128;
#endif
    int shape = 0; // 0: side
    bool check = false, steps = false;
    const char *picture = "generate.png";
    const char *weights = nullptr;
};

int usage() {
    printf("usage: generate [--side CELLS] [--shape CELLS] [--channels N] [--picture FILE.png]\n"
           "                [--weights FILE] [--steps] [--check]\n"
           "--side:     cells of the grid along an axis, 64 to 1024 in steps of 16 (%d)\n"
           "--shape:    those that the shell fills, 64 to --side in steps of 4 (--side)\n"
           "--channels: of the coarsest level, 128 to 1024 in steps of 128 (%d)\n"
           "--weights:  a blob of checkpoint.py; without it, weights are random\n"
           "--steps:    what each kind of layer takes, by level; --check: against host loops\n",
           options().side, options().channels);
    return 0;
}

// Reads a number from `least` to `most` in steps.
bool number_take(const char *name, const char *value, int most, int step, int *number) {
    const int least = step > 64 ? step : 64;
    char *end;
    const long n = strtol(value, &end, 10);
    *number = (int)n;
    const bool good = *value && !*end && n >= least && n <= most && n % step == 0;
    if (!good) {
        fprintf(stderr, "%s does not take %s, but %d to %d in steps of %d\n", name, value, least,
                most, step);
    }
    return good;
}

bool options_read(int argc, char **argv, options *o) {
    const char *shape = nullptr;
    for (int i = 1; i < argc; ++i) {
        const char *name = argv[i];
        if (!strcmp(name, "--check")) {
            o->check = true;
            continue;
        }
        if (!strcmp(name, "--steps")) {
            o->steps = true;
            continue;
        }
        const char *value = side::option_value(argc, argv, &i);
        if (!value) {
            return false;
        }
        if (!strcmp(name, "--side") || !strcmp(name, "--channels")) {
            const bool side = name[2] == 's';
            if (!number_take(name, value, 1024, side ? coarsest : 128,
                             side ? &o->side : &o->channels)) {
                return false;
            }
        } else if (!strcmp(name, "--shape")) {
            shape = value;
        } else if (!strcmp(name, "--weights")) {
            o->weights = value;
        } else if (!strcmp(name, "--picture")) {
            o->picture = value;
        } else {
            fprintf(stderr, "%s is no option\n", name);
            return false;
        }
    }
    o->shape = o->side;
    return !shape || number_take("--shape", shape, o->side, 4, &o->shape);
}

#ifdef __CUDACC__
spira::status copy(void *to, const void *from, size_t bytes) {
    return spira::status_from_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "result");
}

// The sets are the rule's, word for word.
spira::status compare_sets(const decoder *d, const grown *g, const device_run *r) {
    const std::vector<word> &wanted = g->set[steps];
    const spira::voxel_set<word> set = spira::net_output(&r->plan, d->net.count - 1, &r->args).set;
    std::vector<word> words(wanted.size());
    spira::device_status trouble;
    int32_t count = 0;
    SPIRA_TRY(copy(&trouble, r->args.trouble, sizeof trouble));
    SPIRA_TRY(spira::device_status_read(&trouble));
    SPIRA_TRY(copy(&count, set.count, sizeof count));
    SPIRA_REQUIRE(count == (int32_t)words.size(), spira::status_bad_size, "voxels", count);
    SPIRA_TRY(copy(words.data(), set.words, words.size() * sizeof(word)));
    SPIRA_REQUIRE(words == wanted, spira::status_bad_size, "voxels (their words)", 0);
    return spira::status_success();
}

// The features' relative error against host loops in fp32.
spira::status compare_features(decoder *d, const grown *g, const device_run *r) {
    const auto host = std::make_unique<host_run>();
    const auto plan = std::make_unique<spira::net_plan>(r->plan); // its table gets other capacities
    SPIRA_TRY(host_make(d, g, host.get()));
    SPIRA_TRY(host_decode(d, g, host.get()));
    const int last = d->net.count - 1;
    const float *wanted = (const float *)spira::net_output(&host->plan, last, &host->args).features;
    std::vector<uint16_t> got(g->set[steps].size() * outputs);
    SPIRA_TRY(copy(got.data(), spira::net_output(plan.get(), last, &r->args).features,
                   got.size() * sizeof(uint16_t)));
    double error = 0, all = 0;
    for (size_t i = 0; i < got.size(); ++i) {
        const double difference = (double)spira::f16_to_float(got[i]) - (double)wanted[i];
        error += difference * difference;
        all += (double)wanted[i] * (double)wanted[i];
    }
    const double relative = sqrt(error / all);
    printf("check: %zu outputs, relative error %.2e against host loops in fp32\n", got.size(),
           relative);
    SPIRA_REQUIRE(relative < 0.02, spira::status_not_finite, "features (relative error above 2 %)",
                  0);
    return spira::status_success();
}

// The median time of a run of the graph, in milliseconds.
spira::status time_graph(cudaGraphExec_t graph, cudaStream_t stream, float *median) {
    enum { runs = 11 };
    float ms[runs];
    cudaEvent_t begin, end;
    SPIRA_TRY(spira::status_from_cuda(cudaEventCreate(&begin), "time"));
    SPIRA_TRY(spira::status_from_cuda(cudaEventCreate(&end), "time"));
    for (float &one : ms) {
        cudaEventRecord(begin, stream);
        SPIRA_TRY(spira::status_from_cuda(cudaGraphLaunch(graph, stream), "graph"));
        cudaEventRecord(end, stream);
        SPIRA_TRY(spira::status_from_cuda(cudaEventSynchronize(end), "graph"));
        SPIRA_TRY(spira::status_from_cuda(cudaEventElapsedTime(&one, begin, end), "time"));
    }
    std::sort(ms, ms + runs);
    *median = ms[runs / 2];
    return spira::status_success();
}

// What each layer takes by itself: the least of three runs.
spira::status time_each(const decoder *d, const grown *g, const device_run *r, cudaStream_t stream,
                        float ms[spira::net_layers_max]) {
    cudaEvent_t begin, end;
    SPIRA_TRY(spira::status_from_cuda(cudaEventCreate(&begin), "time"));
    SPIRA_TRY(spira::status_from_cuda(cudaEventCreate(&end), "time"));
    for (int n = 0; n < 3 * d->net.count; ++n) {
        const int i = n % d->net.count;
        float one;
        cudaEventRecord(begin, stream);
        SPIRA_TRY(device_layer(d, g, r, i, stream));
        cudaEventRecord(end, stream);
        SPIRA_TRY(spira::status_from_cuda(cudaEventSynchronize(end), "layer"));
        SPIRA_TRY(spira::status_from_cuda(cudaEventElapsedTime(&one, begin, end), "time"));
        ms[i] = n < d->net.count ? one : std::min(one, ms[i]);
    }
    return spira::status_success();
}

// Whether two layers have the same work: they differ in their block.
bool layers_alike(const spira::net_plan *p, int a, int b) {
    const spira::net_step *x = &p->step[a], *y = &p->step[b];
    return p->layers[a].op == p->layers[b].op && x->set == y->set && x->channels == y->channels &&
           x->shape.cin == y->shape.cin && x->shape.volume == y->shape.volume &&
           p->layers[a].act == p->layers[b].act;
}

// Prints what the layers take, one launch after the other: a line for those that are alike.
spira::status time_layers(const decoder *d, const grown *g, const device_run *r,
                          cudaStream_t stream) {
    const spira::net_plan *p = &r->plan;
    float ms[spira::net_layers_max], all = 0;
    bool seen[spira::net_layers_max] = {};
    SPIRA_TRY(time_each(d, g, r, stream, ms));
    printf("stride  layers  channels             us each  TFLOP/s   GB/s      ms\n");
    for (int i = 0; i < d->net.count; ++i) {
        float sum = 0;
        int count = 0;
        for (int n = i; n < d->net.count; ++n) {
            const bool own = !seen[n] && layers_alike(p, i, n);
            sum += own ? ms[n] : 0;
            count += own;
            seen[n] = seen[n] || own;
        }
        if (count) {
            const spira::net_op op = p->layers[i].op;
            const char *const kind = op == spira::net_norm_layer   ? "norm"
                                     : op == spira::net_children   ? "children"
                                     : p->step[i].shape.volume > 1 ? "conv 3"
                                                                   : "linear";
            const layer_work work = work_of(p, i, g->voxels, g->pairs);
            const double each = (double)sum / count;
            printf("%6d %3d %-8s %4d to %4d %s %9.1f %8.0f %6.0f %7.2f\n",
                   coarsest >> p->step[i].set, count, kind,
                   p->step[i].shape.cin ? p->step[i].shape.cin : p->step[i].channels,
                   p->step[i].channels, p->layers[i].act ? "SiLU" : "    ", each * 1e3,
                   work.flop / each * 1e-9, work.bytes / each * 1e-6, (double)sum);
            all += sum;
        }
    }
    printf("all layers %.2f ms\n", (double)all);
    return spira::status_success();
}

// Captures a run and times it.
spira::status decode(const options &o, decoder *d, const grown *g) {
    const auto device = std::make_unique<device_run>();
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    SPIRA_TRY(spira::status_from_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                                      "stream"));
    SPIRA_TRY(device_make(d, g, device.get(), stream));
    SPIRA_TRY(device_decode(d, g, device.get(), stream)); // the first run loads the kernels
    SPIRA_TRY(spira::status_from_cuda(cudaStreamSynchronize(stream), "stream"));
    SPIRA_TRY(spira::status_from_cuda(
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "graph"));
    SPIRA_TRY(device_decode(d, g, device.get(), stream));
    SPIRA_TRY(spira::status_from_cuda(cudaStreamEndCapture(stream, &graph), "graph"));
    SPIRA_TRY(spira::status_from_cuda(cudaGraphInstantiate(&replay, graph, 0), "graph"));
    float ms;
    SPIRA_TRY(time_graph(replay, stream, &ms));
    SPIRA_TRY(compare_sets(d, g, device.get()));
    const double flop = decoder_flop(&device->plan, g->voxels, g->pairs);
    printf("time: %.1f ms, fp16, one CUDA graph, nothing read back; %.2f TFLOP by pairs, %.0f "
           "TFLOP/s; memory %.1f GB\n",
           (double)ms, flop * 1e-12, flop / (double)ms * 1e-9, (double)device->memory_bytes * 1e-9);
    SPIRA_TRY(o.steps ? time_layers(d, g, device.get(), stream) : spira::status_success());
    return o.check ? compare_features(d, g, device.get()) : spira::status_success();
}
#else
// Runs the host loops and times them.
spira::status decode(const options &, decoder *d, const grown *g) {
    const auto host = std::make_unique<host_run>();
    SPIRA_TRY(host_make(d, g, host.get()));
    const auto begin = std::chrono::steady_clock::now();
    SPIRA_TRY(host_decode(d, g, host.get()));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const spira::voxel_set<word> set =
        spira::net_output(&host->plan, d->net.count - 1, &host->args).set;
    SPIRA_REQUIRE(*set.count == (int32_t)g->set[steps].size() &&
                      std::equal(g->set[steps].begin(), g->set[steps].end(), set.words),
                  spira::status_bad_size, "voxels", *set.count);
    printf("time: %.1f s, fp32, host loops; %.1f GFLOP by pairs; memory %.1f GB\n", seconds.count(),
           decoder_flop(&host->plan, g->voxels, g->pairs) * 1e-9,
           (double)host->plan.workspace_bytes * 1e-9);
    return spira::status_success();
}
#endif

// A surface lit from the front: its normal is the gradient of the rule's function.
spira::status draw(const grown *g, const char *path) {
    std::vector<scan::picture_mark> marks;
    const double unit = g->shape.edge / 4.0; // half cells of a unit of length
    for (const word w : g->set[steps]) {
        const spira::voxel v = spira::word_unpack<word>(&g->layout, w);
        const int at[3] = {v.x, v.y, v.z};
        scan::picture_mark m = {};
        double normal[3], length = 0;
        for (int a = 0; a < 3; ++a) {
            const double x = (2 * at[a] + 1 - g->shape.side) / unit;
            m.at[a] = (float)at[a];
            normal[a] = 4 * x * x * x - 10 * x;
            length += normal[a] * normal[a];
        }
        const double light =
            (0.35 * normal[0] - 0.55 * normal[1] + 0.75 * normal[2]) / (sqrt(length) + 1e-9);
        const double bright = 0.22 + 0.78 * (light > 0 ? light : 0);
        scan::picture_height_colour((float)v.z / (float)g->shape.side, m.rgb);
        for (uint8_t &c : m.rgb) {
            c = (uint8_t)(bright * c);
        }
        marks.push_back(m);
    }
    const scan::picture_view view = {0.6f, 0.9f, 3, true};
    scan::picture image;
    SPIRA_TRY(scan::picture_draw(&view, marks.data(), (int64_t)marks.size(), &image));
    const spira::status s = scan::png_write(path, image.rgb, image.width, image.height);
    scan::picture_free(&image);
    return s;
}

spira::status run(const options &o) {
    const auto d = std::make_unique<decoder>();
    const auto g = std::make_unique<grown>();
    decoder_make(o.channels, d.get());
    d->weights = o.weights;
    SPIRA_TRY(grow({o.side, o.shape}, g.get()));
    printf("voxels: %zu, %zu, %zu, %zu, %zu at strides 16 to 1; grid of %d^3\n", g->set[0].size(),
           g->set[1].size(), g->set[2].size(), g->set[3].size(), g->set[4].size(), o.side);
    SPIRA_TRY(decode(o, d.get(), g.get()));
    SPIRA_TRY(draw(g.get(), o.picture));
    printf("picture: %s\n", o.picture);
    return spira::status_success();
}

} // namespace

int main(int argc, char **argv) {
    options o;
    if (side::help_asked(argc, argv)) {
        return usage();
    }
    if (!options_read(argc, argv, &o)) {
        return side::arguments_refuse("generate");
    }
    const spira::status s = run(o);
    char text[512];
    if (spira::status_failed(s)) {
        const bool system = s.code == spira::status_file_open && s.detail > 0; // an errno
        fprintf(stderr, "generate: %s%s%s\n", spira::status_text(s, text, sizeof text),
                system ? ", " : "", system ? strerror((int)s.detail) : "");
    }
    return spira::status_failed(s);
}
