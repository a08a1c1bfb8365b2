// spira/conv/pairs/stripes.cuh: the deterministic form: a thread block owns a stripe of consecutive
// outputs, whose sums are in its shared memory, and walks the segments of the lists that fall in it.
#ifndef SPIRA_CONV_PAIRS_STRIPES_CUH
#define SPIRA_CONV_PAIRS_STRIPES_CUH

#include "sums.cuh"

namespace spira {

// The non-empty segments of up to pairs_batch lists in a stripe. In shared memory.
struct pairs_stripe {
    int32_t first[pairs_batch + 1]; // first unit of each segment
    pairs_segment segment[pairs_batch];
    int lists;
};

// ---- finding the segments -----------------------------------------------------------------------

// Number of targets [count], ascending, below `row`; targets null: 0, 1, ... Four neighbouring
// lanes share a search. All lanes of the warp call it.
SPIRA_DEVICE int32_t pairs_search(const int32_t *targets, int32_t count, int32_t row) {
    int lane = threadIdx.x % 32;
    int64_t low = 0, high = count;
    while (__any_sync(~0u, low < high)) {
        int64_t wide = high - low, at = low + wide * (lane % 4 + 1) / 5;
        bool below = low < high && (targets ? targets[at] : at) < row;
        int steps = __popc(__ballot_sync(~0u, below) >> (lane & ~3) & 15);
        high = steps < 4 ? low + wide * (steps + 1) / 5 : high;
        low = steps > 0 ? low + wide * steps / 5 + 1 : low;
    }
    return (int32_t)low;
}

// Removes empty segments and numbers the units. On entry, `count` of a segment holds its end. One
// warp.
SPIRA_DEVICE void pairs_stripe_pack(int first, int lists, int unit, pairs_stripe *s) {
    int lane = threadIdx.x % 32, kept = 0;
    int32_t before = 0;
    for (int i = lane; i - lane < lists; i += 32) {
        pairs_segment segment = {first + i, 0, 0};
        if (i < lists) {
            segment.from = s->segment[i].from;
            segment.count = s->segment[i].count - segment.from;
        }
        int32_t units = (max(segment.count, 0) + unit - 1) / unit, sum = warp_sum_up_to(units);
        uint32_t has = __ballot_sync(~0u, units > 0);
        __syncwarp();    // all lanes have read what is overwritten here
        if (units > 0) { // at or before a segment that has been read
            int at = kept + __popc(has & ((1u << lane) - 1));
            s->segment[at] = segment;
            s->first[at] = before + sum - units;
        }
        kept += __popc(has);
        before += __shfl_sync(~0u, sum, 31);
    }
    if (lane == 0) {
        s->first[kept] = before;
        s->lists = kept;
    }
}

// Finds the segments of offsets [first, first + lists) in outputs [first_row, first_row + count).
// All threads of the thread block call it.
SPIRA_DEVICE void pairs_stripe_find(const pairs_params &p, int32_t rows, int32_t first_row,
                                    int32_t count, int first, int lists, pairs_stripe *s) {
    for (int i = 0; i < 2 * lists; i += (int)blockDim.x / 4) { // two ends for each list
        int search = i + (int)threadIdx.x / 4;
        int k = first + min(search / 2, lists - 1);
        pairs_span list = pairs_span_of(&p.pairs, p.conv.volume, p.sides, rows, k);
        const int32_t *targets = pairs_targets(&p.pairs, p.conv.volume, p.sides, k);
        int32_t at = pairs_search(targets ? targets + list.begin : nullptr, list.count,
                                  first_row + (search % 2 ? count : 0));
        if (search < 2 * lists && threadIdx.x % 4 == 0) {
            pairs_segment *segment = s->segment + search / 2;
            *(search % 2 ? &segment->count : &segment->from) = at;
        }
    }
    pairs_stripe_sync();
    if (threadIdx.x < 32) {
        pairs_stripe_pack(first, lists, p.unit, s);
    }
    pairs_stripe_sync();
}

// ---- walking them -------------------------------------------------------------------------------

// Walks all lists of the stripe with warp `share` of the p.slice_warps that share a slice.
//
// active            false for a warp without channels: it only takes part in the barriers
// walk(task, cursor) adds the products of the cursor's units
template <typename F>
SPIRA_DEVICE void pairs_stripe_walk(const pairs_params &p, int32_t rows, int share, bool active,
                                    pairs_task task, pairs_stripe *s, F walk) {
    for (int first = 0; first < p.conv.volume; first += pairs_batch) {
        if (first) {
            pairs_stripe_sync(); // other warps may still read the segments of before
        }
        pairs_stripe_find(p, rows, (int32_t)task.first_row, (int32_t)task.rows, first,
                          min(p.conv.volume - first, pairs_batch), s);
        task.done = 0;
        if (active) {
            pairs_table table = {s->first, s->segment, s->lists};
            walk(task, pairs_cursor_make(table, share, s->first[s->lists], p.slice_warps));
        }
        pairs_list_sync(task, s->lists);
    }
}

// Bytes of shared memory of a slice's sums: the stripe, and one row for pairs that do not exist.
SPIRA_BOTH int pairs_slice_bytes(int stripe, int channel_groups) {
    return (int)round_up((stripe + 1) * (channel_groups * 32), 128);
}

// Copies a warp's share of the sums of a slice, [count, 8 channel_groups] from row `from` of the
// stripe on. store: to p.sums; else from p.sums, or zero.
template <int channel_groups, bool store>
SPIRA_DEVICE void pairs_stripe_copy(const pairs_params &p, int64_t first_row, int count, int from,
                                    int channel, char *sums) {
    for (int i = (int)threadIdx.x % 32; i < count * (channel_groups * 2); i += 32) {
        int row = from + i / (channel_groups * 2), quad = i % (channel_groups * 2);
        float4 *own =
            (float4 *)(sums + row * (channel_groups * 32) +
                       ((uint32_t)(quad * 16) ^ pairs_swizzle<channel_groups>((uint32_t)row)));
        bool inside = p.sums && channel + quad * 4 < p.pitch;
        float4 *far = (float4 *)(p.sums + (first_row + row) * p.pitch + channel + quad * 4);
        if (store && inside) {
            *far = *own;
        } else if (!store) {
            *own = p.from_sums && inside ? *far : make_float4(0, 0, 0, 0);
        }
    }
}

} // namespace spira

#endif
