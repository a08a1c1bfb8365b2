// bench/bench.cuh: what the benchmarks share.
//
// A benchmark is a program that takes scans on its command line, adds a random scene, and for each
// one builds a step, checks its result against the host loop, times it and prints one JSON object a
// line. Whatever goes wrong, a result that is not right above all, ends it with a message and a
// status that is not zero.
//
// How a step is timed. A CUDA graph is captured that holds 20 runs of the step, one after another.
// After a warm-up it is replayed in 20 pairs, with an event before and after the second replay of
// each pair, so that no launch from the host is timed. The figure is the median of these over 20:
// the time that one step adds to a chain of dependent work inside a graph. The host's launch gaps
// are out, the start of each kernel behind the one before it is in. Nothing is rotated: every run
// reads what the last one read, so that inputs which fit the L2 cache are in it, as they are in a
// network, where the step before has just written them. Whole networks are timed as their caller
// sees them instead: bench_wall_graph.
#ifndef SPIRA_BENCH_BENCH_CUH
#define SPIRA_BENCH_BENCH_CUH

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
    int only[3];       // cin, cout, K; 0: all layers
    bool sweep_minuet; // all block sizes of bench/search_minuet.cuh
    int dtype;         // a spira::numeric, or -1: all
    int dataflows;     // of the convolutions: bits of bench_dataflow_names
    int threshold;     // of the hybrid ones; -1: all there are
    int minuet[2];     // B, C of bench/search_minuet.cuh; 0: the best of a few
    int parts;         // of bench/net.cu: bits of bench_part_names; 0: all
    const char *net;   // null: all
    bool quick;        // fewer replays, scenes and cases
    const char *out;   // of tuning records; null: nowhere
    int files;
    const char *file[bench_files_most];
};

[[noreturn]] SPIRA_API void bench_usage(const char *program, const char *wrong) {
    fprintf(
        stderr,
        "%s\n"
        "usage: %s [--voxel METRES] [--only CIN,COUT,K] [--dtype fp16|bf16|tf32|fp32]\n"
        "       [--dataflow os|ws|hybrid|all] [--threshold T|all] [--minuet B,C] [--sweep minuet]\n"
        "       [--only tables|fig13|fig15|table4|batches|deployed] [--net NAME]\n"
        "       [--quick] [--out FILE] [SCAN...]\n"
        "SCAN is .vox32 (voxels), .xyz32, .bin, .pcd.bin or .npy; a random scene of the size of\n"
        "the first one is added. --only, --dtype and --dataflow (os) choose among the\n"
        "convolutions, --threshold (all) among the hybrid ones. --minuet sets the block sizes (B "
        "up\n"
        "to 2048, C 16 or more) of that search; --sweep minuet times it for a grid of both. Among\n"
        "the parts of bench_net, --only (again for more) and --net choose. --quick takes fewer "
        "cases\n"
        "and replays, and no random scene. bench_tune writes its records to --out.\n",
        wrong, program);
    exit(2);
}

SPIRA_API int bench_dtype(const char *name) {
    for (int n = spira::numeric_f32; n <= spira::numeric_bf16; ++n) {
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
        return o->sweep_minuet = strcmp(value, "minuet") == 0;
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
                bench_usage(argv[0], argv[i]);
            }
            o.file[o.files++] = argv[i];
        } else if (strcmp(argv[i], "--quick") == 0) {
            o.quick = bench_quick = true;
        } else if (i + 1 == argc || !bench_option(&o, argv[i], argv[i + 1])) {
            bench_usage(argv[0], argv[i]);
        } else {
            ++i;
        }
    }
    return o;
}

// ---- inputs -------------------------------------------------------------------------------------

struct bench_input {
    char name[128];
    scan::scan_cloud cloud; // voxels [rows, 3], in the order of the file; duplicates where it was
                            // points
    scan::scan_cloud raw;   // the points themselves, if the file has points
    int batches;            // 0: one
    const int32_t *batch;   // [rows] of each row; null: one batch
};

// The file's name without folders and suffix.
SPIRA_API void bench_stem(const char *path, char *name, size_t size) {
    const char *slash = strrchr(path, '/');
    snprintf(name, size, "%s", slash ? slash + 1 : path);
    char *dot = strrchr(name, '.');
    if (dot && dot != name) {
        *dot = 0;
    }
}

// Points become voxels: the rows stay, so that sorting has the scan's duplicates. The points are
// no longer the cloud's.
SPIRA_API void bench_quantise(scan::scan_cloud *cloud, float size, const char *path) {
    cloud->voxels = (int32_t *)malloc((size_t)cloud->rows * 3 * sizeof(int32_t));
    if (!cloud->voxels) {
        bench_fail("out of host memory");
    }
    for (int64_t i = 0; i < cloud->rows * 3; ++i) {
        float p = cloud->points[i / 3 * cloud->columns + i % 3];
        if (!spira::voxel_quantise(p, 0, size, &cloud->voxels[i])) {
            bench_fail("%s: row %lld is no voxel at %g m", path, (long long)(i / 3), (double)size);
        }
    }
    cloud->points = nullptr;
    cloud->columns = 3;
}

