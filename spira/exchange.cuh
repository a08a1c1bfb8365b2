// spira/exchange.cuh: kernel maps in the forms that other engines read, on the GPU.
//
// The lists of an offset are moved as they are; one kernel writes all three forms. Compressed rows
// are counted, scanned (CUB) and written; a group of lanes reads a row.
#ifndef SPIRA_EXCHANGE_CUH
#define SPIRA_EXCHANGE_CUH

#include "exchange.h"
#include "status.cuh"

#include <cub/block/block_reduce.cuh>
#include <cub/device/device_scan.cuh>

namespace spira {

enum {
    exchange_threads = 256,
    exchange_items = 4, // pairs, or rows, that a thread has under way at once
    exchange_chunk = exchange_threads * exchange_items,
    exchange_blocks = 4096, // enough for any GPU
};

// ---- lists, offset by offset --------------------------------------------------------------------

// Where the list at `place` starts if they stand one behind the other. Called once, by all threads
// of a block of exchange_threads; all get the result.
SPIRA_DEVICE int32_t exchange_start(weight_order order, triple size, const int32_t *begin,
                                    int place) {
    typedef cub::BlockReduce<int32_t, exchange_threads> reduce;
    __shared__ typename reduce::TempStorage scratch;
    __shared__ int32_t start;
    int32_t before = 0;
    for (int p = threadIdx.x; p < place; p += exchange_threads) {
        int k = exchange_offset(order, size, p);
        before += begin[k + 1] - begin[k];
    }
    before = reduce(scratch).Sum(before);
    if (threadIdx.x == 0) {
        start = before;
    }
    __syncthreads();
    return start;
}

// Moves a list of `count` pairs to `start`, and fills it up to `end` with -1. Blocks share the
// work, chunk by chunk.
SPIRA_DEVICE void exchange_move(const exchange_lists &to, int64_t start, const int32_t *input,
                                const int32_t *output, int64_t count, int64_t end) {
    for (int64_t at = (int64_t)blockIdx.x * exchange_chunk + threadIdx.x; at < end;
         at += (int64_t)gridDim.x * exchange_chunk) {
        int32_t in[exchange_items], out[exchange_items];
        for (int j = 0; j < exchange_items; ++j) {
            int64_t i = at + j * exchange_threads;
            in[j] = i < count ? input[i] : -1;
            out[j] = i < count ? output[i] : -1;
        }
        for (int j = 0; j < exchange_items; ++j) {
            int64_t i = at + j * exchange_threads;
            if (i < end) {
                exchange_put(&to, start + i, in[j], out[j]);
            }
        }
    }
}

// blockIdx.y: the place of the list.
SPIRA_KERNEL void __launch_bounds__(exchange_threads)
    exchange_lists_kernel(const __grid_constant__ exchange_lists to, map_pairs pairs,
                          device_status *trouble) {
    int place = (int)blockIdx.y, k = exchange_offset(to.order, to.size, place);
    int32_t first = pairs.begin[k], found = pairs.begin[k + 1] - first;
    int64_t count = exchange_kept(&to, found), end = max_of(count, to.stride);
    if (blockIdx.x && (int64_t)blockIdx.x * exchange_chunk >= end) {
        return;
    }
    int64_t start = to.stride ? (int64_t)place * to.stride
                              : exchange_start(to.order, to.size, pairs.begin, place);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        exchange_put_bounds(&to, place, start, count);
        if (found > count) {
            device_status_raise(trouble, device_flag_capacity, (uint32_t)found);
        }
    }
    exchange_move(to, start, pairs.input + first, pairs.output + first, count, end);
}

