// spira/downsample.cuh: coarser coordinate sets on the GPU.
//
// From one level to the next no sort is needed: a set is in order but for the rows that the floor
// puts on top of each other, two by two in y and slab by slab in x. A voxel is the head of its cell
// if no row of the cell has one before it; how many heads there are before a cell in the order of
// the coarse words follows from the counts of heads at the ends of up to four stretches of the fine
// set, found by binary searches, most of them short. Two launches. Any other step takes a floor, a
// radix sort (CUB) and the removal of repeats.
#ifndef SPIRA_DOWNSAMPLE_CUH
#define SPIRA_DOWNSAMPLE_CUH

#include "downsample.h"
#include "search.cuh"
#include "unique.cuh"

#include <cub/block/block_scan.cuh>

namespace spira {

// Heads of cells: bit i % 32 of bits[i / 32] is voxel i; `before` counts the heads of its block in
// front of the 32.
struct downsample_heads {
    uint32_t bits;
    int32_t before;
};

enum {
    downsample_threads = 512,
    downsample_threads_many = 320, // that rank the heads among 512 voxels, in one round for most
    downsample_blocks_many = 512,  // where there are more blocks than a large GPU holds at a time
    downsample_blocks_max = 4096,
};

// How the step from one level to the next is cut: each block takes 2^shift voxels.
struct downsample_cut {
    int32_t shift, blocks;
};

SPIRA_API downsample_cut downsample_cut_make(int32_t capacity) {
    downsample_cut cut = {9, 0}; // downsample_threads at least
    while (ceil_div(capacity, (int64_t)1 << cut.shift) > downsample_blocks_max) {
        ++cut.shift;
    }
    cut.blocks = (int32_t)ceil_div(capacity, (int64_t)1 << cut.shift);
    return cut;
}

// The stretch of a set in which all cells of a block's voxels lie, whole slabs of them.
struct downsample_span {
    int begin, end;
};

template <typename W>
struct downsample_scratch {
    downsample_heads *marks; // [ceil(in.capacity / 32)] for a step to the next level
    int32_t *counts;         // [blocks]
    downsample_span *spans;  // [blocks]
    unique_scratch<W> sort;  // [in.capacity] floored words, for any other
};

// The coarse cell of a voxel, as the searches need it.
template <typename W>
struct downsample_grid {
    W floor;          // mask of the stride
    W row, slab;      // masks that clear z, and y and z
    W step_x, step_y; // from the lower to the upper row of a cell
    W span;           // highest z of a cell above its lowest
};

template <typename W>
SPIRA_API downsample_grid<W> downsample_grid_make(const word_layout *layout, triple from,
                                                  triple stride) {
    downsample_grid<W> g;
    g.floor = word_stride_mask<W>(layout, stride);
    g.row = (W) ~(((W)1 << layout->shift_y) - 1);
    g.slab = layout->shift_x < (int)(8 * sizeof(W)) ? (W) ~(((W)1 << layout->shift_x) - 1) : 0;
    g.step_x = word_delta<W>(layout, triple_make(from.x, 0, 0));
    g.step_y = word_delta<W>(layout, triple_make(0, from.y, 0));
    g.span = (W)(min_of(stride.z, (int64_t)1 << layout->width.z) - 1); // within the field
    return g;
}

// Lower bounds of `keys` words, side by side; they lie in [begin, end].
template <typename W, int keys>
SPIRA_DEVICE void downsample_search(const W *__restrict__ words, int begin, int end,
                                    const W (&key)[keys], int (&at)[keys]) {
#pragma unroll
    for (int j = 0; j < keys; ++j) {
        at[j] = begin;
    }
    for (int step = end > begin ? 1 << (31 - __clz(end - begin)) : 0; step; step >>= 1) {
        W word[keys];
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            word[j] = at[j] + step <= end ? words[at[j] + step - 1] : word_none<W>();
        }
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            at[j] += word[j] < key[j] ? step : 0;
        }
    }
}

// The lower bound of `key` at or behind `at`, in front of which all words are below it: near it, by
// steps that double.
template <typename W>
SPIRA_DEVICE int downsample_ahead(const W *__restrict__ words, int count, int at, W key) {
    int step = 1;
    while (at + step <= count && words[at + step - 1] < key) {
        at += step;
        step *= 2;
    }
    int end = min(at + step - 1, count);
    while (at < end) {
        int middle = (at + end) >> 1;
        bool below = words[middle] < key;
        at = below ? middle + 1 : at;
        end = below ? end : middle;
    }
    return at;
}

