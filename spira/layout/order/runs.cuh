// spira/layout/order/runs.cuh: how a thread block sorts a run of 1024 positions: it collects the
// run's rows, class by class, from all chunks, and sorts them by key and row.
#ifndef SPIRA_LAYOUT_ORDER_RUNS_CUH
#define SPIRA_LAYOUT_ORDER_RUNS_CUH

#include "sort.cuh"

namespace spira {

enum {
    order_pieces_each = 12, // pieces that a thread looks at together
    order_classes_each = order_classes / order_threads,
};

static_assert(order_pieces_each % 2 == 0, "an odd pitch spreads threads over the banks");

typedef order_shared<order_threads, order_items> order_run_sort;

// What a run's sort keeps in shared memory.
struct order_run_shared {
    union {
        order_run_sort sort;
        struct {
            int32_t head[order_run]; // see order_find_heads
            uint32_t piece[order_threads * (order_pieces_each + 1)];
        } pieces;
    };
    int scan[order_threads / 32];
    int last[order_threads / 32]; // position of the last head of each warp, or -1
    int first_class, last_class;  // those that have rows in the run
    int32_t first_begin;          // the first class's position from the run's first: <= 0
    // The bits that some key of a warp has, and those that some key lacks.
    uint32_t ones[order_threads / 32], zeros[order_threads / 32];
};

// The run of a thread block: positions begin .. begin + rows of a map with `count` rows.
struct order_range {
    int32_t begin, count;
    int rows; // not positive: the run is empty
};

// The rows of neighbouring classes, those of a thread.
struct __align__(16) order_totals {
    int32_t rows[order_classes_each];
};

// ---- collect ------------------------------------------------------------------------------------

// Finds the classes of a run. Called by all threads of a block, which has to wait before it reads
// what is found.
SPIRA_DEVICE void order_find_classes(const order_totals &total, const order_range &run,
                                     order_run_shared &s) {
    int sum = 0;
#pragma unroll
    for (int j = 0; j < order_classes_each; ++j) {
        sum += total.rows[j];
    }
    int32_t at = block_exclusive_sum<order_threads>(sum, s.scan) - run.begin;
#pragma unroll
    for (int j = 0; j < order_classes_each; ++j) {
        const int32_t rows = total.rows[j], c = (int)threadIdx.x * order_classes_each + j;
        if (rows && at <= 0 && at + rows > 0) {
            s.first_class = c;
            s.first_begin = at;
        }
        if (rows && at < run.rows && at + rows >= run.rows) {
            s.last_class = c;
        }
        at += rows;
    }
}

// A place in the sequence of a run's pieces: class by class, chunk by chunk.
struct order_place {
    int c;
    int32_t chunk;
};

SPIRA_DEVICE order_place order_place_at(unsigned piece, unsigned chunks) {
    return {(int)(piece / chunks), (int32_t)(piece % chunks)};
}

SPIRA_DEVICE void order_place_move(order_place &p, const order_place &by, int32_t chunks) {
    p.c += by.c;
    p.chunk += by.chunk;
    if (p.chunk >= chunks) {
        p.chunk -= chunks;
        ++p.c;
    }
}

// Loads the pieces first .. first + order_threads * order_pieces_each of a run; each thread gets
// neighbouring ones, those past the last are empty. A warp loads neighbouring pieces together and
// deals them out through shared memory. piece: of the map; many: pieces of the run, up to 2^31
SPIRA_DEVICE void order_load_pieces(const uint32_t *piece, int32_t runs, int32_t chunks,
                                    unsigned first, unsigned many, order_run_shared &s,
                                    uint32_t (&own)[order_pieces_each]) {
    const int each = order_pieces_each, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned begin = first + (unsigned)(warp * each * 32 + lane);
    const int first_class = s.first_class;
    uint32_t *shared = s.pieces.piece + warp * 32 * (each + 1);
    order_place at = order_place_at(begin, (unsigned)chunks);
    const order_place step = order_place_at(32, (unsigned)chunks);
#pragma unroll
    for (int j = 0; j < each; ++j) {
        own[j] = begin + (unsigned)j * 32 < many
                     ? piece[order_piece_at((unsigned)(first_class + at.c), (uint32_t)at.chunk,
                                            (uint32_t)runs)]
                     : 0;
        order_place_move(at, step, chunks);
    }
    __syncwarp(); // the pieces before are no longer used
#pragma unroll
    for (int j = 0; j < each; ++j) {
        const int to = j * 32 + lane;
        shared[to + to / each] = own[j];
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < each; ++j) {
        own[j] = shared[lane * (each + 1) + j];
    }
}

// Called by all threads of a block, before order_sort_run.
SPIRA_DEVICE void order_clear_heads(order_run_shared &s) {
    for (int p = threadIdx.x; p < order_run; p += order_threads) {
        s.pieces.head[p] = -1;
    }
}

// Writes to head, at the first position of each piece of the run, the index of its first item. The
// heads are clear: -1. Called by all threads of a block; has barriers around it.
//
// piece: of the map; chunks: those that have rows, of `runs`
SPIRA_DEVICE void order_find_heads(const uint32_t *piece, int32_t runs, int32_t chunks,
                                   const order_range &run, order_run_shared &s) {
    const int each = order_pieces_each;
    __syncthreads(); // the classes are known; s.scan is free; the heads are clear
    const unsigned many = (unsigned)(s.last_class - s.first_class + 1) * (unsigned)chunks;
    int32_t place = s.first_begin;
    for (unsigned first = 0; first < many && place < run.rows; first += order_threads * each) {
        uint32_t own[each];
        int sum = 0, all;
        order_load_pieces(piece, runs, chunks, first, many, s, own);
#pragma unroll
        for (int j = 0; j < each; ++j) {
            sum += (int)(own[j] >> 16);
        }
        int at = block_exclusive_sum<order_threads>(sum, s.scan, &all) + place;
        int32_t chunk =
            order_place_at(first + threadIdx.x * (unsigned)each, (unsigned)chunks).chunk;
#pragma unroll
        for (int j = 0; j < each; ++j) {
            const int rows = (int)(own[j] >> 16);
            const int32_t from = chunk * order_run + (int32_t)(own[j] & 0xffff) - min(at, 0);
            if ((rows > 0) & (at < run.rows) & (at + rows > 0)) { // no branches
                s.pieces.head[max(at, 0)] = from;
            }
            at += rows;
            chunk = chunk + 1 < chunks ? chunk + 1 : 0;
        }
        place += all;
        __syncthreads(); // s.scan is free
    }
}

// Finds the item at each position of this thread: the nearest head up to it, plus the distance.
SPIRA_DEVICE void order_follow_heads(order_run_shared &s, int32_t (&from)[order_items]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first = warp * order_items * 32;
    uint32_t heads[order_items];
    int head = -1;
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        heads[i] = __ballot_sync(~0u, s.pieces.head[first + i * 32 + lane] >= 0);
        head = heads[i] ? first + i * 32 + 31 - __clz((int)heads[i]) : head;
    }
    if (lane == 0) {
        s.last[warp] = head;
    }
    __syncthreads();
    const uint32_t before = __ballot_sync(~0u, lane < warp && s.last[lane] >= 0);
    head = before ? s.last[31 - __clz((int)before)] : 0;
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        const uint32_t own = heads[i] & (~0u >> (31 - lane));
        const int place = first + i * 32 + lane;
        const int mine = own ? first + i * 32 + 31 - __clz((int)own) : head;
        from[i] = s.pieces.head[mine] + place - mine;
        head = heads[i] ? first + i * 32 + 31 - __clz((int)heads[i]) : head;
    }
}