SPIRA_API status exchange_lists_launch(const exchange_lists *to, map_pairs pairs,
                                       device_status *trouble, const char *subject,
                                       cudaStream_t stream) {
    int volume = exchange_volume(to);
    int64_t longest = to->stride ? to->stride : pairs.capacity;
    int64_t blocks = ceil_div(longest, exchange_chunk);
    if (!to->stride) { // few lists are as long as all of them together
        int64_t even = ceil_div(longest, (int64_t)volume * exchange_chunk);
        blocks = min_of(blocks, max_of(even, ceil_div(exchange_blocks, volume)));
    }
    dim3 grid((unsigned)blocks, (unsigned)volume);
    exchange_lists_kernel<<<grid, exchange_threads, 0, stream>>>(*to, pairs, trouble);
    return status_of_launch(subject);
}

// The lists of a kernel map as spconv's indice pairs.
//
// inputs   kernel; pairs: of map_build_pairs for this kernel, in device memory; an offset that they
//          leave out (a half map, a hybrid one) has an empty list
//          stride: the longest list that there is room for; spconv takes the number of inputs
// outputs  indice_pairs [2, volume, stride]: input rows, then output rows, -1 behind each list
//          indice_pair_num [volume]: how long the lists are
//          trouble: a longer list is cut off at `stride`, and its length recorded (`needed`: that
//          of the longest)
// errors   null pointers, sizes
// Offsets are in spconv's order: its axes are z, y, x, the last one fastest. Of a submanifold layer
// spconv 2 reads all lists but the centre's, and only the lengths of those before the centre; its
// own maps have zeros for the other lengths, these have them all.
// Asynchronous, deterministic, equal to exchange_spconv_host. No scratch. indice_pairs must not
// overlap pairs.
// cost     reads 8 bytes a pair, writes 8 * volume * stride bytes; one launch
SPIRA_API status exchange_spconv(const kernel_shape *kernel, map_pairs pairs, int32_t stride,
                                 int32_t *indice_pairs, int32_t *indice_pair_num,
                                 device_status *trouble, cudaStream_t stream) {
    exchange_lists to;
    SPIRA_TRY(
        exchange_spconv_lists(kernel, &pairs, stride, indice_pairs, indice_pair_num, trouble, &to));
    return exchange_lists_launch(&to, pairs, trouble, "exchange_spconv", stream);
}

// The lists of a kernel map as TorchSparse's neighbour map.
//
// inputs   kernel; pairs: as for exchange_spconv
// outputs  nbmaps [pairs.capacity, 2]: (input row, output row), offset by offset; what is behind
//          the last pair is not written
//          nbsizes [volume]: how many pairs each offset has
// errors   null pointers, sizes
// Offsets are in TorchSparse's order: x fastest if the volume is odd, z fastest if it is even.
// Asynchronous, deterministic, equal to exchange_torchsparse_host. No scratch. nbmaps must not
// overlap pairs.
// cost     reads and writes 8 bytes a pair; one launch
SPIRA_API status exchange_torchsparse(const kernel_shape *kernel, map_pairs pairs, int32_t *nbmaps,
                                      int32_t *nbsizes, cudaStream_t stream) {
    exchange_lists to;
    SPIRA_TRY(exchange_torchsparse_lists(kernel, &pairs, nbmaps, nbsizes, &to));
    return exchange_lists_launch(&to, pairs, nullptr, "exchange_torchsparse", stream);
}

// The lists of a kernel map as MinkowskiEngine's in and out maps.
//
// inputs   kernel; pairs: as for exchange_spconv
// outputs  begin [volume + 1]: where the lists start; in, out [pairs.capacity]: input and output
//          rows, list by list; what is behind the last pair is not written
// errors   null pointers, sizes
// Offsets are in MinkowskiEngine's order of a hypercube: x fastest.
// Asynchronous, deterministic, equal to exchange_minkowski_host. No scratch. in and out must not
// overlap pairs.
// cost     reads and writes 8 bytes a pair; one launch
SPIRA_API status exchange_minkowski(const kernel_shape *kernel, map_pairs pairs, int32_t *begin,
                                    int32_t *in, int32_t *out, cudaStream_t stream) {
    exchange_lists to;
    SPIRA_TRY(exchange_minkowski_lists(kernel, &pairs, begin, in, out, &to));
    return exchange_lists_launch(&to, pairs, nullptr, "exchange_minkowski", stream);
}

