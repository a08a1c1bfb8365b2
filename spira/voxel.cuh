// spira/voxel.cuh: voxelisation on the GPU, and features of the voxels.
//
// voxelize packs each row into a word and sorts words with their rows (index/sort.cuh), then
// removes repeats and numbers the voxels (index/unique.cuh). The types and the host loops are in
// voxel.h.
#ifndef SPIRA_VOXEL_CUH
#define SPIRA_VOXEL_CUH

#include "index/sort.cuh"
#include "index/unique.cuh"
#include "numeric.cuh"
#include "voxel.h"

namespace spira {

template <typename W>
struct voxelize_scratch {
    W *sorted; // [rows]
    int32_t *heads;
    sort_scratch<W> sort;
};

template <typename W>
SPIRA_API status voxelize_carve(workspace *w, int32_t rows, int32_t capacity,
                                voxelize_scratch<W> *s) {
    s->sorted = workspace_take<W>(w, rows);
    s->heads = workspace_take<int32_t>(w, unique_cut_make(rows, capacity).blocks);
    return sort_carve(w, rows, &s->sort);
}

// The input as a source of the sort (index/sort_source.cuh), whose kernels pack the words.
template <typename W, bool points>
struct voxelize_source {
    word_layout layout;
    voxel_input in;
    device_status *trouble;
};

template <typename W, bool points>
SPIRA_DEVICE int32_t sort_rows(const voxelize_source<W, points> &from) {
    return *from.in.count;
}

// Rows behind the count are not read: they may be uninitialised.
template <typename W, bool points>
SPIRA_DEVICE voxel_raw sort_load(const voxelize_source<W, points> &from, int32_t row) {
    return voxel_load<points>(&from.in, row);
}

template <typename W, bool points>
SPIRA_DEVICE W sort_word(const voxelize_source<W, points> &from, const voxel_raw &raw, int32_t row,
                         int32_t there, bool report) {
    if (report && row == 0 && there > from.in.rows) {
        device_status_raise(from.trouble, device_flag_capacity, (uint32_t)there);
    }
    if (row >= there) {
        return word_none<W>();
    }
    W word;
    voxel_verdict verdict = voxel_word<points>(&from.layout, &from.in, &raw, &word);
    if (report && verdict != voxel_good) {
        device_status_raise(
            from.trouble, verdict == voxel_not_finite ? device_flag_not_finite : device_flag_range,
            (uint32_t)row);
    }
    return word;
}

// Sorts the words of all rows of an input (sort_source).
template <typename W>
SPIRA_API status voxelize_sort(const word_layout *layout, const voxel_input *in,
                               device_status *trouble, W *sorted, int32_t *order,
                               sort_scratch<W> *s, cudaStream_t stream) {
    if (in->points) {
        voxelize_source<W, true> from = {*layout, *in, trouble};
        return sort_source(from, in->rows, word_bits(layout), sorted, order, s, stream);
    }
    voxelize_source<W, false> from = {*layout, *in, trouble};
    return sort_source(from, in->rows, word_bits(layout), sorted, order, s, stream);
}

// Bytes of scratch for voxelize: rows of `in` into a set of `capacity`.
template <typename W>
SPIRA_API status voxelize_workspace(const voxel_input *in, int32_t capacity, size_t *bytes) {
    SPIRA_TRY(voxel_input_check(in));
    SPIRA_REQUIRE(capacity >= 1, status_bad_size, "capacity", capacity);
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    voxelize_scratch<W> s;
    SPIRA_TRY(voxelize_carve<W>(&w, in->rows, capacity, &s));
    *bytes = w.used;
    return status_success();
}

// Voxelises points or integer coordinates (Spira paper: packed-native processing).
//
// inputs   layout: fitted to the scene (word_fit); in: see voxel_input, all in device memory
// outputs  set: the voxels, ascending, then word_none(), and their count
//          rows: which row fell into which voxel; rows.voxel is -1 for rows behind the count
//          trouble: records the first row that is not finite, the first one out of the layout, and
//          with duplicates_report the first one that repeats a voxel; the first two kinds of rows
//          are dropped. Voxels beyond the capacity are dropped and their number is recorded, and so
//          is a count above in->rows
// errors   null or misaligned pointers, sizes, a layout of another word, a workspace that is too
//          small
// scratch  voxelize_workspace bytes, aligned to 256
// Asynchronous, deterministic, bit-identical to voxelize_host.
// cost     a sort of (word, row) pairs, in three launches up to 2^20 rows, and two small kernels
template <typename W>
SPIRA_API status voxelize(const word_layout *layout, const voxel_input *in, voxel_set<W> set,
                          voxel_rows rows, device_status *trouble, void *scratch,
                          size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_TRY(word_check<W>(layout));
    SPIRA_TRY(voxel_set_check(&set));
    SPIRA_TRY(voxel_rows_check(&rows));
    SPIRA_TRY(pointer_check(trouble, alignof(device_status), "trouble"));
    size_t needed;
    SPIRA_TRY(voxelize_workspace<W>(in, set.capacity, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    workspace w = workspace_begin(scratch);
    voxelize_scratch<W> s;
    SPIRA_TRY(voxelize_carve<W>(&w, in->rows, set.capacity, &s));
    SPIRA_TRY(voxelize_sort(layout, in, trouble, s.sorted, rows.order, &s.sort, stream));
    return unique_launch(s.sorted, in->rows, s.heads, set, rows,
                         in->duplicates == duplicates_report, trouble, stream);
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(256)
    voxel_features_kernel(voxel_feature kind, const float *values, int columns, int channels,
                          voxel_rows rows, const int32_t *count, int32_t capacity, E *features) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int64_t v = i / channels;
    if (v < min_of(*count, capacity)) {
        features[i] = element_from_float<E>(
            voxel_feature_value(kind, values, columns, &rows, (int32_t)v, (int)(i % channels)));
    }
}

// The features of the voxels from the values of their rows.
//
// format   numeric_any: chosen by `type` at run time. A caller that names the format compiles the
//          code for that one alone, and must pass the same `type`
// inputs   values [rows, columns], of which the first `channels` are used
//          rows: written by voxelize; rows.voxel is not used
//          count [1]: voxels; a larger count is clamped to `capacity`
// outputs  features [capacity, channels] of `type`, aligned to its element; rows from the count on
//          are not written
// errors   null or misaligned pointers, sizes, another type than `format`
// Asynchronous, deterministic, bit-identical to voxel_features_host.
template <numeric format = numeric_any>
SPIRA_API status voxel_features(voxel_feature kind, const float *values, int columns, int channels,
                                voxel_rows rows, const int32_t *count, int32_t capacity,
                                numeric type, void *features, cudaStream_t stream) {
    SPIRA_TRY(voxel_features_check(values, columns, channels, &rows, features, type));
    SPIRA_TRY(pointer_check(count, alignof(int32_t), "count"));
    SPIRA_REQUIRE(capacity >= 1, status_bad_size, "capacity", capacity);
    int64_t blocks = ceil_div((int64_t)capacity * channels, 256);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "capacity * channels", blocks);
    return numeric_dispatch<format>(type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        voxel_features_kernel<E><<<(unsigned)blocks, 256, 0, stream>>>(
            kind, values, columns, channels, rows, count, capacity, (E *)features);
        return status_of_launch("voxel_features");
    });
}

} // namespace spira

#endif