// The same at or before `at`, where the word is not below `key`.
template <typename W>
SPIRA_DEVICE int downsample_behind(const W *__restrict__ words, int at, W key) {
    int step = 1;
    while (at >= step && !(words[at - step] < key)) {
        at -= step;
        step *= 2;
    }
    int begin = max(at - step + 1, 0);
    while (begin < at) {
        int middle = (begin + at) >> 1;
        bool below = words[middle] < key;
        begin = below ? middle + 1 : begin;
        at = below ? at : middle;
    }
    return at;
}

template <typename W>
SPIRA_DEVICE bool downsample_there(const downsample_grid<W> &g, const W *__restrict__ words,
                                   int count, int at, W key) {
    return at < count && (W)(words[at] - key) <= g.span;
}

// The span of voxels [first, last). Called by all threads of a block of two warps or more, with a
// barrier inside.
template <typename W>
SPIRA_DEVICE downsample_span downsample_find_span(const downsample_grid<W> &g,
                                                  const W *__restrict__ words, int count, int first,
                                                  int last) {
    __shared__ int bound[2];
    int warp = threadIdx.x / 32;
    if (warp < 2) {
        W floor = words[warp ? last - 1 : first] & g.floor & g.slab;
        // The end of the upper slab: beyond its highest word. It does not wrap: a slab is not the
        // last of its field, which keeps a margin, or ends with the words.
        W key = warp ? floor + g.step_x + (W)~g.slab : floor;
        int at = search_warp_lower_bound(words, count, key, warp ? last : first);
        if (threadIdx.x % 32 == 0) {
            bound[warp] = at;
        }
    }
    __syncthreads();
    return {bound[0], bound[1]};
}

// Whether no voxel of the cell of word i stands before it. rx, ry: rows of a cell, 1 or 2.
template <typename W, int rx, int ry>
SPIRA_DEVICE bool downsample_is_head(const downsample_grid<W> &g, const W *__restrict__ words,
                                     downsample_span span, int count, int i) {
    W word = words[i], cell = word & g.floor;
    bool x = rx == 2 && (word & g.step_x), y = ry == 2 && (word & g.step_y); // in the upper row
    W own = cell + (x ? g.step_x : 0) + (y ? g.step_y : 0);
    if (i > 0 && !(words[i - 1] < own)) {
        return false;
    }
    if (x) { // both rows of the lower slab
        W key[1] = {cell};
        int at[1];
        downsample_search<W, 1>(words, span.begin, i, key, at);
        if (downsample_there(g, words, count, at[0], cell)) {
            return false;
        }
        if (ry == 2) {
            at[0] = downsample_ahead(words, count, at[0], (W)(cell + g.step_y));
            if (downsample_there(g, words, count, at[0], (W)(cell + g.step_y))) {
                return false;
            }
        }
    }
    if (y) { // the lower row of the own slab
        W key = own - g.step_y;
        return !downsample_there(g, words, count, downsample_behind(words, i, key), key);
    }
    return true;
}

// Heads of all warps of a block, and in front of the own one in the upper half. Called by all
// threads of the block, with a barrier inside.
SPIRA_DEVICE uint32_t downsample_sum_warps(uint32_t bits) {
    const int warps = downsample_threads / 32;
    __shared__ uint32_t shared_warp[warps];
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    if (lane == 0) {
        shared_warp[warp] = (uint32_t)__popc(bits);
    }
    __syncthreads();
    uint32_t sum = shared_warp[lane % warps];
    sum += lane % warps < warp ? sum << 16 : 0;
    for (int step = warps / 2; step; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
    }
    return sum;
}

