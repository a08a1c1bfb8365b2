// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/bench_base.cuh: errors, memory that is freed together, and the command line.
#ifndef SPIRA_BENCH_BENCH_BASE_CUH
#define SPIRA_BENCH_BENCH_BASE_CUH

#include "../examples/scan_scene.h"
#include "../spira.cuh"
#include "targets.h"

#include <stdarg.h>

// ---- errors -------------------------------------------------------------------------------------

[[noreturn]] SPIRA_API void bench_fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fflush(stdout);
    fputs("FAILED: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    exit(1);
}

SPIRA_API void bench_check_cuda(cudaError_t error, const char *expression, const char *file,
                                int line) {
    if (error != cudaSuccess) {
        bench_fail("%s:%d: %s: %s (%d)", file, line, expression, cudaGetErrorString(error),
                   (int)error);
    }
}

SPIRA_API void bench_check_status(spira::status s, const char *file, int line) {
    char text[256];
    if (spira::status_failed(s)) {
        bench_fail("%s:%d: %s", file, line, spira::status_text(s, text, sizeof text));
    }
}

#define BENCH_CUDA(expression) bench_check_cuda((expression), #expression, __FILE__, __LINE__)
#define BENCH_TRY(expression) bench_check_status((expression), __FILE__, __LINE__)

// Multiprocessors of --multiprocessors; 0: all.
[[maybe_unused]] static int bench_few;

// The current GPU, queried once. SPIRA_SHARED=99: as if a thread block had at most 99 KB of shared
// memory.
SPIRA_API const spira::device_info *bench_gpu() {
    static spira::device_info info;
    static const spira::status queried = spira::device_info_query(&info);
    static const char *const kilobytes = getenv("SPIRA_SHARED");
    BENCH_TRY(queried);
    if (kilobytes && 1024 * atoi(kilobytes) < info.shared_max) {
        info.shared_max = 1024 * atoi(kilobytes);
    }
    info.multiprocessors = bench_few ? bench_few : info.multiprocessors;
    return &info;
}

// ---- memory -------------------------------------------------------------------------------------

enum { bench_blocks_most = 256, bench_poison = 0xa5 };

// Host and device memory that is freed together. Copies go through the one stream of the session
// and wait for it.
struct bench_pool {
    cudaStream_t stream;
    int blocks;
    void *block[bench_blocks_most];
    bool on_device[bench_blocks_most];
};

SPIRA_API void *bench_pool_keep(bench_pool *pool, void *block, bool on_device) {
    if (!block || pool->blocks == bench_blocks_most) {
        bench_fail(block ? "too many blocks in a pool" : "out of host memory");
    }
    pool->block[pool->blocks] = block;
    pool->on_device[pool->blocks++] = on_device;
    return block;
}

// Frees all but the first `keep` blocks.
SPIRA_API void bench_pool_free(bench_pool *pool, int keep) {
    BENCH_CUDA(cudaStreamSynchronize(pool->stream));
    while (pool->blocks > keep) {
        void *block = pool->block[--pool->blocks];
        if (pool->on_device[pool->blocks]) {
            BENCH_CUDA(cudaFree(block));
        } else {
            free(block);
        }
    }
}

template <typename T>
SPIRA_API T *bench_host(bench_pool *pool, int64_t count) {
    return (T *)bench_pool_keep(pool, malloc((size_t)count * sizeof(T) + 1), false);
}

// Memory for a workspace of the host loops.
SPIRA_API char *bench_host_workspace(bench_pool *pool, size_t bytes) {
    char *block = bench_host<char>(pool, (int64_t)bytes + spira::workspace_alignment);
    return block + -(uintptr_t)block % spira::workspace_alignment;
}

// Whether so much device memory can be had. Some is left for others.
SPIRA_API bool bench_memory(double bytes) {
    size_t left, all;
    BENCH_CUDA(cudaMemGetInfo(&left, &all));
    return bytes < 0.9 * (double)left;
}

// Poisoned, so that what a kernel left out is seen.
template <typename T>
SPIRA_API T *bench_device(bench_pool *pool, int64_t count) {
    void *block = nullptr;
    size_t bytes = (size_t)count * sizeof(T);
    BENCH_CUDA(cudaMalloc(&block, bytes ? bytes : 1));
    BENCH_CUDA(cudaMemsetAsync(block, bench_poison, bytes, pool->stream));
    return (T *)bench_pool_keep(pool, block, true);
}

template <typename T>
SPIRA_API T *bench_array(bench_pool *pool, int64_t count, bool on_device) {
    return on_device ? bench_device<T>(pool, count) : bench_host<T>(pool, count);
}

