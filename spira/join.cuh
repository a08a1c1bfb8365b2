// spira/join.cuh: unions and projections of sets on the GPU, and sums of their features. What they
// are, and the host loops: join.h.
//
// The words of all sets become one sorted array with repeats (index/join_merge.cuh). The result is
// made from it as voxels are made from sorted points (index/unique.cuh).
#ifndef SPIRA_JOIN_CUH
#define SPIRA_JOIN_CUH

#include "base/wide.cuh"
#include "device.h"
#include "index/join_merge.cuh"
#include "index/unique.cuh"
#include "join.h"

namespace spira {

template <typename W>
struct join_scratch {
    W *sorted;              // [total]
    int32_t *voxel;         // [total] the voxel of each source row
    int32_t *heads;         // see unique_launch
    radix_scratch<W> radix; // where x or y is dropped
};

SPIRA_API bool join_sorts(join_axis axis) {
    return axis == join_axis_x || axis == join_axis_y;
}

template <typename W>
SPIRA_API void join_carve(workspace *w, const join_args<W> *a, int32_t total, join_scratch<W> *s) {
    *s = {};
    s->sorted = workspace_take<W>(w, total);
    s->voxel = workspace_take<int32_t>(w, total);
    s->heads = workspace_take<int32_t>(w, unique_cut_make(total, a->out.capacity).blocks);
    if (join_sorts(a->axis)) {
        radix_carve(w, total, true, &s->radix);
    }
}

// Bytes of scratch for join. Reads `sets`, `axis` and the capacities alone.
template <typename W>
SPIRA_API status join_workspace(const join_args<W> *args, size_t *bytes) {
    int32_t total;
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    SPIRA_TRY(join_sources(args, &total));
    SPIRA_REQUIRE(args->out.capacity >= 1, status_bad_size, "out.capacity", args->out.capacity);
    workspace w = workspace_begin(nullptr);
    join_scratch<W> s;
    join_carve(&w, args, total, &s);
    *bytes = w.used;
    return status_success();
}

// The union of up to four sets, the projection of a set along an axis, or the projection of a
// union.
//
// inputs   args: see join_args. All sets have words of args.words
// outputs  args.out: the set, then word_none(), and its count
//          args.rows: begin [count + 1], order [begin[count]]: the source rows of each voxel; the
//          rest is unspecified
//          args.trouble: the count of a set above its capacity; the number of voxels, if it is
//          above out.capacity. Voxels that do not fit are left out
// errors   null or misaligned pointers; sizes; 2^30 or more source rows; `at` outside of the
//          layout; `out` that is one of the sets; a workspace that is too small
// scratch  join_workspace bytes, aligned to 256
// Asynchronous, deterministic, equal to join_host. Nothing may overlap.
// cost     three small kernels; a binary search of each other set for each source row. Where x or y
//          is dropped, a radix sort of the words with their rows instead of the search
template <typename W>
SPIRA_API status join(const join_args<W> *args, void *scratch, size_t scratch_bytes,
                      cudaStream_t stream) {
    size_t needed;
    int32_t total;
    SPIRA_TRY(join_check(args));
    SPIRA_TRY(join_sources(args, &total));
    SPIRA_TRY(join_workspace(args, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    workspace w = workspace_begin(scratch);
    join_scratch<W> s;
    join_carve(&w, args, total, &s);
    const join_task<W> task = join_task_make(args, total);
    const unsigned blocks = (unsigned)ceil_div(total, join_threads);
    if (join_sorts(args->axis)) {
        const int bits = word_bits(args->words);
        SPIRA_TRY(kernel_launch(join_words_kernel<W>, {blocks, join_threads, stream, "join"}, task,
                                radix_input(&s.radix, s.sorted, 0, bits)));
        SPIRA_TRY(radix_sort_rows(&s.radix, s.sorted, args->rows.order, 0, bits, stream));
    } else {
        SPIRA_TRY(kernel_launch(join_merge_kernel<W>, {blocks, join_threads, stream, "join"}, task,
                                s.sorted, args->rows.order));
    }
    const voxel_rows rows = {s.voxel, args->rows.order, args->rows.begin};
    return unique_launch<W>({s.sorted, total, s.heads, args->out, rows, false, args->trouble},
                            stream);
}

// ---- sums ---------------------------------------------------------------------------------------

enum { join_channels = 8 }; // of a thread

// What the kernel needs of join_sum_args.
struct join_sum_task {
    const void *in[join_sets_max];
    int32_t bases[join_sets_max];
    int channels, groups; // groups of join_channels
    join_rows rows;
    const int32_t *count;
    int32_t capacity;
    bool wide_in, wide_out; // 8 channels may be read, or written, at once
    void *out;
};

// A thread sums 8 channels of a voxel.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(join_threads)
    join_sum_kernel(const __grid_constant__ join_sum_task task) {
    const int64_t i = (int64_t)blockIdx.x * join_threads + threadIdx.x;
    const int64_t voxel = i / task.groups;
    const int first = (int)(i % task.groups) * join_channels;
    const bool there = voxel < min_of(*task.count, task.capacity);
    const int32_t begin = there ? task.rows.begin[voxel] : 0;
    const int32_t end = there ? task.rows.begin[voxel + 1] : 0;
    pdl_wait(); // for the features; in every thread block
    if (!there) {
        return;
    }
    float sum[join_channels] = {};
    wide_elements<E, join_channels> row_of;
    for (int32_t r = begin; r < end; ++r) {
        int32_t row;
        const int set = join_set_of(task.bases, task.rows.order[r], &row);
        const E *in = (const E *)task.in[set];
        wide_read_channels(in + (int64_t)row * task.channels, task.channels, first, task.wide_in,
                           row_of);
#pragma unroll
        for (int k = 0; k < join_channels; ++k) {
            const float x = element_to_float(row_of.at[k]);
            sum[k] = r == begin ? x : sum[k] + x;
        }
    }
#pragma unroll
    for (int k = 0; k < join_channels; ++k) {
        row_of.at[k] = element_from_float<E>(sum[k]);
    }
    wide_write_channels(row_of, (E *)task.out + voxel * task.channels, task.channels, first,
                        task.wide_out);
}

SPIRA_API join_sum_task join_sum_task_make(const join_sum_args *a) {
    join_sum_task t = {};
    const bool whole = a->channels % join_channels == 0;
    join_bases(a->capacity, a->sets, t.bases);
    t.channels = a->channels;
    t.groups = (int)ceil_div(a->channels, join_channels);
    t.rows = a->rows;
    t.count = a->count;
    t.capacity = a->out_capacity;
    t.wide_in = whole;
    for (int s = 0; s < a->sets; ++s) {
        t.in[s] = a->in[s];
        t.wide_in = t.wide_in && wide_aligned(a->in[s], 16);
    }
    t.wide_out = whole && wide_aligned(a->out, 16);
    t.out = a->out;
    return t;
}

// The features of a joined set: sums over the source rows of each voxel.
//
// inputs   args: see join_sum_args; rows and count of `join`. `format` is the only format that is
//          compiled
// outputs  args.out [count, channels]: sums in fp32, in the order of the rows (join.h), rounded
//          once. Rows from the count on are not written
// errors   null or misaligned pointers; sizes; `out` that is one of `in`
// Asynchronous, deterministic, equal to join_sum_host (a NaN may have other bits).
// cost     one launch, no scratch; it reads each source row once. Reads and writes are widest if
//          channels is a multiple of 8 and the arrays are aligned to 16 bytes
template <numeric format = numeric_any>
SPIRA_API status join_sum(const device_info *gpu, const join_sum_args *args, cudaStream_t stream) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(join_sum_check(args));
    const join_sum_task task = join_sum_task_make(args);
    const int64_t blocks = ceil_div((int64_t)args->out_capacity * task.groups, join_threads);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "channels (times out_capacity)",
                  args->channels);
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        return kernel_launch(join_sum_kernel<E>,
                             {(unsigned)blocks, join_threads, stream, "join_sum",
                              args->programmatic && gpu->programmatic},
                             task);
    });
}

} // namespace spira

#endif