// ---- rows, output by output ---------------------------------------------------------------------

// Lanes of a warp that read a row [volume] of the map together: a power of two, so that the warp
// reads 32 / lanes rows at once.
SPIRA_BOTH int exchange_lanes(int volume) {
    int lanes = 1;
    while (lanes < volume && lanes < 32) {
        lanes *= 2;
    }
    return lanes;
}

// The rows that such a group reads.
struct exchange_group {
    int lanes, lane; // how many, and which of them this thread is
    uint32_t mask;   // the low `lanes` bits
    int64_t row;     // the first of exchange_items rows
    int step;        // from one of them to the next
};

// For a block of exchange_threads. The rows of all blocks follow one another.
SPIRA_DEVICE exchange_group exchange_group_make(int volume) {
    exchange_group g;
    g.lanes = exchange_lanes(volume);
    g.lane = (int)threadIdx.x % g.lanes;
    g.mask = ~0u >> (32 - g.lanes);
    g.step = exchange_threads / g.lanes;
    g.row = (int64_t)blockIdx.x * exchange_items * g.step + (int)threadIdx.x / g.lanes;
    return g;
}

// Which lanes of the group say yes. All lanes of the warp.
SPIRA_DEVICE uint32_t exchange_group_ballot(const exchange_group &g, bool yes) {
    return __ballot_sync(~0u, yes) >> ((threadIdx.x & 31) - g.lane) & g.mask;
}

// Writes the sources of the group's rows, those of row j from at[j] on, and advances at[j] past
// them. Rows from `count` on have none. offset and input null: only advances. All lanes of the
// warp; at [exchange_items] is the same in all lanes of a group.
SPIRA_DEVICE void exchange_rows_write(const exchange_group &g, const int32_t *map, int volume,
                                      int64_t count, int32_t *at, int32_t *offset, int32_t *input) {
    for (int column = 0; column < volume; column += g.lanes) {
        int k = column + g.lane;
        int32_t source[exchange_items];
        for (int j = 0; j < exchange_items; ++j) {
            int64_t row = g.row + j * g.step;
            source[j] = row < count && k < volume ? map[row * volume + k] : -1;
        }
        for (int j = 0; j < exchange_items; ++j) {
            uint32_t there = exchange_group_ballot(g, source[j] >= 0);
            if (offset && source[j] >= 0) {
                int32_t to = at[j] + __popc(there & ((1u << g.lane) - 1));
                offset[to] = k;
                input[to] = source[j];
            }
            at[j] += __popc(there);
        }
    }
}

// begin [capacity + 1]: how many sources each row has, 0 for rows from the count on.
SPIRA_KERNEL void __launch_bounds__(exchange_threads)
    exchange_count_kernel(const int32_t *__restrict__ map, int volume, const int32_t *count,
                          int32_t capacity, int64_t *begin) {
    exchange_group g = exchange_group_make(volume);
    int32_t found[exchange_items] = {};
    exchange_rows_write(g, map, volume, min_of(*count, capacity), found, nullptr, nullptr);
    for (int j = 0; j < exchange_items; ++j) {
        int64_t row = g.row + j * g.step;
        if (g.lane == 0 && row <= capacity) {
            begin[row] = found[j];
        }
    }
}

// begin [capacity + 1]: where each row starts; the last one is how many sources there are.
SPIRA_KERNEL void __launch_bounds__(exchange_threads)
    exchange_rows_kernel(const int32_t *__restrict__ map, int volume, const int32_t *count,
                         int32_t capacity, const int64_t *__restrict__ begin, exchange_rows rows,
                         device_status *trouble) {
    exchange_group g = exchange_group_make(volume);
    int64_t total = begin[capacity];
    bool fits = total <= rows.capacity;
    int32_t at[exchange_items];
    for (int j = 0; j < exchange_items; ++j) {
        int64_t row = g.row + j * g.step;
        at[j] = row <= capacity && fits ? (int32_t)begin[row] : 0;
        if (g.lane == 0 && row <= capacity) {
            rows.begin[row] = at[j];
        }
    }
    if (fits) {
        exchange_rows_write(g, map, volume, min_of(*count, capacity), at, rows.offset, rows.input);
    } else if (blockIdx.x == 0 && threadIdx.x == 0) {
        device_status_raise(trouble, device_flag_capacity, (uint32_t)min_of(total, UINT32_MAX));
    }
    if (blockIdx.x == 0 && threadIdx.x == 0 && *count > capacity) {
        device_status_raise(trouble, device_flag_capacity, (uint32_t)*count);
    }
}

