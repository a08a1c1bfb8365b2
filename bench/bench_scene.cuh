// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/bench_scene.cuh: a session; its inputs as coordinate sets, kernel maps, layouts and lists,
// on the host and on the device, each compared with the other.
#ifndef SPIRA_BENCH_BENCH_SCENE_CUH
#define SPIRA_BENCH_BENCH_SCENE_CUH

#include "few.cuh"
#include "scenes.h"

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

SPIRA_API void bench_scan_read(const char *path, int columns, scan::scan_cloud *cloud) {
    scan::scan_options options = {};
    options.columns = columns;
    scan::scan_reason why;
    const spira::status s = scan::scan_read(path, &options, cloud, &why);
    if (spira::status_failed(s)) {
        bench_fail("%s", why.text);
    }
}

// A generated scene; the name is the caller's.
SPIRA_API void bench_input_scene(scenes_kind kind, int bits, int64_t voxels, bench_input *in) {
    scan::scan_cloud cloud = {};
    cloud.rows = voxels;
    cloud.columns = 3;
    cloud.voxels = (int32_t *)malloc((size_t)voxels * 3 * sizeof(int32_t));
    if (!cloud.voxels) {
        bench_fail("out of host memory");
    }
    BENCH_TRY(scenes_make(kind, bits, voxels, cloud.voxels));
    in->cloud = cloud;
}

// Makes the scene that a path names, NAME:VOXELS, as tracks:5000. Returns false if it names none.
SPIRA_API bool bench_input_named(const char *path, bench_input *in) {
    const char *colon = strrchr(path, ':');
    const int64_t voxels = colon ? atoll(colon + 1) : 0;
    for (int kind = 0; voxels > 0 && voxels <= INT32_MAX / 2 && kind < scenes_kinds; ++kind) {
        const size_t length = strlen(scenes_names[kind]);
        if ((size_t)(colon - path) == length && memcmp(path, scenes_names[kind], length) == 0) {
            bench_input_scene((scenes_kind)kind, 32, voxels, in);
            snprintf(in->name, sizeof in->name, "%s_%lld", scenes_names[kind], (long long)voxels);
            return true;
        }
    }
    return false;
}

SPIRA_API void bench_input_read(const char *path, const bench_options *o, bench_input *in) {
    if (bench_input_named(path, in)) {
        return;
    }
    const float voxel = o->voxel;
    bench_scan_read(path, o->columns, &in->cloud);
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
    scan::scan_cloud cloud = {};
    cloud.rows = voxels;
    cloud.columns = 3;
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
    char gpu[320];
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
    if (s->options.few) {
        bench_few = few_use(s->options.few);
        snprintf(s->gpu, sizeof s->gpu, "%s, %d multiprocessors", gpu.name, bench_few);
    }
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
        bench_input_read(s->options.file[f], &s->options, &input);
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

// Calls body(scene) with an input in words of W, if they hold it; frees all that is made.
template <typename W, typename F>
SPIRA_API void bench_words(bench_session *s, const bench_input *input, const F &body) {
    spira::word_layout layout;
    if (bench_layout(input, 8 * (int)sizeof(W), &layout)) {
        const bench_scene<W> scene = bench_scene_make<W>(&s->pool, input, &layout);
        body(&scene);
        bench_pool_free(&s->pool, 0);
    }
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
    BENCH_TRY(spira::downsample(bench_gpu(), &there, bench_device<char>(pool, (int64_t)bytes),
                                bytes, pool->stream));
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
    return spira::downsample(bench_gpu(), &w->args, w->scratch, w->scratch_bytes, stream);
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
    size_t scratch = 0;
    BENCH_TRY(spira::order_host_workspace(count, &scratch));
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

#endif
