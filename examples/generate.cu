// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/generate.cu: grows a shape from 9,712 voxels at stride 16 to 1024^3 cells, in one CUDA
// graph, by the shape decoder of TRELLIS.2 with random weights, and draws it.
//
//   nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a examples/generate.cu -o generate
//   ./generate [--side 1024] [--channels 1024] [--picture generate.png] [--check] [--steps]
//
// The logits of random weights mean nothing, so a made-up rule overwrites them (generate_shape.h).
// The host knows capacities alone; how many voxels a level has stays on the GPU. --check compares
// the features with host loops in fp32: with few channels and cells, as these take long. --steps
// prints what each kind of step takes, one launch after the other.
#include "generate_device.cuh"
#include "generate_host.h"
#include "scan_picture.h"
#include "scan_png.h"

#include <memory>

using namespace generate;

namespace {

struct options {
    int side = 1024, channels = 1024;
    bool check = false, steps = false;
    const char *picture = "generate.png";
};

bool options_read(int argc, char **argv, options *o) {
    for (int i = 1; i < argc; ++i) {
        const bool value = i + 1 < argc;
        if (!strcmp(argv[i], "--check")) {
            o->check = true;
        } else if (!strcmp(argv[i], "--steps")) {
            o->steps = true;
        } else if (!strcmp(argv[i], "--side") && value) {
            o->side = atoi(argv[++i]);
        } else if (!strcmp(argv[i], "--channels") && value) {
            o->channels = atoi(argv[++i]);
        } else if (!strcmp(argv[i], "--picture") && value) {
            o->picture = argv[++i];
        } else {
            fprintf(stderr,
                    "usage: generate [--side CELLS] [--channels N] [--picture FILE] [--check] "
                    "[--steps]\n"
                    "generate: not understood: %s\n",
                    argv[i]);
            return false;
        }
    }
    const bool good = o->side >= 64 && o->side <= 1024 && o->side % coarsest == 0 &&
                      o->channels >= 128 && o->channels <= 1024 && o->channels % 128 == 0;
    if (!good) {
        fprintf(stderr, "generate: --side is 64 to 1024 in steps of 16, --channels 128 to 1024 in "
                        "steps of 128\n");
    }
    return good;
}

spira::status copy(void *to, const void *from, size_t bytes) {
    return spira::status_from_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "result");
}