// heads [ceil(in.capacity / 32)], and of each block their number and its span.
template <typename W, int rx, int ry>
SPIRA_KERNEL void __launch_bounds__(downsample_threads)
    downsample_mark_kernel(downsample_grid<W> g, voxel_set<W> in, int shift,
                           downsample_heads *heads, int32_t *counts, downsample_span *spans) {
    int count = min(*in.count, in.capacity), lane = threadIdx.x & 31;
    int64_t first = (int64_t)blockIdx.x << shift, last = min_of(first + (1 << shift), count);
    int before = 0;
    if (first >= last) {
        return;
    }
    downsample_span span = {0, 0};
    if (rx == 2) {
        span = downsample_find_span(g, in.words, count, (int)first, (int)last);
    }
    for (; first < last; first += downsample_threads) {
        int i = (int)first + (int)threadIdx.x;
        bool head = i < count && downsample_is_head<W, rx, ry>(g, in.words, span, count, i);
        uint32_t bits = __ballot_sync(~0u, head);
        uint32_t sum = downsample_sum_warps(bits);
        if (lane == 0 && i < count) {
            heads[i / 32] = {bits, before + (int)(sum >> 16)};
        }
        before += (int)(sum & 0xffff);
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        counts[blockIdx.x] = before;
        spans[blockIdx.x] = span;
    }
}

// The places of the set from which heads are counted.
struct downsample_places {
    const downsample_heads *heads;
    const int32_t *blocks; // heads in front of each block of 2^shift voxels
    int shift, count, total;
};

SPIRA_DEVICE int downsample_before(const downsample_places &p, int at) {
    if (at >= p.count) {
        return p.total;
    }
    downsample_heads h = p.heads[at / 32];
    return p.blocks[at >> p.shift] + h.before + __popc(h.bits & ((1u << at % 32) - 1));
}

// Heads of the upper row of a cell that stand before the cell; `at` is where the lower row's do.
template <typename W>
SPIRA_DEVICE int downsample_upper_row(const downsample_grid<W> &g, const W *__restrict__ words,
                                      const downsample_places &p, int at, W key) {
    int begin = downsample_ahead(words, p.count, at, (W)(key & g.row));
    return downsample_before(p, downsample_ahead(words, p.count, begin, key)) -
           downsample_before(p, begin);
}

// How many cells stand before that of word i, a head, in the order of the coarse words: the heads
// in front of its lowest row; of the upper row, those before the cell; and of the upper slab, those
// of the rows before the cell's, and the same again.
template <typename W, int rx, int ry>
SPIRA_DEVICE int downsample_rank(const downsample_grid<W> &g, const W *__restrict__ words,
                                 const downsample_places &p, downsample_span span, int i) {
    W cell = words[i] & g.floor;
    int lower = 0, upper = 0;
    if constexpr (rx == 2) {
        bool x = (words[i] & g.step_x) != 0; // one slab is far, the other near
        W key[2] = {(W)((cell + g.step_x) & g.slab), x ? cell : (W)(cell + g.step_x)};
        int at[2];
        downsample_search<W, 2>(words, span.begin, span.end, key, at);
        int near = downsample_behind(words, i, x ? (W)(cell + g.step_x) : cell);
        lower = x ? at[1] : near;
        upper = x ? near : at[1];
        int rank =
            downsample_before(p, lower) + downsample_before(p, upper) - downsample_before(p, at[0]);
        if constexpr (ry == 2) {
            rank += downsample_upper_row(g, words, p, lower, (W)(cell + g.step_y));
            rank += downsample_upper_row(g, words, p, upper, (W)(cell + g.step_x + g.step_y));
        }
        return rank;
    }
    lower = downsample_behind(words, i, cell);
    int rank = downsample_before(p, lower);
    if constexpr (ry == 2) {
        rank += downsample_upper_row(g, words, p, lower, (W)(cell + g.step_y));
    }
    return rank;
}

// Where the heads of each block start, into blocks [blocks_used]; returns all of them.
template <int threads>
SPIRA_DEVICE int downsample_scan_blocks(const int32_t *__restrict__ counts, int blocks_used,
                                        int32_t *blocks) {
    typedef cub::BlockScan<int, threads, cub::BLOCK_SCAN_WARP_SCANS> scan;
    __shared__ typename scan::TempStorage scratch;
    int each = (blocks_used + threads - 1) / threads, before = 0, total;
    int first = (int)threadIdx.x * each, last = min(first + each, blocks_used);
    for (int b = first; b < last; ++b) {
        before += counts[b];
    }
    scan(scratch).ExclusiveSum(before, before, total);
    for (int b = first; b < last; ++b) { // read again: there are few, and few registers
        blocks[b] = before;
        before += counts[b];
    }
    __syncthreads();
    return total;
}

