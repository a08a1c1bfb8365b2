// spira/index/exchange_rows.cuh: the kernels that write a kernel map by compressed rows.
//
// Four launches: the sources of each row are counted, the counts are scanned in two launches, and
// the entries are written. Counts and scan take place in rows.begin itself.
#ifndef SPIRA_INDEX_EXCHANGE_ROWS_CUH
#define SPIRA_INDEX_EXCHANGE_ROWS_CUH

#include "exchange_lists.cuh"

namespace spira {

// ---- rows by groups of lanes --------------------------------------------------------------------

// Lanes of a warp that read a row [volume] of the map together: a power of two, so that the warp
// reads 32 / lanes rows at once.
SPIRA_BOTH int exchange_lanes(int volume) {
    int lanes = 1;
    while (lanes < volume && lanes < 32) {
        lanes *= 2;
    }
    return lanes;
}

// A group of lanes, and the rows that it reads.
struct exchange_group {
    int lanes, lane; // their number; which of them this thread is
    uint32_t mask;   // the low `lanes` bits
    int64_t row;     // the first of exchange_items rows
    int step;        // from one of these rows to the next
};

// For a thread block of exchange_threads. The rows of all blocks follow one another.
SPIRA_DEVICE exchange_group exchange_group_make(int volume) {
    exchange_group g;
    g.lanes = exchange_lanes(volume);
    g.lane = (int)threadIdx.x % g.lanes;
    g.mask = ~0u >> (32 - g.lanes);
    g.step = exchange_threads / g.lanes;
    g.row = (int64_t)blockIdx.x * exchange_items * g.step + (int)threadIdx.x / g.lanes;
    return g;
}

// The bits of the group's lanes where `yes` holds. Called by a whole warp.
SPIRA_DEVICE uint32_t exchange_group_ballot(const exchange_group &g, bool yes) {
    return __ballot_sync(~0u, yes) >> ((threadIdx.x & 31) - g.lane) & g.mask;
}

// Writes the sources of the group's rows, those of row j from at[j] on, and advances at[j] past
// them. Rows from `count` on are empty. With offset and input null it only advances. Called by a
// whole warp; at [exchange_items] is the same in all lanes of a group.
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

// Writes to begin [capacity + 1] the number of sources of each row: 0 from row *count on.
SPIRA_PLAIN_KERNEL void __launch_bounds__(exchange_threads)
    exchange_count_kernel(const int32_t *__restrict__ map, int volume, const int32_t *count,
                          int32_t capacity, int32_t *begin) {
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

// ---- scan ---------------------------------------------------------------------------------------

enum { exchange_scan_blocks = 1024 }; // most thread blocks of the scan

// The scan cuts begin [capacity + 1] into stretches of `rows` rows, one for each thread block.
struct exchange_cut {
    int64_t rows;
    int32_t blocks;
};

SPIRA_BOTH exchange_cut exchange_cut_make(int32_t capacity) {
    const int64_t total = (int64_t)capacity + 1;
    const int64_t chunks = ceil_div(ceil_div(total, exchange_chunk), exchange_scan_blocks);
    exchange_cut cut;
    cut.rows = chunks * exchange_chunk;
    cut.blocks = (int32_t)ceil_div(total, cut.rows);
    return cut;
}

// Returns the sum over all threads of the block, in every thread. Sums may pass 32 bits: `shared`
// has exchange_threads / 32 numbers, and a barrier must precede its next use.
SPIRA_DEVICE int64_t exchange_sum(int64_t value, int64_t *shared) {
    for (int step = 16; step; step /= 2) {
        value += __shfl_xor_sync(~0u, value, step);
    }
    if (threadIdx.x % 32 == 0) {
        shared[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = 0;
    for (int warp = 0; warp < exchange_threads / 32; ++warp) {
        value += shared[warp];
    }
    return value;
}

// Writes to sums [blocks] the number of sources in each stretch.
SPIRA_PLAIN_KERNEL void __launch_bounds__(exchange_threads)
    exchange_sum_kernel(const int32_t *begin, int32_t capacity, int64_t rows, int64_t *sums) {
    __shared__ int64_t shared[exchange_threads / 32];
    const int64_t first = blockIdx.x * rows, end = min_of(first + rows, (int64_t)capacity + 1);
    int64_t sum = 0;
    for (int64_t row = first + threadIdx.x; row < end; row += exchange_threads) {
        sum += begin[row];
    }
    sum = exchange_sum(sum, shared);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = sum;
    }
}

// Turns the counts in begin [capacity + 1] into starts: each block adds up the sums of the
// stretches before its own. If there are more sources than `most`, all starts are 0, and that is
// recorded.
SPIRA_PLAIN_KERNEL void __launch_bounds__(exchange_threads)
    exchange_scan_kernel(const int64_t *__restrict__ sums, int32_t capacity, int64_t rows,
                         int32_t most, int32_t *begin, device_status *trouble) {
    __shared__ int64_t shared[2][exchange_threads / 32];
    __shared__ int scan_shared[exchange_threads / 32];
    const int64_t first = blockIdx.x * rows, end = min_of(first + rows, (int64_t)capacity + 1);
    int64_t all = 0, before = 0;
    for (unsigned b = threadIdx.x; b < gridDim.x; b += exchange_threads) {
        const int64_t sum = sums[b];
        all += sum;
        before += b < blockIdx.x ? sum : 0;
    }
    all = exchange_sum(all, shared[0]);
    before = exchange_sum(before, shared[1]);
    const bool fits = all <= most;
    if (!fits && blockIdx.x == 0 && threadIdx.x == 0) {
        device_status_raise(trouble, device_flag_capacity, (uint32_t)min_of(all, UINT32_MAX));
    }
    int32_t start = (int32_t)before; // not used unless it fits
    for (int64_t chunk = first; chunk < end; chunk += exchange_chunk) {
        const int64_t row = chunk + threadIdx.x * exchange_items;
        int32_t found[exchange_items], mine = 0, total;
        for (int j = 0; j < exchange_items; ++j) {
            found[j] = row + j < end && fits ? begin[row + j] : 0;
            mine += found[j];
        }
        int32_t at = start + block_exclusive_sum<exchange_threads>(mine, scan_shared, &total);
        for (int j = 0; j < exchange_items; ++j) {
            if (row + j < end) {
                begin[row + j] = fits ? at : 0;
            }
            at += found[j];
        }
        start += total;
        __syncthreads();
    }
}

// ---- entries ------------------------------------------------------------------------------------

// Writes the entries. rows.begin holds the starts; all are 0 if the entries do not fit.
SPIRA_PLAIN_KERNEL void __launch_bounds__(exchange_threads)
    exchange_rows_kernel(const int32_t *__restrict__ map, int volume, const int32_t *count,
                         int32_t capacity, exchange_rows rows, device_status *trouble) {
    exchange_group g = exchange_group_make(volume);
    if (rows.begin[capacity] > 0) { // the number of entries
        int32_t at[exchange_items];
        for (int j = 0; j < exchange_items; ++j) {
            int64_t row = g.row + j * g.step;
            at[j] = row <= capacity ? rows.begin[row] : 0;
        }
        exchange_rows_write(g, map, volume, min_of(*count, capacity), at, rows.offset, rows.input);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        device_status_raise_count(trouble, *count, capacity);
    }
}

// ---- launch -------------------------------------------------------------------------------------

// sums [exchange_cut_make(capacity).blocks]: scratch.
SPIRA_LAUNCHER status exchange_rows_launch(const int32_t *map, int volume, const int32_t *count,
                                           int32_t capacity, exchange_rows rows, int64_t *sums,
                                           device_status *trouble, cudaStream_t stream) {
    const int step = exchange_threads / exchange_lanes(volume);
    const unsigned blocks =
        (unsigned)ceil_div((int64_t)capacity + 1, (int64_t)exchange_items * step);
    const exchange_cut cut = exchange_cut_make(capacity);
    exchange_count_kernel<<<blocks, exchange_threads, 0, stream>>>(map, volume, count, capacity,
                                                                   rows.begin);
    exchange_sum_kernel<<<(unsigned)cut.blocks, exchange_threads, 0, stream>>>(rows.begin, capacity,
                                                                               cut.rows, sums);
    exchange_scan_kernel<<<(unsigned)cut.blocks, exchange_threads, 0, stream>>>(
        sums, capacity, cut.rows, rows.capacity, rows.begin, trouble);
    exchange_rows_kernel<<<blocks, exchange_threads, 0, stream>>>(map, volume, count, capacity,
                                                                  rows, trouble);
    return status_of_launch("exchange_csr");
}

} // namespace spira

#endif