// The sets are the host's, word for word. With features: their relative error.
spira::status compare(const device_run *d, const host_run *h, bool features) {
    std::vector<word> words(h->set[steps].size());
    int32_t count = 0;
    SPIRA_TRY(copy(&count, d->level[steps].set.count, sizeof count));
    SPIRA_REQUIRE(count == (int32_t)words.size(), spira::status_bad_size, "voxels", count);
    SPIRA_TRY(copy(words.data(), d->level[steps].set.words, words.size() * sizeof(word)));
    SPIRA_REQUIRE(words == h->set[steps], spira::status_bad_size, "voxels (their words)", 0);
    if (!features) {
        return spira::status_success();
    }
    const std::vector<float> &wanted = h->buffer[(size_t)d->plan->out];
    std::vector<uint16_t> got(wanted.size());
    SPIRA_TRY(copy(got.data(), d->buffer[(size_t)d->plan->out], got.size() * sizeof(uint16_t)));
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

// What the steps take, summed up by level and kind.
spira::status time_steps(device_run *d, cudaStream_t stream) {
    static const char *const kinds[] = {"map", "conv 3", "norm", "rule", "divide", "gather"};
    float sum[levels][7] = {}; // the last: op_conv of size 1
    cudaEvent_t begin, end;
    SPIRA_TRY(spira::status_from_cuda(cudaEventCreate(&begin), "time"));
    SPIRA_TRY(spira::status_from_cuda(cudaEventCreate(&end), "time"));
    for (const op &o : d->plan->ops) {
        float ms;
        cudaEventRecord(begin, stream);
        SPIRA_TRY(device_step(d, o, stream));
        cudaEventRecord(end, stream);
        SPIRA_TRY(spira::status_from_cuda(cudaEventSynchronize(end), "step"));
        SPIRA_TRY(spira::status_from_cuda(cudaEventElapsedTime(&ms, begin, end), "time"));
        sum[o.level][o.kind == op_conv && o.size == 1 ? 6 : o.kind] += ms;
    }
    for (int l = 0; l < levels; ++l) {
        printf("stride %2d:", coarsest >> l);
        for (int k = 0; k < 7; ++k) {
            printf("  %s %.2f", k == 6 ? "linear" : kinds[k], (double)sum[l][k]);
        }
        printf(" ms\n");
    }
    return spira::status_success();
}

// A surface lit from the front: its normal is the gradient of the rule's function.
spira::status draw(const host_run *h, const char *path) {
    std::vector<scan::picture_mark> marks;
    const double unit = h->side / 4.0; // half cells of a unit of length
    for (const word w : h->set[steps]) {
        const spira::voxel v = spira::word_unpack<word>(&h->layout, w);
        const int at[3] = {v.x, v.y, v.z};
        scan::picture_mark m = {};
        double normal[3], length = 0;
        for (int a = 0; a < 3; ++a) {
            const double x = (2 * at[a] + 1 - h->side) / unit;
            m.at[a] = (float)at[a];
            normal[a] = 4 * x * x * x - 10 * x;
            length += normal[a] * normal[a];
        }
        const double light =
            (0.35 * normal[0] - 0.55 * normal[1] + 0.75 * normal[2]) / (sqrt(length) + 1e-9);
        const double bright = 0.22 + 0.78 * (light > 0 ? light : 0);
        scan::picture_height_colour((float)v.z / (float)h->side, m.rgb);
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
    const decoder d = decoder_make(o.channels);
    const auto host = std::make_unique<host_run>();
    const auto device = std::make_unique<device_run>();
    SPIRA_TRY(host_decode(&d, o.side, o.check, host.get())); // without features: sets alone
    int32_t capacity[levels];
    for (int l = 0; l < levels; ++l) {
        capacity[l] = (int32_t)(host->set[l].size() * 21 / 20); // some room
    }
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    SPIRA_TRY(spira::status_from_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                                      "stream"));
    SPIRA_TRY(device_make(&d, o.side, capacity, device.get(), stream));
    SPIRA_TRY(device_decode(device.get(), stream)); // the first run loads the kernels
    SPIRA_TRY(spira::status_from_cuda(cudaStreamSynchronize(stream), "stream"));
    SPIRA_TRY(spira::status_from_cuda(
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "graph"));
    SPIRA_TRY(device_decode(device.get(), stream));
    SPIRA_TRY(spira::status_from_cuda(cudaStreamEndCapture(stream, &graph), "graph"));
    SPIRA_TRY(spira::status_from_cuda(cudaGraphInstantiate(&replay, graph, 0), "graph"));
    float ms;
    SPIRA_TRY(time_graph(replay, stream, &ms));
    spira::device_status trouble;
    SPIRA_TRY(copy(&trouble, device->trouble, sizeof trouble));
    SPIRA_TRY(spira::device_status_read(&trouble));
    SPIRA_TRY(compare(device.get(), host.get(), o.check));
    const double flop = decoder_flop(d, host->amount);
    printf("voxels: %zu, %zu, %zu, %zu, %zu at strides 16 to 1; grid of %d^3\n",
           host->set[0].size(), host->set[1].size(), host->set[2].size(), host->set[3].size(),
           host->set[4].size(), o.side);
    printf("time: %.1f ms, fp16, one CUDA graph, nothing read back; %.2f TFLOP by pairs, %.0f "
           "TFLOP/s; memory %.1f GB\n",
           (double)ms, flop * 1e-12, flop / (double)ms * 1e-9, (double)device->memory_bytes * 1e-9);
    if (o.steps) {
        SPIRA_TRY(time_steps(device.get(), stream));
    }
    SPIRA_TRY(draw(host.get(), o.picture));
    printf("picture: %s\n", o.picture);
    return spira::status_success();
}

} // namespace

int main(int argc, char **argv) {
    options o;
    if (!options_read(argc, argv, &o)) {
        return 2;
    }
    const spira::status s = run(o);
    char text[512];
    if (spira::status_failed(s)) {
        fprintf(stderr, "generate: %s\n", spira::status_text(s, text, sizeof text));
    }
    return spira::status_failed(s);
}