// ---- sort ---------------------------------------------------------------------------------------

// Returns the bits in which keys of the run differ. Called by all threads of a block; has a barrier
// inside. rows: of the run
SPIRA_DEVICE uint32_t order_find_differ(int rows, const order_item (&item)[order_items],
                                        order_run_shared &s) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = order_first<order_items>();
    uint32_t ones = 0, zeros = 0;
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        ones |= first + i * 32 < rows ? item[i].key : 0;
        zeros |= first + i * 32 < rows ? ~item[i].key : 0;
    }
    ones = warp_unite(ones);
    zeros = warp_unite(zeros);
    if (lane == 0) {
        s.ones[warp] = ones;
        s.zeros[warp] = zeros;
    }
    __syncthreads();
    const int one = lane % (order_threads / 32);
    return warp_unite(s.ones[one]) & warp_unite(s.zeros[one]);
}

// Loads the items of a run that is not empty and sorts them by key and row. Elements past the last
// row get the largest key and row -1. Called by all threads of a block.
SPIRA_DEVICE void order_sort_run(const order_task &task, const order_scratch &s,
                                 const order_totals &total, const order_range &run,
                                 order_run_shared &shared, order_item (&item)[order_items]) {
    const int first = order_first<order_items>();
    int32_t from[order_items];
    order_find_classes(total, run, shared);
    order_find_heads(s.piece + (int64_t)task.first[order_by_run] * order_classes,
                     order_count_runs(task.request.capacity), order_count_runs(run.count), run,
                     shared);
    order_follow_heads(shared, from);
#pragma unroll
    for (int i = 0; i < order_items; ++i) {
        item[i] = {UINT32_MAX, -1};
        if (first + i * 32 < run.rows) {
            item[i] = s.item[task.first_row + from[i]];
        }
    }
    const uint32_t differ = order_find_differ(run.rows, item, shared);
    order_sort(order_key_bits(task), differ, item, shared.sort);
}

} // namespace spira

#endif
