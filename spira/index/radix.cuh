// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/radix.cuh: a stable radix sort of words, alone or with the rows that they came from.
//
// The sort of sets that are too large for index/sort.cuh and of words that are in no order at all
// (index/unique.cuh). It goes over the digits of the words, least significant first, in passes of
// up to eight bits ("onesweep": Adinets and Merrill, 2022, arXiv 2206.01784):
//
//   count  one kernel counts the digits of all passes
//   pass   one kernel a pass. Each thread block takes a tile of keys, ranks them by their digit and
//          writes them where they belong. How many keys of a digit the tiles in front have comes
//          from a look-back (base/lookback.cuh)
#ifndef SPIRA_INDEX_RADIX_CUH
#define SPIRA_INDEX_RADIX_CUH

#include "../base/async.cuh"
#include "../base/block.cuh"
#include "../base/integer.h"
#include "../base/launch.cuh"
#include "../base/lookback.cuh"
#include "../status.cuh"
#include "../voxel_set.h"
#include "../workspace.h"

namespace spira {

enum {
    radix_digit_bits = 8,
    radix_digits = 1 << radix_digit_bits,
    radix_passes_max = 8,
    radix_threads = 512,
    radix_items = 8, // keys of a thread
    radix_tile = radix_threads * radix_items,
    radix_count_blocks = 256, // thread blocks that count, at most
};

// How a thread block sorts a tile.
template <int threads_, int items_, int digit_bits_>
struct radix_cut {
    enum {
        threads = threads_,
        warps = threads / 32,
        items = items_, // keys of a thread
        tile = threads * items,
        digit_bits = digit_bits_,
        digits = 1 << digit_bits,
    };
    static_assert(threads >= digits, "radix: a thread for each digit");
};
typedef radix_cut<radix_threads, radix_items, radix_digit_bits> radix_cut_alone;

// How a range of bits is cut into digits of `width` bits; the last ones may have fewer, or none.
struct radix_digits_of {
    int first_bit, bits; // the range [first_bit, bits)
    int width, passes;   // at least one pass, which keeps the order if the range is empty
};

// most: bits of a digit; multiple: of the number of passes.
SPIRA_BOTH radix_digits_of radix_digits_make(int first_bit, int bits, int most = radix_digit_bits,
                                             int multiple = 1) {
    radix_digits_of d = {0, 0, 0, multiple};
    if (bits > first_bit) {
        d.first_bit = first_bit;
        d.bits = bits;
        d.passes = (int)round_up(ceil_div(bits - first_bit, most), multiple);
        d.width = (int)ceil_div(bits - first_bit, d.passes);
    }
    return d;
}

// One digit of a word.
struct radix_digit {
    int shift;
    uint32_t mask;
};

SPIRA_BOTH radix_digit radix_digit_of_pass(const radix_digits_of &d, int pass) {
    const int shift = (int)min_of(d.first_bit + pass * d.width, d.bits - (d.bits > 0));
    const int left = d.bits - d.first_bit - pass * d.width;
    return {shift, (1u << max_of(min_of(d.width, left), 0)) - 1};
}

template <typename W>
SPIRA_BOTH uint32_t radix_digit_of(radix_digit d, W word) {
    return (uint32_t)(word >> d.shift) & d.mask;
}

template <typename W>
struct radix_scratch {
    int32_t rows, tiles;
    W *key;         // [rows] keys between two passes
    int32_t *row;   // [rows] their rows; null where keys are sorted alone
    int32_t *drawn; // [radix_passes_max] tiles that have been drawn
    int32_t *count; // [radix_passes_max, radix_digits] keys of each digit
    // [2, tiles, radix_digits] see base/lookback.cuh. Passes alternate between the two halves, and
    // each clears the other one.
    uint32_t *state;
};

// What has to be zero when a sort begins: `drawn`, `count` and the first half of `state`, in one
// piece.
SPIRA_API int64_t radix_cleared(int64_t tiles) {
    return radix_passes_max + radix_passes_max * radix_digits + tiles * radix_digits;
}

// rows: 1 .. INT32_MAX / 2. with_rows: as of radix_sort.
template <typename W>
SPIRA_API void radix_carve(workspace *w, int32_t rows, bool with_rows, radix_scratch<W> *s) {
    *s = {};
    s->rows = rows;
    s->tiles = (int32_t)ceil_div(rows, radix_tile);
    s->key = workspace_take<W>(w, rows);
    s->row = with_rows ? workspace_take<int32_t>(w, rows) : nullptr;
    s->drawn =
        workspace_take<int32_t>(w, radix_cleared(s->tiles) + (int64_t)s->tiles * radix_digits);
    if (s->drawn) {
        s->count = s->drawn + radix_passes_max;
        s->state = (uint32_t *)(s->count + radix_passes_max * radix_digits);
    }
}

// ---- count --------------------------------------------------------------------------------------

// Counts one digit of each lane's key. Called by whole warps. The upper digits of neighbours are
// often the same: one lane counts them all then.
SPIRA_DEVICE void radix_count_digit(int32_t *count, uint32_t digit, bool there) {
    const uint32_t first = (uint32_t)__shfl_sync(~0u, (int)digit, 0);
    if (__all_sync(~0u, there && digit == first)) {
        if (threadIdx.x % 32 == 0) {
            atomicAdd(&count[digit], 32);
        }
    } else if (there) {
        atomicAdd(&count[digit], 1);
    }
}

struct radix_counting {
    radix_digits_of digits;
    int32_t rows;
    int32_t *shared; // [passes, digits] shared memory
    int32_t *count;  // [passes, digits] zeros before
};

// Counts the digits of all passes of the tiles first, first + apart, ... key(i): key i, called once
// for each.
template <typename C, typename W, typename F>
SPIRA_DEVICE void radix_count_tiles(const radix_counting &to, int64_t first, int64_t apart,
                                    const F &key) {
    const int thread = (int)threadIdx.x, all = to.digits.passes * C::digits;
    for (int i = thread; i < all; i += C::threads) {
        to.shared[i] = 0;
    }
    __syncthreads();
    for (first *= C::tile; first < to.rows; first += apart * C::tile) {
        W mine[C::items];
#pragma unroll
        for (int j = 0; j < C::items; ++j) {
            const int64_t i = first + j * C::threads + thread;
            mine[j] = i < to.rows ? key((int32_t)i) : 0;
        }
        for (int pass = 0; pass < to.digits.passes; ++pass) {
            const radix_digit digit = radix_digit_of_pass(to.digits, pass);
#pragma unroll
            for (int j = 0; j < C::items; ++j) {
                radix_count_digit(to.shared + pass * C::digits, radix_digit_of(digit, mine[j]),
                                  first + j * C::threads + thread < to.rows);
            }
        }
    }
    __syncthreads();
    for (int i = thread; i < all; i += C::threads) {
        if (to.shared[i]) {
            atomicAdd(&to.count[i], to.shared[i]);
        }
    }
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(radix_threads)
    radix_count_kernel(radix_digits_of digits, const W *key, int32_t rows, int32_t *count) {
    __shared__ int32_t counts[radix_passes_max * radix_digits];
    const radix_counting to = {digits, rows, counts, count};
    radix_count_tiles<radix_cut_alone, W>(to, blockIdx.x, gridDim.x,
                                          [&](int32_t i) { return key[i]; });
}

// ---- pass ---------------------------------------------------------------------------------------

template <typename W>
struct radix_pass {
    int32_t rows;
    radix_digit digit;
    const W *key_in;
    W *key_out;
    const int32_t *row_in; // null: the rows are 0, 1, 2, ...
    int32_t *row_out;
    int32_t *drawn;       // [1]
    const int32_t *count; // [C::digits]
    uint32_t *state;      // [tiles, C::digits]
    uint32_t *next_state; // [tiles, C::digits] of the next pass, which this one clears
};

// The last pass writes `sorted` and `order`; order: null where keys are sorted alone.
template <typename C, typename W>
SPIRA_BOTH radix_pass<W> radix_pass_of(const radix_scratch<W> &s, W *sorted, int32_t *order,
                                       const radix_digits_of &digits, int pass) {
    const bool last = (digits.passes - pass) % 2 != 0, odd = pass % 2 != 0;
    const int64_t half = (int64_t)s.tiles * C::digits;
    return {s.rows,
            radix_digit_of_pass(digits, pass),
            last ? s.key : sorted,
            last ? sorted : s.key,
            pass == 0 || !order ? nullptr
            : last              ? s.row
                                : order,
            last ? order : s.row,
            s.drawn + pass,
            s.count + pass * C::digits,
            s.state + (odd ? half : 0),
            s.state + (odd ? 0 : half)};
}

template <typename C, typename W>
struct radix_shared {
    union {
        // Keys of each warp with each digit; then where those of the warp begin in the tile.
        int32_t count[C::warps][C::digits];
        W key[C::tile]; // the tile in the order of its digits
        int32_t row[C::tile];
    };
    int32_t base[C::digits]; // place of a key among all minus its place in the tile
    int sums[C::warps];      // of block_exclusive_sum
    int tile;
};

// Ranks the keys of a warp that have the same digit, in their order: item by item, and lane by lane
// within one. count [C::digits], the warp's: becomes how many have each digit.
template <typename C, typename W>
SPIRA_DEVICE void radix_rank(const W (&key)[C::items], radix_digit d, int32_t *count,
                             int (&rank)[C::items]) {
    const int lane = (int)(threadIdx.x % 32);
    for (int digit = lane; digit < C::digits; digit += 32) {
        count[digit] = 0;
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < C::items; ++j) {
        const uint32_t digit = radix_digit_of(d, key[j]);
        const uint32_t peers = warp_peers<C::digit_bits>(digit), below = peers & ((1u << lane) - 1);
        const int before = count[digit];
        __syncwarp(); // all have read
        if (below == 0) {
            count[digit] = before + __popc(peers);
        }
        __syncwarp();
        rank[j] = before + __popc(below);
    }
}

// Keys of the tile with digit threadIdx.x; 0 in the threads behind the digits.
template <typename C, typename W>
SPIRA_DEVICE int radix_sum_warps(const radix_shared<C, W> &s) {
    int sum = 0;
    if (threadIdx.x < C::digits) {
#pragma unroll
        for (int warp = 0; warp < C::warps; ++warp) {
            sum += s.count[warp][threadIdx.x];
        }
    }
    return sum;
}

// Counts of the warps to where their keys begin in the tile; `start`: where those of the digit do.
template <typename C, typename W>
SPIRA_DEVICE void radix_lay_out(radix_shared<C, W> *s, int start) {
    if (threadIdx.x < C::digits) {
#pragma unroll
        for (int warp = 0; warp < C::warps; ++warp) {
            const int count = s->count[warp][threadIdx.x];
            s->count[warp][threadIdx.x] = start;
            start += count;
        }
    }
}

// Finds where the tile's keys of each digit belong among all keys, and publishes where they end.
// start, count: place in the tile, and number, of the keys with digit threadIdx.x. Called by all
// threads of a block, for tile 0 with a barrier inside.
template <typename C, typename W>
SPIRA_DEVICE void radix_find_base(const radix_pass<W> &p, radix_shared<C, W> *s, int tile,
                                  int start, int count) {
    const bool has_digit = threadIdx.x < C::digits;
    int before = 0;
    if (tile == 0) {
        before = block_exclusive_sum<C::threads>(has_digit ? p.count[threadIdx.x] : 0, s->sums);
    } else if (has_digit) {
        before = lookback_sum(p.state + threadIdx.x, tile, C::digits);
    }
    if (has_digit) {
        lookback_publish(p.state + (int64_t)tile * C::digits + threadIdx.x, lookback_all,
                         before + count);
        s->base[threadIdx.x] = before - start;
    }
}

// Sorts a tile by one digit. Its item j of a lane is key (warp * C::items + j) * 32 + lane of it,
// so that reads are coalesced and the order is that of warp, item, lane.
template <typename C, bool with_rows, typename W>
SPIRA_DEVICE void radix_pass_tile(const radix_pass<W> &p, radix_shared<C, W> *s, int tile) {
    const int thread = (int)threadIdx.x, warp = thread / 32;
    const int32_t first = tile * C::tile, count = min(p.rows - first, (int)C::tile);
    const int mine = warp * 32 * C::items + thread % 32;

    // Read keys. What is missing behind the last key counts as highest and stands behind all.
    W key[C::items];
#pragma unroll
    for (int j = 0; j < C::items; ++j) {
        key[j] = mine + j * 32 < count ? p.key_in[first + mine + j * 32] : (W) ~(W)0;
    }

    // Rank them within the tile.
    int place[C::items];
    radix_rank<C>(key, p.digit, s->count[warp], place);
    __syncthreads();
    const int same = radix_sum_warps(*s);
    if (thread < C::digits) {
        const int64_t at = (int64_t)tile * C::digits + thread;
        if (tile > 0) {
            lookback_publish(p.state + at, lookback_tile, same);
        }
        p.next_state[at] = 0;
    }
    const int start = block_exclusive_sum<C::threads>(same, s->sums);
    radix_lay_out(s, start);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < C::items; ++j) {
        place[j] += s->count[warp][radix_digit_of(p.digit, key[j])];
    }
    __syncthreads(); // the keys take the place of the counts

    // Put them in order in shared memory, find where each digit belongs, and write.
#pragma unroll
    for (int j = 0; j < C::items; ++j) {
        s->key[place[j]] = key[j];
    }
    radix_find_base(p, s, tile, start, same);
    __syncthreads();
    int to[C::items] = {};
#pragma unroll
    for (int j = 0; j < C::items; ++j) {
        const int i = j * C::threads + thread;
        if (i < count) {
            const W word = s->key[i];
            to[j] = s->base[radix_digit_of(p.digit, word)] + i;
            p.key_out[to[j]] = word;
        }
    }

    // The rows go the same way.
    if constexpr (with_rows) {
        int32_t row[C::items];
#pragma unroll
        for (int j = 0; j < C::items; ++j) {
            row[j] = first + mine + j * 32;
            if (p.row_in && mine + j * 32 < count) {
                row[j] = p.row_in[row[j]];
            }
        }
        __syncthreads(); // the rows take the place of the keys
#pragma unroll
        for (int j = 0; j < C::items; ++j) {
            s->row[place[j]] = row[j];
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < C::items; ++j) {
            const int i = j * C::threads + thread;
            if (i < count) {
                p.row_out[to[j]] = s->row[i];
            }
        }
    }
}

template <typename W, bool with_rows>
SPIRA_KERNEL void __launch_bounds__(radix_threads, 2) radix_pass_kernel(radix_pass<W> p) {
    __shared__ radix_shared<radix_cut_alone, W> s;
    radix_pass_tile<radix_cut_alone, with_rows>(p, &s, block_ticket(p.drawn, &s.tile));
}

// ---- all of it ----------------------------------------------------------------------------------

// Where the caller writes the keys [rows] before a sort into `sorted`: that array itself or the
// scratch, so that the last pass ends in `sorted`.
template <typename W>
SPIRA_API W *radix_input(const radix_scratch<W> *s, W *sorted, int first_bit, int bits) {
    return radix_digits_make(first_bit, bits).passes % 2 ? s->key : sorted;
}

// Sorts keys by their bits [first_bit, bits), stably.
//
// inputs   radix_input(s, sorted, first_bit, bits) [rows]: the keys; overwritten
//          s: of radix_carve; 0 <= first_bit, bits <= 8 * sizeof(W)
// outputs  sorted [rows]
//          with_rows: order [rows]: the row of each key, a permutation of 0 .. rows - 1
// Asynchronous, deterministic.
// cost     one kernel that counts, and one for each eight bits
template <bool with_rows, typename W>
SPIRA_API status radix_sort(const radix_scratch<W> *s, W *sorted, int32_t *order, int first_bit,
                            int bits, cudaStream_t stream) {
    const radix_digits_of digits = radix_digits_make(first_bit, bits);
    SPIRA_TRY(status_from_cuda(
        cudaMemsetAsync(s->drawn, 0, (size_t)radix_cleared(s->tiles) * sizeof(int32_t), stream),
        "radix sort"));
    const unsigned blocks = (unsigned)min_of(s->tiles, radix_count_blocks);
    SPIRA_TRY(kernel_launch(radix_count_kernel<W>, {blocks, radix_threads, stream, "radix sort"},
                            digits, radix_input(s, sorted, first_bit, bits), s->rows, s->count));
    for (int pass = 0; pass < digits.passes; ++pass) {
        SPIRA_TRY(kernel_launch(radix_pass_kernel<W, with_rows>,
                                {(unsigned)s->tiles, radix_threads, stream, "radix sort"},
                                radix_pass_of<radix_cut_alone>(*s, sorted, order, digits, pass)));
    }
    return status_success();
}

// ---- the voxels of a set by a key ---------------------------------------------------------------

// The order of a set's voxels by keys of 64 bits, equal keys in the order of the set.
struct radix_voxels {
    radix_scratch<uint64_t> radix;
    uint64_t *sorted; // [capacity] the keys, ascending
};

SPIRA_API void radix_voxels_carve(workspace *w, int32_t capacity, radix_voxels *s) {
    radix_carve(w, capacity, true, &s->radix);
    s->sorted = workspace_take<uint64_t>(w, capacity);
}

enum { radix_voxel_threads = 256 };

// key [capacity]: radix_voxel_key(of, i), called for the voxels up to the count; then `end`, which
// is above all of them. of.args has the set and what receives its status.
template <typename K>
SPIRA_KERNEL void __launch_bounds__(radix_voxel_threads)
    radix_voxel_kernel(const __grid_constant__ K of, uint64_t end, uint64_t *key) {
    const int32_t i = (int32_t)(blockIdx.x * radix_voxel_threads + threadIdx.x);
    if (i == 0) {
        device_status_raise_count(of.args.trouble, *of.args.set.count, of.args.set.capacity);
    }
    if (i < of.args.set.capacity) {
        key[i] = i < voxel_set_count(of.args.set) ? radix_voxel_key(of, i) : end;
    }
}

// A kernel for each row of a set's capacity.
template <typename W>
SPIRA_API launch_config radix_voxels_launch(const voxel_set<W> &set, cudaStream_t stream,
                                            const char *name) {
    return {(unsigned)ceil_div(set.capacity, radix_voxel_threads), radix_voxel_threads, stream,
            name};
}

// Sorts them: s->sorted, and order [capacity]: the row of each. bits: of the keys and of their end.
template <typename K>
SPIRA_API status radix_voxels_sort(const radix_voxels *s, const K &of, int bits, int32_t *order,
                                   const launch_config &as) {
    SPIRA_TRY(kernel_launch(radix_voxel_kernel<K>, as, of, (uint64_t)1 << (bits - 1),
                            radix_input(&s->radix, s->sorted, 0, bits)));
    return radix_sort<true>(&s->radix, s->sorted, order, 0, bits, as.stream);
}

} // namespace spira

#endif