struct exchange_scratch {
    int64_t *begin; // [capacity + 1]; a sum that passes 32 bits does not fit, and must be seen
    char *cub;      // [cub_bytes]
    size_t cub_bytes;
};

SPIRA_API status exchange_scan(exchange_scratch *s, int32_t capacity, cudaStream_t stream) {
    return status_from_cuda(cub::DeviceScan::ExclusiveSum(s->cub, s->cub_bytes, s->begin, s->begin,
                                                          capacity + 1, stream),
                            "scan");
}

SPIRA_API status exchange_carve(workspace *w, int32_t capacity, exchange_scratch *s) {
    s->begin = workspace_take<int64_t>(w, (int64_t)capacity + 1);
    exchange_scratch ask = {s->begin, nullptr, 0};
    SPIRA_TRY(exchange_scan(&ask, capacity, nullptr));
    s->cub_bytes = ask.cub_bytes;
    s->cub = workspace_take<char>(w, (int64_t)s->cub_bytes);
    return status_success();
}

// Bytes of scratch for exchange_csr: `capacity` is that of the output set.
SPIRA_API status exchange_csr_workspace(int32_t capacity, size_t *bytes) {
    SPIRA_REQUIRE(capacity >= 1 && capacity <= INT32_MAX / 2, status_bad_size, "capacity",
                  capacity);
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    exchange_scratch s;
    SPIRA_TRY(exchange_carve(&w, capacity, &s));
    *bytes = w.used;
    return status_success();
}

// A kernel map by compressed rows, output by output.
//
// inputs   map [capacity, volume]: source positions or -1, as of map_build; count [1]: rows that
//          are read; capacity: of the output set
// outputs  rows: offsets in spira's order, ascending within a row; rows from the count on are
//          empty: begin holds the number of entries there, and in begin[capacity]; what is behind
//          the last entry is not written
//          trouble: more entries than rows.capacity are recorded, and all rows left empty, begin
//          0; a count beyond the capacity is recorded, and taken for that
// errors   null pointers, sizes, a workspace that is too small
// Asynchronous, deterministic, equal to exchange_csr_host. rows must not overlap map.
// cost     reads the map twice, writes 8 bytes an entry; a scan of capacity + 1 numbers between
SPIRA_API status exchange_csr(const int32_t *map, int volume, const int32_t *count,
                              int32_t capacity, exchange_rows rows, device_status *trouble,
                              void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_TRY(exchange_csr_check(map, volume, count, capacity, &rows, trouble));
    size_t needed;
    SPIRA_TRY(exchange_csr_workspace(capacity, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    workspace w = workspace_begin(scratch);
    exchange_scratch s;
    SPIRA_TRY(exchange_carve(&w, capacity, &s));
    int64_t threads = ((int64_t)capacity + 1) * exchange_lanes(volume);
    unsigned blocks = (unsigned)ceil_div(threads, exchange_chunk);
    exchange_count_kernel<<<blocks, exchange_threads, 0, stream>>>(map, volume, count, capacity,
                                                                   s.begin);
    SPIRA_TRY(exchange_scan(&s, capacity, stream));
    exchange_rows_kernel<<<blocks, exchange_threads, 0, stream>>>(map, volume, count, capacity,
                                                                  s.begin, rows, trouble);
    return status_of_launch("exchange_csr");
}

} // namespace spira

#endif
