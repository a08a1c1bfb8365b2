// spira/layout/order/put.cuh: the last kernel of order_build: writes masks, sources and the
// schedule. A thread block writes all offsets of a group pair of a compact map, or 32 offsets of
// another; a warp takes 32 positions.
#ifndef SPIRA_LAYOUT_ORDER_PUT_CUH
#define SPIRA_LAYOUT_ORDER_PUT_CUH

#include "../../base/async.cuh"
#include "taps.cuh"
#include "task.cuh"

namespace spira {

// What the warps of a thread block share.
struct order_put_shared {
    uint32_t found[order_put_threads / 32][slab_size_most]; // offsets that some row of the warp has
    int before[order_put_threads / 32];                     // order_find_before
};

// ---- from a map as it stands --------------------------------------------------------------------

// Returns the pitch of rows of taps in shared memory: odd, so that rows spread over the banks.
SPIRA_BOTH int order_pitch(int volume) {
    return (volume < order_word_bits ? volume : order_word_bits) | 1;
}

// Copies the columns k .. k + columns of a warp's rows to taps [32, pitch] in shared memory.
// Returns the columns that some row has. row: as in order_load; -1 from some lane on: no row, and
// taps of -1
SPIRA_DEVICE uint32_t order_load_word(const int32_t *__restrict__ map, int volume, int32_t row,
                                      int k, int columns, int32_t *taps) {
    const int steps = 16, pitch = order_pitch(volume);
    const order_lanes lanes = order_lanes_make(columns);
    const uint32_t size = sizeof(int32_t), begin = shared_address(taps);
    const uint32_t end = begin + 32 * pitch * size, step = lanes.each * pitch * size;
    const int32_t some = __shfl_sync(~0u, row, 0);
    uint32_t to = begin + (lanes.row * pitch + lanes.column) * size, found = 0;
    int32_t none = -1; // negative as long as all elements are
    for (int first = 0; first < 32 && some >= 0; first += steps * lanes.each) {
        int32_t tap[steps];
        order_load(map + k, volume, row < 0 ? some : row, first, lanes, tap);
#pragma unroll
        for (int j = 0; j < steps; ++j, to += step) {
            none &= tap[j];
            if (to < end) {
                shared_store(to, (uint32_t)tap[j]);
            }
        }
    }
    uint32_t all = __ballot_sync(~0u, none >= 0);
    for (int j = 0; j < lanes.each; ++j) {
        found |= all >> j * columns;
    }
    __syncwarp(); // other lanes have stored taps of this row
    for (int c = 0; c < columns && row < 0; ++c) {
        taps[(int)threadIdx.x % 32 * pitch + c] = -1;
    }
    return columns < 32 ? found & ((1u << columns) - 1) : found;
}

// Writes the sources of the offsets k + c of a row group, c the bits of `bits`. The group's two
// warps alternate; a lane writes two positions. taps [order_rows, pitch] of the group
SPIRA_DEVICE void order_put_word(const order_layout &t, int64_t group, int k, uint32_t bits,
                                 const int32_t *taps) {
    const int lane = threadIdx.x % 32, pitch = order_pitch(t.volume);
    bool mine = threadIdx.x / 32 % 2 == 0;
    for (; bits; bits &= bits - 1, mine = !mine) {
        if (mine) {
            int c = __ffs((int)bits) - 1;
            int32_t *source = t.source + order_begin(&t, group, k + c);
            source[lane] = taps[lane * pitch + c];
            source[lane + 32] = taps[(lane + 32) * pitch + c];
        }
    }
}

// Writes sources and masks of the columns k .. k + 32 of a group pair. Called by all threads of a
// block; has a barrier inside.
//
// group: of this warp; row: of this thread, or -1; taps [2 order_rows, pitch]: shared memory
SPIRA_DEVICE void order_put_columns(const order_request &r, int64_t group, int k, int32_t row,
                                    int32_t *taps, order_put_shared &s) {
    const order_layout &t = r.layout;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pitch = order_pitch(t.volume);
    uint32_t own = order_load_word(r.map, t.volume, row, k, min(t.volume - k, (int)order_word_bits),
                                   taps + warp * 32 * pitch);
    if (lane == 0) {
        s.found[warp][0] = own;
    }
    __syncthreads();
    const uint32_t bits = s.found[warp / 2 * 2][0] | s.found[warp / 2 * 2 + 1][0];
    order_put_word(t, group, k, bits, taps + warp / 2 * order_rows * pitch);
    if (lane == 0 && warp % 2 == 0 && group < order_count(r.capacity)) {
        t.mask[group * order_words(t.volume) + k / order_word_bits] = bits;
    }
}

// ---- from a compact map -------------------------------------------------------------------------

template <int K>
SPIRA_DEVICE void order_load_record(const int32_t *__restrict__ from, int32_t (&record)[K + 1]) {
    if constexpr (K == 3) {
        const int4 v = __ldg((const int4 *)from);
        record[0] = v.x, record[1] = v.y, record[2] = v.z, record[3] = v.w;
    } else {
#pragma unroll
        for (int i = 0; i < K + 1; i += 2) {
            const int2 v = __ldg((const int2 *)(from + i));
            record[i] = v.x, record[i + 1] = v.y;
        }
    }
}

// Writes the sources of a plane's offsets at this lane's position, for the offsets in `any`. to:
// where the source of the plane's first offset goes; offsets are order_rows apart
template <int K>
SPIRA_DEVICE void order_put_record(const int32_t (&record)[K + 1], uint32_t any, int32_t *to) {
#pragma unroll
    for (int y = 0; y < K; ++y) {
        if (!(any >> y * K & ((1u << K) - 1))) {
            continue;
        }
        int32_t source = record[y];
#pragma unroll
        for (int c = y * K; c < y * K + K; ++c) {
            const bool has = record[K] >> c & 1;
            if (any >> c & 1) {
                to[c * order_rows] = has ? source : -1;
            }
            source += has;
        }
    }
}

// Writes a row group's mask. any: the offsets of each plane
template <int K>
SPIRA_DEVICE void order_put_mask(const order_layout &t, int64_t group, const uint32_t (&any)[K]) {
    const int words = (K * K * K + 31) / 32;
    uint32_t mask[words + 1] = {};
#pragma unroll
    for (int s = 0; s < K; ++s) {
        mask[s * K * K / 32] |= any[s] << s * K * K % 32;
        mask[s * K * K / 32 + 1] |= s * K * K % 32 ? any[s] >> (32 - s * K * K % 32) : 0;
    }
#pragma unroll
    for (int w = 0; w < words; ++w) {
        t.mask[group * words + w] = mask[w];
    }
}

// Writes sources and masks of a group pair. A thread has the records of its position. Called by all
// threads of a block; has a barrier inside. row: of this thread, or -1
template <int K>
SPIRA_DEVICE void order_put_compact(const order_request &r, int64_t group, int32_t row,
                                    order_put_shared &s) {
    const order_layout &t = r.layout;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int32_t own[K][K + 1];
    uint32_t any[K];
#pragma unroll
    for (int i = 0; i < K; ++i) {
        own[i][K] = 0;
        if (row >= 0) {
            order_load_record<K>(r.compact + slab_at(K, r.capacity, i, row), own[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < K; ++i) {
        any[i] = warp_unite((uint32_t)own[i][K]);
        if (lane == 0) {
            s.found[warp][i] = any[i];
        }
    }
    __syncthreads();
    int32_t *to = t.source + order_begin(&t, group, 0) + warp % 2 * 32 + lane;
#pragma unroll
    for (int i = 0; i < K; ++i) {
        any[i] |= s.found[warp ^ 1][i];
        order_put_record<K>(own[i], any[i], to + i * K * K * order_rows);
    }
    if (lane == 0 && warp % 2 == 0 && group < order_count(r.capacity)) {
        order_put_mask<K>(t, group, any);
    }
}

// Clears the mask of a row group past the last output: its word of column k, or all. By one thread.
SPIRA_DEVICE void order_put_empty(const order_layout &t, int64_t group, int k, bool all) {
    const int words = order_words(t.volume);
    const int word = k / order_word_bits;
    for (int w = all ? 0 : word; w < (all ? words : word + 1); ++w) {
        t.mask[group * words + w] = 0;
    }
}

// ---- schedule -----------------------------------------------------------------------------------

// Returns how many of the four pairs first .. first + 4 come before `pair`, which weighs `own`.
// four: their weights, a byte each
SPIRA_DEVICE int order_count_before(uint32_t four, int first, int pair, uint32_t own) {
    const int low = min(max(pair - first, 0), 4); // have a lower number
    const uint32_t lower = low < 4 ? 0x01010101u & ((1u << 8 * low) - 1) : 0x01010101u;
    return __popc(__vsetgeu4(four, (own + 1) * 0x01010101u - lower));
}

// Counts the pairs of its scope that come before a pair. Called by all threads of a block; returns
// this warp's share of the count. weight: of the map's pairs, 0 for those without outputs
SPIRA_DEVICE int order_find_before(const uint8_t *__restrict__ weight, int32_t pair,
                                   int32_t pairs) {
    const int each = sizeof(uint4);
    const int32_t scope = pair / order_scope * order_scope;
    const int32_t end = min(scope + (int32_t)order_scope, pairs);
    const uint32_t own = weight[pair];
    int before = 0;
    for (int at = scope + (int)threadIdx.x * each; at < end; at += order_put_threads * each) {
        const uint4 w = *(const uint4 *)(weight + at);
        before += order_count_before(w.x, at, pair, own);
        before += order_count_before(w.y, at + 4, pair, own);
        before += order_count_before(w.z, at + 8, pair, own);
        before += order_count_before(w.w, at + 12, pair, own);
    }
    return warp_sum(before);
}

// ---- kernel -------------------------------------------------------------------------------------

// The thread blocks of a pair's first offsets also find its position in the schedule.
SPIRA_PLAIN_KERNEL void __launch_bounds__(order_put_threads)
    order_put_kernel(const __grid_constant__ order_batch batch, order_scratch s) {
    extern __shared__ int32_t order_taps[]; // [2 order_rows, pitch]
    __shared__ order_put_shared shared;
    const order_task &task = batch.task[order_find_task(batch, order_by_pair, (int)blockIdx.x)];
    const order_request &r = task.request;
    const int unit = (int)blockIdx.x - task.first[order_by_pair], words = order_put_blocks(r);
    const int32_t pair = (int)((unsigned)unit / (unsigned)words);
    const int k = (unit - pair * words) * order_word_bits, lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32, group = 2 * pair + warp / 2;
    const int32_t groups = order_count(r.capacity), count = order_find_count(r);
    const int32_t row = group < groups ? r.layout.row[pair * order_put_threads + threadIdx.x] : -1;
    if (pair * order_put_threads >= count) {
        if (lane == 0 && warp % 2 == 0 && group < groups) {
            order_put_empty(r.layout, group, k, r.compact != nullptr);
        }
        return;
    }
    const uint8_t *weight = s.weight + task.first[order_by_run] * order_run_pairs;
    const int before = k ? 0 : order_find_before(weight, pair, order_pairs(groups));
    if (lane == 0) {
        shared.before[warp] = before;
    }
    if (!r.compact) {
        order_put_columns(r, group, k, row, order_taps, shared);
    } else if (r.kernel.size.x == 3) {
        order_put_compact<3>(r, group, row, shared);
    } else {
        order_put_compact<5>(r, group, row, shared);
    }
    if (k == 0 && threadIdx.x == 0) {
        const int *all = shared.before;
        const int32_t scope = pair / order_scope * order_scope;
        r.layout.schedule[scope + all[0] + all[1] + all[2] + all[3]] = pair;
    }
}

} // namespace spira

#endif