SPIRA_API void bench_input_read(const char *path, float voxel, bench_input *in) {
    BENCH_TRY(scan::scan_read(path, &in->cloud));
    bench_stem(path, in->name, sizeof in->name);
    if (in->cloud.rows < 1 || in->cloud.rows > INT32_MAX / 2) {
        bench_fail("%s: %lld rows", path, (long long)in->cloud.rows);
    }
    if (in->cloud.points) {
        float usual = scan::scan_has_suffix(path, ".xyz32") ? 0.02f : 0.05f;
        in->raw = in->cloud;
        bench_quantise(&in->cloud, voxel > 0 ? voxel : usual, path);
    }
}

// Distinct voxels scattered over a cube; the name is the caller's.
SPIRA_API void bench_input_cube(int64_t voxels, int side, bench_input *in) {
    const int extent[3] = {side, side, side};
    scan::scan_cloud cloud = {voxels, 3, nullptr, nullptr};
    cloud.voxels = (int32_t *)malloc((size_t)voxels * 3 * sizeof(int32_t));
    BENCH_TRY(scan::scan_scene_random(1, voxels, extent, cloud.voxels));
    in->cloud = cloud;
}

// Voxels scattered over a cube so that each of the 26 neighbours of one is there with the chance
// of 3/26: with the voxel itself about 4 pairs per output for K = 3, a few less at the faces.
SPIRA_API void bench_input_random(int64_t voxels, bench_input *in) {
    bench_input_cube(voxels, (int)ceil(cbrt((double)voxels * 26 / 3)), in);
    snprintf(in->name, sizeof in->name, "random_%lld", (long long)voxels);
}

enum { bench_reach = 16 }; // of the networks' offsets

// The layout for strides to 16 and offsets to `reach`: of 32 bits where that is enough.
SPIRA_API spira::word_layout bench_fit(const bench_input *in, int reach) {
    spira::word_layout layout;
    spira::word_need need = {};
    int32_t lo[3], hi[3];
    BENCH_TRY(scan::scan_bounds_voxels(&in->cloud, lo, hi));
    need.lo = {lo[0], lo[1], lo[2]};
    need.hi = {hi[0], hi[1], hi[2]};
    need.batches = in->batches ? in->batches : 1;
    need.stride = {16, 16, 16};
    need.reach = {reach, reach, reach};
    BENCH_TRY(spira::word_fit(&need, &layout));
    return layout;
}

// The layout that each of the networks asks for (strides to 16, offsets to 16): false if it is 64
// bits wide and 32 are wanted.
SPIRA_API bool bench_layout(const bench_input *in, int bits, spira::word_layout *layout) {
    *layout = bench_fit(in, bench_reach);
    bool fits = layout->bits <= bits;
    *layout = bits == 64 ? spira::word_widen(*layout) : *layout;
    if (!fits) {
        fprintf(stderr, "%s needs %d bits: no 32-bit words\n", in->name, spira::word_bits(layout));
    }
    return fits;
}

// ---- sessions -----------------------------------------------------------------------------------

struct bench_session {
    bench_options options;
    cudaStream_t stream;
    char gpu[256];
    bench_pool pool; // emptied after each input
    int inputs;      // before the one at hand
};

typedef void (*bench_body)(bench_session *s, const bench_input *input);