template <typename T>
SPIRA_API T *bench_upload(bench_pool *pool, const T *host, int64_t count) {
    T *device = bench_device<T>(pool, count);
    BENCH_CUDA(cudaMemcpyAsync(device, host, (size_t)count * sizeof(T), cudaMemcpyHostToDevice,
                               pool->stream));
    BENCH_CUDA(cudaStreamSynchronize(pool->stream));
    return device;
}

template <typename T>
SPIRA_API T *bench_download(bench_pool *pool, const T *device, int64_t count) {
    T *host = bench_host<T>(pool, count);
    BENCH_CUDA(cudaMemcpyAsync(host, device, (size_t)count * sizeof(T), cudaMemcpyDeviceToHost,
                               pool->stream));
    BENCH_CUDA(cudaStreamSynchronize(pool->stream));
    return host;
}

// Fails unless device [count] holds exactly what host [count] holds.
template <typename T>
SPIRA_API void bench_check_same(bench_pool *pool, const T *host, const T *device, int64_t count,
                                const char *input, const char *what) {
    int keep = pool->blocks;
    const T *got = bench_download(pool, device, count);
    if (memcmp(got, host, (size_t)count * sizeof(T)) != 0) {
        int64_t i = 0;
        while (got[i] == host[i]) {
            ++i;
        }
        bench_fail("%s: %s: element %lld of %lld is %lld instead of %lld", input, what,
                   (long long)i, (long long)count, (long long)got[i], (long long)host[i]);
    }
    bench_pool_free(pool, keep);
}

// Fails if the device reported a coordinate out of range, a capacity passed, ...
SPIRA_API void bench_check_trouble(bench_pool *pool, const spira::device_status *trouble) {
    int keep = pool->blocks;
    BENCH_TRY(spira::device_status_read(bench_download(pool, trouble, 1)));
    bench_pool_free(pool, keep);
}

// ---- the command line ---------------------------------------------------------------------------

enum { bench_files_most = 64 };

struct bench_options {
    float voxel;       // metres; 0: 0.05, or 0.02 for .xyz32
    int columns;       // values of a point in .bin files; 0: not said
    int only[3];       // cin, cout, K; 0: all layers
    bool sweep_minuet; // all block sizes of bench/search_minuet.cuh
    bool sweep_widths; // layers of 16 to 128 channels, and wider ones
    int dtype;         // a spira::numeric, or -1: all
    int dataflows;     // of the convolutions: bits of bench_dataflow_names
    int threshold;     // of the hybrid ones; -1: all there are
    int minuet[2];     // B, C of bench/search_minuet.cuh; 0: the best of a few
    int parts;         // of bench/net.cu: bits of bench_part_names; 0: all
    const char *net;   // null: all
    bool quick;        // fewer replays, scenes and cases
    const char *out;   // of tuning records; null: nowhere
    int few;           // multiprocessors (bench/few.cuh); 0: all
    int files;
    const char *file[bench_files_most];
};

SPIRA_API void bench_usage(const char *program) {
    printf(
        "usage: %s [--voxel METRES] [--columns N] [--only CIN,COUT,K] [--dtype "
        "fp16|bf16|tf32|fp32|int8]\n"
        "       [--dataflow os|ws|hybrid|all] [--threshold T|all] [--minuet B,C]\n"
        "       [--sweep minuet|widths] [--only tables|fig13|fig15|table4|batches|deployed] [--net "
        "NAME]\n"
        "       [--multiprocessors N] [--quick] [--out FILE] [SCAN...]\n"
        "SCAN is a file that examples/scan_file.h reads, .bin with --columns, or NAME:VOXELS, a\n"
        "generated scene (bench/scenes.h), as tracks:5000; a random scene of the size of the "
        "first\n"
        "one is added. --only, --dtype and --dataflow (os) choose among the\n"
        "convolutions, --threshold (all) among the hybrid ones. --minuet sets the block sizes (B "
        "up\n"
        "to 2048, C 16 or more) of that search; --sweep minuet times it for a grid of both, "
        "--sweep\n"
        "widths convolutions of size 3 with 16 to 128 channels in steps of 4, and wider ones. "
        "Among\n"
        "the parts of bench_net, --only (again for more) and --net choose. --quick takes fewer "
        "cases\n"
        "and replays, and no random scene. bench_tune writes its records to --out.\n",
        program);
}

// value: of the argument, or null: it has none
[[noreturn]] SPIRA_API void bench_refuse(const char *program, const char *wrong,
                                         const char *value) {
    fprintf(stderr, "%s%s%s: not an option, or not a value of it\n%s --help lists them\n", wrong,
            value ? " " : "", value ? value : "", program);
    exit(2);
}

SPIRA_API int bench_dtype(const char *name) {
    for (int n = spira::numeric_f32; n <= spira::numeric_i8; ++n) {
        if (strcmp(name, spira::numeric_name((spira::numeric)n)) == 0) {
            return n;
        }
    }
    return -1;
}