// The heads among the voxels [first, first + 512), so that few threads are idle; how many they are.
template <int threads>
SPIRA_DEVICE int downsample_list_heads(const downsample_heads *__restrict__ heads, int first,
                                       int count, int32_t *list) {
    int last = min(first + (int)downsample_threads, count) - 1;
    int before = heads[first / 32].before;
    for (int i = first + (int)threadIdx.x; i <= last; i += threads) {
        downsample_heads h = heads[i / 32];
        if (h.bits >> i % 32 & 1) {
            list[h.before - before + __popc(h.bits & ((1u << i % 32) - 1))] = i;
        }
    }
    downsample_heads end = heads[last / 32];
    __syncthreads();
    return end.before - before + __popc(end.bits);
}

// Writes each cell where it belongs, word_none() behind them, and their number.
template <typename W, int rx, int ry, int threads>
SPIRA_KERNEL void __launch_bounds__(threads)
    downsample_rank_kernel(downsample_grid<W> g, voxel_set<W> in, int shift,
                           const downsample_heads *__restrict__ heads,
                           const int32_t *__restrict__ counts,
                           const downsample_span *__restrict__ spans, voxel_set<W> out,
                           device_status *trouble) {
    __shared__ int32_t blocks[downsample_blocks_max], list[downsample_threads];
    int count = min(*in.count, in.capacity);
    int used = (int)((count + ((int64_t)1 << shift) - 1) >> shift);
    int total = downsample_scan_blocks<threads>(counts, used, blocks);
    int64_t first = (int64_t)blockIdx.x << shift, last = min_of(first + (1 << shift), count);
    downsample_places p = {heads, blocks, shift, count, total};
    downsample_span span = {0, 0};
    if (first < last) {
        span = spans[blockIdx.x];
    }
    for (; first < last; first += downsample_threads) {
        int found = downsample_list_heads<threads>(heads, (int)first, count, list);
        for (int h = threadIdx.x; h < found; h += threads) {
            int i = list[h];
            int rank = downsample_rank<W, rx, ry>(g, in.words, p, span, i);
            if (rank < out.capacity) {
                out.words[rank] = in.words[i] & g.floor;
            }
        }
        __syncthreads();
    }
    int64_t thread = (int64_t)blockIdx.x * threads + threadIdx.x;
    for (int64_t i = total + thread; i < out.capacity; i += (int64_t)gridDim.x * threads) {
        out.words[i] = word_none<W>();
    }
    if (thread == 0) {
        *out.count = min(total, out.capacity);
        if (total > out.capacity) {
            device_status_raise(trouble, device_flag_capacity, (uint32_t)total);
        }
    }
}

template <typename W, int rx, int ry>
SPIRA_API status downsample_step(downsample_grid<W> g, voxel_set<W> in, voxel_set<W> out,
                                 downsample_cut cut, const downsample_scratch<W> &s,
                                 device_status *trouble, cudaStream_t stream) {
    downsample_mark_kernel<W, rx, ry><<<(unsigned)cut.blocks, downsample_threads, 0, stream>>>(
        g, in, cut.shift, s.marks, s.counts, s.spans);
    const bool many = cut.blocks > downsample_blocks_many;
    auto rank = many ? downsample_rank_kernel<W, rx, ry, downsample_threads_many>
                     : downsample_rank_kernel<W, rx, ry, downsample_threads>;
    const int threads = many ? downsample_threads_many : downsample_threads;
    rank<<<(unsigned)cut.blocks, (unsigned)threads, 0, stream>>>(g, in, cut.shift, s.marks,
                                                                 s.counts, s.spans, out, trouble);
    return status_of_launch("downsample");
}

// The two ways share the memory.
template <typename W>
SPIRA_API status downsample_carve(workspace *w, int32_t rows, int32_t capacity,
                                  downsample_scratch<W> *s) {
    workspace step = *w;
    s->marks = workspace_take<downsample_heads>(&step, ceil_div(rows, 32));
    s->counts = workspace_take<int32_t>(&step, downsample_cut_make(rows).blocks);
    s->spans = workspace_take<downsample_span>(&step, downsample_cut_make(rows).blocks);
    SPIRA_TRY(unique_carve(w, rows, capacity, &s->sort));
    w->used = max_of(w->used, step.used);
    return status_success();
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(256)
    downsample_floor_kernel(word_layout layout, voxel_set<W> in, triple stride, bool by_mask,
                            W *words) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < in.capacity) {
        words[i] =
            i < *in.count ? downsample_word(&layout, in.words[i], stride, by_mask) : word_none<W>();
    }
}