SPIRA_API bench_session *bench_session_open(int argc, char **argv) {
    bench_session *s = (bench_session *)calloc(1, sizeof *s);
    cudaDeviceProp gpu;
    if (!s) {
        bench_fail("out of host memory");
    }
    s->options = bench_options_read(argc, argv);
    BENCH_CUDA(cudaGetDeviceProperties(&gpu, 0));
    snprintf(s->gpu, sizeof s->gpu, "%s", gpu.name);
    BENCH_CUDA(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    s->pool.stream = s->stream;
    return s;
}

// What main returns.
SPIRA_API int bench_session_close(bench_session *s) {
    BENCH_CUDA(cudaStreamDestroy(s->stream));
    BENCH_CUDA(cudaDeviceSynchronize());
    free(s);
    return 0;
}

// Frees an input, and what was made of it.
SPIRA_API void bench_input_free(bench_session *s, bench_input *input) {
    bench_pool_free(&s->pool, 0);
    scan::scan_free(&input->cloud);
    scan::scan_free(&input->raw);
}

// A benchmark's main: the body over each scan of the command line, then over the random scene.
// With --quick the random scene only stands in for scans.
SPIRA_API int bench_main(int argc, char **argv, bench_body body) {
    bench_session *s = bench_session_open(argc, argv);
    int64_t rows = 100000; // of the random scene
    for (int f = 0; f < s->options.files; ++f) {
        bench_input input = {};
        bench_input_read(s->options.file[f], s->options.voxel, &input);
        rows = f == 0 ? input.cloud.rows : rows;
        body(s, &input);
        bench_input_free(s, &input);
        ++s->inputs;
    }
    if (!s->options.quick || !s->options.files) {
        bench_input scattered = {};
        bench_input_random(rows, &scattered);
        body(s, &scattered);
        bench_input_free(s, &scattered);
    }
    return bench_session_close(s);
}

// ---- scenes: an input as sets of words ----------------------------------------------------------

// A set in device memory, its capacity just its count, and the same on the host.
template <typename W>
struct bench_sets {
    spira::voxel_set<W> device, host;
};

template <typename W>
struct bench_scene;

template <typename W>
using bench_voxelizer = spira::status (*)(const bench_scene<W> *scene, cudaStream_t stream);

template <typename W>
struct bench_scene {
    const char *input;
    bench_voxelizer<W> voxelize;
    spira::word_layout layout;
    spira::voxel_input in;   // device memory
    spira::voxel_rows rows;  // device memory
    spira::voxel_set<W> set; // what voxelize writes: capacity for all rows
    bench_sets<W> fine;      // the same voxels, without the spare capacity
    spira::device_status *trouble;
    void *scratch; // of voxelize
    size_t scratch_bytes;
};

template <typename W>
SPIRA_API spira::voxelize_args<W> bench_voxelize_args(const bench_scene<W> *scene) {
    return {&scene->layout, &scene->in, scene->set, scene->rows, scene->trouble};
}

template <typename W, spira::voxel_limits limits>
SPIRA_API spira::status bench_voxelize_within(const bench_scene<W> *scene, cudaStream_t stream) {
    const spira::voxelize_args<W> args = bench_voxelize_args(scene);
    return spira::voxelize<W, limits>(&args, scene->scratch, scene->scratch_bytes, stream);
}

template <typename W>
SPIRA_API spira::status bench_voxelize(const bench_scene<W> *scene, cudaStream_t stream) {
    return scene->voxelize(scene, stream);
}

// The same as a step of a bench_scene.
template <typename W>
SPIRA_API spira::status bench_voxelize_step(void *scene, cudaStream_t stream) {
    return bench_voxelize((const bench_scene<W> *)scene, stream);
}

template <typename W>
SPIRA_API spira::voxel_set<W> bench_set_host(bench_pool *pool, int32_t capacity) {
    spira::voxel_set<W> set = {bench_host<W>(pool, capacity), bench_host<int32_t>(pool, 1),
                               capacity};
    return set;
}

template <typename W>
SPIRA_API spira::voxel_set<W> bench_set_device(bench_pool *pool, int32_t capacity) {
    spira::voxel_set<W> set = {bench_device<W>(pool, capacity), bench_device<int32_t>(pool, 1),
                               capacity};
    return set;
}

template <typename W>
SPIRA_API void bench_check_set(bench_pool *pool, spira::voxel_set<W> host,
                               spira::voxel_set<W> device, const char *input, const char *what) {
    bench_check_same(pool, host.count, device.count, 1, input, what);
    bench_check_same(pool, host.words, device.words, *host.count, input, what);
}

// Voxelises on the host what the device has voxelised, and compares everything. in: the scene's
// input in host memory.
template <typename W>
SPIRA_API void bench_scene_check(bench_pool *pool, const spira::voxel_input *in,
                                 bench_scene<W> *scene) {
    int32_t rows = in->rows;
    spira::voxel_set<W> set = bench_set_host<W>(pool, rows);
    int keep = pool->blocks;
    spira::voxel_rows where = {bench_host<int32_t>(pool, rows), bench_host<int32_t>(pool, rows),
                               bench_host<int32_t>(pool, (int64_t)rows + 1)};
    spira::device_status trouble = {};
    size_t bytes = 0;
    BENCH_TRY(spira::voxelize_host_workspace<W>(in, &bytes));
    char *scratch = bench_host_workspace(pool, bytes);
    const spira::voxelize_args<W> args = {&scene->layout, in, set, where, &trouble};
    BENCH_TRY(spira::voxelize_host(&args, scratch, bytes));
    bench_check_set(pool, set, scene->set, scene->input, "voxelize");
    bench_check_same(pool, where.voxel, scene->rows.voxel, rows, scene->input, "voxel of a row");
    bench_check_same(pool, where.begin, scene->rows.begin, (int64_t)*set.count + 1, scene->input,
                     "rows of a voxel");
    bench_check_same(pool, where.order, scene->rows.order, where.begin[*set.count], scene->input,
                     "order of the rows");
    bench_check_trouble(pool, scene->trouble);
    bench_pool_free(pool, keep);
    scene->fine.host = set;
    scene->fine.device = scene->set;
    scene->fine.host.capacity = scene->fine.device.capacity = *set.count;
}

// Uploads rows and sorts them into a set of voxels; checked.
//
// limits  what is compiled: voxel_limits_any for rows with a range
// in      in host memory
template <typename W, spira::voxel_limits limits = spira::voxel_limits_none>
SPIRA_API bench_scene<W> bench_scene_make(bench_pool *pool, const char *input,
                                          const spira::voxel_input *in,
                                          const spira::word_layout *layout) {
    bench_scene<W> scene = {};
    const int32_t rows = in->rows;
    const int64_t values = (int64_t)rows * in->columns;
    scene.input = input;
    scene.voxelize = bench_voxelize_within<W, limits>;
    scene.layout = *layout;
    scene.in = *in;
    scene.in.points = in->points ? bench_upload(pool, in->points, values) : nullptr;
    scene.in.coords = in->coords ? bench_upload(pool, in->coords, values) : nullptr;
    scene.in.batch = in->batch ? bench_upload(pool, in->batch, rows) : nullptr;
    scene.in.count = bench_upload(pool, in->count, 1);
    scene.rows = {bench_device<int32_t>(pool, rows), bench_device<int32_t>(pool, rows),
                  bench_device<int32_t>(pool, (int64_t)rows + 1)};
    scene.set = bench_set_device<W>(pool, rows);
    scene.trouble = bench_device<spira::device_status>(pool, 1);
    BENCH_TRY(spira::device_status_clear(scene.trouble, pool->stream));
    BENCH_TRY(spira::voxelize_workspace<W>(&scene.in, rows, &scene.scratch_bytes));
    scene.scratch = bench_device<char>(pool, (int64_t)scene.scratch_bytes);
    BENCH_TRY(bench_voxelize(&scene, pool->stream));
    bench_scene_check(pool, in, &scene);
    return scene;
}

// The voxels of an input as a scene.
template <typename W>
SPIRA_API bench_scene<W> bench_scene_make(bench_pool *pool, const bench_input *input,
                                          const spira::word_layout *layout) {
    const int32_t rows = (int32_t)input->cloud.rows;
    spira::voxel_input in = {};
    in.coords = input->cloud.voxels;
    in.batch = input->batch;
    in.count = &rows;
    in.rows = rows;
    in.columns = 3;
    return bench_scene_make<W>(pool, input->name, &in, layout);
}

// The scene's set at a stride; checked.
template <typename W>
SPIRA_API bench_sets<W> bench_coarse(bench_pool *pool, const bench_scene<W> *scene, int stride) {
    const spira::triple by = {stride, stride, stride};
    int32_t capacity = scene->fine.host.capacity;
    bench_sets<W> coarse = {bench_set_device<W>(pool, capacity), bench_set_host<W>(pool, capacity)};
    int keep = pool->blocks;
    spira::device_status trouble = {};
    const spira::downsample_args<W> here = {&scene->layout, scene->fine.host, {}, by,
                                            coarse.host,    &trouble};
    const spira::downsample_args<W> there = {&scene->layout, scene->fine.device, {}, by,
                                             coarse.device,  scene->trouble};
    size_t host_bytes = 0, bytes = 0;
    BENCH_TRY(spira::downsample_host_workspace(scene->fine.host, &host_bytes));
    char *host = bench_host_workspace(pool, host_bytes);
    BENCH_TRY(spira::downsample_host(&here, host, host_bytes));
    BENCH_TRY(spira::downsample_workspace(scene->fine.device, capacity, &bytes));
    BENCH_TRY(
        spira::downsample(&there, bench_device<char>(pool, (int64_t)bytes), bytes, pool->stream));
    bench_check_set(pool, coarse.host, coarse.device, scene->input, "downsample");
    bench_check_trouble(pool, scene->trouble);
    bench_pool_free(pool, keep);
    coarse.host.capacity = coarse.device.capacity = *coarse.host.count;
    return coarse;
}

// The step from a scene's set to the one at stride 2.
template <typename W>
struct bench_halve {
    spira::downsample_args<W> args;
    void *scratch;
    size_t scratch_bytes;
    int32_t outputs;
};

template <typename W>
SPIRA_API spira::status bench_halve_step(void *context, cudaStream_t stream) {
    const bench_halve<W> *w = (const bench_halve<W> *)context;
    return spira::downsample(&w->args, w->scratch, w->scratch_bytes, stream);
}

// Makes the step and checks it. The output set has room for as many voxels as the input, as it must
// have where nobody knows how many there will be. `args` point to the scene.
template <typename W>
SPIRA_API bench_halve<W> bench_halve_make(bench_pool *pool, const bench_scene<W> *scene) {
    const bench_sets<W> coarse = bench_coarse(pool, scene, 2);
    const int32_t voxels = scene->fine.host.capacity;
    bench_halve<W> w = {};
    w.args = {&scene->layout, scene->fine.device, {}, {2, 2, 2}, bench_set_device<W>(pool, voxels),
              scene->trouble};
    w.outputs = coarse.host.capacity;
    BENCH_TRY(spira::downsample_workspace(w.args.in, voxels, &w.scratch_bytes));
    w.scratch = bench_device<char>(pool, (int64_t)w.scratch_bytes);
    BENCH_TRY(bench_halve_step<W>(&w, pool->stream));
    bench_check_set(pool, coarse.host, w.args.out, scene->input, "downsample");
    return w;
}

// The scene of a layer whose map is made beforehand: the words do not matter then.
SPIRA_API bench_scene<uint64_t> bench_scene_wide(bench_pool *pool, const bench_input *input) {
    spira::word_layout layout;
    bench_layout(input, 64, &layout);
    return bench_scene_make<uint64_t>(pool, input, &layout);
}

// ---- maps and layouts ---------------------------------------------------------------------------

// The kernel map on the host; how many of its elements are pairs.
template <typename W>
SPIRA_API int32_t *bench_map_host(bench_pool *pool, const spira::word_layout *layout,
                                  const spira::kernel_shape *kernel, const bench_sets<W> *source,
                                  const bench_sets<W> *outputs, int64_t *pairs) {
    int64_t total = (int64_t)*outputs->host.count * spira::kernel_volume(kernel), found = 0;
    int32_t *map = bench_host<int32_t>(pool, total);
    BENCH_TRY(spira::map_build_host(layout, kernel, source->host, outputs->host, map));
#pragma omp parallel for reduction(+ : found)
    for (int64_t i = 0; i < total; ++i) {
        found += map[i] >= 0;
    }
    *pairs = found;
    return map;
}

// Fails where a submanifold map of a known scan has another number of pairs.
SPIRA_API void bench_check_pairs(const char *input, int K, int64_t pairs) {
    int64_t known = bench_pairs_known(input, K);
    if (known && pairs != known) {
        bench_fail("%s: K = %d has %lld pairs instead of %lld", input, K, (long long)pairs,
                   (long long)known);
    }
}

SPIRA_API spira::order_layout bench_order(bench_pool *pool, int32_t capacity, int volume,
                                          bool on_device) {
    spira::workspace count = spira::workspace_begin(nullptr);
    spira::order_layout_take(&count, capacity, volume);
    int64_t bytes = (int64_t)count.used;
    spira::workspace w = spira::workspace_begin(on_device ? bench_device<char>(pool, bytes)
                                                          : bench_host<char>(pool, bytes));
    return spira::order_layout_take(&w, capacity, volume);
}

// Scratch to build ordered layouts in one go.
SPIRA_API void *bench_order_scratch(bench_pool *pool, const spira::order_request *request, int maps,
                                    size_t *bytes) {
    BENCH_TRY(spira::order_workspace(request, maps, bytes));
    return bench_device<char>(pool, (int64_t)*bytes);
}

// What is written of a layout that is in host memory.
SPIRA_API int64_t bench_order_bytes(const spira::order_layout *t) {
    int64_t words = (int64_t)t->groups * spira::order_words(t->volume), offsets = 0;
    for (int64_t w = 0; w < words; ++w) {
        offsets += __builtin_popcount(t->mask[w]);
    }
    return words * (int64_t)sizeof *t->mask +
           spira::order_pairs(t->groups) * (int64_t)sizeof *t->schedule +
           spira::order_rows * ((int64_t)t->groups * (int64_t)sizeof *t->row +
                                offsets * (int64_t)sizeof *t->source);
}

// Compares an ordered layout with the one that the host makes of the same map [count, volume]: what
// is written, and that the rest still is as it came. Returns how many bytes are written.
SPIRA_API int64_t bench_check_order(bench_pool *pool, const spira::kernel_shape *kernel,
                                    const int32_t *map, int32_t count, spira::order_layout device,
                                    const char *input) {
    int keep = pool->blocks;
    spira::order_layout host = bench_order(pool, count, device.volume, false);
    int64_t entries = spira::order_begin(&host, host.groups, 0);
    memset(host.source, bench_poison, (size_t)entries * sizeof *host.source);
    size_t scratch = spira::order_host_workspace(count);
    spira::order_request request = {};
    request.kernel = *kernel;
    request.map = map;
    request.count = &count;
    request.capacity = count;
    request.layout = host;
    BENCH_TRY(spira::order_build_host(&request, bench_host_workspace(pool, scratch), scratch));
    bench_check_same(pool, host.row, device.row, (int64_t)host.groups * spira::order_rows, input,
                     "ordered outputs");
    bench_check_same(pool, host.mask, device.mask,
                     (int64_t)host.groups * spira::order_words(host.volume), input,
                     "offsets of the blocks of outputs");
    bench_check_same(pool, host.source, device.source, entries, input,
                     "source rows of the blocks of outputs");
    bench_check_same(pool, host.schedule, device.schedule, (int64_t)spira::order_pairs(host.groups),
                     input, "turns of the blocks of outputs");
    int64_t bytes = bench_order_bytes(&host);
    bench_pool_free(pool, keep);
    return bytes;
}

// Builds the ordered layout of the request's map over the scene's voxels.
SPIRA_API void bench_order_make(bench_pool *pool, const bench_scene<uint64_t> *scene,
                                spira::order_request *request, spira::conv_map *map) {
    const spira::voxel_set<uint64_t> set = scene->fine.device;
    const int volume = spira::kernel_norm_count(&request->kernel,
                                                request->threshold ? request->threshold : INT_MAX,
                                                spira::kernel_volume(&request->kernel));
    size_t bytes = 0;
    request->count = set.count;
    request->capacity = set.capacity;
    request->layout = bench_order(pool, set.capacity, volume, true);
    *map = spira::conv_map_of_order(&request->layout, set.count, set.capacity);
    int keep = pool->blocks;
    void *scratch = bench_order_scratch(pool, request, 1, &bytes);
    BENCH_TRY(spira::order_build(bench_gpu(), request, 1, scratch, bytes, pool->stream));
    bench_pool_free(pool, keep);
}

// ---- lists, and both by a threshold -------------------------------------------------------------

// A submanifold layer's pairs as lists. pairs: room in them; forms: what else the search writes;
// nothing, and all pairs are in the lists.
SPIRA_API spira::map_lists bench_lists(bench_pool *pool, const bench_scene<uint64_t> *scene,
                                       const spira::kernel_shape *kernel, int64_t pairs,
                                       spira::map_forms forms = {}) {
    const int32_t room = (int32_t)pairs;
    spira::map_lists lists = {bench_device<int32_t>(pool, spira::kernel_volume(kernel) + 1),
                              bench_device<int32_t>(pool, room), bench_device<int32_t>(pool, room),
                              room};
    size_t bytes = 0;
    BENCH_TRY(spira::map_lists_workspace(kernel, scene->fine.device.capacity, &bytes));
    int keep = pool->blocks;
    forms.trouble = scene->trouble;
    const spira::map_request<uint64_t> request = {*kernel, scene->fine.device, scene->fine.device,
                                                  forms};
    BENCH_TRY(spira::map_build_lists(&scene->layout, &request, &lists,
                                     bench_device<char>(pool, (int64_t)bytes), bytes,
                                     pool->stream));
    bench_check_trouble(pool, scene->trouble);
    bench_pool_free(pool, keep);
    return lists;
}

// A submanifold layer by both dataflows: its lists, its layout and its packed weights. a: shape,
// kernel, threshold; it is given the map, that of the dense offsets. pairs: of the map; weight
// [volume, cin, cout], device.
SPIRA_API void bench_hybrid_make(bench_pool *pool, const bench_scene<uint64_t> *scene,
                                 int64_t pairs, const float *weight, spira::conv_hybrid_args *a,
                                 spira::conv_map *map) {
    const int columns = spira::map_os_columns(&a->kernel, a->threshold, false);
    *map = spira::conv_map_identity(scene->fine.device.count, scene->fine.device.capacity);
    a->map = map;
    spira::map_forms forms = spira::map_forms_os(nullptr);
    forms.threshold = a->threshold;
    if (columns) {
        forms.os = bench_device<int32_t>(pool, (int64_t)map->capacity * columns);
    }
    a->pairs = bench_lists(pool, scene, &a->kernel, pairs, forms);
    if (columns) {
        spira::order_request request = {};
        request.kernel = a->kernel;
        request.threshold = a->threshold;
        request.map = forms.os;
        bench_order_make(pool, scene, &request, map);
    }
    size_t bytes = 0;
    BENCH_TRY(spira::conv_hybrid_weights_bytes(bench_gpu(), a, &bytes));
    char *packed = bench_device<char>(pool, (int64_t)bytes);
    const spira::conv_weights weights = {weight, packed, bytes, nullptr};
    BENCH_TRY(spira::conv_hybrid_weights_pack(bench_gpu(), a, &weights, pool->stream));
    a->weights = packed;
}

// ---- timing -------------------------------------------------------------------------------------

typedef spira::status (*bench_step)(void *context, cudaStream_t stream);

enum {
    bench_steps = 20,
    bench_replays = 20,
    bench_warm_us = 20000,
    bench_most_us = 400000,
    bench_quick_part = 10, // of these times with --quick
};

// The warm-up, or the time of a figure, in microseconds.
SPIRA_API double bench_budget(double us) {
    return bench_quick ? us / bench_quick_part : us;
}

struct bench_time {
    double us; // of one step
    int runs;  // steps that were timed
};

// A graph of so many runs of a step, one after another.
SPIRA_API cudaGraphExec_t bench_capture(cudaStream_t stream, bench_step step, void *context,
                                        int steps) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    BENCH_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < steps; ++i) {
        BENCH_TRY(step(context, stream));
    }
    BENCH_CUDA(cudaStreamEndCapture(stream, &graph));
    BENCH_CUDA(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    BENCH_CUDA(cudaGraphDestroy(graph));
    return exec;
}