// Output-stationary, weight-stationary with atomic sums, and both, by a threshold.
static const char *const bench_dataflow_names[] = {"os", "ws", "hybrid"};

enum { bench_dataflow_os, bench_dataflow_ws, bench_dataflow_hybrid, bench_dataflows };

// What bench/net.cu measures.
static const char *const bench_part_names[] = {"tables", "fig13",   "fig15",
                                               "table4", "batches", "deployed"};

enum {
    bench_part_tables,
    bench_part_fig13,
    bench_part_fig15,
    bench_part_table4,
    bench_part_batches,
    bench_part_deployed,
    bench_parts
};

// The bit of a name among others; 0: there is no such.
SPIRA_API int bench_bit(const char *const *names, int count, const char *name) {
    for (int i = 0; i < count; ++i) {
        if (strcmp(name, names[i]) == 0) {
            return 1 << i;
        }
    }
    return 0;
}

SPIRA_API bool bench_wants(const bench_options *o, int part) {
    return !o->parts || o->parts >> part & 1;
}

// One option and its value.
SPIRA_API bool bench_option(bench_options *o, const char *name, const char *value) {
    char rest;
    if (strcmp(name, "--out") == 0) {
        o->out = value;
        return true;
    }
    if (strcmp(name, "--voxel") == 0) {
        return sscanf(value, "%f%c", &o->voxel, &rest) == 1 && o->voxel > 0;
    }
    if (strcmp(name, "--multiprocessors") == 0) {
        return sscanf(value, "%d%c", &o->few, &rest) == 1 && o->few >= 1;
    }
    if (strcmp(name, "--columns") == 0) {
        return sscanf(value, "%d%c", &o->columns, &rest) == 1 && o->columns >= 3;
    }
    const int part = bench_bit(bench_part_names, bench_parts, value);
    if (strcmp(name, "--only") == 0 && part) {
        o->parts |= part;
        return true;
    }
    if (strcmp(name, "--only") == 0) {
        int got = sscanf(value, "%d,%d,%d%c", &o->only[0], &o->only[1], &o->only[2], &rest);
        return got == 3 && o->only[0] >= 1 && o->only[1] >= 1 && o->only[2] >= 1 && o->only[2] <= 7;
    }
    if (strcmp(name, "--sweep") == 0) {
        o->sweep_minuet = strcmp(value, "minuet") == 0;
        o->sweep_widths = strcmp(value, "widths") == 0;
        return o->sweep_minuet || o->sweep_widths;
    }
    if (strcmp(name, "--dataflow") == 0) {
        o->dataflows = strcmp(value, "all") == 0
                           ? (1 << bench_dataflows) - 1
                           : bench_bit(bench_dataflow_names, bench_dataflows, value);
        return o->dataflows != 0;
    }
    if (strcmp(name, "--threshold") == 0) {
        o->threshold = -1;
        return strcmp(value, "all") == 0 ||
               (sscanf(value, "%d%c", &o->threshold, &rest) == 1 && o->threshold >= 0);
    }
    if (strcmp(name, "--net") == 0) {
        o->net = value;
        return true;
    }
    if (strcmp(name, "--minuet") == 0) {
        int got = sscanf(value, "%d,%d%c", &o->minuet[0], &o->minuet[1], &rest);
        return got == 2 && o->minuet[0] >= 1 && o->minuet[0] <= 2048 && o->minuet[1] >= 16 &&
               o->minuet[1] <= 1 << 20;
    }
    o->dtype = bench_dtype(value);
    return strcmp(name, "--dtype") == 0 && o->dtype >= 0;
}

// Whether a figure takes a tenth of its usual time, and the random scene is left out: --quick.
[[maybe_unused]] static bool bench_quick;

SPIRA_API bench_options bench_options_read(int argc, char **argv) {
    bench_options o = {};
    o.dtype = -1;
    o.threshold = -1;
    o.dataflows = 1 << bench_dataflow_os;
    for (int i = 1; i < argc; ++i) {
        if (argv[i][0] != '-') {
            if (o.files == bench_files_most) {
                fprintf(stderr, "%s: more than %d scans\n", argv[i], (int)bench_files_most);
                exit(2);
            }
            o.file[o.files++] = argv[i];
        } else if (strcmp(argv[i], "--quick") == 0) {
            o.quick = bench_quick = true;
        } else if (strcmp(argv[i], "--help") == 0) {
            bench_usage(argv[0]);
            exit(0);
        } else if (i + 1 == argc || !bench_option(&o, argv[i], argv[i + 1])) {
            bench_refuse(argv[0], argv[i], i + 1 < argc ? argv[i + 1] : nullptr);
        } else {
            ++i;
        }
    }
    return o;
}

#endif
