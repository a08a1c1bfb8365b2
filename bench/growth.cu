// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/growth.cu: how the searches of search.cu grow with the scene, and with its density.
//
//     build/bench_growth [--quick]
//
// Bench "growth": random scenes of 10,000 to 5,000,000 voxels, about 4 pairs per output for K = 3.
// Bench "density": 200^3 cells, of which 0.12 to 12.5 % are voxels; `density` is in percent.
// K = 3 and 5, 32-bit words. Takes no scans; those of the command line are left alone.
#include "search_all.cuh"

enum { growth_most_us = 100000, growth_cube = 200, growth_cells = 8000000 };

static const int growth_voxels[] = {10000, 30000, 100000, 300000, 1000000, 2000000, 5000000};
static const double growth_percent[] = {0.12, 0.25, 0.5, 1, 2, 4, 8, 12.5};

// The scene as a set: packed and sorted by the host, which takes less than voxelising it here and
// there to compare. The voxels are distinct.
static bench_sets<uint32_t> growth_set(bench_pool *pool, const bench_input *input,
                                       const spira::word_layout *layout) {
    int32_t count = (int32_t)input->cloud.rows;
    bench_sets<uint32_t> set;
    set.host = bench_set_host<uint32_t>(pool, count);
    *set.host.count = count;
#pragma omp parallel for
    for (int32_t i = 0; i < count; ++i) {
        const int32_t *v = input->cloud.voxels + (int64_t)i * 3;
        set.host.words[i] = spira::word_pack<uint32_t>(layout, spira::voxel{0, v[0], v[1], v[2]});
    }
    std::sort(set.host.words, set.host.words + count);
    set.device = {bench_upload(pool, set.host.words, count), bench_upload(pool, &count, 1), count};
    return set;
}

static void growth_run(bench_session *s, const bench_input *input, bench_row row) {
    spira::word_layout layout;
    if (!bench_layout(input, 32, &layout)) {
        return;
    }
    bench_sets<uint32_t> set = growth_set(&s->pool, input, &layout);
    search_work<uint32_t> work = search_work_make(&s->pool, &layout, set, input->name);
    row.input = input->name;
    for (int K = 3; K <= 5; K += 2) {
        double bytes = 4.0 * K * K * K * set.host.capacity;
        if (bench_memory(bytes)) {
            search_run(s, &work, row, K, growth_most_us);
        } else {
            fprintf(stderr, "%s: left out: a map of %.1f GiB\n", input->name, ldexp(bytes, -30));
        }
    }
}

static void growth_run_size(bench_session *s, int voxels) {
    bench_input input = {};
    bench_row row = {};
    bench_input_random(voxels, &input);
    row.bench = "growth";
    growth_run(s, &input, row);
    bench_input_free(s, &input);
}

static void growth_run_density(bench_session *s, double percent) {
    bench_input input = {};
    bench_row row = {};
    bench_input_cube(llround(growth_cells * percent / 100), growth_cube, &input);
    snprintf(input.name, sizeof input.name, "cube%d_%g%%", growth_cube, percent);
    row.bench = "density";
    row.density = percent;
    growth_run(s, &input, row);
    bench_input_free(s, &input);
}

int main(int argc, char **argv) {
    bench_session *s = bench_session_open(argc, argv);
    const int most = s->options.quick ? 300000 : INT32_MAX; // voxels
    for (int voxels : growth_voxels) {
        if (voxels <= most) {
            growth_run_size(s, voxels);
        }
    }
    for (double percent : growth_percent) {
        if (growth_cells * percent / 100 <= most) {
            growth_run_density(s, percent);
        }
    }
    return bench_session_close(s);
}