// Bytes of scratch for downsample.
template <typename W>
SPIRA_API status downsample_workspace(voxel_set<W> in, int32_t out_capacity, size_t *bytes) {
    SPIRA_REQUIRE(in.capacity >= 1, status_bad_size, "in.capacity", in.capacity);
    SPIRA_REQUIRE(out_capacity >= 1, status_bad_size, "out.capacity", out_capacity);
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    downsample_scratch<W> s;
    SPIRA_TRY(downsample_carve<W>(&w, in.capacity, out_capacity, &s));
    *bytes = w.used;
    return status_success();
}

// The set at `stride` of the set `in`, which is at `from` (Spira paper: packed-native processing).
//
// inputs   layout: fitted to at least this stride; stride: absolute, any >= 1; powers of two are
//          floored by a mask, others by unpacking
//          from: divides the stride; every coordinate of `in` is a multiple of it (as those of a
//          set that was downsampled to it are; {1, 1, 1} always holds). Powers of two that at most
//          double x and y take the short way: build the levels of a network one from the other
// outputs  out: the coarse set and its count; trouble: a capacity that was passed
// errors   null pointers, sizes, a stride beyond the layout's, a `from` that does not divide it, a
//          workspace that is too small
// Asynchronous, deterministic, equal to downsample_host. in and out must not overlap.
// cost     a step to the next level: two kernels with up to three binary searches a voxel; else a
//          radix sort of the bits that the stride leaves, and three small kernels
template <typename W>
SPIRA_API status downsample_from(const word_layout *layout, voxel_set<W> in, triple from,
                                 triple stride, voxel_set<W> out, device_status *trouble,
                                 void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_TRY(downsample_check(layout, &in, stride, &out));
    SPIRA_TRY(downsample_from_check(from, stride));
    SPIRA_REQUIRE(trouble, status_null_pointer, "trouble", 0);
    size_t needed;
    SPIRA_TRY(downsample_workspace(in, out.capacity, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    workspace w = workspace_begin(scratch);
    downsample_scratch<W> s;
    SPIRA_TRY(downsample_carve<W>(&w, in.capacity, out.capacity, &s));
    if (downsample_is_step(from, stride)) {
        downsample_grid<W> g = downsample_grid_make<W>(layout, from, stride);
        downsample_cut cut = downsample_cut_make(in.capacity);
        // A field that has no room for a second row or slab has one.
        bool x = stride.x > from.x && from.x < (int64_t)1 << layout->width.x;
        bool y = stride.y > from.y && from.y < (int64_t)1 << layout->width.y;
        return x && y ? downsample_step<W, 2, 2>(g, in, out, cut, s, trouble, stream)
               : x    ? downsample_step<W, 2, 1>(g, in, out, cut, s, trouble, stream)
               : y    ? downsample_step<W, 1, 2>(g, in, out, cut, s, trouble, stream)
                      : downsample_step<W, 1, 1>(g, in, out, cut, s, trouble, stream);
    }
    bool by_mask = downsample_by_mask(stride);
    downsample_floor_kernel<W><<<(unsigned)ceil_div(in.capacity, 256), 256, 0, stream>>>(
        *layout, in, stride, by_mask, s.sort.words);
    int floored = (int)min_of(bits_for((uint64_t)stride.z) - 1, layout->width.z);
    int first_bit = by_mask ? floored : 0; // the floored bits are zero
    return unique_sort_launch(&s.sort, first_bit, word_bits(layout), out, trouble, stream);
}

// The same from a set of which nothing is known: from = {1, 1, 1}.
template <typename W>
SPIRA_API status downsample(const word_layout *layout, voxel_set<W> in, triple stride,
                            voxel_set<W> out, device_status *trouble, void *scratch,
                            size_t scratch_bytes, cudaStream_t stream) {
    return downsample_from(layout, in, triple_make(1, 1, 1), stride, out, trouble, scratch,
                           scratch_bytes, stream);
}

} // namespace spira

#endif