SPIRA_API double bench_median(double *values, int count) {
    std::sort(values, values + count);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

enum { bench_wall_runs = 200, bench_least = 5 };

// Times a step between two events: the median of up to `runs` (at most bench_wall_runs), of fewer
// where they would take more than about most_us. behind: each run starts right behind another one,
// so that the host's part is hidden; else in a stream with nothing else.
SPIRA_API bench_time bench_repeat(cudaStream_t stream, bench_step step, void *context, int runs,
                                  double most_us, bool behind) {
    double us[bench_wall_runs], last = 0, warm = 0;
    cudaEvent_t at[2];
    BENCH_CUDA(cudaEventCreate(&at[0]));
    BENCH_CUDA(cudaEventCreate(&at[1]));
    const auto once = [&] {
        float ms;
        if (behind) {
            BENCH_TRY(step(context, stream));
        }
        BENCH_CUDA(cudaEventRecord(at[0], stream));
        BENCH_TRY(step(context, stream));
        BENCH_CUDA(cudaEventRecord(at[1], stream));
        BENCH_CUDA(cudaEventSynchronize(at[1]));
        BENCH_CUDA(cudaEventElapsedTime(&ms, at[0], at[1]));
        return 1000.0 * (double)ms;
    };
    for (int i = 0; i < 3 || warm < bench_budget(bench_warm_us); ++i) {
        last = once();
        warm += last;
    }
    runs = (int)fmin(runs, fmax(bench_least, most_us / last));
    for (int i = 0; i < runs; ++i) {
        us[i] = once();
    }
    BENCH_CUDA(cudaEventDestroy(at[0]));
    BENCH_CUDA(cudaEventDestroy(at[1]));
    BENCH_CUDA(cudaGetLastError());
    return {bench_median(us, runs), runs};
}

// A step that replays a graph: the context is a cudaGraphExec_t.
SPIRA_API spira::status bench_graph_step(void *context, cudaStream_t stream) {
    return spira::status_from_cuda(cudaGraphLaunch((cudaGraphExec_t)context, stream), "graph");
}

// Times a step as the top of this file says, but with fewer replays where they would take more
// than about most_us.
SPIRA_API bench_time bench_measure_within(cudaStream_t stream, bench_step step, void *context,
                                          double most_us) {
    cudaGraphExec_t exec = bench_capture(stream, step, context, bench_steps);
    const bench_time t =
        bench_repeat(stream, bench_graph_step, exec, bench_replays, bench_budget(most_us), true);
    BENCH_CUDA(cudaGraphExecDestroy(exec));
    return {t.us / bench_steps, t.runs * bench_steps};
}

// A step of over a millisecond gets fewer replays.
SPIRA_API bench_time bench_measure(cudaStream_t stream, bench_step step, void *context) {
    return bench_measure_within(stream, step, context, bench_most_us);
}

// Times a step as its caller sees it, in a graph of one run.
SPIRA_API bench_time bench_wall_graph(cudaStream_t stream, bench_step step, void *context, int runs,
                                      double most_us) {
    cudaGraphExec_t exec = bench_capture(stream, step, context, 1);
    const bench_time t = bench_repeat(stream, bench_graph_step, exec, runs, most_us, false);
    BENCH_CUDA(cudaGraphExecDestroy(exec));
    return t;
}

// Which row number `sample` of `samples` is: random ones, the first and the last among them; all
// rows where there are few.
SPIRA_API int bench_sample(int32_t rows, int samples, int sample) {
    return rows <= samples ? sample
           : sample == 0   ? 0
           : sample == 1   ? rows - 1
                           : (int)(scan::scene_mix((uint64_t)sample) % (uint64_t)rows);
}

// ---- results ------------------------------------------------------------------------------------

// One line. Zero and null: the key does not apply.
struct bench_row {
    const char *bench, *input;
    int voxels;  // of the input, at stride 1
    int outputs; // where they are others than the voxels
    int K, cin, cout;
    const char *dtype;
    int word;
    const char *layout, *dataflow, *net, *method, *pass;
    int batch;      // scans
    int t;          // of hybrid layouts
    int B, C;       // of the method "minuet"
    double density; // voxels per cell, percent
    double ratio;   // of the time to that of a scene to compare with
    bench_time time;
    int64_t pairs, bytes, flops;
    // Of a network's `bytes`: sets and maps, features, what lives for a step, loaded parameters.
    int64_t index_bytes, feature_bytes, scratch_bytes, parameter_bytes;
};

SPIRA_API void bench_print_text(const char *key, const char *value) {
    if (value) {
        printf(", \"%s\": \"", key);
        for (; *value; ++value) {
            bool plain = (unsigned char)*value >= ' ' && *value != '"' && *value != '\\';
            putchar(plain ? *value : '_');
        }
        putchar('"');
    }
}

SPIRA_API void bench_print_count(const char *key, int64_t value) {
    if (value) {
        printf(", \"%s\": %lld", key, (long long)value);
    }
}

SPIRA_API void bench_print_figure(const char *key, double value) {
    if (value > 0) {
        printf(", \"%s\": %.3f", key, value);
    }
}

// What there is to compare with: only on the GPU, and for the format and the words, that it was
// measured for. Maps and layouts are bound by writing their bytes.
SPIRA_API void bench_print_targets(const bench_session *s, const bench_row *r) {
    if (!strstr(s->gpu, BENCH_TARGET_GPU)) {
        return;
    }
    bool network = strcmp(r->bench, "net") == 0 && bench_same_text(r->method, "graph");
    const char *form = network ? r->net : r->layout ? r->layout : r->method;
    bool narrow = r->word != 64 || bench_same_text(r->input, BENCH_NUSCENES); // as can be
    bool comparable = narrow && (!r->dtype || strcmp(r->dtype, "fp16") == 0);
    const bench_target *t =
        comparable ? bench_target_find(r->bench, r->input, form, r->cin, r->cout, r->K) : nullptr;
    int64_t memory = network && comparable ? bench_memory_target(r->input, r->net) : 0;
    bool writes = strcmp(r->bench, "map") == 0 || strcmp(r->bench, "index") == 0;
    bench_print_figure("target_us", t ? t->us : 0);
    bench_print_count("target_bytes", memory);
    bench_print_figure("limit_us", writes ? bench_write_us((double)r->bytes) : t ? t->limit_us : 0);
}

// Prints a row as one JSON object on one line.
SPIRA_API void bench_print(const bench_session *s, const bench_row *r) {
    printf("{\"bench\": \"%s\"", r->bench);
    bench_print_text("input", r->input);
    bench_print_count("voxels", r->voxels);
    bench_print_count("outputs", r->outputs);
    bench_print_count("K", r->K);
    bench_print_count("cin", r->cin);
    bench_print_count("cout", r->cout);
    bench_print_text("dtype", r->dtype);
    bench_print_count("word", r->word);
    bench_print_text("layout", r->layout);
    bench_print_text("dataflow", r->dataflow);
    if (bench_same_text(r->layout, "hybrid")) { // 0 is one of them
        printf(", \"t\": %d", r->t);
    }
    bench_print_text("net", r->net);
    bench_print_text("method", r->method);
    bench_print_text("pass", r->pass);
    bench_print_count("batch", r->batch);
    bench_print_count("B", r->B);
    bench_print_count("C", r->C);
    bench_print_figure("density", r->density);
    printf(", \"us\": %.3f", r->time.us);
    bench_print_figure("ratio", r->ratio);
    bench_print_count("runs", r->time.runs);
    bench_print_count("pairs", r->pairs);
    bench_print_count("bytes", r->bytes);
    bench_print_count("index_bytes", r->index_bytes);
    bench_print_count("feature_bytes", r->feature_bytes);
    bench_print_count("scratch_bytes", r->scratch_bytes);
    bench_print_count("parameter_bytes", r->parameter_bytes);
    bench_print_count("flops", r->flops);
    bench_print_targets(s, r);
    bench_print_text("gpu", s->gpu);
    printf(", \"arch\": \"%d%s\"", bench_gpu()->capability, bench_gpu()->hopper ? "a" : "");
    printf("}\n");
    fflush(stdout);
}

template <typename W>
SPIRA_API bench_row bench_row_make(const char *bench, const bench_scene<W> *scene) {
    bench_row row = {};
    row.bench = bench;
    row.input = scene->input;
    row.voxels = scene->fine.host.capacity;
    return row;
}

#endif
